/* SPDX-License-Identifier: MIT */
/*
 * sliding-log: the times of the last L units, in a ring.
 *
 * Law: in every interval [x, x + W)   admitted - given back <= L        exactly, no slack.
 *
 * Times in the ring never decrease. Those of promises lie ahead, and so do charged units that found no
 * room: each takes the first place that the units before it leave. refused=count: refused units are
 * logged like admitted ones.
 */
#include <string.h>

#include "base/assert.h"
#include "core/limit.h"

/* Entry i, from the oldest. */
static int64_t *sliding_log_entry(const struct limit *limit, int64_t *state, int64_t i)
{
    return &state[AT_TIMES + (state[AT_HEAD] + i) % limit->spec.count];
}

static int64_t sliding_log_time_of(const struct limit *limit, const int64_t *state, int64_t i)
{
    return state[AT_TIMES + (state[AT_HEAD] + i) % limit->spec.count];
}

static int64_t sliding_log_newest(const struct limit *limit, const int64_t *state)
{
    return state[AT_LENGTH] == 0 ? 0 : sliding_log_time_of(limit, state, state[AT_LENGTH] - 1);
}

/* How many entries, from the oldest, lie at or before `time`. */
static int64_t sliding_log_entries_until(const struct limit *limit, const int64_t *state, int64_t time)
{
    int64_t low = 0, high = state[AT_LENGTH];
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (sliding_log_time_of(limit, state, middle) <= time)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Appends one entry; the oldest makes room. */
static void sliding_log_push(const struct limit *limit, int64_t *state, int64_t time)
{
    if (state[AT_LENGTH] == limit->spec.count)
        state[AT_HEAD] = (state[AT_HEAD] + 1) % limit->spec.count;
    else
        state[AT_LENGTH]++;
    *sliding_log_entry(limit, state, state[AT_LENGTH] - 1) = time;
    ASSERT(state[AT_LENGTH] == 1 || sliding_log_time_of(limit, state, state[AT_LENGTH] - 2) <= time);
}

static size_t sliding_log_words(const struct limit *limit)
{
    return AT_TIMES + (size_t)limit->spec.count;
}

static void sliding_log_init(const struct limit *limit, int64_t *state, int64_t now)
{
    (void)now;
    memset(state, 0, sliding_log_words(limit) * sizeof *state);
}

static int64_t sliding_log_due(const struct limit *limit, const int64_t *state, int64_t now, int64_t n)
{
    int64_t leaving = n - (limit->spec.count - state[AT_LENGTH]); /* so many must be W old */
    if (n > limit->spec.count)
        return WEIR_FOREVER;
    int64_t time = max64(now, sliding_log_newest(limit, state));
    if (leaving > 0)
        time = max64(time, sat_add(sliding_log_time_of(limit, state, leaving - 1), limit->spec.period_ns));
    return time > WEIR_TIME_MAX ? WEIR_FOREVER : time;
}

/* The ticket counts the entries that were pushed out although they still matter before `now`. */
static uint64_t sliding_log_enter(const struct limit *limit, int64_t *state, int64_t now, int64_t n)
{
    int64_t pushed_out = max64(n - (limit->spec.count - state[AT_LENGTH]), 0);
    for (int64_t i = 0; i < n; i++)
        sliding_log_push(limit, state, now);
    return (uint64_t)pushed_out;
}

static void sliding_log_refuse(const struct limit *limit, int64_t *state, int64_t now, int64_t n)
{
    int64_t time = max64(now, sliding_log_newest(limit, state));
    for (int64_t i = 0; i < min64(n, limit->spec.count); i++)
        sliding_log_push(limit, state, time);
}

/*
 * The entries go, and those that they pushed out come back. Their times are not known any more, only that
 * they were W old when these came due: they count as if just so, each in its place among the others.
 */
static bool sliding_log_cancel(const struct limit *limit, int64_t *state, const struct weir_reservation *r,
                               int64_t promised)
{
    (void)promised;
    int64_t end = sliding_log_entries_until(limit, state, r->due_ns), length = state[AT_LENGTH];
    int64_t start = max64(end - r->n, sliding_log_entries_until(limit, state, r->due_ns - 1));
    int64_t back = min64((int64_t)r->ticket, end - start);
    int64_t pushed_out_at = r->due_ns - limit->spec.period_ns;
    int64_t place = sliding_log_entries_until(limit, state, pushed_out_at);

    for (int64_t i = start - 1; i >= place; i--) /* newer ones move up by as many as come back */
        *sliding_log_entry(limit, state, i + back) = sliding_log_time_of(limit, state, i);
    for (int64_t i = place; i < place + back; i++)
        *sliding_log_entry(limit, state, i) = pushed_out_at;
    for (int64_t i = end; i < length; i++)
        *sliding_log_entry(limit, state, i - (end - start) + back) = sliding_log_time_of(limit, state, i);
    state[AT_LENGTH] = length - (end - start) + back;
    return sliding_log_newest(limit, state) < r->due_ns;
}

/* Moves all entries by so many whole periods. */
static void sliding_log_shift(const struct limit *limit, int64_t *state, int64_t periods)
{
    int64_t by = sat_mul(periods, limit->spec.period_ns);
    for (int64_t i = 0; by != 0 && i < state[AT_LENGTH]; i++)
        *sliding_log_entry(limit, state, i) = sat_add(sliding_log_time_of(limit, state, i), by);
}

/* Each charged unit takes the first place there is, W after the oldest in a full ring; a ring full of them
 * moves all by W. */
static void sliding_log_charge(const struct limit *limit, int64_t *state, int64_t now, int64_t n)
{
    int64_t count = limit->spec.count;
    int64_t single = n <= count ? n : count + (n - count) % count;
    for (int64_t i = 0; i < single; i++) {
        int64_t time = max64(now, sliding_log_newest(limit, state));
        if (state[AT_LENGTH] == count)
            time = max64(time, sat_add(sliding_log_time_of(limit, state, 0), limit->spec.period_ns));
        sliding_log_push(limit, state, time);
    }
    sliding_log_shift(limit, state, (n - single) / count);
}

/* Is the ring full of units that took their place W after another one? Then the newest lies ahead. */
static bool sliding_log_is_in_debt(const struct limit *limit, const int64_t *state, int64_t now)
{
    int64_t time = sliding_log_newest(limit, state);
    return state[AT_LENGTH] == limit->spec.count && time > now && time < INT64_MAX &&
           time - limit->spec.period_ns <= sliding_log_time_of(limit, state, 0);
}

/* Takes back the newest. One that is a debt had pushed out another, W before it, which comes back; a ring
 * full of them moves all by W. */
static void sliding_log_give(const struct limit *limit, int64_t *state, int64_t now, int64_t n)
{
    int64_t count = limit->spec.count, period = limit->spec.period_ns;
    int64_t ahead =
        sliding_log_is_in_debt(limit, state, now) ? max64(sliding_log_time_of(limit, state, 0) - now, 0) : 0;
    int64_t rings = min64(n / count, div_up(ahead, period));
    sliding_log_shift(limit, state, -rings);
    n = min64(n - rings * count, 2 * count); /* once around at the most, and then all of them */
    for (; n > 0 && state[AT_LENGTH] > 0; n--) {
        int64_t time = sliding_log_newest(limit, state);
        if (sliding_log_is_in_debt(limit, state, now)) {
            state[AT_HEAD] = (state[AT_HEAD] + count - 1) % count;
            *sliding_log_entry(limit, state, 0) = time - period;
        } else if (time < INT64_MAX) { /* else the debt has no end that is known */
            state[AT_LENGTH]--;
        }
    }
}

static int64_t sliding_log_remaining(const struct limit *limit, const int64_t *state, int64_t now)
{
    if (sliding_log_newest(limit, state) > now)
        return 0;
    int64_t gone = sliding_log_entries_until(limit, state, now - limit->spec.period_ns);
    return limit->spec.count - (state[AT_LENGTH] - gone);
}

static void sliding_log_drain(const struct limit *limit, int64_t *state, int64_t now)
{
    for (int64_t i = sliding_log_remaining(limit, state, now); i > 0; i--)
        sliding_log_push(limit, state, now);
}

/* What a smaller log cannot hold becomes a debt. */
static void sliding_log_change(const struct limit *limit, const int64_t *from, const struct limit *next,
                               int64_t *to, int64_t now)
{
    sliding_log_init(next, to, now);
    for (int64_t i = 0; i < from[AT_LENGTH]; i++)
        sliding_log_charge(next, to, sliding_log_time_of(limit, from, i), 1);
}

static int64_t sliding_log_fresh(const struct limit *limit, const int64_t *state, int64_t now)
{
    if (state[AT_LENGTH] == 0)
        return now;
    return max64(now, sat_add(sliding_log_newest(limit, state), limit->spec.period_ns));
}

/* In a full ring a unit that lies ahead has taken its place a period after another, which is not in the ring
 * any more, and so on: all that are less than a period old count. */
static int64_t sliding_log_debt(const struct limit *limit, const int64_t *state, int64_t now)
{
    int64_t used = 0, period = limit->spec.period_ns;
    for (int64_t i = 0; i < state[AT_LENGTH]; i++) {
        int64_t time = sliding_log_time_of(limit, state, i);
        if (time > now - period)
            used = sat_add(used, 1);
        if (time > now && state[AT_LENGTH] == limit->spec.count)
            used = sat_add(used, div_up(time - now, period));
    }
    return used - limit->spec.count;
}

/* Times never decrease. A unit that comes back may be from up to a period before the start of time. */
static bool sliding_log_valid(const struct limit *limit, const int64_t *state)
{
    int64_t count = limit->spec.count, before = -limit->spec.period_ns;
    if (!is_value_within(state[AT_HEAD], 0, count - 1) || !is_value_within(state[AT_LENGTH], 0, count))
        return false;
    for (int64_t i = 0; i < state[AT_LENGTH]; i++) {
        if (sliding_log_time_of(limit, state, i) < before)
            return false;
        before = sliding_log_time_of(limit, state, i);
    }
    return true;
}

static int64_t sliding_log_most(const struct limit *limit, int64_t span_ns)
{
    return sat_mul(limit->spec.count, max64(div_up(span_ns, limit->spec.period_ns), 1));
}

const struct algorithm weir_sliding_log = {
    .words = sliding_log_words,
    .init = sliding_log_init,
    .due = sliding_log_due,
    .enter = sliding_log_enter,
    .refuse = sliding_log_refuse,
    .cancel = sliding_log_cancel,
    .give = sliding_log_give,
    .charge = sliding_log_charge,
    .drain = sliding_log_drain,
    .change = sliding_log_change,
    .remaining = sliding_log_remaining,
    .debt = sliding_log_debt,
    .fresh = sliding_log_fresh,
    .valid = sliding_log_valid,
    .most = sliding_log_most,
};
