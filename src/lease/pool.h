/* SPDX-License-Identifier: MIT */
/*
 * A pool as a coordinator keeps it, one order after the other: what `local:` is, what the simulator's
 * coordinators are, and what the scripts for Redis and the znodes of ZooKeeper are compared with.
 *
 * Two ways. POOL_TURNED: nodes end epochs by LEASE_TURN; the pool only sees to it that one of them wins.
 * POOL_TURNS: the pool turns them itself by its own monotonic clock, and each grant says for how long it
 * holds.
 *
 * Law: of the tickets of an epoch those with units in them add up to at most its total, and what was
 * returned.
 */
#ifndef WEIR_LEASE_POOL_H
#define WEIR_LEASE_POOL_H

#include "lease/ticket.h"

enum lease_pool_flags { POOL_TURNED, POOL_TURNS };

struct lease_pool {
    int32_t way;
    struct lease_terms next;  /* what an operator has said last: from the next epoch on */
    struct lease_terms terms; /* of this epoch */
    uint64_t epoch;           /* from 1 */
    int64_t began_ns;         /* by the pool's clock; BUCKET: the origin */
    int64_t used, returned;   /* tickets asked for; chunks that came back */
    int64_t exhausted_ns;     /* by the pool's clock, when the first ticket had nothing; 0: none had */
};

/* `terms` complete (ticket.h). It begins with its first epoch. */
void weir_pool_begin(struct lease_pool *pool, enum lease_pool_flags way, const struct lease_terms *terms,
                     int64_t now);
/* From the next epoch on. */
void weir_pool_set(struct lease_pool *pool, const struct lease_terms *terms);
/* Applies an order at `now` by the pool's clock. */
void weir_pool_apply(struct lease_pool *pool, const struct lease_order *order, int64_t now,
                     struct lease_reply *reply);

#endif
