/* SPDX-License-Identifier: MIT */
/*
 * What a limiter is measured against: the least that threads can do to one shared word, and the bucket
 * behind a mutex that a programmer would write. They have the same form as the takes of weir.h and are called
 * in the same way, through a pointer, from the same loop, so that both sides pay for the call.
 */
#ifndef WEIR_BENCH_BARE_H
#define WEIR_BENCH_BARE_H

#include <pthread.h>
#include <stdatomic.h>

#include "weir.h"

typedef bool take_fn(struct weir_limiter *limiter, int64_t n, struct weir_verdict *verdict);
typedef bool take_at_fn(struct weir_limiter *limiter, int64_t now_ns, int64_t n,
                        struct weir_verdict *verdict);

/* What each of them finds behind `limiter`. */
struct bare {
    _Alignas(64) _Atomic uint64_t words[2];
    _Alignas(64) struct {
        pthread_mutex_t lock;
        int64_t level, full, last; /* in ticks of its clock; a unit is one tick */
    } bucket;
};

#define BARE_FULL INT64_C(1000000000000000) /* full buckets last for all runs */

void bare_init(struct bare *bare);

/* Exchanges that failed in this thread, in those that count them. */
extern _Thread_local uint64_t bare_failures;

/* word += n, by load and compare-and-exchange; the time is not used. */
take_at_fn bare_cas64, bare_cas64_counted;
/* word = max(word + n, now), so that the exchange needs the time: that of clock_gettime(CLOCK_MONOTONIC). */
take_fn bare_gettime_cas64;
/* lock; add what has come since the last time; take n if there are so many; unlock. */
take_fn bare_gettime_mutex;

#if defined(__x86_64__)
#define BARE_RDTSC 1
/* The same with the processor's counter as the time. */
take_fn bare_rdtsc_cas64, bare_rdtsc_cas64_counted, bare_rdtsc_mutex;
/* word + n <= now? Writes nothing, as a refusal. */
take_fn bare_rdtsc_load;
/* Two words: the first as before, the second plus n. */
take_fn bare_rdtsc_cas128;
#endif

/* weir_limiter_take_at and weir_limiter_take of one token-bucket with the library's own loop, compiled once
 * more with an exchange that counts its failures. */
take_at_fn counted_take_at;
take_fn counted_take;

#endif
