/* SPDX-License-Identifier: MIT */
/*
 * Exact mode: one question to Redis for each decision, no leases. Under
 * weir:exact:KIND:COUNT:PERIOD:BURST:KEY stands "level since", a decimal number each. The limit is in the
 * name since the numbers mean nothing without it: whoever comes with another limit finds another state, so a
 * limit that is changed begins anew.
 *
 * token-bucket: since `since` (us of TIME) the bucket lacks level/period units and fills by count units every
 * period us, both divided by what they have in common. A take of n passes if level + n*period <=
 * burst*period. The key expires when the bucket is full: then it is as if it had never been. fixed-window:
 * level units have passed in the window that began at `since`; windows begin at multiples of the period.
 *
 * All numbers are whole and below 2^53 (what does not fit is refused by weir_exact_shape): so the arithmetic
 * of doubles is exact, and the decisions are those of the core (core/token_bucket.c within its 1 ns of grace,
 * core/window.c), which a test compares.
 *
 * What Redis forgets is full again: a failover gives back what was lost on the way to the replica, an evicted
 * key its burst, two masters are two buckets. A clock that steps back stands still.
 */
#ifndef WEIR_FLEET_REDIS_EXACT_H
#define WEIR_FLEET_REDIS_EXACT_H

#include "fleet/redis/script.h"
#include "resp/reply.h"
#include "weir.h"

#define EXACT_KEY_MAX  512                  /* bytes of a key, as the user names it */
#define EXACT_NAME_MAX (EXACT_KEY_MAX + 88) /* of a key of Redis */

struct exact_shape {
    bool window;                  /* fixed-window, else token-bucket */
    int64_t count, period, burst; /* as the script has them; fixed-window: burst is count */
};

/* false: exact mode cannot decide by this limit; `err` says what to write. */
bool weir_exact_shape(const struct weir_spec *spec, struct exact_shape *shape, struct weir_error *err);
/* The key of Redis; its length. 0: the user's key is too long, or empty. Braces in that one still say what
 * belongs into one slot. */
size_t weir_exact_key(const struct exact_shape *shape, const char *key, char name[EXACT_NAME_MAX]);
/* The answer of REDIS_EXACT to a take of n. false: it is none. */
bool weir_exact_read(const struct resp_value *value, const struct exact_shape *shape, int64_t n,
                     struct weir_verdict *verdict);

/* As coordinator_ops.decide. */
struct coordinator;
bool weir_redis_decide(struct coordinator *coordinator, const char *key, const struct weir_spec *spec,
                       int64_t n, struct weir_verdict *verdict, struct weir_error *err);

#endif
