/* SPDX-License-Identifier: MIT */
/*
 * leaky-bucket: a FIFO that drains one unit every W/R. At most `queue` units wait, none longer than `age`.
 *
 * Law: a job of n units leaves in its first slot and keeps n slots, and slots are W/R apart. So in every
 * interval [x, y]   admitted - n_last <= R * (y - x + 1 ns) / W
 * where n_last is the last job's size; with jobs of one unit, at most 1 + R * (y - x + 1 ns) / W.
 *
 * One word (index.h): the last slot that is taken, with full = one slot.
 */
#include "core/index.h"

/* n is of no account: a job leaves in its first slot. */
static int64_t leaky_bucket_due(const struct limit *limit, const int64_t *state, int64_t now, int64_t n)
{
    if (n > limit->spec.queue + 1) /* its last n - 1 units wait even in an empty bucket */
        return WEIR_FOREVER;
    int64_t v = ticks_at(&limit->ticks, now);
    int64_t slot = index_after(limit, state[0], v, 1);
    return slot <= v ? now : ticks_time(&limit->ticks, slot);
}

static uint64_t leaky_bucket_enter(const struct limit *limit, int64_t *state, int64_t now, int64_t n)
{
    weir_index_charge(limit, state, now, n);
    return (uint64_t)state[0];
}

/* There is room once no more than `queue` units are left to wait, and the wait is at most `age`. */
static int64_t leaky_bucket_open(const struct limit *limit, const int64_t *state, int64_t now, int64_t n,
                                 int64_t due_ns)
{
    int64_t v = ticks_at(&limit->ticks, now);
    int64_t excess = sat_add(index_at(limit, state[0], v), (n - limit->spec.queue) * limit->ticks.unit);
    int64_t room = excess <= v ? now : ticks_time(&limit->ticks, excess);
    int64_t young = limit->spec.age_ns == 0 ? now : due_ns - limit->spec.age_ns;
    return max64(room, young);
}

/* The last in the queue gives its slots back; one in the middle leaves a gap. */
static bool leaky_bucket_cancel(const struct limit *limit, int64_t *state, const struct weir_reservation *r,
                                int64_t promised)
{
    (void)promised;
    bool last = state[0] == (int64_t)r->ticket && state[0] != INDEX_NEVER;
    if (last)
        state[0] = sat_sub(state[0], sat_mul(r->n, limit->ticks.unit));
    return last;
}

static int64_t leaky_bucket_remaining(const struct limit *limit, const int64_t *state, int64_t now)
{
    return leaky_bucket_due(limit, state, now, 1) <= now ? limit->spec.queue + 1 : 0;
}

static int64_t leaky_bucket_most(const struct limit *limit, int64_t span_ns)
{
    return sat_add(limit->full, weir_ticks_between_promises(&limit->ticks, span_ns)) / limit->ticks.unit;
}

const struct algorithm weir_leaky_bucket = {
    .words = weir_index_words,
    .init = weir_index_init,
    .due = leaky_bucket_due,
    .enter = leaky_bucket_enter,
    .promise = weir_index_promise,
    .open = leaky_bucket_open,
    .cancel = leaky_bucket_cancel,
    .give = weir_index_give,
    .charge = weir_index_charge,
    .drain = weir_index_drain,
    .change = weir_index_change,
    .remaining = leaky_bucket_remaining,
    .fresh = weir_index_fresh,
    .valid = weir_index_valid,
    .most = leaky_bucket_most,
};
