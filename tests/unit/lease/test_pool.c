/* SPDX-License-Identifier: MIT */
/*
 * A pool, one order after the other.
 */
#include "base/sat.h"
#include "check.h"
#include "lease/pool.h"
#include "weir.h"

#define MS WEIR_MS

static const struct lease_terms hundred = {
    .kind = LEASE_QUOTA, .total = 100, .window_ns = WEIR_SEC, .base = 10, .chunk = 10};
static const struct lease_terms flow = {
    .kind = LEASE_BUCKET, .total = 1000, .window_ns = WEIR_SEC, .burst = 110, .base = 10, .chunk = 10};

static struct lease_reply apply(struct lease_pool *pool, int32_t op, uint64_t epoch, int64_t chunks,
                                int64_t now)
{
    static uint64_t id;
    struct lease_order order = {.id = ++id, .op = op, .epoch = epoch, .chunks = chunks, .chunk = 10};
    struct lease_reply reply;
    weir_pool_apply(pool, &order, now, &reply);
    CHECK_EQ(reply.id, id);
    CHECK_EQ(reply.op, op);
    CHECK_EQ(reply.epoch, pool->epoch);
    return reply;
}

/* ---- quotas that nodes turn ---- */

TEST(a_quota_gives_out_its_total_and_no_more)
{
    struct lease_pool pool;
    weir_pool_begin(&pool, POOL_TURNED, &hundred, 5 * WEIR_SEC);
    CHECK_EQ(pool.epoch, 1);
    struct lease_reply reply = apply(&pool, LEASE_TAKE, 0, 3, 5 * WEIR_SEC + 7);
    CHECK_EQ(reply.outcome, LEASE_DONE);
    CHECK_EQ(reply.units, 30);
    CHECK_EQ(reply.left, 70);
    CHECK_EQ(reply.age_ns, 7);
    CHECK(!reply.age_exact && !reply.exhausted);
    CHECK_EQ(reply.ends_ns, -1);
    reply = apply(&pool, LEASE_TAKE, 0, 9, 5 * WEIR_SEC + 8);
    CHECK_EQ(reply.units, 70);
    CHECK_EQ(reply.chunks, 7);
    CHECK(reply.exhausted);
    CHECK_EQ(reply.retry_ns, 0);
    CHECK_EQ(apply(&pool, LEASE_TAKE, 0, 1, 60 * WEIR_SEC).units, 0);
    CHECK_EQ(apply(&pool, LEASE_TAKE, 0, -4, 60 * WEIR_SEC).units, 0);
    CHECK_EQ(apply(&pool, LEASE_TAKE, 0, INT64_MAX, 60 * WEIR_SEC).units, 0);
}

TEST(one_of_those_who_turn_wins)
{
    struct lease_pool pool;
    weir_pool_begin(&pool, POOL_TURNED, &hundred, 0);
    CHECK_EQ(apply(&pool, LEASE_TAKE, 0, 100, 0).units, 100);
    struct lease_reply reply = apply(&pool, LEASE_TURN, 1, 0, WEIR_SEC);
    CHECK_EQ(reply.outcome, LEASE_DONE);
    CHECK_EQ(reply.epoch, 2);
    CHECK_EQ(reply.left, 100);
    CHECK_EQ(reply.age_ns, 0);
    CHECK_EQ(apply(&pool, LEASE_TURN, 1, 0, WEIR_SEC).outcome, LEASE_MOVED);
    CHECK_EQ(pool.epoch, 2);
    CHECK_EQ(apply(&pool, LEASE_PROBE, 0, 0, WEIR_SEC).outcome, LEASE_DONE);
    CHECK_EQ(apply(&pool, LEASE_LOOK, 0, 0, WEIR_SEC).left, 100);
}

TEST(what_comes_back_can_be_taken_again_in_its_own_epoch)
{
    struct lease_pool pool;
    weir_pool_begin(&pool, POOL_TURNED, &hundred, 0);
    CHECK_EQ(apply(&pool, LEASE_RETURN, 1, 3, 0).chunks, 0); /* nothing is out */
    (void)apply(&pool, LEASE_TAKE, 0, 10, 0);
    CHECK_EQ(apply(&pool, LEASE_RETURN, 1, 2, 0).chunks, 2);
    CHECK_EQ(apply(&pool, LEASE_RETURN, 1, -2, 0).chunks, 0);
    struct lease_reply reply = apply(&pool, LEASE_TAKE, 0, 5, 0);
    CHECK_EQ(reply.units, 20);
    CHECK(reply.exhausted);
    CHECK_EQ(apply(&pool, LEASE_RETURN, 1, INT64_MAX, 0).chunks, 10);
    (void)apply(&pool, LEASE_TURN, 1, 0, 0);
    CHECK_EQ(apply(&pool, LEASE_RETURN, 1, 2, 0).outcome, LEASE_MOVED);
    CHECK_EQ(pool.returned, 0);
}

TEST(other_terms_hold_from_the_next_epoch_on)
{
    struct lease_pool pool;
    struct lease_terms more = hundred;
    more.total = 500;
    weir_pool_begin(&pool, POOL_TURNED, &hundred, 0);
    weir_pool_set(&pool, &more);
    CHECK_EQ(apply(&pool, LEASE_TAKE, 0, 1000, 0).units, 100);
    (void)apply(&pool, LEASE_TURN, 1, 0, WEIR_SEC);
    CHECK_EQ(apply(&pool, LEASE_TAKE, 0, 1000, WEIR_SEC).units, 500);
}

/* A chunk that a node has thought of may be anything. */
TEST(a_chunk_that_cannot_be_is_not_taken_over)
{
    static const int64_t chunks[] = {INT64_MIN, -1, 0, 1, 100, 101, INT64_MAX};
    for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++) {
        struct lease_pool pool;
        struct lease_reply reply;
        weir_pool_begin(&pool, POOL_TURNED, &hundred, 0);
        struct lease_order order = {.op = LEASE_TURN, .epoch = 1, .chunk = chunks[i]};
        weir_pool_apply(&pool, &order, WEIR_SEC, &reply);
        CHECK(pool.terms.chunk >= 1 && pool.terms.chunk <= 100);
        CHECK_EQ(apply(&pool, LEASE_TAKE, 0, 1000, WEIR_SEC).units, 100);
    }
}

TEST(a_clock_that_stepped_back_tells_no_age)
{
    struct lease_pool pool;
    weir_pool_begin(&pool, POOL_TURNED, &hundred, WEIR_SEC);
    CHECK_EQ(apply(&pool, LEASE_PROBE, 0, 0, WEIR_SEC - 1).age_ns, -1);
}

/* ---- quotas that turn themselves ---- */

TEST(a_pool_with_a_clock_says_how_long_grants_hold)
{
    struct lease_pool pool;
    weir_pool_begin(&pool, POOL_TURNS, &hundred, 0);
    struct lease_reply reply = apply(&pool, LEASE_TAKE, 0, 10, 300 * MS);
    CHECK_EQ(reply.ends_ns, 700 * MS);
    CHECK(reply.age_exact);
    reply = apply(&pool, LEASE_TAKE, 0, 1, 400 * MS);
    CHECK(reply.exhausted);
    CHECK_EQ(reply.retry_ns, 600 * MS);
    CHECK_EQ(apply(&pool, LEASE_TURN, 1, 0, 400 * MS).outcome, LEASE_MOVED);
    CHECK_EQ(apply(&pool, LEASE_TAKE, 0, 1, WEIR_SEC - 1).units, 0);
    CHECK_EQ(apply(&pool, LEASE_TAKE, 0, 1, WEIR_SEC).epoch, 2);
    CHECK_EQ(apply(&pool, LEASE_RETURN, 1, 1, WEIR_SEC).outcome, LEASE_MOVED);
}

TEST(a_window_begins_when_somebody_asks)
{
    struct lease_pool pool;
    weir_pool_begin(&pool, POOL_TURNS, &hundred, 0);
    (void)apply(&pool, LEASE_TAKE, 0, 1, 0);
    struct lease_reply reply = apply(&pool, LEASE_TAKE, 0, 1, 1700 * MS);
    CHECK_EQ(reply.epoch, 2);
    CHECK_EQ(reply.ends_ns, WEIR_SEC);
}

/* ---- buckets ---- */

/* The most that may be spent in any stretch, by an exact bucket over all tickets at their worst moments. */
TEST(a_bucket_never_gives_more_than_burst_and_rate)
{
    struct rng rng = rng_new(1);
    for (int way = POOL_TURNED; way <= POOL_TURNS; way++)
        for (int story = 0; story < 300; story++) {
            struct lease_pool pool;
            struct lease_terms terms = flow;
            terms.total = rng_between(&rng, 10, 5000);
            terms.burst = rng_between(&rng, 20, 400);
            terms.chunk = terms.base = rng_between(&rng, 1, terms.burst / 2);
            weir_pool_begin(&pool, (enum lease_pool_flags)way, &terms, WEIR_SEC);
            weir_i128 full = (weir_i128)terms.burst * WEIR_SEC, level = full;
            int64_t now = WEIR_SEC, at = now;
            for (int i = 0; i < 200; i++) {
                now += rng_between(&rng, 0, rng_between(&rng, 0, 9) ? 20 * MS : 2 * WEIR_SEC);
                struct lease_reply reply = apply(&pool, LEASE_TAKE, 0, rng_between(&rng, 1, 5), now);
                if (reply.stale)
                    (void)apply(&pool, LEASE_TURN, pool.epoch, 0, now);
                if (reply.units == 0 || reply.starts_ns > 0)
                    continue; /* spent at once, by a clock that is right */
                CHECK(reply.ends_ns > 0);
                level += (weir_i128)terms.total * (now - at);
                level = (level > full ? full : level) - (weir_i128)reply.units * WEIR_SEC;
                at = now;
                CHECK(level >= 0);
            }
        }
}

TEST(a_bucket_is_not_numbered_anew_while_tickets_live)
{
    struct lease_pool pool;
    weir_pool_begin(&pool, POOL_TURNED, &flow, WEIR_SEC);
    struct lease_reply reply = apply(&pool, LEASE_TAKE, 0, 3, WEIR_SEC);
    CHECK_EQ(reply.units, 30);
    CHECK(!reply.stale);
    reply = apply(&pool, LEASE_TURN, 1, 0, WEIR_SEC);
    CHECK_EQ(reply.outcome, LEASE_FAILED);
    CHECK_EQ(pool.epoch, 1);
    int64_t starts, ends;
    (void)weir_ticket_span(&flow, 3, WEIR_SEC - pool.began_ns, &starts, &ends);
    CHECK(!apply(&pool, LEASE_LOOK, 0, 0, WEIR_SEC + ends - 1).stale);
    reply = apply(&pool, LEASE_TAKE, 0, 1, WEIR_SEC + ends);
    CHECK(reply.stale && reply.exhausted);
    CHECK_EQ(reply.units, 0);
    CHECK_EQ(apply(&pool, LEASE_TURN, 1, 0, WEIR_SEC + ends).outcome, LEASE_DONE);
    CHECK_EQ(apply(&pool, LEASE_TAKE, 0, 1, WEIR_SEC + ends + 20 * MS).units,
             10); /* there is time to take it */
}

/* Its next ticket would start in an hour. All that was issued is dead when the new ones begin. */
TEST(a_bucket_whose_clock_was_set_back_is_numbered_anew)
{
    struct lease_pool pool;
    weir_pool_begin(&pool, POOL_TURNED, &flow, 3600 * WEIR_SEC);
    CHECK(apply(&pool, LEASE_TAKE, 0, 1, 3600 * WEIR_SEC).units > 0);
    struct lease_reply reply = apply(&pool, LEASE_TAKE, 0, 1, WEIR_SEC);
    CHECK(reply.stale && reply.exhausted);
    CHECK_EQ(reply.units, 0);
    CHECK_EQ(apply(&pool, LEASE_TURN, 1, 0, WEIR_SEC).outcome, LEASE_DONE);
    int64_t dead = WEIR_SEC + weir_ticket_ahead(&flow) + weir_ticket_life(&flow);
    CHECK(pool.began_ns > dead && pool.began_ns < dead + MS);
}

TEST(a_bucket_with_a_clock_passes_over_what_has_died)
{
    struct lease_pool pool;
    weir_pool_begin(&pool, POOL_TURNS, &flow, WEIR_SEC);
    (void)apply(&pool, LEASE_TAKE, 0, 1, WEIR_SEC);
    struct lease_reply reply = apply(&pool, LEASE_TAKE, 0, 100, 500 * WEIR_SEC);
    CHECK(!reply.stale);
    CHECK_EQ(reply.epoch, 1);
    CHECK(reply.units >= 70 && reply.units <= 85);
    CHECK(reply.ends_ns >= 25 * MS);
}

TEST(a_ticket_may_be_had_before_its_time_but_not_by_far)
{
    struct lease_pool pool;
    weir_pool_begin(&pool, POOL_TURNS, &flow, WEIR_SEC);
    (void)apply(&pool, LEASE_TAKE, 0, 100, WEIR_SEC);
    struct lease_reply reply = apply(&pool, LEASE_TAKE, 0, 100, WEIR_SEC);
    CHECK_EQ(reply.units, 10);
    CHECK(reply.starts_ns > 0 && reply.starts_ns <= 10 * MS);
    for (int i = 0; i < 20 && !reply.exhausted; i++)
        reply = apply(&pool, LEASE_TAKE, 0, 1, WEIR_SEC);
    CHECK(reply.exhausted);
    CHECK(reply.retry_ns > 0 && reply.retry_ns <= 10 * MS);
    CHECK_EQ(apply(&pool, LEASE_TAKE, 0, 1, WEIR_SEC + reply.retry_ns).units, 10);
}

/* A change of terms adds nothing: what was issued dies first, and then there is nothing saved up. */
TEST(other_terms_of_a_bucket_begin_when_its_tickets_have_died)
{
    for (int way = POOL_TURNED; way <= POOL_TURNS; way++) {
        struct lease_pool pool;
        struct lease_terms more = flow;
        more.total = 2000;
        weir_pool_begin(&pool, (enum lease_pool_flags)way, &flow, WEIR_SEC);
        struct lease_reply reply = apply(&pool, LEASE_TAKE, 0, 100, WEIR_SEC);
        int64_t starts, ends;
        (void)weir_ticket_span(&flow, pool.used, WEIR_SEC - pool.began_ns, &starts, &ends);
        weir_pool_set(&pool, &more);
        if (way == POOL_TURNED) {
            CHECK(apply(&pool, LEASE_LOOK, 0, 0, WEIR_SEC).stale);
            CHECK_EQ(apply(&pool, LEASE_TURN, 1, 0, WEIR_SEC).outcome, LEASE_DONE);
        }
        reply = apply(&pool, LEASE_TAKE, 0, 100, WEIR_SEC);
        CHECK_EQ(reply.epoch, 2);
        CHECK_EQ(reply.terms.total, 2000);
        CHECK(pool.began_ns > WEIR_SEC + ends);
        CHECK(reply.units == 0 || reply.starts_ns > ends);
    }
}

/* Whatever is said to it, at whatever times: sums hold, nothing overflows. */
TEST(any_orders_at_any_time)
{
    struct rng rng = rng_new(2);
    for (int story = 0; story < 2000; story++) {
        struct lease_pool pool;
        int64_t granted = 0, returned = 0;
        uint64_t epoch = 1;
        weir_pool_begin(&pool, (enum lease_pool_flags)rng_between(&rng, 0, 1), story % 2 ? &hundred : &flow,
                        rng_magnitude(&rng, INT64_MAX));
        for (int i = 0; i < 100; i++) {
            struct lease_order order = {.op = (int32_t)rng_between(&rng, -1, 6),
                                        .epoch = pool.epoch - (uint64_t)rng_between(&rng, 0, 1),
                                        .chunks = rng_magnitude(&rng, INT64_MAX) - rng_between(&rng, 0, 3),
                                        .chunk = rng_magnitude(&rng, INT64_MAX)};
            struct lease_reply reply;
            weir_pool_apply(&pool, &order, rng_magnitude(&rng, INT64_MAX), &reply);
            if (pool.epoch != epoch)
                granted = returned = 0, epoch = pool.epoch;
            CHECK(reply.units >= 0 && reply.left >= 0 && reply.retry_ns >= 0);
            if (order.op == LEASE_TAKE)
                granted += reply.units;
            if (order.op == LEASE_RETURN && reply.outcome == LEASE_DONE)
                returned += reply.units;
            if (pool.terms.kind == LEASE_QUOTA)
                CHECK(granted <= pool.terms.total + returned);
        }
    }
}
