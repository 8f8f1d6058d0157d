/* SPDX-License-Identifier: MIT */
/*
 * Time counted in the ticks of one limit.
 *
 * For R units per W nanoseconds a unit is worth k = ceil(W/R) ticks, and time runs at k*R/W ticks a
 * nanosecond: v(t) = ceil(t * rate), where rate = whole + frac / 2^64 is k*R/W rounded down. So a unit is a
 * whole number of ticks, nothing drifts, and up to 10^9/s a tick is between half a nanosecond and one.
 *
 * v(y) - v(x) is less than k*R/W * (y - x) + 1 tick, and a tick is never longer than a nanosecond: this is
 * the nanosecond of grace in the law. Rounded up, because then a whole period from time 0 on is worth its
 * R units to the nanosecond; rounded down, it would be one tick short.
 *
 * A promise has a tick of its own, p, and is due at the first time t with v(t) >= p: v(t - 1) < p <= v(t). So
 * between a promise at x and one at y there are at most v(y) - v(x - 1) - 1 ticks, which is less than
 * k*R/W * (y - x + 1 ns): the same nanosecond of grace.
 */
#ifndef WEIR_BASE_TICKS_H
#define WEIR_BASE_TICKS_H

#include <stdbool.h>

#include "base/sat.h"
#include "weir.h"

#define TICKS_SPAN_MAX (INT64_MAX / 4) /* no burst, pool or single take costs more */
#define TICKS_PER_NS   64              /* fastest limit; the range of time shrinks by this factor */

struct ticks {
    int64_t unit;   /* ticks a unit is worth */
    uint64_t whole; /* ticks a nanosecond: whole + frac / 2^64 */
    uint64_t frac;
    uint64_t inverse; /* nanoseconds a tick, times 2^64, rounded down */
    int64_t time_max; /* last time that has a tick; later ones count as this */
};

/* R per W; false if that is more than TICKS_PER_NS a nanosecond. */
bool weir_ticks_init(struct ticks *ticks, int64_t count, int64_t period_ns);

/* Ticks that pass in `span_ns`, rounded up. */
int64_t weir_ticks_of_span(const struct ticks *ticks, int64_t span_ns);

/* Most ticks that lie between two promises that are due within `span_ns` of each other. */
int64_t weir_ticks_between_promises(const struct ticks *ticks, int64_t span_ns);

/* Nanoseconds that `span` ticks take, rounded down. */
int64_t weir_ticks_to_span(const struct ticks *ticks, int64_t span);

/* v(t) */
static inline int64_t ticks_at(const struct ticks *ticks, int64_t time_ns)
{
    uint64_t t = (uint64_t)clamp64(time_ns, 0, ticks->time_max);
    return (int64_t)(ticks->whole * t + mulhi_up(t, ticks->frac));
}

/* The earliest tick of a promise that is due at `due_ns`: it belongs to the nanosecond that ends then. The
 * time was rounded up, but what refills in that fraction of a nanosecond is not lost. */
static inline int64_t ticks_of_promise(const struct ticks *ticks, int64_t due_ns)
{
    return min64(ticks_at(ticks, due_ns - 1) + 1, ticks_at(ticks, due_ns));
}

/* The first time at which `tick` is reached, WEIR_FOREVER if it lies beyond all time. */
static inline int64_t ticks_time(const struct ticks *ticks, int64_t tick)
{
    if (tick <= 0)
        return 0;
    if (tick > ticks_at(ticks, ticks->time_max))
        return WEIR_FOREVER;
    int64_t time_ns = (int64_t)mulhi((uint64_t)tick - 1, ticks->inverse); /* at most 3 ns early */
    while (ticks_at(ticks, time_ns) < tick)
        time_ns++;
    return time_ns;
}

#endif
