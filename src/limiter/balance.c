/* SPDX-License-Identifier: MIT */
#include "limiter/balance.h"

#include <string.h>

#define BALANCE_MAX (INT64_MAX / 4) /* of units in it, and of a debt */

void weir_balance_init(struct lease_balance *balance, const struct balance_ops *ops, void *owner)
{
    memset(balance, 0, sizeof *balance);
    balance->ops = ops;
    balance->owner = owner;
}

static void count_balance_units(atom64 *account, int64_t units)
{
    (void)atom_add(account, (uint64_t)units, memory_order_relaxed);
}

/* ---- asking ---- */

/* Either the load finds that what was told is heard, or who hears finds what was done before it: the four
 * steps (the exchange of units or `refused`, this load; weir_balance_rearm, the look that follows it) are all
 * sequentially consistent. */
void weir_balance_notify(struct lease_balance *balance, int64_t n)
{
    if (atom_load(&balance->wanted, memory_order_seq_cst) == 0 &&
        atom_swap(&balance->wanted, 1, memory_order_acq_rel) == 0)
        balance->ops->want(balance, n);
}

void weir_balance_rearm(struct lease_balance *balance)
{
    atom_store(&balance->wanted, 0, memory_order_seq_cst);
}

void weir_balance_missed(struct lease_balance *balance, int64_t n)
{
    uint64_t seen = atom_load(&balance->refused, memory_order_relaxed);
    while (!atom_cas(&balance->refused, &seen, (uint64_t)sat_add((int64_t)seen, n), memory_order_seq_cst))
        ;
    weir_balance_notify(balance, n);
}

int64_t weir_balance_refused(struct lease_balance *balance)
{
    return (int64_t)atom_swap(&balance->refused, 0, memory_order_seq_cst);
}

/* ---- taking ---- */

bool weir_balance_take_short(struct lease_balance *balance, int64_t *now, int64_t n, bool timed)
{
    if (!timed)
        *now = BALANCE_CLOCK();
    weir_balance_missed(balance, n);
    return false;
}

/* They may be units of another deadline by now, so they do not come back. */
bool weir_balance_take_late(struct lease_balance *balance, int64_t n)
{
    count_balance_units(&balance->dropped, n);
    weir_balance_missed(balance, n);
    return false;
}

bool weir_balance_take(struct lease_balance *balance, int64_t now, int64_t n, bool timed)
{
    return balance_take(balance, &now, n, timed);
}

bool weir_balance_lease(struct lease_balance *balance, int64_t now, int64_t n, int64_t *until_ns)
{
    int64_t until = (int64_t)atom_load(&balance->until, memory_order_acquire);
    uint64_t seen = atom_load(&balance->units, memory_order_relaxed);
    *until_ns = until;
    do {
        if (now >= until || (int64_t)seen < n)
            return weir_balance_missed(balance, n), false;
    } while (!atom_cas(&balance->units, &seen, seen - (uint64_t)n, memory_order_seq_cst));
    ASSERT((int64_t)seen >= n && now < until);
    if ((int64_t)seen - n < balance_load(&balance->low))
        weir_balance_notify(balance, 0);
    return true;
}

void weir_balance_charge(struct lease_balance *balance, int64_t n)
{
    uint64_t seen = atom_load(&balance->units, memory_order_relaxed);
    int64_t left;
    do
        left = max64(sat_sub((int64_t)seen, n), -BALANCE_MAX);
    while (!atom_cas(&balance->units, &seen, (uint64_t)left, memory_order_seq_cst));
    if (left < balance_load(&balance->low))
        weir_balance_notify(balance, 0);
}

int64_t weir_balance_drain(struct lease_balance *balance, int64_t now)
{
    int64_t until = (int64_t)atom_load(&balance->until, memory_order_acquire);
    uint64_t seen = atom_load(&balance->units, memory_order_relaxed);
    do {
        if (now >= until || (int64_t)seen <= 0)
            return 0;
    } while (!atom_cas(&balance->units, &seen, 0, memory_order_seq_cst));
    return (int64_t)seen;
}

int64_t weir_balance_room(const struct lease_balance *balance, int64_t now, int64_t *until_ns)
{
    int64_t until = (int64_t)atom_load(&balance->until, memory_order_acquire);
    *until_ns = until;
    return now >= until ? 0 : max64(weir_balance_held(balance), 0);
}

/* ---- giving back ---- */

/* Under the lock the deadline and `full` stay, and units only fall. */
static void give_balance_locked(struct lease_balance *balance, int64_t n)
{
    uint64_t seen = atom_load(&balance->units, memory_order_relaxed);
    int64_t after;
    do {
        after = min64(sat_add((int64_t)seen, n), balance->full);
        if (after <= (int64_t)seen)
            return;
    } while (!atom_cas(&balance->units, &seen, (uint64_t)after, memory_order_acq_rel));
    ASSERT(after <= balance->full);
}

bool weir_balance_give_under(struct lease_balance *balance, int64_t now, int64_t n, int64_t until_ns)
{
    if (now >= until_ns || balance_load(&balance->until) != until_ns)
        return false;
    lock_take(&balance->lock);
    bool same = balance_load(&balance->until) == until_ns;
    if (same)
        give_balance_locked(balance, n);
    lock_drop(&balance->lock);
    if (same)
        weir_balance_notify(balance, 0); /* somebody may wait for them */
    return same;
}

void weir_balance_give(struct lease_balance *balance, int64_t now, int64_t n)
{
    (void)weir_balance_give_under(balance, now, n, balance_load(&balance->until));
}

/* ---- filling ---- */

/* What is there goes; a debt stays. */
static int64_t empty_balance(struct lease_balance *balance)
{
    uint64_t seen = atom_load(&balance->units, memory_order_relaxed);
#if WEIR_ASSERTIONS
    int64_t most = min64((int64_t)seen, 0); /* from here on others only take out */
#endif
    while ((int64_t)seen > 0 && !atom_cas(&balance->units, &seen, 0, memory_order_acq_rel))
        ;
#if WEIR_ASSERTIONS
    ASSERT(balance_load(&balance->units) <= most);
#endif
    return max64((int64_t)seen, 0);
}

int64_t weir_balance_set_deadline(struct lease_balance *balance, int64_t until_ns)
{
    lock_take(&balance->lock);
#if WEIR_ASSERTIONS
    int64_t before = balance_load(&balance->until);
#endif
    int64_t was = empty_balance(balance);
#if WEIR_ASSERTIONS
    INVARIANT(51, balance_load(&balance->until) == before);
#endif
    count_balance_units(&balance->dropped, was);
    balance->full = 0;
    balance->shut = until_ns < balance_load(&balance->until);
    if (!balance->shut)
        atom_store(&balance->until, (uint64_t)until_ns, memory_order_release);
#if WEIR_ASSERTIONS
    INVARIANT(51, balance_load(&balance->until) >= before && balance->full == 0);
#endif
    lock_drop(&balance->lock);
    return was;
}

void weir_balance_put(struct lease_balance *balance, int64_t units)
{
    if (units < 1)
        return;
    lock_take(&balance->lock);
    int64_t in = balance->shut ? 0 : min64(units, BALANCE_MAX - balance->full);
    ASSERT(in == 0 || !balance->shut);
    balance->full += in;
    count_balance_units(&balance->put, units);
    count_balance_units(&balance->dropped, units - in);
    (void)atom_add(&balance->units, (uint64_t)in, memory_order_acq_rel);
    lock_drop(&balance->lock);
}

/* `full` stays: what has paid a debt may have an earlier end than the balance, so nobody gives it back into
 * it.
 */
int64_t weir_balance_repay(struct lease_balance *balance, int64_t units)
{
    lock_take(&balance->lock);
    uint64_t seen = atom_load(&balance->units, memory_order_relaxed);
    int64_t paid;
    do
        paid = clamp64(sat_sub(0, (int64_t)seen), 0, max64(units, 0));
    while (paid > 0 && !atom_cas(&balance->units, &seen, seen + (uint64_t)paid, memory_order_acq_rel));
    ASSERT(paid <= max64(units, 0) && (paid == 0 || balance_load(&balance->units) <= 0));
    count_balance_units(&balance->put, paid);
    lock_drop(&balance->lock);
    return paid;
}

static int64_t withdraw_balance_locked(struct lease_balance *balance, int64_t chunk, int64_t most)
{
    uint64_t seen = atom_load(&balance->units, memory_order_relaxed);
    int64_t chunks;
    do {
        chunks = min64((int64_t)seen / chunk, most);
        if (chunks < 1)
            return 0;
    } while (!atom_cas(&balance->units, &seen, seen - (uint64_t)(chunks * chunk), memory_order_acq_rel));
    ASSERT(chunks > 0 && chunks <= most && (int64_t)seen >= chunks * chunk);
    balance->full -= chunks * chunk; /* else it could be given back as if it had been taken */
    count_balance_units(&balance->withdrawn, chunks * chunk);
    return chunks;
}

int64_t weir_balance_withdraw(struct lease_balance *balance, int64_t chunk, int64_t most)
{
    if (chunk < 1 || most < 1)
        return 0;
    lock_take(&balance->lock);
    int64_t chunks = withdraw_balance_locked(balance, chunk, most);
    lock_drop(&balance->lock);
    return chunks;
}

int64_t weir_balance_held(const struct lease_balance *balance)
{
    return (int64_t)atom_load(&balance->units, memory_order_seq_cst);
}

int64_t weir_balance_dropped(const struct lease_balance *balance)
{
    return balance_load(&balance->dropped);
}

int64_t weir_balance_spent(const struct lease_balance *balance)
{
    uint64_t not_spent = (uint64_t)weir_balance_held(balance) +
                         atom_load(&balance->withdrawn, memory_order_relaxed) +
                         atom_load(&balance->dropped, memory_order_relaxed);
    return (int64_t)(atom_load(&balance->put, memory_order_relaxed) - not_spent);
}

void weir_balance_set_low(struct lease_balance *balance, int64_t low)
{
    atom_store(&balance->low, (uint64_t)low, memory_order_relaxed);
}
