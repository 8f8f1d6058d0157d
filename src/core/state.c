/* SPDX-License-Identifier: MIT */
/*
 * The verbs, and everything about them that does not depend on the algorithm.
 *
 * A question is asked of every limit, "when?", and the latest answer counts: if it is within the timeout,
 * the units are recorded in every limit at that one moment, else in none. So a group is admitted at a time
 * that each of its limits allows, and a refusal changes nothing.
 *
 * Until the time of the latest promise has come, every question is answered as of that time: nobody overtakes
 * a promise. What is given back meanwhile is dropped, for it would come on top of units that have been
 * promised already. A reset, a restart and a live change leave no way back: promises made before them stand.
 */
#include "core/state.h"

#include <string.h>

#include "core/explain.h"
#include "core/limit.h"
#include "core/state_check.h"

#define for_each_limit(limit, policy)                                                                        \
    for (const struct limit *limit = (policy)->limits; limit != (policy)->limits + (policy)->count; limit++)

static int64_t clamp_state_time(int64_t now_ns)
{
    return clamp64(now_ns, 0, WEIR_TIME_MAX);
}

/* The time as of which a state answers. */
static int64_t state_time(const int64_t *state, int64_t now)
{
    return max64(now, state[STATE_PROMISED]);
}

/* The same for what changes the state: promises that have come true are forgotten for good, so that a clock
 * that steps back does not bring them back. */
static int64_t settle_promises(int64_t *state, int64_t now)
{
    if (state[STATE_PROMISED] != 0 && state[STATE_PROMISED] <= now) {
        state[STATE_PROMISED] = 0;
        state[STATE_GENERATION] = state_next_age(state[STATE_GENERATION]);
    }
    return state_time(state, now);
}

/* ---- asking ---- */

struct limits_question {
    int64_t now, n, timeout;
};

struct limits_answer {
    int64_t due;    /* when all limits let n pass */
    int64_t retry;  /* when the question is answered with yes */
    int32_t limit;  /* the limit that says so */
    int32_t reason; /* WEIR_OK: now */
};

static int64_t limit_due(const struct limit *limit, const int64_t *state, const struct limits_question *q)
{
    int64_t due = limit->algorithm->due(limit, state + limit->offset, state_time(state, q->now), q->n);
    return due > WEIR_TIME_MAX ? WEIR_FOREVER : due;
}

/* A limit may refuse to let n wait for that long, or for want of room. */
static void ask_limits_for_room(const struct weir_policy *policy, const int64_t *state,
                                const struct limits_question *q, struct limits_answer *answer)
{
    for_each_limit(limit, policy) {
        if (!limit->algorithm->open)
            continue;
        int64_t open = limit->algorithm->open(limit, state + limit->offset, q->now, q->n, answer->due);
        if (open > answer->retry) {
            answer->retry = open;
            answer->limit = (int32_t)(limit - policy->limits);
            answer->reason = WEIR_FULL;
        }
    }
}

static struct limits_answer ask_limits(const struct weir_policy *policy, const int64_t *state,
                                       const struct limits_question *q)
{
    struct limits_answer answer = {.due = q->now};
    for_each_limit(limit, policy) {
        int64_t due = limit_due(limit, state, q);
        if (due > answer.due) {
            answer.due = due;
            answer.limit = (int32_t)(limit - policy->limits);
        }
    }
    if (answer.due == WEIR_FOREVER) {
        answer.retry = WEIR_FOREVER;
        answer.reason = WEIR_NEVER;
        return answer;
    }
    answer.retry = max64(sat_sub(answer.due, q->timeout), q->now);
    answer.reason = answer.retry > q->now ? WEIR_LATER : WEIR_OK;
    ask_limits_for_room(policy, state, q, &answer);
    return answer;
}

static void enter_limits(const struct weir_policy *policy, int64_t *state, const struct limits_question *q,
                         int64_t due, struct weir_reservation *reservations)
{
    (void)settle_promises(state, q->now);
    if (due > q->now)
        state[STATE_GENERATION]++;
    struct weir_reservation r = {.n = q->n,
                                 .wait_ns = due - q->now,
                                 .due_ns = due,
                                 .before_ns = state[STATE_PROMISED],
                                 .generation = state[STATE_GENERATION]};
    for_each_limit(limit, policy) {
        const struct algorithm *algorithm = limit->algorithm;
        bool waits = due > q->now && algorithm->promise;
        r.ticket = (waits ? algorithm->promise : algorithm->enter)(limit, state + limit->offset, due, q->n);
        if (reservations)
            *reservations++ = r;
    }
    if (due > q->now)
        state[STATE_PROMISED] = due;
}

/* Tells the limits that refused, if they are to count it. Gives true if one is. */
static bool count_refusal(const struct weir_policy *policy, int64_t *state, const struct limits_question *q)
{
    bool told = false;
    for_each_limit(limit, policy) {
        if (limit->spec.refused == WEIR_REFUSED_IGNORE)
            continue;
        int64_t due = limit_due(limit, state, q);
        if (due == WEIR_FOREVER || sat_sub(due, q->timeout) > q->now) {
            limit->algorithm->refuse(limit, state + limit->offset, state_time(state, q->now), q->n);
            told = true;
        }
    }
    return told;
}

/* ---- verdicts ---- */

static int64_t limit_remaining(const struct limit *limit, const int64_t *state, int64_t now)
{
    if (state_time(state, now) > now)
        return 0;
    return limit->algorithm->remaining(limit, state + limit->offset, now);
}

static int64_t limit_behind(const struct limit *limit, const int64_t *state, int64_t now)
{
    return limit->algorithm->behind ? limit->algorithm->behind(limit, state + limit->offset, now) : 0;
}

static int64_t limit_reset_after(const struct limit *limit, const int64_t *state, int64_t now)
{
    int64_t fresh = limit->algorithm->fresh(limit, state + limit->offset, state_time(state, now));
    return fresh > WEIR_TIME_MAX ? WEIR_FOREVER : fresh - now;
}

/* A second's worth of a slow rate may be less than a unit: then none is ever saved. */
static int64_t limit_whole_units(const struct limit *limit)
{
    return max64(weir_limit_capacity(limit), 1);
}

/* Which limit has the least share of its units left; of several, the one that is full again last. */
static const struct limit *tightest_limit(const struct weir_policy *policy, const int64_t *state, int64_t now)
{
    const struct limit *least = policy->limits;
    if (policy->count == 1)
        return least;
    int64_t left = limit_remaining(least, state, now), whole = limit_whole_units(least);
    for_each_limit(limit, policy) {
        int64_t other_left = limit_remaining(limit, state, now), other_whole = limit_whole_units(limit);
        weir_i128 share = (weir_i128)left * other_whole, other = (weir_i128)other_left * whole;
        if (other < share ||
            (other == share && limit_reset_after(limit, state, now) > limit_reset_after(least, state, now))) {
            least = limit;
            left = other_left;
            whole = other_whole;
        }
    }
    return least;
}

/* Describes the state as the decision left it, by one limit: that which refused or makes the caller wait,
 * else the one with the least share left. */
static void describe_state(const struct weir_policy *policy, const int64_t *state, int64_t now,
                           struct weir_verdict *v)
{
    bool free = v->allowed && v->wait_ns == 0;
    const struct limit *limit = free ? tightest_limit(policy, state, now) : &policy->limits[v->limit];
    v->limit = (int32_t)(limit - policy->limits);
    v->remaining = limit_remaining(limit, state, now);
    v->reset_after_ns = limit_reset_after(limit, state, now);
    v->behind_ns = limit_behind(limit, state, now);
}

static void fill_verdict(const struct weir_policy *policy, const int64_t *state,
                         const struct limits_question *q, const struct limits_answer *answer,
                         struct weir_verdict *verdict)
{
    bool allowed = answer->reason == WEIR_OK;
    *verdict = (struct weir_verdict){
        .allowed = allowed,
        .reason = answer->reason,
        .retry_after_ns = answer->retry == WEIR_FOREVER ? WEIR_FOREVER : answer->retry - q->now,
        .wait_ns = allowed ? answer->due - q->now : 0,
        .limit = answer->limit,
    };
    describe_state(policy, state, q->now, verdict);
}

static bool reject_units(struct weir_verdict *verdict)
{
    if (verdict)
        *verdict = (struct weir_verdict){.reason = WEIR_INVALID, .retry_after_ns = WEIR_FOREVER};
    return false;
}

/* ---- verbs ---- */

void weir_state_init(const struct weir_policy *policy, void *state, int64_t now_ns)
{
    int64_t *words = state;
    if (!policy || !state)
        return;
    words[STATE_PROMISED] = words[STATE_GENERATION] = 0;
    for_each_limit(limit, policy)
        limit->algorithm->init(limit, words + limit->offset, clamp_state_time(now_ns));
}

bool weir_state_reserve(const struct weir_policy *policy, void *state, int64_t now_ns, int64_t n,
                        int64_t timeout_ns, struct weir_reservation *reservations,
                        struct weir_verdict *verdict)
{
    if (!policy || !state || n < 1)
        return reject_units(verdict);
    struct limits_question q = {clamp_state_time(now_ns), n,
                                timeout_ns < 0 ? policy->timeout_ns : timeout_ns};
    STATE_CHECK(policy, state, q.now, n);
    struct limits_answer answer = ask_limits(policy, state, &q);
    STATE_CHECK_END(answer, q.timeout, answer.reason == WEIR_OK ? answer.due : -1, answer.retry);
    if (answer.reason == WEIR_OK)
        enter_limits(policy, state, &q, answer.due, reservations);
    else if (count_refusal(policy, state, &q))
        answer = ask_limits(policy, state, &q);
    STATE_CHECK_END(take, state, q.timeout, answer.reason == WEIR_OK ? answer.due : -1);
    if (verdict)
        fill_verdict(policy, state, &q, &answer, verdict);
    return answer.reason == WEIR_OK;
}

/* One limit, no promise outstanding, nothing to be told or counted: the same decision without the ceremony.
 */
static bool take_from_one_limit(const struct limit *limit, int64_t *words, int64_t now, int64_t n)
{
    if (limit->algorithm->take)
        return limit->algorithm->take(limit, words, now, n);
    if (limit->algorithm->due(limit, words, now, n) > now)
        return false;
    (void)limit->algorithm->enter(limit, words, now, n);
    return true;
}

bool weir_state_take(const struct weir_policy *policy, void *state, int64_t now_ns, int64_t n,
                     struct weir_verdict *verdict)
{
    int64_t *words = state;
    if (policy && state && !verdict && n > 0 && policy->count == 1 && words[STATE_PROMISED] == 0) {
        const struct limit *limit = &policy->limits[0];
        if (!limit->algorithm->open && limit->spec.refused == WEIR_REFUSED_IGNORE) {
            int64_t now = clamp_state_time(now_ns);
            STATE_CHECK(policy, words, now, n);
            bool allowed = take_from_one_limit(limit, words + limit->offset, now, n);
            STATE_CHECK_END(take, words, 0, allowed ? now : -1);
            return allowed;
        }
    }
    return weir_state_reserve(policy, state, now_ns, n, 0, NULL, verdict);
}

bool weir_state_peek(const struct weir_policy *policy, const void *state, int64_t now_ns, int64_t n,
                     struct weir_verdict *verdict)
{
    if (!policy || !state || n < 1)
        return reject_units(verdict);
    struct limits_question q = {clamp_state_time(now_ns), n, 0};
    STATE_CHECK(policy, state, q.now, n);
    struct limits_answer answer = ask_limits(policy, state, &q);
    STATE_CHECK_END(answer, 0, answer.reason == WEIR_OK ? answer.due : -1, answer.retry);
    if (verdict)
        fill_verdict(policy, state, &q, &answer, verdict);
    return answer.reason == WEIR_OK;
}

/* Neither handed back, nor due, nor beyond recall. */
static bool is_reservation_open(const int64_t *state, const struct weir_reservation *r, int64_t now)
{
    return r->n > 0 && r->wait_ns > 0 && r->due_ns > now && r->due_ns <= state[STATE_PROMISED] &&
           r->generation / STATE_AGE == state[STATE_GENERATION] / STATE_AGE;
}

bool weir_state_cancel(const struct weir_policy *policy, void *state, int64_t now_ns,
                       struct weir_reservation *reservations)
{
    int64_t *words = state;
    struct weir_reservation *r = reservations;
    if (!policy || !state || !r || !is_reservation_open(words, r, clamp_state_time(now_ns)))
        return false;
    STATE_CHECK(policy, state, now_ns, r->n);
    bool undone =
        r->generation == words[STATE_GENERATION]; /* the latest: another may be due at the same time */
    for_each_limit(limit, policy) {
        if (!limit->algorithm->cancel(limit, words + limit->offset, r, words[STATE_PROMISED]))
            undone = false;
        r->n = 0;
        r++;
    }
    if (undone) {
        words[STATE_PROMISED] = reservations->before_ns;
        words[STATE_GENERATION]--;
    }
    STATE_CHECK_END(cancel, words, reservations);
    return true;
}

void weir_state_give(const struct weir_policy *policy, void *state, int64_t now_ns, int64_t n)
{
    int64_t *words = state, now = clamp_state_time(now_ns);
    STATE_CHECK(policy, state, now, n);
    if (!policy || !state || n < 1 || settle_promises(words, now) > now)
        return;
    for_each_limit(limit, policy)
        limit->algorithm->give(limit, words + limit->offset, now, n);
    STATE_CHECK_END(give, words);
}

void weir_state_charge(const struct weir_policy *policy, void *state, int64_t now_ns, int64_t n)
{
    int64_t *words = state;
    if (!policy || !state || n < 1)
        return;
    STATE_CHECK(policy, state, now_ns, n);
    int64_t time = settle_promises(words, clamp_state_time(now_ns));
    for_each_limit(limit, policy)
        limit->algorithm->charge(limit, words + limit->offset, time, n);
    STATE_CHECK_END(charge, words);
}

int64_t weir_state_drain(const struct weir_policy *policy, void *state, int64_t now_ns)
{
    int64_t *words = state, now = clamp_state_time(now_ns), drained = INT64_MAX;
    if (!policy || !state)
        return 0;
    STATE_CHECK(policy, state, now, 1);
    if (settle_promises(words, now) > now)
        return 0;
    for_each_limit(limit, policy) {
        int64_t before = limit_remaining(limit, words, now);
        limit->algorithm->drain(limit, words + limit->offset, now);
        if (limit_remaining(limit, words, now) < before) /* unlimited has as much as before */
            drained = min64(drained, before);
    }
    STATE_CHECK_END(drain, words);
    return drained == INT64_MAX ? 0 : drained;
}

void weir_state_reset(const struct weir_policy *policy, void *state, int64_t now_ns)
{
    int64_t *words = state;
    if (!policy || !state)
        return;
    int64_t generation = state_next_age(words[STATE_GENERATION]);
    weir_state_init(policy, state, now_ns);
    words[STATE_GENERATION] = generation;
}

int64_t weir_state_restart(const struct weir_policy *policy, void *state, int64_t now_ns)
{
    int64_t *words = state, discarded = 0;
    if (!policy || !state)
        return 0;
    STATE_CHECK(policy, state, now_ns, 1);
    int64_t time = settle_promises(words, clamp_state_time(now_ns));
    for_each_limit(limit, policy)
        if (limit->algorithm->restart) {
            discarded = max64(discarded, limit->algorithm->restart(limit, words + limit->offset, time));
            words[STATE_GENERATION] = state_next_age(words[STATE_GENERATION]);
        }
    STATE_CHECK_END(restart, words);
    return discarded;
}

int64_t weir_state_behind(const struct weir_policy *policy, const void *state, int64_t now_ns)
{
    const int64_t *words = state;
    int64_t behind = 0;
    if (!policy || !state)
        return 0;
    int64_t now = clamp_state_time(now_ns);
    for_each_limit(limit, policy)
        if (limit->algorithm->behind) /* and all that was discarded before */
            behind =
                max64(behind, sat_add(words[limit->offset + AT_HISTORY], limit_behind(limit, words, now)));
    return behind;
}

/* ---- live change ---- */

enum likeness { LIKE_NOTHING, LIKE_ALGORITHM, LIKE_PERIOD, LIKE_NAME };

/* How well a limit stands in for the next one. Only the same algorithm can. */
static int likeness(const struct limit *limit, const struct limit *next)
{
    if (limit->spec.algo != next->spec.algo)
        return LIKE_NOTHING;
    if (next->spec.name[0] && strcmp(limit->spec.name, next->spec.name) == 0)
        return LIKE_NAME;
    return limit->spec.period_ns == next->spec.period_ns ? LIKE_PERIOD : LIKE_ALGORITHM;
}

/* Pairs each limit of `next` with one of `policy`, the best likeness first; -1: alone. */
static void pair_limits(const struct weir_policy *policy, const struct weir_policy *next, int *partners)
{
    bool used[WEIR_LIMITS_MAX] = {false};
    for (size_t i = 0; i < next->count; i++)
        partners[i] = -1;
    for (int wanted = LIKE_NAME; wanted > LIKE_NOTHING; wanted--)
        for (size_t i = 0; i < next->count; i++)
            for (size_t j = 0; j < policy->count && partners[i] < 0; j++)
                if (!used[j] && likeness(&policy->limits[j], &next->limits[i]) == wanted) {
                    used[j] = true;
                    partners[i] = (int)j;
                }
}

/* When a limit that is used up, but not in debt, lets a unit pass. A log is used up for a whole period. */
static int64_t due_when_empty(const struct limit *limit, int64_t now)
{
    int64_t words[8];
    if (limit->algorithm->words(limit) > sizeof words / sizeof words[0])
        return sat_add(now, limit->spec.period_ns);
    limit->algorithm->init(limit, words, now);
    limit->algorithm->drain(limit, words, now);
    return limit->algorithm->due(limit, words, now, 1);
}

/* When the debts of the limits that have no successor would have been repaid, the latest of them; what is
 * never does not count. Nothing passes before, so that a change of algorithm forgives no debt. */
static int64_t debts_end(const struct weir_policy *policy, const int64_t *state, int64_t now,
                         const struct weir_policy *next, const int *partners)
{
    struct limits_question q = {now, 1, 0};
    uint32_t kept = 0;
    int64_t latest = 0;
    for (size_t i = 0; i < next->count; i++)
        if (partners[i] >= 0)
            kept |= UINT32_C(1) << partners[i];
    for (size_t i = 0; i < policy->count; i++) {
        const struct limit *limit = &policy->limits[i];
        int64_t due = kept >> i & 1 ? WEIR_FOREVER : limit_due(limit, state, &q);
        if (due != WEIR_FOREVER)
            latest = max64(latest, now + max64(due - due_when_empty(limit, now), 0));
    }
    return latest;
}

void weir_state_change(const struct weir_policy *policy, const void *from, const struct weir_policy *next,
                       void *to, int64_t now_ns)
{
    int partners[WEIR_LIMITS_MAX];
    const int64_t *old = from;
    int64_t *words = to, now = clamp_state_time(now_ns);
    if (!policy || !from || !next || !to)
        return;
    STATE_CHECK(policy, from, now, 1);
    pair_limits(policy, next, partners);
    weir_state_init(next, to, now);
    words[STATE_PROMISED] = old[STATE_PROMISED];
    words[STATE_GENERATION] = state_next_age(old[STATE_GENERATION]);
    for_each_limit(limit, next) {
        int partner = partners[limit - next->limits];
        if (partner < 0) {
            limit->algorithm->drain(limit, words + limit->offset, state_time(old, now));
            int64_t end = debts_end(policy, old, now, next, partners);
            if (end > now)
                words[STATE_PROMISED] = max64(words[STATE_PROMISED], end);
            continue;
        }
        const struct limit *before = &policy->limits[partner];
        limit->algorithm->change(before, old + before->offset, limit, words + limit->offset,
                                 state_time(old, now));
    }
    if (next->count == 1 && next->limits[0].spec.algo == WEIR_UNLIMITED) /* nobody has to wait for anybody */
        words[STATE_PROMISED] = 0;
    STATE_CHECK_END(change, next, words);
}
