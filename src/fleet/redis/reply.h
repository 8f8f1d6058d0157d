/* SPDX-License-Identifier: MIT */
/*
 * Reading what a Redis server answers. Whatever it is, nothing is believed that does not fit: a reply that
 * is not understood grants nothing.
 */
#ifndef WEIR_FLEET_REDIS_REPLY_H
#define WEIR_FLEET_REDIS_REPLY_H

#include "fleet/coordinator.h"
#include "fleet/redis/script.h"
#include "resp/reply.h"

#define REDIS_SLOTS 16384

/* The answer of REDIS_ORDER to this order, asked for under its id. *used: tickets of reply->epoch that are
 * given out by now. false: it is none. */
bool weir_redis_read_order(const struct resp_value *value, const struct lease_order *order,
                           struct lease_reply *reply, int64_t *used);
/* The answer of REDIS_QUOTA. false: it is none. */
bool weir_redis_read_quota(const struct resp_value *value, const char *nonce, struct quota_answer *answer);

/* "quota 100 60000000000 0 10", with the chunk behind it or not (0 then). */
bool weir_redis_read_terms(struct slice text, struct lease_terms *terms);
/* The same, the other way, without the chunk. */
void weir_redis_write_terms(char *text, size_t size, const struct lease_terms *terms);

/* "MOVED 3999 host:port" and "ASK 3999 host:port", said by `from`, whose name is meant where none is said. */
enum redis_redirect { REDIRECT_NONE, REDIRECT_MOVED, REDIRECT_ASK };
enum redis_redirect weir_redis_read_redirect(struct slice error, const struct server_host *from,
                                             unsigned *slot, struct server_host *to);

/* ROLE: is it a master, and of how many replicas; or of whom it is one (port 0: not known). */
bool weir_redis_read_role(const struct resp_value *value, bool *master, size_t *replicas,
                          struct server_host *of);

/* CLUSTER SLOTS, said by `from`: calls `each` for every range. false: it is something else. */
typedef void redis_slot_range(void *arg, unsigned first, unsigned last, const struct server_host *host);
bool weir_redis_read_slots(const struct resp_value *value, const struct server_host *from,
                           redis_slot_range *each, void *arg);

/* The slot of a Redis Cluster that a key belongs to: CRC16 of what stands between the first { and the next },
 * if that is something, else of the whole key. */
unsigned weir_redis_slot(const char *key, size_t len);
uint16_t weir_redis_crc16(const char *bytes, size_t len); /* XMODEM: polynomial 1021, begins with 0 */

#endif
