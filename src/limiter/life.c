/* SPDX-License-Identifier: MIT */
/*
 * How limiters begin, change and end.
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "limiter/balance_limiter.h"
#include "limiter/change.h"
#include "limiter/life.h"
#include "limiter/limiter.h"
#include "os/clock.h"
#include "os/thread.h"
#include "os/wait.h"

/*
 * fill=thread: the pools of a hybrid limit are filled by a thread, about a thousand times a second, as in
 * EngineBlock, and not by every caller. The core fills pools up to the time it is told; so a filler is a
 * clock that moves once a millisecond, and callers ask as of its time.
 */

struct filler {
    atom64 time;
    _Atomic uint32_t ended;
    atom64 absent; /* in a forked child */
    pthread_t thread;
};

static void *filler_main(void *arg)
{
    struct filler *filler = arg;
    while (atomic_load_explicit(&filler->ended, memory_order_acquire) == 0) {
        int64_t now = weir_now();
        atom_store(&filler->time, (uint64_t)now, memory_order_release);
        weir_wait_until(&filler->ended, 0, now + WEIR_MS, false);
    }
    return NULL;
}

static struct filler *filler_new(void)
{
    struct filler *filler = calloc(1, sizeof *filler);
    if (!filler)
        return NULL;
    atom_store(&filler->time, (uint64_t)weir_now(), memory_order_relaxed);
    if (weir_thread_start(&filler->thread, filler_main, filler))
        return filler;
    free(filler);
    return NULL;
}

static void filler_free(struct filler *filler)
{
    if (!filler)
        return;
    if (atom_load(&filler->absent, memory_order_relaxed) == 0) {
        atomic_store_explicit(&filler->ended, 1, memory_order_release);
        weir_wait_wake(&filler->ended);
        pthread_join(filler->thread, NULL);
    }
    free(filler);
}

static void filler_forget(struct filler *filler)
{
    if (filler)
        atom_store(&filler->absent, 1, memory_order_relaxed);
}

int64_t weir_filler_time(const struct filler *filler, int64_t now)
{
    if (atom_load(&filler->absent, memory_order_relaxed) != 0)
        return now; /* callers fill */
    return min64(now, (int64_t)atom_load(&filler->time, memory_order_acquire));
}

/*
 * fork(2) copies the limiters of a process, but only the thread that called it. All locks are taken before,
 * so that no state is copied half written; the child finds them free, nobody waiting, and no filler threads.
 * The units of a balance belong to the parent: the child's copy refuses everything.
 */

static struct lock all_lock;
static struct weir_limiter *all;
static pthread_once_t forks_once = PTHREAD_ONCE_INIT;

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
        ASSERT((limiter->waiting == 0) == !limiter->first);
        filler_forget(limiter->filler);
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

static void limiters_join(struct weir_limiter *limiter)
{
    (void)pthread_once(&forks_once, register_limiter_forks);
    lock_take(&all_lock);
    limiter->next = all;
    if (all)
        all->prev = limiter;
    all = limiter;
    lock_drop(&all_lock);
}

static void limiters_leave(struct weir_limiter *limiter)
{
    lock_take(&all_lock);
    *(limiter->prev ? &limiter->prev->next : &all) = limiter->next;
    if (limiter->next)
        limiter->next->prev = limiter->prev;
    lock_drop(&all_lock);
}

/* ---- begin ---- */

static struct weir_limiter *limiter_alloc(void)
{
    struct weir_limiter *limiter = aligned_alloc(_Alignof(struct weir_limiter), sizeof *limiter);
    if (!limiter)
        return NULL;
    memset(limiter, 0, sizeof *limiter);
    weir_word_init(&limiter->word);
    limiter->processors = sysconf(_SC_NPROCESSORS_ONLN);
    atom_store(&limiter->holders, 1, memory_order_relaxed);
    atom_store(&limiter->handle_generation, 1, memory_order_relaxed); /* 0 is what a wiped page says */
    return limiter;
}

static bool wants_filler(const struct weir_policy *policy)
{
    for (size_t i = 0; i < policy->count; i++)
        if (policy->limits[i].spec.fill == WEIR_FILL_THREAD)
            return true;
    return false;
}

/* Gives the limiter its first policy and a fresh state. */
static bool limiter_begin(struct weir_limiter *limiter, struct weir_policy *policy, int64_t now)
{
    int64_t word[WORD_STATE] = {0};
    if (wants_filler(policy)) {
        limiter->filler = filler_new();
        if (!limiter->filler)
            return false;
    }
    if (weir_word_fits(policy)) {
        weir_state_init(policy, word, now);
        weir_word_put(&limiter->word, policy, word);
    } else {
        limiter->state = malloc(weir_policy_state_size(policy));
        if (!limiter->state)
            return false;
        weir_state_init(policy, limiter->state, now);
    }
    limiter->said = limiter->policy = policy;
    weir_limiter_note_alone(limiter);
    return true;
}

static struct weir_limiter *limiter_make(struct weir_policy *policy, struct weir_error *err)
{
    if (!policy)
        return NULL;
    struct weir_limiter *limiter = limiter_alloc();
    if (limiter && limiter_begin(limiter, policy, weir_now())) {
        limiters_join(limiter);
        return limiter;
    }
    weir_error_set(err, ENOMEM, "out of memory, or no thread to be had");
    if (limiter)
        filler_free(limiter->filler);
    free(limiter);
    weir_policy_free(policy);
    return NULL;
}

struct weir_limiter *weir_limiter_new(const char *limits, struct weir_error *err)
{
    return limiter_make(weir_policy_new(limits, err), err);
}

struct weir_limiter *weir_limiter_from(const struct weir_spec *specs, size_t count, struct weir_error *err)
{
    return limiter_make(weir_policy_from(specs, count, err), err);
}

/* No state, and the word stays held, with a burst of 0: whoever asks it is sent on. */
struct weir_limiter *weir_balance_limiter(struct lease_balance *balance, const char *text,
                                          struct weir_error *err)
{
    struct weir_policy *policy = weir_policy_new(text, err);
    if (!policy)
        return NULL;
    struct weir_limiter *limiter = limiter_alloc();
    if (!limiter) {
        weir_error_set(err, ENOMEM, "out of memory");
        weir_policy_free(policy);
        return NULL;
    }
    limiter->said = limiter->policy = policy;
    limiter->balance = balance;
    limiters_join(limiter);
    return limiter;
}

bool weir_limiter_set_name(struct weir_limiter *limiter, const char *name)
{
    limiter->name = strdup(name);
    return limiter->name != NULL;
}

/* ---- end ---- */

void weir_limiter_destroy(struct weir_limiter *limiter)
{
    struct lease_balance *balance = weir_limiter_balance(limiter);
    if (balance)
        balance->ops->free(balance);
    limiters_leave(limiter);
    filler_free(limiter->filler);
    weir_listeners_end(&limiter->listeners);
    if (limiter->policy != limiter->said)
        weir_policy_free(limiter->policy);
    weir_policy_free(limiter->said);
    free(limiter->state);
    free(limiter->name);
    free(limiter);
}

struct weir_limiter *weir_limiter_ref(struct weir_limiter *limiter)
{
    if (limiter)
        (void)atom_add(&limiter->holders, 1, memory_order_relaxed);
    return limiter;
}

static void refuse_to_end(const struct weir_limiter *limiter)
{
#ifndef NDEBUG
    fprintf(stderr, "weir: weir_limiter_free while %lld threads wait for the limiter\n",
            (long long)limiter->waiting);
    abort();
#else
    (void)limiter;
#endif
}

void weir_limiter_free(struct weir_limiter *limiter)
{
    if (!limiter || atom_add(&limiter->holders, UINT64_MAX, memory_order_acq_rel) != 1)
        return;
    lock_take(&limiter->lock);
    bool waited_for = limiter->waiting > 0;
    if (waited_for) {
        refuse_to_end(limiter);
        limiter->ending = true;
        weir_limiter_wake(limiter);
        if (limiter->balance && limiter->balance->ops->cancel)
            limiter->balance->ops->cancel(limiter->balance);
    }
    lock_drop(&limiter->lock);
    if (!waited_for)
        weir_limiter_destroy(limiter);
}

/* ---- change ---- */

/* A policy that wants the filler thread finds one; which is left over afterwards is given back. */
static void swap_filler(struct weir_limiter *limiter, const struct weir_policy *next, struct filler **spare)
{
    if (!wants_filler(next)) {
        *spare = limiter->filler;
        limiter->filler = NULL;
    } else if (!limiter->filler) {
        limiter->filler = *spare;
        *spare = NULL;
    }
}

/* Is it `blocked`, and nothing else? That is a pause, not another limit: what was saved and spent is kept. */
static bool is_policy_pause(const struct weir_policy *policy)
{
    return policy->count == 1 && policy->limits[0].spec.algo == WEIR_BLOCKED;
}

static bool is_same_policy(const struct weir_policy *policy, const struct weir_policy *next)
{
    bool same = policy->count == next->count;
    for (size_t i = 0; same && i < next->count; i++)
        same = next->limits[i].spec.verb == WEIR_VERB_NONE &&
               memcmp(&policy->limits[i].spec, &next->limits[i].spec, sizeof(struct weir_spec)) == 0;
    return same;
}

static bool change_locked(struct weir_limiter *limiter, int64_t now, struct weir_policy *next,
                          struct filler **spare)
{
    struct weir_policy *said = limiter->said;
    if (is_policy_pause(next) && !is_policy_pause(limiter->policy)) {
        if (!weir_limiter_pause(limiter))
            return false;
    } else {
        if (wants_filler(next) && !limiter->filler && !*spare)
            return false;
        if (!weir_limiter_install(limiter, next, now, NULL))
            return false;
        swap_filler(limiter, next, spare);
        weir_limiter_note_alone(limiter);
    }
    limiter->said = next;
    if (said != limiter->policy)
        weir_policy_free(said);
    return true;
}

/* Threads begin and end outside of the lock. */
static bool limiter_change(struct weir_limiter *limiter, int64_t now, struct weir_policy *next,
                           struct weir_error *err)
{
    if (!next)
        return false;
    lock_take(&limiter->lock);
    bool has_filler = limiter->filler;
    lock_drop(&limiter->lock);
    struct filler *spare = wants_filler(next) && !has_filler ? filler_new() : NULL;
    lock_take(&limiter->lock);
    bool same = is_same_policy(limiter->said, next);
    bool done = same || change_locked(limiter, now, next, &spare);
    lock_drop(&limiter->lock);
    filler_free(spare);
    if (!done || same)
        weir_policy_free(next);
    if (!done)
        weir_error_set(err, ENOMEM, "out of memory, or no thread to be had");
    return done;
}

static bool reject_policy_change(const struct weir_limiter *limiter, struct weir_error *err)
{
    if (limiter)
        return weir_limiter_balance_refuse(err, "use weir quota set");
    weir_error_set(err, EINVAL, "no limiter to set (NULL)");
    return false;
}

bool weir_limiter_set_at(struct weir_limiter *limiter, int64_t now_ns, const char *limits,
                         struct weir_error *err)
{
    if (!limiter || limiter->balance)
        return reject_policy_change(limiter, err);
    return limiter_change(limiter, now_ns, weir_policy_new(limits, err), err);
}

bool weir_limiter_set(struct weir_limiter *limiter, const char *limits, struct weir_error *err)
{
    return weir_limiter_set_at(limiter, weir_now(), limits, err);
}

bool weir_limiter_set_from(struct weir_limiter *limiter, const struct weir_spec *specs, size_t count,
                           struct weir_error *err)
{
    if (!limiter || limiter->balance)
        return reject_policy_change(limiter, err);
    return limiter_change(limiter, weir_now(), weir_policy_from(specs, count, err), err);
}

size_t weir_limiter_text(struct weir_limiter *limiter, char *text, size_t size)
{
    struct weir_spec specs[WEIR_LIMITS_MAX];
    if (!limiter)
        return 0;
    lock_take(&limiter->lock);
    size_t count = limiter->said->count;
    for (size_t i = 0; i < count; i++)
        specs[i] = limiter->said->limits[i].spec;
    lock_drop(&limiter->lock);
    return weir_spec_format(specs, count, text, size);
}

/* ---- events ---- */

bool weir_limiter_listen(struct weir_limiter *limiter, weir_listener *listener, void *arg)
{
    return limiter && listener && weir_listeners_add(&limiter->listeners, listener, arg);
}

bool weir_limiter_unlisten(struct weir_limiter *limiter, weir_listener *listener, void *arg)
{
    return limiter && weir_listeners_remove(&limiter->listeners, listener, arg);
}

void weir_limiter_notify(struct weir_limiter *limiter, int32_t kind, int32_t reason, int64_t n, int64_t now)
{
    struct weir_event event = {.kind = kind,
                               .reason = reason,
                               .n = n,
                               .time_ns = now,
                               .name = limiter->name ? limiter->name : "",
                               .limiter = limiter};
    weir_listeners_notify(&limiter->listeners, &event);
}
