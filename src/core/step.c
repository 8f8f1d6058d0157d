/* SPDX-License-Identifier: MIT */
/*
 * step (Smyte's bucket): R units are added every W, all at once, up to B. The phase of the steps is set by
 * the first use and kept, also while the bucket is full.
 *
 * Law: in every interval [x, y]   admitted - given back <= B + R * ceil((y - x) / W)
 *
 * refused=drain: a refused take empties the bucket. strict: a take that leaves nothing, and a refused one
 * that drains, starts the period anew, so that one has to keep quiet for a whole W. The period never starts
 * in the past, so neither mints units when the clock steps back.
 */
#include "core/limit.h"

struct bucket {
    int64_t units, last;
};

static struct bucket step_bucket_at(const struct limit *limit, const int64_t *state, int64_t now)
{
    struct bucket bucket = {state[AT_UNITS], state[AT_STEPPED]};
    int64_t steps = max64(now - bucket.last, 0) / limit->spec.period_ns;
    weir_i128 units = (weir_i128)steps * limit->spec.count + bucket.units;
    bucket.units = min64(limit->spec.burst, sat_i128(units));
    bucket.last += steps * limit->spec.period_ns;
    return bucket;
}

static void step_save(int64_t *state, struct bucket bucket)
{
    state[AT_UNITS] = bucket.units;
    state[AT_STEPPED] = bucket.last;
}

/* When the bucket holds `units`, or later than all time. */
static int64_t step_time_of(const struct limit *limit, struct bucket bucket, int64_t units)
{
    weir_i128 missing = (weir_i128)units - bucket.units;
    int64_t steps = sat_i128((missing + limit->spec.count - 1) / limit->spec.count);
    int64_t time = sat_add(bucket.last, sat_mul(steps, limit->spec.period_ns));
    return time > WEIR_TIME_MAX ? WEIR_FOREVER : time;
}

static size_t step_words(const struct limit *limit)
{
    (void)limit;
    return STEP_WORDS;
}

static void step_init(const struct limit *limit, int64_t *state, int64_t now)
{
    step_save(state, (struct bucket){limit->spec.initial, now});
}

static int64_t step_due(const struct limit *limit, const int64_t *state, int64_t now, int64_t n)
{
    if (n > limit->spec.burst)
        return WEIR_FOREVER;
    struct bucket bucket = step_bucket_at(limit, state, now);
    return bucket.units >= n ? now : step_time_of(limit, bucket, n);
}

static uint64_t step_enter(const struct limit *limit, int64_t *state, int64_t now, int64_t n)
{
    struct bucket bucket = step_bucket_at(limit, state, now);
    bucket.units -= n;
    if (limit->spec.strict && bucket.units == 0)
        bucket.last = max64(bucket.last, now);
    step_save(state, bucket);
    return 0;
}

static void step_refuse(const struct limit *limit, int64_t *state, int64_t now, int64_t n)
{
    (void)n;
    struct bucket bucket = step_bucket_at(limit, state, now);
    bucket.units = min64(bucket.units, 0);
    if (limit->spec.strict)
        bucket.last = max64(bucket.last, now);
    step_save(state, bucket);
}

/* The steps up to the promise have been taken and stay. Behind a later promise the bucket may have been
 * full: then nothing comes back. */
static bool step_cancel(const struct limit *limit, int64_t *state, const struct weir_reservation *r,
                        int64_t promised)
{
    if (promised == r->due_ns)
        state[AT_UNITS] = min64(limit->spec.burst, sat_add(state[AT_UNITS], r->n));
    return false;
}

static void step_give(const struct limit *limit, int64_t *state, int64_t now, int64_t n)
{
    struct bucket bucket = step_bucket_at(limit, state, now);
    bucket.units = min64(limit->spec.burst, sat_add(bucket.units, n));
    step_save(state, bucket);
}

static void step_charge(const struct limit *limit, int64_t *state, int64_t now, int64_t n)
{
    struct bucket bucket = step_bucket_at(limit, state, now);
    bucket.units = sat_sub(bucket.units, n);
    step_save(state, bucket);
}

static void step_drain(const struct limit *limit, int64_t *state, int64_t now)
{
    struct bucket bucket = step_bucket_at(limit, state, now);
    bucket.units = min64(bucket.units, 0);
    step_save(state, bucket);
}

/* Units are kept, and so is the part of the period that has passed. */
static void step_change(const struct limit *limit, const int64_t *from, const struct limit *next, int64_t *to,
                        int64_t now)
{
    struct bucket bucket = step_bucket_at(limit, from, now);
    int64_t passed = clamp64(now - bucket.last, 0, limit->spec.period_ns - 1);
    int64_t last = max64(bucket.last, now) - mul_div(passed, next->spec.period_ns, limit->spec.period_ns);
    step_save(to, (struct bucket){min64(bucket.units, next->spec.burst), last});
}

static int64_t step_remaining(const struct limit *limit, const int64_t *state, int64_t now)
{
    return max64(step_bucket_at(limit, state, now).units, 0);
}

static int64_t step_fresh(const struct limit *limit, const int64_t *state, int64_t now)
{
    struct bucket bucket = step_bucket_at(limit, state, now);
    return bucket.units == limit->spec.burst ? now
                                             : max64(now, step_time_of(limit, bucket, limit->spec.burst));
}

static int64_t step_debt(const struct limit *limit, const int64_t *state, int64_t now)
{
    return sat_sub(0, step_bucket_at(limit, state, now).units);
}

/*
 * A full bucket is a fresh one but for its phase, and that may be forgotten: its next step then comes later,
 * and the law holds across it. Say that the steps before are at f, f - W, ... and that f, at or before the
 * time t of forgetting, made the bucket full. From x to t no more than R units for each step in (x, f] have
 * passed, or f would not have made it full: R * ceil((f - x) / W). From t to y no more than B and R for each
 * step after t: B + R * floor((y - t) / W). Together at most B + R * ceil((y - x) / W). Between two times of
 * forgetting steps are counted from the first on, so there (f - t) / W is a whole number, and any number of
 * them adds up alike.
 */
static int64_t step_idle(const struct limit *limit, const int64_t *state)
{
    return step_fresh(limit, state, state[AT_STEPPED]);
}

/* A live change keeps the part of a period that has passed, also of one that began before time did. */
static bool step_valid(const struct limit *limit, const int64_t *state)
{
    return state[AT_UNITS] <= limit->spec.burst &&
           is_value_within(state[AT_STEPPED], -limit->spec.period_ns, WEIR_TIME_MAX);
}

static int64_t step_most(const struct limit *limit, int64_t span_ns)
{
    return sat_add(limit->spec.burst, sat_mul(div_up(span_ns, limit->spec.period_ns), limit->spec.count));
}

const struct algorithm weir_step = {
    .words = step_words,
    .init = step_init,
    .due = step_due,
    .enter = step_enter,
    .refuse = step_refuse,
    .cancel = step_cancel,
    .give = step_give,
    .charge = step_charge,
    .drain = step_drain,
    .change = step_change,
    .remaining = step_remaining,
    .debt = step_debt,
    .fresh = step_fresh,
    .idle = step_idle,
    .valid = step_valid,
    .most = step_most,
};
