/* SPDX-License-Identifier: MIT */
#include "fleet/grant_store.h"

#include <string.h>

#include "base/assert.h"
#include "base/sat.h"

#define MOMENT_NS (3 * WEIR_MS) /* in which a take comes for what was gathered for it */

#if WEIR_ASSERTIONS
/* In the order of their ends, none of them empty, and all of them counted. */
static void check_grants(const struct grant_store *granted)
{
    int64_t units = 0;
    ASSERT(granted->count <= GRANT_STORE_MAX);
    for (size_t i = 0; i < granted->count; i++) {
        ASSERT(granted->grants[i].units > 0);
        INVARIANT(56, i == 0 || granted->grants[i].until_ns >= granted->grants[i - 1].until_ns);
        units = sat_add(units, granted->grants[i].units);
    }
    ASSERT(units == granted->units);
}
#else
#define check_grants(GRANTED) ((void)(GRANTED))
#endif

static void put_in_balance(const struct grant_store *granted, struct lease_balance *balance,
                           const struct lease_grant *grant, int64_t now)
{
    INVARIANT(56, granted->balance_until_ns <= grant->until_ns && grant->from_ns <= now);
    weir_balance_put(balance, grant->units);
}

static void remove_grant(struct grant_store *granted, size_t index)
{
    granted->units -= granted->grants[index].units;
    granted->count--;
    memmove(&granted->grants[index], &granted->grants[index + 1],
            (granted->count - index) * sizeof granted->grants[0]);
}

void weir_grant_store_clear(struct grant_store *granted, struct lease_balance *balance)
{
    granted->dropped = sat_add(granted->dropped, granted->units);
    granted->count = 0;
    granted->units = 0;
    (void)weir_balance_set_deadline(balance, granted->balance_until_ns);
    ASSERT(weir_balance_held(balance) <= 0);
}

/* The last two become one: nothing is spent earlier or later than either may be. */
static void merge_last_grants(struct grant_store *granted)
{
    struct lease_grant *into = &granted->grants[granted->count - 2], *last = into + 1;
    into->units = sat_add(into->units, last->units);
    into->from_ns = max64(into->from_ns, last->from_ns);
    into->until_ns = min64(into->until_ns, last->until_ns);
    INVARIANT(56, into->until_ns <= last->until_ns && into->from_ns >= last->from_ns);
    granted->count--;
}

static void set_balance_deadline(struct grant_store *granted, struct lease_balance *balance, int64_t until_ns)
{
    if (until_ns <= granted->balance_until_ns || weir_balance_held(balance) > 0)
        return;
    (void)weir_balance_set_deadline(balance, until_ns);
    granted->balance_until_ns = until_ns;
}

void weir_grant_store_add(struct grant_store *granted, struct lease_balance *balance,
                          const struct lease_grant *grant)
{
    if (grant->units < 1) {
        set_balance_deadline(granted, balance, grant->until_ns);
        return;
    }
    if (granted->count == GRANT_STORE_MAX)
        merge_last_grants(granted);
    size_t at = granted->count;
    while (at > 0 && granted->grants[at - 1].until_ns > grant->until_ns)
        at--;
    memmove(&granted->grants[at + 1], &granted->grants[at],
            (granted->count - at) * sizeof granted->grants[0]);
    granted->grants[at] = *grant;
    granted->count++;
    granted->units = sat_add(granted->units, grant->units);
    check_grants(granted);
}

void weir_grant_store_expire(struct grant_store *granted, struct lease_balance *balance, int64_t now)
{
    for (size_t i = granted->count; i-- > 0;)
        if (granted->grants[i].until_ns <= max64(now, granted->grants[i].from_ns)) {
            granted->dropped = sat_add(granted->dropped, granted->grants[i].units);
            remove_grant(granted, i);
        }
    if (now >= granted->balance_until_ns && weir_balance_held(balance) > 0)
        (void)weir_balance_set_deadline(balance, granted->balance_until_ns);
}

/* ---- into the balance ---- */

static void restart_balance(struct grant_store *granted, struct lease_balance *balance,
                            const struct lease_grant *grant, int64_t now)
{
    INVARIANT(51, grant->until_ns >= granted->balance_until_ns);
    (void)weir_balance_set_deadline(balance, grant->until_ns);
    granted->balance_until_ns = grant->until_ns;
    put_in_balance(granted, balance, grant, now);
}

/* false: it stays where it is. What ends before the balance does can only wait for somebody who waits: a
 * taker may have read the later deadline already. */
static bool move_grant_to_balance(struct grant_store *granted, struct lease_balance *balance,
                                  const struct lease_grant *grant, int64_t now, bool pressed)
{
    if (grant->from_ns > now || grant->until_ns < granted->balance_until_ns)
        return false;
    bool over = now >= granted->balance_until_ns || weir_balance_held(balance) <= 0;
    if (over || grant->until_ns == granted->balance_until_ns) {
        if (grant->until_ns == granted->balance_until_ns)
            put_in_balance(granted, balance, grant, now);
        else
            restart_balance(granted, balance, grant, now);
        return true;
    }
    if (!pressed)
        return false;
    /* Either the new units end as early as the old ones, or the old ones end now. */
    if (granted->balance_until_ns - now >= (grant->until_ns - now) / 2)
        put_in_balance(granted, balance, grant, now);
    else
        restart_balance(granted, balance, grant, now);
    return true;
}

bool weir_grant_store_fill_balance(struct grant_store *granted, struct lease_balance *balance, int64_t now,
                                   bool pressed)
{
    bool poured = false;
    for (size_t i = 0; i < granted->count;) {
        if (move_grant_to_balance(granted, balance, &granted->grants[i], now, pressed)) {
            remove_grant(granted, i);
            poured = true;
        } else {
            i++;
        }
    }
    return poured;
}

/* ---- for a take that is larger than what the balance has under one end ---- */

/* The earliest end that what goes into the balance may have. INT64_MAX: nothing may, for a moment. */
static int64_t gather_floor(const struct grant_store *granted, const struct lease_balance *balance,
                            int64_t now)
{
    int64_t soon = sat_add(now, MOMENT_NS);
    if (weir_balance_held(balance) <= 0 || now >= granted->balance_until_ns)
        return max64(soon, granted->balance_until_ns);
    return granted->balance_until_ns >= soon ? granted->balance_until_ns : INT64_MAX;
}

static bool can_gather(const struct lease_grant *grant, int64_t now, int64_t floor)
{
    return grant->from_ns <= now && grant->until_ns >= floor;
}

int64_t weir_grant_store_gathered(const struct grant_store *granted, const struct lease_balance *balance,
                                  int64_t now)
{
    int64_t floor = gather_floor(granted, balance, now), units = 0;
    if (floor != INT64_MAX && now < granted->balance_until_ns)
        units = max64(weir_balance_held(balance), 0);
    for (size_t i = 0; i < granted->count; i++)
        if (can_gather(&granted->grants[i], now, floor))
            units = sat_add(units, granted->grants[i].units);
    return units;
}

void weir_grant_store_gather(struct grant_store *granted, struct lease_balance *balance, int64_t now)
{
    int64_t floor = gather_floor(granted, balance, now);
    bool turned = floor == granted->balance_until_ns;
    for (size_t i = 0; i < granted->count;) {
        struct lease_grant grant = granted->grants[i];
        if (!can_gather(&grant, now, floor)) {
            i++;
            continue;
        }
        remove_grant(granted, i);
        if (turned)
            put_in_balance(granted, balance, &grant, now);
        else
            restart_balance(granted, balance, &grant, now); /* they are in the order of their ends */
        turned = true;
    }
}

/* ---- to those who wait ---- */

static int64_t started_units(const struct grant_store *granted, int64_t now)
{
    int64_t units = 0;
    for (size_t i = 0; i < granted->count; i++)
        if (granted->grants[i].from_ns <= now)
            units = sat_add(units, granted->grants[i].units);
    return units;
}

/* From those that end first. */
static void take_started(struct grant_store *granted, int64_t now, int64_t n, int64_t *until_ns)
{
    for (size_t i = 0; i < granted->count && n > 0;) {
        struct lease_grant *grant = &granted->grants[i];
        if (grant->from_ns > now) {
            i++;
            continue;
        }
        int64_t some = min64(grant->units, n);
        *until_ns = min64(*until_ns, grant->until_ns);
        INVARIANT(56, *until_ns <= grant->until_ns && grant->from_ns <= now);
        granted->direct = sat_add(granted->direct, some);
        granted->units -= some;
        grant->units -= some;
        n -= some;
        if (grant->units == 0)
            remove_grant(granted, i);
    }
    ASSERT(n == 0);
    check_grants(granted);
}

bool weir_grant_store_serve(struct grant_store *granted, struct lease_balance *balance, int64_t now,
                            int64_t n, int64_t *until_ns)
{
    int64_t beside = started_units(granted, now), ignored = INT64_MAX;
    int64_t paid = weir_balance_repay(balance, beside); /* debts first */
    take_started(granted, now, paid, &ignored);
    granted->direct -= paid;
    beside -= paid;
    int64_t held = now < granted->balance_until_ns ? max64(weir_balance_held(balance), 0) : 0;
    *until_ns = INT64_MAX;
    if (sat_add(beside, held) < n)
        return false;
    int64_t of_balance = max64(n - beside, 0);
    if (of_balance > 0 && !weir_balance_lease(balance, now, of_balance, until_ns))
        return false; /* somebody was faster */
    take_started(granted, now, n - of_balance, until_ns);
    return true;
}

/* ---- back ---- */

int64_t weir_grant_store_withdraw(struct grant_store *granted, struct lease_balance *balance, int64_t chunk,
                                  int64_t most)
{
    int64_t chunks = 0;
    for (size_t i = granted->count; i-- > 0 && chunk > 0 && chunks < most;) {
        int64_t some = min64(granted->grants[i].units / chunk, most - chunks);
        chunks += some;
        granted->grants[i].units -= some * chunk;
        granted->units -= some * chunk;
        if (granted->grants[i].units == 0)
            remove_grant(granted, i);
    }
    check_grants(granted);
    return chunks + weir_balance_withdraw(balance, chunk, most - chunks);
}

int64_t weir_grant_store_starts(const struct grant_store *granted, int64_t now)
{
    int64_t next = WEIR_FOREVER;
    for (size_t i = 0; i < granted->count; i++)
        if (granted->grants[i].from_ns > now)
            next = min64(next, granted->grants[i].from_ns);
    return next;
}

int64_t weir_grant_store_next(const struct grant_store *granted, int64_t now)
{
    int64_t over =
        granted->count > 0 && granted->balance_until_ns > now ? granted->balance_until_ns : WEIR_FOREVER;
    return min64(over, weir_grant_store_starts(granted, now));
}
