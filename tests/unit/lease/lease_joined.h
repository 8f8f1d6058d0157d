/* SPDX-License-Identifier: MIT */
/*
 * A node that has joined a pool: where most tests of the machine's rules begin.
 */
#ifndef WEIR_TESTS_LEASE_JOINED_H
#define WEIR_TESTS_LEASE_JOINED_H

#include "unit/lease/lease_kit.h"

#define MS  WEIR_MS
#define SEC WEIR_SEC
/* Before anybody turns a window of 10 s, if clocks are off by rho. */
#define WAIT (10 * SEC * 1001 / 999 + 1)

static const struct lease_terms hundred = {
    .kind = LEASE_QUOTA, .total = 100, .window_ns = 10 * SEC, .base = 10, .chunk = 10};
static const struct lease_terms flow = {
    .kind = LEASE_BUCKET, .total = 1000, .window_ns = SEC, .burst = 110, .base = 10, .chunk = 10};

/* A node that has joined a pool whose epoch began at `now`. */
static inline void join(struct kit_node *node, struct lease_pool *pool, const struct lease_options *options,
                        int64_t now)
{
    kit_begin(node, options, 1, now);
    kit_event(node, LEASE_UP, now);
    kit_settle(node, pool, now);
}

/* A quota that nodes turn; the node has made its second epoch itself, and so knows when it began. */
static inline void own_epoch(struct kit_node *node, struct lease_pool *pool,
                             const struct lease_options *options, int64_t now)
{
    weir_pool_begin(pool, POOL_TURNED, &hundred, now - 12 * SEC);
    join(node, pool, options, now - 12 * SEC);
    (void)kit_take(node, now, 1);
    kit_settle(node, pool, now);
    CHECK_EQ(pool->epoch, 2);
    CHECK_EQ(node->lease.before_ns, now);
    CHECK_EQ(kit_held(node, now), 10);
}

/* The first of a kind; the others are dropped. */
static inline struct lease_order find_order(struct kit_node *node, int32_t op)
{
    struct lease_order order = {0}, found = {0};
    int64_t sent;
    while (kit_pop(node, &order, &sent))
        if (order.op == op && found.id == 0)
            found = order;
    CHECK(found.id != 0);
    return found;
}

static inline struct lease_order only_order(struct kit_node *node, int32_t op)
{
    struct lease_order order = {0};
    int64_t sent;
    CHECK_EQ(node->order_count, 1);
    (void)kit_pop(node, &order, &sent);
    CHECK_EQ(order.op, op);
    return order;
}

#endif
