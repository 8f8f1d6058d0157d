/* SPDX-License-Identifier: MIT */
/*
 * How long things take, as Prometheus counts it: numbers of observations up to each bound. One thread writes,
 * any thread reads.
 */
#ifndef WEIR_SERVICE_HISTOGRAM_H
#define WEIR_SERVICE_HISTOGRAM_H

#include "service/policies/counters.h"

#define HISTOGRAM_BOUNDS 15

/* A bound in nanoseconds, and in seconds as it is written in both formats of metrics. */
struct histogram_bound {
    int64_t ns;
    const char *text;
};
extern const struct histogram_bound weir_decision_bounds[HISTOGRAM_BOUNDS],
    weir_store_wait_bounds[HISTOGRAM_BOUNDS];

struct histogram {
    _Atomic int64_t counts[HISTOGRAM_BOUNDS + 1]; /* the last: above all bounds */
    _Atomic int64_t sum_ns;
};

/* Counts `count` observations that took `all_ns` together: all of them as their mean. */
static inline void histogram_observe(struct histogram *histogram, const struct histogram_bound *bounds,
                                     int64_t all_ns, int64_t count)
{
    size_t at = 0;
    if (count <= 0)
        return;
    while (at < HISTOGRAM_BOUNDS && all_ns > sat_mul(bounds[at].ns, count))
        at++;
    count_up(&histogram->counts[at], count);
    count_up(&histogram->sum_ns, all_ns);
}

#endif
