/* SPDX-License-Identifier: MIT */
/*
 * Threads that wait in acquire, one behind the other, under a clock that is set by hand. Nothing here sleeps:
 * a test goes on when weir_limiter_stat shows what it waits for.
 */
#ifndef WEIR_TESTS_THREADS_CROWD_H
#define WEIR_TESTS_THREADS_CROWD_H

#include <pthread.h>
#include <stdatomic.h>

#include "weir.h"

struct crowd_wait {
    struct weir_limiter *limiter;
    int64_t n, timeout_ns;
    struct weir_stop stop;
    pthread_t thread;
    struct weir_verdict verdict;
    int64_t ended_ns; /* by the clock, when it came back */
    atomic_bool ended;
};

struct crowd {
    struct weir_limiter *limiter;
    struct crowd_wait *waits;
    size_t count;
};

/* A crowd of threads that wait for n units each; returns when all of them wait. */
struct crowd *crowd_new(struct weir_limiter *limiter, size_t count, int64_t n);
/* All of them have ended. */
void crowd_free(struct crowd *crowd);

/* One more, and returns once it waits behind the others, or has its answer. */
void crowd_add(struct crowd *crowd, int64_t n, int64_t timeout_ns);

/* So many more, in any order. */
void crowd_add_many(struct crowd *crowd, size_t count, int64_t n);

size_t crowd_ended(const struct crowd *crowd);
/* Until so many have ended. */
void crowd_await(const struct crowd *crowd, size_t ended);
/* Until this one has ended. */
void crowd_await_one(const struct crowd *crowd, size_t which);
/* Stops this one, and waits for it. */
void crowd_stop(struct crowd *crowd, size_t which);

#endif
