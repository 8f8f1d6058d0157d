/* SPDX-License-Identifier: MIT */
/*
 * What a member has been granted: in its pot, which has one deadline, or still beside it, because it has not
 * started, ends later than what is in the pot, or is being gathered for somebody who waits. Of the agent's
 * thread.
 *
 * Law: no unit leaves here, into the pot or to somebody who waits, under a later end than it was granted
 * with.
 */
#ifndef WEIR_FLEET_STOCK_H
#define WEIR_FLEET_STOCK_H

#include "core/lease.h"
#include "limiter/pot.h"

enum { STOCK_GRANTS_MAX = 32 };

struct stock {
    struct lease_grant grants[STOCK_GRANTS_MAX]; /* in the order of their ends */
    size_t count;
    int64_t units;        /* of them */
    int64_t pot_until_ns; /* the deadline of the pot */
    int64_t direct;       /* units that went to those who wait, and not through the pot */
    int64_t dropped;      /* that died here */
};

/* All of it is void, the pot's, too. */
void weir_stock_clear(struct stock *stock, struct pot *pot);
/* Beyond STOCK_GRANTS_MAX grants become one, with the later start and the earlier end. A grant of nothing
 * sets the deadline of a pot that is empty. */
void weir_stock_add(struct stock *stock, struct pot *pot, const struct lease_grant *grant);
/* What has ended goes. */
void weir_stock_expire(struct stock *stock, struct pot *pot, int64_t now);
/* Moves what has started into the pot: if that is empty or over; `pressed`: also under its deadline, if that
 * is the earlier one. true: the pot got something. */
bool weir_stock_pour(struct stock *stock, struct pot *pot, int64_t now, bool pressed);
/* Units that weir_stock_gather would have in the pot then. */
int64_t weir_stock_gathered(const struct stock *stock, const struct pot *pot, int64_t now);
/* Moves all of what has started into the pot, under the earliest of their ends, for one large take that comes
 * in a moment. */
void weir_stock_gather(struct stock *stock, struct pot *pot, int64_t now);
/* n units for somebody who waits: of what has started, and of the pot. *until_ns: their end. */
bool weir_stock_serve(struct stock *stock, struct pot *pot, int64_t now, int64_t n, int64_t *until_ns);
/* Takes out up to `most` whole chunks; gives how many. */
int64_t weir_stock_withdraw(struct stock *stock, struct pot *pot, int64_t chunk, int64_t most);
/* When the next grant starts that has not yet; WEIR_FOREVER: there is none. */
int64_t weir_stock_starts(const struct stock *stock, int64_t now);
/* When pouring may have something to do that it has not now. */
int64_t weir_stock_next(const struct stock *stock, int64_t now);

#endif
