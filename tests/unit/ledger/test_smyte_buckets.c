/* SPDX-License-Identifier: MIT */
/*
 * Smyte's buckets: the vectors that are arithmetic (docs/compatible.md), and what becomes of keys.
 */
#include "check.h"
#include "ledger/smyte.h"

#define START (INT64_C(1000) * WEIR_SEC)

struct line { /* a bucket and the words it is asked with */
    struct smyte_bucket bucket;
    struct smyte_limit limit;
    bool known, strict;
};

static struct smyte_answer ask(struct line *line, enum smyte_verb verb, int64_t take, int64_t at_ms)
{
    struct smyte_request question = {verb, line->limit, take, at_ms, line->strict, NULL};
    struct smyte_bucket bucket = line->known ? line->bucket : weir_smyte_bucket_fresh(&line->limit, at_ms);
    struct smyte_answer answer = weir_smyte_bucket_do(&bucket, &question);
    if (verb != SMYTE_GET && take > 0) {
        line->bucket = bucket;
        line->known = true;
    }
    return answer;
}

static int64_t reduce(struct line *line, int64_t take, int64_t at_s)
{
    return ask(line, SMYTE_REDUCE, take, at_s * 1000).tokens;
}

static int64_t look(struct line *line, int64_t at_s)
{
    return ask(line, SMYTE_GET, 0, at_s * 1000).tokens;
}

/* ---- arithmetic ---- */

TEST(s3_two_a_minute)
{
    struct line line = {.limit = {2, 2, 60000}};
    CHECK_EQ(ask(&line, SMYTE_REDUCE, 1, 0).tokens, 2);
    CHECK_EQ(ask(&line, SMYTE_REDUCE, 1, 0).tokens, 1);
    CHECK_EQ(ask(&line, SMYTE_REDUCE, 1, 0).tokens, 0);
    CHECK_EQ(ask(&line, SMYTE_REDUCE, 1, 0).tokens, 0);
    CHECK_EQ(ask(&line, SMYTE_REDUCE, 1, 59999).tokens, 0);
    CHECK_EQ(ask(&line, SMYTE_REDUCE, 1, 60000).tokens, 2);
}

TEST(s4_a_bucket_gains_in_whole_periods)
{
    static const struct {
        int64_t at_ms, amount, last_ms;
    } rows[] = {{53000, 100, 2000}, {123000, 300, 122000}, {1312000, 1000, 1262000}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct smyte_bucket bucket = {100, 2000, -1};
        struct smyte_request question = {
            .verb = SMYTE_GET, .limit = {1000, 100, 60000}, .at_ms = rows[i].at_ms};
        CHECK_EQ(weir_smyte_bucket_do(&bucket, &question).tokens, rows[i].amount);
        CHECK_EQ(bucket.amount, rows[i].amount);
        CHECK_EQ(bucket.last_ms, rows[i].last_ms);
    }
}

TEST(s8_a_take_of_more_than_there_is_drains)
{
    struct line line = {.limit = {10, 10, 60000}};
    CHECK_EQ(reduce(&line, 4, 0), 10);
    CHECK_EQ(reduce(&line, 7, 0), 6);
    CHECK_EQ(look(&line, 0), 0);
}

TEST(s10_a_clock_that_steps_back_mints_nothing)
{
    struct line line = {.limit = {10, 1, 5000}};
    CHECK_EQ(reduce(&line, 10, 100), 10);
    CHECK_EQ(look(&line, 50), 0);
    CHECK_EQ(look(&line, 104), 0);
    CHECK_EQ(look(&line, 105), 1);
    struct line strict = {.limit = {1, 1, 5000}, .strict = true};
    CHECK_EQ(reduce(&strict, 1, 100), 1);
    CHECK_EQ(reduce(&strict, 1, 50), 0);
    CHECK_EQ(reduce(&strict, 1, 101), 0); /* Smyte's hole: 1 */
    CHECK_EQ(look(&strict, 105), 0);      /* the call at 101 began a period */
    CHECK_EQ(look(&strict, 106), 1);
}

TEST(s11_periods_stay_where_they_are)
{
    struct line line = {.limit = {10, 1, 60000}};
    CHECK_EQ(reduce(&line, 1, 0), 10);
    CHECK_EQ(reduce(&line, 10, 119), 10);
    CHECK_EQ(look(&line, 120), 1);
}

TEST(strict_callers_must_keep_quiet_for_a_period)
{
    struct line line = {.limit = {2, 2, 10000}, .strict = true};
    CHECK_EQ(reduce(&line, 1, 0), 2);
    CHECK_EQ(reduce(&line, 1, 4), 1); /* leaves nothing: a period begins */
    CHECK_EQ(reduce(&line, 1, 13), 0);
    CHECK_EQ(reduce(&line, 1, 22), 0);
    CHECK_EQ(look(&line, 31), 0);
    CHECK_EQ(reduce(&line, 1, 32), 2);
}

TEST(a_session_lasts_while_the_bucket_is_exhausted)
{
    struct line line = {.limit = {1, 1, 5000}};
    struct smyte_answer answer = ask(&line, SMYTE_SESSIONIZE, 1, 1000);
    CHECK_EQ(answer.tokens, 1);
    CHECK_EQ(answer.session_ms, 1000);
    answer = ask(&line, SMYTE_SESSIONIZE, 1, 5000);
    CHECK_EQ(answer.tokens, 0);
    CHECK_EQ(answer.session_ms, 1000);
    answer = ask(&line, SMYTE_SESSIONIZE, 1, 9999); /* 4.999 s of quiet are too few */
    CHECK_EQ(answer.tokens, 0);
    CHECK_EQ(answer.session_ms, 1000);
    answer = ask(&line, SMYTE_SESSIONIZE, 0, 14999); /* a look */
    CHECK_EQ(answer.tokens, 1);
    CHECK_EQ(answer.session_ms, 1000);
    answer = ask(&line, SMYTE_SESSIONIZE, 1, 14999);
    CHECK_EQ(answer.tokens, 1);
    CHECK_EQ(answer.session_ms, 14999);
}

TEST(s13_a_session_on_a_bucket_without_one_begins_now)
{
    struct line line = {.limit = {1, 1, 5000}};
    CHECK_EQ(ask(&line, SMYTE_REDUCE, 1, 1000).tokens, 1);
    struct smyte_answer answer = ask(&line, SMYTE_SESSIONIZE, 1, 2000);
    CHECK_EQ(answer.tokens, 0);
    CHECK_EQ(answer.session_ms, 2000);
    CHECK_EQ(ask(&line, SMYTE_REDUCE, 1, 3000).tokens, 0); /* leaves the session alone */
    CHECK_EQ(ask(&line, SMYTE_SESSIONIZE, 1, 4000).session_ms, 2000);
}

TEST(extremes_saturate)
{
    struct smyte_bucket bucket = {0, 0, -1};
    struct smyte_request question = {
        .verb = SMYTE_REDUCE, .limit = {INT64_MAX, INT64_MAX, 1}, .take = INT64_MAX, .at_ms = INT64_MAX};
    CHECK_EQ(weir_smyte_bucket_do(&bucket, &question).tokens, INT64_MAX);
    CHECK_EQ(bucket.amount, 0);
    CHECK_EQ(bucket.last_ms, INT64_MAX);
    bucket = (struct smyte_bucket){INT64_MAX, INT64_MAX, -1};
    question.at_ms = 0;
    question.limit.refill_ms = INT64_MAX;
    CHECK_EQ(weir_smyte_bucket_do(&bucket, &question).tokens, INT64_MAX);
    CHECK_EQ(bucket.last_ms, INT64_MAX);
    CHECK_EQ(weir_smyte_bucket_fill_ms(&(struct smyte_limit){INT64_MAX, 1, 2}), INT64_MAX);
    CHECK_EQ(weir_smyte_bucket_fill_ms(&(struct smyte_limit){10, 3, 1000}), 4000);
}

/* ---- keys ---- */

static struct records *make(size_t keys)
{
    struct weir_error err;
    struct records *buckets = weir_smyte_new(keys, &err);
    if (!CHECK(buckets != NULL))
        printf("# %s\n", err.text);
    return buckets;
}

static int64_t take(struct records *buckets, const char *key, struct smyte_limit limit, int64_t n,
                    int64_t now_ns)
{
    struct smyte_request question = {
        .verb = SMYTE_REDUCE, .limit = limit, .take = n, .at_ms = now_ns / WEIR_MS};
    return weir_smyte_do(buckets, key, strlen(key), &question, now_ns).tokens;
}

static int64_t get(struct records *buckets, const char *key, struct smyte_limit limit, int64_t now_ns)
{
    struct smyte_request question = {.verb = SMYTE_GET, .limit = limit, .at_ms = now_ns / WEIR_MS};
    return weir_smyte_do(buckets, key, strlen(key), &question, now_ns).tokens;
}

TEST(s9_another_limit_is_another_bucket)
{
    struct records *buckets = make(100);
    CHECK_EQ(take(buckets, "k", (struct smyte_limit){10, 10, 60000}, 1, START), 10);
    CHECK_EQ(take(buckets, "k", (struct smyte_limit){10, 1, 60000}, 1, START), 10);
    CHECK_EQ(take(buckets, "k", (struct smyte_limit){11, 11, 60000}, 1, START), 11);
    CHECK_EQ(take(buckets, "k", (struct smyte_limit){10, 10, 60000}, 1, START), 9);
    CHECK_EQ(take(buckets, "l", (struct smyte_limit){10, 10, 60000}, 1, START), 10);
    weir_records_free(buckets);
}

static int64_t used(struct records *buckets)
{
    struct records_stat stat;
    weir_records_stat(buckets, &stat);
    return stat.used;
}

/* {100, 5, 60000}: 20 periods fill it. */
TEST(s7_a_bucket_is_forgotten_when_it_would_be_full)
{
    const struct smyte_limit limit = {100, 5, 60000};
    struct records *buckets = make(100);
    CHECK_EQ(take(buckets, "k", limit, 100, START), 100);
    CHECK_EQ(used(buckets), 1);
    weir_records_sweep(buckets, 1000, START + 1200 * WEIR_SEC - WEIR_MS);
    CHECK_EQ(used(buckets), 1);
    CHECK_EQ(get(buckets, "k", limit, START + 1200 * WEIR_SEC - WEIR_MS), 95);
    weir_records_sweep(buckets, 1000, START + 1200 * WEIR_SEC);
    CHECK_EQ(used(buckets), 0);
    CHECK_EQ(get(buckets, "k", limit, START + 1200 * WEIR_SEC), 100);
    weir_records_free(buckets);
}

/* Times that callers name say nothing about when they ask again. */
TEST(a_bucket_of_the_past_is_not_forgotten_between_two_calls)
{
    struct records *buckets = make(100);
    struct smyte_request question = {.verb = SMYTE_REDUCE, .limit = {2, 2, 60000}, .take = 1, .at_ms = 5};
    CHECK_EQ(weir_smyte_do(buckets, "k", 1, &question, START).tokens, 2);
    weir_records_sweep(buckets, 1000, START + WEIR_SEC);
    CHECK_EQ(weir_smyte_do(buckets, "k", 1, &question, START + WEIR_SEC).tokens, 1);
    weir_records_free(buckets);
}

TEST(looks_and_takes_of_nothing_need_no_record)
{
    const struct smyte_limit limit = {5, 5, 1000};
    struct records *buckets = make(100);
    CHECK_EQ(get(buckets, "k", limit, START), 5);
    CHECK_EQ(take(buckets, "k", limit, 0, START), 5);
    CHECK_EQ(used(buckets), 0);
    CHECK_EQ(take(buckets, "k", limit, 2, START), 5);
    CHECK_EQ(take(buckets, "k", limit, 0, START + 999 * WEIR_MS), 3); /* nor does it live longer */
    weir_records_sweep(buckets, 1000, START + WEIR_SEC);
    CHECK_EQ(used(buckets), 0);
    weir_records_free(buckets);
}

TEST(a_key_is_forgotten_under_one_limit_only)
{
    const struct smyte_limit one = {5, 5, 1000}, other = {5, 1, 1000};
    struct records *buckets = make(100);
    CHECK_EQ(take(buckets, "k", one, 5, START), 5);
    CHECK_EQ(take(buckets, "k", other, 5, START), 5);
    CHECK(weir_smyte_forget(buckets, "k", 1, &one, START));
    CHECK(!weir_smyte_forget(buckets, "k", 1, &one, START));
    CHECK(!weir_smyte_forget(buckets, "l", 1, &one, START));
    CHECK_EQ(get(buckets, "k", one, START), 5);
    CHECK_EQ(get(buckets, "k", other, START), 0);
    weir_records_free(buckets);
}

TEST(newcomers_without_room_get_nothing_and_nobody_is_forgotten_for_them)
{
    const struct smyte_limit limit = {1, 1, 60000};
    struct records *buckets = make(64);
    int64_t admitted = 0;
    bool refused = false;
    char key[32];
    for (int i = 0; i < 1000; i++) {
        struct smyte_request question = {
            .verb = SMYTE_REDUCE, .limit = limit, .take = 1, .at_ms = START / WEIR_MS};
        (void)snprintf(key, sizeof key, "%d", i);
        struct smyte_answer answer = weir_smyte_do(buckets, key, strlen(key), &question, START);
        CHECK_EQ(answer.tokens, answer.full ? 0 : 1);
        admitted += !answer.full;
        refused |= answer.full;
    }
    CHECK(refused);
    CHECK_EQ(admitted, used(buckets));
    CHECK_EQ(get(buckets, "never seen", limit, START), 1); /* a look needs no room */
    CHECK_EQ(take(buckets, "0", limit, 1, START), 0);      /* the first one is still there */
    CHECK_EQ(take(buckets, "999", limit, 1, START + 60 * WEIR_SEC), 1);
    weir_records_free(buckets);
}

TEST(keys_are_any_bytes_and_may_be_empty)
{
    const struct smyte_limit limit = {3, 3, 1000};
    struct records *buckets = make(100);
    struct smyte_request question = {.verb = SMYTE_REDUCE, .limit = limit, .take = 1};
    CHECK_EQ(weir_smyte_do(buckets, "a\0b", 3, &question, START).tokens, 3);
    CHECK_EQ(weir_smyte_do(buckets, "a\0c", 3, &question, START).tokens, 3);
    CHECK_EQ(weir_smyte_do(buckets, "a\0b", 3, &question, START).tokens, 2);
    CHECK_EQ(weir_smyte_do(buckets, "", 0, &question, START).tokens, 3);
    CHECK_EQ(weir_smyte_do(buckets, "", 0, &question, START).tokens, 2);
    weir_records_free(buckets);
    weir_records_free(NULL);
}
