/* SPDX-License-Identifier: MIT */
/*
 * The edges of the lease machine's rules: what an answer, a notice or the balance must not be able to do.
 * Each is here because a machine without that edge passed all other tests.
 */
#include "unit/lease/lease_joined.h"

static void notice(struct kit_node *node, uint64_t epoch, const struct lease_terms *terms, int64_t now)
{
    struct lease_reply seen = {.epoch = epoch, .terms = *terms};
    kit_step(node, &(struct lease_event){.kind = LEASE_NOTICED, .reply = seen}, now);
}

static struct lease_reply answer(const struct lease_order *order, uint64_t epoch, int64_t units)
{
    return (struct lease_reply){.id = order->id,
                                .op = order->op,
                                .epoch = epoch,
                                .terms = hundred,
                                .chunks = units / 10,
                                .units = units,
                                .left = -1,
                                .age_ns = -1,
                                .ends_ns = -1};
}

/* ---- epochs that are over ---- */

TEST(a_read_of_an_older_epoch_is_no_new_beginning)
{
    struct kit_node node;
    struct lease_pool pool;
    int64_t now = 100 * SEC;
    own_epoch(&node, &pool, NULL, now);
    kit_event(&node, LEASE_UP, now + 30 * SEC);
    struct lease_order order = only_order(&node, LEASE_LOOK);
    struct lease_reply old = answer(&order, 1, 0);
    kit_reply(&node, &old, now + 30 * SEC, now + 30 * SEC);
    CHECK_EQ(node.lease.epoch, 2);
}

/* An ensemble whose data goes back and forth: what was written to the older data after this epoch was seen
 * says nothing of when it began. */
TEST(an_older_epoch_that_answers_late_prolongs_nothing)
{
    struct kit_node node;
    struct lease_pool pool;
    int64_t now = 100 * SEC;
    own_epoch(&node, &pool, NULL, now);
    CHECK(!kit_take(&node, now + 5 * SEC, 15));
    struct lease_order order = find_order(&node, LEASE_TAKE);
    struct lease_reply old = answer(&order, 1, 10);
    kit_reply(&node, &old, now + 5 * SEC, now + 5 * SEC);
    CHECK_EQ(node.lease.epoch, 2);
    CHECK_EQ(node.lease.before_ns, now);
}

/* Two masters: what one of them has answered lies before no window of the other. */
TEST(an_answer_of_another_server_is_before_nothing)
{
    for (int other = 0; other < 2; other++) {
        struct kit_node node;
        struct lease_pool pool;
        int64_t now = 100 * SEC;
        own_epoch(&node, &pool, NULL, now);
        CHECK(!kit_take(&node, now + 5 * SEC, 15));
        struct lease_order order = find_order(&node, LEASE_TAKE);
        struct lease_reply reply = answer(&order, 7, 10);
        reply.other = other;
        kit_reply(&node, &reply, now + 5 * SEC, now + 5 * SEC);
        CHECK_EQ(node.lease.epoch, 7);
        CHECK_EQ(node.lease.before_ns, other ? -1 : now);
        CHECK_EQ(node.lease.answered_ns, now + 5 * SEC);
    }
}

/* Nothing was sent for it: what it says was read before, perhaps from a server that is behind. */
TEST(a_take_that_was_only_read_tells_nothing_of_when)
{
    struct kit_node node;
    struct lease_pool pool;
    int64_t now = 100 * SEC;
    own_epoch(&node, &pool, NULL, now);
    int64_t answered = node.lease.answered_ns;
    CHECK(!kit_take(&node, now + 5 * SEC, 15));
    struct lease_order order = find_order(&node, LEASE_TAKE);
    struct lease_reply reply = answer(&order, 2, 0);
    reply.read = reply.exhausted = true;
    kit_reply(&node, &reply, now + 5 * SEC, now + 5 * SEC);
    CHECK_EQ(node.lease.answered_ns, answered);
    CHECK(node.last.exhausted);
}

TEST(a_notice_of_an_older_epoch_changes_nothing)
{
    struct kit_node node;
    struct lease_pool pool;
    int64_t now = 100 * SEC;
    own_epoch(&node, &pool, NULL, now);
    notice(&node, 1, &hundred, now + SEC);
    CHECK_EQ(node.lease.epoch, 2);
    CHECK_EQ(kit_held(&node, now + SEC), 10);
}

/* An answer is known by the number of its order, and by nothing else. */
TEST(no_order_has_the_number_of_another)
{
    struct kit_node node;
    struct lease_pool pool;
    int64_t now = 100 * SEC;
    uint64_t last = 0;
    own_epoch(&node, &pool, NULL, now);
    for (int i = 0; i < 40; i++) {
        (void)kit_take(&node, now + i * SEC, 3);
        for (size_t k = 0; k < node.order_count; k++) {
            CHECK(node.orders[k].id > last);
            last = node.orders[k].id;
        }
        kit_settle(&node, &pool, now + i * SEC);
        last = node.lease.next_id > last ? node.lease.next_id : last;
    }
    CHECK(last > 20);
}

/* ---- terms ---- */

TEST(terms_hold_for_an_epoch)
{
    struct kit_node node;
    struct lease_pool pool;
    struct lease_terms other = hundred;
    int64_t now = 100 * SEC;
    own_epoch(&node, &pool, NULL, now);
    other.chunk = 20;
    other.total = 1000;
    notice(&node, 2, &other, now);
    CHECK(!kit_take(&node, now, 15));
    struct lease_order order = only_order(&node, LEASE_TAKE);
    struct lease_reply reply = answer(&order, 2, 20);
    reply.terms = other;
    kit_reply(&node, &reply, now, now);
    CHECK_EQ(node.lease.terms.chunk, 10);
    CHECK_EQ(node.lease.terms.total, 100);
    CHECK_EQ(kit_held(&node, now), 20); /* a chunk, as was agreed */
}

TEST(terms_that_cannot_be_are_not_known_yet)
{
    static const struct lease_terms wrong[] = {
        {.kind = 7, .total = 100, .window_ns = SEC, .base = 10, .chunk = 10},
        {.kind = LEASE_QUOTA, .total = 0, .window_ns = SEC, .base = 10, .chunk = 10},
        {.kind = LEASE_QUOTA, .total = INT64_MAX, .window_ns = SEC, .base = 10, .chunk = 10},
        {.kind = LEASE_QUOTA, .total = 100, .window_ns = 1, .base = 10, .chunk = 10},
        {.kind = LEASE_QUOTA, .total = 100, .window_ns = INT64_MAX, .base = 10, .chunk = 10},
        {.kind = LEASE_QUOTA, .total = 100, .window_ns = SEC, .base = -1, .chunk = 10},
        {.kind = LEASE_QUOTA, .total = 100, .window_ns = SEC, .base = 10, .chunk = -1},
        {.kind = LEASE_QUOTA, .total = 100, .window_ns = SEC, .base = 10, .chunk = INT64_MAX},
        {.kind = LEASE_BUCKET, .total = 100, .window_ns = SEC, .burst = -1, .base = 10, .chunk = 10},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct kit_node node;
        struct lease_pool pool;
        int64_t now = 100 * SEC;
        own_epoch(&node, &pool, NULL, now);
        notice(&node, 3, &wrong[i], now + SEC);
        if (!CHECK_EQ(node.lease.terms.chunk, 0))
            printf("# row %zu\n", i);
        CHECK_EQ(only_order(&node, LEASE_LOOK).chunks, 0); /* it is asked what they are */
    }
}

/* ---- ends ---- */

TEST(a_grant_that_comes_at_its_end_is_dropped)
{
    struct kit_node node;
    struct lease_pool pool;
    int64_t now = 100 * SEC, sent = now + 9 * SEC;
    own_epoch(&node, &pool, NULL, now);
    CHECK(!kit_take(&node, sent, 15));
    struct lease_order order = find_order(&node, LEASE_TAKE);
    struct lease_reply reply = answer(&order, 2, 10);
    kit_reply(&node, &reply, sent, now + 10 * SEC);
    CHECK_EQ(node.last.grant_count, 0);
    CHECK_EQ(node.lease.dropped, 10);
}

/* Each answer of a coordinator with a clock gives a slightly later end: what is in the balance keeps its own.
 */
TEST(the_end_of_what_is_held_stays)
{
    struct kit_node node;
    struct lease_pool pool;
    weir_pool_begin(&pool, POOL_TURNS, &hundred, 0);
    join(&node, &pool, NULL, 0);
    CHECK(!kit_take(&node, 0, 1));
    kit_settle(&node, &pool, 0);
    int64_t end = node.lots[0].until_ns;
    CHECK_EQ(end, 9980 * MS);
    CHECK(!kit_take(&node, 5 * SEC, 15));
    kit_settle(&node, &pool, 5 * SEC);
    CHECK_EQ(kit_held(&node, 5 * SEC), 20);
    for (size_t i = 0; i < node.lot_count; i++)
        CHECK_EQ(node.lots[i].until_ns, end);
    CHECK(kit_take(&node, 6 * SEC, 20)); /* nothing is held: it may rise */
    CHECK(!kit_take(&node, 6 * SEC, 1));
    kit_settle(&node, &pool, 6 * SEC);
    CHECK_EQ(node.last_until, 9992 * MS);
}

/* The next window is shorter, and ends before the one that a taker may have read. */
TEST(the_end_of_a_balance_never_falls)
{
    struct kit_node node;
    struct lease_pool pool;
    struct lease_terms shorter = hundred;
    int64_t now = 100 * SEC;
    own_epoch(&node, &pool, NULL, now);
    shorter.window_ns = 5 * SEC;
    CHECK(!kit_take(&node, now + SEC, 15));
    struct lease_order order = find_order(&node, LEASE_TAKE);
    notice(&node, 3, &shorter, now + SEC);
    struct lease_reply reply = answer(&order, 3, 10);
    kit_reply(&node, &reply, now + SEC, now + SEC);
    CHECK_EQ(node.last.grant_count, 0);
    CHECK_EQ(node.lease.dropped, 10);
}

/* A ticket that could only be dropped is left to others. */
TEST(after_a_longer_window_nothing_is_taken_in_vain)
{
    struct kit_node node;
    struct lease_pool pool;
    struct lease_terms shorter = hundred;
    struct lease_order order;
    int64_t now = 100 * SEC, sent;
    own_epoch(&node, &pool, NULL, now);
    shorter.window_ns = 5 * SEC;
    notice(&node, 3, &shorter, now + SEC);
    CHECK(!kit_take(&node, now + SEC, 1));
    while (kit_pop(&node, &order, &sent))
        CHECK(order.op != LEASE_TAKE);
}

TEST(an_age_that_is_not_known_is_none)
{
    struct kit_node node;
    struct lease_pool pool;
    int64_t now = 100 * SEC;
    weir_pool_begin(&pool, POOL_TURNED, &hundred, now);
    join(&node, &pool, NULL, now);
    CHECK(!kit_take(&node, now + 50 * MS, 1)); /* within the guard an age of 0 could be */
    struct lease_order order = only_order(&node, LEASE_PROBE);
    struct lease_reply reply = answer(&order, 1, 0);
    kit_reply(&node, &reply, now + 50 * MS, now + 50 * MS);
    CHECK_EQ(node.lease.before_ns, -1);
    CHECK_EQ(node.order_count, 0); /* it waits for the next epoch */
}

/* An order was sent after it was given, and before its answer came. */
TEST(a_time_of_sending_that_cannot_be_is_not_believed)
{
    static const int64_t said[] = {0, INT64_MAX};
    for (int i = 0; i < 2; i++) {
        struct kit_node node;
        struct lease_pool pool;
        struct lease_reply reply;
        own_epoch(&node, &pool, NULL, 100 * SEC);
        int64_t turn = node.lease.turn_at_ns;
        (void)kit_take(&node, turn, 1);
        struct lease_order order = find_order(&node, LEASE_TURN);
        weir_pool_apply(&pool, &order, turn, &reply);
        kit_reply(&node, &reply, said[i], turn + SEC);
        CHECK_EQ(node.lease.epoch, 3);
        CHECK_EQ(node.lease.before_ns, i == 0 ? turn : turn + SEC);
    }
}

/* The jitter that spreads those who turn comes on top, and hides nothing. */
TEST(nobody_s_lot_is_to_turn_before_the_slowest_clock_has_passed)
{
    int64_t now = 100 * SEC, first = INT64_MAX, last = 0;
    for (uint64_t seed = 1; seed <= 1000; seed++) {
        struct kit_node node;
        struct lease_pool pool;
        weir_pool_begin(&pool, POOL_TURNED, &hundred, now);
        kit_begin(&node, NULL, seed, now);
        kit_event(&node, LEASE_UP, now);
        kit_settle(&node, &pool, now);
        int64_t turn = node.lease.turn_at_ns;
        first = turn < first ? turn : first;
        last = turn > last ? turn : last;
    }
    CHECK(first >= now + WAIT && first < now + WAIT + MS);
    CHECK(last > now + WAIT + 40 * MS && last <= now + WAIT + 50 * MS);
}

TEST(exhausted_is_told_once_an_epoch)
{
    struct kit_node node;
    struct lease_pool pool;
    int64_t now = 100 * SEC;
    own_epoch(&node, &pool, NULL, now);
    for (int i = 0; i < 3; i++) {
        int64_t t = now + i * SEC;
        node.told = 0;
        kit_event(&node, LEASE_MORE, t); /* somebody has returned some, and another one was faster */
        CHECK(!kit_take(&node, t + 100 * MS, 15));
        struct lease_order order = find_order(&node, LEASE_TAKE);
        struct lease_reply reply = answer(&order, 2, 0);
        reply.exhausted = true;
        kit_reply(&node, &reply, t + 100 * MS, t + 100 * MS);
        CHECK_EQ(node.told, i == 0 ? LEASE_EXHAUSTED : 0);
    }
}

/* ---- giving back ---- */

TEST(no_more_is_returned_than_was_asked_of_the_balance)
{
    struct kit_node node;
    struct lease_pool pool;
    int64_t now = 100 * SEC;
    own_epoch(&node, &pool, NULL, now);
    node.lease.withdraw_epoch = 2;
    node.lease.withdraw_most = 1;
    kit_step(&node, &(struct lease_event){.kind = LEASE_WITHDREW, .reply = {.chunks = 5}}, now);
    CHECK_EQ(only_order(&node, LEASE_RETURN).chunks, 1);
}

TEST(a_part_of_a_chunk_is_never_returned)
{
    struct kit_node node;
    struct lease_pool pool;
    struct lease_actions act;
    int64_t now = 100 * SEC;
    own_epoch(&node, &pool, NULL, now);
    CHECK(!kit_take(&node, now, 15));
    struct lease_order order = only_order(&node, LEASE_TAKE);
    struct lease_balance_view balance = {.held = 27};
    weir_lease_step(&node.lease, &(struct lease_event){.kind = LEASE_LEAVE}, &balance, now, &act);
    CHECK_EQ(act.withdraw, 2);
    struct lease_event last = {.kind = LEASE_REPLIED, .reply = answer(&order, 2, 9), .sent_ns = now};
    weir_lease_step(&node.lease, &last, &balance, now, &act); /* what comes late: the rest of the total */
    CHECK_EQ(act.order_count, 0);
}

TEST(who_leaves_asks_for_nothing_more)
{
    struct kit_node node;
    struct lease_pool pool;
    int64_t now = 100 * SEC;
    own_epoch(&node, &pool, NULL, now);
    kit_event(&node, LEASE_LEAVE, now);
    CHECK_EQ(only_order(&node, LEASE_RETURN).chunks, 1);
    CHECK(!kit_take(&node, now + SEC, 15));
    CHECK_EQ(node.order_count, 0);
}

/* ---- without the coordinator ---- */

/* Connected again, but nothing was answered yet. */
static void share_all(struct kit_node *node, struct lease_pool *pool, int64_t now)
{
    struct lease_options options = {.on_loss = LEASE_LOSS_SHARE, .nodes = 1};
    own_epoch(node, pool, &options, now - 20 * SEC);
    kit_event(node, LEASE_DOWN, now - 20 * SEC);
    kit_event(node, LEASE_WAKE, now - 5 * SEC);
    kit_event(node, LEASE_UP, now);
    kit_event(node, LEASE_WAKE, now);
    CHECK(node->last.sharing);
    CHECK_EQ(kit_held(node, now), 100);
}

TEST(a_share_is_never_returned)
{
    struct kit_node node;
    struct lease_pool pool;
    int64_t now = 100 * SEC;
    share_all(&node, &pool, now);
    for (int i = 0; i < 10; i++)
        kit_event(&node, LEASE_WAKE, now + i * 100 * MS);
    CHECK_EQ(node.withdrawn, 0);
    share_all(&node, &pool, now);
    kit_event(&node, LEASE_LEAVE, now);
    CHECK_EQ(node.withdrawn, 0);
}

/* It answers once in between, and is lost again: that is no second share of the same window. */
TEST(a_share_is_not_begun_anew_by_an_answer)
{
    struct kit_node node;
    struct lease_pool pool;
    struct lease_options options = {.on_loss = LEASE_LOSS_SHARE, .nodes = 4, .no_age = true};
    int64_t now = 100 * SEC, passed = 0;
    own_epoch(&node, &pool, &options, now);
    kit_event(&node, LEASE_DOWN, now);
    for (int64_t t = now + 10 * SEC; t < now + 20 * SEC; t += 10 * MS) {
        if (node.last.wake_ns <= t)
            kit_event(&node, LEASE_WAKE, t);
        if (t == now + 12 * SEC) {
            kit_event(&node, LEASE_UP, t);
            struct lease_order order = find_order(&node, LEASE_LOOK);
            struct lease_reply reply = answer(&order, 2, 0);
            kit_reply(&node, &reply, t, t);
            CHECK(!node.last.sharing);
            kit_event(&node, LEASE_DOWN, t);
        }
        passed += kit_take(&node, t, 1);
    }
    CHECK(node.last.sharing);
    CHECK_EQ(passed, 25);
}

TEST(a_total_that_is_spent_is_not_shared_in_its_window)
{
    struct kit_node node;
    struct lease_pool pool;
    struct lease_options options = {.on_loss = LEASE_LOSS_SHARE, .nodes = 4, .no_age = true};
    int64_t now = 100 * SEC;
    own_epoch(&node, &pool, &options, now);
    notice(&node, 3, &hundred, now + 5 * SEC); /* ends at 10 s, as far as this node knows */
    CHECK(!kit_take(&node, now + 5 * SEC, 1));
    struct lease_order order = find_order(&node, LEASE_TAKE);
    struct lease_reply reply = answer(&order, 3, 0);
    reply.exhausted = true;
    kit_reply(&node, &reply, now + 5 * SEC, now + 5 * SEC);
    kit_event(&node, LEASE_DOWN, now + 5 * SEC);
    kit_event(&node, LEASE_WAKE, now + 9 * SEC);
    CHECK(node.last.lost && !node.last.sharing);
    kit_event(&node, LEASE_WAKE, now + 10 * SEC);
    CHECK(node.last.sharing);
}

/* ---- buckets ---- */

TEST(dead_numbers_of_an_idle_bucket_stay_dead)
{
    struct kit_node node;
    struct lease_pool pool;
    weir_pool_begin(&pool, POOL_TURNED, &flow, 0);
    join(&node, &pool, NULL, 50 * SEC);
    for (int64_t t = 50 * SEC; t < 60 * SEC; t += 100 * MS) {
        kit_event(&node, LEASE_WAKE, t);
        kit_settle(&node, &pool, t);
    }
    CHECK_EQ(pool.epoch, 1);
}

/* A balance's deadline only grows. Ends are told in whole milliseconds, so those of one and the same end
 * differ by a little, one way and the other: all of these units have to find room in one balance. */
TEST(units_of_a_bucket_that_end_at_about_the_same_time_share_an_end)
{
    struct kit_node node;
    struct lease_order order;
    int64_t now = 100 * SEC, ends = now + 100 * MS, common = 0, sent;
    kit_begin(&node, NULL, 1, now);
    kit_event(&node, LEASE_UP, now);
    for (int i = 0; i < 20; now += 300000) {
        (void)kit_take(&node, now, kit_held(&node, now) + 1);
        if (!CHECK(kit_pop(&node, &order, &sent)))
            break;
        bool take = order.op == LEASE_TAKE;
        struct lease_reply reply = answer(&order, 1, take ? 10 : 0);
        reply.terms = flow;
        reply.ends_ns = take ? (ends - sent) / MS * MS : -1;
        kit_reply(&node, &reply, sent, now);
        if (!take) /* it looks first */
            continue;
        CHECK_EQ(node.last.grant_count, 1);
        int64_t until = node.last.grants[0].until_ns;
        CHECK(until <= sent + reply.ends_ns && until - now >= 80 * MS);
        if (i++ > 0)
            CHECK_EQ(until, common);
        common = until;
    }
}
