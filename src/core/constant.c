/* SPDX-License-Identifier: MIT */
/*
 * unlimited and blocked: everything passes, nothing passes. They have no state.
 */
#include "core/limit.h"

static size_t constant_words(const struct limit *limit)
{
    (void)limit;
    return 0;
}

static void constant_init(const struct limit *limit, int64_t *state, int64_t now)
{
    (void)limit, (void)state, (void)now;
}

static int64_t constant_due_now(const struct limit *limit, const int64_t *state, int64_t now, int64_t n)
{
    (void)limit, (void)state, (void)n;
    return now;
}

static int64_t constant_due_never(const struct limit *limit, const int64_t *state, int64_t now, int64_t n)
{
    (void)limit, (void)state, (void)now, (void)n;
    return WEIR_FOREVER;
}

static uint64_t constant_enter(const struct limit *limit, int64_t *state, int64_t now, int64_t n)
{
    (void)limit, (void)state, (void)now, (void)n;
    return 0;
}

static bool constant_cancel(const struct limit *limit, int64_t *state, const struct weir_reservation *r,
                            int64_t promised)
{
    (void)limit, (void)state, (void)r, (void)promised;
    return true;
}

static void constant_count_nothing(const struct limit *limit, int64_t *state, int64_t now, int64_t n)
{
    (void)limit, (void)state, (void)now, (void)n;
}

static void constant_change(const struct limit *limit, const int64_t *from, const struct limit *next,
                            int64_t *to, int64_t now)
{
    (void)limit, (void)from, (void)next, (void)to, (void)now;
}

static int64_t constant_all(const struct limit *limit, const int64_t *state, int64_t now)
{
    (void)limit, (void)state, (void)now;
    return INT64_MAX;
}

static int64_t constant_none(const struct limit *limit, const int64_t *state, int64_t now)
{
    (void)limit, (void)state, (void)now;
    return 0;
}

static int64_t constant_fresh(const struct limit *limit, const int64_t *state, int64_t now)
{
    (void)limit, (void)state;
    return now;
}

static int64_t constant_most_all(const struct limit *limit, int64_t span_ns)
{
    (void)limit, (void)span_ns;
    return WEIR_FOREVER;
}

static int64_t constant_most_none(const struct limit *limit, int64_t span_ns)
{
    (void)limit, (void)span_ns;
    return 0;
}

const struct algorithm weir_unlimited = {
    .words = constant_words,
    .init = constant_init,
    .due = constant_due_now,
    .enter = constant_enter,
    .cancel = constant_cancel,
    .give = constant_count_nothing,
    .charge = constant_count_nothing,
    .drain = constant_init,
    .change = constant_change,
    .remaining = constant_all,
    .fresh = constant_fresh,
    .most = constant_most_all,
};

const struct algorithm weir_blocked = {
    .words = constant_words,
    .init = constant_init,
    .due = constant_due_never,
    .enter = constant_enter,
    .cancel = constant_cancel,
    .give = constant_count_nothing,
    .charge = constant_count_nothing,
    .drain = constant_init,
    .change = constant_change,
    .remaining = constant_none,
    .fresh = constant_fresh,
    .most = constant_most_none,
};
