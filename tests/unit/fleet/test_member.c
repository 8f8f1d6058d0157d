/* SPDX-License-Identifier: MIT */
/*
 * A member between its takers and a coordinator that does as the test says.
 */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fleet/member.h"
#include "unit/fleet/member_kit.h"

static struct weir_verdict verdict;

/* ---- the plain way ---- */

TEST(a_window_has_its_total_and_the_next_one_again)
{
    begin(POOL_TURNS);
    struct weir_limiter *member = join("base=10", "100/s algo=quota");
    for (int window = 0; window < 3; window++) {
        weir_clock_set(T0 + window * 11 * WEIR_SEC / 10);
        int passed = 0;
        while (passed < 200 && weir_limiter_acquire(member, 1, WEIR_MS, &verdict))
            passed++;
        CHECK_EQ(passed, 100);
        CHECK_EQ(verdict.reason, WEIR_LATER);
        CHECK(verdict.retry_after_ns > WEIR_MS && verdict.retry_after_ns <= 11 * WEIR_SEC / 10);
        CHECK(!weir_limiter_take(member, 1, NULL));
    }
    EVENTUALLY(stat_of(member).spent == 300 && stat_of(member).exhausted); /* told after who was answered */
    weir_limiter_free(member);
    EVENTUALLY(fake_counts().closes == 1);
    CHECK_EQ(fake_counts().places, 0);
}

TEST(more_than_the_total_is_never_there)
{
    begin(POOL_TURNS);
    struct weir_limiter *member = join("base=10", "100/s algo=quota");
    struct answer answer = {0};
    CHECK(!weir_limiter_acquire(member, 101, WEIR_FOREVER, &verdict));
    CHECK_EQ(verdict.reason, WEIR_NEVER);
    CHECK_EQ(verdict.retry_after_ns, WEIR_FOREVER);
    CHECK(weir_fleet_take(member, 101, WEIR_FOREVER, note_answer, &answer));
    CHECK_EQ(answer.calls, 1);
    CHECK_EQ(answer.reason, WEIR_NEVER);
    CHECK(!weir_limiter_take(member, 0, &verdict));
    CHECK_EQ(verdict.reason, WEIR_INVALID);
    CHECK(!weir_fleet_take(member, 0, WEIR_SEC, note_answer, &answer));
    CHECK(!weir_fleet_take(NULL, 1, WEIR_SEC, note_answer, &answer));
    CHECK(!weir_fleet_take(member, 1, WEIR_SEC, NULL, &answer));
    CHECK_EQ(answer.calls, 1);
    weir_limiter_free(member);
}

TEST(what_is_never_there_is_not_asked_for)
{
    begin(POOL_TURNS);
    struct weir_limiter *member = join("base=10", "100/h algo=quota");
    for (int i = 0; i < 3; i++) {
        CHECK(!weir_limiter_take(member, 101, &verdict));
        CHECK_EQ(verdict.reason, WEIR_NEVER);
        let_run(member);
    }
    CHECK(fake_counts().granted <= 40); /* a chunk for each at most, where all of it would not do */
    weir_limiter_free(member);
}

TEST(nothing_is_kept_ready_for_who_waits_but_for_who_is_refused)
{
    begin(POOL_TURNS);
    struct weir_limiter *member = join("base=10", "100/h algo=quota");
    struct answer answer = {0};
    CHECK(weir_fleet_take(member, 15, WEIR_SEC, note_answer, &answer));
    EVENTUALLY(answer.calls == 1);
    let_run(member);
    CHECK_EQ(stat_of(member).held, 5);
    CHECK(!weir_limiter_take(member, 15, NULL));
    EVENTUALLY(weir_limiter_take(member, 15, NULL));
    EVENTUALLY(stat_of(member).held >= 15);
    weir_limiter_free(member);
}

TEST(a_large_take_gathers_several_chunks)
{
    begin(POOL_TURNS);
    struct weir_limiter *member = join("base=10", "100/s algo=quota");
    CHECK(weir_limiter_acquire(member, 95, WEIR_SEC / 2, &verdict));
    CHECK_EQ(verdict.allowed, 1);
    weir_limiter_free(member);
}

TEST(what_is_not_spent_goes_back_in_whole_chunks)
{
    begin(POOL_TURNS);
    struct weir_limiter *member = join("base=10", "100/s algo=quota");
    CHECK(weir_limiter_acquire(member, 35, WEIR_SEC / 2, NULL));
    weir_limiter_free(member);
    EVENTUALLY(fake_counts().closes == 1);
    struct fake_counts counts = fake_counts();
    struct lease_pool pool;
    CHECK(fake_pool("egress", &pool));
    CHECK(weir_ticket_left(&pool.terms, pool.used, pool.returned) >= 100 - 35 - 10);
    CHECK_EQ(counts.returned, pool.returned);
}

/* ---- waiting ---- */

TEST(asynchronous_takes_are_answered_once_in_the_order_of_their_coming)
{
    begin(POOL_TURNS);
    struct weir_limiter *member = join("base=10", "100/s algo=quota");
    struct answer first = {0}, second = {0}, third = {0};
    fake_say(FAKE_HOLD);
    atomic_store(&answers, 0);
    CHECK(weir_fleet_take(member, 30, WEIR_SEC, note_answer, &first));
    CHECK(weir_fleet_take(member, 20, WEIR_SEC, note_answer, &second));
    CHECK(weir_fleet_take(member, 1, WEIR_SEC, note_answer, &third));
    CHECK_EQ(stat_of(member).waiting, 3);
    EVENTUALLY(fake_held() > 0);
    CHECK_EQ(first.calls + second.calls + third.calls, 0);
    fake_say(FAKE_ANSWER);
    (void)fake_release();
    EVENTUALLY(first.calls && second.calls && third.calls);
    CHECK(first.allowed && second.allowed && third.allowed);
    CHECK(first.order < second.order && second.order < third.order);
    CHECK_EQ(stat_of(member).waiting, 0);
    weir_limiter_free(member);
    CHECK_EQ(first.calls + second.calls + third.calls, 3);
}

/* Nothing more comes from the coordinator: what is given back is all there is to wait for. */
TEST(whoever_waits_gets_what_is_given_back)
{
    struct answer answer = {0};
    begin(POOL_TURNS);
    struct weir_limiter *member = join("base=100", "100/20s algo=quota");
    EVENTUALLY(stat_of(member).held == 100);
    CHECK(weir_limiter_take(member, 60, NULL));
    CHECK(weir_fleet_take(member, 60, 30 * WEIR_SEC, note_answer, &answer));
    EVENTUALLY(stat_of(member).waiting == 1 && stat_of(member).exhausted);
    weir_limiter_give(member, 60);
    EVENTUALLY(answer.calls == 1);
    CHECK(answer.allowed);
    weir_limiter_free(member);
}

/* He has waited for a while when it turns out that the next window is too late for him. The clock stands. */
TEST(whoever_waits_is_told_when_there_is_nothing_left_to_hope_for)
{
    struct answer answer = {0}, patient = {0};
    begin(POOL_TURNS);
    struct weir_limiter *member = join("base=50&flight=1", "100/s algo=quota");
    EVENTUALLY(stat_of(member).held >= 50);
    fake_say(FAKE_HOLD);
    CHECK(weir_limiter_take(member, stat_of(member).held, NULL));
    CHECK(weir_fleet_take(member, 60, 300 * WEIR_MS, note_answer, &answer));
    CHECK(weir_fleet_take(member, 60, 3 * WEIR_SEC, note_answer, &patient));
    EVENTUALLY(stat_of(member).waiting == 2 && fake_held() > 0);
    fake_say(FAKE_ANSWER);
    (void)fake_release();
    EVENTUALLY(answer.calls == 1);
    CHECK(!answer.allowed);
    CHECK_EQ(answer.reason, WEIR_LATER);
    CHECK_EQ(patient.calls, 0);
    weir_limiter_free(member);
    EVENTUALLY(patient.calls == 1);
}

TEST(an_asynchronous_take_that_is_not_answered_in_time_is_refused)
{
    begin(POOL_TURNS);
    struct weir_limiter *member = join("base=10&answer=10s&lost_after=1m&leave=20ms", "100/s algo=quota");
    struct answer answer = {0};
    fake_say(FAKE_HOLD);
    CHECK(weir_fleet_take(member, 15, 100 * WEIR_MS, note_answer, &answer));
    EVENTUALLY(fake_held() > 0);
    weir_clock_set(T0 + 99 * WEIR_MS);
    CHECK_EQ(answer.calls, 0);
    weir_clock_set(T0 + 100 * WEIR_MS);
    EVENTUALLY(answer.calls == 1);
    CHECK_EQ(answer.allowed, 0);
    CHECK_EQ(answer.reason, WEIR_LATER);
    (void)fake_release();
    weir_limiter_free(member);
    CHECK_EQ(answer.calls, 1);
}

TEST(an_exhausted_pool_says_no_at_once_if_the_next_window_is_too_late)
{
    begin(POOL_TURNS);
    struct weir_limiter *member = join("base=50", "100/s algo=quota");
    struct answer answer = {0};
    CHECK(weir_limiter_acquire(member, 100, WEIR_SEC / 2, NULL));
    CHECK(!weir_limiter_acquire(member, 1, WEIR_SEC / 2, &verdict));
    CHECK(!weir_limiter_take(member, 1, &verdict)); /* used up until the window ends, and not full before */
    CHECK(verdict.remaining == 0 && verdict.retry_after_ns > WEIR_SEC / 2);
    CHECK(verdict.reset_after_ns >= verdict.retry_after_ns);
    CHECK(weir_fleet_take(member, 1, WEIR_SEC / 2, note_answer, &answer));
    CHECK_EQ(answer.calls, 1);
    CHECK_EQ(answer.reason, WEIR_LATER);
    CHECK(weir_fleet_take(member, 1, 2 * WEIR_SEC, note_answer, &answer)); /* this one can wait */
    CHECK_EQ(answer.calls, 1);
    weir_clock_set(T0 + WEIR_SEC + 10 * WEIR_MS);
    EVENTUALLY(answer.calls == 2);
    CHECK_EQ(answer.allowed, 1);
    weir_limiter_free(member);
}

struct wait {
    struct weir_limiter *member;
    int64_t n, timeout_ns;
    struct weir_stop stop;
    struct weir_verdict verdict;
    bool allowed;
};

static void *acquire(void *arg)
{
    struct wait *wait = arg;
    wait->allowed =
        weir_limiter_acquire_unless(wait->member, wait->n, wait->timeout_ns, &wait->stop, &wait->verdict);
    return NULL;
}

TEST(a_stop_ends_a_wait)
{
    begin(POOL_TURNS);
    struct weir_limiter *member = join("base=10&lost_after=1h&answer=10m", "100/s algo=quota");
    struct wait wait = {.member = member, .n = 15, .timeout_ns = WEIR_FOREVER};
    pthread_t thread;
    fake_say(FAKE_HOLD);
    CHECK(pthread_create(&thread, NULL, acquire, &wait) == 0);
    EVENTUALLY(stat_of(member).waiting == 1);
    weir_stop_set(&wait.stop);
    (void)pthread_join(thread, NULL);
    CHECK(!wait.allowed);
    CHECK_EQ(wait.verdict.reason, WEIR_CANCELED);
    CHECK_EQ(stat_of(member).waiting, 0);
    EVENTUALLY(fake_held() > 0);
    fake_say(FAKE_ANSWER);
    (void)fake_release();
    EVENTUALLY(stat_of(member).held == 20); /* what came for it is there for others */
    CHECK(weir_limiter_take(member, 15, NULL));
    weir_limiter_free(member);
}

TEST(a_wait_ends_with_its_timeout)
{
    begin(POOL_TURNS);
    struct weir_limiter *member = join("base=10&lost_after=1h&answer=10m&leave=20ms", "100/s algo=quota");
    struct wait wait = {.member = member, .n = 15, .timeout_ns = WEIR_SEC};
    pthread_t thread;
    fake_say(FAKE_SILENT);
    CHECK(pthread_create(&thread, NULL, acquire, &wait) == 0);
    EVENTUALLY(stat_of(member).waiting == 1);
    weir_clock_set(T0 + WEIR_SEC);
    (void)pthread_join(thread, NULL);
    CHECK(!wait.allowed);
    CHECK_EQ(wait.verdict.reason, WEIR_LATER);
    CHECK_EQ(wait.verdict.wait_ns, WEIR_SEC);
    weir_limiter_free(member);
}

/* ---- ends ---- */

TEST(whoever_waits_when_a_member_is_freed_is_told_once)
{
    begin(POOL_TURNS);
    struct weir_limiter *member = join("base=10&leave=20ms", "100/s algo=quota");
    struct answer list[20] = {0};
    fake_say(FAKE_HOLD);
    for (int i = 0; i < 20; i++)
        CHECK(weir_fleet_take(member, 15, WEIR_FOREVER, note_answer, &list[i]));
    weir_limiter_free(member);
    EVENTUALLY(fake_counts().closes == 1); /* nobody is told anything after it */
    for (int i = 0; i < 20; i++) {
        CHECK_EQ(list[i].calls, 1);
        CHECK_EQ(list[i].reason, WEIR_CANCELED);
    }
    CHECK_EQ(fake_counts().places, 0);
}

TEST(leaving_a_coordinator_that_is_silent_takes_no_longer_than_said)
{
    begin(POOL_TURNS);
    struct weir_limiter *member = join("base=10&leave=20ms", "100/s algo=quota");
    CHECK(weir_limiter_acquire(member, 1, WEIR_SEC / 2, NULL));
    fake_say(FAKE_SILENT);
    int64_t from = weir_monotonic_ns();
    weir_limiter_free(member);
    CHECK(weir_monotonic_ns() - from < 10 * WEIR_SEC);
    EVENTUALLY(fake_counts().closes == 1);
}

TEST(leaving_while_it_is_being_opened_does_not_wait_for_that)
{
    begin(POOL_TURNS);
    fake_block_open(true);
    struct weir_limiter *member =
        weir_member_join("fake://here?leave=20ms", "egress", "100/s algo=quota", NULL, true, &err);
    CHECK(member != NULL);
    EVENTUALLY(fake_counts().opens == 1);
    CHECK(!weir_limiter_take(member, 1, &verdict));
    int64_t from = weir_monotonic_ns();
    weir_limiter_free(member);
    CHECK(weir_monotonic_ns() - from < 10 * WEIR_SEC);
    fake_block_open(false);
    EVENTUALLY(fake_counts().closes == 1);
}

static void free_it(void *arg, const struct weir_verdict *said)
{
    (void)said;
    struct weir_limiter **member = arg;
    weir_limiter_free(*member);
    atomic_store(&answers, 1);
}

TEST(a_callback_may_free_the_member)
{
    begin(POOL_TURNS);
    struct weir_limiter *member = join("base=10", "100/s algo=quota");
    fake_say(FAKE_HOLD);
    atomic_store(&answers, 0);
    CHECK(weir_fleet_take(member, 15, WEIR_FOREVER, free_it, &member));
    EVENTUALLY(fake_held() > 0);
    fake_say(FAKE_ANSWER);
    (void)fake_release();
    EVENTUALLY(atomic_load(&answers) == 1);
    EVENTUALLY(fake_counts().closes == fake_counts().opens);
}

/* ---- one name, one member ---- */

TEST(the_same_name_is_shared_and_has_one_limit)
{
    begin(POOL_TURNS);
    struct weir_limiter *one = join("base=10", "100/s algo=quota"),
                        *other = join("base=10", "100/1s algo=quota");
    CHECK(one == other);
    CHECK(!weir_fleet_join("fake://here?base=10", "egress", "200/s algo=quota", &err));
    CHECK_STR(err.text,
              "'egress' is joined already in this process as 100/s algo=quota; a name has one limit, and "
              "weir quota set changes it");
    CHECK_EQ(fake_counts().enters, 1);
    weir_limiter_free(one);
    CHECK_EQ(fake_counts().places, 1);
    CHECK(weir_limiter_acquire(other, 1, WEIR_SEC / 2, NULL));
    weir_limiter_free(other);
    EVENTUALLY(fake_counts().places == 0);
}

TEST(members_of_one_coordinator_share_its_connection)
{
    begin(POOL_TURNS);
    struct weir_limiter *one = weir_fleet_join("fake://here", "a", "100/s algo=quota", &err);
    struct weir_limiter *other = weir_fleet_join("fake://here", "b", "100/s algo=quota", &err);
    struct weir_limiter *third = weir_fleet_join("fake://there", "b", "100/s algo=quota", &err);
    CHECK(one && other && third && one != other && other != third);
    CHECK_EQ(fake_counts().opens, 2);
    weir_limiter_free(one);
    CHECK_EQ(fake_counts().closes, 0);
    weir_limiter_free(other);
    weir_limiter_free(third);
    EVENTUALLY(fake_counts().closes == 2);
}

TEST(a_late_node_finds_the_terms_of_the_pool)
{
    begin(POOL_TURNS);
    struct weir_limiter *one = weir_fleet_join("fake://here?base=10", "egress", "100/s algo=quota", &err);
    CHECK(weir_limiter_acquire(one, 1, WEIR_SEC / 2, NULL));
    struct weir_limiter *late = weir_fleet_join("fake://there?base=10", "egress", "500/s algo=quota", &err);
    CHECK(weir_limiter_acquire(late, 1, WEIR_SEC / 2, NULL));
    EVENTUALLY(stat_of(late).total == 100);
    weir_limiter_free(one);
    weir_limiter_free(late);
}

/* ---- a coordinator that is away ---- */

TEST(who_cannot_reach_it_is_told_which_and_why)
{
    begin(POOL_TURNS);
    fake_refuse(true);
    CHECK(!weir_fleet_join("fake://ann:hunter2@here:77", "egress", "100/s algo=quota", &err));
    CHECK_STR(err.text, "fake://here:77: the fake coordinator is out; start it");
    CHECK_EQ(fake_counts().opens, 1);
    fake_refuse(false);
    fake_refuse_names(true);
    CHECK(!weir_fleet_join("fake://here:77", "egress", "100/s algo=quota", &err));
    CHECK_STR(err.text, "fake://here:77: the fake coordinator has no room for that name");
    fake_refuse_names(false);
    fake_block_open(true);
    CHECK(!weir_fleet_join("fake://here:78?connect=10ms&leave=20ms", "egress", "100/s algo=quota", &err));
    CHECK(strstr(err.text, "fake://here:78") && strstr(err.text, "no answer in time"));
    fake_block_open(false);
    EVENTUALLY(fake_counts().closes == fake_counts().opens - 1); /* the first was refused */
}

/* Connected it is: that it does not answer an order yet is no reason to stay away. */
TEST(a_coordinator_that_is_slow_is_joined_nevertheless)
{
    begin(POOL_TURNS);
    fake_say(FAKE_SILENT);
    int64_t from_ns = weir_monotonic_ns();
    struct weir_limiter *member = join("base=10", "100/s algo=quota");
    CHECK(weir_monotonic_ns() - from_ns < PATIENCE / 4);
    CHECK(!weir_limiter_take(member, 1, &verdict));
    CHECK_EQ(verdict.reason, WEIR_LATER);
    weir_limiter_free(member);
}

TEST(a_patient_member_joins_when_the_coordinator_comes)
{
    char why[100];
    begin(POOL_TURNS);
    fake_refuse(true);
    struct weir_limiter *member =
        weir_member_join("fake://here?base=10", "egress", "100/s algo=quota", NULL, true, &err);
    CHECK(member != NULL);
    EVENTUALLY((weir_member_trouble(member, why, sizeof why), why[0] != '\0'));
    CHECK_STR(why, "the fake coordinator is out; start it");
    CHECK(!weir_limiter_take(member, 1, NULL));
    CHECK_EQ(stat_of(member).connected, 0);
    fake_refuse(false);
    weir_clock_set(T0 + 20 * WEIR_SEC); /* longer than any back-off */
    CHECK(take_moving(member, 1, 20 * WEIR_SEC));
    weir_member_trouble(member, why, sizeof why);
    CHECK_STR(why, "");
    CHECK_EQ(stat_of(member).connected, 1);
    weir_limiter_free(member);
}

static atomic_int events[4];

static void note_event(void *arg, struct weir_limiter *member, int32_t event)
{
    CHECK(member == *(struct weir_limiter **)arg);
    if (CHECK(event >= 0 && event < 4))
        (void)atomic_fetch_add(&events[event], 1);
}

TEST(who_listens_hears_of_windows_and_of_losses)
{
    begin(POOL_TURNS);
    struct weir_limiter *member = join("base=50", "100/s algo=quota");
    for (int i = 0; i < 4; i++)
        atomic_store(&events[i], 0);
    CHECK(weir_fleet_listen(member, note_event, &member));
    CHECK(weir_limiter_acquire(member, 100, WEIR_SEC / 2, NULL));
    (void)weir_limiter_take(member, 1, NULL);
    EVENTUALLY(events[WEIR_FLEET_EXHAUSTED] == 1);
    weir_clock_set(T0 + WEIR_SEC + 10 * WEIR_MS);
    CHECK(weir_limiter_acquire(member, 1, WEIR_SEC / 2, NULL));
    EVENTUALLY(events[WEIR_FLEET_REFRESHED] >= 1);
    fake_say(FAKE_FAIL);
    fake_connect(false, "the cable was pulled");
    char why[100];
    EVENTUALLY((weir_member_trouble(member, why, sizeof why), why[0] != '\0'));
    CHECK_STR(why, "the cable was pulled");
    for (int i = 1; i < 40 && events[WEIR_FLEET_LOST] == 0; i++) {
        weir_clock_set(weir_now() + WEIR_SEC);
        CHECK(!take_moving(member, 60, WEIR_MS));
    }
    CHECK_EQ(events[WEIR_FLEET_LOST], 1);
    CHECK(!weir_limiter_take(member, 1, &verdict));
    CHECK_EQ(verdict.reason, WEIR_LOST);
    CHECK_EQ(stat_of(member).lost, 1);
    fake_say(FAKE_ANSWER);
    fake_connect(true, NULL);
    CHECK(take_moving(member, 1, 20 * WEIR_SEC));
    EVENTUALLY(events[WEIR_FLEET_RESTORED] == 1);
    CHECK(weir_fleet_listen(member, NULL, NULL));
    weir_limiter_free(member);
}

TEST(replies_that_come_twice_count_once_and_lost_ones_not_at_all)
{
    begin(POOL_TURNS);
    struct weir_limiter *member = join("base=10&answer=1ms&lost_after=1h", "1k/s algo=quota");
    struct rng rng = rng_new(1);
    static const enum fake_way ways[] = {FAKE_ANSWER, FAKE_TWICE, FAKE_LOSE_REPLY,
                                         FAKE_LOSE,   FAKE_FAIL,  FAKE_SILENT};
    int64_t passed = 0;
    for (int i = 0; i < 60; i++) {
        fake_say(ways[rng_between(&rng, 0, 5)]);
        passed += take_moving(member, 3, 5 * WEIR_MS) ? 3 : 0;
    }
    CHECK(passed > 0);
    EVENTUALLY(stat_of(member).spent == passed);
    CHECK(passed <= fake_counts().granted);
    fake_say(FAKE_ANSWER);
    weir_limiter_free(member);
}

TEST(units_of_an_epoch_that_is_over_are_gone_at_once)
{
    begin(POOL_TURNS);
    struct weir_limiter *member = join("base=10", "100/s algo=quota");
    CHECK(weir_limiter_acquire(member, 1, WEIR_SEC, NULL));
    EVENTUALLY(weir_limiter_peek(member, 1, NULL));
    fake_say(FAKE_SILENT);
    fake_notice(99);
    EVENTUALLY(stat_of(member).epoch == 99);
    CHECK(!weir_limiter_take(member, 1, NULL));
    fake_say(FAKE_ANSWER);
    weir_limiter_free(member);
}

/* ---- the rest ---- */

static void note_name(void *arg, const char *name)
{
    CHECK_STR(name, "egress");
    ++*(int *)arg;
}

TEST(the_exhausted_can_be_listed)
{
    begin(POOL_TURNS);
    int names = 0;
    struct weir_limiter *member = join("base=50", "100/s algo=quota");
    struct weir_limiter *other = weir_fleet_join("fake://here?base=50", "other", "100/s algo=quota", &err);
    CHECK_EQ(weir_fleet_exhausted(note_name, &names), 0);
    CHECK(weir_limiter_acquire(member, 100, WEIR_SEC / 2, NULL));
    (void)weir_limiter_take(member, 1, NULL);
    EVENTUALLY(weir_fleet_exhausted(NULL, NULL) == 1);
    CHECK_EQ(weir_fleet_exhausted(note_name, &names), 1);
    CHECK_EQ(names, 1);
    weir_limiter_free(member);
    weir_limiter_free(other);
    EVENTUALLY(weir_fleet_exhausted(NULL, NULL) == 0);
}

static void note_move(void *arg)
{
    (void)atomic_fetch_add((atomic_int *)arg, 1);
}

TEST(who_watches_hears_that_the_balance_got_something)
{
    begin(POOL_TURNS);
    atomic_int moves = 0;
    struct weir_limiter *member = join("base=10", "100/s algo=quota");
    weir_member_watch(member, note_move, &moves);
    CHECK(!weir_limiter_take(member, 50, NULL)); /* so it is asked for */
    EVENTUALLY(moves > 0);
    EVENTUALLY(weir_limiter_take(member, 5, NULL));
    weir_member_watch(member, NULL, NULL);
    int so_far = moves;
    let_run(member); /* what is on its way when the clock leaps would be without an answer for too long */
    weir_clock_set(T0 + 2 * WEIR_SEC);
    CHECK(weir_limiter_acquire(member, 5, WEIR_SEC / 2, NULL));
    CHECK_EQ(moves, so_far);
    weir_limiter_free(member);
}

TEST(a_forked_child_has_no_units_and_can_join_for_itself)
{
    begin(POOL_TURNS);
    struct weir_limiter *member = join("base=10", "100/s algo=quota");
    CHECK(weir_limiter_acquire(member, 1, WEIR_SEC / 2, NULL));
    EVENTUALLY(weir_limiter_take(member, 1, NULL));
    pid_t child = fork();
    if (child == 0) {
        struct weir_fleet_stat stat;
        struct answer answer = {0};
        bool good = !weir_limiter_take(member, 1, NULL) && !weir_limiter_acquire(member, 1, WEIR_SEC, NULL) &&
                    !weir_fleet_stat(member, &stat) && weir_fleet_exhausted(NULL, NULL) == 0 &&
                    !weir_fleet_take(member, 1, WEIR_SEC, note_answer, &answer) &&
                    !weir_fleet_listen(member, note_event, NULL);
        weir_limiter_free(member);
#ifndef WEIR_TSAN /* which has no threads after a fork */
        struct weir_limiter *own = weir_fleet_join("local:", "egress", "100/s algo=quota", &err);
        good = good && own && weir_limiter_acquire(own, 5, WEIR_SEC / 2, NULL);
        weir_limiter_free(own);
#endif
        _exit(good ? 0 : 1);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK_EQ(status, 0);
    CHECK(weir_limiter_take(member, 1, NULL));
    weir_limiter_free(member);
    EVENTUALLY(fake_counts().places == 0);
}

TEST(options_come_by_struct_as_well_and_have_a_size)
{
    begin(POOL_TURNS);
    struct weir_fleet_options options = {.base = 10};
    CHECK(!weir_fleet_join_with("fake://here", "egress", "100/s algo=quota", &options, &err));
    CHECK_STR(err.text, "options.size has to be sizeof(struct weir_fleet_options)");
    CHECK_EQ(err.code, EINVAL);
    options.size = sizeof options;
    struct weir_limiter *member =
        weir_fleet_join_with("fake://here", "egress", "100/s algo=quota", &options, &err);
    CHECK(weir_limiter_acquire(member, 1, WEIR_SEC / 2, NULL));
    EVENTUALLY(stat_of(member).base == 10);
    weir_limiter_free(member);
    struct {
        struct weir_fleet_options options;
        int64_t later;
    } longer = {.options = options, .later = 1};
    longer.options.size = sizeof longer;
    CHECK(!weir_fleet_join_with("fake://here", "egress", "100/s algo=quota", &longer.options, &err));
    longer.later = 0;
    member = weir_fleet_join_with("fake://here", "egress", "100/s algo=quota", &longer.options, &err);
    CHECK(member != NULL);
    weir_limiter_free(member);
}

TEST(members_are_no_other_limiters)
{
    struct weir_fleet_stat stat;
    struct weir_limiter *plain = weir_limiter_new("100/s", &err);
    CHECK(!weir_fleet_stat(plain, &stat));
    CHECK(!weir_fleet_stat(NULL, &stat));
    CHECK(!weir_fleet_listen(plain, NULL, NULL));
    weir_limiter_free(plain);
    CHECK(!weir_fleet_join("fake://here", "a/b", "100/s algo=quota", &err));
    CHECK(!weir_fleet_join("fake://here", "a", "100/s algo=step", &err));
    CHECK(!weir_fleet_join("nowhere://here", "a", "100/s algo=quota", &err));
    CHECK(!weir_fleet_join(NULL, NULL, NULL, NULL));
}

/* ---- buckets ---- */

TEST(a_bucket_obeys_its_law)
{
    begin(POOL_TURNS);
    struct weir_limiter *member = join("base=10", "1k/s burst=200");
    int64_t passed = 0, most = 0;
    for (int i = 0; i < 200; i++) {
        weir_clock_set(weir_now() + WEIR_MS);
        passed += take_moving(member, 1 + i % 7, 4 * WEIR_MS) ? 1 + i % 7 : 0;
        most = 200 + 1000 * (weir_now() - T0 + 1) / WEIR_SEC + 1;
        if (!CHECK(passed <= most))
            break;
    }
    CHECK(passed > most / 2);
    weir_limiter_free(member);
}

/* Who waits gets his units by himself: others need not wait until there are as many once more. */
TEST(for_who_waits_nothing_is_gathered)
{
    begin(POOL_TURNS);
    struct weir_limiter *member = join("base=10", "1k/s burst=2k");
    CHECK(weir_limiter_acquire(member, 1200, WEIR_SEC, NULL));
    for (int i = 0; i < 20; i++) {
        let_run(member);
        weir_clock_set(weir_now() + WEIR_MS);
    }
    CHECK(stat_of(member).taken < 1300);
    EVENTUALLY(weir_limiter_take(member, 1, NULL));
    weir_limiter_free(member);
}

/* Again and again, while the clock moves; false: for 2 s of its time it was refused. */
static bool take_again(struct weir_limiter *member, int64_t n)
{
    for (int i = 0; i < 4000; i++) {
        if (weir_limiter_take(member, n, NULL))
            return true;
        let_run(member);
        if (weir_limiter_take(member, n, NULL))
            return true;
        weir_clock_set(weir_now() + WEIR_MS / 2);
    }
    return false;
}

/* By one who does not wait, and comes again: units of a bucket end one after the other, and he needs many of
 * them at once. */
TEST(most_of_a_bucket_can_be_taken_at_once)
{
    struct weir_verdict said;
    begin(POOL_TURNS);
    struct weir_limiter *member = join("base=1", "100/s burst=20");
    for (int i = 0; i < 4; i++)
        CHECK(take_again(member, 16));
    CHECK(!weir_limiter_take(member, 20, &said)); /* so much is never alive at a time */
    CHECK_EQ(said.reason, WEIR_NEVER);
    weir_limiter_free(member);
}
