/* SPDX-License-Identifier: MIT */
/*
 * A lock of four bytes for sections that last some nanoseconds. It is taken by one exchange and dropped by
 * one store, inlined: half of what a mutex costs, which is dropped by an exchange to learn of sleepers. A
 * thread that finds it taken spins, then lets others run, then marks the lock and sleeps until it is dropped,
 * so that a holder of lower priority gets its turn.
 *
 * The drop looks for the mark before it stores, because another thread may free the lock once it is dropped.
 * If the holder is stopped between that load and the store, a thread may mark the lock and go to sleep, and
 * the drop does not wake it: for this case a sleep ends by itself, the first one after 50 us.
 */
#ifndef WEIR_OS_LOCK_H
#define WEIR_OS_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { LOCK_FREE, LOCK_TAKEN, LOCK_MARKED }; /* marked: taken, and threads may sleep */

struct lock {
    _Atomic uint32_t state;
};

void weir_lock_wait(struct lock *lock);
__attribute__((cold)) void weir_lock_wake(struct lock *lock); /* drops a lock that is marked */

static inline bool lock_try(struct lock *lock)
{
    uint32_t seen = LOCK_FREE;
    return atomic_compare_exchange_strong_explicit(&lock->state, &seen, LOCK_TAKEN, memory_order_acquire,
                                                   memory_order_relaxed);
}

static inline void lock_take(struct lock *lock)
{
    if (__builtin_expect(!lock_try(lock), 0))
        weir_lock_wait(lock);
}

static inline void lock_drop(struct lock *lock)
{
    if (__builtin_expect(atomic_load_explicit(&lock->state, memory_order_relaxed) == LOCK_MARKED, 0))
        weir_lock_wake(lock);
    else
        atomic_store_explicit(&lock->state, LOCK_FREE, memory_order_release);
}

#endif
