/* SPDX-License-Identifier: MIT */
/*
 * The bytes of log and image: frames, each with a checksum over all of it. One write, one frame, whole or
 * not there. Pure: no disk.
 *
 *   log-NNNNNNNNNNNNNNNN    SEGMENT, then RECORDS, CATALOGUE in the order of their sequence
 *   image-NNNNNNNNNNNNNNNN  IMAGE, CATALOGUE, RECORDS ..., END
 *
 * All numbers are little-endian; everything is a multiple of 8 bytes. FRAME_VERSION changes when any of it
 * does; tests/unit has frozen bytes.
 */
#ifndef WEIR_STORE_FRAME_H
#define WEIR_STORE_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FRAME_VERSION 1
#define FRAME_BYTES_MAX                                                                                      \
    (UINT32_C(64) << 20)                 /* of a payload: CATALOGUE can be large, records are cut earlier */
#define FRAME_MAGIC UINT32_C(0x52494557) /* "WEIR" */

enum frame_kind {
    FRAME_SEGMENT = 1, /* first of a log segment: struct frame_start */
    FRAME_IMAGE,       /* first of an image: struct frame_start */
    FRAME_CATALOGUE,   /* what the owner has noted: opaque */
    FRAME_RECORDS,     /* persist_head, body; persist_head, body ... */
    FRAME_END          /* last of an image: struct frame_end */
};

struct frame_head {
    uint32_t crc;      /* of all that follows, payload included */
    uint32_t magic;    /* FRAME_MAGIC */
    uint32_t bytes;    /* of the payload */
    uint16_t kind;     /* enum frame_kind */
    uint16_t version;  /* FRAME_VERSION */
    uint64_t salt;     /* of the file, by its number: a frame of another one is none */
    uint64_t sequence; /* of the log: one more than the frame before, over all segments. Image: from 0 */
    uint64_t synced;   /* log: all up to this sequence was on the disk when this was written */
    int64_t time_ns;   /* store time */
    int64_t wall_ns;   /* wall clock */
};

struct frame_start {
    unsigned char store[16]; /* drawn by lot when the directory was made */
    unsigned char boot[16];  /* boot id of the machine */
    uint64_t number;         /* of the segment or image */
    /* Segment: the sequence of this frame. Image: the log behind it begins with this one, which is the first
     * of segment `segment`; all before it is in the image. */
    uint64_t sequence;
    uint64_t segment;
    int64_t offset_ns; /* store time = CLOCK_BOOTTIME of that boot + this */
    uint32_t sync;     /* enum store_sync: how it is written. Image: 0 */
    uint32_t flags;    /* enum frame_flags */
};

/* What a process knows when it begins to write: in the first segment of each process, and in it alone. It is
 * told again by every recovery until an image covers it, since what the owner did about it (recover: floor)
 * is in memory only until then. An image has them if weir doctor made it. */
enum frame_flags {
    FRAME_BEGINS = 1, /* the first segment of a process: after many of them an image is due */
    FRAME_HOLES = 2,  /* store_found.holes, lost, unsure at that time */
    FRAME_LOST = 4,
    FRAME_UNSURE = 8,
    FRAME_GAPS = 16 /* numbers before it are missing: what comes behind it does not claim those */
};

struct frame_end {
    uint64_t frames, records, bytes; /* of the image, without this frame */
};

/* Of a file: no two files of a store have the same. */
uint64_t weir_frame_salt(const unsigned char store[16], enum frame_kind kind, uint64_t number);

/* What a frame takes: its payload is followed by zeros up to a multiple of 8 bytes, which the checksum
 * covers.
 */
static inline size_t frame_size(size_t payload)
{
    return sizeof(struct frame_head) + ((payload + 7) & ~(size_t)7);
}

/* Fills in magic, version, bytes and crc; the payload follows `head` in memory, in room for frame_size. */
void weir_frame_seal(struct frame_head *head, size_t payload);

/* Is there a frame at `bytes`, of which `len` are here, and all of it? `salt` 0: any (the first frame of a
 * file). Kind and version are not looked at: a later version keeps head and checksum. */
bool weir_frame_is_good(const unsigned char *bytes, size_t len, uint64_t salt);

/* Calls back for each record of a payload. false: it makes no sense (then it was never written so). */
bool weir_frame_records(const unsigned char *payload, size_t len,
                        bool (*each)(void *arg, uint32_t region, uint8_t kind, const unsigned char *body,
                                     size_t bytes),
                        void *arg);

#endif
