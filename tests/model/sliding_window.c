/* SPDX-License-Identifier: MIT */
/*
 * sliding-window as two counters that turn one window at a time, and the weighted inequality itself: the
 * first time at which it holds is found by bisection.
 */
#include "model/model.h"

struct counters {
    int64_t window;
    weir_i128 present, previous;
    weir_i128 refused; /* in the present window, beyond its room */
};

static void turn(const struct model *model, struct counters *c, int64_t window)
{
    weir_i128 most = model->limit->spec.count;
    while (c->window < window) {
        int64_t left = window - c->window;
        if (c->present == 0 && c->previous == 0 && c->refused == 0) {
            c->window = window;
        } else if (left > 4 && c->present > 4 * most) { /* a long debt: most windows change nothing else */
            weir_i128 turns = model_min(left - 2, c->present / most - 2);
            c->present -= turns * most;
            c->previous = most;
            c->refused = 0;
            c->window += (int64_t)turns;
        } else {
            weir_i128 before = c->present;
            weir_i128 stays = model_max(before - most, 0);
            c->previous = model_min(before - stays + c->refused, INT64_MAX);
            c->present = stays;
            c->refused = 0;
            c->window++;
        }
    }
}

static struct counters counters_at(const struct model *model, int64_t now)
{
    struct counters c = {model->u.sliding.window, model->u.sliding.present, model->u.sliding.previous,
                         model->u.sliding.refused};
    turn(model, &c, now / model->limit->spec.period_ns);
    return c;
}

static void save(struct model *model, struct counters c)
{
    model->u.sliding.window = c.window;
    model->u.sliding.present = (int64_t)model_min(c.present, INT64_MAX);
    model->u.sliding.previous = (int64_t)c.previous;
    model->u.sliding.refused = (int64_t)model_min(c.refused, INT64_MAX);
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
    return (c.present + c.refused + n) * period + weighted(model, c, now) <=
           model->limit->spec.count * period;
}

static bool is_empty(const struct model *model, int64_t now, int64_t n)
{
    struct counters c = counters_at(model, now);
    (void)n;
    return c.present == 0 && c.previous == 0 && c.refused == 0;
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
    save(model, (struct counters){.window = now / model->limit->spec.period_ns});
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
    struct counters c = counters_at(model, now);
    if (model->limit->spec.refused != WEIR_REFUSED_COUNT)
        return;
    weir_i128 counted = model_min(n, model_max(model->limit->spec.count - c.present, 0));
    c.present += counted;
    c.refused += n - counted;
    save(model, c);
}

static void give(struct model *model, int64_t now, int64_t n)
{
    add(model, now, -(weir_i128)n);
}

static bool cancel(struct model *model, const struct model_promise *promise, int64_t promised)
{
    (void)promised;
    int64_t window = promise->due / model->limit->spec.period_ns;
    struct counters c = {model->u.sliding.window, model->u.sliding.present, model->u.sliding.previous,
                         model->u.sliding.refused};
    if (window == c.window)
        c.present = model_max(c.present - promise->n, 0);
    if (window == c.window - 1)
        c.previous = model_max(c.previous - promise->n, 0);
    save(model, c);
    return false;
}

/* Whole units that the previous window still counts for. */
static weir_i128 left_of_previous(const struct model *model, struct counters c, int64_t now)
{
    return model_div_up(weighted(model, c, now), model->limit->spec.period_ns);
}

static weir_i128 counted(const struct model *model, int64_t now)
{
    struct counters c = counters_at(model, now);
    return c.present + c.refused + left_of_previous(model, c, now);
}

static void drain(struct model *model, int64_t now)
{
    add(model, now, model_max(model->limit->spec.count - counted(model, now), 0));
}

static void change(struct model *model, const struct limit *next, int64_t now)
{
    int64_t begun = (int64_t)model_min(
        (weir_i128)counters_at(model, now).window * model->limit->spec.period_ns, INT64_MAX);
    struct counters c = counters_at(model, now), admitted = c;
    admitted.previous = model_min(c.previous, model->limit->spec.count);
    struct counters to = {.window = (now > begun ? now : begun) / next->spec.period_ns,
                          .present = c.present + left_of_previous(model, admitted, now)};
    if (next->spec.refused == WEIR_REFUSED_COUNT)
        to.refused = counted(model, now) - to.present;
    save(model, to);
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
