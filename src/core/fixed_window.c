/* SPDX-License-Identifier: MIT */
/*
 * fixed-window: at most L units in each window [i*W, (i+1)*W).
 *
 * Law: in every interval [x, y]   admitted - given back <= L * (ceil((y - x) / W) + 1)
 * The slack is the edge: L at the end of one window and L at the start of the next. Charged units beyond L
 * are carried into the windows that follow and use them up.
 *
 * refused=count: units that were refused use the window up, too.
 */
#include "core/limit.h"

enum { WINDOW, USED, WORDS };

struct count {
    int64_t window, used;
};

/* The count as of `now`: every window that has ended took L units of a debt with it. A clock that stepped
 * back stays in the window it had reached. */
static struct count count_at(const struct limit *limit, const int64_t *state, int64_t now)
{
    int64_t window = now / limit->spec.period_ns;
    if (window <= state[WINDOW])
        return (struct count){state[WINDOW], state[USED]};
    int64_t ended = sat_mul(window - state[WINDOW], limit->spec.count);
    return (struct count){window, max64(state[USED] - ended, 0)};
}

static void save(int64_t *state, struct count count)
{
    state[WINDOW] = count.window;
    state[USED] = count.used;
}

static size_t words(const struct limit *limit)
{
    (void)limit;
    return WORDS;
}

static void init(const struct limit *limit, int64_t *state, int64_t now)
{
    save(state, (struct count){now / limit->spec.period_ns, 0});
}

static int64_t due(const struct limit *limit, const int64_t *state, int64_t now, int64_t n)
{
    struct count count = count_at(limit, state, now);
    int64_t excess = sat_sub(sat_add(count.used, n), limit->spec.count);
    if (n > limit->spec.count)
        return WEIR_FOREVER;
    if (excess <= 0)
        return now;
    int64_t window = sat_add(count.window, div_up(excess, limit->spec.count));
    int64_t start = sat_mul(window, limit->spec.period_ns);
    return start > WEIR_TIME_MAX ? WEIR_FOREVER : start;
}

static void charge(const struct limit *limit, int64_t *state, int64_t now, int64_t n)
{
    struct count count = count_at(limit, state, now);
    count.used = sat_add(count.used, n);
    save(state, count);
}

static uint64_t enter(const struct limit *limit, int64_t *state, int64_t now, int64_t n)
{
    charge(limit, state, now, n);
    return 0;
}

/* A hit that was refused fills the window, but is not a debt for those after it. */
static void refuse(const struct limit *limit, int64_t *state, int64_t now, int64_t n)
{
    if (limit->spec.refused != WEIR_REFUSED_COUNT)
        return;
    struct count count = count_at(limit, state, now);
    count.used = max64(count.used, min64(sat_add(count.used, n), limit->spec.count));
    save(state, count);
}

static void give(const struct limit *limit, int64_t *state, int64_t now, int64_t n)
{
    struct count count = count_at(limit, state, now);
    count.used = max64(sat_sub(count.used, n), 0);
    save(state, count);
}

/* Units of a window that has passed on cannot come back. */
static bool cancel(const struct limit *limit, int64_t *state, const struct weir_reservation *r, int64_t promised)
{
    (void)promised;
    if (state[WINDOW] == r->due_ns / limit->spec.period_ns)
        state[USED] = max64(state[USED] - r->n, 0);
    return false;
}

static void drain(const struct limit *limit, int64_t *state, int64_t now)
{
    struct count count = count_at(limit, state, now);
    count.used = max64(count.used, limit->spec.count);
    save(state, count);
}

static void change(const struct limit *limit, const int64_t *from, const struct limit *next, int64_t *to,
                   int64_t now)
{
    save(to, (struct count){now / next->spec.period_ns, count_at(limit, from, now).used});
}

static int64_t remaining(const struct limit *limit, const int64_t *state, int64_t now)
{
    return max64(limit->spec.count - count_at(limit, state, now).used, 0);
}

static int64_t fresh(const struct limit *limit, const int64_t *state, int64_t now)
{
    struct count count = count_at(limit, state, now);
    int64_t windows = div_up(count.used, limit->spec.count);
    return windows == 0 ? now : sat_mul(sat_add(count.window, windows), limit->spec.period_ns);
}

static int64_t most(const struct limit *limit, int64_t span_ns)
{
    return sat_mul(limit->spec.count, div_up(span_ns, limit->spec.period_ns) + 1);
}

const struct algorithm weir_fixed_window = {
    .words = words,
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
    .most = most,
};
