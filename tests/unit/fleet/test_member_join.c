/* SPDX-License-Identifier: MIT */
/*
 * What whoever joins finds: units at once, or why there are none. Here he waits for that as long as a test
 * does: how long he does elsewhere is seen in test_member.c.
 */
#include <pthread.h>

#include "fleet/member.h"
#include "unit/fleet/member_kit.h"

static struct weir_verdict verdict;

TEST(the_first_take_passes)
{
    static const char *const urls[] = {"fake://here?base=10", "local:?base=10"};
    for (size_t i = 0; i < 2; i++) {
        begin(POOL_TURNS);
        struct weir_limiter *member = weir_fleet_join(urls[i], "egress", "100/s algo=quota", &err);
        if (!CHECK(member != NULL))
            return;
        CHECK(weir_limiter_take(member, 1, NULL));
        struct weir_limiter *same = weir_fleet_join(urls[i], "egress", "100/s algo=quota", &err);
        CHECK(same == member);
        weir_limiter_free(same);
        weir_limiter_free(member);
    }
}

static atomic_bool joined;

static void *answer_later(void *arg)
{
    (void)arg;
    while (!joined)
        if (fake_release() == 0)
            (void)sched_yield();
    return NULL;
}

/* What is wanted is not forgotten while the first question is on its way. */
TEST(the_first_take_passes_also_if_answers_take_time)
{
    pthread_t thread;
    begin(POOL_TURNS);
    fake_say(FAKE_HOLD);
    joined = false;
    CHECK(pthread_create(&thread, NULL, answer_later, NULL) == 0);
    struct weir_limiter *member = join("base=10", "100/s algo=quota");
    CHECK(weir_limiter_take(member, 1, NULL));
    joined = true;
    (void)pthread_join(thread, NULL);
    fake_say(FAKE_ANSWER);
    weir_limiter_free(member);
}

TEST(whoever_joins_a_pool_that_is_used_up_does_not_wait_for_it)
{
    begin(POOL_TURNS);
    struct weir_limiter *other = weir_fleet_join("fake://there?base=10", "egress", "100/h algo=quota", &err);
    CHECK(weir_limiter_acquire(other, 100, WEIR_SEC, NULL));
    struct weir_limiter *member = join("base=10", "100/h algo=quota");
    CHECK(!weir_limiter_take(member, 1, &verdict));
    CHECK_EQ(verdict.reason, WEIR_LATER);
    CHECK_EQ(stat_of(member).exhausted, 1); /* it has been told */
    CHECK(verdict.retry_after_ns > WEIR_SEC);
    weir_limiter_free(member);
    weir_limiter_free(other);
}

TEST(whoever_is_not_let_in_is_told_why)
{
    begin(POOL_TURNS);
    fake_say(FAKE_FORBID);
    CHECK(!weir_fleet_join("fake://here", "egress", "100/s algo=quota", &err));
    CHECK_STR(err.text, "fake://here: the fake coordinator does not know you");
    EVENTUALLY(fake_counts().places == 0);
    fake_say(FAKE_ANSWER);
    struct weir_limiter *member = join("base=10", "100/s algo=quota");
    CHECK(weir_limiter_take(member, 1, NULL));
    weir_limiter_free(member);
}

static void *answer_the_second_time(void *arg)
{
    (void)arg;
    while (fake_counts().orders == 0)
        (void)sched_yield();
    fake_say(FAKE_ANSWER);
    while (!joined) { /* as fast as real time, more or less */
        int64_t until_ns = weir_monotonic_ns() + WEIR_MS;
        while (weir_monotonic_ns() < until_ns)
            (void)sched_yield();
        weir_clock_set(weir_now() + WEIR_MS);
    }
    return NULL;
}

/* A server that is about to join the pool itself refuses the first question, and says nothing against it. */
TEST(who_is_to_try_again_has_units_when_he_has_joined)
{
    pthread_t thread;
    begin(POOL_TURNS);
    fake_say(FAKE_FAIL);
    joined = false;
    CHECK(pthread_create(&thread, NULL, answer_the_second_time, NULL) == 0);
    struct weir_limiter *member = join("base=10", "100/h algo=quota");
    CHECK(weir_limiter_take(member, 1, NULL));
    joined = true;
    (void)pthread_join(thread, NULL);
    weir_limiter_free(member);
}

/* ---- when it is lost ---- */

TEST(who_is_refused_because_it_is_lost_is_not_sent_back_at_once)
{
    begin(POOL_TURNS);
    fake_refuse(true);
    struct weir_limiter *member =
        weir_member_join("fake://here", "egress", "100/s algo=quota", NULL, true, &err);
    for (int i = 0; i < 40; i++) {
        weir_clock_set(weir_now() + WEIR_SEC / 4);
        (void)take_moving(member, 1, WEIR_MS);
        CHECK(!weir_limiter_take(member, 1, &verdict));
        CHECK(verdict.retry_after_ns >= 100 * WEIR_MS); /* also before it counts as lost */
    }
    CHECK_EQ(verdict.reason, WEIR_LOST);
    CHECK(verdict.retry_after_ns <= 10 * WEIR_SEC);
    weir_limiter_free(member);
}

TEST(a_loss_has_a_reason_also_while_the_first_attempt_lasts)
{
    char why[100] = "";
    begin(POOL_TURNS);
    fake_block_open(true);
    struct weir_limiter *member =
        weir_member_join("fake://here?leave=20ms", "egress", "100/s algo=quota", NULL, true, &err);
    EVENTUALLY(fake_counts().opens == 1); /* who leaves before that does not even try */
    weir_member_trouble(member, why, sizeof why);
    CHECK_STR(why, ""); /* not lost yet */
    weir_clock_set(T0 + 4 * WEIR_SEC);
    EVENTUALLY(stat_of(member).lost == 1);
    weir_member_trouble(member, why, sizeof why);
    CHECK_STR(why, "no connection yet; it is being tried");
    weir_limiter_free(member);
    fake_block_open(false);
    EVENTUALLY(fake_counts().closes == 1);
}

/* Time may pass between a step and the setting of its timer: what is due by then is due at once. */
TEST(a_loss_is_noticed_also_if_it_is_due_before_its_alarm_is_set)
{
    struct answer answer = {0};
    begin(POOL_TURNS);
    struct weir_limiter *member = join("base=10&leave=20ms", "100/h algo=quota");
    fake_say(FAKE_SLOW);
    CHECK(weir_fleet_take(member, 60, WEIR_FOREVER, note_answer, &answer));
    EVENTUALLY(stat_of(member).lost == 1);
    weir_limiter_free(member);
    EVENTUALLY(fake_counts().closes == 1);
    CHECK_EQ(answer.calls, 1);
}

TEST(a_share_passes_also_where_it_never_was_reached)
{
    begin(POOL_TURNS);
    fake_refuse(true);
    struct weir_limiter *member =
        weir_member_join("fake://here?on_loss=share&nodes=4", "egress", "100/s algo=quota", NULL, true, &err);
    weir_clock_set(T0 + 3 * WEIR_SEC);
    CHECK(take_moving(member, 1, 20 * WEIR_SEC));
    EVENTUALLY(stat_of(member).sharing == 1);
    weir_limiter_free(member);
}

/* ---- starting without it ---- */

#define LOST_FIRST "fake://here?base=10&leave=20ms&unreached=lost"

TEST(who_may_start_as_lost_joins_without_the_coordinator)
{
    begin(POOL_TURNS);
    fake_refuse(true);
    CHECK(!weir_fleet_join("fake://here?base=10", "egress", "100/s algo=quota", &err));
    struct weir_limiter *member = weir_fleet_join(LOST_FIRST, "egress", "100/s algo=quota", &err);
    if (!CHECK(member))
        return;
    CHECK(strstr(err.text, "the fake coordinator is out; start it"));
    CHECK_EQ(stat_of(member).lost, 1);
    CHECK(!weir_limiter_take(member, 1, &verdict));
    CHECK_EQ(verdict.reason, WEIR_LOST);
    CHECK(verdict.retry_after_ns >= 100 * WEIR_MS);
    fake_refuse(false);
    weir_clock_set(T0 + 20 * WEIR_SEC); /* longer than any back-off */
    CHECK(take_moving(member, 1, 20 * WEIR_SEC));
    EVENTUALLY(stat_of(member).lost == 0);
    CHECK_EQ(stat_of(member).connected, 1);
    weir_limiter_free(member);
}

TEST(who_starts_as_lost_has_its_share_at_once)
{
    struct weir_fleet_options options = {.size = sizeof options,
                                         .on_loss = WEIR_FLEET_SHARE,
                                         .nodes = 4,
                                         .connect_ns = 10 * WEIR_MS,
                                         .leave_ns = 20 * WEIR_MS,
                                         .unreached = WEIR_FLEET_LOST_AT_FIRST};
    begin(POOL_TURNS);
    fake_block_open(true); /* no answer at all, not even a refusal */
    struct weir_limiter *member =
        weir_fleet_join_with("fake://here", "egress", "100/s algo=quota", &options, &err);
    if (CHECK(member)) {
        CHECK(strstr(err.text, "no answer in time"));
        CHECK_EQ(stat_of(member).sharing, 1);
        CHECK(weir_limiter_take(member, 25, &verdict));
        CHECK(!weir_limiter_take(member, 1, &verdict));
    }
    weir_limiter_free(member);
    fake_block_open(false);
    EVENTUALLY(fake_counts().closes == 1);
}

/* Only who is not reached is lost: what is wrong, or not allowed, stays so. */
TEST(whoever_is_not_let_in_does_not_start_as_lost)
{
    begin(POOL_TURNS);
    fake_refuse_names(true);
    CHECK(!weir_fleet_join(LOST_FIRST, "egress", "100/s algo=quota", &err));
    CHECK(strstr(err.text, "has no room for that name"));
    fake_refuse_names(false);
    fake_say(FAKE_FORBID);
    CHECK(!weir_fleet_join(LOST_FIRST, "egress", "100/s algo=quota", &err));
    CHECK(strstr(err.text, "does not know you"));
    CHECK(!weir_fleet_join("fake://here?unreached=no", "egress", "100/s algo=quota", &err));
    CHECK_STR(err.text, "unreached is fail or lost");
}

/* Between the two, or while it waits to be lost. */
TEST(who_is_reached_just_before_it_is_lost_has_joined)
{
    begin(POOL_TURNS);
    struct weir_limiter *member =
        weir_member_join(LOST_FIRST, "egress", "100/s algo=quota", NULL, true, &err);
    EVENTUALLY(weir_member_of(member)->enter == ENTER_DONE);
    CHECK(weir_member_begin_lost(weir_member_of(member), &err));
    CHECK_EQ(stat_of(member).lost, 0);
    CHECK(weir_limiter_take(member, 1, NULL)); /* it has its first units */
    weir_limiter_free(member);
}

TEST(who_is_turned_down_just_before_it_is_lost_has_not_joined)
{
    begin(POOL_TURNS);
    fake_refuse_names(true);
    struct weir_limiter *member =
        weir_member_join(LOST_FIRST, "egress", "100/s algo=quota", NULL, true, &err);
    EVENTUALLY(weir_member_of(member)->enter == ENTER_FAILED);
    CHECK(!weir_member_begin_lost(weir_member_of(member), &err));
    CHECK(strstr(err.text, "fake://here") == err.text && strstr(err.text, "has no room for that name"));
    weir_limiter_free(member);
    fake_refuse_names(false);
}
