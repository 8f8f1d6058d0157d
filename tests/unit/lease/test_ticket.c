/* SPDX-License-Identifier: MIT */
/*
 * The arithmetic of tickets: sums are exact, times err on the safe side, and no input overflows.
 */
#include "base/sat.h"
#include "check.h"
#include "lease/ticket.h"
#include "weir.h"

static struct lease_terms quota(int64_t total, int64_t chunk)
{
    return (struct lease_terms){
        .kind = LEASE_QUOTA, .total = total, .window_ns = 60 * WEIR_SEC, .base = chunk, .chunk = chunk};
}

static struct lease_terms bucket(int64_t rate, int64_t burst, int64_t chunk)
{
    return (struct lease_terms){.kind = LEASE_BUCKET,
                                .total = rate,
                                .window_ns = WEIR_SEC,
                                .burst = burst,
                                .base = chunk,
                                .chunk = chunk};
}

/* ---- terms ---- */

static void check_refused(struct lease_terms terms, const char *want)
{
    char why[300] = "";
    CHECK(!weir_terms_complete(&terms, 1, why, sizeof why));
    if (!CHECK(strstr(why, want) != NULL))
        printf("# '%s' says nothing of '%s'\n", why, want);
}

static struct lease_terms completed(struct lease_terms terms, int64_t nodes)
{
    char why[300] = "";
    if (!CHECK(weir_terms_complete(&terms, nodes, why, sizeof why)))
        printf("# %s\n", why);
    return terms;
}

TEST(base_is_a_hundredth_of_the_total_for_each_node)
{
    CHECK_EQ(completed(quota(50000000, 0), 500).base, 1000);
    CHECK_EQ(completed(quota(50000000, 0), 500).chunk, 1000);
    CHECK_EQ(completed(quota(50000000, 0), 0).base, 500000);
    CHECK_EQ(completed(quota(99, 0), 10).base, 1);
    CHECK_EQ(completed(bucket(10000, 20000, 0), 10).base, 10);
    CHECK_EQ(completed(bucket(1000, 8, 0), 1).base, 2); /* four of them fit into the burst */
    CHECK_EQ(completed(quota(100, 10), 500).base, 10);
    CHECK_EQ(completed(quota(TICKET_TOTAL_MAX, 0), 100000000).chunk, TICKET_TOTAL_MAX / TICKET_COUNT_MAX);
}

TEST(terms_that_no_fleet_can_have_are_refused_in_words)
{
    struct lease_terms terms = quota(100, 200);
    check_refused(terms, "base 200 is above the total of 100");
    check_refused(quota(0, 1), "a total of 0 lets nothing pass");
    check_refused(quota(-5, 1), "a total of -5");
    check_refused(quota(100, -1), "not below 0");
    check_refused(quota(TICKET_TOTAL_MAX + 1, 0), "count in larger units");
    check_refused(quota(TICKET_TOTAL_MAX, 1), "a base of at least 1000000");
    terms = quota(100, 10);
    terms.window_ns = 0;
    check_refused(terms, "a window has to last");
    terms.window_ns = TICKET_WINDOW_MIN - 1;
    check_refused(terms, "10 ms is the least");
    terms.window_ns = TICKET_WINDOW_MAX + 1;
    check_refused(terms, "at most 366 days");
    terms.window_ns = TICKET_WINDOW_MIN;
    (void)completed(terms, 1);
    terms.window_ns = TICKET_WINDOW_MAX;
    (void)completed(terms, 1);
    terms.chunk = 101;
    check_refused(terms, "a chunk of 101 is above the total");
    terms.kind = 7;
    check_refused(terms, "a quota or a bucket");
    check_refused(bucket(1000, 19, 10), "below two chunks of 10");
    check_refused(bucket(1000, 0, 0), "a burst of 0 is below two chunks of 1");
    (void)completed(bucket(1000, 20, 10), 1);
    check_refused(bucket(1000000000, 20, 10), "less than 1 ms");
}

/* ---- a quota ---- */

TEST(tickets_of_a_quota_add_up_to_its_total)
{
    struct lease_terms terms = quota(105, 10);
    CHECK_EQ(weir_ticket_count(&terms), 11);
    CHECK_EQ(weir_ticket_units(&terms, 0, 0), 0);
    CHECK_EQ(weir_ticket_units(&terms, -1, 0), 0);
    CHECK_EQ(weir_ticket_units(&terms, 1, 0), 10);
    CHECK_EQ(weir_ticket_units(&terms, 10, 0), 10);
    CHECK_EQ(weir_ticket_units(&terms, 11, 0), 5);
    CHECK_EQ(weir_ticket_units(&terms, 12, 0), 0);
    CHECK_EQ(weir_ticket_units(&terms, 12, 1), 5);
    CHECK_EQ(weir_ticket_units(&terms, 12, 2), 10);
    CHECK_EQ(weir_ticket_left(&terms, 0, 0), 105);
    CHECK_EQ(weir_ticket_left(&terms, 10, 0), 5);
    CHECK_EQ(weir_ticket_left(&terms, 11, 0), 0);
    CHECK_EQ(weir_ticket_left(&terms, 12, 2), 5);
    CHECK_EQ(weir_ticket_left(&terms, 12, 1), 0);
    CHECK_EQ(weir_ticket_left(&terms, -3, -3), 105);
    terms = quota(100, 10);
    CHECK_EQ(weir_ticket_count(&terms), 10);
    CHECK_EQ(weir_ticket_units(&terms, 11, 0), 0);
}

/* Whoever sees returns late, or never, gets no more; all together at most the total and what came back. */
TEST(late_sight_of_returns_mints_nothing)
{
    struct rng rng = rng_new(1);
    for (int story = 0; story < 20000; story++) {
        struct lease_terms terms = quota(rng_between(&rng, 1, 60), rng_between(&rng, 1, 20));
        int64_t granted = 0, returned = 0;
        for (int64_t number = 1; number < 20; number++) {
            int64_t units = weir_ticket_units(&terms, number, rng_between(&rng, 0, returned));
            CHECK(units <= terms.chunk);
            granted += units;
            if (units == terms.chunk && rng_between(&rng, 0, 2) == 0)
                returned++;
        }
        CHECK(granted <= terms.total + returned * terms.chunk);
    }
}

TEST(left_is_the_sum_of_the_tickets_to_come)
{
    struct rng rng = rng_new(2);
    for (int story = 0; story < 20000; story++) {
        struct lease_terms terms = quota(rng_between(&rng, 1, 60), rng_between(&rng, 1, 20));
        int64_t used = rng_between(&rng, 0, 30), returned = rng_between(&rng, 0, 5), sum = 0;
        for (int64_t number = used + 1; number < 100; number++)
            sum += weir_ticket_units(&terms, number, returned);
        CHECK_EQ(weir_ticket_left(&terms, used, returned), sum);
    }
}

/* ---- chunks ---- */

TEST(chunks_grow_when_all_is_used_up_early_and_shrink_when_late)
{
    struct lease_terms terms = quota(100000, 100);
    int64_t window = terms.window_ns;
    CHECK_EQ(weir_chunk_next(&terms, 1000, window / 8, 10), 100); /* a hundred for each of ten: no more fit */
    CHECK_EQ(weir_chunk_next(&terms, 1000, window / 8, 2), 200);
    CHECK_EQ(weir_chunk_next(&terms, 1000, window / 8, 0), 100); /* nobody knows how many nodes there are */
    CHECK_EQ(weir_chunk_next(&terms, 1000, window / 2, 0), 50);
    CHECK_EQ(weir_chunk_next(&terms, 1000, window / 2, 2),
             100); /* a hundred for each of two fit: no smaller */
    CHECK_EQ(weir_chunk_next(&terms, 1000, window / 2, 13), 76); /* of 13 as well as may be */
    CHECK_EQ(weir_chunk_next(&terms, 1000, window, 2), 100);
    terms.chunk = 400;
    CHECK_EQ(weir_chunk_next(&terms, 1000, window / 8, 2), 400); /* four times base */
    CHECK_EQ(weir_chunk_next(&terms, 3, window, 2), 200);
    terms.chunk = 25;
    CHECK_EQ(weir_chunk_next(&terms, 4000, window / 2, 0), 25); /* a quarter of it */
    CHECK_EQ(weir_chunk_next(&terms, 4000, window / 2, 1000), 25);
    CHECK_EQ(weir_chunk_next(&terms, 4000, window / 2, 2), 100); /* they cost more than they are good for */
    CHECK_EQ(weir_chunk_next(&terms, 3, window, 0), 50);
    terms = bucket(1000, 100, 60);
    CHECK_EQ(weir_chunk_next(&terms, 1000, 1, 1), 50);
}

TEST(chunks_stay_within_bounds_for_any_numbers)
{
    struct rng rng = rng_new(3);
    for (int i = 0; i < 200000; i++) {
        struct lease_terms terms = {.kind = (int32_t)rng_between(&rng, 0, 1),
                                    .total = rng_magnitude(&rng, INT64_MAX),
                                    .window_ns = rng_magnitude(&rng, INT64_MAX),
                                    .burst = rng_magnitude(&rng, INT64_MAX),
                                    .base = rng_magnitude(&rng, INT64_MAX),
                                    .chunk = rng_magnitude(&rng, INT64_MAX)};
        int64_t chunk = weir_chunk_next(&terms, rng_magnitude(&rng, INT64_MAX),
                                        rng_magnitude(&rng, INT64_MAX), rng_magnitude(&rng, INT64_MAX));
        CHECK(chunk >= 1 && (terms.kind == LEASE_BUCKET || chunk <= max64(terms.total, 1)));
        int64_t starts, ends;
        (void)weir_ticket_span(&terms, rng_magnitude(&rng, INT64_MAX), rng_magnitude(&rng, INT64_MAX),
                               &starts, &ends);
        CHECK(weir_ticket_units(&terms, rng_magnitude(&rng, INT64_MAX), rng_magnitude(&rng, INT64_MAX)) >= 0);
        CHECK(weir_ticket_left(&terms, rng_magnitude(&rng, INT64_MAX), rng_magnitude(&rng, INT64_MAX)) >= 0);
        CHECK(weir_ticket_ahead(&terms) >= 0 && weir_ticket_back(&terms) >= 0);
    }
}

/* ---- a bucket ---- */

TEST(tickets_of_a_bucket_live_where_the_law_lets_them)
{
    struct lease_terms terms = bucket(1000, 110, 10); /* a ticket every 10 ms, for 100 ms */
    int64_t starts, ends;
    CHECK_EQ(weir_ticket_life(&terms), 100 * WEIR_MS);
    CHECK(weir_ticket_span(&terms, 0, 0, &starts, &ends));
    CHECK_EQ(starts, 0);
    CHECK_EQ(ends, 100 * WEIR_MS);
    CHECK(weir_ticket_span(&terms, 7, 50 * WEIR_MS, &starts, &ends));
    CHECK_EQ(starts, 20 * WEIR_MS);
    CHECK_EQ(ends, 120 * WEIR_MS);
    CHECK(weir_ticket_span(&terms, 0, 100 * WEIR_MS - 1, &starts, &ends));
    CHECK(!weir_ticket_span(&terms, 0, 100 * WEIR_MS, &starts, &ends));
    CHECK_EQ(weir_ticket_ahead(&terms), 50 * WEIR_MS);
    CHECK_EQ(weir_ticket_back(&terms), 75 * WEIR_MS);
    CHECK_EQ(weir_ticket_units(&terms, 0, 0), 10);
    CHECK_EQ(weir_ticket_units(&terms, TICKET_COUNT_MAX, 0), 0);
    CHECK(weir_ticket_span(&terms, -1, 0, &starts, &ends));
    CHECK_EQ(starts, INT64_MAX); /* it has no number: never */
}

/* 7 units in 3 s in chunks of 2 divide into nothing whole: starts go up, ends go down. */
TEST(times_of_tickets_round_to_the_safe_side)
{
    struct lease_terms terms = bucket(7, 11, 2);
    terms.window_ns = 3 * WEIR_SEC;
    for (int64_t k = 0; k < 1000; k++) {
        int64_t starts, ends;
        (void)weir_ticket_span(&terms, k, 0, &starts, &ends);
        CHECK((weir_i128)starts * 7 >= (weir_i128)k * 2 * terms.window_ns);
        CHECK((weir_i128)(starts - 1) * 7 < (weir_i128)k * 2 * terms.window_ns);
        CHECK((weir_i128)ends * 7 <= (weir_i128)(k * 2 + 9) * terms.window_ns);
        CHECK((weir_i128)(ends + 1) * 7 > (weir_i128)(k * 2 + 9) * terms.window_ns);
    }
}
