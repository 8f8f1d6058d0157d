/* SPDX-License-Identifier: MIT */
/*
 * Waiting: a promise, and a sleep until it is due.
 *
 * The due time is known before the sleep begins, so a wait that is too long is refused at once, and each
 * thread sleeps for itself: nobody has to be woken by the one before. Promises are made in the order of
 * asking, so due times are first come, first served. The lock makes a promise and its place in the list one
 * step, for a live change in between would miss it.
 */
#include "limiter/balance_limiter.h"
#include "limiter/change.h"
#include "limiter/life.h"
#include "limiter/limiter.h"
#include "os/clock.h"
#include "os/wait.h"

#define STOPPED UINT32_C(1)

/* ---- stops ---- */

static _Atomic uint32_t *stop_word(struct weir_stop *stop)
{
    return (_Atomic uint32_t *)&stop->word;
}

void weir_stop_set(struct weir_stop *stop)
{
    if (!stop)
        return;
    (void)atomic_fetch_or_explicit(stop_word(stop), STOPPED, memory_order_release);
    weir_wait_wake(stop_word(stop));
}

void weir_stop_clear(struct weir_stop *stop)
{
    if (stop)
        (void)atomic_fetch_and_explicit(stop_word(stop), ~STOPPED, memory_order_release);
}

/* ---- the list, under the lock ---- */

static void link_waiter(struct weir_limiter *limiter, struct limiter_waiter *waiter)
{
    waiter->prev = limiter->last;
    *(limiter->last ? &limiter->last->next : &limiter->first) = waiter;
    limiter->last = waiter;
    limiter->waiting++;
    INVARIANT(6, limiter->last == waiter && !waiter->next && !limiter->first->prev);
}

#if WEIR_ASSERTIONS
static bool is_linked(const struct weir_limiter *limiter, const struct limiter_waiter *waiter)
{
    const struct limiter_waiter *w = limiter->first;
    while (w && w != waiter)
        w = w->next;
    return w;
}
#endif

static void unlink_waiter(struct weir_limiter *limiter, struct limiter_waiter *waiter)
{
    *(waiter->prev ? &waiter->prev->next : &limiter->first) = waiter->next;
    *(waiter->next ? &waiter->next->prev : &limiter->last) = waiter->prev;
    limiter->waiting--;
}

/* ---- waiting ---- */

/* As long as there is a processor for each who waits. */
static bool is_worth_precision(const struct weir_limiter *limiter)
{
    return limiter->waiting < limiter->processors;
}

/* Sleeps until the wait has an end; gives how it ended. Called and left under the lock. */
static int sleep_until_due(struct weir_limiter *limiter, struct limiter_waiter *waiter)
{
    for (;;) {
        uint32_t value = atomic_load_explicit(waiter->word, memory_order_acquire);
        int64_t due_ns = waiter->due_ns;
        if (waiter->refused)
            return WEIR_NEVER;
        if (weir_now() >= due_ns)
            return WEIR_OK;
        if (value & STOPPED || limiter->ending)
            return WEIR_CANCELED;
        bool precise = is_worth_precision(limiter);
        lock_drop(&limiter->lock);
        weir_wait_until(waiter->word, value, due_ns, precise);
        lock_take(&limiter->lock);
    }
}

static void return_promise(struct weir_limiter *limiter, struct limiter_waiter *waiter, int64_t now)
{
    if (!weir_limiter_withdraw(limiter, waiter, now))
        (void)weir_limiter_recall(limiter, now, &waiter->promise.reservation, &waiter->promise.undo);
}

/* The wait from the promise on. Called under the lock, which it drops. *gone: the limiter is not there any
 * more. */
static int wait_for_turn(struct weir_limiter *limiter, struct limiter_waiter *waiter, bool *gone)
{
    link_waiter(limiter, waiter);
    int reason = sleep_until_due(limiter, waiter);
    if (reason == WEIR_CANCELED && waiter->due_ns != WEIR_FOREVER)
        return_promise(limiter, waiter, weir_now());
    unlink_waiter(limiter, waiter);
#if WEIR_ASSERTIONS
    INVARIANT(6, limiter->waiting > 64 || !is_linked(limiter, waiter));
#endif
    ASSERT((limiter->waiting == 0) == !limiter->first && (limiter->waiting == 0) == !limiter->last);
    bool last = limiter->ending && limiter->waiting == 0;
    *gone = limiter->ending;
    lock_drop(&limiter->lock);
    if (last)
        weir_limiter_destroy(limiter);
    return *gone ? WEIR_CANCELED : reason;
}

static void conclude_wait(struct weir_verdict *verdict, int reason, int64_t slept)
{
    verdict->allowed = reason == WEIR_OK;
    verdict->reason = reason;
    verdict->wait_ns = slept;
    verdict->retry_after_ns = reason == WEIR_OK ? 0 : WEIR_FOREVER;
}

/* Asks under the lock, and waits if there is something to wait for. */
static bool ask_and_wait(struct weir_limiter *limiter, int64_t now, int64_t n, int64_t timeout_ns,
                         struct weir_stop *stop, struct weir_verdict *verdict)
{
    struct limiter_waiter waiter = {.n = n};
    bool gone = false;
    waiter.word = stop ? stop_word(stop) : &waiter.own;
    lock_take(&limiter->lock);
    bool promised = weir_limiter_promise(limiter, now, n, timeout_ns, &waiter.promise.reservation,
                                         &waiter.promise.undo, verdict);
    waiter.due_ns = promised ? waiter.promise.reservation.due_ns : WEIR_FOREVER;
    INVARIANT(6, !promised || timeout_ns < 0 || waiter.due_ns <= sat_add(max64(now, 0), timeout_ns));
    bool waits_for_resume = !promised && timeout_ns == WEIR_FOREVER && verdict->reason == WEIR_NEVER &&
                            weir_limiter_paused(limiter, now);
    if (!waits_for_resume && (!promised || waiter.due_ns <= now)) {
        lock_drop(&limiter->lock);
        verdict->wait_ns = 0; /* a filler thread may be behind */
    } else {
        int reason = wait_for_turn(limiter, &waiter, &gone);
        conclude_wait(verdict, reason, max64(sat_sub(weir_now(), now), 0));
    }
    if (!gone)
        limiter_notify(limiter, verdict->allowed, n, now, verdict);
    return verdict->allowed;
}

static bool acquire_units(struct weir_limiter *limiter, int64_t now_ns, int64_t n, int64_t timeout_ns,
                          struct weir_stop *stop, struct weir_verdict *verdict, enum balance_time time)
{
    struct weir_verdict own;
    if (stop && atomic_load_explicit(stop_word(stop), memory_order_acquire) & STOPPED) {
        if (verdict)
            *verdict = (struct weir_verdict){.reason = WEIR_CANCELED, .retry_after_ns = WEIR_FOREVER};
        return false;
    }
    if (has_balance(limiter) && n > 0)
        return weir_limiter_balance_acquire(limiter, now_ns, n, timeout_ns, stop, verdict, time);
    if (!limiter || n < 1 || timeout_ns == 0)
        return weir_limiter_take_at(limiter, now_ns, n, verdict);
    if (word_take(&limiter->word, now_ns, n, verdict) != WORD_YES)
        return ask_and_wait(limiter, now_ns, n, timeout_ns, stop, verdict ? verdict : &own);
    limiter_notify(limiter, true, n, now_ns, NULL);
    return true;
}

bool weir_limiter_acquire_at(struct weir_limiter *limiter, int64_t now_ns, int64_t n, int64_t timeout_ns,
                             struct weir_stop *stop, struct weir_verdict *verdict)
{
    return acquire_units(limiter, now_ns, n, timeout_ns, stop, verdict, BALANCE_TIMED);
}

bool weir_limiter_acquire_unless(struct weir_limiter *limiter, int64_t n, int64_t timeout_ns,
                                 struct weir_stop *stop, struct weir_verdict *verdict)
{
    return acquire_units(limiter, weir_now(), n, timeout_ns, stop, verdict, BALANCE_BY_CLOCK);
}

bool weir_limiter_acquire(struct weir_limiter *limiter, int64_t n, int64_t timeout_ns,
                          struct weir_verdict *verdict)
{
    return acquire_units(limiter, weir_now(), n, timeout_ns, NULL, verdict, BALANCE_BY_CLOCK);
}

/* ---- a function that runs under a limiter ---- */

static void drain_limiter(struct weir_limiter *limiter, struct weir_verdict *verdict)
{
    (void)weir_limiter_drain(limiter);
    if (verdict)
        verdict->remaining = 0;
}

bool weir_limiter_call(struct weir_limiter *limiter, struct weir_call *call, struct weir_verdict *verdict)
{
    if (!call || !call->run)
        return weir_limiter_take(NULL, 0, verdict);
    int64_t n = call->count ? call->count(call->arg) : call->n == 0 ? 1 : call->n;
    if (!weir_limiter_acquire_unless(limiter, n, call->timeout_ns, call->stop, verdict))
        return false;
    call->result = call->run(call->arg);
    if (call->drain_on && call->drain_on(call->arg, call->result))
        drain_limiter(limiter, verdict);
    return true;
}
