/* SPDX-License-Identifier: MIT */
/*
 * Live change: another policy for the same state, and what becomes of those who wait.
 *
 * A promise once made stands. But a thread that waits inside the limiter has not gone yet: its promise can be
 * taken back and made anew under the new policy, if that lets it go no later than it was told. So the
 * waiters' promises are unwound, the last one first, as far as nothing else happened in between; what is left
 * is changed; and they are made again in the same order. If one of them would become later, none is touched.
 * In the same way those behind a waiter that gives up move up.
 *
 * All of this happens on a copy, while the word is held; then the word is public again, and only then waiters
 * are woken. A waiter without a promise waits for the end of a pause.
 */
#include <stdlib.h>
#include <string.h>

#include "limiter/change.h"
#include "limiter/limiter.h"
#include "os/wait.h"

#define BEHIND_MAX 256 /* waiters that move up when one in front of them goes away */

/* A state on its way from one policy to the next, or to one with other waiters. */
struct limiter_change {
    const struct weir_policy *policy, *next;
    int64_t now;
    int64_t from[UNDO_WORDS]; /* unwound */
    int64_t *to;
    uint64_t mark;         /* of `from`, then of `to` */
    bool keeps_generation; /* units and ticks are the same: reservations can still be cancelled */
};

static bool is_waiter_paused(const struct limiter_waiter *waiter)
{
    return waiter->due_ns == WEIR_FOREVER;
}

static bool policy_has_algo(const struct weir_policy *policy, int32_t algo)
{
    for (size_t i = 0; i < policy->count; i++)
        if (policy->limits[i].spec.algo == algo)
            return true;
    return false;
}

/* ---- waking ---- */

static void wake_waiter(struct limiter_waiter *waiter)
{
    (void)atomic_fetch_add_explicit(waiter->word, 2, memory_order_release); /* bit 0 is a weir_stop's */
    weir_wait_wake(waiter->word);
}

void weir_limiter_wake(struct weir_limiter *limiter)
{
    for (struct limiter_waiter *waiter = limiter->first; waiter; waiter = waiter->next)
        wake_waiter(waiter);
}

static void wake_moved(struct weir_limiter *limiter)
{
    const _Atomic uint32_t *last = NULL; /* many may wait on the word of one weir_stop */
    for (struct limiter_waiter *w = limiter->first; w; w = w->next) {
        if (w->moved && w->word != last)
            wake_waiter(w);
        if (w->moved)
            last = w->word;
        w->moved = false;
    }
}

/* ---- promises taken back and made anew ---- */

/* Takes the promise of one waiter out of `from`, exactly, or leaves it. */
static bool unwind_promise(struct limiter_change *change, const struct limiter_waiter *waiter)
{
    struct weir_reservation r = waiter->promise.reservation;
    const struct undo *undo = &waiter->promise.undo;
    if (waiter->due_ns <= change->now)
        return false;
    if (undo->kept) {
        if (undo->after != change->mark)
            return false;
        INVARIANT(7, undo->after == change->mark);
        memcpy(change->from, undo->state, change->policy->words * sizeof(int64_t));
        change->mark = undo->before;
        return true;
    }
    return weir_word_fits(change->policy) && change->policy->words == WORD_STATE &&
           change->from[STATE_HEADER] == (int64_t)r.ticket &&
           change->from[STATE_GENERATION] == r.generation &&
           weir_state_cancel(change->policy, change->from, change->now, &r);
}

/* Makes the promise anew. false: it would be later, or cannot be made. */
static bool plan_promise(struct limiter_change *change, struct weir_limiter *limiter,
                         struct limiter_waiter *waiter)
{
    struct weir_reservation parts[WEIR_LIMITS_MAX];
    struct promise *p = &waiter->plan;
    size_t words = change->next->words;
    p->undo.kept = !weir_word_fits(change->next) && words <= UNDO_WORDS;
    p->undo.before = change->mark;
    if (p->undo.kept)
        memcpy(p->undo.state, change->to, words * sizeof(int64_t));
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

static bool plan_promises(struct limiter_change *change, struct weir_limiter *limiter,
                          struct limiter_waiter *first)
{
    for (struct limiter_waiter *w = first; w; w = w->next)
        if (!is_waiter_paused(w) && !plan_promise(change, limiter, w))
            return false;
    return true;
}

static void move_up(struct limiter_waiter *waiter)
{
    waiter->moved = waiter->plan.reservation.due_ns < waiter->due_ns;
    INVARIANT(7, waiter->plan.reservation.due_ns <= waiter->due_ns);
    waiter->promise = waiter->plan;
    waiter->due_ns = waiter->plan.reservation.due_ns;
    INVARIANT(6, waiter->due_ns == waiter->promise.reservation.due_ns);
}

/* From `first` on the plans come true. */
static void move_all_up(struct limiter_waiter *first)
{
    for (struct limiter_waiter *w = first; w; w = w->next)
        if (!is_waiter_paused(w))
            move_up(w);
}

/* ---- a waiter gives up ---- */

static bool withdraw_promise(struct limiter_change *change, struct weir_limiter *limiter,
                             const struct limiter_waiter *gone)
{
    for (struct limiter_waiter *w = limiter->last; w != gone; w = w->prev)
        if (!is_waiter_paused(w) && !unwind_promise(change, w))
            return false;
    if (!unwind_promise(change, gone) || !plan_promises(change, limiter, gone->next))
        return false;
    move_all_up(gone->next);
    return true;
}

/* Not more than can be done while others wait for the lock. */
static bool few_behind(const struct limiter_waiter *waiter)
{
    int behind = 0;
    while ((waiter = waiter->next) && behind < BEHIND_MAX)
        behind++;
    return behind < BEHIND_MAX;
}

bool weir_limiter_withdraw(struct weir_limiter *limiter, struct limiter_waiter *waiter, int64_t now)
{
    int64_t word[WORD_STATE];
    size_t size = limiter->policy->words * sizeof(int64_t);
    if (limiter->policy->words > UNDO_WORDS || !few_behind(waiter))
        return false;
    struct limiter_change change = {.policy = limiter->policy,
                                    .next = limiter->policy,
                                    .now = clamp64(weir_limiter_time(limiter, now), 0, WEIR_TIME_MAX),
                                    .mark = limiter->mark};
    change.to = change.from;
    int64_t *state = weir_limiter_open(limiter, word);
    memcpy(change.from, state, size);
    bool done = withdraw_promise(&change, limiter, waiter);
    if (done) {
        memcpy(state, change.to, size);
        limiter->mark = change.mark;
    }
    weir_limiter_close(limiter, state, false);
    wake_moved(limiter);
    return done;
}

/* ---- pauses ---- */

/* Handles of the old burst lose their shares, before a new one is in force. */
static void end_shares(struct weir_limiter *limiter)
{
    limiter->held = limiter->handles = 0;
    uint64_t before = atom_add(&limiter->handle_generation, 1, memory_order_release);
    INVARIANT(8, atom_load(&limiter->handle_generation, memory_order_relaxed) != before);
    (void)before;
}

/* Would not even one unit pass, ever? Then n, too, waits for something else. */
static bool is_state_paused(const struct weir_policy *policy, const int64_t *state, int64_t now)
{
    struct weir_verdict verdict;
    (void)weir_state_peek(policy, state, now, 1, &verdict);
    return verdict.reason == WEIR_NEVER;
}

bool weir_limiter_paused(struct weir_limiter *limiter, int64_t now)
{
    int64_t word[WORD_STATE];
    if (limiter->paused)
        return true;
    int64_t *state = weir_limiter_open(limiter, word);
    bool paused = is_state_paused(limiter->policy, state, weir_limiter_time(limiter, now));
    weir_limiter_close(limiter, state, false);
    return paused;
}

bool weir_limiter_pause(struct weir_limiter *limiter)
{
    if (!limiter->state) { /* the word is held until the pause is over */
        int64_t word[WORD_STATE], *state = malloc(sizeof word);
        if (!state)
            return false;
        weir_word_hold(&limiter->word, word);
        memcpy(state, word, sizeof word);
        limiter->state = state;
    }
    limiter->paused = true;
    end_shares(limiter);
    weir_limiter_note_alone(limiter);
    return true;
}

#if WEIR_ASSERTIONS
/* Are the new promises, which `moved` marks, in the order of the list? */
static bool are_moved_in_turn(const struct weir_limiter *limiter)
{
    int64_t due = 0;
    for (const struct limiter_waiter *w = limiter->first; w; w = w->next) {
        if (!w->moved || is_waiter_paused(w))
            continue;
        if (w->due_ns < due)
            return false;
        due = w->due_ns;
    }
    return true;
}
#endif

/* Those who waited for the end of a pause get their promises, first come, first served. */
static void end_pause(struct limiter_change *change, struct weir_limiter *limiter)
{
    for (struct limiter_waiter *w = limiter->first; w; w = w->next) {
        if (!is_waiter_paused(w) || w->refused)
            continue;
        if (plan_promise(change, limiter, w))
            move_up(w);
        else
            w->moved = w->refused = !is_state_paused(change->next, change->to, change->now);
    }
#if WEIR_ASSERTIONS
    INVARIANT(7, are_moved_in_turn(limiter));
#endif
}

void weir_limiter_revive(struct weir_limiter *limiter, int64_t now)
{
    int64_t word[WORD_STATE];
    if (limiter->paused || !limiter->first)
        return;
    struct limiter_change change = {.next = limiter->policy,
                                    .now = clamp64(weir_limiter_time(limiter, now), 0, WEIR_TIME_MAX),
                                    .to = weir_limiter_open(limiter, word),
                                    .mark = limiter->mark};
    end_pause(&change, limiter);
    limiter->mark = change.mark;
    weir_limiter_close(limiter, change.to, false);
    wake_moved(limiter);
}

/* ---- the change ---- */

/* A limiter that began as `blocked` has let nothing pass yet: its first limits start fresh. */
static void change_state(struct limiter_change *change, struct weir_limiter *limiter, const int64_t *state)
{
    if (change->policy->count == 1 && policy_has_algo(change->policy, WEIR_BLOCKED))
        weir_state_init(change->next, change->to, change->now);
    else
        weir_state_change(change->policy, state, change->next, change->to, change->now);
    INVARIANT(7, policy_has_algo(change->policy, WEIR_BLOCKED) ||
                     change->to[STATE_GENERATION] > state[STATE_GENERATION]);
    if (change->keeps_generation)
        change->to[STATE_GENERATION] = state[STATE_GENERATION];
    change->mark = ++limiter->marks;
}

/* Fills change->to; false: the waiters keep what they have, and `to` is worth nothing. */
static bool change_with_waiters(struct limiter_change *change, struct weir_limiter *limiter,
                                const int64_t *state)
{
    struct limiter_waiter *first = NULL;
    if (change->policy->words > UNDO_WORDS)
        return false;
    memcpy(change->from, state, change->policy->words * sizeof(int64_t));
    for (struct limiter_waiter *w = limiter->last; w && (is_waiter_paused(w) || unwind_promise(change, w));
         w = w->prev)
        if (!is_waiter_paused(w))
            first = w;
    if (!first)
        return false;
    change_state(change, limiter, change->from);
    if (!plan_promises(change, limiter, first))
        return false;
    move_all_up(first);
    return true;
}

static void put_state(struct weir_limiter *limiter, struct weir_policy *next, int64_t *wide,
                      const int64_t *word)
{
    free(limiter->state);
    limiter->state = wide;
    if (limiter->policy != limiter->said)
        weir_policy_free(limiter->policy);
    limiter->policy = next;
    limiter->paused = false;
    limiter->undo.kept = false;
    weir_limiter_note_alone(limiter);
    if (!wide)
        weir_word_put(&limiter->word, next, word);
}

/* Units that move with a change: up to *out are taken out before, which then is how many; or, below 0, -*out
 * are given back after. */
static void move_units_out(const struct limiter_change *change, int64_t *state, int64_t *out)
{
    struct weir_verdict verdict;
    if (*out <= 0)
        return;
    (void)weir_state_peek(change->policy, state, change->now, 1, &verdict);
    *out = min64(*out, verdict.remaining);
    if (*out > 0)
        (void)weir_state_take(change->policy, state, change->now, *out, NULL);
#if WEIR_ASSERTIONS
    int64_t before = verdict.remaining;
    (void)weir_state_peek(change->policy, state, change->now, 1, &verdict);
    INVARIANT(8, verdict.remaining == before - *out);
#endif
}

bool weir_limiter_install(struct weir_limiter *limiter, struct weir_policy *next, int64_t now, int64_t *out)
{
    int64_t from_word[WORD_STATE], to_word[WORD_STATE] = {0};
    int64_t *wide = weir_word_fits(next) ? NULL : malloc(weir_policy_state_size(next));
    if (!wide && !weir_word_fits(next))
        return false;
    int64_t *state = weir_limiter_open(limiter, from_word);
    struct limiter_change change = {.policy = limiter->policy,
                                    .next = next,
                                    .now = clamp64(weir_limiter_time(limiter, now), 0, WEIR_TIME_MAX),
                                    .mark = limiter->mark,
                                    .to = wide ? wide : to_word,
                                    .keeps_generation = out != NULL};
    if (out)
        move_units_out(&change, state, out);
    else
        end_shares(limiter);
    if (!change_with_waiters(&change, limiter, state))
        change_state(&change, limiter, state);
    if (out && *out < 0)
        weir_state_give(next, change.to, change.now, -*out);
    if (!policy_has_algo(next, WEIR_HYBRID))
        limiter->behind_before =
            sat_add(limiter->behind_before, weir_state_behind(limiter->policy, state, change.now));
    end_pause(&change, limiter);
    put_state(limiter, next, wide, to_word);
    limiter->mark = change.mark;
    wake_moved(limiter);
#if WEIR_ASSERTIONS
    for (const struct limiter_waiter *w = limiter->first; w; w = w->next)
        INVARIANT(7, !w->moved);
#endif
    return true;
}
