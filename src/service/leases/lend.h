/* SPDX-License-Identifier: MIT */
/*
 * Lending chunks of a fleet's policy to other servers and programs. What is lent is taken at once, so it can
 * be spent elsewhere without being asked for again; each loan says for how long.
 *
 *   root, quota    out of the table, as any take; it ends with the window in which it was taken. The epoch
 *                  is when that window began, or when its limit or options were changed in it, in the
 *                  table's time, which goes on over restarts
 *   root, bucket   out of a bucket that is smaller by what comes in `hold` (read_fleet.c); it ends after
 *                  that. The epoch is the table's time when its limit or options became what they are:
 *                  another one tells those who lease to learn them anew
 *   another tier   out of the pool's balance, with the balance's own end and epoch
 *
 * Ends are rounded down, starts are now: whoever counts from when he asked can only be early. Of what comes
 * back no more is accepted than was lent in the epoch and has not come back before: the account is in
 * memory, so after a start nothing of before is accepted. That loses units and makes none. A chunk may have
 * had another size when it was lent, by a server before this one or by this one before a change: so who
 * returns some says how many units they are.
 */
#ifndef WEIR_SERVICE_LEASES_LEND_H
#define WEIR_SERVICE_LEASES_LEND_H

#include "service/leases/lease_text.h"

/* What is asked for. */
struct lease_request {
    struct pair pair; /* n: units */
    struct fleet_pools *pools;
    enum policy_mode mode;
    int64_t chunks;
};

/* Lends what there is, up to ask->chunks; with 0 only looks. A root counts it. */
void weir_lend(struct worker *worker, const struct lease_request *ask, struct lease_result *result);
/* Counts what another tier has lent, or has not. */
void weir_lend_count(struct worker *worker, const struct lease_request *ask,
                     const struct lease_result *result);
/* Takes chunks of ask->pair.n units together back into the epoch that they were lent in, and into no other;
 * gives how many. */
int64_t weir_lend_back(struct worker *worker, const struct lease_request *ask, uint64_t epoch);

#endif
