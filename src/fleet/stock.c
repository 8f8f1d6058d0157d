/* SPDX-License-Identifier: MIT */
#include "fleet/stock.h"

#include <string.h>

#include "base/sat.h"

#define MOMENT_NS (3 * WEIR_MS) /* in which a take comes for what was gathered for it */

static void remove_at(struct stock *stock, size_t index)
{
    stock->units -= stock->grants[index].units;
    stock->count--;
    memmove(&stock->grants[index], &stock->grants[index + 1],
            (stock->count - index) * sizeof stock->grants[0]);
}

void weir_stock_clear(struct stock *stock, struct pot *pot)
{
    stock->dropped = sat_add(stock->dropped, stock->units);
    stock->count = 0;
    stock->units = 0;
    (void)weir_pot_turn(pot, stock->pot_until_ns);
}

/* The last two become one: nothing is spent earlier or later than either may be. */
static void join_last(struct stock *stock)
{
    struct lease_grant *into = &stock->grants[stock->count - 2], *last = into + 1;
    into->units = sat_add(into->units, last->units);
    into->from_ns = max64(into->from_ns, last->from_ns);
    into->until_ns = min64(into->until_ns, last->until_ns);
    stock->count--;
}

static void set_deadline(struct stock *stock, struct pot *pot, int64_t until_ns)
{
    if (until_ns <= stock->pot_until_ns || weir_pot_held(pot) > 0)
        return;
    (void)weir_pot_turn(pot, until_ns);
    stock->pot_until_ns = until_ns;
}

void weir_stock_add(struct stock *stock, struct pot *pot, const struct lease_grant *grant)
{
    if (grant->units < 1) {
        set_deadline(stock, pot, grant->until_ns);
        return;
    }
    if (stock->count == STOCK_GRANTS_MAX)
        join_last(stock);
    size_t at = stock->count;
    while (at > 0 && stock->grants[at - 1].until_ns > grant->until_ns)
        at--;
    memmove(&stock->grants[at + 1], &stock->grants[at], (stock->count - at) * sizeof stock->grants[0]);
    stock->grants[at] = *grant;
    stock->count++;
    stock->units = sat_add(stock->units, grant->units);
}

void weir_stock_expire(struct stock *stock, struct pot *pot, int64_t now)
{
    for (size_t i = stock->count; i-- > 0;)
        if (stock->grants[i].until_ns <= max64(now, stock->grants[i].from_ns)) {
            stock->dropped = sat_add(stock->dropped, stock->grants[i].units);
            remove_at(stock, i);
        }
    if (now >= stock->pot_until_ns && weir_pot_held(pot) > 0)
        (void)weir_pot_turn(pot, stock->pot_until_ns);
}

/* ---- into the pot ---- */

static void turn_and_put(struct stock *stock, struct pot *pot, const struct lease_grant *grant)
{
    (void)weir_pot_turn(pot, grant->until_ns);
    stock->pot_until_ns = grant->until_ns;
    weir_pot_put(pot, grant->units);
}

/* false: it stays where it is. What ends before the pot does can only wait for somebody who waits: a taker
 * may have read the later deadline already. */
static bool pour_one(struct stock *stock, struct pot *pot, const struct lease_grant *grant, int64_t now,
                     bool pressed)
{
    if (grant->from_ns > now || grant->until_ns < stock->pot_until_ns)
        return false;
    bool over = now >= stock->pot_until_ns || weir_pot_held(pot) <= 0;
    if (over || grant->until_ns == stock->pot_until_ns) {
        if (grant->until_ns == stock->pot_until_ns)
            weir_pot_put(pot, grant->units);
        else
            turn_and_put(stock, pot, grant);
        return true;
    }
    if (!pressed)
        return false;
    /* Either the new units end as early as the old ones, or the old ones end now. */
    if (stock->pot_until_ns - now >= (grant->until_ns - now) / 2)
        weir_pot_put(pot, grant->units);
    else
        turn_and_put(stock, pot, grant);
    return true;
}

bool weir_stock_pour(struct stock *stock, struct pot *pot, int64_t now, bool pressed)
{
    bool poured = false;
    for (size_t i = 0; i < stock->count;) {
        if (pour_one(stock, pot, &stock->grants[i], now, pressed)) {
            remove_at(stock, i);
            poured = true;
        } else {
            i++;
        }
    }
    return poured;
}

/* ---- for a take that is larger than what the pot has under one end ---- */

/* The earliest end that what goes into the pot may have. INT64_MAX: nothing may, for a moment. */
static int64_t gather_floor(const struct stock *stock, const struct pot *pot, int64_t now)
{
    int64_t soon = sat_add(now, MOMENT_NS);
    if (weir_pot_held(pot) <= 0 || now >= stock->pot_until_ns)
        return max64(soon, stock->pot_until_ns);
    return stock->pot_until_ns >= soon ? stock->pot_until_ns : INT64_MAX;
}

static bool can_gather(const struct lease_grant *grant, int64_t now, int64_t floor)
{
    return grant->from_ns <= now && grant->until_ns >= floor;
}

int64_t weir_stock_gathered(const struct stock *stock, const struct pot *pot, int64_t now)
{
    int64_t floor = gather_floor(stock, pot, now), units = 0;
    if (floor != INT64_MAX && now < stock->pot_until_ns)
        units = max64(weir_pot_held(pot), 0);
    for (size_t i = 0; i < stock->count; i++)
        if (can_gather(&stock->grants[i], now, floor))
            units = sat_add(units, stock->grants[i].units);
    return units;
}

void weir_stock_gather(struct stock *stock, struct pot *pot, int64_t now)
{
    int64_t floor = gather_floor(stock, pot, now);
    bool turned = floor == stock->pot_until_ns;
    for (size_t i = 0; i < stock->count;) {
        struct lease_grant grant = stock->grants[i];
        if (!can_gather(&grant, now, floor)) {
            i++;
            continue;
        }
        remove_at(stock, i);
        if (turned)
            weir_pot_put(pot, grant.units);
        else
            turn_and_put(stock, pot, &grant); /* they are in the order of their ends */
        turned = true;
    }
}

/* ---- to those who wait ---- */

static int64_t started_units(const struct stock *stock, int64_t now)
{
    int64_t units = 0;
    for (size_t i = 0; i < stock->count; i++)
        if (stock->grants[i].from_ns <= now)
            units = sat_add(units, stock->grants[i].units);
    return units;
}

/* From those that end first. */
static void take_started(struct stock *stock, int64_t now, int64_t n, int64_t *until_ns)
{
    for (size_t i = 0; i < stock->count && n > 0;) {
        struct lease_grant *grant = &stock->grants[i];
        if (grant->from_ns > now) {
            i++;
            continue;
        }
        int64_t some = min64(grant->units, n);
        *until_ns = min64(*until_ns, grant->until_ns);
        stock->direct = sat_add(stock->direct, some);
        stock->units -= some;
        grant->units -= some;
        n -= some;
        if (grant->units == 0)
            remove_at(stock, i);
    }
}

bool weir_stock_serve(struct stock *stock, struct pot *pot, int64_t now, int64_t n, int64_t *until_ns)
{
    int64_t beside = started_units(stock, now), ignored = INT64_MAX;
    int64_t paid = weir_pot_repay(pot, beside); /* debts first */
    take_started(stock, now, paid, &ignored);
    stock->direct -= paid;
    beside -= paid;
    int64_t held = now < stock->pot_until_ns ? max64(weir_pot_held(pot), 0) : 0;
    *until_ns = INT64_MAX;
    if (sat_add(beside, held) < n)
        return false;
    int64_t of_pot = max64(n - beside, 0);
    if (of_pot > 0 && !weir_pot_lease(pot, now, of_pot, until_ns))
        return false; /* somebody was faster */
    take_started(stock, now, n - of_pot, until_ns);
    return true;
}

/* ---- back ---- */

int64_t weir_stock_withdraw(struct stock *stock, struct pot *pot, int64_t chunk, int64_t most)
{
    int64_t chunks = 0;
    for (size_t i = stock->count; i-- > 0 && chunk > 0 && chunks < most;) {
        int64_t some = min64(stock->grants[i].units / chunk, most - chunks);
        chunks += some;
        stock->grants[i].units -= some * chunk;
        stock->units -= some * chunk;
        if (stock->grants[i].units == 0)
            remove_at(stock, i);
    }
    return chunks + weir_pot_withdraw(pot, chunk, most - chunks);
}

int64_t weir_stock_starts(const struct stock *stock, int64_t now)
{
    int64_t next = WEIR_FOREVER;
    for (size_t i = 0; i < stock->count; i++)
        if (stock->grants[i].from_ns > now)
            next = min64(next, stock->grants[i].from_ns);
    return next;
}

int64_t weir_stock_next(const struct stock *stock, int64_t now)
{
    int64_t over = stock->count > 0 && stock->pot_until_ns > now ? stock->pot_until_ns : WEIR_FOREVER;
    return min64(over, weir_stock_starts(stock, now));
}
