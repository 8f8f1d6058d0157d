/* SPDX-License-Identifier: MIT */
#include "core/state_check.h"

#include <string.h>

#include "core/explain.h"
#include "core/idle.h"
#include "core/index.h"
#include "core/state.h"

#if WEIR_ASSERTIONS

/* ---- one limit, one state: nothing changes ---- */

static int64_t due_of(const struct limit *limit, const int64_t *words, int64_t now, int64_t n)
{
    int64_t due = limit->algorithm->due(limit, words, now, n);
    return due > WEIR_TIME_MAX ? WEIR_FOREVER : due;
}

static int64_t remaining_of(const struct limit *limit, const int64_t *words, int64_t now)
{
    return limit->algorithm->remaining(limit, words, now);
}

/* Do n units pass exactly if n of them remain? The others let one caller pay for the one before. */
static bool counts_units(const struct limit *limit)
{
    switch ((enum weir_algo)limit->spec.algo) {
    case WEIR_LEAKY_BUCKET:
    case WEIR_SMOOTH:
    case WEIR_WARMUP:
    case WEIR_UNLIMITED:
    case WEIR_BLOCKED:
        return false;
    default:
        return true;
    }
}

/* due is exact: n pass at it and not a nanosecond earlier, fewer pass no later, and what passed at an earlier
 * reading of the clock passes now. */
static void check_due_exact(const struct limit *limit, const int64_t *words, int64_t now, int64_t n)
{
    int64_t due = due_of(limit, words, now, n), earlier = now - now / 4;
    ASSERT(due >= now);
    ASSERT(due == now || due_of(limit, words, earlier, n) > earlier);
    ASSERT(n == 1 || due_of(limit, words, now, n - 1) <= due);
    if (due == now || due == WEIR_FOREVER)
        return;
    ASSERT(due_of(limit, words, due, n) == due);
    ASSERT(due_of(limit, words, due - 1, n) == due);
}

/* remaining is exact: that many pass, and not one more. */
static void check_remaining_exact(const struct limit *limit, const int64_t *words, int64_t now)
{
    int64_t units = remaining_of(limit, words, now), most = weir_limit_capacity(limit);
    ASSERT(units >= 0 && units <= most);
    if (!counts_units(limit))
        return;
    ASSERT(units == 0 || due_of(limit, words, now, units) <= now);
    ASSERT(units == most || due_of(limit, words, now, units + 1) > now);
}

/* The time of reset_after is exact: the limit is full at it, and not a nanosecond earlier. hybrid counts what
 * the active pool holds, to which the burst pool adds. */
static void check_fresh_exact(const struct limit *limit, const int64_t *words, int64_t now)
{
    int64_t time = limit->algorithm->fresh(limit, words, now), most = weir_limit_capacity(limit);
    ASSERT(time >= now);
    if (time > WEIR_TIME_MAX)
        return;
    ASSERT(limit->algorithm->fresh(limit, words, time) == time);
    ASSERT(time == now || limit->algorithm->fresh(limit, words, time - 1) == time);
    if (!counts_units(limit) || limit->spec.algo == WEIR_HYBRID)
        return;
    ASSERT(remaining_of(limit, words, time) == most);
    ASSERT(time == now || remaining_of(limit, words, time - 1) < most);
}

/* The same for the time of a promise: questions are answered as of that time. */
static int64_t time_of_state(const int64_t *state, int64_t now)
{
    return max64(now, state[STATE_PROMISED]);
}

/* v(t), as one multiplication computes it, is what a division of 128 bits says, and ticks_time its inverse.
 */
static void check_ticks(const struct ticks *ticks, int64_t now)
{
    int64_t tick = ticks_at(ticks, now), time = ticks_time(ticks, tick);
    ASSERT(tick == weir_ticks_of_span(ticks, min64(now, ticks->time_max)));
    ASSERT(ticks_at(ticks, time) == tick && (time == 0 || ticks_at(ticks, time - 1) < tick));
}

static void check_state(const struct weir_policy *policy, const int64_t *state, int64_t now)
{
    int64_t time = time_of_state(state, now);
    ASSERT(weir_state_valid(policy, state));
    for (size_t i = 0; i < policy->count; i++) {
        const struct limit *limit = &policy->limits[i];
        if (limit->ticks.unit > 0)
            check_ticks(&limit->ticks, now);
        check_remaining_exact(limit, state + limit->offset, time);
        check_fresh_exact(limit, state + limit->offset, time);
    }
}

/* ---- what a verb did ---- */

struct state_check weir_state_check_begin(const struct weir_policy *policy, const int64_t *state,
                                          int64_t now_ns, int64_t n)
{
    struct state_check check = {.now = clamp64(now_ns, 0, WEIR_TIME_MAX), .n = n};
    /* So many promises nobody makes: such words come from a damaged file. */
    bool sound = policy && state && state[STATE_GENERATION] <= INT64_MAX / 4;
    if (sound && n > 0 && policy->words <= STATE_CHECK_WORDS) {
        check.policy = policy;
        memcpy(check.words, state, policy->words * sizeof *state);
    }
    return check;
}

/* The words of the limit before and after, and the time as of which both are asked. */
struct limit_change {
    const struct limit *limit;
    const int64_t *before, *after;
    int64_t time, left, left_before;
};

static struct limit_change change_of(const struct state_check *check, size_t i, const int64_t *state)
{
    const struct limit *limit = &check->policy->limits[i];
    struct limit_change change = {.limit = limit,
                                  .before = check->words + limit->offset,
                                  .after = state + limit->offset,
                                  .time = time_of_state(check->words, check->now)};
    change.left = remaining_of(limit, change.after, change.time);
    change.left_before = remaining_of(limit, change.before, change.time);
    return change;
}

/* Has the limit at most n units more than before? While units lie ahead of a log, none of it are left. */
static bool has_at_most(const struct limit_change *change, int64_t n)
{
    bool hidden = change->limit->spec.algo == WEIR_SLIDING_LOG && change->left_before == 0;
    return hidden || !counts_units(change->limit) || change->left <= sat_add(change->left_before, n);
}

static bool is_sooner(const struct limit_change *change)
{
    return due_of(change->limit, change->after, change->time, 1) <
           due_of(change->limit, change->before, change->time, 1);
}

void weir_state_check_answer(const struct state_check *check, int64_t timeout, int64_t due, int64_t retry)
{
    const struct weir_policy *policy = check->policy;
    if (!policy)
        return;
    int64_t time = time_of_state(check->words, check->now), latest = check->now;
    for (size_t i = 0; i < policy->count; i++) {
        const struct limit *limit = &policy->limits[i];
        const int64_t *words = check->words + limit->offset;
        check_due_exact(limit, words, time, check->n);
        latest = max64(latest, due_of(limit, words, time, check->n));
    }
    if (due >= 0) { /* all or none: the latest answer counts, and nobody overtakes a promise */
        ASSERT(due == latest && due <= sat_add(check->now, timeout));
        INVARIANT(3, due >= check->words[STATE_PROMISED] || latest == check->now);
    }
    ASSERT(due >= 0 ? retry == check->now : retry > check->now);
    ASSERT(latest == WEIR_FOREVER ? retry == WEIR_FOREVER : retry >= sat_sub(latest, timeout));
}

/* Nothing was written, unless a limit counts its refusals: those make it refuse more. */
static void check_refusal(const struct state_check *check, const int64_t *state)
{
    bool counts = false;
    for (size_t i = 0; i < check->policy->count; i++) {
        struct limit_change change = change_of(check, i, state);
        counts |= change.limit->spec.refused != WEIR_REFUSED_IGNORE;
        ASSERT(change.left <= change.left_before && !is_sooner(&change));
    }
    INVARIANT(1, counts || memcmp(state, check->words, check->policy->words * sizeof *state) == 0);
}

/* docs/internals/limiters.md, 4: a take moves the index by its cost, from what a full bucket left of it, and
 * not beyond the time at which it counts; smooth and leaky-bucket pay for the take later. */
static void check_index_take(const struct limit_change *change, int64_t time, bool waited, int64_t n)
{
    const struct limit *limit = change->limit;
    int64_t tick = waited ? ticks_of_promise(&limit->ticks, time) : ticks_at(&limit->ticks, time);
    weir_i128 from =
        change->before[0] > (weir_i128)tick - limit->full ? change->before[0] : (weir_i128)tick - limit->full;
    weir_i128 to = from + sat_i128((weir_i128)n * limit->ticks.unit);
    INVARIANT(4, change->after[0] == sat_i128(to));
}

static bool has_index(const struct limit *limit)
{
    return limit->algorithm->drain == weir_index_drain;
}

void weir_state_check_take(const struct state_check *check, const int64_t *state, int64_t timeout,
                           int64_t due)
{
    const struct weir_policy *policy = check->policy;
    if (!policy)
        return;
    check_state(policy, state, check->now);
    if (due < 0) {
        check_refusal(check, state);
        return;
    }
    ASSERT(due >= check->now && due - check->now <= timeout);
    bool waits = due > check->now;
    INVARIANT(3, state[STATE_PROMISED] == (waits ? due
                                           : check->words[STATE_PROMISED] <= check->now
                                               ? 0
                                               : check->words[STATE_PROMISED]));
    INVARIANT(3, state[STATE_GENERATION] >= check->words[STATE_GENERATION] + waits);
    for (size_t i = 0; i < policy->count; i++) {
        struct limit_change change = change_of(check, i, state);
        if (has_index(change.limit))
            check_index_take(&change, due, waits, check->n);
        if (change.limit->algorithm == &weir_token_bucket)
            INVARIANT(4, change.after[0] <= ticks_at(&change.limit->ticks, due));
        if (waits) /* the state is as of the time of the promise */
            continue;
        ASSERT(change.left == change.left_before - check->n || !counts_units(change.limit));
        ASSERT(!is_sooner(&change));
    }
}

/* Never above full, never more than is given, and nobody is worse off. */
void weir_state_check_give(const struct state_check *check, const int64_t *state)
{
    if (!check->policy)
        return;
    check_state(check->policy, state, check->now);
    if (check->words[STATE_PROMISED] > check->now) {
        INVARIANT(3, memcmp(state, check->words, check->policy->words * sizeof *state) == 0);
        return;
    }
    for (size_t i = 0; i < check->policy->count; i++) {
        struct limit_change change = change_of(check, i, state);
        ASSERT(change.left >= change.left_before || !counts_units(change.limit));
        INVARIANT(4, has_at_most(&change, check->n));
        ASSERT(due_of(change.limit, change.after, change.time, 1) <=
               due_of(change.limit, change.before, change.time, 1));
        if (has_index(change.limit)) {
            int64_t tick = ticks_at(&change.limit->ticks, check->now);
            int64_t index = index_at(change.limit, change.before[0], tick);
            INVARIANT(4, change.after[0] >= sat_sub(index, sat_mul(check->n, change.limit->ticks.unit)));
            INVARIANT(4, index != INDEX_NEVER || change.after[0] == INDEX_NEVER);
        }
    }
}

void weir_state_check_charge(const struct state_check *check, const int64_t *state)
{
    if (!check->policy)
        return;
    check_state(check->policy, state, check->now);
    for (size_t i = 0; i < check->policy->count; i++) {
        struct limit_change change = change_of(check, i, state);
        ASSERT(!is_sooner(&change));
        if (has_index(change.limit))
            check_index_take(
                &(struct limit_change){.limit = change.limit, .before = change.before, .after = change.after},
                change.time, false, check->n);
        else if (counts_units(change.limit))
            ASSERT(change.left == max64(sat_sub(change.left_before, check->n), 0));
    }
}

/* What is left is gone, and a debt stays. */
void weir_state_check_drain(const struct state_check *check, const int64_t *state)
{
    if (!check->policy)
        return;
    check_state(check->policy, state, check->now);
    for (size_t i = 0; i < check->policy->count; i++) {
        struct limit_change change = change_of(check, i, state);
        ASSERT(!is_sooner(&change));
        ASSERT(!counts_units(change.limit) || check->words[STATE_PROMISED] > check->now || change.left == 0);
        if (has_index(change.limit))
            INVARIANT(4, change.after[0] >= change.before[0]);
    }
}

/* Of hybrid the debt stays, and no time is filled twice. */
void weir_state_check_restart(const struct state_check *check, const int64_t *state)
{
    if (!check->policy)
        return;
    check_state(check->policy, state, check->now);
    for (size_t i = 0; i < check->policy->count; i++) {
        struct limit_change change = change_of(check, i, state);
        if (change.limit->spec.algo != WEIR_HYBRID || change.before[AT_FILLED] < 0) /* it starts */
            continue;
        ASSERT(change.left <= change.left_before && !is_sooner(&change));
        ASSERT(change.after[AT_FILLED] >= change.before[AT_FILLED] &&
               change.after[AT_HISTORY] >= change.before[AT_HISTORY]);
    }
}

/* Gives back at most the units of the promise, and never above full. */
void weir_state_check_cancel(const struct state_check *check, const int64_t *state,
                             const struct weir_reservation *reservations)
{
    const struct weir_policy *policy = check->policy;
    if (!policy || check->n > TICKS_SPAN_MAX) /* which no reservation has: the caller wrote it */
        return;
    check_state(policy, state, check->now);
    INVARIANT(3, check->words[STATE_PROMISED] > check->now && reservations->due_ns > check->now);
    INVARIANT(3, state[STATE_PROMISED] == check->words[STATE_PROMISED] ||
                     state[STATE_PROMISED] == reservations->before_ns);
    INVARIANT(3, state[STATE_GENERATION] / STATE_AGE == check->words[STATE_GENERATION] / STATE_AGE);
    for (size_t i = 0; i < policy->count; i++) {
        struct limit_change change = change_of(check, i, state);
        ASSERT(reservations[i].n == 0);
        INVARIANT(4, has_at_most(&change, check->n));
        ASSERT(due_of(change.limit, change.after, change.time, 1) <=
               due_of(change.limit, change.before, change.time, 1));
        if (has_index(change.limit)) {
            weir_i128 back = (weir_i128)change.before[0] - change.after[0];
            INVARIANT(4, back >= 0 && back <= (weir_i128)check->n * change.limit->ticks.unit);
            INVARIANT(4, change.before[0] != INDEX_NEVER || back == 0);
        }
    }
}

/* Spent units stay spent and saved ones saved, up to the new burst, rounded against the caller: as fractions
 * of a unit level' / unit' <= level / unit. Promises keep their time, and cannot be taken back any more. */
static void check_units_kept(const struct limit *limit, const int64_t *before, const struct limit *next,
                             const int64_t *after, int64_t time)
{
    int64_t tick = ticks_at(&limit->ticks, time), tick_after = ticks_at(&next->ticks, time);
    weir_i128 level = (weir_i128)tick - index_at(limit, before[0], tick);
    weir_i128 level_after = (weir_i128)tick_after - after[0];
    weir_i128 units = level * next->ticks.unit, units_after = level_after * limit->ticks.unit;
    if (before[0] == INDEX_NEVER || after[0] == INDEX_NEVER) {
        ASSERT(after[0] == INDEX_NEVER);
        return;
    }
    ASSERT(units_after <= units && level_after <= next->full);
    ASSERT(level_after == next->full || units - units_after < limit->ticks.unit);
}

void weir_state_check_change(const struct state_check *check, const struct weir_policy *next,
                             const int64_t *state)
{
    if (!check->policy || next->words > STATE_CHECK_WORDS)
        return;
    int64_t time = time_of_state(check->words, check->now);
    const struct limit *limit = check->policy->limits, *last = next->limits;
    check_state(next, state, check->now);
    ASSERT(state[STATE_GENERATION] / STATE_AGE > check->words[STATE_GENERATION] / STATE_AGE);
    if (next->count == 1 && last->spec.algo == WEIR_UNLIMITED)
        return;
    INVARIANT(7, state[STATE_PROMISED] >= check->words[STATE_PROMISED]);
    if (check->policy->count > 1 || next->count > 1)
        return;
    if (limit->spec.algo == last->spec.algo && limit->algorithm->change == weir_index_change)
        check_units_kept(limit, check->words + limit->offset, last, state + last->offset, time);
    if (limit->spec.algo != last->spec.algo && counts_units(last))
        ASSERT(remaining_of(last, state + last->offset, time) == 0);
}

#endif
