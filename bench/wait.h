/* SPDX-License-Identifier: MIT */
/*
 * weir bench wait: what it measures.
 */
#ifndef WEIR_BENCH_WAIT_H
#define WEIR_BENCH_WAIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- wake.c: how late threads go on ---- */

#define WAKE_RATE 10000 /* wake-ups a second, of all threads */

enum wake_by {
    WAKE_ACQUIRE,   /* weir_limiter_acquire */
    WAKE_NANOSLEEP, /* clock_nanosleep to an absolute time, with the least timer slack, as acquire has it */
    WAKE_SLACK,     /* the same with the timer slack that threads have by default */
    WAKE_WAYS
};

enum { WAKE_SIZES = 2 }; /* numbers of threads */
extern const int wake_threads[WAKE_SIZES];

/* Times of going on less times due, in nanoseconds. */
struct wake_errors {
    int64_t count; /* of wake-ups that were waited for */
    int64_t p50, p99, p999, max;
    double others; /* part of the processors that others had meanwhile */
};

/* errors[size * WAKE_WAYS + way], measured in turns of `seconds`; false: it has said why. */
bool wake_measure(double seconds, struct wake_errors *errors);

/* ---- flow.c: how many go on ---- */

#define FLOW_WINDOWS_MAX 160

/* Threads that do nothing but wait for one limiter. */
struct flow;

/* NULL: it has said why. */
struct flow *flow_open(const char *limits, int threads);
/* The same without a limiter: the threads sleep with clock_nanosleep until times that are dealt out by a
 * counter, `rate` a second. */
struct flow *flow_open_bare(int64_t rate, int threads);
bool flow_set(struct flow *flow, const char *limits);
/* Counts who goes on from now on, in so many windows of so many seconds. */
void flow_watch(struct flow *flow, double window_s, size_t windows);
/* Nobody asks for so many seconds; who waits goes on. */
void flow_stall(struct flow *flow, double seconds);
/* Waits until the last window is over; `rates` are in operations a second. */
void flow_rates(struct flow *flow, double *rates);
void flow_close(struct flow *flow);

#endif
