/* SPDX-License-Identifier: MIT */
/*
 * warmup by Guava's formulas in long double. The library computes prices in double, so the two may differ: by
 * one tick for the rounding up of a cost, and by a few units in the last place of a double. Within this
 * tolerance the model takes over what the state says, so that nothing adds up.
 */
#include "model/model.h"

#include <string.h>

#define ULP 0x1p-42L /* relative: some roundings of a double */

struct shape {
    long double unit, threshold, most, edge, slope, cool;
};

/* What the spec says. */
static struct shape shape_from_spec(const struct limit *limit)
{
    struct shape s = {.unit = (long double)limit->ticks.unit};
    weir_u128 part = (weir_u128)limit->spec.warmup_ns * limit->ticks.frac;
    long double cold = (long double)limit->spec.cold_ppm / 1e6L;
    long double time = (long double)limit->spec.warmup_ns * (long double)limit->ticks.whole +
                       (long double)(uint64_t)(part >> 64) + ((uint64_t)part != 0);
    s.edge = limit->spec.shape == WEIR_SHAPE_BELOW ? s.unit / cold : s.unit * cold;
    s.threshold = time / 2 / s.unit;
    s.most = s.threshold + 2 * time / (s.unit + s.edge);
    s.slope = (s.edge - s.unit) / (s.most - s.threshold);
    s.cool = limit->spec.shape == WEIR_SHAPE_BELOW ? s.unit : time / s.most;
    return s;
}

static struct shape shape_of(const struct limit *limit)
{
    return (struct shape){limit->u.warmup.unit, limit->u.warmup.threshold, limit->u.warmup.most,
                          limit->u.warmup.edge, limit->u.warmup.slope,     limit->u.warmup.cool};
}

static bool near(long double a, long double b, long double scale, long double slack)
{
    long double apart = a > b ? a - b : b - a;
    return apart <= slack + scale * ULP;
}

static bool is_compiled_well(const struct limit *limit)
{
    struct shape a = shape_of(limit), b = shape_from_spec(limit);
    return near(a.unit, b.unit, b.unit, 0) && near(a.threshold, b.threshold, b.threshold, 0) &&
           near(a.most, b.most, b.most, 0) && near(a.edge, b.edge, b.edge, 0) &&
           near(a.cool, b.cool, b.cool, 0) &&
           near(a.slope * (b.most - b.threshold), b.edge - b.unit,
                (b.edge + b.unit) * b.most / (b.most - b.threshold), 0);
}

static long double stored_at(const struct model *model, weir_i128 tick)
{
    struct shape s = shape_of(model->limit);
    long double stored = model->u.warmup.stored;
    if (tick > model->u.warmup.next)
        stored += (long double)(tick - model->u.warmup.next) / s.cool;
    return stored < s.most ? stored : s.most;
}

/* The area under the curve from `stored` down to stored - n. */
static long double area(const struct limit *limit, long double stored, long double n)
{
    struct shape s = shape_of(limit);
    long double above = stored - s.threshold, cost = 0;
    if (limit->spec.shape == WEIR_SHAPE_OWN) {
        double own = limit->spec.own(limit->spec.own_arg, (double)stored, (double)n);
        long double rate = (long double)limit->ticks.whole + (long double)limit->ticks.frac * 0x1p-64L;
        return own >= 0 ? own * rate : s.unit * n;
    }
    if (above > 0) {
        long double steep = above < n ? above : n;
        long double high = s.unit + above * s.slope, low = s.unit + (above - steep) * s.slope;
        cost = steep * (high + low) / 2;
        n -= steep;
    }
    return cost + n * s.unit;
}

static void init(struct model *model, int64_t now)
{
    model->u.warmup.next = (int64_t)model_tick(model->limit, now);
    model->u.warmup.stored = shape_of(model->limit).most;
    model->u.warmup.cost = 0;
}

static int64_t due(const struct model *model, int64_t now, int64_t n)
{
    double unit = model->limit->u.warmup.unit, edge = model->limit->u.warmup.edge;
    if ((double)n * (edge > unit ? edge : unit) > (double)TICKS_SPAN_MAX)
        return WEIR_FOREVER;
    return model_when(model->limit, model->u.warmup.next, now);
}

static weir_i128 round_up(long double cost)
{
    if (cost >= (long double)TICKS_SPAN_MAX)
        return TICKS_SPAN_MAX;
    weir_i128 whole = (weir_i128)cost;
    return whole + ((long double)whole < cost);
}

static weir_i128 spend(struct model *model, weir_i128 tick, int64_t n)
{
    long double stored = stored_at(model, tick), spent = stored < (long double)n ? stored : (long double)n;
    weir_i128 cost = (weir_i128)n * model->limit->ticks.unit;
    if (stored > 0) {
        weir_i128 fresh_cost = model->limit->spec.shape == WEIR_SHAPE_ABOVE ? cost : 0;
        cost = round_up(area(model->limit, stored, spent) +
                        ((long double)n - spent) * (long double)model->limit->ticks.unit);
        cost = model_max(cost, fresh_cost);
    }
    weir_i128 start = model_max(tick, model->u.warmup.next);
    model->u.warmup.cost = (long double)cost + stored * (long double)model->limit->ticks.unit;
    model->u.warmup.next = (int64_t)model_min(start + model_min(cost, INT64_MAX), INT64_MAX);
    model->u.warmup.stored = stored - spent;
    return model->u.warmup.next;
}

static weir_i128 enter(struct model *model, int64_t now, int64_t n)
{
    return spend(model, model_tick(model->limit, now), n);
}

static weir_i128 promise(struct model *model, int64_t due_ns, int64_t n)
{
    return spend(model, model_promise_tick(model->limit, due_ns), n);
}

/* What was spent is not known: assume what is worse for the caller. */
static bool cancel(struct model *model, const struct model_promise *promise, int64_t promised)
{
    (void)promised;
    if (model->u.warmup.next != promise->mark)
        return false;
    model->u.warmup.next = (int64_t)model_tick(model->limit, promise->due);
    if (model->limit->spec.shape == WEIR_SHAPE_ABOVE) {
        long double most = shape_of(model->limit).most, stored = model->u.warmup.stored + promise->n;
        model->u.warmup.stored = stored < most ? stored : most;
    }
    return true;
}

static void give(struct model *model, int64_t now, int64_t n)
{
    const struct limit *limit = model->limit;
    weir_i128 tick = model_tick(limit, now);
    if (limit->spec.shape == WEIR_SHAPE_OWN || model->u.warmup.next <= tick ||
        model->u.warmup.next == INT64_MAX)
        return;
    weir_i128 units = model_min((weir_i128)n * limit->ticks.unit, (weir_i128)1 << 100); /* above all debts */
    bool cheap = limit->spec.shape == WEIR_SHAPE_BELOW;
    weir_i128 back = cheap ? units * 1000000 / limit->spec.cold_ppm : units;
    model->u.warmup.cost = 0; /* whole numbers: exact */
    model->u.warmup.next = (int64_t)model_max(model->u.warmup.next - back, tick);
}

static void charge(struct model *model, int64_t now, int64_t n)
{
    (void)enter(model, now, n);
}

static void drain(struct model *model, int64_t now)
{
    weir_i128 tick = model_tick(model->limit, now);
    model->u.warmup.stored = stored_at(model, tick);
    model->u.warmup.next = (int64_t)model_max(tick, model->u.warmup.next);
    if (model->limit->spec.shape != WEIR_SHAPE_ABOVE)
        model->u.warmup.stored = 0;
}

static void change(struct model *model, const struct limit *next, int64_t now)
{
    weir_i128 tick = model_tick(model->limit, now);
    int64_t start = model_when(model->limit, model->u.warmup.next, now);
    long double stored = stored_at(model, tick), most = shape_of(next).most, cheap = shape_of(next).threshold;
    bool never = start > now && start > next->ticks.time_max; /* a debt beyond the time of the new limit */
    model->u.warmup.next = never ? INT64_MAX : (int64_t)model_tick(next, start);
    if (next->spec.shape == WEIR_SHAPE_ABOVE) /* as cold as before */
        stored = stored / shape_of(model->limit).most * most;
    else if (next->spec.shape == WEIR_SHAPE_BELOW) /* none that are cheap */
        stored = stored < cheap ? stored : cheap;
    else
        stored = stored < most ? stored : most;
    model->u.warmup.stored = stored;
}

static int64_t remaining(const struct model *model, int64_t now)
{
    weir_i128 tick = model_tick(model->limit, now);
    return model->u.warmup.next > tick ? 0 : (int64_t)stored_at(model, tick);
}

static int64_t fresh(const struct model *model, int64_t now)
{
    struct shape s = shape_of(model->limit);
    weir_i128 idle = round_up((s.most - model->u.warmup.stored) * s.cool);
    return model_when(model->limit, model->u.warmup.next + idle, now);
}

bool model_warmup_adopt(struct model *model, const int64_t *words)
{
    struct shape s = shape_of(model->limit);
    double stored;
    memcpy(&stored, &words[1], sizeof stored);
    if (!is_compiled_well(model->limit) || !near(stored, model->u.warmup.stored, s.most, 0) ||
        !near((long double)words[0], (long double)model->u.warmup.next, model->u.warmup.cost, 1))
        return false;
    model->u.warmup.next = words[0];
    model->u.warmup.stored = stored;
    return true;
}

const struct machine model_warmup = {
    .init = init,
    .due = due,
    .enter = enter,
    .promise = promise,
    .cancel = cancel,
    .give = give,
    .charge = charge,
    .drain = drain,
    .change = change,
    .remaining = remaining,
    .fresh = fresh,
};
