/* SPDX-License-Identifier: MIT */
#include "fleet/claims.h"

#include <stdlib.h>

#include "base/sat.h"
#include "fleet/agent.h"
#include "os/wait.h"

#define STOPPED UINT32_C(1) /* of a weir_stop's word; the rest of it counts wakes */

/* ---- the list, under member->lock ---- */

static void link_last_claim(struct claims *claims, struct claim *claim)
{
    claim->next = NULL;
    claim->prev = claims->last;
    *(claims->last ? &claims->last->next : &claims->first) = claim;
    claims->last = claim;
    if (!claims->fresh)
        claims->fresh = claim;
    claims->count++;
    claims->units = sat_add(claims->units, claim->n);
}

static void link_first_claim(struct claims *claims, struct claim *claim)
{
    claim->prev = NULL;
    claim->next = claims->first;
    *(claims->first ? &claims->first->prev : &claims->last) = claim;
    claims->first = claim;
    claims->count++;
    claims->units = sat_add(claims->units, claim->n);
}

static void unlink_claim(struct claims *claims, struct claim *claim)
{
    *(claim->prev ? &claim->prev->next : &claims->first) = claim->next;
    *(claim->next ? &claim->next->prev : &claims->last) = claim->prev;
    if (claims->fresh == claim)
        claims->fresh = claim->next;
    claims->count--;
    claims->units = claims->count > 0 ? claims->units - claim->n : 0;
}

/* Takes it out with its answer. A thread is woken; who is to be called goes to *done. */
static void resolve_claim(struct claims *claims, struct claim *claim, enum claim_state state,
                          struct claim ***done)
{
    unlink_claim(claims, claim);
    claim->state = state;
    if (claim->answer) {
        claim->next = NULL;
        **done = claim;
        *done = &claim->next;
    } else {
        (void)atomic_fetch_add_explicit(claim->word, 2, memory_order_release);
        weir_wait_wake(claim->word);
    }
}

static void refuse_claim(struct claims *claims, struct claim *claim, int32_t reason, struct claim ***done)
{
    claim->reason = reason;
    resolve_claim(claims, claim, CLAIM_REFUSED, done);
}

/* ---- answers ---- */

static void describe_claim(struct fleet_member *member, const struct claim *claim, int64_t now,
                           struct weir_verdict *verdict)
{
    *verdict = (struct weir_verdict){.wait_ns = max64(sat_sub(now, claim->began_ns), 0)};
    if (claim->state == CLAIM_HAS) {
        verdict->allowed = 1;
        verdict->remaining = claim->remaining;
        verdict->reset_after_ns = max64(sat_sub(claim->until_ns, now), 0);
        return;
    }
    weir_member_explain(member, now, claim->n, verdict);
    if (claim->reason != WEIR_OK)
        verdict->reason = claim->reason;
    if (claim->reason == WEIR_CANCELED || claim->reason == WEIR_NEVER)
        verdict->retry_after_ns = WEIR_FOREVER;
}

/* The look at the clock comes last: a thread may have been stopped for any time before. */
static void call_claim_answers(struct fleet_member *member, struct claim *done)
{
    while (done) {
        struct claim *next = done->next;
        struct weir_verdict verdict;
        int64_t now = weir_now();
        if (done->state == CLAIM_HAS && now >= done->until_ns) {
            done->state = CLAIM_REFUSED;
            done->reason = WEIR_OK; /* as explained */
        }
        describe_claim(member, done, now, &verdict);
        done->answer(done->arg, &verdict);
        free(done);
        done = next;
    }
}

/* ---- by the agent's thread ---- */

/* Why this one will not be served in time; WEIR_OK: it may be. Threads look after their own time. */
static int32_t unservable_reason(struct fleet_member *member, const struct claim *claim, int64_t now)
{
    struct weir_verdict verdict = {0};
    if (claim->answer && now >= claim->deadline_ns)
        return WEIR_LATER;
    if (weir_member_may_succeed(member, now, claim->n, sat_sub(claim->deadline_ns, now), &verdict))
        return WEIR_OK;
    return verdict.reason;
}

/* Does it differ from what those who wait were last looked at by? What weir_member_may_succeed says of a
 * claim depends on nothing else. */
static bool has_outlook_changed(struct fleet_member *member, struct claims *claims)
{
    const struct member_view *view = &member->view;
    int64_t retry_at_ns = atom_load(&view->exhausted, memory_order_relaxed)
                              ? (int64_t)atom_load(&view->retry_at, memory_order_relaxed)
                              : WEIR_FOREVER;
    int64_t most = (int64_t)atom_load(&view->most, memory_order_relaxed);
    bool other = retry_at_ns != claims->retry_at_ns || most != claims->most;
    claims->retry_at_ns = retry_at_ns;
    claims->most = most;
    return other;
}

/* There may be very many: all of them are looked at only if it can make a difference, else those who have
 * come since. */
static void refuse_unservable(struct fleet_member *member, int64_t now, struct claim ***end)
{
    struct claims *claims = &member->claims;
    bool other = has_outlook_changed(member, claims), all = other || now >= claims->next_ns || !claims->first;
    if (all)
        claims->next_ns = WEIR_FOREVER;
    for (struct claim *claim = all ? claims->first : claims->fresh, *next; claim; claim = next) {
        next = claim->next;
        int32_t reason = unservable_reason(member, claim, now);
        if (reason != WEIR_OK)
            refuse_claim(claims, claim, reason, end);
        else if (claim->answer)
            claims->next_ns = min64(claims->next_ns, claim->deadline_ns);
    }
    claims->fresh = NULL;
}

bool weir_claims_serve(struct fleet_member *member, int64_t now)
{
    struct claim *done = NULL, **end = &done;
    bool moved = false;
    lock_take(&member->lock);
    struct claims *claims = &member->claims;
    for (struct claim *first; (first = claims->first);) {
        if (!weir_grant_store_serve(&member->granted, &member->balance, now, first->n, &first->until_ns))
            break;
        first->remaining = max64(weir_balance_held(&member->balance), 0);
        resolve_claim(claims, first, CLAIM_HAS, &end);
        moved = true;
    }
    refuse_unservable(member, now, &end);
    lock_drop(&member->lock);
    call_claim_answers(member, done);
    return moved;
}

void weir_claims_cancel(struct fleet_member *member)
{
    struct claim *done = NULL, **end = &done;
    lock_take(&member->lock);
    member->leaving = true;
    while (member->claims.first)
        refuse_claim(&member->claims, member->claims.first, WEIR_CANCELED, &end);
    lock_drop(&member->lock);
    call_claim_answers(member, done);
}

void weir_claims_cancel_threads(struct fleet_member *member)
{
    struct claim *next;
    lock_take(&member->lock);
    member->leaving = true;
    for (struct claim *claim = member->claims.first; claim; claim = next) {
        next = claim->next;
        if (!claim->answer)
            refuse_claim(&member->claims, claim, WEIR_CANCELED, NULL);
    }
    lock_drop(&member->lock);
}

int64_t weir_claims_units(struct fleet_member *member)
{
    lock_take(&member->lock);
    int64_t units = member->claims.units;
    lock_drop(&member->lock);
    return units;
}

int64_t weir_claims_next(struct fleet_member *member)
{
    lock_take(&member->lock);
    int64_t next = member->claims.first ? member->claims.next_ns : WEIR_FOREVER;
    lock_drop(&member->lock);
    return next;
}

/* ---- threads ---- */

/* false: nobody may wait any more. */
static bool begin_claim(struct fleet_member *member, struct claim *claim)
{
    int64_t n = claim->n; /* once it is in the list, an asynchronous one may be answered and gone */
    lock_take(&member->lock);
    bool leaving = member->leaving;
    if (!leaving)
        link_last_claim(&member->claims, claim);
    lock_drop(&member->lock);
    if (!leaving)
        weir_inbox_post(member, INBOX_WANT, n);
    return !leaving;
}

/* It woke too late for what it got: again, in front. Under the lock. */
static bool requeue_claim(struct fleet_member *member, struct claim *claim, int64_t now)
{
    if (member->leaving || now >= claim->deadline_ns)
        return false;
    claim->state = CLAIM_WAITS;
    link_first_claim(&member->claims, claim);
    member->claims.next_ns = 0; /* what may be hoped for may have changed while it was away */
    return true;
}

/* Called and left under the lock; gives whether the wait goes on. */
static bool check_claim(struct fleet_member *member, struct claim *claim, uint32_t value)
{
    int64_t now = weir_now();
    if (claim->state == CLAIM_HAS && now < claim->until_ns)
        return false;
    if (claim->state == CLAIM_HAS) {
        bool waits = requeue_claim(member, claim, now);
        if (!waits) {
            claim->state = CLAIM_REFUSED;
            claim->reason = member->leaving ? WEIR_CANCELED : WEIR_OK;
        }
        return waits;
    }
    if (claim->state == CLAIM_REFUSED)
        return false;
    if (!(value & STOPPED) && now < claim->deadline_ns)
        return true;
    unlink_claim(&member->claims, claim);
    claim->state = CLAIM_REFUSED;
    claim->reason = value & STOPPED ? WEIR_CANCELED : WEIR_OK;
    return false;
}

/* Whoever has units and is told of them in time has them, stopped or not. */
static void sleep_until_decided(struct fleet_member *member, struct claim *claim)
{
    for (;;) {
        lock_take(&member->lock);
        uint32_t value = atomic_load_explicit(claim->word, memory_order_acquire);
        enum claim_state before = claim->state;
        bool waits = check_claim(member, claim, value);
        lock_drop(&member->lock);
        if (!waits)
            return;
        if (before == CLAIM_HAS)
            weir_inbox_post(member, INBOX_WANT, claim->n);
        weir_wait_until(claim->word, value, claim->deadline_ns, false);
    }
}

bool weir_claims_acquire(struct fleet_member *member, int64_t now, int64_t n, int64_t timeout_ns,
                         struct weir_stop *stop, struct weir_verdict *verdict)
{
    struct claim claim = {.n = n, .began_ns = now, .deadline_ns = sat_add(now, timeout_ns)};
    claim.word = stop ? (_Atomic uint32_t *)&stop->word : &claim.own;
    if (!weir_member_may_succeed(member, now, n, timeout_ns, verdict) || weir_agent_is_me(member->agent))
        return false;
    (void)atom_add(&member->holders, 1, memory_order_relaxed);
    if (begin_claim(member, &claim)) {
        sleep_until_decided(member, &claim);
    } else {
        claim.state = CLAIM_REFUSED;
        claim.reason = WEIR_CANCELED;
    }
    describe_claim(member, &claim, weir_now(), verdict);
    bool allowed = verdict->allowed;
    weir_inbox_post(member, INBOX_WANT, 0); /* those behind it, or what it has left, may move up */
    weir_member_unref(member);
    return allowed;
}

/* ---- asynchronous takes ---- */

/* true: the answer is known, and in the verdict. */
static bool is_known(struct fleet_member *member, int64_t now, int64_t n, int64_t timeout_ns,
                     struct weir_verdict *verdict)
{
    lock_take(&member->lock);
    bool first = member->claims.count == 0;
    lock_drop(&member->lock);
    /* Who waits is not one whom the balance has missed: nothing is kept ready for him. */
    bool there = weir_balance_held(&member->balance) >= n;
    if (first && there && weir_balance_take(&member->balance, now, n, false)) {
        *verdict =
            (struct weir_verdict){.allowed = 1, .remaining = max64(weir_balance_held(&member->balance), 0)};
        return true;
    }
    return !weir_member_may_succeed(member, now, n, timeout_ns, verdict) || timeout_ns <= 0;
}

/* The memory of the member is held, for its answer may free it before this is done. */
bool weir_claims_take(struct fleet_member *member, int64_t now, int64_t n, int64_t timeout_ns,
                      weir_fleet_answer *answer, void *arg)
{
    struct weir_verdict verdict = {0};
    struct claim *claim = malloc(sizeof *claim);
    if (!claim)
        return false;
    *claim = (struct claim){.n = n, .began_ns = now, .answer = answer, .arg = arg};
    claim->deadline_ns = sat_add(now, max64(timeout_ns, 0));
    (void)atom_add(&member->holders, 1, memory_order_relaxed);
    bool known = is_known(member, now, n, timeout_ns, &verdict);
    bool begun = !known && begin_claim(member, claim);
    weir_member_unref(member);
    if (begun)
        return true;
    free(claim);
    if (!known)
        verdict = (struct weir_verdict){.reason = WEIR_CANCELED, .retry_after_ns = WEIR_FOREVER};
    answer(arg, &verdict);
    return true;
}
