/* SPDX-License-Identifier: MIT */
/*
 * Alarms, and what a member has been granted.
 */
#include "base/sat.h"
#include "check.h"
#include "fleet/alarm.h"
#include "fleet/stock.h"

static int64_t below(struct rng *rng, int64_t bound)
{
    return rng_between(rng, 0, bound - 1);
}

/* ---- alarms ---- */

enum { ALARMS = 50 };

TEST(alarms_ring_in_order_whatever_is_set_and_set_again)
{
    struct rng rng = rng_new(1);
    struct alarm list[ALARMS] = {0};
    int64_t at[ALARMS];
    struct alarms alarms = {0};
    for (int i = 0; i < ALARMS; i++)
        at[i] = WEIR_FOREVER;
    for (int round = 0; round < 20000; round++) {
        size_t which = (size_t)below(&rng, ALARMS);
        at[which] = below(&rng, 4) == 0 ? WEIR_FOREVER : below(&rng, 1000);
        weir_alarm_set(&alarms, &list[which], at[which]);
        int64_t first = WEIR_FOREVER;
        for (int i = 0; i < ALARMS; i++)
            first = min64(first, at[i]);
        if (!CHECK_EQ(weir_alarm_next(&alarms), first))
            return;
        if (below(&rng, 3) != 0)
            continue;
        int64_t now = below(&rng, 1000);
        struct alarm *due = weir_alarm_due(&alarms, now);
        if (!CHECK((due != NULL) == (first <= now)))
            return;
        if (due) {
            CHECK_EQ(at[due - list], first);
            at[due - list] = WEIR_FOREVER;
        }
    }
}

/* ---- stocks ---- */

static void no_want(struct pot *pot, int64_t n)
{
    (void)pot, (void)n;
}

static const struct pot_ops ops = {.want = no_want};
static struct pot pot;
static struct stock stock;

static void begin(void)
{
    weir_pot_init(&pot, &ops, NULL);
    stock = (struct stock){0};
}

static void add(int64_t units, int64_t from, int64_t until)
{
    struct lease_grant grant = {units, from, until};
    weir_stock_add(&stock, &pot, &grant);
}

TEST(a_grant_that_has_not_started_is_not_in_the_pot)
{
    begin();
    add(10, 100, 200);
    CHECK(!weir_stock_pour(&stock, &pot, 99, true));
    CHECK_EQ(weir_stock_next(&stock, 99), 100);
    CHECK(weir_stock_pour(&stock, &pot, 100, false));
    CHECK_EQ(weir_pot_held(&pot), 10);
    CHECK(!weir_pot_take(&pot, 200, 1, true));
    CHECK(weir_pot_take(&pot, 199, 1, true));
}

TEST(what_ends_later_waits_beside_the_pot_unless_it_is_needed)
{
    begin();
    add(10, 0, 200);
    add(10, 0, 300);
    CHECK(weir_stock_pour(&stock, &pot, 10, false));
    CHECK_EQ(weir_pot_held(&pot), 10);
    CHECK_EQ(stock.units, 10);
    CHECK(weir_stock_pour(&stock, &pot, 10, true)); /* under the earlier end */
    CHECK_EQ(weir_pot_held(&pot), 20);
    CHECK(!weir_pot_take(&pot, 200, 1, true));
    begin();
    add(10, 0, 200);
    add(10, 0, 300);
    (void)weir_stock_pour(&stock, &pot, 10, false);
    weir_stock_expire(&stock, &pot, 200);
    CHECK_EQ(weir_pot_held(&pot), 0);
    CHECK(weir_stock_pour(&stock, &pot, 200, false));
    CHECK(weir_pot_take(&pot, 299, 10, true));
    CHECK_EQ(weir_pot_dropped(&pot), 10);
}

TEST(who_waits_gets_of_all_that_has_started_under_the_earliest_end)
{
    int64_t until;
    begin();
    add(10, 0, 200);
    (void)weir_stock_pour(&stock, &pot, 0, false);
    add(10, 0, 300);
    add(10, 50, 400);
    CHECK(!weir_stock_serve(&stock, &pot, 49, 25, &until));
    CHECK(weir_stock_serve(&stock, &pot, 50, 25, &until));
    CHECK_EQ(until, 200);
    CHECK_EQ(weir_pot_held(&pot) + stock.units, 5);
    CHECK_EQ(stock.direct + weir_pot_spent(&pot), 25);
    CHECK(weir_stock_serve(&stock, &pot, 60, 5, &until));
    CHECK(!weir_stock_serve(&stock, &pot, 60, 1, &until));
}

/* Into an empty pot under the earliest of their ends, into another one under the one it has: never a later
 * one than a unit was granted with. What has not started, or ends in a moment, stays. */
TEST(what_is_gathered_has_one_end)
{
    const int64_t ms = WEIR_MS;
    begin();
    add(10, 0, 2 * ms);
    add(10, 0, 200 * ms);
    add(10, 0, 300 * ms);
    add(10, 50 * ms, 400 * ms);
    CHECK_EQ(weir_stock_gathered(&stock, &pot, ms), 20);
    CHECK_EQ(weir_stock_gathered(&stock, &pot, 50 * ms), 30);
    weir_stock_gather(&stock, &pot, ms);
    CHECK_EQ(weir_pot_held(&pot), 20);
    CHECK_EQ(stock.pot_until_ns, 200 * ms);
    CHECK_EQ(weir_stock_gathered(&stock, &pot, 50 * ms), 30);
    weir_stock_gather(&stock, &pot, 50 * ms);
    CHECK_EQ(weir_pot_held(&pot), 30);
    CHECK_EQ(stock.pot_until_ns, 200 * ms);
    CHECK(!weir_pot_take(&pot, 200 * ms, 1, true));
    add(10, 0, 400 * ms);
    CHECK_EQ(weir_stock_gathered(&stock, &pot, 199 * ms), 0); /* it would come too late for these */
    CHECK_EQ(weir_stock_gathered(&stock, &pot, 200 * ms), 10);
    add(10, 0, 150 * ms);
    weir_stock_gather(&stock, &pot, 100 * ms); /* a taker may have read the later end */
    CHECK_EQ(weir_pot_held(&pot), 40);
    CHECK_EQ(stock.units, 20);
}

TEST(debts_are_paid_before_somebody_who_waits)
{
    int64_t until;
    begin();
    weir_pot_charge(&pot, 8);
    add(10, 0, 200);
    CHECK(!weir_stock_serve(&stock, &pot, 1, 3, &until));
    CHECK_EQ(weir_pot_held(&pot), 0);
    CHECK(weir_stock_serve(&stock, &pot, 1, 2, &until));
    CHECK_EQ(until, 200);
}

/* They would be spent under the deadline of the pot, which is later. */
TEST(what_has_paid_a_debt_does_not_come_back)
{
    int64_t until;
    begin();
    add(10, 0, 300);
    (void)weir_stock_pour(&stock, &pot, 0, false);
    CHECK(weir_pot_take(&pot, 1, 10, true));
    weir_pot_charge(&pot, 8);
    add(8, 0, 200);
    CHECK(!weir_stock_serve(&stock, &pot, 1, 1, &until));
    CHECK_EQ(weir_pot_held(&pot), 0);
    weir_pot_give(&pot, 250, 18);
    CHECK_EQ(weir_pot_held(&pot), 10);
}

TEST(whole_chunks_are_withdrawn_from_both)
{
    begin();
    add(10, 0, 200);
    (void)weir_stock_pour(&stock, &pot, 0, false);
    CHECK(weir_pot_take(&pot, 1, 1, true));
    add(25, 300, 400);
    CHECK_EQ(weir_stock_withdraw(&stock, &pot, 5, 100), 6);
    CHECK_EQ(weir_pot_held(&pot), 4);
    CHECK_EQ(stock.units, 0);
    CHECK_EQ(weir_stock_withdraw(&stock, &pot, 5, 100), 0);
}

TEST(a_part_of_a_chunk_is_not_withdrawn)
{
    begin();
    add(27, 300, 400);
    CHECK_EQ(weir_stock_withdraw(&stock, &pot, 10, 100), 2);
    CHECK_EQ(stock.units, 7);
}

TEST(nothing_is_left_when_all_is_void)
{
    begin();
    add(10, 0, 200);
    (void)weir_stock_pour(&stock, &pot, 0, false);
    add(10, 50, 400);
    weir_stock_clear(&stock, &pot);
    CHECK_EQ(weir_pot_held(&pot), 0);
    CHECK_EQ(stock.units, 0);
    CHECK(!weir_pot_take(&pot, 1, 1, true));
}

TEST(what_ends_before_the_pot_does_not_go_into_it)
{
    begin();
    add(10, 0, 300);
    (void)weir_stock_pour(&stock, &pot, 0, false);
    add(10, 0, 200);
    CHECK(!weir_stock_pour(&stock, &pot, 10, true));
    CHECK_EQ(weir_pot_held(&pot), 10);
    CHECK_EQ(stock.units, 10);
}

/* Of so many that two of them have to become one. */
TEST(grants_that_become_one_have_the_later_start_and_the_earlier_end)
{
    begin();
    for (int64_t i = 0; i <= STOCK_GRANTS_MAX; i++)
        add(1, 10 * i, 1000 + i);
    CHECK_EQ(stock.count, STOCK_GRANTS_MAX);
    CHECK_EQ(stock.units, STOCK_GRANTS_MAX + 1);
    const struct lease_grant *joined = &stock.grants[STOCK_GRANTS_MAX - 2];
    CHECK_EQ(joined->units, 2);
    CHECK_EQ(joined->from_ns, 10 * (STOCK_GRANTS_MAX - 1));
    CHECK_EQ(joined->until_ns, 1000 + STOCK_GRANTS_MAX - 2);
}

/* What is granted is in the stock, in the pot, spent, or dropped; what leaves has time left. */
TEST(units_leave_once_and_before_their_end)
{
    struct rng rng = rng_new(2);
    for (int story = 0; story < 300; story++) {
        begin();
        int64_t granted = 0, now = 1, latest = 0, until;
        for (int i = 0; i < 200; i++) {
            int64_t units = rng_between(&rng, 1, 9), spell = rng_between(&rng, 0, 100);
            now += rng_between(&rng, 0, 20);
            weir_stock_expire(&stock, &pot, now);
            switch (rng_between(&rng, 0, 3)) {
            case 0:
                latest = max64(latest, now) + spell;
                granted += units;
                add(units, now + rng_between(&rng, 0, 30), spell < 10 ? now + spell : latest);
                break;
            case 1:
                (void)weir_stock_pour(&stock, &pot, now, spell % 2);
                break;
            case 2:
                if (weir_stock_serve(&stock, &pot, now, units, &until))
                    CHECK(until > now && until <= latest + 10);
                break;
            default:
                (void)weir_pot_take(&pot, now, 1, true);
            }
            int64_t beside = stock.units + stock.direct + stock.dropped;
            int64_t inside = weir_pot_held(&pot) + weir_pot_spent(&pot) + weir_pot_dropped(&pot);
            if (!CHECK_EQ(beside + inside, granted) || !CHECK(stock.count <= STOCK_GRANTS_MAX))
                return;
        }
    }
}
