/* SPDX-License-Identifier: MIT */
/*
 * Timers, and what a member has been granted.
 */
#include "base/sat.h"
#include "check.h"
#include "fleet/grant_store.h"
#include "fleet/wake_timer.h"

static int64_t below(struct rng *rng, int64_t bound)
{
    return rng_between(rng, 0, bound - 1);
}

/* ---- timers ---- */

enum { ALARMS = 50 };

TEST(alarms_ring_in_order_whatever_is_set_and_set_again)
{
    struct rng rng = rng_new(1);
    struct wake_timer list[ALARMS] = {0};
    int64_t at[ALARMS];
    struct wake_timer_heap timers = {0};
    for (int i = 0; i < ALARMS; i++)
        at[i] = WEIR_FOREVER;
    for (int round = 0; round < 20000; round++) {
        size_t which = (size_t)below(&rng, ALARMS);
        at[which] = below(&rng, 4) == 0 ? WEIR_FOREVER : below(&rng, 1000);
        weir_wake_timer_set(&timers, &list[which], at[which]);
        int64_t first = WEIR_FOREVER;
        for (int i = 0; i < ALARMS; i++)
            first = min64(first, at[i]);
        if (!CHECK_EQ(weir_wake_timer_next(&timers), first))
            return;
        if (below(&rng, 3) != 0)
            continue;
        int64_t now = below(&rng, 1000);
        struct wake_timer *due = weir_wake_timer_due(&timers, now);
        if (!CHECK((due != NULL) == (first <= now)))
            return;
        if (due) {
            CHECK_EQ(at[due - list], first);
            at[due - list] = WEIR_FOREVER;
        }
    }
}

/* ---- grant stores ---- */

static void no_want(struct lease_balance *balance, int64_t n)
{
    (void)balance, (void)n;
}

static const struct balance_ops ops = {.want = no_want};
static struct lease_balance balance;
static struct grant_store grant_store;

static void begin(void)
{
    weir_balance_init(&balance, &ops, NULL);
    grant_store = (struct grant_store){0};
}

static void add(int64_t units, int64_t from, int64_t until)
{
    struct lease_grant grant = {units, from, until};
    weir_grant_store_add(&grant_store, &balance, &grant);
}

TEST(a_grant_that_has_not_started_is_not_in_the_balance)
{
    begin();
    add(10, 100, 200);
    CHECK(!weir_grant_store_fill_balance(&grant_store, &balance, 99, true));
    CHECK_EQ(weir_grant_store_next(&grant_store, 99), 100);
    CHECK(weir_grant_store_fill_balance(&grant_store, &balance, 100, false));
    CHECK_EQ(weir_balance_held(&balance), 10);
    CHECK(!weir_balance_take(&balance, 200, 1, true));
    CHECK(weir_balance_take(&balance, 199, 1, true));
}

TEST(what_ends_later_waits_beside_the_balance_unless_it_is_needed)
{
    begin();
    add(10, 0, 200);
    add(10, 0, 300);
    CHECK(weir_grant_store_fill_balance(&grant_store, &balance, 10, false));
    CHECK_EQ(weir_balance_held(&balance), 10);
    CHECK_EQ(grant_store.units, 10);
    CHECK(weir_grant_store_fill_balance(&grant_store, &balance, 10, true)); /* under the earlier end */
    CHECK_EQ(weir_balance_held(&balance), 20);
    CHECK(!weir_balance_take(&balance, 200, 1, true));
    begin();
    add(10, 0, 200);
    add(10, 0, 300);
    (void)weir_grant_store_fill_balance(&grant_store, &balance, 10, false);
    weir_grant_store_expire(&grant_store, &balance, 200);
    CHECK_EQ(weir_balance_held(&balance), 0);
    CHECK(weir_grant_store_fill_balance(&grant_store, &balance, 200, false));
    CHECK(weir_balance_take(&balance, 299, 10, true));
    CHECK_EQ(weir_balance_dropped(&balance), 10);
}

TEST(who_waits_gets_of_all_that_has_started_under_the_earliest_end)
{
    int64_t until;
    begin();
    add(10, 0, 200);
    (void)weir_grant_store_fill_balance(&grant_store, &balance, 0, false);
    add(10, 0, 300);
    add(10, 50, 400);
    CHECK(!weir_grant_store_serve(&grant_store, &balance, 49, 25, &until));
    CHECK(weir_grant_store_serve(&grant_store, &balance, 50, 25, &until));
    CHECK_EQ(until, 200);
    CHECK_EQ(weir_balance_held(&balance) + grant_store.units, 5);
    CHECK_EQ(grant_store.direct + weir_balance_spent(&balance), 25);
    CHECK(weir_grant_store_serve(&grant_store, &balance, 60, 5, &until));
    CHECK(!weir_grant_store_serve(&grant_store, &balance, 60, 1, &until));
}

/* Into an empty balance under the earliest of their ends, into another one under the one it has: never a
 * later one than a unit was granted with. What has not started, or ends in a moment, stays. */
TEST(what_is_gathered_has_one_end)
{
    const int64_t ms = WEIR_MS;
    begin();
    add(10, 0, 2 * ms);
    add(10, 0, 200 * ms);
    add(10, 0, 300 * ms);
    add(10, 50 * ms, 400 * ms);
    CHECK_EQ(weir_grant_store_gathered(&grant_store, &balance, ms), 20);
    CHECK_EQ(weir_grant_store_gathered(&grant_store, &balance, 50 * ms), 30);
    weir_grant_store_gather(&grant_store, &balance, ms);
    CHECK_EQ(weir_balance_held(&balance), 20);
    CHECK_EQ(grant_store.balance_until_ns, 200 * ms);
    CHECK_EQ(weir_grant_store_gathered(&grant_store, &balance, 50 * ms), 30);
    weir_grant_store_gather(&grant_store, &balance, 50 * ms);
    CHECK_EQ(weir_balance_held(&balance), 30);
    CHECK_EQ(grant_store.balance_until_ns, 200 * ms);
    CHECK(!weir_balance_take(&balance, 200 * ms, 1, true));
    add(10, 0, 400 * ms);
    CHECK_EQ(weir_grant_store_gathered(&grant_store, &balance, 199 * ms),
             0); /* it would come too late for these */
    CHECK_EQ(weir_grant_store_gathered(&grant_store, &balance, 200 * ms), 10);
    add(10, 0, 150 * ms);
    weir_grant_store_gather(&grant_store, &balance, 100 * ms); /* a taker may have read the later end */
    CHECK_EQ(weir_balance_held(&balance), 40);
    CHECK_EQ(grant_store.units, 20);
}

TEST(debts_are_paid_before_somebody_who_waits)
{
    int64_t until;
    begin();
    weir_balance_charge(&balance, 8);
    add(10, 0, 200);
    CHECK(!weir_grant_store_serve(&grant_store, &balance, 1, 3, &until));
    CHECK_EQ(weir_balance_held(&balance), 0);
    CHECK(weir_grant_store_serve(&grant_store, &balance, 1, 2, &until));
    CHECK_EQ(until, 200);
}

/* They would be spent under the deadline of the balance, which is later. */
TEST(what_has_paid_a_debt_does_not_come_back)
{
    int64_t until;
    begin();
    add(10, 0, 300);
    (void)weir_grant_store_fill_balance(&grant_store, &balance, 0, false);
    CHECK(weir_balance_take(&balance, 1, 10, true));
    weir_balance_charge(&balance, 8);
    add(8, 0, 200);
    CHECK(!weir_grant_store_serve(&grant_store, &balance, 1, 1, &until));
    CHECK_EQ(weir_balance_held(&balance), 0);
    weir_balance_give(&balance, 250, 18);
    CHECK_EQ(weir_balance_held(&balance), 10);
}

TEST(whole_chunks_are_withdrawn_from_both)
{
    begin();
    add(10, 0, 200);
    (void)weir_grant_store_fill_balance(&grant_store, &balance, 0, false);
    CHECK(weir_balance_take(&balance, 1, 1, true));
    add(25, 300, 400);
    CHECK_EQ(weir_grant_store_withdraw(&grant_store, &balance, 5, 100), 6);
    CHECK_EQ(weir_balance_held(&balance), 4);
    CHECK_EQ(grant_store.units, 0);
    CHECK_EQ(weir_grant_store_withdraw(&grant_store, &balance, 5, 100), 0);
}

TEST(a_part_of_a_chunk_is_not_withdrawn)
{
    begin();
    add(27, 300, 400);
    CHECK_EQ(weir_grant_store_withdraw(&grant_store, &balance, 10, 100), 2);
    CHECK_EQ(grant_store.units, 7);
}

TEST(nothing_is_left_when_all_is_void)
{
    begin();
    add(10, 0, 200);
    (void)weir_grant_store_fill_balance(&grant_store, &balance, 0, false);
    add(10, 50, 400);
    weir_grant_store_clear(&grant_store, &balance);
    CHECK_EQ(weir_balance_held(&balance), 0);
    CHECK_EQ(grant_store.units, 0);
    CHECK(!weir_balance_take(&balance, 1, 1, true));
}

TEST(what_ends_before_the_balance_does_not_go_into_it)
{
    begin();
    add(10, 0, 300);
    (void)weir_grant_store_fill_balance(&grant_store, &balance, 0, false);
    add(10, 0, 200);
    CHECK(!weir_grant_store_fill_balance(&grant_store, &balance, 10, true));
    CHECK_EQ(weir_balance_held(&balance), 10);
    CHECK_EQ(grant_store.units, 10);
}

/* Of so many that two of them have to become one. */
TEST(grants_that_become_one_have_the_later_start_and_the_earlier_end)
{
    begin();
    for (int64_t i = 0; i <= GRANT_STORE_MAX; i++)
        add(1, 10 * i, 1000 + i);
    CHECK_EQ(grant_store.count, GRANT_STORE_MAX);
    CHECK_EQ(grant_store.units, GRANT_STORE_MAX + 1);
    const struct lease_grant *joined = &grant_store.grants[GRANT_STORE_MAX - 2];
    CHECK_EQ(joined->units, 2);
    CHECK_EQ(joined->from_ns, 10 * (GRANT_STORE_MAX - 1));
    CHECK_EQ(joined->until_ns, 1000 + GRANT_STORE_MAX - 2);
}

/* What is granted is in the grant store, in the balance, spent, or dropped; what leaves has time left. */
TEST(units_leave_once_and_before_their_end)
{
    struct rng rng = rng_new(2);
    for (int story = 0; story < 300; story++) {
        begin();
        int64_t granted = 0, now = 1, latest = 0, until;
        for (int i = 0; i < 200; i++) {
            int64_t units = rng_between(&rng, 1, 9), spell = rng_between(&rng, 0, 100);
            now += rng_between(&rng, 0, 20);
            weir_grant_store_expire(&grant_store, &balance, now);
            switch (rng_between(&rng, 0, 3)) {
            case 0:
                latest = max64(latest, now) + spell;
                granted += units;
                add(units, now + rng_between(&rng, 0, 30), spell < 10 ? now + spell : latest);
                break;
            case 1:
                (void)weir_grant_store_fill_balance(&grant_store, &balance, now, spell % 2);
                break;
            case 2:
                if (weir_grant_store_serve(&grant_store, &balance, now, units, &until))
                    CHECK(until > now && until <= latest + 10);
                break;
            default:
                (void)weir_balance_take(&balance, now, 1, true);
            }
            int64_t beside = grant_store.units + grant_store.direct + grant_store.dropped;
            int64_t inside =
                weir_balance_held(&balance) + weir_balance_spent(&balance) + weir_balance_dropped(&balance);
            if (!CHECK_EQ(beside + inside, granted) || !CHECK(grant_store.count <= GRANT_STORE_MAX))
                return;
        }
    }
}
