/* SPDX-License-Identifier: MIT */
/*
 * A lock of four bytes for sections that last some nanoseconds. It is taken by one exchange and dropped by
 * one store, inlined: half of what a mutex costs, which has to look for sleepers when it is dropped. Who
 * finds it taken spins, then lets others run, then sleeps for a moment, so that a holder of lower priority
 * gets its turn.
 */
#ifndef WEIR_OS_LOCK_H
#define WEIR_OS_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct lock {
    _Atomic uint32_t taken;
};

void weir_lock_wait(struct lock *lock);

static inline bool lock_try(struct lock *lock)
{
    return atomic_exchange_explicit(&lock->taken, 1, memory_order_acquire) == 0;
}

static inline void lock_take(struct lock *lock)
{
    if (__builtin_expect(!lock_try(lock), 0))
        weir_lock_wait(lock);
}

static inline void lock_drop(struct lock *lock)
{
    atomic_store_explicit(&lock->taken, 0, memory_order_release);
}

#endif
