/* SPDX-License-Identifier: MIT */
/*
 * hybrid in full, once with pools that callers fill and once with the filler thread: the same test for both.
 * The clock is set by hand, and a thread that fills needs a moment to see it: the test goes on when
 * weir_limiter_stat shows that it has.
 */
#include "check.h"
#include "threads/crowd.h"
#include "threads/team.h"

#define START (1000 * WEIR_SEC)

/* The limiter, and beside it the pure core, which does the same. */
struct pair {
    const char *fill; /* what is added to every limit */
    struct weir_limiter *limiter;
    struct weir_policy *policy;
    void *state;
    int64_t now;
};

static char *limits_of(const struct pair *p, const char *limits)
{
    static char text[128];
    (void)snprintf(text, sizeof text, "%s%s", limits, p->fill);
    return text;
}

static struct weir_policy *policy_of(const char *limits)
{
    struct weir_error err;
    struct weir_policy *policy = weir_policy_new(limits, &err);
    if (!policy) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
    return policy;
}

static struct pair pair_new(const char *fill, const char *limits)
{
    struct pair p = {.fill = fill, .now = START};
    weir_clock_set(START);
    p.policy = policy_of(limits_of(&p, limits));
    p.limiter = weir_limiter_new(limits_of(&p, limits), NULL);
    p.state = malloc(weir_policy_state_size(p.policy));
    if (!p.state || !p.limiter)
        abort();
    weir_state_init(p.policy, p.state, START);
    team_watch(limits);
    return p;
}

static void pair_free(struct pair *p)
{
    weir_limiter_free(p->limiter);
    weir_policy_free(p->policy);
    free(p->state);
    weir_clock_set(-1);
    team_watch_done();
}

static int64_t behind_total(const struct pair *p)
{
    struct weir_stat stat;
    weir_limiter_stat(p->limiter, &stat);
    return stat.behind_total_ns;
}

/* Both have seen the time, and agree on how far behind the callers are. */
static void move_to(struct pair *p, int64_t now)
{
    p->now = now;
    weir_clock_set(now);
    while (behind_total(p) != weir_state_behind(p->policy, p->state, now))
        team_yield();
}

/* Takes what there is from both; gives how much that was. */
static int64_t take_all(struct pair *p)
{
    int64_t taken = 0;
    for (;;) {
        struct weir_verdict got, want;
        bool allowed = weir_limiter_take(p->limiter, 1, &got);
        (void)weir_state_take(p->policy, p->state, p->now, 1, &want);
        if (!CHECK(memcmp(&got, &want, sizeof got) == 0)) {
            printf("# at %" PRId64 ": allowed %d %d, behind %" PRId64 " %" PRId64 ", retry %" PRId64
                   " %" PRId64 "\n",
                   p->now - START, got.allowed, want.allowed, got.behind_ns, want.behind_ns,
                   got.retry_after_ns, want.retry_after_ns);
            return taken;
        }
        if (!allowed)
            return taken;
        taken++;
    }
}

/* Millisecond by millisecond. */
static int64_t take_for(struct pair *p, int64_t milliseconds)
{
    int64_t taken = 0;
    for (int64_t i = 0; i < milliseconds && check.faults == 0; i++) {
        move_to(p, p->now + WEIR_MS);
        taken += take_all(p);
    }
    return taken;
}

static void change(struct pair *p, const char *limits)
{
    struct weir_policy *next = policy_of(limits_of(p, limits));
    void *to = malloc(weir_policy_state_size(next));
    if (!to)
        abort();
    weir_state_change(p->policy, p->state, next, to, p->now);
    weir_policy_free(p->policy);
    free(p->state);
    p->policy = next;
    p->state = to;
    CHECK(weir_limiter_set(p->limiter, limits_of(p, limits), NULL));
    CHECK_EQ(behind_total(p), weir_state_behind(p->policy, p->state, p->now));
}

/* ---- the body of all tests ---- */

static void check_rates(const char *fill)
{
    struct pair p = pair_new(fill, "12k/s algo=hybrid ratio=1.1");
    CHECK_EQ(take_all(&p), 1);
    CHECK_EQ(take_for(&p, 200), 2400);
    move_to(&p, p.now + 300 * WEIR_MS); /* a stall */
    (void)take_all(&p);
    int64_t caught_up = take_for(&p, 100);
    CHECK_EQ(caught_up, 1300); /* 1.1 times 12, and only whole ones, in each of 100 ms */
    CHECK(behind_total(&p) > 200 * WEIR_MS);

    int64_t behind = behind_total(&p);
    change(&p, "50k/s algo=hybrid ratio=1.1"); /* time behind schedule stays */
    CHECK(behind_total(&p) > behind - WEIR_MS && behind_total(&p) < behind + WEIR_MS);
    (void)take_all(&p);
    int64_t faster = take_for(&p, 100);
    CHECK_EQ(faster, 5500);
    pair_free(&p);
}

static void check_restart(const char *fill)
{
    struct pair p = pair_new(fill, "2k/s algo=hybrid ratio=1.1");
    move_to(&p, p.now + 500 * WEIR_MS);
    int64_t before = behind_total(&p);
    int64_t discarded = weir_limiter_restart(p.limiter);
    CHECK_EQ(discarded, weir_state_restart(p.policy, p.state, p.now));
    CHECK(discarded >= 500 * WEIR_MS);
    struct weir_stat stat;
    weir_limiter_stat(p.limiter, &stat);
    CHECK_EQ(stat.behind_ns, 0);
    CHECK_EQ(stat.behind_total_ns, before);

    move_to(&p, p.now + 100 * WEIR_MS);
    change(&p, "4k/s algo=hybrid ratio=1.1");
    CHECK_EQ(behind_total(&p), before + 100 * WEIR_MS);
    CHECK_EQ(weir_limiter_restart(p.limiter), weir_state_restart(p.policy, p.state, p.now));
    CHECK_EQ(take_for(&p, 100), 400);
    pair_free(&p);
}

/* Callers that wait go in turn, as fast as the ratio lets those who are behind. */
static void check_callers(const char *fill)
{
    struct pair p = pair_new(fill, "1k/s algo=hybrid ratio=2");
    (void)take_all(&p);
    struct crowd *crowd = crowd_new(p.limiter, 4, 1);
    int64_t due[4];
    for (size_t i = 0; i < 4; i++) {
        struct weir_reservation r;
        CHECK(weir_state_reserve(p.policy, p.state, START, 1, WEIR_FOREVER, &r, NULL));
        due[i] = r.due_ns;
    }
    for (size_t i = 0; i < 4; i++) {
        weir_clock_set(due[i]);
        crowd_await_one(crowd, i);
        CHECK(crowd->waits[i].verdict.allowed);
        CHECK_EQ(crowd->waits[i].ended_ns, due[i]);
    }
    p.now = due[3];
    crowd_free(crowd);
    CHECK_EQ(take_for(&p, 20), 20);
    pair_free(&p);
}

/* Those who wait when the rate goes up go earlier. */
static void check_live_change(const char *fill)
{
    struct pair p = pair_new(fill, "10/s algo=hybrid ratio=1.1");
    (void)take_all(&p);
    struct crowd *crowd = crowd_new(p.limiter, 5, 1);
    CHECK(weir_limiter_set(p.limiter, limits_of(&p, "1k/s algo=hybrid ratio=1.1"), NULL));
    for (int64_t i = 1; crowd_ended(crowd) < 5 && i <= 105;
         i++) { /* the first one's 100 ms may have to pass */
        weir_clock_set(START + i * WEIR_MS);
        team_yield();
    }
    crowd_await(crowd, 5);
    crowd_free(crowd);
    pair_free(&p);
}

TEST(callers_fill_rates_stalls_and_live_changes)
{
    check_rates("");
}

TEST(a_thread_fills_rates_stalls_and_live_changes)
{
    check_rates(" fill=thread");
}

TEST(callers_fill_time_behind_schedule_is_kept_across_restarts_and_changes)
{
    check_restart("");
}

TEST(a_thread_fills_time_behind_schedule_is_kept_across_restarts_and_changes)
{
    check_restart(" fill=thread");
}

TEST(callers_fill_callers_wait_in_turn)
{
    check_callers("");
}

TEST(a_thread_fills_callers_wait_in_turn)
{
    check_callers(" fill=thread");
}

TEST(callers_fill_a_faster_rate_lets_waiters_go)
{
    check_live_change("");
}

TEST(a_thread_fills_a_faster_rate_lets_waiters_go)
{
    check_live_change(" fill=thread");
}

/* ---- orders ---- */

TEST(the_verbs_of_engineblock_are_obeyed)
{
    static const char *const fills[] = {"", " fill=thread"};
    for (size_t i = 0; i < 2; i++) {
        struct pair p = pair_new(fills[i], "1k/s algo=hybrid ratio=1.1");
        move_to(&p, START + 50 * WEIR_MS);
        int64_t behind = behind_total(&p);
        CHECK(weir_limiter_set(p.limiter, "1000,1.1,restart", NULL));
        struct weir_stat stat;
        weir_limiter_stat(p.limiter, &stat);
        CHECK_EQ(stat.behind_ns, 0);
        CHECK_EQ(stat.behind_total_ns, behind);
        CHECK(weir_limiter_set(p.limiter, "blocked", NULL));
        CHECK(weir_limiter_set(p.limiter, "1000,1.1,configure", NULL)); /* waits for its start */
        CHECK(!weir_limiter_take(p.limiter, 1, NULL));
        CHECK(weir_limiter_set(p.limiter, "1000,1.1,start", NULL));
        char text[64];
        CHECK(weir_limiter_text(p.limiter, text, sizeof text) > 0);
        CHECK_STR(text, "1k/s algo=hybrid ratio=1.1");
        pair_free(&p);
    }
}

/* A filler comes and goes with a live change. */
TEST(filling_may_change_hands)
{
    struct pair p = pair_new("", "2k/s algo=hybrid ratio=1.1");
    (void)take_all(&p);
    for (int i = 0; i < 6; i++) {
        p.fill = i % 2 ? "" : " fill=thread";
        change(&p, i % 3 ? "2k/s algo=hybrid ratio=1.1" : "3k/s algo=hybrid ratio=1.2");
        int64_t taken = take_for(&p, 20);
        CHECK(taken >= 39 && taken <= 61);
    }
    pair_free(&p);
}
