/* SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L
#include "os/lock.h"

#include <sched.h>

#include "os/futex.h"
#include "os/spin.h"

#define SPINS     100   /* about as long as a decision takes under the lock */
#define YIELDS    50    /* the holder has lost its processor */
#define MOMENT_NS 50000 /* nobody wakes who sleeps: whoever drops the lock does not know of him */

static bool try_again(struct lock *lock)
{
    return atomic_load_explicit(&lock->taken, memory_order_relaxed) == 0 && lock_try(lock);
}

/* No way to wait here is a point at which a thread can be cancelled: it would leave what it was about half
 * done. */
void weir_lock_wait(struct lock *lock)
{
    for (int i = 0; !try_again(lock); i++) {
        if (i < SPINS)
            spin_pause();
        else if (i < SPINS + YIELDS)
            (void)sched_yield();
        else
            weir_futex_wait(&lock->taken, 1, weir_monotonic_ns() + MOMENT_NS);
    }
}
