/* SPDX-License-Identifier: MIT */
/*
 * token-bucket and interval as a level of ticks that rises with time up to full. Nothing but the list of
 * what happened is kept; every question replays it from the start.
 */
#include "model/model.h"

struct level {
    weir_i128 ticks; /* below 0: a debt */
    weir_i128 last;  /* the tick of the clock as of which it is */
};

static weir_i128 full(const struct model *model)
{
    return (weir_i128)model->limit->burst * model->limit->ticks.unit;
}

/* A clock that went back takes its ticks with it until they have passed again. */
static void rise(const struct model *model, struct level *level, weir_i128 tick)
{
    level->ticks = model_min(full(model), level->ticks + tick - level->last);
    level->last = tick;
}

/* A debt cannot be longer than the clock can count. */
static void spend(struct level *level, weir_i128 ticks)
{
    level->ticks = model_max(level->ticks - ticks, level->last - INT64_MAX);
}

static weir_i128 tick_of(const struct model *model, const struct model_event *event)
{
    bool waited = event->kind == MODEL_PROMISE;
    return (waited ? model_promise_tick : model_tick)(model->limit, event->time);
}

static struct level replay(const struct model *model)
{
    struct level level = {model->u.bucket.level, model_tick(model->limit, model->u.bucket.start)};
    for (size_t i = 0; i < model->u.bucket.count; i++) {
        const struct model_event *event = &model->u.bucket.events[i];
        if (event->kind != MODEL_CANCEL)
            rise(model, &level, tick_of(model, event));
        switch (event->kind) {
        case MODEL_TAKE:
        case MODEL_PROMISE:
        case MODEL_CHARGE:
            spend(&level, event->ticks);
            break;
        case MODEL_GIVE:
            level.ticks = model_min(full(model), level.ticks + event->ticks);
            break;
        case MODEL_DRAIN:
            level.ticks = model_min(level.ticks, 0);
            break;
        case MODEL_CANCEL:
            level.ticks += event->ticks;
            break;
        }
    }
    return level;
}

static weir_i128 level_at(const struct model *model, int64_t now)
{
    struct level level = replay(model);
    rise(model, &level, model_tick(model->limit, now));
    return level.ticks;
}

static void happen(struct model *model, enum model_event_kind kind, int64_t time, weir_i128 ticks)
{
    model->u.bucket.events[model->u.bucket.count++] = (struct model_event){kind, time, ticks};
}

static weir_i128 price(const struct model *model, int64_t n)
{
    return model_min((weir_i128)n * model->limit->ticks.unit, INT64_MAX);
}

static void init(struct model *model, int64_t now)
{
    model->u.bucket.level = (weir_i128)model->limit->initial * model->limit->ticks.unit;
    model->u.bucket.start = now;
    model->u.bucket.count = 0;
}

static int64_t due(const struct model *model, int64_t now, int64_t n)
{
    weir_i128 missing = price(model, n) - level_at(model, now);
    if (n > model->limit->burst)
        return WEIR_FOREVER;
    return missing <= 0 ? now : model_when(model->limit, model_tick(model->limit, now) + missing, now);
}

static weir_i128 enter(struct model *model, int64_t now, int64_t n)
{
    happen(model, MODEL_TAKE, now, price(model, n));
    struct level level = replay(model);
    return level.last - level.ticks;
}

static weir_i128 promise(struct model *model, int64_t due_ns, int64_t n)
{
    happen(model, MODEL_PROMISE, due_ns, price(model, n));
    struct level level = replay(model);
    return level.last - level.ticks;
}

/*
 * The last one is undone. Behind others there are later promises, which keep their due times: what the clock
 * ticks from where this one left the level at zero up to the latest of them would have run over.
 */
static bool cancel(struct model *model, const struct model_promise *promise, int64_t promised)
{
    struct level level = replay(model);
    weir_i128 position = level.last - level.ticks, back = price(model, promise->n);
    if (position != promise->mark)
        back = model_min(back, model_max(back - (model_tick(model->limit, promised) - promise->mark), 0));
    if (position < INT64_MAX)
        happen(model, MODEL_CANCEL, 0, back);
    return position == promise->mark;
}

/* A debt that long has no end that is known. */
static bool is_endless(const struct model *model)
{
    struct level level = replay(model);
    return level.last - level.ticks == INT64_MAX;
}

static void give(struct model *model, int64_t now, int64_t n)
{
    if (!is_endless(model))
        happen(model, MODEL_GIVE, now, price(model, n));
}

static void charge(struct model *model, int64_t now, int64_t n)
{
    happen(model, MODEL_CHARGE, now, price(model, n));
}

static void drain(struct model *model, int64_t now)
{
    happen(model, MODEL_DRAIN, now, 0);
}

static void change(struct model *model, const struct limit *next, int64_t now)
{
    weir_i128 level = level_at(model, now), old = model->limit->ticks.unit, unit = next->ticks.unit;
    weir_i128 most = (weir_i128)next->burst * unit;
    if (is_endless(model))
        level = model_tick(next, now) - INT64_MAX;
    else if (level >= 0)
        level = model_min(level * unit / old, most);
    else
        level = -model_min(model_div_up(-level * unit, old), INT64_MAX - model_tick(next, now));
    model->u.bucket.level = level;
    model->u.bucket.start = now;
    model->u.bucket.count = 0;
}

weir_i128 model_bucket_position(const struct model *model)
{
    struct level level = replay(model);
    return level.last - level.ticks;
}

void model_bucket_put(struct model *model, weir_i128 position, int64_t now)
{
    model->u.bucket.level = model_tick(model->limit, now) - position;
    model->u.bucket.start = now;
    model->u.bucket.count = 0;
}

static int64_t remaining(const struct model *model, int64_t now)
{
    return (int64_t)(model_max(level_at(model, now), 0) / model->limit->ticks.unit);
}

static int64_t fresh(const struct model *model, int64_t now)
{
    weir_i128 missing = full(model) - level_at(model, now);
    return model_when(model->limit, model_tick(model->limit, now) + missing, now);
}

const struct machine model_token_bucket = {
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
