/* SPDX-License-Identifier: MIT */
/*
 * sliding-window: two counters. The units of the previous window fade out linearly while the present one
 * goes on.
 *
 * Law: at every admission, e nanoseconds into the present window of W,
 *     present + previous * (W - e) / W <= L
 * so each window has at most L, and in every interval [x, y]
 *     admitted - given back <= L * (ceil((y - x) / W) + 1)
 * The slack against sliding-log: up to 2L in one W, when L came in the last instant of a window and L again
 * at the end of the next. Charged units beyond L are carried into the windows that follow.
 *
 * refused=count: units that were refused count like admitted ones.
 */
#include "core/limit.h"

enum { WINDOW, PRESENT, PREVIOUS, WORDS };

struct count {
    int64_t window, present, previous;
};

/* The count after `turns` windows more: each takes L of what is there with it. */
static struct count count_turn(const struct limit *limit, struct count count, int64_t turns)
{
    if (turns <= 0)
        return count;
    int64_t before = max64(count.present - sat_mul(turns - 1, limit->spec.count), 0);
    count.previous = min64(before, limit->spec.count);
    count.present = before - count.previous;
    count.window = sat_add(count.window, turns);
    return count;
}

static struct count load(const int64_t *state)
{
    return (struct count){state[WINDOW], state[PRESENT], state[PREVIOUS]};
}

static struct count count_at(const struct limit *limit, const int64_t *state, int64_t now)
{
    return count_turn(limit, load(state), now / limit->spec.period_ns - state[WINDOW]);
}

static void save(int64_t *state, struct count count)
{
    state[WINDOW] = count.window;
    state[PRESENT] = count.present;
    state[PREVIOUS] = count.previous;
}

/* Nanoseconds into the window of `count`; a clock that stepped back stands at its start. */
static int64_t elapsed(const struct limit *limit, struct count count, int64_t now)
{
    return max64(now - sat_mul(count.window, limit->spec.period_ns), 0);
}

/* The previous window's share, rounded up. */
static int64_t faded(const struct limit *limit, struct count count, int64_t now)
{
    int64_t period = limit->spec.period_ns;
    return mul_div_up(count.previous, period - elapsed(limit, count, now), period);
}

static size_t words(const struct limit *limit)
{
    (void)limit;
    return WORDS;
}

static void init(const struct limit *limit, int64_t *state, int64_t now)
{
    save(state, (struct count){now / limit->spec.period_ns, 0, 0});
}

/* The first moment of the count's own window at which the previous one leaves room for n; the length of the
 * window if there is none. */
static int64_t room_after(const struct limit *limit, struct count count, int64_t n)
{
    int64_t period = limit->spec.period_ns, room = sat_sub(limit->spec.count - n, count.present);
    if (room < 0)
        return period;
    if (room >= count.previous)
        return 0;
    /* previous * (W - e) <= room * W */
    return period - mul_div(room, period, count.previous);
}

static int64_t due(const struct limit *limit, const int64_t *state, int64_t now, int64_t n)
{
    if (n > limit->spec.count)
        return WEIR_FOREVER;
    struct count count = count_at(limit, state, now);
    int64_t excess = sat_sub(sat_add(count.present, n), limit->spec.count);
    if (room_after(limit, count, n) <= elapsed(limit, count, now))
        return now;
    if (excess > 0)
        count = count_turn(limit, count, div_up(excess, limit->spec.count));
    int64_t after = room_after(limit, count, n);
    int64_t time = sat_add(sat_mul(count.window, limit->spec.period_ns), after);
    return time > WEIR_TIME_MAX ? WEIR_FOREVER : max64(time, now);
}

static void charge(const struct limit *limit, int64_t *state, int64_t now, int64_t n)
{
    struct count count = count_at(limit, state, now);
    count.present = sat_add(count.present, n);
    save(state, count);
}

static uint64_t enter(const struct limit *limit, int64_t *state, int64_t now, int64_t n)
{
    charge(limit, state, now, n);
    return 0;
}

static void refuse(const struct limit *limit, int64_t *state, int64_t now, int64_t n)
{
    if (limit->spec.refused != WEIR_REFUSED_COUNT)
        return;
    struct count count = count_at(limit, state, now);
    count.present = max64(count.present, min64(sat_add(count.present, n), limit->spec.count));
    save(state, count);
}

static void give(const struct limit *limit, int64_t *state, int64_t now, int64_t n)
{
    struct count count = count_at(limit, state, now);
    count.present = max64(sat_sub(count.present, n), 0);
    save(state, count);
}

static bool cancel(const struct limit *limit, int64_t *state, const struct weir_reservation *r, int64_t promised)
{
    (void)promised;
    int64_t ago = state[WINDOW] - r->due_ns / limit->spec.period_ns;
    if (ago == 0)
        state[PRESENT] = max64(state[PRESENT] - r->n, 0);
    else if (ago == 1)
        state[PREVIOUS] = max64(state[PREVIOUS] - r->n, 0);
    return false;
}

static void drain(const struct limit *limit, int64_t *state, int64_t now)
{
    struct count count = count_at(limit, state, now);
    count.present = max64(count.present, limit->spec.count - faded(limit, count, now));
    save(state, count);
}

/* What counts at this moment goes on in the present window of the new length. */
static void change(const struct limit *limit, const int64_t *from, const struct limit *next, int64_t *to,
                   int64_t now)
{
    struct count count = count_at(limit, from, now);
    int64_t counted = sat_add(count.present, faded(limit, count, now));
    save(to, (struct count){now / next->spec.period_ns, counted, 0});
}

static int64_t remaining(const struct limit *limit, const int64_t *state, int64_t now)
{
    struct count count = count_at(limit, state, now);
    return max64(sat_sub(limit->spec.count, sat_add(count.present, faded(limit, count, now))), 0);
}

/* Both counters are empty: two windows after the last unit, or after the last one of a debt. */
static int64_t fresh(const struct limit *limit, const int64_t *state, int64_t now)
{
    struct count count = count_at(limit, state, now);
    int64_t turns = count.previous > 0;
    if (count.present > 0)
        turns = sat_add(div_up(count.present, limit->spec.count), 1);
    return turns == 0 ? now : sat_mul(sat_add(count.window, turns), limit->spec.period_ns);
}

static int64_t most(const struct limit *limit, int64_t span_ns)
{
    return sat_mul(limit->spec.count, div_up(span_ns, limit->spec.period_ns) + 1);
}

const struct algorithm weir_sliding_window = {
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
