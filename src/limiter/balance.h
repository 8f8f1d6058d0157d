/* SPDX-License-Identifier: MIT */
/*
 * A balance: units that a limiter may spend until a deadline, put there by somebody else (a fleet's
 * coordinator). To take some is one exchange, and then one look at the clock.
 *
 * Law: units that were put in with `until` are never spent at or after it. `until` only grows, and the
 * balance is emptied (debts stay) before it does. Who takes reads `until` first (acquire), then the units,
 * exchanges them, and then looks at the clock: if that is at or past the `until` he has read, he has nothing,
 * and what he took is gone. The units he exchanged were put in with that `until` or a later one, so this errs
 * on the side of refusing. The look comes after the exchange because a thread may be stopped for any time
 * before it.
 *
 * How exact the look is: a processor may read its counter before the exchange in front of it is done, but not
 * before one that it has not begun to carry out: whoever is stopped in between (an interrupt, a host that
 * takes the processor away) reads it anew. So it is early by the time of one exchange at most, less than the
 * microsecond that CLOCK_ERROR_NS has for it, and the whole error of a look is CLOCK_ERROR_NS. Whoever sets
 * `until` leaves that much room; rates of clocks that are allowed for (2 * rho of a window) are far more.
 *
 * Units below 0 are a debt: charged, and repaid by what is put in.
 *
 * The account: put == spent + held + withdrawn + dropped, exactly, while nobody is in a call. `dropped` is
 * what a turn has turned away, and what was taken too late. What is given back is not spent any more.
 *
 * Takes, charges and drains are lock-free and only take out. All that puts in or moves the deadline is under
 * `lock`, so that what is given back is never more than was taken out since the last turn. Whether it is the
 * same units is known only to who says under which deadline he took them (weir_balance_give_under: reserve
 * and cancel). A plain give may come from a window that is over: then it lifts this one, up to what has been
 * taken out of it.
 */
#ifndef WEIR_LIMITER_BALANCE_H
#define WEIR_LIMITER_BALANCE_H

#include "base/assert.h"
#include "os/atomic.h"
#include "os/clock.h"
#include "os/lock.h"
#include "weir.h"

#ifndef BALANCE_CLOCK /* tests/explore has a clock of its own */
#define BALANCE_CLOCK clock_now
#endif

struct lease_balance;
struct weir_limiter;

/* What whoever fills a balance does for it. All may be called by any thread; none but `cancel` under a lock.
 */
struct balance_ops {
    /* There is less than `low` in it (n is 0), or somebody was refused n units. Must not block; told again
     * only after weir_balance_rearm. */
    void (*want)(struct lease_balance *balance, int64_t n);
    /* n were refused at `now`: fills reason, retry_after_ns, reset_after_ns, remaining. The verdict is
     * complete already, as of a balance of which nothing more is known: WEIR_LATER, and no time to come back.
     */
    void (*explain)(struct lease_balance *balance, int64_t now, int64_t n, struct weir_verdict *verdict);
    /* As weir_limiter_acquire_at, after a take has failed; timeout_ns above 0, `verdict` never NULL. */
    bool (*acquire)(struct lease_balance *balance, int64_t now, int64_t n, int64_t timeout_ns,
                    struct weir_stop *stop, struct weir_verdict *verdict);
    /* The last who held the limiter has let it go: nobody uses the balance any more. The limiter is still
     * there until it returns. Not called in a forked child. */
    void (*free)(struct lease_balance *balance);
    /* The limiter is freed while threads are in `acquire`: they come back with WEIR_CANCELED, and `free`
     * follows. Called under the limiter's lock, because the last of them takes the limiter away: must not
     * block, nor ask anything of the limiter. May be NULL. */
    void (*cancel)(struct lease_balance *balance);
};

struct lease_balance {
    _Alignas(64) atom64 units; /* int64_t */
    /* Read by every take, written by the one who fills it. */
    _Alignas(64) atom64 until; /* ns of weir_now; 0: nothing may be spent */
    atom64 low;                /* `want` below this */
    const struct balance_ops *ops;
    void *owner;
    /* The rest. */
    _Alignas(64) atom64 wanted;     /* 1: told, not yet heard */
    atom64 refused;                 /* units refused since they were last asked for (saturating) */
    atom64 put, withdrawn, dropped; /* the account */
    struct lock lock;               /* give, turn, put, repay, withdraw */
    int64_t
        full;  /* under it: what was put in since the balance was last emptied; give does not lift above it */
    bool shut; /* under it: the last turn was to an earlier deadline */
};

void weir_balance_init(struct lease_balance *balance, const struct balance_ops *ops, void *owner);

/* ---- by whoever takes; n is 1 or more, `now` a reading before the call. `timed`: it is the time, do not
 * look again (for callers whose clock is an argument; who reads the clock says false) ---- */

bool weir_balance_take(struct lease_balance *balance, int64_t now, int64_t n, bool timed);
/* The same for who hands the units on: *until_ns is the end they have, later than `now`. What is not there is
 * not handed on: never below 0. */
bool weir_balance_lease(struct lease_balance *balance, int64_t now, int64_t n, int64_t *until_ns);
/* Never above what was put in since the last turn, less what was withdrawn; nothing at or after `until`.
 * (What was taken before that turn counts as if it had been taken after it.) */
void weir_balance_give(struct lease_balance *balance, int64_t now, int64_t n);
/* The same for units that were taken under this deadline: false, and nothing, if there is another one. */
bool weir_balance_give_under(struct lease_balance *balance, int64_t now, int64_t n, int64_t until_ns);
void weir_balance_charge(struct lease_balance *balance, int64_t n);
/* Nobody has what is drained: it counts as spent, and nothing is asked for in its place. */
int64_t weir_balance_drain(struct lease_balance *balance, int64_t now);
/* Units that would pass at `now`; *until_ns is the deadline. */
int64_t weir_balance_room(const struct lease_balance *balance, int64_t now, int64_t *until_ns);
/* n were refused, and not by a take: asks for them. */
void weir_balance_missed(struct lease_balance *balance, int64_t n);

/* ---- by the one who fills it ---- */

/* Empties it and sets the deadline, which must not be earlier than the one before; debts stay. Gives what was
 * in. To an earlier one nothing can be turned, because a taker may have read the later: then the balance
 * stays empty, and what is put in is dropped, until a turn to one that is not. */
int64_t weir_balance_set_deadline(struct lease_balance *balance, int64_t until_ns);
/* Puts units in, under the deadline that is set. (What could be spent longer may be put in, too.) */
void weir_balance_put(struct lease_balance *balance, int64_t units);
/* Pays a debt with up to so many units, whatever their end: never above 0. Gives how many it took. */
int64_t weir_balance_repay(struct lease_balance *balance, int64_t units);
/* Takes out up to `most` whole chunks of `chunk` units that are there; gives how many. */
int64_t weir_balance_withdraw(struct lease_balance *balance, int64_t chunk, int64_t most);
/* What is in it, below 0: a debt. */
int64_t weir_balance_held(const struct lease_balance *balance);
/* Of the account. Spent may fall: by what is given back, and when a take turns out to be late. */
int64_t weir_balance_spent(const struct lease_balance *balance);
int64_t weir_balance_dropped(const struct lease_balance *balance);
/* What was refused since this was last called. */
int64_t weir_balance_refused(struct lease_balance *balance);
/* Tells nobody: who sets it above what is held knows that, and a take that finds less than it will. */
void weir_balance_set_low(struct lease_balance *balance, int64_t low);
/* `want` is to be told again from now on. To be called before weir_balance_held and weir_balance_refused:
 * whoever did not tell because he was not heard yet has done his exchange before, and is seen by them. */
void weir_balance_rearm(struct lease_balance *balance);

/* ---- the plain take ---- */

/* What it does when the units alone do not decide. */
__attribute__((cold)) bool weir_balance_take_short(struct lease_balance *balance, int64_t *now, int64_t n,
                                                   bool timed);
__attribute__((cold)) bool weir_balance_take_late(struct lease_balance *balance, int64_t n);
__attribute__((cold)) void weir_balance_notify(struct lease_balance *balance, int64_t n);

static inline int64_t balance_load(const atom64 *figure)
{
    return (int64_t)atom_load(figure, memory_order_relaxed);
}

/* weir_balance_take; *now is the time that decided. The exchange is sequentially consistent for
 * weir_balance_rearm alone. */
static inline __attribute__((always_inline)) bool balance_take(struct lease_balance *balance, int64_t *now,
                                                               int64_t n, bool timed)
{
    int64_t until = (int64_t)atom_load(&balance->until, memory_order_acquire);
    uint64_t seen = atom_load(&balance->units, memory_order_relaxed);
    if (timed && *now >= until)
        return weir_balance_missed(balance, n), false;
    do {
        if (__builtin_expect((int64_t)seen < n, 0))
            return weir_balance_take_short(balance, now, n, timed);
    } while (!atom_cas(&balance->units, &seen, seen - (uint64_t)n, memory_order_seq_cst));
    if (!timed && __builtin_expect((*now = BALANCE_CLOCK()) >= until, 0))
        return weir_balance_take_late(balance, n);
    if (__builtin_expect((int64_t)seen - n < balance_load(&balance->low), 0))
        weir_balance_notify(balance, 0);
    INVARIANT(51, *now < until);
    return true;
}

#endif
