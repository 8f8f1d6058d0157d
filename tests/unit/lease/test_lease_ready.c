/* SPDX-License-Identifier: MIT */
/*
 * Units that are kept ready for who comes again: how many, for how long, and when none are. And who has come
 * in the middle of a window: how he is there when the next one begins.
 */
#include "base/sat.h"
#include "unit/lease/lease_joined.h"

/* Wakes it whenever it wants that, until `to`; every order is answered at once. Gives the units it took. */
static int64_t idle(struct kit_node *node, struct lease_pool *pool, int64_t from, int64_t to)
{
    int64_t before = node->granted;
    for (int64_t t = from; t <= to; t = max64(node->last.wake_ns, t + 1)) {
        kit_event(node, LEASE_WAKE, t);
        kit_settle(node, pool, t);
    }
    return node->granted - before;
}

/* A quota or a bucket that ends its windows itself, which the node has joined, and once asked for n. */
static void visit(struct kit_node *node, struct lease_pool *pool, const struct lease_terms *terms,
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
    struct lease_pool pool;
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
    struct lease_pool pool;
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
    struct lease_pool pool;
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
    struct lease_pool pool;
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
    struct lease_pool pool;
    int64_t now = 100 * SEC;
    for (int64_t nodes = 2; nodes <= 3; nodes++) { /* 20 or 30 of 110 */
        visit(&node, &pool, &flow, &(struct lease_options){.nodes = nodes}, now, 18);
        CHECK_EQ(node.low, nodes == 2 ? 18 : 3);
    }
}

TEST(who_was_there_lately_finds_units_in_the_next_window)
{
    struct kit_node node;
    struct lease_pool pool;
    int64_t now = 100 * SEC;
    visit(&node, &pool, &hundred, NULL, now, 1);
    (void)kit_take(&node, now + 9 * SEC, 8);
    (void)idle(&node, &pool, now + 9 * SEC, now + 11 * SEC);
    CHECK_EQ(pool.used, 1); /* of the next window, and none of the old one when it was about to end */
    CHECK(kit_take(&node, now + 11 * SEC, 5));
}

TEST(a_window_is_begun_by_who_was_there_lately_but_later_than_by_who_was_there_in_the_last_one)
{
    struct kit_node node;
    struct lease_pool pool;
    int64_t now = 100 * SEC, turn, last;
    own_epoch(&node, &pool, &(struct lease_options){.ready_ns = 30 * SEC}, now);
    (void)kit_take(&node, now + 9 * SEC, 8);
    turn = node.lease.turn_at_ns;
    (void)idle(&node, &pool, now + 9 * SEC, turn - 1);
    CHECK_EQ(pool.epoch, 2);
    (void)idle(&node, &pool, turn, turn + SEC);
    CHECK_EQ(pool.epoch, 3);
    CHECK(kit_held(&node, turn + SEC) >= 5);
    last = node.lease.idle_turn_ns;
    CHECK(last > node.lease.turn_at_ns);
    (void)idle(&node, &pool, turn + SEC, last - 1);
    kit_event(&node, LEASE_WAKE, last - 1);
    kit_settle(&node, &pool, last - 1);
    CHECK_EQ(pool.epoch, 3);
    (void)idle(&node, &pool, last, last + SEC);
    CHECK_EQ(pool.epoch, 4);
    CHECK(kit_take(&node, last + SEC, 5));
}

/* While something is spent nobody has to be refused for the next window to begin. */
TEST(who_spends_finds_units_in_the_next_window)
{
    for (int64_t rate = 0; rate <= 1000;
         rate += 1000) { /* a second, as far as it knows: now and then, or all the time */
        struct kit_node node;
        struct lease_pool pool;
        int64_t now = 100 * SEC, turn;
        own_epoch(&node, &pool, NULL, now);
        turn = node.lease.turn_at_ns;
        for (int64_t t = now + 200 * MS; t < now + 10 * SEC; t += 200 * MS) {
            CHECK(kit_take(&node, t, 1));
            (void)idle(&node, &pool, t, t + 199 * MS);
        }
        node.lease.rate = rate;
        (void)idle(&node, &pool, now + 10 * SEC, turn - 1);
        CHECK_EQ(pool.epoch, 2); /* rule (3) */
        (void)idle(&node, &pool, turn, turn);
        CHECK_EQ(pool.epoch, 3);
        CHECK(kit_take(&node, turn + 1, 1));
    }
}

TEST(who_does_not_come_again_is_forgotten)
{
    struct kit_node node;
    struct lease_pool pool;
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
        struct lease_pool pool;
        weir_pool_begin(&pool, (enum lease_pool_flags)way, &flow, now);
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
    struct lease_pool pool;
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
    struct lease_pool pool;
    int64_t now = 100 * SEC;
    own_epoch(&node, &pool, NULL, now);
    node.patient = true;
    (void)kit_take(&node, now, 35);
    CHECK_EQ(node.low, 3);
}

/* ---- who has come in the middle of a window ---- */

/* Wakes it whenever it wants that, until `to`; somebody waits for n all the time. */
static void want(struct kit_node *node, struct lease_pool *pool, int64_t from, int64_t to, int64_t n)
{
    for (int64_t t = from; t <= to; t = max64(node->last.wake_ns, t + 1)) {
        node->wanted = n;
        kit_event(node, LEASE_WAKE, t);
        kit_settle(node, pool, t);
    }
}

/* A pool whose epoch began at `now`; the node has come four seconds later and found nothing left. */
static void come_late(struct kit_node *node, struct lease_pool *pool, int64_t now)
{
    weir_pool_begin(pool, POOL_TURNED, &hundred, now);
    join(node, pool, NULL, now + 4 * SEC);
    pool->used = 10;
    (void)kit_take(node, now + 4 * SEC, 20);
    kit_settle(node, pool, now + 4 * SEC);
    CHECK(node->last.exhausted);
}

/* Its own turn is due four seconds later than that of the others, and nobody tells him of theirs: by then all
 * would be gone again. */
TEST(who_has_come_in_the_middle_of_a_window_is_there_when_the_next_one_begins)
{
    struct kit_node node;
    struct lease_pool pool;
    struct lease_reply reply;
    int64_t now = 100 * SEC, turn = now + WAIT + 50 * MS;
    come_late(&node, &pool, now);
    CHECK(node.last.retry_at_ns > turn && node.last.retry_at_ns < turn + 500 * MS);
    want(&node, &pool, now + 4 * SEC, turn, 20);
    weir_pool_apply(&pool, &(struct lease_order){.op = LEASE_TURN, .epoch = 1, .chunk = 10}, turn, &reply);
    want(&node, &pool, turn, turn + 50 * MS, 20);
    CHECK_EQ(node.lease.epoch, 2);
    CHECK(kit_held(&node, turn + 50 * MS) >= 20);
    CHECK(node.lease.turn_at_ns >= node.lease.seen_ns + WAIT); /* rule (3) */
}

/* The same a little later, as some are who only keep units ready: he asks again, less and less often. */
TEST(who_has_come_in_the_middle_asks_again_while_nobody_has_begun_the_next_window)
{
    struct kit_node node;
    struct lease_pool pool;
    struct lease_reply reply;
    int64_t now = 100 * SEC, turn = now + 11 * SEC;
    come_late(&node, &pool, now);
    uint64_t before = node.lease.next_id;
    want(&node, &pool, now + 4 * SEC, turn, 20);
    CHECK(node.lease.next_id - before >= 3 && node.lease.next_id - before <= 6);
    weir_pool_apply(&pool, &(struct lease_order){.op = LEASE_TURN, .epoch = 1, .chunk = 10}, turn, &reply);
    want(&node, &pool, turn, turn + SEC, 20);
    CHECK_EQ(node.lease.epoch, 2);
}

/* Rule (3) is not touched by it: the clock that tells the age turns nothing. */
TEST(who_has_come_in_the_middle_of_a_window_turns_it_a_window_after_he_saw_it)
{
    struct kit_node node;
    struct lease_pool pool;
    int64_t now = 100 * SEC;
    come_late(&node, &pool, now);
    uint64_t before = node.lease.next_id;
    want(&node, &pool, now + 4 * SEC, now + 4 * SEC + WAIT - 1, 20);
    CHECK_EQ(pool.epoch, 1);
    CHECK(node.lease.next_id - before <= 9);
    want(&node, &pool, now + 4 * SEC + WAIT, node.lease.turn_at_ns, 20);
    CHECK_EQ(pool.epoch, 2);
}

/* Who has been there from the beginning has one write before his turn, as ever. */
TEST(who_saw_the_window_begin_is_not_helped_by_its_age)
{
    struct kit_node node;
    struct lease_pool pool;
    int64_t now = 100 * SEC;
    own_epoch(&node, &pool, NULL, now);
    pool.used = 10;
    (void)kit_take(&node, now + SEC, 20);
    kit_settle(&node, &pool, now + SEC);
    uint64_t before = node.lease.next_id;
    want(&node, &pool, now + SEC, node.lease.turn_at_ns - 1, 20);
    CHECK_EQ(node.lease.next_id - before, 1);
}
