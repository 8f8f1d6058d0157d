/* SPDX-License-Identifier: MIT */
/*
 * leaky-bucket as work in front of a server that does one unit every `unit` ticks. A job leaves when the
 * work before it is done.
 */
#include "model/model.h"

static weir_i128 unit_of(const struct model *model)
{
    return model->limit->ticks.unit;
}

static weir_i128 backlog_as_of(const struct model *model, weir_i128 tick)
{
    return model_max(model->u.queue.backlog - (tick - model->u.queue.last), 0);
}

static weir_i128 backlog_at(const struct model *model, int64_t now)
{
    return backlog_as_of(model, model_tick(model->limit, now));
}

static void set(struct model *model, int64_t now, weir_i128 backlog)
{
    model->u.queue.last = model_tick(model->limit, now);
    model->u.queue.backlog = backlog;
}

/* More work than the clock can count does not count. */
static weir_i128 add(struct model *model, weir_i128 tick, int64_t n)
{
    weir_i128 work = model_min((weir_i128)n * unit_of(model), INT64_MAX);
    weir_i128 most = INT64_MAX + unit_of(model) - tick;
    model->u.queue.backlog = model_min(backlog_as_of(model, tick) + work, most);
    model->u.queue.last = tick;
    return tick + model->u.queue.backlog;
}

static void init(struct model *model, int64_t now)
{
    set(model, now, 0);
}

static int64_t due(const struct model *model, int64_t now, int64_t n)
{
    if (n - 1 > model->limit->spec.queue)
        return WEIR_FOREVER;
    weir_i128 end = model_tick(model->limit, now) + backlog_at(model, now);
    return end > INT64_MAX ? WEIR_FOREVER : model_when(model->limit, end, now);
}

/* Of the units in the bucket the first is served, the others wait. */
static int64_t open(const struct model *model, int64_t now, int64_t n, int64_t due_ns)
{
    weir_i128 waiting = backlog_at(model, now) + (weir_i128)(n - 1) * unit_of(model);
    weir_i128 over = waiting - (weir_i128)model->limit->spec.queue * unit_of(model);
    int64_t room = over <= 0 ? now : model_when(model->limit, model_tick(model->limit, now) + over, now);
    int64_t age = model->limit->spec.age_ns;
    int64_t young = age != 0 && due_ns - age > now ? due_ns - age : now;
    return room > young ? room : young;
}

static weir_i128 enter(struct model *model, int64_t now, int64_t n)
{
    return add(model, model_tick(model->limit, now), n);
}

static weir_i128 promise(struct model *model, int64_t due_ns, int64_t n)
{
    return add(model, model_promise_tick(model->limit, due_ns), n);
}

static bool is_endless(const struct model *model)
{
    return model->u.queue.last + model->u.queue.backlog == INT64_MAX + unit_of(model);
}

static bool cancel(struct model *model, const struct model_promise *promise, int64_t promised)
{
    (void)promised;
    if (is_endless(model) || model->u.queue.last + model->u.queue.backlog != promise->mark)
        return false;
    model->u.queue.backlog -= promise->n * unit_of(model);
    return true;
}

static void give(struct model *model, int64_t now, int64_t n)
{
    if (!is_endless(model))
        set(model, now, model_max(backlog_at(model, now) - (weir_i128)n * unit_of(model), 0));
}

static void charge(struct model *model, int64_t now, int64_t n)
{
    (void)add(model, model_tick(model->limit, now), n);
}

static void drain(struct model *model, int64_t now)
{
    set(model, now, model_max(backlog_at(model, now), unit_of(model)));
}

static void change(struct model *model, const struct limit *next, int64_t now)
{
    weir_i128 backlog = model_div_up(backlog_at(model, now) * next->ticks.unit, unit_of(model));
    weir_i128 endless = INT64_MAX + (weir_i128)next->ticks.unit - model_tick(next, now);
    model->u.queue.backlog = is_endless(model) ? endless : model_min(backlog, endless);
    model->u.queue.last = model_tick(next, now);
}

static int64_t remaining(const struct model *model, int64_t now)
{
    return backlog_at(model, now) == 0 ? model->limit->spec.queue + 1 : 0;
}

static int64_t fresh(const struct model *model, int64_t now)
{
    return model_when(model->limit, model_tick(model->limit, now) + backlog_at(model, now), now);
}

const struct machine model_leaky_bucket = {
    .init = init,
    .due = due,
    .enter = enter,
    .promise = promise,
    .open = open,
    .cancel = cancel,
    .give = give,
    .charge = charge,
    .drain = drain,
    .change = change,
    .remaining = remaining,
    .fresh = fresh,
};
