/* SPDX-License-Identifier: MIT */
/*
 * fixed-window as a list: so many units in that window. What a window cannot hold runs over into the next.
 */
#include "model/model.h"

static int64_t window_of(const struct model *model, int64_t now)
{
    int64_t window = now / model->limit->spec.period_ns;
    int64_t reached = model->u.windows.window[model->u.windows.count - 1];
    return window > reached ? window : reached;
}

/* Units that count in a window, not before the last one of the list. */
static weir_i128 used(const struct model *model, int64_t window)
{
    weir_i128 sum = 0;
    for (size_t i = 0; i < model->u.windows.count; i++) {
        int64_t turns = i == 0 ? 0 : model->u.windows.window[i] - model->u.windows.window[i - 1];
        sum = model_max(sum - (weir_i128)turns * model->limit->spec.count, 0) + model->u.windows.units[i];
    }
    int64_t turns = window - model->u.windows.window[model->u.windows.count - 1];
    return model_max(sum - (weir_i128)turns * model->limit->spec.count, 0);
}

static void add(struct model *model, int64_t window, weir_i128 units)
{
    model->u.windows.window[model->u.windows.count] = window;
    model->u.windows.units[model->u.windows.count++] = units;
}

static void init(struct model *model, int64_t now)
{
    model->u.windows.count = 0;
    add(model, now / model->limit->spec.period_ns, 0);
}

/* The first window from `window` on in which no more than `most` units are used. */
static int64_t first_with(const struct model *model, int64_t window, weir_i128 most)
{
    int64_t low = window, high = WEIR_TIME_MAX / model->limit->spec.period_ns;
    if (used(model, low) <= most)
        return low;
    if (low >= high || used(model, high) > most)
        return WEIR_FOREVER;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (used(model, middle) <= most)
            high = middle;
        else
            low = middle;
    }
    return high;
}

static int64_t start_of(const struct model *model, int64_t window, int64_t now)
{
    if (window == WEIR_FOREVER)
        return WEIR_FOREVER;
    return window == window_of(model, now) ? now : window * model->limit->spec.period_ns;
}

static int64_t due(const struct model *model, int64_t now, int64_t n)
{
    if (n > model->limit->spec.count)
        return WEIR_FOREVER;
    return start_of(model, first_with(model, window_of(model, now), model->limit->spec.count - n), now);
}

static void charge(struct model *model, int64_t now, int64_t n)
{
    int64_t window = window_of(model, now);
    add(model, window, model_min(n, INT64_MAX - used(model, window)));
}

static weir_i128 enter(struct model *model, int64_t now, int64_t n)
{
    charge(model, now, n);
    return 0;
}

static void refuse(struct model *model, int64_t now, int64_t n)
{
    int64_t window = window_of(model, now);
    if (model->limit->spec.refused == WEIR_REFUSED_COUNT)
        add(model, window, model_max(model_min(n, model->limit->spec.count - used(model, window)), 0));
}

static void give(struct model *model, int64_t now, int64_t n)
{
    int64_t window = window_of(model, now);
    if (model->limit->spec.algo == WEIR_QUOTA && now / model->limit->spec.period_ns != window)
        return;
    add(model, window, -model_min(n, used(model, window)));
}

static bool cancel(struct model *model, const struct model_promise *promise, int64_t promised)
{
    (void)promised;
    int64_t window = model->u.windows.window[model->u.windows.count - 1];
    if (window == promise->due / model->limit->spec.period_ns)
        add(model, window, -model_min(promise->n, used(model, window)));
    return false;
}

static void drain(struct model *model, int64_t now)
{
    int64_t window = window_of(model, now);
    add(model, window, model_max(model->limit->spec.count - used(model, window), 0));
}

static void change(struct model *model, const struct limit *next, int64_t now)
{
    weir_i128 period = model->limit->spec.period_ns, next_period = next->spec.period_ns;
    weir_i128 start = window_of(model, now) * period, units = used(model, window_of(model, now));
    int64_t window = (int64_t)(model_max(now, start) / next_period);
    weir_i128 debt = model_max(units - model->limit->spec.count, 0);
    if (next->spec.algo == WEIR_QUOTA)
        units = model_min(units - debt, next->spec.count) + debt;
    if (next_period >= period && (window + 1) * next_period < start + period)
        units = model_min(units + next->spec.count, INT64_MAX); /* no new window before the old one's end */
    if (next->spec.algo == WEIR_QUOTA && next_period < period &&
        units > 0) /* nor of a quota, however short */
        window = (int64_t)(model_min((start + period + next_period - 1) / next_period - 1,
                                     WEIR_TIME_MAX / next_period));
    model->u.windows.count = 0;
    add(model, window, units);
}

static int64_t remaining(const struct model *model, int64_t now)
{
    return (int64_t)model_max(model->limit->spec.count - used(model, window_of(model, now)), 0);
}

static int64_t fresh(const struct model *model, int64_t now)
{
    return start_of(model, first_with(model, window_of(model, now), 0), now);
}

const struct machine model_fixed_window = {
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
