/* SPDX-License-Identifier: MIT */
/*
 * Live change: another policy for the same state, and what becomes of those who wait.
 *
 * A promise once made stands. But a thread that waits inside the limiter has not gone yet: its promise can be
 * taken back and made anew under the new policy, if that lets it go no later than it was told. So the
 * waiters' promises are unwound, the last one first, as far as nothing else happened in between; what is left
 * is changed; and they are made again in the same order. If one of them would become later, none is touched.
 */
#include <stdlib.h>
#include <string.h>

#include "limiter/limiter.h"
#include "os/wait.h"

#define BEHIND_MAX 256 /* waiters that move up when one in front of them goes away */

static bool is_parked(const struct waiter *waiter)
{
    return waiter->due_ns == WEIR_FOREVER;
}

static void wake(struct waiter *waiter)
{
    (void)atomic_fetch_add_explicit(waiter->word, 2, memory_order_release); /* bit 0 is a weir_stop's */
    weir_wait_wake(waiter->word);
}

void weir_limiter_wake(struct weir_limiter *limiter)
{
    for (struct waiter *waiter = limiter->first; waiter; waiter = waiter->next)
        wake(waiter);
}

bool weir_limiter_paused(struct weir_limiter *limiter, int64_t now)
{
    struct weir_verdict verdict;
    if (limiter->state)
        (void)weir_state_peek(limiter->policy, limiter->state, weir_limiter_time(limiter, now), 1, &verdict);
    else
        (void)weir_word_peek(&limiter->word, now, 1, &verdict);
    return verdict.reason == WEIR_NEVER;
}

/* ---- waiters under the new policy ---- */

/* A state on its way from one policy to the next. */
struct change {
    const struct weir_policy *policy, *next;
    int64_t now;
    int64_t from[UNDO_WORDS]; /* unwound */
    uint64_t mark;
    int64_t *to;
};

/* Takes the promise of one waiter out of `from`, exactly, or leaves it. */
static bool unwind(struct change *change, const struct waiter *waiter)
{
    struct weir_reservation r = waiter->promise.reservation;
    const struct undo *undo = &waiter->promise.undo;
    if (waiter->due_ns <= change->now)
        return false;
    if (undo->kept) {
        if (undo->after != change->mark)
            return false;
        memcpy(change->from, undo->state, change->policy->words * sizeof(int64_t));
        change->mark = undo->before;
        return true;
    }
    return weir_word_fits(change->policy) && change->policy->words == WORD_STATE &&
           change->from[STATE_HEADER] == (int64_t)r.ticket &&
           weir_state_cancel(change->policy, change->from, change->now, &r);
}

/* Makes the promise anew. false: it would be later. */
static bool plan(struct change *change, struct weir_limiter *limiter, struct waiter *waiter)
{
    struct weir_reservation parts[WEIR_LIMITS_MAX];
    struct promise *p = &waiter->plan;
    p->undo = (struct undo){.kept = !weir_word_fits(change->next), .before = change->mark};
    memcpy(p->undo.state, change->to, change->next->words * sizeof(int64_t));
    if (!weir_state_reserve(change->next, change->to, change->now, waiter->n, WEIR_FOREVER, parts, NULL))
        return false;
    p->reservation = parts[0];
    if (change->next->count > 1)
        p->reservation.ticket = (uint64_t)INT64_MIN;
    p->undo.after = change->mark = ++limiter->marks;
    p->undo.n = waiter->n;
    p->undo.due_ns = parts[0].due_ns;
    return parts[0].due_ns <= waiter->due_ns;
}

/* From `first` on the plans come true. */
static void move_up(struct waiter *first)
{
    for (struct waiter *w = first; w && !is_parked(w); w = w->next) {
        bool earlier = w->plan.reservation.due_ns < w->due_ns;
        w->promise = w->plan;
        w->due_ns = w->plan.reservation.due_ns;
        if (earlier)
            wake(w);
    }
}

/* Fills change->to; false: the waiters keep what they have, and `to` is worth nothing. */
static bool change_with_waiters(struct change *change, struct weir_limiter *limiter, const int64_t *state)
{
    struct waiter *first = NULL;
    if (change->policy->words > UNDO_WORDS || change->next->words > UNDO_WORDS)
        return false;
    memcpy(change->from, state, change->policy->words * sizeof(int64_t));
    for (struct waiter *w = limiter->last; w && (is_parked(w) || unwind(change, w)); w = w->prev)
        if (!is_parked(w))
            first = w;
    if (!first)
        return false;
    weir_state_change(change->policy, change->from, change->next, change->to, change->now);
    change->mark = ++limiter->marks; /* of `to` */
    for (struct waiter *w = first; w && !is_parked(w); w = w->next)
        if (!plan(change, limiter, w))
            return false;
    move_up(first);
    return true;
}

/* Leaves nothing behind of a waiter that goes away: those behind it move up. */
static bool withdraw(struct change *change, struct weir_limiter *limiter, const struct waiter *gone)
{
    struct waiter *w = limiter->last;
    for (; w != gone; w = w->prev)
        if (!is_parked(w) && !unwind(change, w))
            return false;
    if (!unwind(change, gone))
        return false;
    for (w = gone->next; w && !is_parked(w); w = w->next)
        if (!plan(change, limiter, w))
            return false;
    move_up(gone->next);
    return true;
}

/* Not more than can be done while others wait for the lock. */
static bool few_behind(const struct waiter *waiter)
{
    int behind = 0;
    while ((waiter = waiter->next) && behind < BEHIND_MAX)
        behind++;
    return behind < BEHIND_MAX;
}

bool weir_limiter_withdraw(struct weir_limiter *limiter, struct waiter *waiter, int64_t now)
{
    int64_t word[WORD_STATE];
    size_t size = limiter->policy->words * sizeof(int64_t);
    if (limiter->policy->words > UNDO_WORDS || !few_behind(waiter))
        return false;
    struct change change = {.policy = limiter->policy,
                            .next = limiter->policy,
                            .now = clamp64(weir_limiter_time(limiter, now), 0, WEIR_TIME_MAX),
                            .mark = limiter->mark};
    change.to = change.from;
    int64_t *state = weir_limiter_open(limiter, word);
    memcpy(change.from, state, size);
    bool done = withdraw(&change, limiter, waiter);
    if (!limiter->state)
        weir_word_return(&limiter->word, done ? change.to : word);
    else if (done)
        memcpy(limiter->state, change.to, size);
    if (done)
        limiter->mark = change.mark;
    return done;
}

/* Those who waited for the end of a pause get their promises, first come, first served. */
static void end_pause(struct weir_limiter *limiter, int64_t now)
{
    for (struct waiter *w = limiter->first; w; w = w->next) {
        if (!is_parked(w))
            continue;
        if (weir_limiter_promise(limiter, now, w->n, WEIR_FOREVER, &w->promise.reservation, &w->promise.undo,
                                 NULL))
            w->due_ns = w->promise.reservation.due_ns;
        else if (weir_limiter_paused(limiter, now))
            continue;
        else
            w->refused = true;
        wake(w);
    }
}

/* ---- the change ---- */

static void put_state(struct weir_limiter *limiter, struct weir_policy *next, int64_t *to,
                      const int64_t *word)
{
    free(limiter->state);
    limiter->state = to;
    if (limiter->policy != limiter->said)
        weir_policy_free(limiter->policy);
    limiter->policy = next;
    limiter->mark = ++limiter->marks;
    limiter->undo.kept = false;
    weir_limiter_note_alone(limiter);
    if (!to)
        weir_word_put(&limiter->word, next, word);
}

/* Takes up to *units; *units is then what was taken. */
static void take_out(const struct weir_policy *policy, int64_t *state, int64_t now, int64_t *units)
{
    struct weir_verdict verdict;
    (void)weir_state_peek(policy, state, now, 1, &verdict);
    *units = min64(*units, verdict.remaining);
    if (*units > 0)
        (void)weir_state_take(policy, state, now, *units, NULL);
}

bool weir_limiter_install_and_move(struct weir_limiter *limiter, struct weir_policy *next, int64_t now,
                                   int64_t *out)
{
    int64_t from_word[WORD_STATE], to_word[WORD_STATE] = {0};
    int64_t *wide = weir_word_fits(next) ? NULL : malloc(weir_policy_state_size(next));
    if (!wide && !weir_word_fits(next))
        return false;
    now = clamp64(weir_limiter_time(limiter, now), 0, WEIR_TIME_MAX);
    int64_t *state = weir_limiter_open(limiter, from_word);
    if (*out > 0)
        take_out(limiter->policy, state, now, out);
    struct change change = {.policy = limiter->policy,
                            .next = next,
                            .now = now,
                            .mark = limiter->mark,
                            .to = wide ? wide : to_word};
    bool planned = change_with_waiters(&change, limiter, state);
    uint64_t mark = limiter->marks; /* of the last plan */
    if (!planned)
        weir_state_change(limiter->policy, state, next, change.to, now);
    if (*out < 0)
        weir_state_give(next, change.to, now, -*out);
    put_state(limiter, next, wide, to_word);
    if (planned)
        limiter->mark = mark;
    end_pause(limiter, now);
    return true;
}

bool weir_limiter_install(struct weir_limiter *limiter, struct weir_policy *next, int64_t now)
{
    int64_t nothing = 0;
    return weir_limiter_install_and_move(limiter, next, now, &nothing);
}
