/* SPDX-License-Identifier: MIT */
/*
 * fill=thread: the pools of a hybrid limit are filled by a thread, about a thousand times a second, as in
 * EngineBlock, and not by every caller. The core fills pools up to the time it is told; so a filler is a
 * clock that moves once a millisecond, and callers ask as of its time.
 */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdlib.h>

#include "limiter/limiter.h"
#include "os/clock.h"
#include "os/thread.h"
#include "os/wait.h"

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

struct filler *weir_filler_new(void)
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

void weir_filler_free(struct filler *filler)
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

void weir_filler_forget(struct filler *filler)
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
