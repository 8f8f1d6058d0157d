/* SPDX-License-Identifier: MIT */
/*
 * smooth (Guava's bursty limiter): the next caller pays. A take of any n starts as soon as the debt of
 * the one before is paid; idle time is saved, up to B units, and saved units cost nothing.
 *
 * Law: in every interval [x, y]   admitted - n_last - given back <= B + R * (y - x + 1 ns) / W
 * where n_last are the units of the last take in it: they are paid for after y.
 *
 * One word (index.h): above v it is the time of the next start, below v the saved units.
 */
#include "core/index.h"

static int64_t smooth_due(const struct limit *limit, const int64_t *state, int64_t now, int64_t n)
{
    if (sat_mul(n, limit->ticks.unit) > TICKS_SPAN_MAX)
        return WEIR_FOREVER;
    return state[0] <= ticks_at(&limit->ticks, now) ? now : ticks_time(&limit->ticks, state[0]);
}

static uint64_t smooth_enter(const struct limit *limit, int64_t *state, int64_t now, int64_t n)
{
    weir_index_charge(limit, state, now, n);
    return (uint64_t)state[0];
}

/* Others have been told to start behind it: only the last one can be undone. */
static bool smooth_cancel(const struct limit *limit, int64_t *state, const struct weir_reservation *r,
                          int64_t promised)
{
    (void)promised;
    bool last = state[0] == (int64_t)r->ticket && state[0] != INDEX_NEVER;
    if (last)
        state[0] = sat_sub(state[0], sat_mul(r->n, limit->ticks.unit));
    return last;
}

/* The time of the next start stays. Saved units keep their share of the burst, as Guava has it, but never
 * become more: with a rate that goes up and down one could multiply them. */
static void smooth_change(const struct limit *limit, const int64_t *from, const struct limit *next,
                          int64_t *to, int64_t now)
{
    int64_t v = ticks_at(&limit->ticks, now), v_next = ticks_at(&next->ticks, now);
    int64_t saved = sat_sub(v, index_at(limit, from[0], v));
    if (saved >= 0) {
        int64_t same = mul_div(saved, next->ticks.unit, limit->ticks.unit);
        to[0] = v_next - min64(same, mul_div(saved, next->full, limit->full));
        return;
    }
    int64_t start = ticks_time(&limit->ticks, from[0]);
    to[0] = start > next->ticks.time_max ? INDEX_NEVER : ticks_at(&next->ticks, start);
}

static int64_t smooth_most(const struct limit *limit, int64_t span_ns)
{
    return sat_add(
        sat_add(limit->full, weir_ticks_between_promises(&limit->ticks, span_ns)) / limit->ticks.unit, 1);
}

const struct algorithm weir_smooth = {
    .words = weir_index_words,
    .init = weir_index_init,
    .due = smooth_due,
    .enter = smooth_enter,
    .promise = weir_index_promise,
    .cancel = smooth_cancel,
    .give = weir_index_give,
    .charge = weir_index_charge,
    .drain = weir_index_drain,
    .change = smooth_change,
    .remaining = weir_index_remaining,
    .debt = weir_index_debt,
    .fresh = weir_index_fresh,
    .valid = weir_index_valid,
    .most = smooth_most,
};
