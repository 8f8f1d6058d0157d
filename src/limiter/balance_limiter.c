/* SPDX-License-Identifier: MIT */
#include "limiter/balance_limiter.h"

#include <errno.h>
#include <stdio.h>

#include "base/error.h"
#include "limiter/life.h"

/* ---- what is left after a fork ---- */

static void orphan_want(struct lease_balance *balance, int64_t n)
{
    (void)balance, (void)n;
}

static void orphan_explain(struct lease_balance *balance, int64_t now, int64_t n,
                           struct weir_verdict *verdict)
{
    (void)balance, (void)now, (void)n;
    verdict->reason = WEIR_NEVER;
}

static bool orphan_acquire(struct lease_balance *balance, int64_t now, int64_t n, int64_t timeout_ns,
                           struct weir_stop *stop, struct weir_verdict *verdict)
{
    (void)timeout_ns, (void)stop;
    orphan_explain(balance, now, n, verdict);
    return false;
}

static const struct balance_ops orphan_ops = {
    .want = orphan_want, .explain = orphan_explain, .acquire = orphan_acquire};
struct lease_balance weir_balance_orphan = {.ops = &orphan_ops};

struct lease_balance *weir_limiter_balance(const struct weir_limiter *limiter)
{
    return limiter && limiter->balance != &weir_balance_orphan ? limiter->balance : NULL;
}

/* ---- verdicts ---- */

static bool reject_balance_request(struct weir_verdict *verdict)
{
    if (verdict)
        *verdict = (struct weir_verdict){.reason = WEIR_INVALID, .retry_after_ns = WEIR_FOREVER};
    return false;
}

static void describe_balance(struct lease_balance *balance, int64_t now, int64_t n, bool allowed,
                             struct weir_verdict *verdict)
{
    int64_t until;
    *verdict = (struct weir_verdict){
        .allowed = allowed,
        .reason = allowed ? WEIR_OK : WEIR_LATER,
        .remaining = weir_balance_room(balance, now, &until),
        .retry_after_ns = allowed ? 0 : WEIR_FOREVER,
    };
    verdict->reset_after_ns = max64(sat_sub(until, now), 0);
    if (!allowed)
        balance->ops->explain(balance, now, n, verdict);
}

/* ---- takes ---- */

static bool take_from_balance(struct weir_limiter *limiter, int64_t now, int64_t n,
                              struct weir_verdict *verdict, enum balance_time time)
{
    struct weir_verdict own;
    struct lease_balance *balance = limiter->balance;
    bool allowed = balance_take(balance, &now, n, time == BALANCE_TIMED);
    if (!verdict && listeners_any(&limiter->listeners))
        verdict = &own; /* they are told the reason */
    if (verdict)
        describe_balance(balance, now, n, allowed, verdict);
    limiter_notify(limiter, allowed, n, now, verdict);
    return allowed;
}

bool weir_limiter_balance_take(struct weir_limiter *limiter, int64_t n, struct weir_verdict *verdict)
{
    int64_t now = 0;
    if (__builtin_expect(n < 1, 0))
        return reject_balance_request(verdict);
    if (verdict || listeners_any(&limiter->listeners))
        return take_from_balance(limiter, now, n, verdict, BALANCE_BY_CLOCK);
    return balance_take(limiter->balance, &now, n, false);
}

bool weir_limiter_balance_take_at(struct weir_limiter *limiter, int64_t now, int64_t n,
                                  struct weir_verdict *verdict)
{
    return n < 1 ? reject_balance_request(verdict)
                 : take_from_balance(limiter, now, n, verdict, BALANCE_TIMED);
}

/* It asks for what it does not find: who looks before he takes would never take. */
bool weir_limiter_balance_peek(struct weir_limiter *limiter, int64_t now, int64_t n,
                               struct weir_verdict *verdict)
{
    int64_t until;
    struct lease_balance *balance = limiter->balance;
    bool allowed = weir_balance_room(balance, now, &until) >= n;
    if (!allowed)
        weir_balance_missed(balance, n);
    if (verdict)
        describe_balance(balance, now, n, allowed, verdict);
    return allowed;
}

bool weir_limiter_balance_reserve(struct weir_limiter *limiter, int64_t now, int64_t n,
                                  struct weir_reservation *reservation, struct weir_verdict *verdict,
                                  enum balance_time time)
{
    int64_t until = (int64_t)atom_load(&limiter->balance->until, memory_order_acquire);
    bool allowed = take_from_balance(limiter, now, n, verdict, time);
    if (allowed && reservation)
        *reservation = (struct weir_reservation){.n = n, .due_ns = now, .before_ns = until};
    return allowed;
}

bool weir_limiter_balance_cancel(struct weir_limiter *limiter, int64_t now,
                                 struct weir_reservation *reservation)
{
    int64_t n = reservation->n;
    if (n < 1 || !weir_balance_give_under(limiter->balance, now, n, reservation->before_ns))
        return false;
    reservation->n = 0;
    return true;
}

/* ---- waiting ---- */

/* As in acquire.c: a limiter that is freed while somebody waits ends with the last of them. */
static bool wait_for_balance(struct weir_limiter *limiter, int64_t now, int64_t n, int64_t timeout_ns,
                             struct weir_stop *stop, struct weir_verdict *verdict)
{
    lock_take(&limiter->lock);
    limiter->waiting++;
    lock_drop(&limiter->lock);
    bool allowed = limiter->balance->ops->acquire(limiter->balance, now, n, timeout_ns, stop, verdict);
    lock_take(&limiter->lock);
    bool gone = limiter->ending, last = --limiter->waiting == 0 && gone;
    lock_drop(&limiter->lock);
    if (!gone)
        limiter_notify(limiter, allowed, n, now, verdict);
    if (last)
        weir_limiter_destroy(limiter);
    return allowed;
}

bool weir_limiter_balance_acquire(struct weir_limiter *limiter, int64_t now, int64_t n, int64_t timeout_ns,
                                  struct weir_stop *stop, struct weir_verdict *verdict,
                                  enum balance_time time)
{
    struct weir_verdict own;
    int64_t until;
    if (timeout_ns < 0)
        timeout_ns = limiter->policy->timeout_ns;
    if (timeout_ns == 0)
        return take_from_balance(limiter, now, n, verdict, time);
    verdict = verdict ? verdict : &own;
    /* Who can wait is not one whom the balance has missed: he looks first, and nothing is kept ready for him.
     */
    if (weir_balance_room(limiter->balance, now, &until) < n ||
        !balance_take(limiter->balance, &now, n, time == BALANCE_TIMED)) {
        *verdict = (struct weir_verdict){.reason = WEIR_LATER, .retry_after_ns = WEIR_FOREVER};
        return wait_for_balance(limiter, now, n, timeout_ns, stop, verdict);
    }
    describe_balance(limiter->balance, now, n, true, verdict);
    limiter_notify(limiter, true, n, now, verdict);
    return true;
}

/* ---- the rest ---- */

/* Looks without asking for more: who watches a limiter does not use it. */
void weir_limiter_balance_stat(struct weir_limiter *limiter, int64_t now, struct weir_stat *stat)
{
    struct weir_verdict verdict;
    int64_t until;
    stat->available = weir_balance_room(limiter->balance, now, &until);
    describe_balance(limiter->balance, now, 1, stat->available > 0, &verdict);
    stat->wait_ns = verdict.retry_after_ns;
    lock_take(&limiter->lock);
    stat->waiting = limiter->waiting;
    lock_drop(&limiter->lock);
}

bool weir_limiter_balance_refuse(struct weir_error *err, const char *what_instead)
{
    char text[120];
    (void)snprintf(text, sizeof text, "this limit belongs to a fleet: %s", what_instead);
    weir_error_set(err, EINVAL, text);
    return false;
}
