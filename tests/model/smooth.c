/* SPDX-License-Identifier: MIT */
/*
 * smooth in Guava's own words: permits stored, and the time of the next start. Both in ticks, exactly.
 */
#include "model/model.h"

struct store {
    weir_i128 stored, next;
};

/* Idle time is stored; a clock that went back takes it out again. */
static struct store resync_to(const struct model *model, weir_i128 tick)
{
    struct store store = {model->u.smooth.stored, model->u.smooth.next};
    weir_i128 idle = tick >= store.next ? tick - store.next : -model_min(store.stored, store.next - tick);
    store.stored = model_min(store.stored + idle, model->limit->full);
    store.next += idle;
    return store;
}

static struct store resync(const struct model *model, int64_t now)
{
    return resync_to(model, model_tick(model->limit, now));
}

static void save(struct model *model, struct store store)
{
    model->u.smooth.stored = store.stored;
    model->u.smooth.next = model_min(store.next, INT64_MAX);
}

static weir_i128 cost_of(const struct model *model, int64_t n)
{
    return model_min((weir_i128)n * model->limit->ticks.unit, INT64_MAX);
}

static void init(struct model *model, int64_t now)
{
    weir_i128 stored = (weir_i128)model->limit->spec.initial * model->limit->ticks.unit;
    save(model, (struct store){stored, model_tick(model->limit, now)});
}

static int64_t due(const struct model *model, int64_t now, int64_t n)
{
    if ((weir_i128)n * model->limit->ticks.unit > TICKS_SPAN_MAX)
        return WEIR_FOREVER;
    return model_when(model->limit, resync(model, now).next, now);
}

/* Stored permits are free; fresh ones are paid for by whoever comes next. */
static weir_i128 spend(struct model *model, struct store store, int64_t n)
{
    weir_i128 cost = cost_of(model, n), free = model_min(store.stored, cost);
    store.stored -= free;
    store.next += cost - free;
    save(model, store);
    return model->u.smooth.next - model->u.smooth.stored;
}

static weir_i128 enter(struct model *model, int64_t now, int64_t n)
{
    return spend(model, resync(model, now), n);
}

static weir_i128 promise(struct model *model, int64_t due_ns, int64_t n)
{
    return spend(model, resync_to(model, model_promise_tick(model->limit, due_ns)), n);
}

static bool cancel(struct model *model, const struct model_promise *promise, int64_t promised)
{
    (void)promised;
    bool endless = promise->mark == INT64_MAX; /* by how much is not known */
    if (endless || model->u.smooth.next - model->u.smooth.stored != promise->mark)
        return false;
    model->u.smooth.stored += (weir_i128)promise->n * model->limit->ticks.unit;
    return true;
}

static void give(struct model *model, int64_t now, int64_t n)
{
    struct store store = resync(model, now);
    weir_i128 back = cost_of(model, n), owed = store.next - model_tick(model->limit, now);
    weir_i128 paid = model_min(back, owed);
    if (store.next == INT64_MAX) /* a debt without end */
        return;
    store.next -= paid;
    store.stored = model_min(store.stored + back - paid, model->limit->full);
    save(model, store);
}

static void charge(struct model *model, int64_t now, int64_t n)
{
    (void)enter(model, now, n);
}

static void drain(struct model *model, int64_t now)
{
    struct store store = resync(model, now);
    store.stored = 0;
    save(model, store);
}

/* setRate: the next start stays; stored permits keep their share of the maximum, but never become more. */
static void change(struct model *model, const struct limit *next, int64_t now)
{
    struct store store = resync(model, now);
    int64_t start = model_when(model->limit, store.next, now);
    weir_i128 stored = store.stored * next->ticks.unit / model->limit->ticks.unit;
    weir_i128 share = store.stored * next->full / model->limit->full;
    model->u.smooth.stored = model_min(stored, share);
    bool never = start > now && start > next->ticks.time_max; /* a debt beyond the time of the new limit */
    model->u.smooth.next = never ? INT64_MAX : model_tick(next, start);
}

static int64_t remaining(const struct model *model, int64_t now)
{
    return (int64_t)(resync(model, now).stored / model->limit->ticks.unit);
}

static int64_t fresh(const struct model *model, int64_t now)
{
    struct store store = resync(model, now);
    weir_i128 tick = store.next + model->limit->full - store.stored;
    return model_when(model->limit, tick, now);
}

const struct machine model_smooth = {
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
