/* SPDX-License-Identifier: MIT */
/*
 * What a member has been granted: in its balance, which has one deadline, or still beside it, because it has
 * not started, ends later than what is in the balance, or is being gathered for somebody who waits. Of the
 * agent's thread.
 *
 * Law: no unit leaves here, into the balance or to somebody who waits, under a later end than it was granted
 * with.
 */
#ifndef WEIR_FLEET_GRANT_STORE_H
#define WEIR_FLEET_GRANT_STORE_H

#include "lease/lease.h"
#include "limiter/balance.h"

enum { GRANT_STORE_MAX = 32 };

struct grant_store {
    struct lease_grant grants[GRANT_STORE_MAX]; /* in the order of their ends */
    size_t count;
    int64_t units;            /* of them */
    int64_t balance_until_ns; /* the deadline of the balance */
    int64_t direct;           /* units that went to those who wait, and not through the balance */
    int64_t dropped;          /* that died here */
};

/* All of it is void, the balance's, too. */
void weir_grant_store_clear(struct grant_store *granted, struct lease_balance *balance);
/* Beyond GRANT_STORE_MAX grants become one, with the later start and the earlier end. A grant of nothing
 * sets the deadline of a balance that is empty. */
void weir_grant_store_add(struct grant_store *granted, struct lease_balance *balance,
                          const struct lease_grant *grant);
/* What has ended goes. */
void weir_grant_store_expire(struct grant_store *granted, struct lease_balance *balance, int64_t now);
/* Moves what has started into the balance: if that is empty or over; `pressed`: also under its deadline, if
 * that is the earlier one. true: the balance got something. */
bool weir_grant_store_fill_balance(struct grant_store *granted, struct lease_balance *balance, int64_t now,
                                   bool pressed);
/* Units that weir_grant_store_gather would have in the balance then. */
int64_t weir_grant_store_gathered(const struct grant_store *granted, const struct lease_balance *balance,
                                  int64_t now);
/* Moves all of what has started into the balance, under the earliest of their ends, for one large take that
 * comes in a moment. */
void weir_grant_store_gather(struct grant_store *granted, struct lease_balance *balance, int64_t now);
/* n units for somebody who waits: of what has started, and of the balance. *until_ns: their end. */
bool weir_grant_store_serve(struct grant_store *granted, struct lease_balance *balance, int64_t now,
                            int64_t n, int64_t *until_ns);
/* Takes out up to `most` whole chunks; gives how many. */
int64_t weir_grant_store_withdraw(struct grant_store *granted, struct lease_balance *balance, int64_t chunk,
                                  int64_t most);
/* When the next grant starts that has not yet; WEIR_FOREVER: there is none. */
int64_t weir_grant_store_starts(const struct grant_store *granted, int64_t now);
/* When pouring may have something to do that it has not now. */
int64_t weir_grant_store_next(const struct grant_store *granted, int64_t now);

#endif
