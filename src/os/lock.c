/* SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L
#include "os/lock.h"

#include <sched.h>

#include "base/sat.h"
#include "os/futex.h"
#include "os/spin.h"

#define SPINS      100 /* about as long as a decision takes under the lock */
#define YIELDS     4   /* the holder has lost its processor */
#define NAP_NS     INT64_C(50000)
#define NAP_NS_MAX INT64_C(10000000)

static bool try_again(struct lock *lock)
{
    return atomic_load_explicit(&lock->state, memory_order_relaxed) == LOCK_FREE && lock_try(lock);
}

/* A thread that has slept leaves the lock marked, because it does not know whether others sleep. Naps become
 * longer: only a wake that was missed needs them, and to miss two is unlikely. */
static void sleep_until_taken(struct lock *lock)
{
    int64_t nap_ns = NAP_NS;
    while (atomic_exchange_explicit(&lock->state, LOCK_MARKED, memory_order_acquire) != LOCK_FREE) {
        weir_futex_wait(&lock->state, LOCK_MARKED, weir_monotonic_ns() + nap_ns);
        nap_ns = min64(2 * nap_ns, NAP_NS_MAX);
    }
}

/* Wakes one thread, which marks the lock again for the next. */
void weir_lock_wake(struct lock *lock)
{
    atomic_store_explicit(&lock->state, LOCK_FREE, memory_order_release);
    weir_futex_wake(&lock->state, 1); /* the lock may be gone: only its address counts */
}

/* No way to wait here is a point at which a thread can be cancelled: it would leave what it was about half
 * done. */
void weir_lock_wait(struct lock *lock)
{
    for (int i = 0; i < SPINS + YIELDS; i++) {
        if (try_again(lock))
            return;
        if (i < SPINS)
            spin_pause();
        else
            (void)sched_yield();
    }
    sleep_until_taken(lock);
}
