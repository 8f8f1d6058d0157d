/* SPDX-License-Identifier: MIT */
/*
 * What a Redis server is asked to do, as scripts in its own language: each is one atomic step that reads the
 * server's clock itself.
 *
 * A pool is the hash weir:{NAME}:quota:
 *
 *     kind total window burst base   what an operator has said, from the next epoch on; window in ns
 *     epoch                          the number of the epoch, higher than any before: us since 1970 at best
 *     of                             its own terms: "quota 100 60000000000 0 10 10", the last one the chunk
 *     began                          when it began, us of TIME; a bucket: its origin; -1: not known any more
 *     used returned count            tickets given out, chunks that came back, tickets with units in them
 *     run last                       the server that wrote it ("run_id:master_replid"), and when, last
 *     kept vouched                   made by `weir quota create`: see below
 *     wait                           us for which units of the pool that was deleted before it may live
 *
 * Doubt. Redis forgets: a replica that takes over has not seen the last writes, a server without persistence
 * starts empty, keys are evicted and deleted, copies of them are put back. So a server only goes on with an
 * epoch that it has written to itself (run_id) and not been a replica since (master_replid: whoever is
 * promoted gets a new one, so a failover there and back again is noticed, too), whose clock has not stepped
 * back, and of which who asks has seen neither a later one nor more tickets. Else it begins an epoch with
 * nothing in it (a quota), or one whose tickets start when all others that there may be have died (a bucket).
 * It lasts for as long as units may live that were given out before, by what the pool still says of itself
 * and by what who asks has seen of it (`span`, ns): the pool's own window may be longer than the one that
 * nodes were told. Nodes wait for it by their own clocks before they turn it, as they do with any epoch. So
 * whatever was forgotten, nobody gets units while others may still have some: nothing is over, and a failover
 * costs a window. (So does the first replica that a server ever gets, and an hour in which it has lost all of
 * them: it then takes a new master_replid, too.) `failover=trust` leaves this out; then what was forgotten
 * may be given out twice.
 *
 * A pool that is not there. It was never there, or it is forgotten. It begins at once with all units only if
 * who asks has not known it within two windows, and the server runs for longer than a window (what its
 * predecessor gave out is dead), was not a replica, and has never evicted a key; or if an operator has made
 * it (`vouched`: by the same `run`). Else it begins in doubt.
 *
 * What is left are hands: DEL or FLUSHALL, or an old copy of the key put back (RESTORE), and somebody comes
 * first who has not seen what was given out since: at most the total, once. So it is if all is lost and
 * somebody comes first who has been told of a shorter window than the pool had, and has not seen it. `weir
 * quota delete` leaves the word "gone" in its place for two windows and has not even that.
 *
 * An epoch more than 101 years ahead of the server's clock was written by hand, and is not believed: what
 * follows it has to fit into a double. Epochs that are, with clocks as wrong as they like, are below that.
 *
 * Two masters at once (a partition) are two pools: each gives out the total. Redis can only make that shorter
 * (min-replicas-to-write).
 *
 * Expiry: a pool that nobody asked of for three windows and an hour goes (`kept`: never). Nobody has units
 * of it then.
 *
 * Numbers are doubles there. Amounts are at most 10^15, times in us below 2^53 until the year 2255, counts at
 * most 10^9 and returned chunks no more than these: sums and differences of them are exact. The quotient of a
 * total is made exact by fmod. Windows of more than 104 days in ns are not, and times of a bucket's tickets
 * are products with fractions: both err by less than 2^-50 of themselves and only choose a ticket; what it
 * stands for, and from when to when, is computed by lease/ticket.h from its number.
 */
#ifndef WEIR_FLEET_REDIS_SCRIPT_H
#define WEIR_FLEET_REDIS_SCRIPT_H

#include "base/buffer.h"

#define REDIS_EPOCH_AHEAD      3200000000000000 /* us */
#define REDIS_EPOCH_AHEAD_TEXT "3200000000000000"

enum redis_script {
    REDIS_ORDER, /* KEYS pool; ARGV op nonce known held epoch chunks chunk trust terms seen span */
    REDIS_QUOTA, /* KEYS pool; ARGV op nonce kind total window burst base */
    REDIS_EXACT, /* KEYS state; ARGV kind n count period burst [now]: exact mode */
    REDIS_SCRIPTS
};

/* Fields of the answers, in their order. All but texts are whole numbers. */
enum redis_order_field {
    ORDER_NONCE, /* text: as it was given */
    ORDER_OUTCOME,
    ORDER_EPOCH,
    ORDER_TERMS, /* text: `of` */
    ORDER_NOW,
    ORDER_BEGAN,
    ORDER_USED, /* before it */
    ORDER_GRANTED,
    ORDER_RETURNED, /* after it */
    ORDER_ACCEPTED,
    ORDER_VOID, /* 1: an epoch with nothing in it */
    ORDER_RETRY,
    ORDER_FIELDS
};
enum redis_quota_field {
    QUOTA_NONCE, /* text */
    QUOTA_FOUND,
    QUOTA_TERMS, /* text: "kind total window burst base", or "" */
    QUOTA_OF,    /* text: as ORDER_TERMS, or "" */
    QUOTA_EPOCH,
    QUOTA_NOW,
    QUOTA_BEGAN,
    QUOTA_USED,
    QUOTA_RETURNED,
    QUOTA_VOID,
    QUOTA_NOTE, /* text */
    QUOTA_FIELDS
};
enum redis_exact_field { EXACT_ALLOWED, EXACT_NOW, EXACT_LEVEL, EXACT_SINCE, EXACT_FIELDS };

/* Appends its text. */
void weir_redis_script(struct buffer *text, enum redis_script script);

#endif
