/* SPDX-License-Identifier: MIT */
/*
 * The rules of the lease machine, one by one: taking, deadlines, turning, returning. test_lease_loss.c has
 * the other coordinators and what happens when one is lost; test_lease_world.c has all at once, against an
 * account.
 */
#include "base/sat.h"
#include "unit/lease/lease_joined.h"

/* ---- options ---- */

TEST(options_have_the_numbers_of_the_seed_as_defaults)
{
    struct lease_options options = {0};
    const char *why;
    CHECK(weir_lease_options_complete(&options, &why));
    CHECK_EQ(options.prefetch_percent, 20);
    CHECK_EQ(options.above_percent, 200);
    CHECK_EQ(options.return_every_ns, 15 * SEC);
    CHECK_EQ(options.ready_ns, 10 * SEC);
    CHECK_EQ(options.rho_ppm, 1000);
    CHECK_EQ(options.guard_ns, 100 * MS);
    CHECK_EQ(options.most_chunks, 4);
    CHECK_EQ(options.lost_after_ns, 3 * SEC);
    CHECK_EQ(options.answer_ns, 2 * SEC);
}

TEST(options_that_cannot_be_meant_are_refused)
{
    static const struct lease_options wrong[] = {
        {.prefetch_percent = 101},
        {.prefetch_percent = -1},
        {.above_percent = 99},
        {.rho_ppm = 100001},
        {.rho_ppm = -1},
        {.return_every_ns = 1},
        {.ready_ns = -1},
        {.ready_ns = INT64_MAX},
        {.guard_ns = -1},
        {.lost_after_ns = -1},
        {.answer_ns = 1},
        {.most_chunks = 5},
        {.most_chunks = -1},
        {.most_held = -1},
        {.nodes = -1},
        {.on_loss = 2},
        {.on_loss = LEASE_LOSS_SHARE},
        {.answer_ns = INT64_MAX},
        {.guard_ns = INT64_MAX},
        {.most_held = INT64_MAX},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct lease_options options = wrong[i];
        const char *why = NULL;
        if (!CHECK(!weir_lease_options_complete(&options, &why)) || !CHECK(why && strlen(why) > 10))
            printf("# row %zu\n", i);
    }
}

/* ---- joining, taking ---- */

TEST(who_wants_nothing_takes_nothing)
{
    struct kit_node node;
    struct lease_pool pool;
    weir_pool_begin(&pool, POOL_TURNED, &hundred, 0);
    join(&node, &pool, NULL, SEC);
    CHECK_EQ(node.lease.epoch, 1);
    CHECK_EQ(pool.used, 0);
    kit_event(&node, LEASE_WAKE, 100 * SEC);
    kit_settle(&node, &pool, 100 * SEC);
    CHECK_EQ(pool.used, 0);
    CHECK_EQ(pool.epoch, 1);
}

TEST(nothing_is_asked_before_it_is_connected)
{
    struct kit_node node;
    kit_begin(&node, NULL, 1, 0);
    (void)kit_take(&node, SEC, 5);
    CHECK_EQ(node.order_count, 0);
    kit_event(&node, LEASE_UP, SEC);
    CHECK_EQ(only_order(&node, LEASE_LOOK).chunks, 0);
}

/* The age by the coordinator's clock, of a write, less a guard. */
TEST(who_joins_uses_the_age_with_a_guard)
{
    struct kit_node node;
    struct lease_pool pool;
    int64_t now = 100 * SEC;
    weir_pool_begin(&pool, POOL_TURNED, &hundred, now);
    join(&node, &pool, NULL, now + 2 * SEC);
    CHECK(!kit_take(&node, now + 3 * SEC, 1));
    CHECK_EQ(node.orders[0].op, LEASE_PROBE); /* a read would not do */
    kit_settle(&node, &pool, now + 3 * SEC);
    CHECK_EQ(kit_held(&node, now + 3 * SEC), 10);
    int64_t before = now + 3 * SEC - mul_div_up(3 * SEC, 1001, 999) - 100 * MS;
    CHECK_EQ(node.lease.before_ns, before);
    CHECK_EQ(node.lots[0].until_ns, before + 10 * SEC);
}

TEST(who_trusts_no_age_waits_for_the_next_epoch)
{
    struct kit_node node;
    struct lease_pool pool;
    struct lease_options options = {.no_age = true};
    int64_t now = 50 * SEC;
    weir_pool_begin(&pool, POOL_TURNED, &hundred, now);
    join(&node, &pool, &options, now);
    CHECK(!kit_take(&node, now + SEC, 1));
    kit_settle(&node, &pool, now + SEC);
    CHECK_EQ(pool.used, 0);
    CHECK_EQ(node.last.retry_at_ns, node.lease.turn_at_ns);
    CHECK(!kit_take(&node, now + WAIT - 1, 1));
    kit_settle(&node, &pool, now + WAIT - 1);
    CHECK_EQ(pool.epoch, 1);
    int64_t turn = node.lease.turn_at_ns;
    CHECK(turn >= now + WAIT && turn <= now + WAIT + 50 * MS + 1);
    CHECK(!kit_take(&node, turn, 1));
    kit_settle(&node, &pool, turn);
    CHECK_EQ(pool.epoch, 2);
    CHECK(kit_take(&node, turn, 1));
}

/* An hour ahead: by the coordinator's clock the epoch is over by far. Who saw that it had not begun an hour
 * ago does not believe it, neither while its units are good nor when they are over. */
TEST(a_leap_ahead_of_the_coordinators_clock_ends_no_window)
{
    struct kit_node node;
    struct lease_pool pool;
    int64_t now = 7200 * SEC;
    own_epoch(&node, &pool, NULL, now);
    pool.began_ns -= 3600 * SEC;
    for (int64_t at = now + SEC; at < now + WAIT; at += SEC / 2) {
        (void)kit_take(&node, at, 20);
        kit_settle(&node, &pool, at);
        CHECK_EQ(pool.epoch, 2);
        node.lease.exhausted = false; /* so that it goes on asking */
    }
}

/* Back: an epoch that was seen nine seconds ago cannot be one second old. */
TEST(an_age_that_is_too_young_is_not_believed)
{
    struct kit_node node;
    struct lease_pool pool;
    int64_t now = 100 * SEC;
    weir_pool_begin(&pool, POOL_TURNED, &hundred, now);
    join(&node, &pool, NULL, now);
    pool.began_ns = now + 8 * SEC;
    CHECK(!kit_take(&node, now + 9 * SEC, 1));
    kit_settle(&node, &pool, now + 9 * SEC);
    CHECK_EQ(node.lease.before_ns, -1);
    CHECK(!kit_take(&node, now + 9 * SEC, 1));
}

/* Own knowledge that ends in a moment is none: the age that was told with it is asked for again then. */
TEST(who_knows_only_an_end_that_is_near_asks_for_the_age_when_it_is_over)
{
    struct kit_node node;
    struct lease_pool pool;
    struct lease_reply reply;
    int64_t now = 100 * SEC, began = now + 9990 * MS, at = now + 9995 * MS;
    own_epoch(&node, &pool, NULL, now);
    weir_pool_apply(&pool, &(struct lease_order){.op = LEASE_TURN, .epoch = 2, .chunk = 10}, began, &reply);
    CHECK(!kit_take(&node, at, 35));
    kit_settle(&node, &pool, at);
    CHECK_EQ(node.lease.epoch, 3);
    CHECK_EQ(node.lots[0].until_ns, now + 10 * SEC); /* a window after its last write before */
    at = now + 10100 * MS;
    CHECK(!kit_take(&node, at, 1));
    CHECK_EQ(node.orders[0].op, LEASE_PROBE);
    kit_settle(&node, &pool, at);
    CHECK(kit_take(&node, at, 1));
    CHECK_EQ(node.lots[0].until_ns, at - mul_div_up(at - began, 1001, 999) - 100 * MS + 10 * SEC);
}

TEST(an_end_within_a_round_trip_counts_as_over)
{
    struct kit_node node;
    struct lease_pool pool;
    struct lease_reply reply;
    int64_t now = 100 * SEC, sent = now + 9 * SEC, at = sent + 800 * MS;
    own_epoch(&node, &pool, NULL, now);
    weir_pool_apply(&pool, &(struct lease_order){.op = LEASE_TURN, .epoch = 2, .chunk = 10}, sent, &reply);
    CHECK(!kit_take(&node, sent, 15));
    node.lease.round_ns = 800 * MS;
    struct lease_order order = only_order(&node, LEASE_TAKE);
    weir_pool_apply(&pool, &order, sent, &reply);
    kit_reply(&node, &reply, sent, at);
    CHECK_EQ(node.lots[0].until_ns, sent - 100 * MS + 10 * SEC);
}

/* Asked for once, whatever comes of it: of the time that is left of a window nobody makes more by asking. */
TEST(an_age_that_does_not_help_is_not_asked_for_again)
{
    struct kit_node node;
    struct lease_pool pool;
    int64_t now = 100 * SEC;
    weir_pool_begin(&pool, POOL_TURNED, &hundred, now - 9950 * MS);
    join(&node, &pool, NULL, now);
    uint64_t before = node.lease.next_id;
    for (int64_t t = now; t < now + 9 * SEC; t += 10 * MS) {
        CHECK(!kit_take(&node, t, 1));
        kit_settle(&node, &pool, t);
    }
    CHECK(node.lease.next_id - before <= 10); /* and some more to hear of the next window */
    CHECK_EQ(pool.used, 0);
}

/* A quarter of a second is left that it does not know of: of a window of ten that is not worth a write. */
TEST(for_the_last_of_a_window_its_age_is_not_asked_for)
{
    for (int64_t late = 250; late <= 1250; late += 1000) {
        struct kit_node node;
        struct lease_pool pool;
        int64_t now = 100 * SEC, at = now + 10 * SEC - late * MS;
        own_epoch(&node, &pool, NULL, now);
        node.lease.before_ns -= late * MS;
        node.lot_count = 0;
        (void)kit_take(&node, at, 1);
        CHECK_EQ(node.order_count, late > 1000);
    }
}

TEST(the_next_chunk_is_asked_for_when_a_fifth_is_left)
{
    struct kit_node node;
    struct lease_pool pool;
    int64_t now = 100 * SEC;
    own_epoch(&node, &pool, NULL, now);
    CHECK_EQ(node.low, 3);
    CHECK(kit_take(&node, now, 7)); /* 3 left */
    CHECK_EQ(node.order_count, 0);
    CHECK(kit_take(&node, now + 20 * MS, 1));
    CHECK_EQ(only_order(&node, LEASE_TAKE).chunks, 1);
    CHECK(kit_take(&node, now + 21 * MS, 1)); /* one at a time */
    CHECK_EQ(node.order_count, 0);
}

TEST(a_large_take_takes_several_chunks)
{
    struct kit_node node;
    struct lease_pool pool;
    int64_t now = 100 * SEC;
    own_epoch(&node, &pool, NULL, now);
    CHECK(!kit_take(&node, now, 35));
    CHECK_EQ(only_order(&node, LEASE_TAKE).chunks, 3);
}

TEST(no_more_orders_at_once_than_said)
{
    struct kit_node node;
    struct lease_pool pool;
    struct lease_options options = {.most_chunks = 2};
    int64_t now = 100 * SEC;
    own_epoch(&node, &pool, &options, now);
    for (int64_t n = 15; n < 95; n += 10)
        (void)kit_take(&node, now, n);
    CHECK_EQ(node.order_count, 2);
}

TEST(a_slow_answer_is_not_counted_on)
{
    struct kit_node node;
    struct lease_pool pool;
    int64_t now = 100 * SEC;
    own_epoch(&node, &pool, NULL, now);
    CHECK(!kit_take(&node, now, 15));
    CHECK(!kit_take(&node, now + 19 * MS, 15));
    CHECK_EQ(node.order_count, 1);
    CHECK(!kit_take(&node, now + 20 * MS, 15));
    CHECK_EQ(node.order_count, 2);
    kit_settle(&node, &pool, now + 20 * MS); /* both come: nothing is lost */
    CHECK_EQ(kit_held(&node, now + 20 * MS), 30);
}

TEST(no_more_is_held_than_said)
{
    struct kit_node node;
    struct lease_pool pool;
    struct lease_options options = {.most_held = 12, .prefetch_percent = 100};
    int64_t now = 100 * SEC;
    own_epoch(&node, &pool, &options, now);
    CHECK(kit_take(&node, now, 7));
    CHECK_EQ(node.order_count, 0); /* 3 and 10 are more than 12 */
    CHECK(kit_take(&node, now, 1));
    CHECK_EQ(node.order_count, 1);
}

TEST(prefetch_is_earlier_when_much_is_spent)
{
    struct kit_node node;
    struct lease_pool pool;
    int64_t now = 100 * SEC;
    own_epoch(&node, &pool, NULL, now);
    node.lease.rate = 1000;
    node.lease.round_ns = 10 * MS;
    node.lease.rate_at_ns = now;
    kit_event(&node, LEASE_WAKE, now);
    CHECK_EQ(node.low, 22); /* a quarter of what is left, for others ask, too, and each chunk is a write */
    CHECK_EQ(only_order(&node, LEASE_TAKE).chunks, 2);
    node.lease.timed = true; /* one write for many chunks */
    kit_event(&node, LEASE_WAKE, now);
    CHECK_EQ(node.low, 40); /* four round trips */
}

TEST(exhausted_is_told_once_and_nothing_is_asked_until_the_epoch_turns)
{
    struct kit_node node;
    struct lease_pool pool;
    int64_t now = 100 * SEC;
    own_epoch(&node, &pool, NULL, now);
    pool.used = 10;
    CHECK(!kit_take(&node, now, 11));
    kit_settle(&node, &pool, now);
    CHECK(node.told & LEASE_EXHAUSTED);
    CHECK(node.last.exhausted);
    node.told = 0;
    for (int i = 1; i < 9; i++) {
        CHECK(!kit_take(&node, now + i * SEC, 11));
        CHECK_EQ(node.order_count, 0);
    }
    CHECK_EQ(node.last.retry_at_ns, node.lease.turn_at_ns);
    /* Somebody has returned some. */
    kit_event(&node, LEASE_MORE, now + 9 * SEC);
    kit_event(&node, LEASE_WAKE, now + 9 * SEC + 10 * MS);
    CHECK_EQ(only_order(&node, LEASE_TAKE).op, LEASE_TAKE);
    CHECK(!(node.told & LEASE_EXHAUSTED));
}

/* ---- rule (1) ---- */

TEST(what_was_not_answered_was_spent_by_nobody)
{
    struct kit_node node;
    struct lease_pool pool;
    struct lease_order order;
    struct lease_reply reply;
    int64_t now = 100 * SEC, sent;
    own_epoch(&node, &pool, NULL, now);
    CHECK(!kit_take(&node, now, 15));
    (void)kit_pop(&node, &order, &sent);
    weir_pool_apply(&pool, &order, now, &reply);
    kit_event(&node, LEASE_WAKE, now + 2 * SEC - 1);
    CHECK_EQ(node.lease.doubtful, 0);
    kit_event(&node, LEASE_WAKE, now + 2 * SEC);
    CHECK_EQ(node.lease.doubtful, 1);
    kit_reply(&node, &reply, sent, now + 2 * SEC); /* too late: it is not believed */
    CHECK_EQ(kit_held(&node, now + 2 * SEC), 10);
}

TEST(replies_that_come_twice_or_uncalled_for_grant_nothing)
{
    struct kit_node node;
    struct lease_pool pool;
    struct lease_order order;
    struct lease_reply reply;
    int64_t now = 100 * SEC, sent;
    own_epoch(&node, &pool, NULL, now);
    CHECK(!kit_take(&node, now, 15));
    (void)kit_pop(&node, &order, &sent);
    weir_pool_apply(&pool, &order, now, &reply);
    struct lease_reply other = reply;
    other.op = LEASE_PROBE; /* of another kind than what was asked */
    kit_reply(&node, &other, sent, now);
    other.id += 1000;
    kit_reply(&node, &other, sent, now);
    CHECK_EQ(kit_held(&node, now), 10);
    kit_reply(&node, &reply, sent, now);
    CHECK_EQ(kit_held(&node, now), 20);
    kit_reply(&node, &reply, sent, now);
    CHECK_EQ(kit_held(&node, now), 20);
}

TEST(unknown_is_spent_and_failed_is_not)
{
    struct kit_node node;
    struct lease_pool pool;
    int64_t now = 100 * SEC;
    own_epoch(&node, &pool, NULL, now);
    for (int i = 0; i < 2; i++) {
        CHECK(!kit_take(&node, now + i * SEC, 15));
        struct lease_order order = find_order(&node, LEASE_TAKE);
        struct lease_reply reply = {.id = order.id, .op = LEASE_TAKE, .units = 10, .chunks = 1};
        reply.outcome = i == 0 ? LEASE_FAILED : LEASE_UNKNOWN;
        kit_reply(&node, &reply, now + i * SEC, now + i * SEC);
        CHECK_EQ(kit_held(&node, now), 10);
        CHECK_EQ(node.lease.doubtful, i);
        CHECK_EQ(node.order_count, 0); /* backed off */
        CHECK(node.lease.retry_at_ns >= now + i * SEC + 5 * MS);
    }
}

TEST(a_coordinator_cannot_grant_more_than_was_asked_for)
{
    struct kit_node node;
    struct lease_pool pool;
    int64_t now = 100 * SEC;
    own_epoch(&node, &pool, NULL, now);
    CHECK(!kit_take(&node, now, 15));
    struct lease_order order = only_order(&node, LEASE_TAKE);
    struct lease_reply reply = {
        .id = order.id, .op = LEASE_TAKE, .epoch = 2, .units = INT64_MAX, .ends_ns = -1};
    kit_reply(&node, &reply, now, now);
    CHECK_EQ(kit_held(&node, now), 20);
    CHECK(!kit_take(&node, now, 25));
    order = only_order(&node, LEASE_TAKE);
    reply = (struct lease_reply){.id = order.id, .op = LEASE_TAKE, .epoch = 2, .units = -50, .ends_ns = -1};
    kit_reply(&node, &reply, now, now);
    CHECK_EQ(kit_held(&node, now), 20);
}

/* ---- rule (2) ---- */

TEST(units_end_a_window_after_the_order_that_made_their_epoch)
{
    struct kit_node node;
    struct lease_pool pool;
    int64_t now = 100 * SEC;
    own_epoch(&node, &pool, NULL, now);
    CHECK_EQ(node.lots[0].until_ns, now + 10 * SEC);
    kit_event(&node, LEASE_WAKE, now + 10 * SEC);
    CHECK(node.last.clear);
    CHECK(!kit_take(&node, now + 10 * SEC, 1));
}

/* E was seen to turn; the last write that was answered before it is what is known to lie before it. */
TEST(units_end_a_window_after_the_last_write_of_an_earlier_epoch)
{
    struct kit_node node;
    struct lease_pool pool;
    struct lease_options options = {.no_age = true};
    int64_t now = 100 * SEC;
    own_epoch(&node, &pool, &options, now);
    CHECK(!kit_take(&node, now + 8 * SEC, 15));
    kit_settle(&node, &pool, now + 8 * SEC); /* a write at 8 s */
    kit_event(&node, LEASE_UP, now + 9 * SEC);
    kit_settle(&node, &pool, now + 9 * SEC); /* a read does not count */
    struct lease_reply seen = {.epoch = 3, .terms = hundred};
    kit_step(&node, &(struct lease_event){.kind = LEASE_NOTICED, .reply = seen}, now + 11 * SEC);
    CHECK(node.last.clear && (node.last.told & LEASE_REFRESHED));
    CHECK_EQ(node.lease.before_ns, now + 8 * SEC);
    CHECK_EQ(kit_held(&node, now + 11 * SEC), 0);
}

TEST(units_of_an_epoch_that_is_over_are_void_at_once)
{
    struct kit_node node;
    struct lease_pool pool;
    int64_t now = 100 * SEC;
    own_epoch(&node, &pool, NULL, now);
    struct lease_reply seen = {.epoch = 3, .terms = hundred};
    kit_step(&node, &(struct lease_event){.kind = LEASE_NOTICED, .reply = seen}, now + 5 * SEC);
    CHECK(node.last.clear);
    CHECK_EQ(kit_held(&node, now + 5 * SEC), 0);
}

TEST(a_late_answer_of_an_older_epoch_grants_nothing_but_tells_when)
{
    struct kit_node node;
    struct lease_pool pool;
    struct lease_options options = {.no_age = true};
    struct lease_order order;
    struct lease_reply reply;
    int64_t now = 100 * SEC, sent;
    own_epoch(&node, &pool, &options, now);
    CHECK(!kit_take(&node, now + 9 * SEC, 15));
    (void)kit_pop(&node, &order, &sent);
    weir_pool_apply(&pool, &order, now + 9 * SEC, &reply);
    struct lease_reply seen = {.epoch = 3, .terms = hundred};
    kit_step(&node, &(struct lease_event){.kind = LEASE_NOTICED, .reply = seen}, now + 10 * SEC);
    CHECK_EQ(node.lease.before_ns, now);
    kit_reply(&node, &reply, sent, now + 10 * SEC);
    CHECK_EQ(kit_held(&node, now + 10 * SEC), 0);
    CHECK_EQ(node.lease.before_ns, now + 9 * SEC);
}

/* A read from a server that is behind answers late with an old epoch: it says nothing about when. */
TEST(a_read_never_tells_when_an_epoch_began)
{
    struct kit_node node;
    struct lease_pool pool;
    struct lease_options options = {.no_age = true};
    struct lease_order order;
    int64_t now = 100 * SEC, sent;
    own_epoch(&node, &pool, &options, now);
    kit_event(&node, LEASE_UP, now + 10 * SEC);
    (void)kit_pop(&node, &order, &sent);
    CHECK_EQ(order.op, LEASE_LOOK);
    struct lease_reply seen = {.epoch = 3, .terms = hundred};
    kit_step(&node, &(struct lease_event){.kind = LEASE_NOTICED, .reply = seen}, now + 11 * SEC);
    struct lease_reply old = {.id = order.id, .op = LEASE_LOOK, .epoch = 2, .terms = hundred, .ends_ns = -1};
    kit_reply(&node, &old, sent, now + 11 * SEC);
    CHECK_EQ(node.lease.epoch, 3);
    CHECK_EQ(node.lease.before_ns, now);
    CHECK_EQ(node.lease.answered_ns, now);
}

/* A coordinator that knows the answer without writing says so: then it is worth as much as a read. */
TEST(an_answer_without_a_write_never_tells_when_an_epoch_began)
{
    struct kit_node node;
    struct lease_pool pool;
    struct lease_options options = {.no_age = true};
    struct lease_order order;
    int64_t now = 100 * SEC, sent;
    own_epoch(&node, &pool, &options, now);
    CHECK(!kit_take(&node, now + SEC, 15));
    (void)kit_pop(&node, &order, &sent);
    CHECK_EQ(order.op, LEASE_TAKE);
    struct lease_reply known = {.id = order.id,
                                .op = LEASE_TAKE,
                                .epoch = node.lease.epoch,
                                .terms = hundred,
                                .read = true,
                                .exhausted = true,
                                .retry_ns = SEC,
                                .age_ns = -1,
                                .ends_ns = -1};
    kit_reply(&node, &known, sent, now + SEC);
    CHECK(node.lease.exhausted);
    CHECK_EQ(node.lease.answered_ns, now);
}

TEST(a_turn_that_is_heard_of_before_its_reply_still_tells_when)
{
    struct kit_node node;
    struct lease_pool pool;
    struct lease_order order;
    struct lease_reply reply;
    int64_t now = 100 * SEC, sent, turn;
    own_epoch(&node, &pool, NULL, now);
    turn = node.lease.turn_at_ns;
    (void)kit_take(&node, turn, 1);
    while (kit_pop(&node, &order, &sent) && order.op != LEASE_TURN)
        ;
    CHECK_EQ(order.op, LEASE_TURN);
    weir_pool_apply(&pool, &order, turn + MS, &reply);
    struct lease_reply seen = {.epoch = 3, .terms = pool.terms};
    kit_step(&node, &(struct lease_event){.kind = LEASE_NOTICED, .reply = seen}, turn + 2 * MS);
    CHECK(node.lease.before_ns < turn);
    kit_reply(&node, &reply, sent, turn + 3 * MS);
    CHECK_EQ(node.lease.before_ns, turn);
}

/* Another one's turn: MOVED. What this one has sent is no moment before it. */
TEST(a_turn_that_was_lost_to_another_tells_nothing)
{
    struct kit_node node;
    struct lease_pool pool;
    struct lease_options options = {.no_age = true};
    int64_t now = 100 * SEC;
    own_epoch(&node, &pool, &options, now);
    int64_t turn = node.lease.turn_at_ns;
    struct lease_order other = {.op = LEASE_TURN, .epoch = 2, .chunk = 10};
    struct lease_reply reply;
    weir_pool_apply(&pool, &other, turn - SEC, &reply);
    (void)kit_take(&node, turn, 1);
    kit_settle(&node, &pool, turn);
    CHECK_EQ(pool.epoch, 3);
    CHECK_EQ(node.lease.epoch, 3);
    CHECK_EQ(node.lease.before_ns, now);
    CHECK_EQ(kit_held(&node, turn), 0);
}

TEST(shortly_before_the_turn_a_write_renews_what_is_known)
{
    struct kit_node node;
    struct lease_pool pool;
    struct lease_options options = {.no_age = true};
    int64_t now = 100 * SEC;
    own_epoch(&node, &pool, &options, now);
    pool.used = 10;
    (void)kit_take(&node, now + SEC, 20);
    kit_settle(&node, &pool, now + SEC);
    CHECK(node.last.exhausted);
    node.wanted = 20;
    kit_event(&node, LEASE_WAKE, now + 2 * SEC);
    int64_t probe = node.last.wake_ns; /* before the units end, and before the turn */
    CHECK(probe >= now + 9 * SEC && probe < now + WAIT);
    while (node.last.wake_ns < node.lease.turn_at_ns && node.order_count == 0)
        kit_event(&node, LEASE_WAKE, node.last.wake_ns);
    CHECK_EQ(only_order(&node, LEASE_PROBE).chunks, 0);
}

/* ---- rule (3) ---- */

TEST(nobody_turns_before_the_window_has_passed_by_the_slowest_clock)
{
    struct kit_node node;
    struct lease_pool pool;
    int64_t now = 100 * SEC;
    own_epoch(&node, &pool, NULL, now);
    (void)kit_take(&node, now + WAIT - 1, 1);
    kit_settle(&node, &pool, now + WAIT - 1);
    CHECK_EQ(pool.epoch, 2);
    CHECK(node.lease.turn_at_ns >= now + WAIT);
    (void)kit_take(&node, node.lease.turn_at_ns, 1);
    kit_settle(&node, &pool, node.lease.turn_at_ns);
    CHECK_EQ(pool.epoch, 3);
}

TEST(turns_lie_behind_the_window_whatever_the_jitter)
{
    int64_t now = 100 * SEC, first = INT64_MAX, last = 0;
    for (uint64_t seed = 0; seed < 200; seed++) {
        struct kit_node node;
        struct lease_reply seen = {.epoch = 1, .terms = hundred};
        kit_begin(&node, NULL, seed, now);
        kit_step(&node, &(struct lease_event){.kind = LEASE_NOTICED, .reply = seen}, now);
        first = min64(first, node.lease.turn_at_ns);
        last = max64(last, node.lease.turn_at_ns);
    }
    CHECK(first >= now + WAIT && first < now + WAIT + 5 * MS);
    CHECK(last > first + 30 * MS && last <= now + WAIT + 50 * MS);
}

TEST(nobody_turns_what_nobody_wants)
{
    struct kit_node node;
    struct lease_pool pool;
    int64_t now = 100 * SEC;
    own_epoch(&node, &pool, NULL, now);
    for (int64_t t = now; t < now + 100 * SEC; t += SEC) {
        kit_event(&node, LEASE_WAKE, t);
        kit_settle(&node, &pool, t);
    }
    CHECK_EQ(pool.epoch, 2);
}

TEST(one_turn_at_a_time)
{
    struct kit_node node;
    struct lease_pool pool;
    int64_t now = 100 * SEC;
    own_epoch(&node, &pool, NULL, now);
    int64_t turn = node.lease.turn_at_ns;
    int turns = 0;
    for (int64_t t = turn; t < turn + SEC; t += 10 * MS)
        (void)kit_take(&node, t, 1);
    for (size_t i = 0; i < node.order_count; i++)
        turns += node.orders[i].op == LEASE_TURN;
    CHECK_EQ(turns, 1);
}

/* A minute more than it should be old by the coordinator's clock; of long windows a quarter, up to ten. */
TEST(a_pool_that_lay_idle_for_long_is_turned_at_once)
{
    static const int64_t ages[] = {10 * SEC, 69 * SEC, 70 * SEC, 7000 * SEC};
    for (int i = 0; i < 4; i++) {
        struct kit_node node;
        struct lease_pool pool;
        int64_t now = 10000 * SEC;
        weir_pool_begin(&pool, POOL_TURNED, &hundred, now - ages[i]);
        join(&node, &pool, NULL, now);
        (void)kit_take(&node, now, 1);
        kit_settle(&node, &pool, now);
        CHECK_EQ(pool.epoch, 1 + (ages[i] >= 70 * SEC));
    }
}

/* ---- rule (4) ---- */

TEST(what_is_above_twice_the_base_goes_back)
{
    struct kit_node node;
    struct lease_pool pool;
    int64_t now = 100 * SEC;
    own_epoch(&node, &pool, NULL, now);
    node.patient = true;
    CHECK(!kit_take(&node, now, 30)); /* and gone before it came */
    kit_settle(&node, &pool, now);
    CHECK_EQ(kit_held(&node, now), 30);
    CHECK_EQ(node.lease.return_at_ns, now + 2500 * MS); /* a quarter of the window is sooner than 15 s */
    kit_event(&node, LEASE_WAKE, now + 2500 * MS - 1);
    CHECK_EQ(node.withdrawn, 0);
    kit_event(&node, LEASE_WAKE, now + 2500 * MS);
    CHECK_EQ(node.withdrawn, 2);
    CHECK_EQ(kit_held(&node, now + 2500 * MS), 10);
    struct lease_order order = only_order(&node, LEASE_RETURN);
    CHECK_EQ(order.epoch, 2);
    CHECK_EQ(order.chunks, 2);
}

TEST(twice_the_base_stays)
{
    struct kit_node node;
    struct lease_pool pool;
    int64_t now = 100 * SEC;
    own_epoch(&node, &pool, NULL, now);
    node.patient = true;
    CHECK(!kit_take(&node, now, 15));
    kit_settle(&node, &pool, now);
    CHECK_EQ(kit_held(&node, now), 20);
    kit_event(&node, LEASE_WAKE, now + 3 * SEC);
    CHECK_EQ(node.withdrawn, 0);
}

TEST(what_left_the_balance_in_another_epoch_is_not_returned)
{
    struct kit_node node;
    struct lease_pool pool;
    int64_t now = 100 * SEC;
    own_epoch(&node, &pool, NULL, now);
    node.lease.withdraw_epoch = 1;
    node.lease.withdraw_most = 1;
    kit_step(&node, &(struct lease_event){.kind = LEASE_WITHDREW, .reply = {.chunks = 1}}, now);
    CHECK_EQ(node.order_count, 0);
    kit_step(&node, &(struct lease_event){.kind = LEASE_WITHDREW, .reply = {.chunks = 1}},
             now); /* nor unasked */
    CHECK_EQ(node.order_count, 0);
}

TEST(who_leaves_returns_what_is_whole)
{
    struct kit_node node;
    struct lease_pool pool;
    int64_t now = 100 * SEC;
    own_epoch(&node, &pool, NULL, now);
    CHECK(!kit_take(&node, now, 25));
    kit_settle(&node, &pool, now);
    CHECK(kit_take(&node, now, 3));
    CHECK_EQ(kit_held(&node, now), 27);
    kit_event(&node, LEASE_LEAVE, now);
    CHECK(!node.last.gone);
    CHECK_EQ(node.orders[0].op, LEASE_RETURN);
    CHECK_EQ(node.orders[0].chunks, 2);
    kit_settle(&node, &pool, now);
    CHECK(node.last.gone);
    CHECK_EQ(pool.returned, 2);
}

TEST(who_leaves_does_not_wait_for_ever)
{
    struct kit_node node;
    struct lease_pool pool;
    int64_t now = 100 * SEC;
    own_epoch(&node, &pool, NULL, now);
    kit_event(&node, LEASE_LEAVE, now);
    CHECK(!node.last.gone);
    CHECK(node.last.wake_ns <= now + 2 * SEC);
    kit_event(&node, LEASE_WAKE, now + 2 * SEC);
    CHECK(node.last.gone);
    own_epoch(&node, &pool, NULL, now);
    kit_event(&node, LEASE_DOWN, now);
    kit_event(&node, LEASE_LEAVE, now);
    CHECK(node.last.gone);
}

TEST(what_comes_after_leaving_goes_back)
{
    struct kit_node node;
    struct lease_pool pool;
    int64_t now = 100 * SEC;
    own_epoch(&node, &pool, NULL, now);
    CHECK(!kit_take(&node, now, 35));
    kit_event(&node, LEASE_LEAVE, now);
    kit_settle(&node, &pool, now);
    CHECK(node.last.gone);
    CHECK_EQ(pool.returned, 4);
    CHECK_EQ(pool.used, 4);
}
