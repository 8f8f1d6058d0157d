/* SPDX-License-Identifier: MIT */
/*
 * local: pools inside of the process.
 */
#include "fleet/member.h"
#include "unit/fleet/member_kit.h"

static struct weir_limiter *enter(const char *url, const char *name, const char *spec)
{
    struct weir_limiter *member = weir_fleet_join(url, name, spec, &err);
    if (!CHECK(member != NULL))
        printf("# %s\n", err.text);
    return member;
}

/* All that can be had at this moment: the clock stands. */
static int64_t take_all(struct weir_limiter *member)
{
    int64_t units = 0;
    while (units < 10000 && weir_limiter_acquire(member, 1, 100 * WEIR_MS, NULL))
        units++;
    return units;
}

TEST(members_of_one_group_share_a_pool)
{
    weir_clock_set(T0);
    struct weir_limiter *one = enter("local:a?base=10", "x", "100/s algo=quota");
    struct weir_limiter *other = enter("local:a?base=10&nodes=2", "x", "100/s algo=quota");
    struct weir_limiter *elsewhere = enter("local:b?base=10", "x", "100/s algo=quota");
    CHECK(one != other);
    CHECK(take_moving(one, 30, 100 * WEIR_MS));
    int64_t sum = 30 + take_all(other);
    weir_limiter_free(one); /* gives back what it has not spent */
    EVENTUALLY((sum += take_moving(other, 1, 100 * WEIR_MS), sum > 90)); /* once it has heard of that */
    sum += take_all(other);
    CHECK(sum <= 100);
    CHECK_EQ(take_all(elsewhere), 100);
    weir_limiter_free(other);
    weir_limiter_free(elsewhere);
}

TEST(who_leaves_and_joins_again_finds_what_was_spent)
{
    weir_clock_set(2 * T0);
    struct weir_limiter *member = enter("local:?base=10", "again", "100/s algo=quota");
    CHECK_EQ(take_all(member), 100);
    weir_limiter_free(member);
    member = enter("local:?base=10", "again", "100/s algo=quota");
    CHECK_EQ(take_all(member), 0);
    weir_limiter_free(member);
    weir_clock_set(2 * T0 + 2 * WEIR_SEC);
    member = enter("local:?base=10", "again", "100/s algo=quota");
    CHECK_EQ(take_all(member), 100);
    weir_limiter_free(member);
}

/* Joined without waiting for units: they come by time, and the clock stands. */
TEST(a_bucket_that_is_left_is_not_full_when_it_is_joined_again)
{
    weir_clock_set(3 * T0);
    int64_t passed = 0;
    for (int i = 0; i < 5; i++) {
        struct weir_limiter *member =
            weir_member_join("local:?base=5", "bucket", "1k/s burst=100", NULL, true, &err);
        EVENTUALLY(stat_of(member).connected);
        while (passed < 10000 && take_moving(member, 1, 2 * WEIR_MS))
            passed++;
        weir_limiter_free(member);
    }
    CHECK(passed > 50);
    CHECK(passed <= 101 + (weir_now() - 3 * T0) / WEIR_MS);
}

TEST(a_pool_that_is_over_is_begun_with_the_limit_of_who_joins)
{
    weir_clock_set(4 * T0);
    struct weir_limiter *member = enter("local:?base=10", "changed", "100/s algo=quota");
    CHECK_EQ(take_all(member), 100);
    weir_limiter_free(member);
    member = enter("local:?base=10", "changed", "50/s algo=quota");
    CHECK_EQ(take_all(member), 0);
    weir_limiter_free(member);
    weir_clock_set(4 * T0 + 2 * WEIR_SEC);
    member = enter("local:?base=10", "changed", "50/s algo=quota");
    CHECK_EQ(take_all(member), 50);
    weir_limiter_free(member);
}

TEST(a_pool_that_has_members_goes_on_after_its_window)
{
    weir_clock_set(6 * T0);
    struct weir_limiter *one = enter("local:?base=10", "kept", "100/s algo=quota"); /* which asks no more */
    uint64_t epoch = stat_of(one).epoch;
    weir_clock_set(6 * T0 + 5 * WEIR_SEC);
    struct weir_limiter *other = enter("local:?base=10&nodes=2", "kept", "50/s algo=quota");
    CHECK(stat_of(other).epoch > epoch); /* the next of the same pool, not the first of another */
    CHECK_EQ(stat_of(other).total, 100);
    weir_limiter_free(one);
    weir_limiter_free(other);
}

/* Joins some names, takes n units of each and leaves. */
static void visit(int from, int to, int64_t n, bool allowed)
{
    for (int i = from; i < to; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "visit:%d", i);
        struct weir_limiter *member = enter("local:?base=10", name, "10/h algo=quota");
        CHECK_EQ(weir_limiter_take(member, n, NULL), allowed); /* who has joined has had its first units */
        weir_limiter_free(member);
    }
}

TEST(many_pools_that_are_left_keep_what_was_spent_until_their_windows_end)
{
    weir_clock_set(5 * T0);
    visit(0, 300, 10, true);
    visit(0, 300, 1, false);
    weir_clock_set(5 * T0 + 3601 * WEIR_SEC);
    visit(0, 100, 10, true); /* meanwhile others are forgotten */
    visit(0, 100, 1, false);
    visit(100, 300, 10, true);
}

TEST(there_is_nothing_to_look_after_from_elsewhere)
{
    struct quota_answer answer;
    struct quota_ask ask = {.op = QUOTA_SHOW, .name = "made"};
    CHECK(!weir_quota_ask("local:q", &ask, &answer, &err));
    CHECK_STR(err.text, "local:q: its pools cannot be looked at this way");
    CHECK(!weir_quota_ask("nowhere:", &ask, &answer, &err));
    ask.name = "a/b";
    CHECK(!weir_quota_ask("local:q", &ask, &answer, &err));
}
