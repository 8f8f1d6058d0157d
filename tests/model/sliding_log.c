/* SPDX-License-Identifier: MIT */
/*
 * sliding-log as a plain list of the times of the last `count` units, one entry each.
 */
#include "model/model.h"

#include <stdlib.h>
#include <string.h>

static int64_t most(const struct model *model)
{
    return model->limit->spec.count;
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t newest(const struct model *model)
{
    return model->u.log.length == 0 ? 0 : model->u.log.times[model->u.log.length - 1];
}

/* Entries that are less than W old at `now`, or still to come. */
static int64_t counted(const struct model *model, int64_t now)
{
    int64_t count = 0;
    for (int64_t i = 0; i < model->u.log.length; i++)
        count += (weir_i128)model->u.log.times[i] + model->limit->spec.period_ns > now;
    return count;
}

static void take_out(struct model *model, int64_t at, int64_t count)
{
    int64_t *times = model->u.log.times, behind = model->u.log.length - at - count;
    memmove(times + at, times + at + count, (size_t)behind * sizeof *times);
    model->u.log.length -= count;
}

static void put_in(struct model *model, int64_t time)
{
    int64_t at = 0, *times = model->u.log.times;
    while (at < model->u.log.length && times[at] <= time)
        at++;
    memmove(times + at + 1, times + at, (size_t)(model->u.log.length - at) * sizeof *times);
    times[at] = time;
    model->u.log.length++;
}

static void append(struct model *model, int64_t time)
{
    if (model->u.log.length == most(model))
        take_out(model, 0, 1);
    model->u.log.times[model->u.log.length++] = time;
}

static void init(struct model *model, int64_t now)
{
    (void)now;
    model->u.log.times = calloc((size_t)most(model), sizeof *model->u.log.times);
    model->u.log.length = 0;
    if (!model->u.log.times)
        abort();
}

/* Something only changes when an entry gets W old: try those moments one by one. */
static int64_t due(const struct model *model, int64_t now, int64_t n)
{
    int64_t time = later(now, newest(model));
    if (n > most(model))
        return WEIR_FOREVER;
    for (int64_t i = 0; counted(model, time) + n > most(model); i++) {
        if (i == model->u.log.length)
            return WEIR_FOREVER; /* the debt ends after all time */
        time = later(time, sat_add(model->u.log.times[i], model->limit->spec.period_ns));
    }
    return time;
}

static weir_i128 enter(struct model *model, int64_t now, int64_t n)
{
    int64_t room = most(model) - model->u.log.length;
    for (int64_t i = 0; i < n; i++)
        append(model, now);
    return n > room ? n - room : 0;
}

static void refuse(struct model *model, int64_t now, int64_t n)
{
    int64_t time = later(now, newest(model));
    for (int64_t i = 0; i < n && i < most(model) && model->limit->spec.refused == WEIR_REFUSED_COUNT; i++)
        append(model, time);
}

/* Its entries go; as many as they pushed out come back, just old enough to have been pushed out. */
static bool cancel(struct model *model, const struct model_promise *promise, int64_t promised)
{
    (void)promised;
    int64_t end = 0, taken = 0;
    while (end < model->u.log.length && model->u.log.times[end] <= promise->due)
        end++;
    while (taken < promise->n && taken < end && model->u.log.times[end - taken - 1] == promise->due)
        taken++;
    take_out(model, end - taken, taken);
    for (int64_t i = 0; i < taken && i < promise->mark; i++)
        put_in(model, promise->due - model->limit->spec.period_ns);
    return newest(model) < promise->due;
}

/* The newest stands W after another that it pushed out: a debt, as long as it is still to come. */
static bool owes(const struct model *model, int64_t now)
{
    return model->u.log.length == most(model) && newest(model) > now && newest(model) < INT64_MAX &&
           newest(model) - model->limit->spec.period_ns <= model->u.log.times[0];
}

/* The opposite of a charge: the newest goes; if it is owed, the one that it had pushed out comes back. */
static void give(struct model *model, int64_t now, int64_t n)
{
    int64_t period = model->limit->spec.period_ns, *times = model->u.log.times;
    while (n > 0 && model->u.log.length > 0 && newest(model) < INT64_MAX) {
        int64_t rounds = (int64_t)model_min(n / most(model), (times[0] - now) / period) - 2;
        if (rounds > 0 && owes(model, now)) { /* whole rings only move the pattern back */
            for (int64_t i = 0; i < model->u.log.length; i++)
                times[i] -= rounds * period;
            n -= rounds * most(model);
            continue;
        }
        int64_t back = newest(model) - period;
        bool owed = owes(model, now);
        model->u.log.length--;
        if (owed)
            put_in(model, back);
        n--;
    }
}

static void charge(struct model *model, int64_t now, int64_t n)
{
    int64_t period = model->limit->spec.period_ns, rounds = n / most(model) - 8;
    if (rounds > 0) /* the rest of a debt so long only moves the same pattern on */
        n -= rounds * most(model);
    for (int64_t i = 0; i < n; i++) {
        int64_t time = later(now, newest(model));
        if (model->u.log.length == most(model))
            time = later(time, sat_add(model->u.log.times[0], period));
        append(model, time);
    }
    for (int64_t i = 0; rounds > 0 && i < model->u.log.length; i++)
        model->u.log.times[i] = sat_add(model->u.log.times[i], sat_mul(rounds, period));
}

static int64_t remaining(const struct model *model, int64_t now)
{
    return newest(model) > now ? 0 : most(model) - counted(model, now);
}

static void drain(struct model *model, int64_t now)
{
    for (int64_t i = remaining(model, now); i > 0; i--)
        append(model, now);
}

static void change(struct model *model, const struct limit *next, int64_t now)
{
    struct model old = *model;
    model->limit = next;
    init(model, now);
    for (int64_t i = 0; i < old.u.log.length; i++)
        charge(model, old.u.log.times[i], 1);
    free(old.u.log.times);
}

static int64_t fresh(const struct model *model, int64_t now)
{
    return counted(model, now) == 0 ? now : sat_add(newest(model), model->limit->spec.period_ns);
}

const struct machine model_sliding_log = {
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
