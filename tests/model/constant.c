/* SPDX-License-Identifier: MIT */
/*
 * unlimited and blocked: always, never.
 */
#include "model/model.h"

static void init(struct model *model, int64_t now)
{
    (void)model, (void)now;
}

static int64_t always(const struct model *model, int64_t now, int64_t n)
{
    (void)model, (void)n;
    return now;
}

static int64_t never(const struct model *model, int64_t now, int64_t n)
{
    (void)model, (void)now, (void)n;
    return WEIR_FOREVER;
}

static weir_i128 enter(struct model *model, int64_t now, int64_t n)
{
    (void)model, (void)now, (void)n;
    return 0;
}

static bool cancel(struct model *model, const struct model_promise *promise, int64_t promised)
{
    (void)model, (void)promise, (void)promised;
    return true;
}

static void count_nothing(struct model *model, int64_t now, int64_t n)
{
    (void)model, (void)now, (void)n;
}

static void change(struct model *model, const struct limit *next, int64_t now)
{
    (void)model, (void)next, (void)now;
}

static int64_t all(const struct model *model, int64_t now)
{
    (void)model, (void)now;
    return INT64_MAX;
}

static int64_t none(const struct model *model, int64_t now)
{
    (void)model, (void)now;
    return 0;
}

static int64_t fresh(const struct model *model, int64_t now)
{
    (void)model;
    return now;
}

const struct machine model_unlimited = {
    .init = init,
    .due = always,
    .enter = enter,
    .cancel = cancel,
    .give = count_nothing,
    .charge = count_nothing,
    .drain = init,
    .change = change,
    .remaining = all,
    .fresh = fresh,
};

const struct machine model_blocked = {
    .init = init,
    .due = never,
    .enter = enter,
    .cancel = cancel,
    .give = count_nothing,
    .charge = count_nothing,
    .drain = init,
    .change = change,
    .remaining = none,
    .fresh = fresh,
};
