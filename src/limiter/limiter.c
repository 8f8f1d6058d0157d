/* SPDX-License-Identifier: MIT */
/*
 * The verbs of a limiter: in the word if the state is there, else in the core's form under the lock. Those of
 * a limiter with a balance are in balance_limiter.c.
 */
#include "limiter/limiter.h"

#include <string.h>

#include "core/explain.h"
#include "limiter/balance_limiter.h"
#include "limiter/change.h"
#include "limiter/life.h"
#include "os/clock.h"

static bool reject_take(struct weir_verdict *verdict)
{
    if (verdict)
        *verdict = (struct weir_verdict){.reason = WEIR_INVALID, .retry_after_ns = WEIR_FOREVER};
    return false;
}

/* ---- under the lock ---- */

/* What a pause says to every question, as a limit `blocked` does. */
static bool refuse_while_paused(struct weir_verdict *verdict)
{
    if (verdict)
        *verdict = (struct weir_verdict){.reason = WEIR_NEVER, .retry_after_ns = WEIR_FOREVER};
    return false;
}

int64_t weir_limiter_time(const struct weir_limiter *limiter, int64_t now)
{
    return limiter->filler ? weir_filler_time(limiter->filler, now) : now;
}

static void mark_changed(struct weir_limiter *limiter)
{
    limiter->mark = ++limiter->marks;
}

#if WEIR_ASSERTIONS
static uint64_t sum_of_state(const struct weir_limiter *limiter)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < limiter->policy->words; i++)
        sum = (sum ^ (uint64_t)limiter->state[i]) * UINT64_C(0x9e3779b97f4a7c15);
    return sum;
}
#endif

int64_t *weir_limiter_open(struct weir_limiter *limiter, int64_t *word)
{
#if WEIR_ASSERTIONS
    limiter->opened = limiter->state ? sum_of_state(limiter) : 0;
    limiter->opened_mark = limiter->mark;
#endif
    if (limiter->state)
        return limiter->state;
    weir_word_hold(&limiter->word, word);
    return word;
}

void weir_limiter_close(struct weir_limiter *limiter, const int64_t *state, bool changed)
{
    if (!limiter->state)
        weir_word_return(&limiter->word, state);
    else if (changed)
        mark_changed(limiter);
#if WEIR_ASSERTIONS /* another state has another mark; in a pause nothing is promised that could be undone   \
                     */
    if (limiter->state && !limiter->paused && limiter->mark == limiter->opened_mark)
        INVARIANT(7, limiter->opened == sum_of_state(limiter));
#endif
}

static bool policy_counts_refusals(const struct weir_policy *policy)
{
    for (size_t i = 0; i < policy->count; i++)
        if (policy->limits[i].spec.refused != WEIR_REFUSED_IGNORE)
            return true;
    return false;
}

static void undo_keep(const struct weir_limiter *limiter, struct undo *undo)
{
    undo->kept = limiter->state && limiter->policy->words <= UNDO_WORDS;
    undo->before = limiter->mark;
    if (undo->kept)
        memcpy(undo->state, limiter->state, limiter->policy->words * sizeof(int64_t));
}

bool weir_limiter_promise(struct weir_limiter *limiter, int64_t now, int64_t n, int64_t timeout_ns,
                          struct weir_reservation *reservation, struct undo *undo,
                          struct weir_verdict *verdict)
{
    struct weir_reservation parts[WEIR_LIMITS_MAX];
    struct undo before;
    if (limiter->paused)
        return refuse_while_paused(verdict);
    const struct weir_policy *policy = limiter->policy;
    int64_t word[WORD_STATE], *state = weir_limiter_open(limiter, word);
    undo_keep(limiter, &before);
    now = weir_limiter_time(limiter, now);
    bool promised = weir_state_reserve(policy, state, now, n, timeout_ns, parts, verdict);
    weir_limiter_close(limiter, state, promised || policy_counts_refusals(policy));
    if (!promised)
        return false;
    before.after = limiter->mark;
    before.n = n;
    before.due_ns = parts[0].due_ns;
    *undo = before;
    if (policy->count > 1) /* no room for the others' tickets: it comes back whole or not at all */
        parts[0].ticket = (uint64_t)INT64_MIN;
    if (reservation)
        *reservation = parts[0];
    return true;
}

/* Nothing has happened since the promise that `undo` was kept for, and it is this one. */
static bool undo_fits(const struct weir_limiter *limiter, const struct undo *undo,
                      const struct weir_reservation *r, int64_t now)
{
    return undo->kept && undo->after == limiter->mark && r->n > 0 && undo->n == r->n && r->wait_ns > 0 &&
           r->due_ns > now && undo->due_ns == r->due_ns && r->generation == limiter->state[STATE_GENERATION];
}

static bool undo_put_back(struct weir_limiter *limiter, struct undo *undo)
{
    INVARIANT(7, undo->kept && undo->after == limiter->mark);
    memcpy(limiter->state, undo->state, limiter->policy->words * sizeof(int64_t));
    limiter->mark = undo->before;
    undo->kept = false;
    return true;
}

bool weir_limiter_recall(struct weir_limiter *limiter, int64_t now, struct weir_reservation *reservation,
                         struct undo *undo)
{
    struct weir_reservation parts[WEIR_LIMITS_MAX];
    int64_t word[WORD_STATE], *state = weir_limiter_open(limiter, word);
    now = weir_limiter_time(limiter, now);
    for (size_t i = 0; i < limiter->policy->count; i++) {
        parts[i] = *reservation;
        if (limiter->policy->count > 1 && limiter->policy->limits[i].spec.algo == WEIR_SLIDING_LOG)
            parts[i].ticket = (uint64_t)reservation->n; /* a log counts with it: all were pushed out */
    }
    bool exact = undo_fits(limiter, undo, reservation, now);
    bool off = exact ? undo_put_back(limiter, undo) : weir_state_cancel(limiter->policy, state, now, parts);
    weir_limiter_close(limiter, state, off && !exact);
    if (off)
        reservation->n = 0;
    INVARIANT(3, !off || reservation->n == 0); /* it comes back once */
    return off;
}

void weir_limiter_note_alone(struct weir_limiter *limiter)
{
    const struct limit *limit = &limiter->policy->limits[0];
    bool alone = limiter->state && !limiter->paused && !limiter->filler && limiter->policy->count == 1 &&
                 limit->algorithm->take && limit->spec.refused == WEIR_REFUSED_IGNORE;
    limiter->alone = alone ? limit : NULL;
}

static bool take_locked(struct weir_limiter *limiter, int64_t now, int64_t n, struct weir_verdict *verdict)
{
    if (limiter->paused)
        return refuse_while_paused(verdict);
    int64_t word[WORD_STATE], *state = weir_limiter_open(limiter, word);
    bool allowed = weir_state_take(limiter->policy, state, weir_limiter_time(limiter, now), n, verdict);
    weir_limiter_close(limiter, state, allowed || policy_counts_refusals(limiter->policy));
    return allowed;
}

/* ---- questions ---- */

bool weir_limiter_ask(struct weir_limiter *limiter, int64_t now, int64_t n, struct weir_verdict *verdict)
{
    if (atom_load(&limiter->word.index, memory_order_relaxed) != WORD_HELD) {
        int answer = weir_word_take(&limiter->word, now, n, NULL, verdict);
        if (answer != WORD_ASK)
            return answer == WORD_YES;
    }
    lock_take(&limiter->lock);
    bool allowed = take_locked(limiter, now, n, verdict);
    lock_drop(&limiter->lock);
    return allowed;
}

/* The common wide state: one limit, no verdict. The same decision, without what several limits need. */
static inline bool take_from_wide_state(struct weir_limiter *limiter, int64_t now, int64_t n)
{
    lock_take(&limiter->lock);
    const struct limit *limit = limiter->alone;
    bool allowed;
    if (limit && n > 0 && limiter->state[STATE_PROMISED] == 0) {
        now = clamp64(now, 0, WEIR_TIME_MAX);
        allowed = limit->algorithm->take(limit, limiter->state + STATE_HEADER, now, n);
        if (allowed)
            mark_changed(limiter);
    } else {
        allowed = n > 0 && take_locked(limiter, now, n, NULL);
    }
    lock_drop(&limiter->lock);
    return allowed;
}

static __attribute__((noinline)) bool take_fully(struct weir_limiter *limiter, int64_t now, int64_t n,
                                                 struct weir_verdict *verdict)
{
    struct weir_verdict own;
    if (!limiter || n < 1)
        return reject_take(verdict);
    if (!verdict && listeners_any(&limiter->listeners))
        verdict = &own; /* they are told the reason */
    int answer = word_take(&limiter->word, now, n, verdict);
    bool allowed = answer == WORD_ASK ? weir_limiter_ask(limiter, now, n, verdict) : answer == WORD_YES;
    limiter_notify(limiter, allowed, n, now, verdict);
    return allowed;
}

static __attribute__((noinline)) bool take_past_word(struct weir_limiter *limiter, int64_t now, int64_t n)
{
    bool held = atom_load(&limiter->word.index, memory_order_relaxed) == WORD_HELD;
    return held ? take_from_wide_state(limiter, now, n) : take_fully(limiter, now, n, NULL);
}

/* What nearly every take is: of a token bucket, without a verdict, and nobody listens. */
static inline __attribute__((always_inline)) bool limiter_take(struct weir_limiter *limiter, int64_t now,
                                                               int64_t n, struct weir_verdict *verdict)
{
    if (__builtin_expect(!limiter || verdict || listeners_any(&limiter->listeners), 0))
        return take_fully(limiter, now, n, verdict);
    int answer = word_take(&limiter->word, now, n, NULL);
    return __builtin_expect(answer == WORD_ASK, 0) ? take_past_word(limiter, now, n) : answer == WORD_YES;
}

/* Called after a take that found no pace. The second such take of an anchor makes it: a limiter that is asked
 * less than once a millisecond does not need one. */
static void follow_clock(struct weir_limiter *limiter)
{
    struct state_word *word = &limiter->word;
    uint64_t version = atom_load(&weir_clock.version, memory_order_relaxed) << 1;
    uint64_t missed = atom_load(&word->missed, memory_order_relaxed);
    if (missed == (version | 1))
        return;
    atom_store(&word->missed, missed == version ? version | 1 : version, memory_order_relaxed);
    if (missed != version || !lock_try(&limiter->lock))
        return;
    struct clock_anchor anchor = weir_clock_anchor(&weir_clock, &version);
    weir_word_follow(word, &anchor, version);
    lock_drop(&limiter->lock);
}

static __attribute__((noinline)) bool take_by_clock(struct weir_limiter *limiter, int64_t n,
                                                    struct weir_verdict *verdict)
{
    if (has_balance(limiter)) /* it looks at the clock later */
        return weir_limiter_balance_take(limiter, n, verdict);
    int64_t now = clock_now();
    if (!limiter || verdict || listeners_any(&limiter->listeners))
        return take_fully(limiter, now, n, verdict);
    if (atom_load(&limiter->word.index, memory_order_relaxed) == WORD_HELD)
        return take_from_wide_state(limiter, now, n);
    int answer = word_take(&limiter->word, now, n, NULL);
    if (answer == WORD_ASK)
        return take_past_word(limiter, now, n);
    follow_clock(limiter);
    return answer == WORD_YES;
}

bool weir_limiter_take(struct weir_limiter *limiter, int64_t n, struct weir_verdict *verdict)
{
    if (__builtin_expect(!limiter || verdict || listeners_any(&limiter->listeners), 0))
        return take_by_clock(limiter, n, verdict);
    int answer = word_take_now(&limiter->word, &weir_clock, clock_counter, n);
    return __builtin_expect(answer == WORD_ASK, 0) ? take_by_clock(limiter, n, NULL) : answer == WORD_YES;
}

bool weir_limiter_take_at(struct weir_limiter *limiter, int64_t now_ns, int64_t n,
                          struct weir_verdict *verdict)
{
    if (__builtin_expect(has_balance(limiter), 0))
        return weir_limiter_balance_take_at(limiter, now_ns, n, verdict);
    return limiter_take(limiter, now_ns, n, verdict);
}

static bool peek_locked(struct weir_limiter *limiter, int64_t now, int64_t n, struct weir_verdict *verdict)
{
    if (limiter->paused)
        return refuse_while_paused(verdict);
    int64_t word[WORD_STATE], *state = weir_limiter_open(limiter, word);
    bool allowed = weir_state_peek(limiter->policy, state, weir_limiter_time(limiter, now), n, verdict);
    weir_limiter_close(limiter, state, false);
    return allowed;
}

bool weir_limiter_peek_at(struct weir_limiter *limiter, int64_t now_ns, int64_t n,
                          struct weir_verdict *verdict)
{
    if (!limiter || n < 1)
        return reject_take(verdict);
    if (limiter->balance)
        return weir_limiter_balance_peek(limiter, now_ns, n, verdict);
    int answer = weir_word_peek(&limiter->word, now_ns, n, verdict);
    if (answer != WORD_ASK)
        return answer == WORD_YES;
    lock_take(&limiter->lock);
    bool allowed = peek_locked(limiter, now_ns, n, verdict);
    lock_drop(&limiter->lock);
    return allowed;
}

bool weir_limiter_reserve_at(struct weir_limiter *limiter, int64_t now_ns, int64_t n, int64_t timeout_ns,
                             struct weir_reservation *reservation, struct weir_verdict *verdict)
{
    if (reservation)
        *reservation = (struct weir_reservation){0};
    struct weir_verdict own;
    if (!limiter || n < 1)
        return reject_take(verdict);
    if (limiter->balance)
        return weir_limiter_balance_reserve(limiter, now_ns, n, reservation, verdict, BALANCE_TIMED);
    if (!verdict && listeners_any(&limiter->listeners))
        verdict = &own;
    int answer = weir_word_take(&limiter->word, now_ns, n, reservation, verdict);
    bool allowed = answer == WORD_YES;
    if (answer == WORD_ASK || (answer == WORD_NO && timeout_ns != 0)) {
        lock_take(&limiter->lock);
        allowed = weir_limiter_promise(limiter, now_ns, n, timeout_ns, reservation, &limiter->undo, verdict);
        lock_drop(&limiter->lock);
    }
    limiter_notify(limiter, allowed, n, now_ns, verdict);
    return allowed;
}

bool weir_limiter_cancel_at(struct weir_limiter *limiter, int64_t now_ns,
                            struct weir_reservation *reservation)
{
    if (!limiter || !reservation)
        return false;
    if (limiter->balance)
        return weir_limiter_balance_cancel(limiter, now_ns, reservation);
    lock_take(&limiter->lock);
    bool off = weir_limiter_recall(limiter, now_ns, reservation, &limiter->undo);
    lock_drop(&limiter->lock);
    return off;
}

/* ---- orders ---- */

void weir_limiter_give_at(struct weir_limiter *limiter, int64_t now_ns, int64_t n)
{
    if (has_balance(limiter) && n > 0) {
        weir_balance_give(limiter->balance, now_ns, n);
        return;
    }
    if (!limiter || n < 1 || weir_word_give(&limiter->word, now_ns, n) != WORD_ASK)
        return;
    int64_t word[WORD_STATE];
    lock_take(&limiter->lock);
    int64_t *state = weir_limiter_open(limiter, word), now = weir_limiter_time(limiter, now_ns);
    weir_state_give(limiter->policy, state, now, n);
    weir_limiter_close(limiter, state, state[STATE_PROMISED] <= max64(now, 0)); /* else it was dropped */
    lock_drop(&limiter->lock);
}

void weir_limiter_charge_at(struct weir_limiter *limiter, int64_t now_ns, int64_t n)
{
    if (has_balance(limiter) && n > 0) {
        weir_balance_charge(limiter->balance, n);
        return;
    }
    if (!limiter || n < 1 || weir_word_charge(&limiter->word, now_ns, n) != WORD_ASK)
        return;
    int64_t word[WORD_STATE];
    lock_take(&limiter->lock);
    int64_t *state = weir_limiter_open(limiter, word);
    weir_state_charge(limiter->policy, state, weir_limiter_time(limiter, now_ns), n);
    weir_limiter_close(limiter, state, true);
    lock_drop(&limiter->lock);
}

static int64_t drain_locked(struct weir_limiter *limiter, int64_t now)
{
    int64_t word[WORD_STATE];
    lock_take(&limiter->lock);
    int64_t *state = weir_limiter_open(limiter, word);
    int64_t drained = weir_state_drain(limiter->policy, state, weir_limiter_time(limiter, now));
    weir_limiter_close(limiter, state, true);
    lock_drop(&limiter->lock);
    return drained;
}

int64_t weir_limiter_drain_at(struct weir_limiter *limiter, int64_t now_ns)
{
    int64_t drained;
    if (!limiter)
        return 0;
    if (limiter->balance)
        drained = weir_balance_drain(limiter->balance, now_ns);
    else if (weir_word_drain(&limiter->word, now_ns, &drained) == WORD_ASK)
        drained = drain_locked(limiter, now_ns);
    if (listeners_any(&limiter->listeners))
        weir_limiter_notify(limiter, WEIR_EVENT_DRAINED, WEIR_OK, drained, now_ns);
    return drained;
}

void weir_limiter_reset_at(struct weir_limiter *limiter, int64_t now_ns)
{
    int64_t word[WORD_STATE];
    if (!limiter || limiter->balance)
        return;
    lock_take(&limiter->lock);
    int64_t *state = weir_limiter_open(limiter, word);
    weir_state_reset(limiter->policy, state, weir_limiter_time(limiter, now_ns));
    weir_limiter_close(limiter, state, true);
    weir_limiter_revive(limiter, now_ns);
    lock_drop(&limiter->lock);
}

int64_t weir_limiter_restart_at(struct weir_limiter *limiter, int64_t now_ns)
{
    int64_t word[WORD_STATE];
    if (!limiter || limiter->balance)
        return 0;
    lock_take(&limiter->lock);
    int64_t *state = weir_limiter_open(limiter, word);
    int64_t discarded = weir_state_restart(limiter->policy, state, weir_limiter_time(limiter, now_ns));
    weir_limiter_close(limiter, state, true);
    weir_limiter_revive(limiter, now_ns);
    lock_drop(&limiter->lock);
    return discarded;
}

void weir_limiter_stat_at(struct weir_limiter *limiter, int64_t now_ns, struct weir_stat *stat)
{
    struct weir_verdict verdict;
    if (!stat)
        return;
    *stat = (struct weir_stat){0};
    if (!limiter)
        return;
    if (limiter->balance) {
        weir_limiter_balance_stat(limiter, now_ns, stat);
        return;
    }
    (void)weir_limiter_peek_at(limiter, now_ns, 1, &verdict);
    stat->available = verdict.remaining;
    stat->wait_ns = verdict.retry_after_ns;
    stat->behind_ns = verdict.behind_ns;
    lock_take(&limiter->lock);
    stat->behind_total_ns = limiter->behind_before;
    if (limiter->state && verdict.allowed)
        stat->available =
            weir_state_available(limiter->policy, limiter->state, weir_limiter_time(limiter, now_ns));
    if (limiter->state)
        stat->behind_total_ns =
            sat_add(stat->behind_total_ns,
                    weir_state_behind(limiter->policy, limiter->state, weir_limiter_time(limiter, now_ns)));
    stat->waiting = limiter->waiting;
    stat->handles = limiter->handles;
    stat->held = limiter->held;
    lock_drop(&limiter->lock);
}

/* ---- twins that read the clock ---- */

bool weir_limiter_peek(struct weir_limiter *limiter, int64_t n, struct weir_verdict *verdict)
{
    return weir_limiter_peek_at(limiter, weir_now(), n, verdict);
}

bool weir_limiter_reserve(struct weir_limiter *limiter, int64_t n, int64_t timeout_ns,
                          struct weir_reservation *reservation, struct weir_verdict *verdict)
{
    if (has_balance(limiter) && n > 0) {
        if (reservation)
            *reservation = (struct weir_reservation){0};
        return weir_limiter_balance_reserve(limiter, weir_now(), n, reservation, verdict, BALANCE_BY_CLOCK);
    }
    return weir_limiter_reserve_at(limiter, weir_now(), n, timeout_ns, reservation, verdict);
}

bool weir_limiter_cancel(struct weir_limiter *limiter, struct weir_reservation *reservation)
{
    return weir_limiter_cancel_at(limiter, weir_now(), reservation);
}

void weir_limiter_give(struct weir_limiter *limiter, int64_t n)
{
    weir_limiter_give_at(limiter, weir_now(), n);
}

void weir_limiter_charge(struct weir_limiter *limiter, int64_t n)
{
    weir_limiter_charge_at(limiter, weir_now(), n);
}

int64_t weir_limiter_drain(struct weir_limiter *limiter)
{
    return weir_limiter_drain_at(limiter, weir_now());
}

void weir_limiter_reset(struct weir_limiter *limiter)
{
    weir_limiter_reset_at(limiter, weir_now());
}

int64_t weir_limiter_restart(struct weir_limiter *limiter)
{
    return weir_limiter_restart_at(limiter, weir_now());
}

void weir_limiter_stat(struct weir_limiter *limiter, struct weir_stat *stat)
{
    weir_limiter_stat_at(limiter, weir_now(), stat);
}
