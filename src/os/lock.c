/* SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L
#include "os/lock.h"

#include <errno.h>
#include <sched.h>
#include <time.h>

#include "os/spin.h"

#define SPINS  100 /* about as long as a decision takes under the lock */
#define YIELDS 50  /* the holder has lost its processor */

static bool try_again(struct lock *lock)
{
    return atomic_load_explicit(&lock->taken, memory_order_relaxed) == 0 && lock_try(lock);
}

void weir_lock_wait(struct lock *lock)
{
    static const struct timespec moment = {.tv_nsec = 50000};
    int saved = errno;
    for (int i = 0; !try_again(lock); i++) {
        if (i < SPINS)
            spin_pause();
        else if (i < SPINS + YIELDS)
            (void)sched_yield();
        else
            (void)nanosleep(&moment, NULL);
    }
    errno = saved;
}
