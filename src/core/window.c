/* SPDX-License-Identifier: MIT */
/*
 * fixed-window (and quota, which a fleet may share): at most L units in each window [i*W, (i+1)*W).
 * sliding-window: the same, and the units of the previous window fade out linearly while the present one goes
 * on.
 *
 * Law: in each window at most L, so in every interval [x, y]
 *     admitted - given back <= L * (ceil((y - x) / W) + 1)
 * sliding-window: besides, at every admission, e nanoseconds into the present window,
 *     present + previous * (W - e) / W <= L
 * Times count by the latest reading: a clock that steps back stays in the window that it has seen.
 * The slack against sliding-log: up to 2L in one W. In a fixed window they may come at one moment, the edge;
 * in a sliding one L come in the last instant of a window and L again at the end of the next. Charged units
 * beyond L are carried into the windows that follow and use them up.
 *
 * refused=count: units that were refused count like admitted ones. A sliding window counts those beyond L,
 * too (excess), and they fade out with their window; they are no debt, which later windows would have to pay.
 */
#include "base/assert.h"
#include "core/limit.h"

struct window_count {
    int64_t window, present, previous;
    int64_t excess; /* units that were refused in the present window and found no room in it */
};

static bool window_fades(const struct limit *limit)
{
    return limit->spec.algo == WEIR_SLIDING_WINDOW;
}

static bool window_is_quota(const struct limit *limit)
{
    return limit->spec.algo == WEIR_QUOTA;
}

static bool window_has_excess(const struct limit *limit)
{
    return window_fades(limit) && limit->spec.refused == WEIR_REFUSED_COUNT;
}

/* The count after `turns` windows more: each takes L of what is there with it, and all of the excess. */
static struct window_count window_count_turn(const struct limit *limit, struct window_count count,
                                             int64_t turns)
{
    if (turns <= 0)
        return count;
    int64_t before = max64(count.present - sat_mul(turns - 1, limit->spec.count), 0);
    int64_t ended = min64(before, limit->spec.count);
    count.previous = window_fades(limit) ? sat_add(ended, turns == 1 ? count.excess : 0) : 0;
    count.present = before - ended;
    count.excess = 0;
    count.window = sat_add(count.window, turns);
    return count;
}

#if WEIR_ASSERTIONS
/* Windows turn one by one: n turns are n - 1 and another one. */
static void window_check_turn(const struct limit *limit, struct window_count count, int64_t turns,
                              struct window_count turned)
{
    struct window_count again = window_count_turn(limit, window_count_turn(limit, count, turns - 1), 1);
    ASSERT(turned.window == sat_add(count.window, turns));
    ASSERT(turned.present >= 0 && turned.present <= count.present);
    ASSERT(turned.previous >= 0 && turned.previous <= sat_add(limit->spec.count, count.excess));
    ASSERT(turns < 2 || (again.present == turned.present && again.previous == turned.previous &&
                         again.window == turned.window && again.excess == turned.excess));
    /* What was there has ended with its window, or goes on. */
    ASSERT(turns != 1 || !window_fades(limit) ||
           sat_add(turned.present, turned.previous) == sat_add(count.present, count.excess));
}
#endif

static struct window_count window_load(const struct limit *limit, const int64_t *state)
{
    return (struct window_count){state[AT_WINDOW], state[AT_PRESENT], state[AT_PREVIOUS],
                                 window_has_excess(limit) ? state[AT_EXCESS] : 0};
}

static struct window_count window_count_at(const struct limit *limit, const int64_t *state, int64_t now)
{
#if WEIR_ASSERTIONS
    int64_t turns = now / limit->spec.period_ns - state[AT_WINDOW];
    struct window_count count = window_load(limit, state), turned = window_count_turn(limit, count, turns);
    ASSERT(turned.window >= count.window);
    if (turns > 0)
        window_check_turn(limit, count, turns, turned);
#endif
    return window_count_turn(limit, window_load(limit, state),
                             now / limit->spec.period_ns - state[AT_WINDOW]);
}

static void window_save(const struct limit *limit, int64_t *state, struct window_count count)
{
    state[AT_WINDOW] = count.window;
    state[AT_PRESENT] = count.present;
    state[AT_PREVIOUS] = count.previous;
    if (window_has_excess(limit))
        state[AT_EXCESS] = count.excess;
}

/* Nanoseconds into the window of `count`; a clock that stepped back stands at its start. */
static int64_t window_elapsed(const struct limit *limit, struct window_count count, int64_t now)
{
    return max64(now - sat_mul(count.window, limit->spec.period_ns), 0);
}

/* What so many units of the previous window still count for, rounded up. */
static int64_t window_share(const struct limit *limit, struct window_count count, int64_t now, int64_t units)
{
    int64_t period = limit->spec.period_ns;
    int64_t left = period - window_elapsed(limit, count, now), share = mul_div_up(units, left, period);
    ASSERT((weir_i128)share * period >= (weir_i128)units * left && share <= units);
    return share;
}

static int64_t window_faded(const struct limit *limit, struct window_count count, int64_t now)
{
    return window_share(limit, count, now, count.previous);
}

/* All that counts in the present window. */
static int64_t window_used(struct window_count count)
{
    return sat_add(count.present, count.excess);
}

static size_t window_words(const struct limit *limit)
{
    return window_has_excess(limit) ? WINDOW_WORDS : AT_EXCESS;
}

static void window_init(const struct limit *limit, int64_t *state, int64_t now)
{
    window_save(limit, state, (struct window_count){.window = now / limit->spec.period_ns});
}

/* The first moment of the count's own window at which the previous one leaves room for n; the length of the
 * window if there is none. */
static int64_t window_room_after(const struct limit *limit, struct window_count count, int64_t n)
{
    int64_t period = limit->spec.period_ns, room = sat_sub(limit->spec.count - n, window_used(count));
    if (room < 0)
        return period;
    if (room >= count.previous)
        return 0;
    /* previous * (W - e) <= room * W */
    return period - mul_div(room, period, count.previous);
}

static int64_t window_due(const struct limit *limit, const int64_t *state, int64_t now, int64_t n)
{
    if (n > limit->spec.count)
        return WEIR_FOREVER;
    struct window_count count = window_count_at(limit, state, now);
    int64_t debt = count.present + (n - limit->spec.count); /* n is no more than that: a sum that fits */
    if (window_room_after(limit, count, n) <= window_elapsed(limit, count, now))
        return now;
    if (debt > 0)
        count = window_count_turn(limit, count, div_up(debt, limit->spec.count));
    else if (sat_add(window_used(count), n) > limit->spec.count)
        count = window_count_turn(limit, count, 1);
    int64_t after = window_room_after(limit, count, n);
    int64_t time = sat_add(sat_mul(count.window, limit->spec.period_ns), after);
    return time > WEIR_TIME_MAX ? WEIR_FOREVER : max64(time, now);
}

static void window_charge(const struct limit *limit, int64_t *state, int64_t now, int64_t n)
{
    struct window_count count = window_count_at(limit, state, now);
    count.present = sat_add(count.present, n);
    window_save(limit, state, count);
}

static uint64_t window_enter(const struct limit *limit, int64_t *state, int64_t now, int64_t n)
{
    window_charge(limit, state, now, n);
    return 0;
}

static void window_refuse(const struct limit *limit, int64_t *state, int64_t now, int64_t n)
{
    struct window_count count = window_count_at(limit, state, now);
    int64_t counted = clamp64(limit->spec.count - count.present, 0, n);
    count.present += counted;
    count.excess = sat_add(count.excess, n - counted);
    window_save(limit, state, count);
}

/* To a quota's window that is over nothing comes back: units of it that a fleet has not spent would lift the
 * next one, if whoever gives them back has read the clock a little earlier. */
static void window_give(const struct limit *limit, int64_t *state, int64_t now, int64_t n)
{
    struct window_count count = window_count_at(limit, state, now);
    if (window_is_quota(limit) && now / limit->spec.period_ns < count.window)
        return;
    count.present = max64(sat_sub(count.present, n), 0);
    window_save(limit, state, count);
}

static bool window_cancel(const struct limit *limit, int64_t *state, const struct weir_reservation *r,
                          int64_t promised)
{
    (void)promised;
    int64_t ago = state[AT_WINDOW] - r->due_ns / limit->spec.period_ns;
    if (ago == 0)
        state[AT_PRESENT] = max64(state[AT_PRESENT] - r->n, 0);
    else if (ago == 1)
        state[AT_PREVIOUS] = max64(state[AT_PREVIOUS] - r->n, 0);
    return false;
}

static void window_drain(const struct limit *limit, int64_t *state, int64_t now)
{
    struct window_count count = window_count_at(limit, state, now);
    count.present =
        max64(count.present, limit->spec.count - sat_add(count.excess, window_faded(limit, count, now)));
    window_save(limit, state, count);
}

/* Of a quota the old window is used up if it has more than the new total: that holds until its end, and only
 * what was charged beyond the old one goes on. */
static int64_t window_kept(const struct limit *limit, const struct limit *next, int64_t units)
{
    int64_t debt = max64(sat_sub(units, limit->spec.count), 0);
    return window_is_quota(next) ? sat_add(min64(units - debt, next->spec.count), debt) : units;
}

/* What counts at this moment goes on in the present window of the new length, refused units as such. A longer
 * fixed window may end before the old one would have: then it counts in the next one, too. A quota's units
 * may be with others, who spend them until the old window ends: so what counts does so until then, and
 * shorter windows begin after it. */
static void window_change(const struct limit *limit, const int64_t *from, const struct limit *next,
                          int64_t *to, int64_t now)
{
    int64_t period = limit->spec.period_ns, next_period = next->spec.period_ns;
    struct window_count count = window_count_at(limit, from, now);
    int64_t start = sat_mul(count.window, period);
    int64_t spent = window_share(limit, count, now, min64(count.previous, limit->spec.count));
    struct window_count changed = {.window = max64(now, start) / next_period,
                                   .present = window_kept(limit, next, sat_add(count.present, spent)),
                                   .excess = sat_add(count.excess, window_faded(limit, count, now) - spent)};
    int64_t end = sat_mul(changed.window + 1, next_period);
    if (!window_fades(next) && next_period >= period && end < sat_add(start, period))
        changed.present = sat_add(changed.present, next->spec.count);
    if (window_is_quota(next) && next_period < period && changed.present > 0)
        changed.window = min64(sat_add(start, period) - 1, WEIR_TIME_MAX) / next_period;
    window_save(next, to, changed);
}

static int64_t window_remaining(const struct limit *limit, const int64_t *state, int64_t now)
{
    struct window_count count = window_count_at(limit, state, now);
    return max64(sat_sub(limit->spec.count, sat_add(window_used(count), window_faded(limit, count, now))), 0);
}

/* All counters are empty. */
static int64_t window_fresh(const struct limit *limit, const int64_t *state, int64_t now)
{
    struct window_count count = window_count_at(limit, state, now);
    int64_t turns = count.excess > 0 ? 2 : count.previous > 0;
    if (count.present > 0)
        turns = max64(turns, sat_add(div_up(count.present, limit->spec.count), window_fades(limit)));
    return turns == 0 ? now : sat_mul(sat_add(count.window, turns), limit->spec.period_ns);
}

/* Refused units that count are no debt. */
static int64_t window_debt(const struct limit *limit, const int64_t *state, int64_t now)
{
    struct window_count count = window_count_at(limit, state, now);
    int64_t faded = window_share(limit, count, now, min64(count.previous, limit->spec.count));
    return sat_sub(sat_add(count.present, faded), limit->spec.count);
}

/* A window that lies ahead, because the clock has stepped back, counts until its own end. */
static int64_t window_idle(const struct limit *limit, const int64_t *state)
{
    return window_fresh(limit, state, sat_mul(state[AT_WINDOW], limit->spec.period_ns));
}

static bool window_valid(const struct limit *limit, const int64_t *state)
{
    int64_t previous = !window_fades(limit) ? 0 : window_has_excess(limit) ? INT64_MAX : limit->spec.count;
    if (window_has_excess(limit) && state[AT_EXCESS] < 0)
        return false;
    return is_value_within(state[AT_WINDOW], 0, WEIR_TIME_MAX / limit->spec.period_ns) &&
           state[AT_PRESENT] >= 0 && is_value_within(state[AT_PREVIOUS], 0, previous);
}

static int64_t window_most(const struct limit *limit, int64_t span_ns)
{
    return sat_mul(limit->spec.count, div_up(span_ns, limit->spec.period_ns) + 1);
}

const struct algorithm weir_window = {
    .words = window_words,
    .init = window_init,
    .due = window_due,
    .enter = window_enter,
    .refuse = window_refuse,
    .cancel = window_cancel,
    .give = window_give,
    .charge = window_charge,
    .drain = window_drain,
    .change = window_change,
    .remaining = window_remaining,
    .debt = window_debt,
    .fresh = window_fresh,
    .idle = window_idle,
    .valid = window_valid,
    .most = window_most,
};
