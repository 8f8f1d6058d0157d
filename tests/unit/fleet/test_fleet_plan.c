/* SPDX-License-Identifier: MIT */
/*
 * What a fleet costs, and what is refused before it is tried.
 */
#include "check.h"
#include "fleet/plan.h"
#include "weir.h"

static struct fleet_plan_input quota(int64_t total, int64_t window_ns, int64_t chunk, int64_t nodes)
{
    return (struct fleet_plan_input){
        .terms = {.kind = LEASE_QUOTA, .total = total, .window_ns = window_ns, .base = chunk, .chunk = chunk},
        .nodes = nodes,
        .scheme = "zookeeper"};
}

static struct fleet_plan_input bucket(int64_t rate, int64_t burst, int64_t chunk, int64_t nodes)
{
    struct fleet_plan_input ask = quota(rate, WEIR_SEC, chunk, nodes);
    ask.terms.kind = LEASE_BUCKET;
    ask.terms.burst = burst;
    return ask;
}

static struct fleet_plan made;
static const struct fleet_plan *make(struct fleet_plan_input ask)
{
    weir_fleet_plan_make(&made, &ask);
    return &made;
}

TEST(five_hundred_nodes)
{
    struct fleet_plan_input ask = quota(50000000, 60 * WEIR_SEC, 1000, 500);
    ask.share = true;
    const struct fleet_plan *plan = make(ask);
    CHECK(plan->works);
    CHECK_STR(plan->cost,
              "chunk 1 000, at most 1 % unspent in chunks, 50 000 coordinator writes a minute (833/s)");
    CHECK_STR(plan->lost, "coordinator lost: each node may pass 100 000 a minute for itself; worst case, in "
                          "the minute of the loss: twice the total");
    CHECK_EQ(plan->over, 50000000);
    CHECK_STR(plan->why, "");
}

TEST(refusing_is_never_over)
{
    const struct fleet_plan *plan = make(quota(50000000, 60 * WEIR_SEC, 1000, 500));
    CHECK_STR(plan->lost,
              "coordinator lost: what nodes hold is spent, then all is refused; never above the limit");
    CHECK_EQ(plan->over, 0);
    CHECK_EQ(plan->share, 0);
}

TEST(trusting_fleets_are_told_what_it_costs)
{
    struct fleet_plan_input ask = quota(1000000, 90 * WEIR_SEC, 100, 20);
    ask.trust = true;
    ask.scheme = "redis";
    const struct fleet_plan *plan = make(ask);
    CHECK_EQ(plan->over, 0);
    CHECK_STR(plan->lost, "coordinator lost: what nodes hold is spent, then all is refused; never above the "
                          "limit; failover=trust: what a failover loses can pass once more");
}

TEST(numbers_have_words)
{
    CHECK_STR(make(quota(100, 3600 * WEIR_SEC, 100, 1))->cost,
              "chunk 100, at most 100 % unspent in chunks, 1 coordinator write an hour (less than 0.01/s)");
    CHECK_STR(make(quota(1000, 86400 * WEIR_SEC, 1, 4))->cost,
              "chunk 1, at most 0.4 % unspent in chunks, 1 000 coordinator writes a day (0.012/s)");
    CHECK_STR(make(quota(1000, WEIR_SEC, 2, 5))->cost,
              "chunk 2, at most 1 % unspent in chunks, 500 coordinator writes a second");
}

TEST(less_than_one_for_each_is_refused)
{
    CHECK(make(quota(500, 60 * WEIR_SEC, 1, 500))->works);
    const struct fleet_plan *plan = make(quota(499, 60 * WEIR_SEC, 1, 500));
    CHECK(!plan->works);
    CHECK_STR(plan->why,
              "499 a minute for 500 nodes is less than one for each: chunks cannot share that out; "
              "let one server decide each key (a policy without fleet:, asked by all), or say "
              "fewer nodes");
}

TEST(more_writes_than_the_coordinator_can_do_are_refused)
{
    CHECK(make(quota(1000, WEIR_SEC, 1, 10))->works);
    const struct fleet_plan *plan = make(quota(50000000, WEIR_SEC, 1000, 500));
    CHECK(!plan->works);
    CHECK_STR(plan->why, "50 000/s are more writes than the coordinator is good for, 1 000/s: let the nodes "
                         "lease from a few weir servers (weir://), which then are the nodes; writes=N says "
                         "what yours is good for");
    plan = make(quota(50000000, WEIR_SEC, 1000, 50));
    CHECK_STR(plan->why, "50 000/s are more writes than the coordinator is good for, 1 000/s: base=50000 "
                         "would do, with at most 5 % unspent; or let the nodes lease from a few weir "
                         "servers (weir://), which then are the nodes; writes=N says what yours is good for");
    struct fleet_plan_input ask = quota(50000000, WEIR_SEC, 1000, 500);
    ask.writes = 50000;
    CHECK(make(ask)->works);
    ask.writes = 49999;
    CHECK(!make(ask)->works);
    ask.writes = 0;
    ask.scheme = "weir";
    CHECK(make(ask)->works);
    ask.scheme = "redis+cluster";
    CHECK(!make(ask)->works);
    ask.scheme = "local";
    CHECK(make(ask)->works);
}

/* What is proposed works. */
TEST(the_alternative_works)
{
    for (int64_t total = 1000; total <= INT64_C(1000000000); total *= 10)
        for (int64_t nodes = 1; nodes <= 1000; nodes *= 10) {
            struct fleet_plan_input ask = quota(total, WEIR_SEC, 1, nodes);
            const struct fleet_plan *plan = make(ask);
            const char *base = strstr(plan->why, "base=");
            if (plan->works || !base)
                continue;
            ask.terms.chunk = strtoll(base + 5, NULL, 10);
            CHECK(make(ask)->works);
            ask.terms.chunk--;
            CHECK(ask.terms.chunk < 1 || !make(ask)->works);
        }
}

TEST(a_window_below_ten_round_trips_is_refused)
{
    struct fleet_plan_input ask = quota(1000, 100 * WEIR_MS, 100, 2);
    CHECK(make(ask)->works);
    ask.terms.window_ns--;
    CHECK(!make(ask)->works);
    CHECK_STR(made.why, "a window of 100 ms is shorter than 10 round trips to the coordinator, about 10 ms "
                        "each: use windows of 100 ms or more, or a bucket, as in 10k/s burst=20k");
    ask.scheme = "redis";
    CHECK(make(ask)->works);
    ask.terms.window_ns = 9 * WEIR_MS;
    CHECK(!make(ask)->works);
    ask.scheme = "local";
    CHECK(make(ask)->works);
}

TEST(a_bucket_needs_two_chunks)
{
    const struct fleet_plan *plan = make(bucket(10000, 20000, 1000, 10));
    CHECK(plan->works);
    CHECK_STR(plan->cost,
              "chunk 1 000, at most 50 % of the burst held in chunks, 10 coordinator writes a second");
    CHECK(make(bucket(10000, 2000, 1000, 2))->works);
    plan = make(bucket(10000, 1999, 1000, 1));
    CHECK(!plan->works);
    CHECK_STR(plan->why,
              "a burst of 1 999 does not hold two chunks of 1 000, so a chunk would be dead when it "
              "comes: use burst=2000 or more, or a base of 999 or less");
}

TEST(a_bucket_is_told_of_no_chunk_that_it_cannot_hold)
{
    const struct fleet_plan *plan = make(bucket(10000000, 100000, 1, 10));
    CHECK_STR(plan->why, "10 000 000/s are more writes than the coordinator is good for, 1 000/s: base=10000 "
                         "would do, with at most 100 % of the burst held; or let the nodes lease from a few "
                         "weir servers (weir://), which then are the nodes; writes=N says what yours is good "
                         "for");
    plan = make(bucket(10000000, 99999, 1, 10));
    CHECK(!plan->works);
    CHECK(strstr(plan->why, "base=") == NULL);
    plan = make(bucket(10000000, 19999, 1, 1));
    CHECK(strstr(plan->why, "base=") == NULL);
    CHECK(strstr(make(bucket(10000000, 20000, 1, 1))->why, "base=10000 would do") != NULL);
}

TEST(a_burst_without_a_chunk_for_each_node_is_refused)
{
    CHECK(make(bucket(100, 500, 1, 500))->works);
    const struct fleet_plan *plan = make(bucket(100, 499, 1, 500));
    CHECK(!plan->works);
    CHECK_STR(plan->why,
              "a burst of 499 is less than a chunk of 1 for each of 500 nodes, so there would always "
              "be some that have none: use burst=500 or more, fewer nodes, or let one server "
              "decide each key (a policy without fleet:, asked by all)");
    CHECK(make(bucket(1000, 5000, 10, 500))->works);
    plan = make(bucket(1000, 4999, 10, 500));
    CHECK_STR(plan->why, "a burst of 4 999 is less than a chunk of 10 for each of 500 nodes, so there would "
                         "always be some that have none: use burst=5000 or more, a base of 9 or less, fewer "
                         "nodes, or let one server decide each key (a policy without fleet:, asked by all)");
}

/* Then a unit costs what a decision of the coordinator would. */
TEST(chunks_of_one_unit_are_noted_where_they_are_many)
{
    struct fleet_plan_input ask = bucket(10000, 20000, 1, 500);
    ask.scheme = "redis";
    CHECK_STR(make(ask)->cost,
              "chunk 1, at most 2.5 % of the burst held in chunks, 10 000 coordinator writes a "
              "second; note: each unit costs a write, base=10 would make it 1 000/s");
    ask.terms.burst = 3999;
    CHECK_STR(make(ask)->cost,
              "chunk 1, at most 13 % of the burst held in chunks, 10 000 coordinator writes a "
              "second; note: each unit costs a write, as if one server decided; fewer nodes, "
              "or weir servers between, would make it less");
    CHECK(strstr(make(quota(6000, 60 * WEIR_SEC, 1, 10))->cost, "each unit costs a write") != NULL);
    CHECK(strstr(make(quota(5999, 60 * WEIR_SEC, 1, 10))->cost, "each unit") == NULL);
    CHECK(strstr(make(quota(60000, 60 * WEIR_SEC, 2, 10))->cost, "each unit") == NULL);
    ask.scheme = "local";
    CHECK(strstr(make(ask)->cost, "each unit") == NULL);
}

/* What is proposed is accepted. */
TEST(the_base_of_the_note_works)
{
    for (int64_t burst = 2; burst < 100000; burst = burst * 3 / 2 + 1)
        for (int64_t nodes = 1; nodes <= 1000; nodes *= 10) {
            struct fleet_plan_input ask = bucket(10000, burst, 1, nodes);
            ask.scheme = "redis";
            const struct fleet_plan *plan = make(ask);
            const char *base = strstr(plan->cost, "base=");
            if (!plan->works || !base)
                continue;
            ask.terms.chunk = strtoll(base + 5, NULL, 10);
            CHECK(ask.terms.chunk > 1 && make(ask)->works);
        }
}

TEST(no_number_breaks_it)
{
    static const int64_t numbers[] = {0, 1, 2, 1000, INT64_C(1000000000000000), INT64_MAX};
    static const char *const schemes[] = {"zookeeper", "redis", "weir", "local", ""};
    size_t count = sizeof numbers / sizeof numbers[0];
    for (size_t i = 0; i < count * count * count * 5 * 2; i++) {
        struct fleet_plan_input ask =
            quota(numbers[i % count], numbers[i / count % count] ? numbers[i / count % count] : 1,
                  numbers[i / count / count % count], numbers[(i + 3) % count]);
        ask.scheme = schemes[i % 5];
        ask.terms.kind = (int32_t)(i % 2);
        ask.terms.burst = numbers[(i + 1) % count];
        ask.share = i % 3 == 0;
        const struct fleet_plan *plan = make(ask);
        CHECK(plan->works == !plan->why[0]);
        CHECK(strlen(plan->why) < PLAN_TEXT_MAX - 1 && strlen(plan->lost) < PLAN_TEXT_MAX - 1 &&
              strlen(plan->cost) < PLAN_TEXT_MAX - 1);
    }
}
