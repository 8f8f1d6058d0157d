/* SPDX-License-Identifier: MIT */
/*
 * sliding-window as two counters that turn one window at a time, and the weighted inequality itself: the
 * first time at which it holds is found by bisection.
 */
#include "model/model.h"

struct counters {
    int64_t window;
    weir_i128 present, previous;
};

static void turn(const struct model *model, struct counters *c, int64_t window)
{
    weir_i128 most = model->limit->spec.count;
    while (c->window < window) {
        int64_t left = window - c->window;
        if (c->present == 0 && c->previous == 0) {
            c->window = window;
        } else if (left > 4 && c->present > 4 * most) { /* a long debt: most windows change nothing else */
            weir_i128 turns = model_min(left - 2, c->present / most - 2);
            c->present -= turns * most;
            c->previous = most;
            c->window += (int64_t)turns;
        } else {
            weir_i128 before = c->present;
            c->previous = model_min(before, most);
            c->present = before - c->previous;
            c->window++;
        }
    }
}

static struct counters counters_at(const struct model *model, int64_t now)
{
    struct counters c = {model->u.sliding.window, model->u.sliding.present, model->u.sliding.previous};
    turn(model, &c, now / model->limit->spec.period_ns);
    return c;
}

static void save(struct model *model, struct counters c)
{
    model->u.sliding.window = c.window;
    model->u.sliding.present = (int64_t)model_min(c.present, INT64_MAX);
    model->u.sliding.previous = (int64_t)c.previous;
}

/* previous * (W - e), with e nanoseconds into the window. */
static weir_i128 weighted(const struct model *model, struct counters c, int64_t now)
{
    int64_t period = model->limit->spec.period_ns;
    weir_i128 elapsed = model_max(now - (weir_i128)c.window * period, 0);
    return c.previous * (period - elapsed);
}

static bool passes(const struct model *model, int64_t now, int64_t n)
{
    struct counters c = counters_at(model, now);
    weir_i128 period = model->limit->spec.period_ns;
    return (c.present + n) * period + weighted(model, c, now) <= model->limit->spec.count * period;
}

static bool is_empty(const struct model *model, int64_t now, int64_t n)
{
    struct counters c = counters_at(model, now);
    (void)n;
    return c.present == 0 && c.previous == 0;
}

static int64_t first(const struct model *model, int64_t now, int64_t n,
                     bool (*holds)(const struct model *model, int64_t now, int64_t n))
{
    int64_t low = now, high = WEIR_TIME_MAX;
    if (holds(model, low, n))
        return low;
    if (!holds(model, high, n))
        return WEIR_FOREVER;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (holds(model, middle, n))
            high = middle;
        else
            low = middle;
    }
    return high;
}

static void init(struct model *model, int64_t now)
{
    save(model, (struct counters){now / model->limit->spec.period_ns, 0, 0});
}

static int64_t due(const struct model *model, int64_t now, int64_t n)
{
    return n > model->limit->spec.count ? WEIR_FOREVER : first(model, now, n, passes);
}

static void add(struct model *model, int64_t now, weir_i128 units)
{
    struct counters c = counters_at(model, now);
    c.present = model_max(c.present + units, 0);
    save(model, c);
}

static void charge(struct model *model, int64_t now, int64_t n)
{
    add(model, now, n);
}

static weir_i128 enter(struct model *model, int64_t now, int64_t n)
{
    add(model, now, n);
    return 0;
}

static void refuse(struct model *model, int64_t now, int64_t n)
{
    weir_i128 room = model->limit->spec.count - counters_at(model, now).present;
    if (model->limit->spec.refused == WEIR_REFUSED_COUNT)
        add(model, now, model_max(model_min(n, room), 0));
}

static void give(struct model *model, int64_t now, int64_t n)
{
    add(model, now, -(weir_i128)n);
}

static bool cancel(struct model *model, const struct model_promise *promise, int64_t promised)
{
    (void)promised;
    int64_t window = promise->due / model->limit->spec.period_ns;
    struct counters c = {model->u.sliding.window, model->u.sliding.present, model->u.sliding.previous};
    if (window == c.window)
        c.present = model_max(c.present - promise->n, 0);
    if (window == c.window - 1)
        c.previous = model_max(c.previous - promise->n, 0);
    save(model, c);
    return false;
}

static weir_i128 counted(const struct model *model, int64_t now)
{
    struct counters c = counters_at(model, now);
    return c.present + model_div_up(weighted(model, c, now), model->limit->spec.period_ns);
}

static void drain(struct model *model, int64_t now)
{
    add(model, now, model_max(model->limit->spec.count - counted(model, now), 0));
}

static void change(struct model *model, const struct limit *next, int64_t now)
{
    int64_t begun = (int64_t)model_min(
        (weir_i128)counters_at(model, now).window * model->limit->spec.period_ns, INT64_MAX);
    save(model,
         (struct counters){(now > begun ? now : begun) / next->spec.period_ns, counted(model, now), 0});
}

static int64_t remaining(const struct model *model, int64_t now)
{
    return (int64_t)model_max(model->limit->spec.count - counted(model, now), 0);
}

static int64_t fresh(const struct model *model, int64_t now)
{
    return first(model, now, 0, is_empty);
}

const struct machine model_sliding_window = {
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
