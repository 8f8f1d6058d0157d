/* SPDX-License-Identifier: MIT */
/*
 * unlimited and blocked: everything passes, nothing passes. They have no state.
 */
#include "core/limit.h"

static size_t words(const struct limit *limit)
{
    (void)limit;
    return 0;
}

static void init(const struct limit *limit, int64_t *state, int64_t now)
{
    (void)limit, (void)state, (void)now;
}

static int64_t due_now(const struct limit *limit, const int64_t *state, int64_t now, int64_t n)
{
    (void)limit, (void)state, (void)n;
    return now;
}

static int64_t due_never(const struct limit *limit, const int64_t *state, int64_t now, int64_t n)
{
    (void)limit, (void)state, (void)now, (void)n;
    return WEIR_FOREVER;
}

static uint64_t enter(const struct limit *limit, int64_t *state, int64_t now, int64_t n)
{
    (void)limit, (void)state, (void)now, (void)n;
    return 0;
}

static bool cancel(const struct limit *limit, int64_t *state, const struct weir_reservation *r,
                   int64_t promised)
{
    (void)limit, (void)state, (void)r, (void)promised;
    return true;
}

static void count_nothing(const struct limit *limit, int64_t *state, int64_t now, int64_t n)
{
    (void)limit, (void)state, (void)now, (void)n;
}

static void change(const struct limit *limit, const int64_t *from, const struct limit *next, int64_t *to,
                   int64_t now)
{
    (void)limit, (void)from, (void)next, (void)to, (void)now;
}

static int64_t all(const struct limit *limit, const int64_t *state, int64_t now)
{
    (void)limit, (void)state, (void)now;
    return INT64_MAX;
}

static int64_t none(const struct limit *limit, const int64_t *state, int64_t now)
{
    (void)limit, (void)state, (void)now;
    return 0;
}

static int64_t fresh(const struct limit *limit, const int64_t *state, int64_t now)
{
    (void)limit, (void)state;
    return now;
}

static int64_t most_all(const struct limit *limit, int64_t span_ns)
{
    (void)limit, (void)span_ns;
    return WEIR_FOREVER;
}

static int64_t most_none(const struct limit *limit, int64_t span_ns)
{
    (void)limit, (void)span_ns;
    return 0;
}

const struct algorithm weir_unlimited = {
    .words = words,
    .init = init,
    .due = due_now,
    .enter = enter,
    .cancel = cancel,
    .give = count_nothing,
    .charge = count_nothing,
    .drain = init,
    .change = change,
    .remaining = all,
    .fresh = fresh,
    .most = most_all,
};

const struct algorithm weir_blocked = {
    .words = words,
    .init = init,
    .due = due_never,
    .enter = enter,
    .cancel = cancel,
    .give = count_nothing,
    .charge = count_nothing,
    .drain = init,
    .change = change,
    .remaining = none,
    .fresh = fresh,
    .most = most_none,
};
