/* SPDX-License-Identifier: MIT */
/*
 * The mark: how far the log was surely on the disk, and whether its process ended well. It is written about
 * once a second, after a sync, so it never says too much. Two slots a page apart, written in turn: a cut in
 * the middle of one leaves the other. All of these by who holds sync.step.
 */
#ifndef WEIR_STORE_MARK_H
#define WEIR_STORE_MARK_H

#include "store/internal.h"

#define MARK_NAME    "mark"
#define MARK_MAGIC   UINT32_C(0x4b52414d) /* "MARK" */
#define MARK_VERSION 1
#define MARK_STRIDE  4096

struct mark_slot { /* as it is on the disk; little-endian */
    uint32_t crc;  /* of all that follows */
    uint32_t magic;
    uint32_t version;
    uint32_t clean;
    uint64_t counter; /* the higher one counts */
    uint64_t synced;
    unsigned char store[16];
    unsigned char spare[16]; /* 0 */
};

/* A new file, which replaces the old one: at start, and after a fault. An errno value. */
int weir_mark_make(struct store *store);
/* Writes and syncs it if it is due. */
void weir_mark_step(struct store *store);
int weir_mark_write(struct store *store, bool clean); /* now; an errno value */
void weir_mark_close(struct store *store);
/* A new file in another directory, for a log that ends well with that sequence; synced. An errno value. */
int weir_mark_put(struct disk *disk, int dir, const unsigned char store[16], uint64_t synced);

struct mark {
    bool found;   /* a slot could be read */
    bool damaged; /* there is a file, and no slot can be read */
    bool clean;   /* the process ended well: nothing came behind `synced` */
    uint64_t synced;
    unsigned char store[16];
};
int weir_mark_read(struct disk *disk, int dir, struct mark *mark); /* an errno value; no file: not found */

#endif
