/* SPDX-License-Identifier: MIT */
/*
 * step by stepping: one refill after the other, from the time of the next one.
 */
#include "model/model.h"

struct bucket {
    weir_i128 units;
    int64_t next;
};

static weir_i128 burst_of(const struct model *model)
{
    return model->limit->spec.burst;
}

static struct bucket bucket_at(const struct model *model, int64_t now)
{
    struct bucket bucket = {model->u.step.units, model->u.step.next};
    int64_t period = model->limit->spec.period_ns, count = model->limit->spec.count;
    while (bucket.next <= now) {
        int64_t steps = 1, left = (now - bucket.next) / period;
        weir_i128 missing = (burst_of(model) - bucket.units) / count;
        if (left > 64 && missing <= 0) /* full: stepping on changes nothing */
            steps = left;
        else if (left > 64 && missing > 64) /* far from full: as good as many single ones */
            steps = (int64_t)model_min(left, missing);
        bucket.units = model_min(burst_of(model), bucket.units + (weir_i128)steps * count);
        bucket.next += steps * period;
    }
    return bucket;
}

static void save(struct model *model, struct bucket bucket)
{
    model->u.step.units = model_max(bucket.units, INT64_MIN);
    model->u.step.next = bucket.next;
}

/* The next step is a whole period away, unless it is even later. */
static int64_t anew(const struct model *model, struct bucket bucket, int64_t now)
{
    int64_t next = now + model->limit->spec.period_ns;
    return next > bucket.next ? next : bucket.next;
}

static void init(struct model *model, int64_t now)
{
    save(model, (struct bucket){model->limit->spec.initial, now + model->limit->spec.period_ns});
}

/* When the bucket holds `units`. */
static int64_t first_with(const struct model *model, int64_t now, int64_t units)
{
    struct bucket bucket = bucket_at(model, now);
    if (bucket.units >= units)
        return now;
    weir_i128 steps = model_div_up(units - bucket.units, model->limit->spec.count);
    weir_i128 time = bucket.next + (steps - 1) * model->limit->spec.period_ns;
    return time > WEIR_TIME_MAX ? WEIR_FOREVER : (int64_t)time;
}

static int64_t due(const struct model *model, int64_t now, int64_t n)
{
    return n > burst_of(model) ? WEIR_FOREVER : first_with(model, now, n);
}

static weir_i128 enter(struct model *model, int64_t now, int64_t n)
{
    struct bucket bucket = bucket_at(model, now);
    bucket.units -= n;
    if (model->limit->spec.strict && bucket.units == 0)
        bucket.next = anew(model, bucket, now);
    save(model, bucket);
    return 0;
}

static void drain(struct model *model, int64_t now)
{
    struct bucket bucket = bucket_at(model, now);
    bucket.units = model_min(bucket.units, 0);
    save(model, bucket);
}

static void refuse(struct model *model, int64_t now, int64_t n)
{
    (void)n;
    if (model->limit->spec.refused != WEIR_REFUSED_DRAIN)
        return;
    drain(model, now);
    if (model->limit->spec.strict)
        model->u.step.next = anew(model, bucket_at(model, now), now);
}

static bool cancel(struct model *model, const struct model_promise *promise, int64_t promised)
{
    if (promised == promise->due)
        model->u.step.units = model_min(burst_of(model), model->u.step.units + promise->n);
    return false;
}

static void give(struct model *model, int64_t now, int64_t n)
{
    struct bucket bucket = bucket_at(model, now);
    bucket.units = model_min(burst_of(model), bucket.units + n);
    save(model, bucket);
}

static void charge(struct model *model, int64_t now, int64_t n)
{
    struct bucket bucket = bucket_at(model, now);
    bucket.units -= n;
    save(model, bucket);
}

/* The part of the period that has passed stays that part. */
static void change(struct model *model, const struct limit *next, int64_t now)
{
    struct bucket bucket = bucket_at(model, now);
    int64_t period = model->limit->spec.period_ns, wait = bucket.next - now;
    int64_t start = wait > period ? now + (wait - period) : now;
    weir_i128 passed = wait > period ? 0 : period - wait;
    bucket.units = model_min(bucket.units, next->spec.burst);
    bucket.next = start - (int64_t)(passed * next->spec.period_ns / period) + next->spec.period_ns;
    save(model, bucket);
}

static int64_t remaining(const struct model *model, int64_t now)
{
    return (int64_t)model_max(bucket_at(model, now).units, 0);
}

static int64_t fresh(const struct model *model, int64_t now)
{
    return first_with(model, now, model->limit->spec.burst);
}

const struct machine model_step = {
    .init = init,
    .due = due,
    .enter = enter,
    .refuse = refuse,
    .cancel = cancel,
    .give = give,
    .charge = charge,
    .drain = drain,
    .change = change,
    .remaining = remaining,
    .fresh = fresh,
};
