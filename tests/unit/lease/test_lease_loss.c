/* SPDX-License-Identifier: MIT */
/*
 * The lease machine with coordinators that turn themselves, with buckets, with one that is lost or begins
 * again, when the total is spent, and with answers that cannot be meant.
 */
#include "base/sat.h"
#include "unit/lease/lease_joined.h"

/* ---- coordinators that turn themselves ---- */

TEST(a_grant_with_an_end_is_held_for_less)
{
    struct kit_node node;
    struct lease_pool pool;
    struct lease_reply reply;
    weir_pool_begin(&pool, POOL_TURNS, &hundred, 0);
    kit_begin(&node, NULL, 1, 1000 * SEC); /* clocks are not compared */
    kit_event(&node, LEASE_UP, 1000 * SEC);
    struct lease_order order = only_order(&node, LEASE_LOOK);
    weir_pool_apply(&pool, &order, 0, &reply);
    kit_reply(&node, &reply, 1000 * SEC, 1000 * SEC);
    CHECK(!kit_take(&node, 1000 * SEC, 1));
    order = only_order(&node, LEASE_TAKE);
    weir_pool_apply(&pool, &order, 4 * SEC, &reply);
    CHECK_EQ(reply.ends_ns, 6 * SEC);
    kit_reply(&node, &reply, 1000 * SEC, 1001 * SEC);
    CHECK_EQ(node.lots[0].until_ns, 1000 * SEC + 6 * SEC / 1000 * 998); /* from when it was sent */
}

TEST(a_coordinator_with_a_clock_is_never_told_to_turn)
{
    struct kit_node node;
    struct lease_pool pool;
    weir_pool_begin(&pool, POOL_TURNS, &hundred, 0);
    join(&node, &pool, NULL, 0);
    for (int64_t t = 0; t < 100 * SEC; t += 100 * MS) {
        (void)kit_take(&node, t, 7);
        for (size_t i = 0; i < node.order_count; i++)
            CHECK(node.orders[i].op == LEASE_TAKE || node.orders[i].op == LEASE_RETURN);
        kit_settle(&node, &pool, t);
    }
    CHECK(pool.epoch >= 9);
    CHECK(node.spent >= 850);
}

TEST(exhausted_with_a_time_is_asked_again_then)
{
    struct kit_node node;
    struct lease_pool pool;
    weir_pool_begin(&pool, POOL_TURNS, &hundred, 0);
    pool.used = 10;
    join(&node, &pool, NULL, 4 * SEC);
    CHECK(!kit_take(&node, 4 * SEC, 1));
    kit_settle(&node, &pool, 4 * SEC);
    CHECK(node.last.exhausted);
    int64_t again = node.last.retry_at_ns;
    CHECK(again >= 10 * SEC && again <= 10 * SEC + 13 * MS);
    CHECK_EQ(node.last.wake_ns, again);
    kit_event(&node, LEASE_WAKE, again);
    kit_settle(&node, &pool, again);
    CHECK(kit_held(&node, again) > 0);
}

/* ---- buckets ---- */

TEST(a_ticket_waits_for_its_start_and_dies)
{
    struct kit_node node;
    struct lease_pool pool;
    weir_pool_begin(&pool, POOL_TURNS, &flow, 0);
    (void)join(&node, &pool, NULL, SEC);
    CHECK(!kit_take(&node, SEC, 1));
    struct lease_order order = only_order(&node, LEASE_TAKE);
    struct lease_reply reply = {.id = order.id,
                                .op = LEASE_TAKE,
                                .epoch = 1,
                                .terms = flow,
                                .units = 10,
                                .chunks = 1,
                                .age_ns = -1,
                                .starts_ns = 20 * MS,
                                .ends_ns = 100 * MS};
    kit_reply(&node, &reply, SEC, SEC + 5 * MS);
    CHECK_EQ(node.lots[0].from_ns, SEC + 5 * MS + mul_div_up(20 * MS, 1001, 999)); /* from when it came */
    CHECK_EQ(node.lots[0].until_ns, SEC + 100 * MS / 1000 * 998);                  /* from when it was sent */
    CHECK(!kit_take(&node, SEC + 25 * MS, 1));
    CHECK(kit_take(&node, SEC + 26 * MS, 1));
}

/* A node that waits for a ticket to start does not take the next ones away from others. */
TEST(who_waits_for_a_start_does_not_hoard)
{
    struct kit_node node;
    struct lease_pool pool;
    weir_pool_begin(&pool, POOL_TURNS, &flow, 0);
    join(&node, &pool, NULL, 0);
    for (int i = 0; i < 30; i++) { /* all that has started is spent */
        (void)kit_take(&node, 0, 10);
        kit_settle(&node, &pool, 0);
    }
    int64_t used = pool.used;
    CHECK(kit_held(&node, 0) >= 10);
    CHECK_EQ(kit_ready(&node, 0), 0);
    for (int i = 0; i < 30; i++) {
        node.wanted = 1;
        kit_event(&node, LEASE_WAKE, 0);
        kit_settle(&node, &pool, 0);
    }
    CHECK_EQ(pool.used, used);
}

TEST(dead_numbers_are_numbered_anew_once)
{
    struct kit_node node;
    struct lease_pool pool;
    weir_pool_begin(&pool, POOL_TURNED, &flow, 0);
    join(&node, &pool, NULL, 50 * SEC);
    CHECK(!kit_take(&node, 50 * SEC, 1));
    kit_settle(&node, &pool, 50 * SEC);
    kit_event(&node, LEASE_WAKE, 50 * SEC + 50 * MS);
    kit_settle(&node, &pool, 50 * SEC + 50 * MS);
    kit_event(&node, LEASE_WAKE, 50 * SEC + 60 * MS);
    kit_settle(&node, &pool, 50 * SEC + 60 * MS);
    CHECK_EQ(pool.epoch, 2);
    CHECK(kit_take(&node, 50 * SEC + 60 * MS, 1));
}

/* ---- loss ---- */

TEST(back_off_doubles_up_to_a_second)
{
    struct kit_node node;
    struct lease_pool pool;
    int64_t now = 100 * SEC, longest = 0;
    own_epoch(&node, &pool, NULL, now);
    int64_t orders = 0;
    node.wanted = 15;
    for (int64_t t = now; t < now + 9 * SEC; t += MS) {
        struct lease_order order;
        int64_t sent;
        node.wanted = 15;
        kit_event(&node, LEASE_WAKE, t);
        while (kit_pop(&node, &order, &sent)) {
            struct lease_reply reply = {.id = order.id, .op = order.op, .outcome = LEASE_UNKNOWN};
            kit_reply(&node, &reply, sent, t);
            orders++;
        }
        longest = max64(longest, node.lease.retry_at_ns - t);
    }
    CHECK(longest > 500 * MS && longest <= SEC);
    CHECK(orders > 10 && orders < 60);
}

TEST(lost_and_restored_are_told)
{
    struct kit_node node;
    struct lease_pool pool;
    int64_t now = 100 * SEC;
    own_epoch(&node, &pool, NULL, now);
    node.told = 0;
    kit_event(&node, LEASE_DOWN, now);
    CHECK_EQ(node.last.wake_ns, now + 3 * SEC);
    kit_event(&node, LEASE_WAKE, now + 3 * SEC - 1);
    CHECK(!node.last.lost);
    CHECK(kit_take(&node, now + 3 * SEC, 1)); /* what is held is spent */
    kit_event(&node, LEASE_WAKE, now + 3 * SEC);
    CHECK(node.last.lost);
    CHECK_EQ(node.told, LEASE_LOST);
    kit_event(&node, LEASE_UP, now + 4 * SEC);
    CHECK(node.last.lost); /* connected is not yet answered */
    kit_settle(&node, &pool, now + 4 * SEC);
    CHECK(!node.last.lost);
    CHECK_EQ(node.told, LEASE_LOST | LEASE_RESTORED);
}

TEST(a_share_is_for_a_window_and_only_when_all_else_is_over)
{
    struct kit_node node;
    struct lease_pool pool;
    struct lease_options options = {.on_loss = LEASE_LOSS_SHARE, .nodes = 4};
    int64_t now = 100 * SEC, passed[3] = {0};
    own_epoch(&node, &pool, &options, now);
    kit_event(&node, LEASE_DOWN, now);
    kit_event(&node, LEASE_WAKE, now + 4 * SEC);
    CHECK(node.last.lost && !node.last.sharing); /* its own are not spent */
    for (int64_t t = now + 10 * SEC; t < now + 40 * SEC; t += 10 * MS) {
        if (node.last.wake_ns <= t)
            kit_event(&node, LEASE_WAKE, t);
        CHECK(node.last.sharing);
        passed[(t - now) / (10 * SEC) - 1] += kit_take(&node, t, 1);
    }
    CHECK_EQ(passed[0], 25);
    CHECK_EQ(passed[1], 25);
    CHECK_EQ(passed[2], 25);
    kit_event(&node, LEASE_UP, now + 41 * SEC);
    kit_settle(&node, &pool, now + 41 * SEC);
    CHECK(!node.last.sharing);
    CHECK_EQ(kit_held(&node, now + 41 * SEC), 0);
}

/* Nobody has told it the terms of the pool: it goes by those that it was started with. */
TEST(a_node_that_is_told_so_is_lost_before_it_was_ever_there)
{
    struct kit_node node;
    struct lease_pool pool;
    struct lease_options options = {.on_loss = LEASE_LOSS_SHARE, .nodes = 4, .asked = hundred};
    int64_t now = 100 * SEC;
    kit_begin(&node, &options, 1, now);
    kit_event(&node, LEASE_AWAY, now);
    CHECK(node.last.lost && node.last.sharing);
    CHECK(node.last.told & LEASE_LOST);
    CHECK(!kit_take(&node, now, 26));
    CHECK(kit_take(&node, now, 25));
    kit_event(&node, LEASE_AWAY, now + MS); /* told once */
    CHECK(!(node.last.told & LEASE_LOST));
    weir_pool_begin(&pool, POOL_TURNED, &hundred, now + SEC);
    kit_event(&node, LEASE_UP, now + SEC);
    kit_settle(&node, &pool, now + SEC);
    CHECK(!node.last.lost && !node.last.sharing);
    kit_event(&node, LEASE_AWAY, now + SEC); /* it is there: that was said too late */
    CHECK(!node.last.lost);
}

TEST(who_never_reached_it_shares_what_he_was_told)
{
    struct kit_node node;
    struct lease_pool pool;
    struct lease_options options = {.on_loss = LEASE_LOSS_SHARE, .nodes = 4, .asked = hundred};
    int64_t now = 100 * SEC, passed[3] = {0};
    kit_begin(&node, &options, 1, now);
    kit_event(&node, LEASE_WAKE, now);
    CHECK(node.last.wake_ns <= now + 3 * SEC);
    for (int64_t t = now + 3 * SEC; t < now + 33 * SEC; t += 10 * MS) {
        if (node.last.wake_ns <= t)
            kit_event(&node, LEASE_WAKE, t);
        CHECK(node.last.sharing);
        passed[(t - now - 3 * SEC) / (10 * SEC)] += kit_take(&node, t, 1);
    }
    CHECK_EQ(passed[0], 25);
    CHECK_EQ(passed[1], 25);
    CHECK_EQ(passed[2], 25);
    weir_pool_begin(&pool, POOL_TURNED, &hundred, now + 33 * SEC); /* there it is: by its terms from now on */
    kit_event(&node, LEASE_UP, now + 34 * SEC);
    kit_settle(&node, &pool, now + 34 * SEC);
    CHECK(!node.last.sharing);
    CHECK_EQ(kit_held(&node, now + 34 * SEC), 0);
    CHECK_EQ(node.lease.terms.chunk, pool.terms.chunk);
}

TEST(who_refuses_when_lost_shares_nothing)
{
    struct kit_node node;
    struct lease_pool pool;
    int64_t now = 100 * SEC;
    own_epoch(&node, &pool, NULL, now);
    kit_event(&node, LEASE_DOWN, now);
    kit_event(&node, LEASE_WAKE, now + 20 * SEC);
    CHECK(node.last.lost && !node.last.sharing);
    CHECK(!kit_take(&node, now + 20 * SEC, 1));
}

/* Its numbers are lower than they were: believed when what was known is over for everybody. */
TEST(a_coordinator_that_begins_again_is_believed_after_a_window)
{
    struct kit_node node;
    struct lease_pool pool;
    int64_t now = 100 * SEC;
    own_epoch(&node, &pool, NULL, now);
    weir_pool_begin(&pool, POOL_TURNED, &hundred, now + SEC); /* epoch 1 */
    for (int64_t t = now + SEC; t < now + 40 * SEC; t += 100 * MS) {
        bool early = t < now + WAIT;
        (void)kit_take(&node, t, 30);
        kit_settle(&node, &pool, t);
        CHECK(!early || node.lease.epoch == 2);
    }
    CHECK_EQ(node.lease.epoch, pool.epoch);
    CHECK(node.spent > 30);
}

/* ---- the total is spent ---- */

TEST(a_node_that_was_told_no_more_asks_again_in_the_next_window)
{
    struct kit_node node;
    struct lease_pool pool;
    int64_t now = 100 * SEC;
    own_epoch(&node, &pool, NULL, now);
    CHECK(kit_take(&node, now, 9)); /* asks for more */
    pool.used = 10;
    kit_settle(&node, &pool, now);
    CHECK(node.last.exhausted);
    CHECK(kit_take(&node, now, 1));
    CHECK(!kit_take(&node, now, 1));
    int64_t turn = node.lease.turn_at_ns;
    (void)kit_take(&node, turn, 1);
    kit_settle(&node, &pool, turn);
    CHECK_EQ(pool.epoch, 3);
    CHECK(!node.last.exhausted);
    CHECK(kit_take(&node, turn, 1));
}

/* ---- anything ---- */

static struct lease_event any_event(struct rng *rng, const struct lease *lease)
{
    struct lease_event event = {.kind = (int32_t)rng_between(rng, -1, 9)};
    struct lease_reply *reply = &event.reply;
    reply->id = rng_between(rng, 0, 3) ? lease->next_id - (uint64_t)rng_between(rng, 0, 4) : rng_next(rng);
    reply->op = (int32_t)rng_between(rng, -1, 5);
    for (size_t i = 0; i < lease->in_flight; i++)
        if (lease->flight[i].id == reply->id && rng_between(rng, 0, 9))
            reply->op = lease->flight[i].op;
    reply->outcome = (int32_t)rng_between(rng, -1, 4);
    reply->epoch = rng_between(rng, 0, 9) ? lease->epoch + (uint64_t)rng_between(rng, -1, 1) : rng_next(rng);
    reply->terms = rng_between(rng, 0, 1) ? hundred : flow;
    int64_t *fields[] = {
        &reply->terms.total, &reply->terms.window_ns, &reply->terms.burst, &reply->terms.base,
        &reply->terms.chunk, &reply->chunks,          &reply->units,       &reply->left,
        &reply->retry_ns,    &reply->age_ns,          &reply->starts_ns,   &reply->ends_ns,
        &event.sent_ns};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (i > 4 || rng_between(rng, 0, 9) == 0)
            *fields[i] = rng_magnitude(rng, INT64_MAX) * (rng_between(rng, 0, 9) ? 1 : -1);
    reply->exhausted = rng_between(rng, 0, 3) == 0;
    reply->stale = rng_between(rng, 0, 3) == 0;
    reply->age_exact = rng_between(rng, 0, 1);
    return event;
}

/* Whatever a coordinator says, in whatever order, at whatever time: bounds hold, nothing overflows. */
TEST(anything_may_be_answered)
{
    struct rng rng = rng_new(1);
    for (int story = 0; story < 3000; story++) {
        struct lease_options options = {.on_loss = (int32_t)rng_between(&rng, 0, 1), .nodes = 3};
        const char *why;
        struct lease lease;
        int64_t now = rng_magnitude(&rng, WEIR_TIME_MAX);
        CHECK(weir_lease_options_complete(&options, &why));
        weir_lease_begin(&lease, &options, rng_next(&rng), now);
        for (int i = 0; i < 60; i++) {
            struct lease_balance_view balance = {
                rng_magnitude(&rng, INT64_MAX) - rng_between(&rng, 0, 9), rng_magnitude(&rng, INT64_MAX),
                rng_magnitude(&rng, INT64_MAX), rng_magnitude(&rng, INT64_MAX)};
            struct lease_event event = any_event(&rng, &lease);
            struct lease_actions act;
            now = rng_between(&rng, 0, 20) ? sat_add(now, rng_magnitude(&rng, 3 * SEC))
                                           : rng_magnitude(&rng, INT64_MAX);
            weir_lease_step(&lease, &event, &balance, now, &act);
            CHECK(act.order_count <= LEASE_ORDERS_MAX && lease.in_flight <= LEASE_FLIGHT_MAX);
            for (size_t g = 0; g < act.grant_count; g++)
                CHECK(act.grants[g].units >= 0 && act.grants[g].until_ns > now);
            for (size_t o = 0; o < act.order_count; o++)
                CHECK(act.orders[o].chunks >= 0 && act.orders[o].id != 0);
            CHECK(act.withdraw >= 0 && (act.withdraw == 0 || act.chunk > 0));
            CHECK(act.wake_ns > now || act.wake_ns == WEIR_FOREVER);
        }
    }
}
