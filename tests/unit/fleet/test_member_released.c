/* SPDX-License-Identifier: MIT */
/*
 * A limiter that is freed by one of its own callbacks, while its member still has things to do: nobody gets
 * it any more, neither who listens nor who joins the same name. Under ASan a touch of it is an error by
 * itself.
 */
#include "fleet/member.h"
#include "unit/fleet/member_kit.h"

static struct weir_limiter *member, *again;
static atomic_int freed, told_after, lost;

static void begin_one(const char *query)
{
    begin(POOL_TURNS);
    atomic_store(&freed, 0);
    atomic_store(&told_after, 0);
    atomic_store(&lost, 0);
    member = join(query, "100/s algo=quota");
}

static void free_it(void *arg, const struct weir_verdict *said)
{
    (void)arg, (void)said;
    weir_limiter_free(member);
    atomic_store(&freed, 1);
}

static void free_and_join(void *arg, const struct weir_verdict *said)
{
    (void)arg, (void)said;
    weir_limiter_free(member);
    again = weir_member_join("fake://here?base=10", "egress", "100/s algo=quota", NULL, true, &err);
    atomic_store(&freed, 1);
}

TEST(who_joins_the_name_gets_another_one)
{
    begin_one("base=10");
    fake_say(FAKE_HOLD);
    CHECK(weir_fleet_take(member, 15, WEIR_FOREVER, free_and_join, NULL));
    EVENTUALLY(fake_held() > 0);
    fake_say(FAKE_ANSWER);
    (void)fake_release();
    EVENTUALLY(atomic_load(&freed) == 1);
    EVENTUALLY(stat_of(again).held > 0 || (weir_limiter_take(again, 1, NULL), false));
    weir_limiter_free(again);
    EVENTUALLY(fake_counts().closes == fake_counts().opens);
}

static void free_when_restored(void *arg, struct weir_limiter *limiter, int32_t event)
{
    (void)arg;
    if (event == WEIR_FLEET_LOST)
        atomic_store(&lost, 1);
    if (atomic_load(&freed)) {
        (void)atomic_fetch_add(&told_after, 1);
    } else if (event == WEIR_FLEET_RESTORED) {
        atomic_store(&freed, 1);
        weir_limiter_free(limiter);
    }
}

/* RESTORED and REFRESHED are of one step. */
TEST(a_listener_that_frees_it_is_not_told_any_more)
{
    begin_one("base=50");
    CHECK(weir_fleet_listen(member, free_when_restored, NULL));
    fake_say(FAKE_FAIL);
    fake_connect(false, "gone");
    for (int i = 1; i < 40 && !lost; i++) {
        weir_clock_set(weir_now() + WEIR_SEC);
        CHECK(!take_moving(member, 60, WEIR_MS));
    }
    CHECK(!weir_limiter_take(member, 1, NULL));
    fake_say(FAKE_ANSWER);
    fake_connect(true, NULL);
    EVENTUALLY(atomic_load(&freed) == 1);
    EVENTUALLY(fake_counts().closes == fake_counts().opens);
    CHECK_EQ(told_after, 0);
}

static void count_after(void *arg, struct weir_limiter *limiter, int32_t event)
{
    (void)arg, (void)limiter, (void)event;
    (void)atomic_fetch_add(&told_after, atomic_load(&freed));
}

/* The grant that answers the take begins a window, of which the listener would be told next. */
TEST(an_answer_that_frees_it_is_the_last_that_is_heard)
{
    begin_one("base=100");
    while (weir_limiter_take(member, 1, NULL))
        ;
    CHECK(weir_fleet_listen(member, count_after, NULL));
    CHECK(weir_fleet_take(member, 60, 3 * WEIR_SEC, free_it, NULL));
    for (int i = 0; i < 2000 && !atomic_load(&freed); i++) {
        int64_t until_ns = weir_monotonic_ns() + WEIR_MS / 4;
        weir_clock_set(weir_now() + WEIR_MS);
        while (!atomic_load(&freed) && weir_monotonic_ns() < until_ns)
            (void)sched_yield();
    }
    EVENTUALLY(atomic_load(&freed) == 1);
    EVENTUALLY(fake_counts().closes == fake_counts().opens);
    CHECK_EQ(told_after, 0);
}
