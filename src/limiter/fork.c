/* SPDX-License-Identifier: MIT */
/*
 * fork(2) copies the limiters of a process, but only the thread that called it. All locks are taken before,
 * so that no state is copied half written; the child finds them free, nobody waiting, and no filler threads.
 * The units of a balance belong to the parent: the child's copy refuses everything.
 */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>

#include "limiter/balance_limiter.h"
#include "limiter/limiter.h"

static struct lock all_lock;
static struct weir_limiter *all;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void lock_limiters_before_fork(void)
{
    lock_take(&all_lock);
    for (struct weir_limiter *limiter = all; limiter; limiter = limiter->next)
        lock_take(&limiter->lock);
}

static void unlock_limiters_in_parent(void)
{
    for (struct weir_limiter *limiter = all; limiter; limiter = limiter->next)
        lock_drop(&limiter->lock);
    lock_drop(&all_lock);
}

static void reset_limiters_in_child(void)
{
    for (struct weir_limiter *limiter = all; limiter; limiter = limiter->next) {
        limiter->first = limiter->last = NULL;
        limiter->waiting = 0;
        weir_filler_forget(limiter->filler);
        if (limiter->balance)
            limiter->balance = &weir_balance_orphan;
        lock_drop(&limiter->listeners.lock); /* it guards one pointer, which is whole */
    }
    unlock_limiters_in_parent();
}

static void register_limiter_forks(void)
{
    (void)pthread_atfork(lock_limiters_before_fork, unlock_limiters_in_parent, reset_limiters_in_child);
}

void weir_fork_join(struct weir_limiter *limiter)
{
    (void)pthread_once(&once, register_limiter_forks);
    lock_take(&all_lock);
    limiter->next = all;
    if (all)
        all->prev = limiter;
    all = limiter;
    lock_drop(&all_lock);
}

void weir_fork_leave(struct weir_limiter *limiter)
{
    lock_take(&all_lock);
    *(limiter->prev ? &limiter->prev->next : &all) = limiter->next;
    if (limiter->next)
        limiter->next->prev = limiter->prev;
    lock_drop(&all_lock);
}
