/* SPDX-License-Identifier: MIT */
/*
 * Stands in front of src/os/lock.h: the same names, but a lock is one step of the explorer, for which a
 * thread waits until the lock is free.
 */
#ifndef WEIR_OS_LOCK_H
#define WEIR_OS_LOCK_H

#include "explore/explore.h"

struct lock {
    _Atomic uint32_t word; /* its address is all that counts */
};

static inline void lock_take(struct lock *lock)
{
    explore_lock(lock);
}

/* It never finds the lock taken: then it would have done nothing. */
static inline bool lock_try(struct lock *lock)
{
    explore_lock(lock);
    return true;
}

static inline void lock_drop(struct lock *lock)
{
    explore_unlock(lock);
}

#endif
