/* SPDX-License-Identifier: MIT */
/*
 * hybrid as EngineBlock describes it: an active pool, a burst pool on top of it, and tokens that wait. Every
 * question fills by the time since the last change, in 128-bit integers, with the fraction of a burst token
 * carried over; the first time at which enough is there is found by bisection.
 */
#include "model/model.h"

struct pools {
    weir_i128 active, waiting, last, carry;
    bool started;
};

static weir_i128 size_of(const struct limit *limit)
{
    return limit->u.hybrid.active;
}

static weir_i128 over_of(const struct limit *limit)
{
    return limit->u.hybrid.over;
}

static struct pools pools_as_of(const struct model *model, weir_i128 tick)
{
    struct pools p = {model->u.hybrid.active, model->u.hybrid.waiting, model->u.hybrid.last,
                      model->u.hybrid.carry, model->u.hybrid.started};
    weir_i128 passed = tick - p.last;
    weir_i128 size = size_of(model->limit), burst = over_of(model->limit) - size;
    if (!p.started || passed <= 0)
        return p;
    weir_i128 fits = model_min(passed, model_max(size - p.active, 0));
    p.active += fits;
    p.waiting = model_min(p.waiting + passed - fits, INT64_MAX); /* as much as a word can count */

    weir_i128 owed = passed * burst + p.carry, allowed = owed / size;
    weir_i128 room = model_min(p.waiting, over_of(model->limit) - p.active), moved = model_min(allowed, room);
    p.carry = moved < room ? owed % size : 0; /* a full pool is owed nothing */
    p.active += moved;
    p.waiting -= moved;
    p.last = tick;
    return p;
}

static struct pools pools_at(const struct model *model, int64_t now)
{
    return pools_as_of(model, model_tick(model->limit, now));
}

static void save(struct model *model, struct pools p)
{
    model->u.hybrid.active = model_max(p.active, INT64_MIN);
    model->u.hybrid.waiting = p.waiting;
    model->u.hybrid.last = p.last;
    model->u.hybrid.carry = p.carry;
    model->u.hybrid.started = p.started;
}

static weir_i128 price(const struct model *model, int64_t n)
{
    return model_min((weir_i128)n * model->limit->ticks.unit, INT64_MAX);
}

/* Whole nanoseconds of so many ticks, and the other way round. */
static int64_t span_of(const struct limit *limit, weir_i128 ticks)
{
    weir_u128 rate = ((weir_u128)limit->ticks.whole << 64) + limit->ticks.frac;
    return (int64_t)(((weir_u128)ticks << 64) / rate);
}

static void start(struct model *model, int64_t now)
{
    model->u.hybrid.active = model->limit->ticks.unit;
    model->u.hybrid.last = model_tick(model->limit, now);
    model->u.hybrid.started = true;
}

static void init(struct model *model, int64_t now)
{
    save(model, (struct pools){.started = false});
    model->u.hybrid.history = 0;
    if (model->limit->spec.verb != WEIR_VERB_CONFIGURE)
        start(model, now);
}

static int64_t first_with(const struct model *model, int64_t now, weir_i128 ticks)
{
    int64_t low = now, high = WEIR_TIME_MAX;
    if (pools_at(model, low).active >= ticks)
        return low;
    if (pools_at(model, high).active < ticks)
        return WEIR_FOREVER;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (pools_at(model, middle).active >= ticks)
            high = middle;
        else
            low = middle;
    }
    return high;
}

static int64_t due(const struct model *model, int64_t now, int64_t n)
{
    return model->u.hybrid.started ? first_with(model, now, price(model, n)) : WEIR_FOREVER;
}

static void charge(struct model *model, int64_t now, int64_t n)
{
    struct pools p = pools_at(model, now);
    p.active -= price(model, n);
    save(model, p);
}

static weir_i128 enter(struct model *model, int64_t now, int64_t n)
{
    charge(model, now, n);
    return 0;
}

/* At the first tick for `due` at which there is enough. */
static weir_i128 promise(struct model *model, int64_t due_ns, int64_t n)
{
    weir_i128 tick = model_promise_tick(model->limit, due_ns);
    while (pools_as_of(model, tick).active < price(model, n))
        tick++;
    struct pools p = pools_as_of(model, tick);
    p.active -= price(model, n);
    save(model, p);
    return 0;
}

static struct pools put(const struct limit *limit, struct pools p, weir_i128 ticks)
{
    weir_i128 fits = model_min(ticks, over_of(limit) - p.active);
    p.active += fits;
    p.carry = p.active < over_of(limit) ? p.carry : 0;
    p.waiting = model_min(p.waiting + ticks - fits, INT64_MAX);
    return p;
}

/* Behind a later promise the tokens have to wait. */
static bool cancel(struct model *model, const struct model_promise *promise, int64_t promised)
{
    if (promised == promise->due) {
        struct pools p = {model->u.hybrid.active, model->u.hybrid.waiting, model->u.hybrid.last,
                          model->u.hybrid.carry, model->u.hybrid.started};
        save(model, put(model->limit, p, price(model, promise->n)));
    } else {
        model->u.hybrid.waiting = model_min(model->u.hybrid.waiting + price(model, promise->n), INT64_MAX);
    }
    return false;
}

static void give(struct model *model, int64_t now, int64_t n)
{
    save(model, put(model->limit, pools_at(model, now), price(model, n)));
}

static void drain(struct model *model, int64_t now)
{
    struct pools p = pools_at(model, now);
    p.active = model_min(p.active, 0);
    save(model, p);
}

/* Tokens are time: so many nanoseconds stay so many. A debt is units, and rounds up. */
static weir_i128 convert(const struct limit *limit, const struct limit *next, weir_i128 ticks)
{
    if (ticks >= 0)
        return model_tick(next, span_of(limit, ticks));
    weir_i128 debt = model_min(-ticks, INT64_MAX) * next->ticks.unit;
    return -model_min(model_div_up(debt, limit->ticks.unit), INT64_MAX);
}

static void change(struct model *model, const struct limit *next, int64_t now)
{
    struct pools old = pools_at(model, now);
    weir_i128 active = convert(model->limit, next, old.active);
    struct pools p = {.waiting = convert(model->limit, next, old.waiting), .started = old.started};
    p.last = model_tick(next, now);
    if (old.started &&
        old.last > model_tick(model->limit, now)) /* the clock is back: not the same time twice */
        p.last = model_tick(next, model_when(model->limit, old.last, now));
    p.active = model_min(active, 0);
    save(model, put(next, p, model_max(active, 0)));
    model->limit = next;
    if (next->spec.verb == WEIR_VERB_RESTART)
        (void)model_hybrid_restart(model, now);
    else if (next->spec.verb != WEIR_VERB_CONFIGURE && !old.started)
        start(model, now);
}

int64_t model_hybrid_behind(const struct model *model, int64_t now)
{
    struct pools p = pools_at(model, now);
    return span_of(model->limit, model_min(model_max(p.active + p.waiting, 0), INT64_MAX));
}

int64_t model_hybrid_total(const struct model *model, int64_t now)
{
    return (int64_t)model_min(model->u.hybrid.history + model_hybrid_behind(model, now), INT64_MAX);
}

int64_t model_hybrid_restart(struct model *model, int64_t now)
{
    int64_t behind = model_hybrid_behind(model, now);
    weir_i128 last = model_tick(model->limit, now);
    if (model->u.hybrid.started) /* a clock that went back does not fill the same time twice */
        last = model_max(last, model->u.hybrid.last);
    weir_i128 debt = model_min(pools_at(model, now).active, 0);
    save(model, (struct pools){.active = debt, .last = last, .started = true});
    model->u.hybrid.history = model_min(model->u.hybrid.history + behind, INT64_MAX);
    return behind;
}

static int64_t remaining(const struct model *model, int64_t now)
{
    struct pools p = pools_at(model, now);
    return p.started ? (int64_t)(model_max(p.active, 0) / model->limit->ticks.unit) : 0;
}

static int64_t fresh(const struct model *model, int64_t now)
{
    return model->u.hybrid.started ? first_with(model, now, size_of(model->limit)) : now;
}

const struct machine model_hybrid = {
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
