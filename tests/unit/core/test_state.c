/* SPDX-License-Identifier: MIT */
/*
 * Stories about states that once went wrong, or nearly: what a live change, a clock that steps back, a cancel
 * or a give must not hand out. The general properties are in tests/property.
 */
#include <stdlib.h>
#include <string.h>

#include "base/sat.h"
#include "check.h"
#include "weir.h"

struct subject {
    struct weir_policy *policy;
    int64_t state[64];
};

static struct subject open_at(const char *limits, int64_t now)
{
    struct weir_error err;
    struct subject s = {.policy = weir_policy_new(limits, &err)};
    CHECK(s.policy != NULL);
    CHECK(weir_policy_state_size(s.policy) <= sizeof s.state);
    weir_state_init(s.policy, s.state, now);
    return s;
}

static void change(struct subject *s, const char *limits, int64_t now)
{
    struct weir_policy *next = weir_policy_new(limits, NULL);
    int64_t to[64];
    CHECK(next != NULL);
    weir_state_change(s->policy, s->state, next, to, now);
    memcpy(s->state, to, sizeof to);
    weir_policy_free(s->policy);
    s->policy = next;
}

static int64_t take_all(struct subject *s, int64_t now)
{
    int64_t taken = 0;
    while (taken < 5000 && weir_state_take(s->policy, s->state, now, 1, NULL))
        taken++;
    return taken;
}

static int64_t retry_after(struct subject *s, int64_t now)
{
    struct weir_verdict v;
    (void)weir_state_peek(s->policy, s->state, now, 1, &v);
    return v.retry_after_ns;
}

static void close_it(struct subject *s)
{
    weir_policy_free(s->policy);
}

/* A smaller log cannot hold all times; what it dropped came back for free. */
TEST(a_log_that_shrinks_and_grows_mints_nothing)
{
    struct subject s = open_at("10/s algo=sliding-log", 0);
    int64_t taken = take_all(&s, 0);
    for (int i = 0; i < 5; i++) {
        change(&s, "5/s algo=sliding-log", 0);
        change(&s, "10/s algo=sliding-log", 0);
        taken += take_all(&s, 0);
    }
    CHECK_EQ(taken, 10);
    close_it(&s);
}

/* Windows and pools began anew at the earlier time. */
TEST(a_change_while_the_clock_is_back_mints_nothing)
{
    static const char *const limits[] = {
        "10/s",
        "10/s algo=interval",
        "10/s algo=leaky-bucket",
        "10/s algo=smooth",
        "10/s algo=warmup warmup=1s",
        "10/s algo=hybrid ratio=1 pool=1s",
        "10/s algo=hybrid ratio=10 pool=1s",
        "10/s algo=fixed-window",
        "10/s algo=sliding-window",
        "10/s algo=sliding-log",
        "10/s algo=step",
    };
    const int64_t late = 100500 * WEIR_MS, early = 99900 * WEIR_MS;
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        struct subject s = open_at(limits[i], 0);
        (void)take_all(&s, late);
        for (int j = 0; j < 20; j++) {
            change(&s, limits[i], early);
            CHECK_EQ(take_all(&s, late), 0);
        }
        close_it(&s);
    }
}

/* Every new grid of windows has an edge of its own. */
TEST(longer_windows_do_not_add_edges)
{
    struct subject s = open_at("10/3600s algo=fixed-window", 0);
    int64_t taken = take_all(&s, 0);
    for (int i = 1; i <= 100; i++) {
        char limits[64];
        (void)snprintf(limits, sizeof limits, "10/%ds algo=fixed-window", 3600 + i);
        change(&s, limits, i * WEIR_SEC);
        taken += take_all(&s, i * WEIR_SEC + 1);
    }
    CHECK_EQ(taken, 10);
    close_it(&s);
}

/* After a cancel in the middle, two promises may be due at one moment and leave the limit at one place. */
TEST(of_two_promises_for_one_moment_only_the_later_ends_the_wait)
{
    struct subject s = open_at("100k/s burst=60", 0);
    struct weir_reservation b, r, c, d;
    CHECK_EQ(take_all(&s, 0), 60);
    CHECK(weir_state_reserve(s.policy, s.state, 0, 3, WEIR_SEC, &b, NULL));
    CHECK(weir_state_reserve(s.policy, s.state, 0, 1, WEIR_SEC, &r, NULL));
    CHECK(weir_state_reserve(s.policy, s.state, 0, 1, WEIR_SEC, &c, NULL));
    CHECK(weir_state_cancel(s.policy, s.state, 0, &b));
    CHECK(weir_state_reserve(s.policy, s.state, 0, 1, WEIR_SEC, &d, NULL));
    CHECK_EQ(d.due_ns, c.due_ns);
    CHECK(weir_state_cancel(s.policy, s.state, 0, &c));
    weir_state_give(s.policy, s.state, 45000, 60); /* dropped: d is still promised */
    CHECK(!weir_state_take(s.policy, s.state, d.due_ns, 60, NULL));
    close_it(&s);
}

TEST(a_restart_forgives_no_debt)
{
    struct subject s = open_at("10/s algo=hybrid", 0);
    weir_state_charge(s.policy, s.state, 0, 1000);
    int64_t owed = retry_after(&s, 0);
    CHECK_EQ(weir_state_restart(s.policy, s.state, 0), 0);
    CHECK_EQ(retry_after(&s, 0), owed);
    close_it(&s);
}

TEST(another_algorithm_does_not_wait_for_a_limit_that_is_only_used_up)
{
    static const char *const used_up[] = {"1/h", "1/h algo=sliding-log", "1/h algo=fixed-window",
                                          "1/h algo=step", "1/h algo=hybrid"};
    for (size_t i = 0; i < sizeof used_up / sizeof used_up[0]; i++) {
        struct subject s = open_at(used_up[i], 0);
        CHECK_EQ(take_all(&s, 1), 1);
        change(&s, "1000/s algo=interval", 1);
        CHECK_EQ(retry_after(&s, 1), WEIR_MS);
        close_it(&s);
    }
}

/* As docs/limiters.md says: when the first unit passes, and the one behind it. */
TEST(another_algorithm_starts_empty)
{
    static const struct {
        const char *limits;
        int64_t first_ms, second_ms;
    } cases[] = {
        {"10/s algo=interval", 100, 200},
        {"10/s algo=hybrid", 100, 200},
        {"10/s algo=step", 1000, 1000},
        {"10/s algo=leaky-bucket", 100, 200},
        {"10/s algo=fixed-window", 1000, 1000},
        {"10/s algo=sliding-window", 1100, 1200},
        {"10/s algo=quota", 1000, 1000},
        {"10/s algo=sliding-log", 1000, 1000},
        {"10/s algo=smooth", 0, 100},
        {"10/s algo=warmup warmup=10s", 0, 298},
        {"10/s algo=warmup warmup=10s shape=below", 0, 100},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct subject s = open_at("10/s", 0);
        int64_t ms = 0, passed[2] = {-1, -1};
        change(&s, cases[i].limits, 0);
        for (int unit = 0; unit < 2; unit++, ms = passed[unit - 1]) {
            while (ms < 5000 && !weir_state_take(s.policy, s.state, ms * WEIR_MS, 1, NULL))
                ms++;
            passed[unit] = ms;
        }
        if (!CHECK_EQ(passed[0], cases[i].first_ms) || !CHECK_EQ(passed[1], cases[i].second_ms))
            printf("# %s\n", cases[i].limits);
        close_it(&s);
    }
}

/* By the readings there would be 4 + 5 * 2 units in the first second of `4/s`: each time the clock comes
 * back, the window that was seen last has some left. By the latest reading there are 4 in a window, whatever
 * the clock did. */
TEST(the_law_counts_by_the_latest_reading)
{
    struct subject s = open_at("4/s algo=fixed-window", 0);
    int64_t shown_first = take_all(&s, WEIR_SEC / 2);
    for (int64_t second = 1; second <= 5; second++) {
        CHECK(weir_state_take(s.policy, s.state, second * WEIR_SEC, 2, NULL));
        int64_t back = take_all(&s, WEIR_SEC / 2);
        CHECK_EQ(back, 2); /* with the two before, no more than a window of this second has */
        shown_first += back;
    }
    CHECK_EQ(shown_first, 14);
    CHECK(shown_first > weir_policy_most(s.policy, 0, WEIR_SEC / 2));
    close_it(&s);
}

TEST(another_algorithm_forgives_no_debt)
{
    struct subject s = open_at("10/s", 0);
    weir_state_charge(s.policy, s.state, 0, 1000);
    int64_t owed = retry_after(&s, 0);
    CHECK_EQ(owed, 99100 * WEIR_MS); /* 99 s of debt, and one unit */
    change(&s, "10/s algo=step", 0);
    CHECK(retry_after(&s, 0) >= owed - 100 * WEIR_MS);
    change(&s, "10/s", 0);
    CHECK(retry_after(&s, 0) >= owed - 100 * WEIR_MS);
    change(&s, "unlimited", 0); /* except that no limit is no limit */
    CHECK_EQ(retry_after(&s, 0), 0);
    close_it(&s);

    s = open_at("blocked", 0); /* but what is for ever ends with its limit */
    change(&s, "10/s", 0);
    CHECK_EQ(retry_after(&s, 0), 100 * WEIR_MS);
    close_it(&s);
}

TEST(a_debt_of_units_stays_so_many_units)
{
    struct subject s = open_at("10/s algo=hybrid", 0);
    weir_state_charge(s.policy, s.state, 0, 1001);
    CHECK_EQ(retry_after(&s, 0), 1001 * 100 * WEIR_MS);
    change(&s, "1/s algo=hybrid", 0);
    CHECK_EQ(retry_after(&s, 0), 1001 * WEIR_SEC);
    close_it(&s);
}

/* At the end of time: a promise whose cost does not fit any more leaves a debt beyond all time, and it is not
 * known how far beyond. What was subtracted from that when it was cancelled came back as saved units. */
TEST(a_cancel_repays_no_debt_beyond_all_time)
{
    static const struct {
        const char *limits;
        int64_t first;
    } cases[] = {
        {"4/2ns burst=62758754327 initial=4109497780 algo=smooth", 4109497781},
        {"4/2ns algo=leaky-bucket queue=100000000000", 1},
    };
    const int64_t t = 4611686018427387901;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct subject s = open_at(cases[i].limits, t);
        struct weir_reservation r;
        CHECK(weir_state_take(s.policy, s.state, t, cases[i].first, NULL));
        CHECK(weir_state_reserve(s.policy, s.state, t, 62758754140, 1, &r, NULL));
        CHECK(weir_state_cancel(s.policy, s.state, t, &r));
        CHECK(!weir_state_take(s.policy, s.state, t, 62758754134, NULL));
        CHECK(!weir_state_take(s.policy, s.state, t, 1, NULL));
        close_it(&s);
    }
}

/* The law of shape=above: admitted - n_last - given back <= R * (t + 1 ns) / W. A double made the second
 * promise a fifth of a nanosecond too early. */
TEST(a_give_to_a_warmup_keeps_the_law)
{
    const weir_i128 count = 261, period = 3817870025;
    const int64_t t = 258091651425310626;
    struct subject s = open_at("261/3817870025ns algo=warmup warmup=91573173220473492ns cold=2", 84);
    struct weir_reservation r;
    struct weir_verdict v;
    CHECK(weir_state_reserve(s.policy, s.state, 63418570036182068, 7303556932, 0, &r, NULL));
    CHECK(weir_state_reserve(s.policy, s.state, 233672509625793414, 834679505, 0, &r, NULL));
    CHECK(weir_state_take(s.policy, s.state, t, 7303556973, NULL));
    weir_state_give(s.policy, s.state, t, 2237493089);
    CHECK(weir_state_reserve(s.policy, s.state, t, 1, 144115188075855766, &r, &v));
    CHECK((7303556973 - 2237493089) * period <= (v.wait_ns + 1) * count);
    close_it(&s);
}

/* Units given back are worth no more than the lowest price there is: W/R above, W/R/cold below. */
TEST(a_give_to_a_warmup_gives_back_no_more_than_the_lowest_price)
{
    static const struct {
        const char *limits;
        int64_t cold;
    } cases[] = {
        {"261/3817870025ns algo=warmup warmup=10s cold=2", 1},
        {"261/3817870025ns algo=warmup warmup=10s cold=3 shape=below", 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (int64_t n = 69000000000; n < 69000000200; n++) {
            struct subject s = open_at(cases[i].limits, 0);
            CHECK(weir_state_take(s.policy, s.state, 0, 70000000000, NULL));
            int64_t owed = retry_after(&s, 0);
            weir_state_give(s.policy, s.state, 0, n);
            weir_i128 back = owed - retry_after(&s, 0);
            weir_i128 worth = (weir_i128)n * 3817870025, ns = (weir_i128)261 * cases[i].cold;
            CHECK((back - 1) * ns <= worth); /* both waits are rounded up to a nanosecond */
            CHECK((back + 1) * ns >= worth);
            close_it(&s);
        }
    }
}

/* take 5, charge 5, give 5: the charge is gone, what was taken is not. */
TEST(a_give_takes_back_a_charge_first)
{
    static const char *const limits[] = {
        "5/m", "5/m algo=fixed-window", "5/m algo=sliding-window", "5/m algo=sliding-log", "5/m algo=step",
    };
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        struct subject s = open_at(limits[i], 0);
        CHECK(weir_state_take(s.policy, s.state, 0, 5, NULL));
        weir_state_charge(s.policy, s.state, 0, 5);
        weir_state_give(s.policy, s.state, 0, 5);
        CHECK_EQ(take_all(&s, 0), 0);
        weir_state_charge(s.policy, s.state, 0, 12);
        weir_state_give(s.policy, s.state, 0, 14);
        CHECK_EQ(take_all(&s, 0), 2);
        close_it(&s);
    }
}

TEST(a_long_debt_of_a_log_is_given_back_unit_by_unit)
{
    struct subject s = open_at("5/m algo=sliding-log", 0);
    weir_state_charge(s.policy, s.state, 0, INT64_C(5000000));
    weir_state_give(s.policy, s.state, 0, INT64_C(5000000) - 7);
    CHECK_EQ(retry_after(&s, 0), 60 * WEIR_SEC);
    weir_state_give(s.policy, s.state, 0, 3);
    CHECK_EQ(take_all(&s, 0), 1);
    close_it(&s);
}

/* The clock steps back before the time of a promise that has come true and of which others followed. */
TEST(a_promise_that_came_true_cannot_be_recalled)
{
    struct subject s = open_at("1/s burst=1", 0);
    struct weir_reservation first, later;
    CHECK(weir_state_take(s.policy, s.state, 0, 1, NULL));
    CHECK(weir_state_reserve(s.policy, s.state, 0, 1, WEIR_SEC, &first, NULL));
    CHECK(weir_state_take(s.policy, s.state, 2 * WEIR_SEC, 1, NULL));
    CHECK(weir_state_reserve(s.policy, s.state, 2 * WEIR_SEC, 1, WEIR_SEC, &later, NULL));
    CHECK(!weir_state_cancel(s.policy, s.state, WEIR_SEC / 2, &first));
    CHECK(weir_state_cancel(s.policy, s.state, WEIR_SEC / 2, &later));
    CHECK(!weir_state_cancel(s.policy, s.state, WEIR_SEC / 2, &later));
    close_it(&s);
}

/* Promises from before a reset stand; those made after it can be recalled. */
TEST(a_reset_leaves_new_promises_recallable)
{
    struct subject s = open_at("1/s burst=1", 0);
    struct weir_reservation before, after;
    CHECK(weir_state_take(s.policy, s.state, 0, 1, NULL));
    CHECK(weir_state_reserve(s.policy, s.state, 0, 1, WEIR_SEC, &before, NULL));
    weir_state_reset(s.policy, s.state, 0);
    CHECK(weir_state_take(s.policy, s.state, 0, 1, NULL));
    CHECK(weir_state_reserve(s.policy, s.state, 0, 1, WEIR_SEC, &after, NULL));
    CHECK(!weir_state_cancel(s.policy, s.state, 0, &before));
    CHECK(weir_state_cancel(s.policy, s.state, 0, &after));
    close_it(&s);
}

/* 10/s is used up after 20 at once, 1000/h has 980 left; then the hour has the smaller share. */
TEST(all_numbers_of_a_verdict_are_those_of_one_limit)
{
    struct subject s = open_at("10/s burst=20, 1000/h", 0);
    struct weir_verdict v;
    CHECK(weir_state_take(s.policy, s.state, 0, 1, &v));
    CHECK(v.limit == 0 && v.remaining == 19 && v.reset_after_ns == 100 * WEIR_MS);
    CHECK(weir_state_take(s.policy, s.state, 0, 19, &v));
    CHECK(v.limit == 0 && v.remaining == 0 && v.reset_after_ns == 2 * WEIR_SEC);
    CHECK(!weir_state_take(s.policy, s.state, 0, 1, &v));
    CHECK(v.limit == 0 && v.remaining == 0 && v.retry_after_ns == 100 * WEIR_MS);
    CHECK_EQ(v.reset_after_ns, 2 * WEIR_SEC); /* not the 72 s of 1000/h */
    CHECK(!weir_state_peek(s.policy, s.state, 2 * WEIR_SEC, 21, &v));
    CHECK(v.limit == 0 && v.reason == WEIR_NEVER && v.remaining == 20 && v.reset_after_ns == 0);
    CHECK(weir_state_peek(s.policy, s.state, 2 * WEIR_SEC, 1, &v)); /* 20 of 20, and 980 of 1000 */
    CHECK(v.limit == 1 && v.remaining == 980 && v.reset_after_ns == 70 * WEIR_SEC);
    close_it(&s);

    s = open_at("10/s, 20/s", 0); /* both are full: the first */
    CHECK(weir_state_peek(s.policy, s.state, 0, 1, &v) && v.limit == 0 && v.remaining == 10);
    struct weir_reservation promises[2];
    CHECK(weir_state_reserve(s.policy, s.state, 0, 10, WEIR_SEC, promises, &v));
    CHECK(v.limit == 0 && v.reset_after_ns == WEIR_SEC);
    CHECK(weir_state_reserve(s.policy, s.state, 0, 5, WEIR_SEC, promises, &v)); /* waits for the first */
    CHECK(v.limit == 0 && v.wait_ns == 500 * WEIR_MS && v.remaining == 0 &&
          v.reset_after_ns == 1500 * WEIR_MS);
    close_it(&s);
}

TEST(reserve_knows_the_timeout_of_the_text)
{
    struct subject s = open_at("1/s burst=1 timeout=2s, 100/s timeout=1s", 0);
    struct weir_reservation r[2];
    CHECK(weir_state_take(s.policy, s.state, 0, 1, NULL));
    CHECK(!weir_state_reserve(s.policy, s.state, 0, 1, 0, r, NULL));
    CHECK(weir_state_reserve(s.policy, s.state, 0, 1, -1, r, NULL)); /* the shortest: 1 s */
    CHECK(!weir_state_reserve(s.policy, s.state, 0, 1, -1, r, NULL));
    close_it(&s);
}

TEST(drain_counts_what_it_takes)
{
    struct subject s = open_at("10/s, unlimited, 4/m", 0);
    CHECK_EQ(weir_state_drain(s.policy, s.state, 0), 4);
    CHECK_EQ(weir_state_drain(s.policy, s.state, 0), 0);
    close_it(&s);
    s = open_at("10/s algo=warmup warmup=10s",
                0); /* saved units are no advantage: there is nothing to take */
    CHECK_EQ(weir_state_drain(s.policy, s.state, 0), 0);
    close_it(&s);
    s = open_at("unlimited", 0);
    CHECK_EQ(weir_state_drain(s.policy, s.state, 0), 0);
    close_it(&s);
}

/* Whatever is in a reservation, nothing overflows. */
TEST(a_forged_reservation_is_no_undefined_behaviour)
{
    static const char *const limits[] = {"1/s",
                                         "1/s algo=leaky-bucket",
                                         "1/s algo=smooth",
                                         "1/s algo=hybrid",
                                         "1/s algo=step",
                                         "1/s algo=fixed-window",
                                         "1/s algo=sliding-window",
                                         "1/s algo=sliding-log",
                                         "1/s algo=warmup warmup=1s"};
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        struct subject s = open_at(limits[i], 0);
        struct weir_reservation r;
        (void)take_all(&s, 0);
        CHECK(weir_state_reserve(s.policy, s.state, 0, 1, 100 * WEIR_SEC, &r, NULL));
        r.n = INT64_MAX;
        (void)weir_state_cancel(s.policy, s.state, 0, &r);
        (void)take_all(&s, 0);
        close_it(&s);
    }
}
