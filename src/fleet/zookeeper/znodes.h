/* SPDX-License-Identifier: MIT */
/*
 * A pool as it lies in ZooKeeper, without ZooKeeper: paths, and what stands in the nodes. Pure.
 *
 *     PATH/quota/NAME    wait=1m: for so long after its last epoch units of it may live. "gone wait=1m": it
 * was deleted, and has no children. Its version counts how often it was made whole
 *     .../total          100/m, or of a bucket 10k/s burst=20k: for an operator to write
 *     .../base           10: likewise
 *     .../usable         units left, roughly; its version: tickets that were asked for; made anew: an epoch
 *     .../refresh        kind=quota total=100 window=1m base=10 chunk=10: the terms of the epoch
 *     .../returns        chunks that came back, roughly; its version counts them
 *
 * All of it is text. An epoch is the transaction (zxid) that made `usable`; the same one wrote `refresh`, so
 * the terms of an epoch are what stands in `refresh` if its mzxid is the czxid of `usable`, and nothing else.
 *
 * Law: what does not read back as it would be written is not believed.
 */
#ifndef WEIR_FLEET_ZOOKEEPER_ZNODES_H
#define WEIR_FLEET_ZOOKEEPER_ZNODES_H

#include "fleet/coordinator.h"
#include "lease/ticket.h"

enum znode { ZNODE_POOL, ZNODE_TOTAL, ZNODE_BASE, ZNODE_USABLE, ZNODE_REFRESH, ZNODE_RETURNS, ZNODE_COUNT };

#define ZNODE_PATH_MAX 640
#define ZNODE_TEXT_MAX 256 /* bytes of a node: more is nonsense */

/* What `refresh` says. */
struct znode_epoch {
    struct lease_terms terms; /* complete */
    /* Nobody knew what had been given out when it began, so nothing of it may be spent before: of a bucket,
     * for so long; of a quota, at all. 0: an ordinary one. */
    int64_t wait_ns;
};

/* `root`: "" or /path. */
void weir_znode_path(char path[ZNODE_PATH_MAX], const char *root, const char *name, enum znode which);

void weir_znode_refresh_write(const struct znode_epoch *epoch, char text[ZNODE_TEXT_MAX]);
bool weir_znode_refresh_read(struct znode_epoch *epoch, const char *text, size_t len);

/* What the pool's own node says. wait_ns 0: not known. */
struct znode_pool {
    bool gone;
    int64_t wait_ns;
};
void weir_znode_pool_write(const struct znode_pool *pool, char text[ZNODE_TEXT_MAX]);
/* What is nonsense says nothing: all of it is 0. */
void weir_znode_pool_read(struct znode_pool *pool, const char *text, size_t len);

/* `total`, with its window: who mends a pool that he never knew has nothing else to know it from. */
void weir_znode_total_write(const struct lease_terms *terms, char text[ZNODE_TEXT_MAX]);
/* Of a pool of terms->kind: puts total, window and burst in their places, which keep what is not said. */
bool weir_znode_total_read(struct lease_terms *terms, const char *text, size_t len);
/* Of `base`: 1 or more. */
bool weir_znode_base_read(int64_t *base, const char *text, size_t len);

/* The terms after those of `epoch`, as an operator has written them; `total` or `base` of length 0 are not
 * there. What cannot be meant is passed over, and `note` says so (else it is ""). The chunk is what `chunk`
 * asks for as far as it fits. */
void weir_znode_next(const struct znode_epoch *epoch, const char *total, size_t total_len, const char *base,
                     size_t base_len, int64_t chunk, struct lease_terms *next, char note[160]);

#endif
