/* SPDX-License-Identifier: MIT */
/*
 * What the Stat of a pool's `usable` says (znodes.h): its version is the number of a ticket, its
 * times tell how old the epoch is and where a bucket stands. Pure.
 *
 * Law: times are compared only if one leader has stamped them; they are cut off to milliseconds, and what
 * follows from them errs towards less.
 */
#ifndef WEIR_FLEET_ZOOKEEPER_STAT_H
#define WEIR_FLEET_ZOOKEEPER_STAT_H

#include "fleet/zookeeper/znodes.h"

struct znode_stat {
    int64_t czxid, mzxid;       /* the transactions that made it and wrote it last: term << 32 | count */
    int64_t ctime_ms, mtime_ms; /* by the wall clock of the leader of that term */
    int32_t version;            /* writes since it was made */
};

/* Of an epoch at the last write of its `usable`, in ns; -1: the leader has changed since, and with it the
 * clock. */
int64_t weir_znode_age(const struct znode_stat *usable);

/* Adds to a reply (which says epoch, terms, and nothing granted before the first) what one set of `usable`
 * has got, by its Stat. `returned`: the version of `returns` when the set was sent, or an earlier one. */
void weir_znode_take(const struct znode_epoch *epoch, const struct znode_stat *usable, int64_t returned,
                     struct lease_reply *reply);

/* Units left when `usable` was in that state, and `later_ns` have passed since; of a bucket, that could be
 * spent at once. */
int64_t weir_znode_left(const struct znode_epoch *epoch, const struct znode_stat *usable, int64_t returned,
                        int64_t later_ns);

/* BUCKET: the longest time until a ticket may start; one that starts later is void. */
int64_t weir_znode_ahead(const struct lease_terms *terms);
/* How long an epoch of terms `next` waits that follows one of terms `old` of which nobody knows what was
 * given out. QUOTA: until all of it has ended. BUCKET: until its numbers lie behind all of those, by the time
 * in which a chunk comes in, and those have died. */
int64_t weir_znode_wait(const struct lease_terms *old, const struct lease_terms *next);
/* How long an epoch waits that is made without knowing this one at all: what its pool's node says. */
int64_t weir_znode_outlives(const struct znode_epoch *epoch);
/* BUCKET: a ticket that ends sooner is passed over: nobody could spend it. */
int64_t weir_znode_least(const struct lease_terms *terms);
/* BUCKET: the time since the origin of the epoch, at the last write of `usable`; never more than it is. */
int64_t weir_znode_since(const struct znode_epoch *epoch, const struct znode_stat *usable);

#endif
