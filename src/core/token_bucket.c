/* SPDX-License-Identifier: MIT */
/*
 * token-bucket: R units per W refill gradually, at most B are kept.
 *
 * Law: in every interval [x, y]   admitted - given back <= B + R * (y - x + 1 ns) / W
 * with promised units at their due time and given ones at the time of giving; charged units are not
 * admitted, they delay what follows.
 *
 * interval is the same with B = 1: two units are at least W/R apart.
 *
 * One word (index.h). n units pass at tick v if v - index >= n units; then the index moves by n units.
 */
#include "core/index.h"

static int64_t token_bucket_due(const struct limit *limit, const int64_t *state, int64_t now, int64_t n)
{
    if (n > limit->burst)
        return WEIR_FOREVER;
    int64_t v = ticks_at(&limit->ticks, now);
    int64_t after = index_after(limit, state[0], v, n);
    return after <= v ? now : ticks_time(&limit->ticks, after);
}

static uint64_t token_bucket_enter(const struct limit *limit, int64_t *state, int64_t now, int64_t n)
{
    weir_index_charge(limit, state, now, n);
    return (uint64_t)state[0];
}

/*
 * The last promise is undone as if it had never been made. Others have later ones behind them, which keep
 * their due times; had it not been for this one, the bucket could have been full before the latest of them.
 * So what refills from this one to the latest is lost, and the rest comes back.
 */
static bool token_bucket_cancel(const struct limit *limit, int64_t *state, const struct weir_reservation *r,
                                int64_t promised)
{
    int64_t units = sat_mul(r->n, limit->ticks.unit), ticket = (int64_t)r->ticket;
    int64_t refilled = sat_sub(ticks_at(&limit->ticks, promised), ticket);
    bool last = state[0] == ticket;
    if (state[0] != INDEX_NEVER)
        state[0] -= last ? units : clamp64(sat_sub(units, refilled), 0, units);
    return last;
}

static int64_t token_bucket_most(const struct limit *limit, int64_t span_ns)
{
    return sat_add(limit->full, weir_ticks_between_promises(&limit->ticks, span_ns)) / limit->ticks.unit;
}

const struct algorithm weir_token_bucket = {
    .words = weir_index_words,
    .init = weir_index_init,
    .due = token_bucket_due,
    .enter = token_bucket_enter,
    .promise = weir_index_promise,
    .cancel = token_bucket_cancel,
    .give = weir_index_give,
    .charge = weir_index_charge,
    .drain = weir_index_drain,
    .change = weir_index_change,
    .remaining = weir_index_remaining,
    .debt = weir_index_debt,
    .fresh = weir_index_fresh,
    .valid = weir_index_valid,
    .most = token_bucket_most,
};
