/* SPDX-License-Identifier: MIT */
/*
 * Units that are kept ready for who comes again: how many, for how long, and when none are.
 */
#include "base/sat.h"
#include "lease_joined.h"

/* Wakes it whenever it wants that, until `to`; every order is answered at once. Gives the units it took. */
static int64_t idle(struct kit_node *node, struct pool *pool, int64_t from, int64_t to)
{
    int64_t before = node->granted;
    for (int64_t t = from; t <= to; t = max64(node->last.wake_ns, t + 1)) {
        kit_event(node, LEASE_WAKE, t);
        kit_settle(node, pool, t);
    }
    return node->granted - before;
}

/* A quota or a bucket that ends its windows itself, which the node has joined, and once asked for n. */
static void visit(struct kit_node *node, struct pool *pool, const struct lease_terms *terms,
                  const struct lease_options *options, int64_t now, int64_t n)
{
    weir_pool_begin(pool, POOL_TURNS, terms, now);
    join(node, pool, options, now);
    (void)kit_take(node, now, n);
    kit_settle(node, pool, now);
}

TEST(who_was_refused_finds_as_much_when_he_comes_again)
{
    struct kit_node node;
    struct pool pool;
    int64_t now = 100 * SEC;
    own_epoch(&node, &pool, NULL, now);
    CHECK(!kit_take(&node, now, 18));
    kit_settle(&node, &pool, now);
    for (int64_t t = now + 100 * MS; t < now + 500 * MS; t += 100 * MS) {
        CHECK(kit_take(&node, t, 18));
        kit_settle(&node, &pool, t);
    }
}

TEST(who_was_refused_long_ago_is_forgotten)
{
    struct kit_node node;
    struct pool pool;
    int64_t now = 100 * SEC;
    own_epoch(&node, &pool, &(struct lease_options){.ready_ns = SEC}, now);
    (void)kit_take(&node, now, 18);
    kit_settle(&node, &pool, now);
    (void)kit_take(&node, now + 600 * MS, 1); /* others go on */
    CHECK_EQ(node.low, 18);
    kit_event(&node, LEASE_WAKE, now + SEC);
    CHECK(node.low < 18);
}

TEST(not_more_is_kept_ready_than_twice_the_base_or_a_part_of_all)
{
    struct kit_node node;
    struct pool pool;
    struct lease_terms large = hundred;
    int64_t now = 100 * SEC;
    own_epoch(&node, &pool, NULL, now);
    (void)kit_take(&node, now, 70);
    CHECK_EQ(node.low, 20);
    large.total = 6400;
    visit(&node, &pool, &large, &(struct lease_options){.nodes = 4}, now, 700);
    CHECK_EQ(node.low, 100);
    visit(&node, &pool, &large, NULL, now, 700); /* of how many nodes is not known */
    CHECK_EQ(node.low, 20);
}

TEST(where_all_is_gone_nothing_is_kept_ready)
{
    struct kit_node node;
    struct pool pool;
    int64_t now = 100 * SEC;
    own_epoch(&node, &pool, NULL, now);
    (void)kit_take(&node, now, 18);
    kit_settle(&node, &pool, now);
    CHECK_EQ(node.low, 18);
    pool.used = 10; /* others */
    (void)kit_take(&node, now + MS, 40);
    kit_settle(&node, &pool, now + MS);
    kit_event(&node, LEASE_WAKE, now + 2 * MS);
    CHECK(node.last.exhausted);
    CHECK_EQ(node.low, 3);
}

TEST(where_a_base_for_each_node_is_much_of_all_nothing_is_kept_ready)
{
    struct kit_node node;
    struct pool pool;
    int64_t now = 100 * SEC;
    for (int64_t nodes = 2; nodes <= 3; nodes++) { /* 20 or 30 of 110 */
        visit(&node, &pool, &flow, &(struct lease_options){.nodes = nodes}, now, 18);
        CHECK_EQ(node.low, nodes == 2 ? 18 : 3);
    }
}

TEST(who_was_there_lately_finds_units_in_the_next_window)
{
    struct kit_node node;
    struct pool pool;
    int64_t now = 100 * SEC;
    visit(&node, &pool, &hundred, NULL, now, 1);
    (void)kit_take(&node, now + 9 * SEC, 8);
    (void)idle(&node, &pool, now + 9 * SEC, now + 11 * SEC);
    CHECK_EQ(pool.used, 1); /* of the next window, and none of the old one when it was about to end */
    CHECK(kit_take(&node, now + 11 * SEC, 5));
}

TEST(a_window_is_begun_by_who_was_there_lately_but_later_than_by_who_wants_it)
{
    struct kit_node node;
    struct pool pool;
    int64_t now = 100 * SEC;
    own_epoch(&node, &pool, NULL, now);
    (void)kit_take(&node, now + 9 * SEC, 8);
    CHECK(node.lease.idle_turn_ns > node.lease.turn_at_ns);
    (void)idle(&node, &pool, now + 9 * SEC, node.lease.idle_turn_ns - 1);
    kit_event(&node, LEASE_WAKE, node.lease.idle_turn_ns - 1);
    kit_settle(&node, &pool, node.lease.idle_turn_ns - 1);
    CHECK_EQ(pool.epoch, 2);
    (void)idle(&node, &pool, node.lease.idle_turn_ns, now + 12 * SEC);
    CHECK_EQ(pool.epoch, 3);
    CHECK(kit_take(&node, now + 12 * SEC, 5));
}

TEST(who_does_not_come_again_is_forgotten)
{
    struct kit_node node;
    struct pool pool;
    int64_t now = 100 * SEC;
    visit(&node, &pool, &hundred, &(struct lease_options){.ready_ns = 3 * SEC}, now, 1);
    (void)kit_take(&node, now + 5 * SEC, 8);
    (void)idle(&node, &pool, now + 5 * SEC, now + 8 * SEC);
    CHECK_EQ(idle(&node, &pool, now + 8 * SEC, now + 100 * SEC), 0);
}

/* Units of a bucket die soon, and who comes now and then would never find any. What that costs has a bound.
 */
TEST(units_that_die_are_replaced_while_somebody_may_come)
{
    int64_t now = 100 * SEC, life = weir_ticket_life(&flow);
    for (int way = POOL_TURNED; way <= POOL_TURNS; way++) {
        struct kit_node node;
        struct pool pool;
        weir_pool_begin(&pool, (enum pool_way)way, &flow, now);
        join(&node, &pool, NULL, now);
        (void)kit_take(&node, now, 5);
        kit_settle(&node, &pool, now);
        uint64_t before = node.lease.next_id;
        (void)idle(&node, &pool, now, now + 3 * life);
        CHECK(way == POOL_TURNED || kit_take(&node, now + 3 * life, 5));
        CHECK(way == POOL_TURNS || node.lease.next_id > before);
        (void)idle(&node, &pool, now + 3 * life, now + 8 * life);
        CHECK(node.lease.next_id - before <= 2 * 4 * 4); /* of two visits, one of which was served */
        CHECK_EQ(idle(&node, &pool, now + 8 * life, now + 200 * life), 0);
    }
}

TEST(where_a_bucket_is_empty_nothing_is_replaced)
{
    struct kit_node node;
    struct pool pool;
    int64_t now = 100 * SEC, life = weir_ticket_life(&flow);
    visit(&node, &pool, &flow, NULL, now, 5);
    pool.used += 25; /* others; after two lives and a half there are some again */
    (void)kit_take(&node, now, 20);
    kit_settle(&node, &pool, now);
    node.wanted = 0; /* he has gone */
    int64_t before = node.granted;
    for (int64_t t = now; t < now + 4 * life; t += life / 4)
        (void)idle(&node, &pool, t, t);
    CHECK_EQ(node.granted, before);
}

TEST(who_waits_is_not_kept_anything_for)
{
    struct kit_node node;
    struct pool pool;
    int64_t now = 100 * SEC;
    own_epoch(&node, &pool, NULL, now);
    node.patient = true;
    (void)kit_take(&node, now, 35);
    CHECK_EQ(node.low, 3);
}
