/* SPDX-License-Identifier: MIT */
#include "base/ticks.h"

#include "base/assert.h"

bool weir_ticks_init(struct ticks *ticks, int64_t count, int64_t period_ns)
{
    if (count / TICKS_PER_NS > period_ns || (count / TICKS_PER_NS == period_ns && count % TICKS_PER_NS))
        return false;
    int64_t unit = div_up(period_ns, count);
    weir_u128 ticks_per_period = (weir_u128)unit * (weir_u128)count;
    weir_u128 period = (weir_u128)period_ns;
    weir_u128 inverse = (period << 64) / ticks_per_period;

    ticks->unit = unit;
    ticks->whole = (uint64_t)(ticks_per_period / period);
    ticks->frac = (uint64_t)(((ticks_per_period % period) << 64) / period);
    ticks->inverse = inverse > UINT64_MAX ? UINT64_MAX : (uint64_t)inverse;
    ticks->time_max = min64((INT64_MAX - 1) / ((int64_t)ticks->whole + (ticks->frac != 0)), WEIR_TIME_MAX);
    /* A unit is no shorter than W/R, and by less than a tick longer; the rate is at most k*R/W, and its last
     * bit is missing at most. */
    ASSERT(ticks_per_period >= period && ticks_per_period < period + (uint64_t)count);
    ASSERT((weir_u128)ticks->whole * period <= ticks_per_period);
    ASSERT((weir_u128)ticks->frac * period <= (ticks_per_period - ticks->whole * period) << 64);
    ASSERT((weir_u128)ticks->frac * period + period > (ticks_per_period - ticks->whole * period) << 64);
    ASSERT(weir_ticks_of_span(ticks, period_ns) >= min64(TICKS_SPAN_MAX, (int64_t)(ticks_per_period - 1)));
    ASSERT(ticks_at(ticks, ticks->time_max) == weir_ticks_of_span(ticks, ticks->time_max));
    return true;
}

int64_t weir_ticks_of_span(const struct ticks *ticks, int64_t span_ns)
{
    weir_u128 product = (weir_u128)(uint64_t)span_ns * ticks->frac;
    weir_u128 span = (weir_u128)ticks->whole * (uint64_t)span_ns + (product >> 64) + ((uint64_t)product != 0);
    ASSERT(span > INT64_MAX || weir_ticks_to_span(ticks, (int64_t)span) >= span_ns);
    ASSERT(span > INT64_MAX || span == 0 || weir_ticks_to_span(ticks, (int64_t)span - 1) < span_ns);
    return span > INT64_MAX ? INT64_MAX : (int64_t)span;
}

int64_t weir_ticks_between_promises(const struct ticks *ticks, int64_t span_ns)
{
    return weir_ticks_of_span(ticks, sat_add(span_ns, 1)) - 1;
}

int64_t weir_ticks_to_span(const struct ticks *ticks, int64_t span)
{
    weir_u128 rate = ((weir_u128)ticks->whole << 64) + ticks->frac;
    return (int64_t)(((weir_u128)(uint64_t)span << 64) / rate);
}
