/* SPDX-License-Identifier: MIT */
/*
 * Orders as words for a weir server, and its answers as replies. Pure: the connection is elsewhere.
 *
 *     TAKE              WEIR.LEASE name chunks          a map, see below
 *     LOOK, PROBE       WEIR.LEASE name 0               the same map; nothing is granted
 *     RETURN            WEIR.RETURN name epoch chunks   how many were accepted
 *     TURN              nothing: a weir server ends its windows by its own clock
 *
 * The map: kind ("quota" or "bucket"), total, window_ms, burst (of a bucket), chunk: the terms; epoch; chunks
 * and units that are granted; starts_in_ms (rounded up) and expires_in_ms (down); left, perhaps -1 or null
 * for not known; retry_after_ms.
 *
 * Law: a reply never grants what the answer did not say, and of an answer that contradicts itself nothing is
 * believed: it is UNKNOWN. An error is FAILED (the server refuses before it changes anything), but for those
 * of its store, which come when the units may have been taken already: they are UNKNOWN. Who may not RETURN
 * (NOPERM) has returned nothing, and what he had taken out of his balance for it is gone. TRYAGAIN is said by
 * a server that has not heard of its own coordinator yet.
 */
#ifndef WEIR_FLEET_WEIR_REPLY_H
#define WEIR_FLEET_WEIR_REPLY_H

#include "lease/lease.h"
#include "resp/reply.h"

#define TIER_WORDS_MAX 5                   /* of a question */
#define TIER_WHY_MAX   160                 /* bytes of a line about what is wrong */
#define TIER_RETRY_NS  INT64_C(1000000000) /* after an error: it will not go away by asking more often */
#define TIER_SOON_NS   INT64_C(10000000)   /* but one that is to be tried again */

/* A question: words that lie in `name` and in itself. */
struct tier_ask {
    struct slice words[TIER_WORDS_MAX];
    size_t count;
    char epoch[24], chunks[24], units[24];
};

/* false: such an order is never sent to a weir server. */
bool weir_tier_ask(struct tier_ask *ask, const char *name, const struct lease_order *order);

/* What the answer means for the order. `why`, of TIER_WHY_MAX bytes: what is wrong, or "". */
void weir_tier_reply(const struct resp_value *answer, const struct lease_order *order,
                     struct lease_reply *reply, char *why);

/* A reply without an answer: LEASE_FAILED (it was not sent) or LEASE_UNKNOWN. */
void weir_tier_none(const struct lease_order *order, enum lease_outcome outcome, struct lease_reply *reply);

#endif
