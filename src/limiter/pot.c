/* SPDX-License-Identifier: MIT */
#include "limiter/pot.h"

#include <string.h>

#define POT_MAX (INT64_MAX / 4) /* of units in it, and of a debt */

void weir_pot_init(struct pot *pot, const struct pot_ops *ops, void *owner)
{
    memset(pot, 0, sizeof *pot);
    pot->ops = ops;
    pot->owner = owner;
}

static void count(atom64 *account, int64_t units)
{
    (void)atom_add(account, (uint64_t)units, memory_order_relaxed);
}

/* ---- asking ---- */

/* Either the load finds that what was told is heard, or who hears finds what was done before it: the four
 * steps (the exchange of units or `refused`, this load; weir_pot_heard, the look that follows it) are all
 * sequentially consistent. */
void weir_pot_tell(struct pot *pot, int64_t n)
{
    if (atom_load(&pot->wanted, memory_order_seq_cst) == 0 &&
        atom_swap(&pot->wanted, 1, memory_order_acq_rel) == 0)
        pot->ops->want(pot, n);
}

void weir_pot_heard(struct pot *pot)
{
    atom_store(&pot->wanted, 0, memory_order_seq_cst);
}

void weir_pot_miss(struct pot *pot, int64_t n)
{
    uint64_t seen = atom_load(&pot->refused, memory_order_relaxed);
    while (!atom_cas(&pot->refused, &seen, (uint64_t)sat_add((int64_t)seen, n), memory_order_seq_cst))
        ;
    weir_pot_tell(pot, n);
}

int64_t weir_pot_refused(struct pot *pot)
{
    return (int64_t)atom_swap(&pot->refused, 0, memory_order_seq_cst);
}

/* ---- taking ---- */

/* Not enough is there: perhaps some may be spent ahead. What goes below 0 has to be repaid, also if the take
 * turns out to be late, so there is a look at the clock before the exchange, too. */
bool weir_pot_take_ahead(struct pot *pot, int64_t *now, int64_t n, bool timed)
{
    int64_t until = (int64_t)atom_load(&pot->until, memory_order_acquire);
    int64_t floor = pot_figure(&pot->floor);
    uint64_t seen = atom_load(&pot->units, memory_order_relaxed);
    if (!timed)
        *now = POT_LOOK();
    if (*now >= until)
        return weir_pot_miss(pot, n), false;
    do {
        if (sat_sub((int64_t)seen, n) < floor)
            return weir_pot_miss(pot, n), false;
    } while (!atom_cas(&pot->units, &seen, seen - (uint64_t)n, memory_order_seq_cst));
    if (!timed && (*now = POT_LOOK()) >= until)
        return weir_pot_take_late(pot, n);
    weir_pot_tell(pot, 0);
    return true;
}

/* They may be units of another deadline by now, so they do not come back. */
bool weir_pot_take_late(struct pot *pot, int64_t n)
{
    count(&pot->dropped, n);
    weir_pot_miss(pot, n);
    return false;
}

bool weir_pot_take(struct pot *pot, int64_t now, int64_t n, bool timed)
{
    return pot_take(pot, &now, n, timed);
}

bool weir_pot_lease(struct pot *pot, int64_t now, int64_t n, int64_t *until_ns)
{
    int64_t until = (int64_t)atom_load(&pot->until, memory_order_acquire);
    uint64_t seen = atom_load(&pot->units, memory_order_relaxed);
    *until_ns = until;
    do {
        if (now >= until || (int64_t)seen < n)
            return weir_pot_miss(pot, n), false;
    } while (!atom_cas(&pot->units, &seen, seen - (uint64_t)n, memory_order_seq_cst));
    if ((int64_t)seen - n < pot_figure(&pot->low))
        weir_pot_tell(pot, 0);
    return true;
}

void weir_pot_charge(struct pot *pot, int64_t n)
{
    uint64_t seen = atom_load(&pot->units, memory_order_relaxed);
    int64_t left;
    do
        left = max64(sat_sub((int64_t)seen, n), -POT_MAX);
    while (!atom_cas(&pot->units, &seen, (uint64_t)left, memory_order_seq_cst));
    if (left < pot_figure(&pot->low))
        weir_pot_tell(pot, 0);
}

int64_t weir_pot_drain(struct pot *pot, int64_t now)
{
    int64_t until = (int64_t)atom_load(&pot->until, memory_order_acquire);
    uint64_t seen = atom_load(&pot->units, memory_order_relaxed);
    do {
        if (now >= until || (int64_t)seen <= 0)
            return 0;
    } while (!atom_cas(&pot->units, &seen, 0, memory_order_seq_cst));
    return (int64_t)seen;
}

int64_t weir_pot_room(const struct pot *pot, int64_t now, int64_t *until_ns)
{
    int64_t until = (int64_t)atom_load(&pot->until, memory_order_acquire);
    *until_ns = until;
    return now >= until ? 0 : max64(sat_sub(weir_pot_held(pot), pot_figure(&pot->floor)), 0);
}

/* ---- giving back ---- */

/* Under the lock the deadline and `full` stay, and units only fall. */
static void give_locked(struct pot *pot, int64_t n)
{
    uint64_t seen = atom_load(&pot->units, memory_order_relaxed);
    int64_t after;
    do {
        after = min64(sat_add((int64_t)seen, n), pot->full);
        if (after <= (int64_t)seen)
            return;
    } while (!atom_cas(&pot->units, &seen, (uint64_t)after, memory_order_acq_rel));
}

bool weir_pot_give_under(struct pot *pot, int64_t now, int64_t n, int64_t until_ns)
{
    if (now >= until_ns || pot_figure(&pot->until) != until_ns)
        return false;
    lock_take(&pot->lock);
    bool same = pot_figure(&pot->until) == until_ns;
    if (same)
        give_locked(pot, n);
    lock_drop(&pot->lock);
    if (same)
        weir_pot_tell(pot, 0); /* somebody may wait for them */
    return same;
}

void weir_pot_give(struct pot *pot, int64_t now, int64_t n)
{
    (void)weir_pot_give_under(pot, now, n, pot_figure(&pot->until));
}

/* ---- filling ---- */

/* What is there goes; a debt stays. */
static int64_t empty(struct pot *pot)
{
    uint64_t seen = atom_load(&pot->units, memory_order_relaxed);
    while ((int64_t)seen > 0 && !atom_cas(&pot->units, &seen, 0, memory_order_acq_rel))
        ;
    return max64((int64_t)seen, 0);
}

int64_t weir_pot_turn(struct pot *pot, int64_t until_ns)
{
    lock_take(&pot->lock);
    int64_t was = empty(pot);
    count(&pot->dropped, was);
    pot->full = 0;
    pot->shut = until_ns < pot_figure(&pot->until);
    if (!pot->shut)
        atom_store(&pot->until, (uint64_t)until_ns, memory_order_release);
    lock_drop(&pot->lock);
    return was;
}

void weir_pot_put(struct pot *pot, int64_t units)
{
    if (units < 1)
        return;
    lock_take(&pot->lock);
    int64_t in = pot->shut ? 0 : min64(units, POT_MAX - pot->full);
    pot->full += in;
    count(&pot->put, units);
    count(&pot->dropped, units - in);
    (void)atom_add(&pot->units, (uint64_t)in, memory_order_acq_rel);
    lock_drop(&pot->lock);
}

/* `full` stays: what has paid a debt may have an earlier end than the pot, so nobody gives it back into it.
 */
int64_t weir_pot_repay(struct pot *pot, int64_t units)
{
    lock_take(&pot->lock);
    uint64_t seen = atom_load(&pot->units, memory_order_relaxed);
    int64_t paid;
    do
        paid = clamp64(sat_sub(0, (int64_t)seen), 0, max64(units, 0));
    while (paid > 0 && !atom_cas(&pot->units, &seen, seen + (uint64_t)paid, memory_order_acq_rel));
    count(&pot->put, paid);
    lock_drop(&pot->lock);
    return paid;
}

static int64_t withdraw_locked(struct pot *pot, int64_t chunk, int64_t most)
{
    uint64_t seen = atom_load(&pot->units, memory_order_relaxed);
    int64_t chunks;
    do {
        chunks = min64((int64_t)seen / chunk, most);
        if (chunks < 1)
            return 0;
    } while (!atom_cas(&pot->units, &seen, seen - (uint64_t)(chunks * chunk), memory_order_acq_rel));
    pot->full -= chunks * chunk; /* else it could be given back as if it had been taken */
    count(&pot->withdrawn, chunks * chunk);
    return chunks;
}

int64_t weir_pot_withdraw(struct pot *pot, int64_t chunk, int64_t most)
{
    if (chunk < 1 || most < 1)
        return 0;
    lock_take(&pot->lock);
    int64_t chunks = withdraw_locked(pot, chunk, most);
    lock_drop(&pot->lock);
    return chunks;
}

int64_t weir_pot_held(const struct pot *pot)
{
    return (int64_t)atom_load(&pot->units, memory_order_seq_cst);
}

int64_t weir_pot_dropped(const struct pot *pot)
{
    return pot_figure(&pot->dropped);
}

int64_t weir_pot_spent(const struct pot *pot)
{
    uint64_t not_spent = (uint64_t)weir_pot_held(pot) + atom_load(&pot->withdrawn, memory_order_relaxed) +
                         atom_load(&pot->dropped, memory_order_relaxed);
    return (int64_t)(atom_load(&pot->put, memory_order_relaxed) - not_spent);
}

void weir_pot_set_low(struct pot *pot, int64_t low)
{
    atom_store(&pot->low, (uint64_t)low, memory_order_relaxed);
}

void weir_pot_set_floor(struct pot *pot, int64_t floor)
{
    atom_store(&pot->floor, (uint64_t)clamp64(floor, -POT_MAX, 0), memory_order_relaxed);
}
