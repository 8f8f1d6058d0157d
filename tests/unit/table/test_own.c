/* SPDX-License-Identifier: MIT */
/*
 * Tables whose limits come with each call, against a bucket that counts in fractions: time is in units of
 * 1/count nanoseconds there, so that a unit costs exactly `period_ns` of them.
 */
#include <string.h>

#include "base/sat.h"
#include "check.h"
#include "weir.h"

#define START (INT64_C(1000) * WEIR_SEC)
#define DAY   (INT64_C(86400) * WEIR_SEC)

static struct weir_table *make(size_t keys, int64_t horizon_ns, int32_t when_full)
{
    struct weir_error err;
    struct weir_table *table =
        weir_table_make(NULL, NULL,
                        &(struct weir_table_options){
                            .keys = keys, .own_limits = 1, .horizon_ns = horizon_ns, .when_full = when_full},
                        &err);
    if (!CHECK(table != NULL))
        printf("# %s\n", err.text);
    return table;
}

static bool take(struct weir_table *table, int64_t now, const char *key, struct weir_own_limit limit,
                 int64_t n, struct weir_verdict *verdict)
{
    return weir_table_take_own_at(table, now, key, strlen(key), &limit, n, verdict);
}

static bool peek(struct weir_table *table, int64_t now, const char *key, struct weir_own_limit limit,
                 int64_t n, struct weir_verdict *verdict)
{
    return weir_table_peek_own_at(table, now, key, strlen(key), &limit, n, verdict);
}

static bool give(struct weir_table *table, int64_t now, const char *key, struct weir_own_limit limit,
                 int64_t n, struct weir_verdict *verdict)
{
    return weir_table_give_own_at(table, now, key, strlen(key), &limit, n, verdict);
}

/* ---- the model ---- */

struct bucket {
    weir_i128 full_at; /* in 1/count ns */
};

static weir_i128 scaled(const struct weir_own_limit *limit, int64_t time_ns)
{
    return (weir_i128)time_ns * limit->count;
}

static weir_i128 after(const struct bucket *bucket, const struct weir_own_limit *limit, int64_t now,
                       int64_t n)
{
    weir_i128 time = scaled(limit, now);
    return (bucket->full_at > time ? bucket->full_at : time) + (weir_i128)n * limit->period_ns;
}

/* Nanoseconds, rounded up, until n pass; `slack_ns` earlier than exact. */
static int64_t wait_of(const struct bucket *bucket, const struct weir_own_limit *limit, int64_t now,
                       int64_t n, int64_t slack_ns)
{
    weir_i128 late = after(bucket, limit, now, n) - (weir_i128)limit->burst * limit->period_ns -
                     scaled(limit, now) - scaled(limit, slack_ns);
    return late <= 0 ? 0 : (int64_t)((late + limit->count - 1) / limit->count);
}

/* ---- tests ---- */

static struct weir_own_limit draw_whole(struct rng *rng)
{
    static const struct weir_own_limit limits[] = {
        {10, WEIR_SEC, 5},     {1, 3 * WEIR_SEC, 1},
        {1000, WEIR_MS, 50},   {1000000000, WEIR_SEC, 1000},
        {4, WEIR_SEC, 100000}, {1, 1, 1},
        {5, 60 * WEIR_SEC, 7},
    };
    return limits[rng_between(rng, 0, sizeof limits / sizeof limits[0] - 1)];
}

TEST(limits_of_whole_nanoseconds_are_exact)
{
    struct rng rng = rng_new(1);
    struct weir_table *table = make(1000, 0, 0);
    int64_t now = START;
    for (int round = 0; round < 300; round++) {
        struct weir_own_limit limit = draw_whole(&rng);
        struct bucket bucket = {0};
        int64_t unit = limit.period_ns / limit.count;
        char key[32];
        (void)snprintf(key, sizeof key, "key %d", round);
        now += 100 * WEIR_SEC; /* later than any key was forgotten before */
        for (int i = 0; i < 100; i++) {
            struct weir_verdict verdict, foreseen;
            int64_t n = rng_between(&rng, 1, limit.burst + 1);
            now += rng_between(&rng, -unit / 2, unit * 5 / 2); /* it also steps back */
            int64_t wait = wait_of(&bucket, &limit, now, n, 0);
            bool passes = n <= limit.burst && wait == 0;
            (void)peek(table, now, key, limit, n, &foreseen);
            CHECK_EQ(take(table, now, key, limit, n, &verdict), passes);
            CHECK_EQ(foreseen.allowed, verdict.allowed);
            CHECK_EQ(foreseen.remaining, verdict.remaining);
            if (passes)
                bucket.full_at = after(&bucket, &limit, now, n);
            int64_t left = (int64_t)(after(&bucket, &limit, now, 0) / limit.count) - now;
            CHECK_EQ(verdict.allowed, passes);
            CHECK_EQ(verdict.reason, passes ? WEIR_OK : n > limit.burst ? WEIR_NEVER : WEIR_LATER);
            CHECK_EQ(verdict.retry_after_ns, n > limit.burst ? WEIR_FOREVER : passes ? 0 : wait);
            CHECK_EQ(verdict.reset_after_ns, left);
            CHECK_EQ(verdict.remaining, max64(limit.burst * unit - left, 0) / unit);
        }
    }
    weir_table_free(table);
}

/* Of limits whose units are no whole nanoseconds nothing passes that the exact bucket, with the nanosecond of
 * the law, would not let pass; and what is refused would pass a nanosecond for each unit later. */
TEST(other_limits_keep_the_law_and_are_strict_by_a_nanosecond_for_each_unit)
{
    struct rng rng = rng_new(2);
    struct weir_table *table = make(1000, 0, 0);
    int64_t now = START;
    for (int round = 0; round < 600; round++) {
        struct weir_own_limit limit = {1 + rng_magnitude(&rng, INT64_C(1) << 30),
                                       1 + rng_magnitude(&rng, INT64_C(1) << 35), rng_between(&rng, 1, 50)};
        struct bucket bucket = {0};
        int64_t units = 0, span = limit.period_ns * limit.burst / limit.count + 1;
        char key[32];
        (void)snprintf(key, sizeof key, "key %d", round);
        now += 100 * WEIR_SEC; /* later than any key was forgotten before */
        for (int i = 0; i < 100; i++) {
            int64_t n = rng_between(&rng, 1, limit.burst);
            now += rng_between(&rng, 0, 2) ? rng_between(&rng, 0, span / 4) : 0;
            if (take(table, now, key, limit, n, NULL)) {
                CHECK_EQ(wait_of(&bucket, &limit, now, n, 1), 0);
                bucket.full_at = after(&bucket, &limit, now, n);
                units += n;
            } else
                CHECK(wait_of(&bucket, &limit, now, n, -(units + n)) > 0);
        }
    }
    weir_table_free(table);
}

TEST(a_burst_passes_at_one_instant_in_whatever_pieces)
{
    static const struct weir_own_limit limits[] = {
        {3, WEIR_SEC, 3}, {7, 60 * WEIR_SEC, 100}, {999, WEIR_SEC, 1000}, {11, WEIR_SEC, 11}};
    struct weir_table *table = make(100, 0, 0);
    for (size_t l = 0; l < sizeof limits / sizeof limits[0]; l++)
        for (int64_t piece = 1; piece <= 3; piece++) {
            char key[32];
            int64_t taken = 0;
            (void)snprintf(key, sizeof key, "%zu %d", l, (int)piece);
            while (taken <= limits[l].burst && take(table, START, key, limits[l], piece, NULL))
                taken += piece;
            CHECK_EQ(taken, limits[l].burst / piece * piece);
            int64_t rest = limits[l].burst - taken;
            CHECK(rest == 0 || take(table, START, key, limits[l], rest, NULL));
            CHECK(!take(table, START, key, limits[l], 1, NULL));
        }
    weir_table_free(table);
}

TEST(a_key_keeps_its_time_when_its_limit_changes)
{
    struct weir_table *table = make(100, 0, 0);
    struct weir_own_limit slow = {1, WEIR_SEC, 10}, fast = {1000, WEIR_SEC, 1000};
    struct weir_verdict verdict;
    CHECK(take(table, START, "a", slow, 2, &verdict));
    CHECK_EQ(verdict.remaining, 8);
    CHECK_EQ(verdict.reset_after_ns, 2 * WEIR_SEC);
    CHECK(!take(table, START, "a", fast, 1, &verdict)); /* holds one second: two are owed */
    CHECK_EQ(verdict.retry_after_ns, WEIR_SEC + WEIR_MS);
    CHECK_EQ(verdict.reset_after_ns, 2 * WEIR_SEC);
    CHECK(take(table, START + WEIR_SEC + WEIR_MS, "a", fast, 1, &verdict));
    CHECK_EQ(verdict.remaining, 0);
    CHECK(peek(table, START, "b", fast, 1000, NULL));
    CHECK(take(table, START, "b", fast, 1000, NULL)); /* the peek took nothing */
    weir_table_free(table);
}

TEST(what_is_given_back_can_be_taken_again)
{
    struct weir_table *table = make(100, 0, 0);
    struct weir_own_limit limit = {1, WEIR_SEC, 5}, small = {1, WEIR_SEC, 2};
    struct weir_verdict verdict;
    CHECK(take(table, START, "a", limit, 5, NULL));
    CHECK(give(table, START, "a", limit, 2, &verdict));
    CHECK_EQ(verdict.remaining, 2);
    CHECK_EQ(verdict.reset_after_ns, 3 * WEIR_SEC);
    CHECK_EQ(verdict.retry_after_ns, 0);
    CHECK(!take(table, START, "a", limit, 3, NULL));
    CHECK(take(table, START, "a", limit, 2, NULL));
    CHECK(give(table, START, "a", limit, 0, &verdict)); /* looks */
    CHECK_EQ(verdict.remaining, 0);
    CHECK_EQ(verdict.reset_after_ns, 5 * WEIR_SEC);
    CHECK(!give(table, START, "a", small, 1, &verdict)); /* owes 4, where 2 are a burst */
    CHECK_EQ(verdict.reason, WEIR_LATER);
    CHECK_EQ(verdict.retry_after_ns, 2 * WEIR_SEC);
    CHECK_EQ(verdict.reset_after_ns, 4 * WEIR_SEC);
    weir_table_free(table);
}

TEST(no_more_is_given_back_than_is_owed)
{
    struct weir_table *table = make(100, 0, 0);
    struct weir_own_limit limit = {1, WEIR_SEC, 5};
    struct weir_verdict verdict;
    struct weir_table_info stat;
    CHECK(give(table, START, "never seen", limit, 3, &verdict));
    CHECK_EQ(verdict.remaining, 5);
    CHECK_EQ(verdict.reset_after_ns, 0);
    weir_table_stat_at(table, START, &stat);
    CHECK_EQ(stat.keys, 0);
    CHECK(take(table, START, "a", limit, 3, NULL));
    CHECK(give(table, START + WEIR_SEC, "a", limit, INT64_MAX, &verdict));
    CHECK_EQ(verdict.remaining, 5);
    CHECK(take(table, START + WEIR_SEC, "a", limit, 5, NULL));
    CHECK(!take(table, START + WEIR_SEC, "a", limit, 1, NULL));
    CHECK(give(table, START + 100 * WEIR_SEC, "a", limit, 5, NULL)); /* it has made up for them itself */
    CHECK(take(table, START + 100 * WEIR_SEC, "a", limit, 5, NULL));
    CHECK(!take(table, START + 100 * WEIR_SEC, "a", limit, 1, NULL));
    weir_table_free(table);
}

TEST(gives_without_sense_are_invalid)
{
    struct weir_table *table = make(100, 0, 0), *other = weir_table_new("10/s", 100, NULL);
    struct weir_own_limit limit = {1, WEIR_SEC, 5}, wrong = {0, WEIR_SEC, 5};
    struct weir_verdict verdict;
    CHECK(!give(table, START, "a", limit, -1, &verdict));
    CHECK_EQ(verdict.reason, WEIR_INVALID);
    CHECK(!give(table, START, "a", limit, INT64_MIN, &verdict));
    CHECK(!give(table, START, "a", wrong, 1, &verdict));
    CHECK_EQ(verdict.reason, WEIR_INVALID);
    CHECK(!give(other, START, "a", limit, 1, &verdict));
    CHECK_EQ(verdict.reason, WEIR_INVALID);
    CHECK(!weir_table_give_own_at(NULL, START, "a", 1, &limit, 1, &verdict));
    CHECK(!weir_table_give_own(table, "a", 1, NULL, 1, &verdict));
    CHECK_EQ(verdict.reason, WEIR_INVALID);
    CHECK(weir_table_give_own(table, "a", 1, &limit, 1, NULL));
    weir_table_free(table);
    weir_table_free(other);
}

/* Taken in one piece and given back in many, or the other way round: never more than was taken. */
TEST(takes_and_gives_in_other_pieces_mint_nothing)
{
    struct rng rng = rng_new(3);
    struct weir_table *table = make(1000, 0, 0);
    for (int round = 0; round < 600; round++) {
        struct weir_own_limit limit = {1 + rng_magnitude(&rng, INT64_C(1) << 34),
                                       1 + rng_magnitude(&rng, INT64_C(1) << 35), rng_between(&rng, 2, 60)};
        int64_t held = 0; /* taken and not given back, all at one instant */
        char key[32];
        (void)snprintf(key, sizeof key, "key %d", round);
        for (int i = 0; i < 100; i++) {
            int64_t n = rng_between(&rng, 1, limit.burst);
            if (rng_between(&rng, 0, 1) && held > 0) {
                n = min64(n, held);
                (void)give(table, START, key, limit, n, NULL);
                held -= n;
            } else if (take(table, START, key, limit, n, NULL))
                held += n;
            if (!CHECK((weir_i128)(held - limit.burst) * limit.period_ns < (weir_i128)limit.count * 2))
                return;
        }
    }
    weir_table_free(table);
}

TEST(limits_without_sense_are_invalid)
{
    static const struct weir_own_limit limits[] = {
        {0, 1, 1},
        {1, 0, 1},
        {1, 1, 0},
        {-1, 1, 1},
        {1, -1, 1},
        {1, 1, -1},
        {1, INT64_MAX, INT64_MAX},
        {1, DAY, 32},
        {1, 31 * DAY + 1, 1},
        {INT64_MIN, INT64_MIN, INT64_MIN},
        {INT64_MAX, INT64_MAX, INT64_MAX},
    };
    struct weir_table *table = make(100, 0, 0), *other = weir_table_new("10/s", 100, NULL);
    struct weir_own_limit good = {1, 31 * DAY, 1};
    struct weir_verdict verdict;
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        CHECK(!take(table, START, "a", limits[i], 1, &verdict));
        CHECK_EQ(verdict.reason, WEIR_INVALID);
    }
    CHECK(!weir_table_take_own_at(table, START, "a", 1, NULL, 1, &verdict));
    CHECK_EQ(verdict.reason, WEIR_INVALID);
    CHECK(!weir_table_take_own_at(table, START, NULL, 1, &good, 1, &verdict));
    CHECK_EQ(verdict.reason, WEIR_INVALID);
    CHECK(!weir_table_take_own_at(NULL, START, "a", 1, &good, 1, &verdict));
    CHECK(!take(table, START, "a", good, 0, &verdict));
    CHECK_EQ(verdict.reason, WEIR_INVALID);
    CHECK(!take(other, START, "a", good, 1, &verdict));
    CHECK_EQ(verdict.reason, WEIR_INVALID);
    CHECK(!take(table, START, "a", good, 2, &verdict));
    CHECK_EQ(verdict.reason, WEIR_NEVER);
    CHECK(!take(table, START, "a", good, INT64_MAX, &verdict));
    CHECK_EQ(verdict.reason, WEIR_NEVER);
    CHECK(take(table, START, "a", good, 1, &verdict));
    CHECK_EQ(verdict.reset_after_ns, 31 * DAY);
    weir_table_free(table);
    weir_table_free(other);
}

/* Keys come with the longest debt that there can be, far more of them than fit. */
TEST(an_attack_with_long_limits_ends_with_the_horizon)
{
    const int64_t hour = 3600 * WEIR_SEC;
    struct weir_own_limit longest = {1, hour, 1}, longer = {1, hour + 1, 1}, usual = {1, WEIR_SEC, 5};
    struct weir_table *table = make(200, hour, WEIR_FULL_REFUSE);
    struct weir_table_info stat;
    struct weir_verdict verdict;
    int64_t admitted = 0;
    char key[32];
    for (int i = 0; i < 20000; i++) {
        (void)snprintf(key, sizeof key, "attacker %d", i);
        CHECK(!take(table, START, key, longer, 1, NULL));
        admitted += take(table, START, key, longest, 1, NULL);
    }
    weir_table_stat_at(table, START, &stat);
    CHECK_EQ(stat.keys, admitted);
    CHECK(stat.refused > 0);
    CHECK(!take(table, START + hour / 2, "user", usual, 1, &verdict));
    CHECK_EQ(verdict.reason, WEIR_FULL);
    int64_t later = START + hour + 10 * WEIR_MS;
    weir_table_stat_at(table, later, &stat);
    CHECK_EQ(stat.keys, 0);
    for (int i = 0; i < 200; i++) {
        (void)snprintf(key, sizeof key, "user %d", i);
        CHECK(take(table, later, key, usual, 5, NULL));
        CHECK(!take(table, later, key, usual, 1, NULL));
    }
    weir_table_free(table);
}

TEST(keys_without_room_share_one_bucket)
{
    struct weir_own_limit limit = {1, WEIR_SEC, 10};
    struct weir_table *table = make(4, 0, WEIR_FULL_SHARE);
    struct weir_table_info stat;
    int64_t admitted = 0;
    char key[32];
    for (int i = 0; i < 1000; i++) {
        (void)snprintf(key, sizeof key, "key %d", i);
        admitted += take(table, START, key, limit, 1, NULL);
    }
    weir_table_stat_at(table, START, &stat);
    CHECK_EQ(admitted, stat.keys + 10);
    CHECK(stat.shared > 0);
    CHECK(!take(table, START, "another", limit, 1, NULL));
    CHECK(take(table, START + WEIR_SEC, "another", limit, 1, NULL)); /* a second later */
    CHECK(!take(table, START + WEIR_SEC, "one more", limit, 1, NULL));
    weir_table_free(table);
}

static bool note(void *arg, const struct weir_key *key)
{
    *(int64_t *)arg += key->verdict.reset_after_ns;
    return true;
}

TEST(verbs_that_bring_no_limit_do_nothing_but_a_reset)
{
    struct weir_own_limit limit = {1, WEIR_SEC, 3};
    struct weir_table *table = make(100, 0, 0);
    struct weir_reservation reservation;
    struct weir_verdict verdict;
    struct weir_limit_state state;
    int64_t left = 0;
    CHECK(take(table, START, "a", limit, 3, NULL));
    CHECK(!weir_table_take_at(table, START, "a", 1, 1, &verdict));
    CHECK_EQ(verdict.reason, WEIR_INVALID);
    CHECK(!weir_table_peek_at(table, START, "b", 1, 1, &verdict));
    CHECK_EQ(verdict.reason, WEIR_INVALID);
    CHECK(!weir_table_reserve_at(table, START, "a", 1, 1, WEIR_FOREVER, &reservation, &verdict));
    CHECK(!weir_table_charge_at(table, START, "a", 1, 5));
    CHECK_EQ(weir_table_explain_at(table, START, "a", 1, &state, 1), 0);
    weir_table_give_at(table, START, "a", 1, 3);
    CHECK(!take(table, START, "a", limit, 1, &verdict));
    CHECK_EQ(verdict.reset_after_ns, 3 * WEIR_SEC);
    CHECK(weir_table_each_at(table, START + WEIR_SEC, note, &left));
    CHECK_EQ(left, 2 * WEIR_SEC);
    weir_table_reset_at(table, START, "a", 1);
    weir_table_reset_at(table, START, "never seen", 10);
    CHECK(take(table, START, "a", limit, 3, NULL));
    CHECK(!take(table, START, "a", limit, 1, NULL));
    CHECK(!weir_table_set_at(table, START, "10/s", NULL));
    CHECK(!weir_table_override_at(table, START, "a", 1, "10/s", NULL));
    weir_table_free(table);
}

TEST(a_sweep_clears_what_is_full_again)
{
    struct weir_own_limit limit = {1, WEIR_SEC, 3};
    struct weir_table *table = make(100, 0, 0);
    char key[32];
    for (int i = 0; i < 60; i++) {
        (void)snprintf(key, sizeof key, "%d", i);
        CHECK(take(table, START, key, limit, 1 + i % 3, NULL));
    }
    CHECK_EQ(weir_table_sweep_at(table, START + WEIR_SEC / 2, 1000), 0);
    CHECK_EQ(weir_table_sweep_at(table, START + WEIR_SEC + 2 * WEIR_MS, 1000), 20);
    CHECK_EQ(weir_table_sweep_at(table, START + 4 * WEIR_SEC, 1000), 40);
    weir_table_free(table);
}

TEST(the_end_of_time_mints_nothing)
{
    struct weir_own_limit limit = {1, WEIR_SEC, 3};
    struct weir_table *table = make(100, 0, 0);
    CHECK(take(table, INT64_MAX, "a", limit, 3, NULL));
    CHECK(!take(table, INT64_MAX, "a", limit, 1, NULL));
    CHECK(!take(table, INT64_MIN, "a", limit, 1, NULL));
    CHECK(!take(table, WEIR_TIME_MAX, "a", limit, 1, NULL));
    weir_table_free(table);
}
