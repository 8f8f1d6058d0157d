/* SPDX-License-Identifier: MIT */
/*
 * Reading a file of frames from its beginning to its end, in pieces, whatever is in it: good frames one after
 * the other, also those behind something that is none. Bytes are looked at once; behind a bad place every 8th
 * byte is, with a bound on the work that a file made on purpose could ask for.
 */
#ifndef WEIR_STORE_SCAN_H
#define WEIR_STORE_SCAN_H

#include "os/disk.h"
#include "store/frame.h"

#define SCAN_PIECE (UINT64_C(4) << 20)

enum scan_step {
    SCAN_FRAME, /* `head`, `payload` until the next step */
    SCAN_END,
    SCAN_FAILED, /* `error` */
    SCAN_LATER   /* a good frame of a later version */
};

struct scan {
    struct disk *disk;
    int file;
    uint64_t size; /* of the file when it was opened */
    uint64_t salt; /* of all its frames; 0: that of the first, which then has to be good */
    unsigned char *bytes;
    size_t room, at, end; /* what of `bytes` is to be looked at */
    uint64_t offset;      /* in the file, of bytes[0] */
    uint64_t effort;      /* bytes that may be checked in vain */
    uint64_t frame;       /* where the last good frame began */
    uint64_t good;        /* and where it ended; 0: none yet */
    uint64_t bad;         /* where the first bad one began; UINT64_MAX: none */
    uint64_t skipped;     /* bytes between the last good frame and the one before */
    uint64_t rubbish; /* bytes behind the last good frame that are not zero, at SCAN_END: up to the last */
    uint64_t nonzero; /* end of the last nonzero byte that was skipped, in the file */
    struct frame_head head;
    const unsigned char *payload;
    int error;
};

/* 0, or an errno value: then there is nothing to be closed. A scan that is all 0 may be closed as well. */
int weir_scan_open(struct scan *scan, struct disk *disk, int dir, const char *name, uint64_t salt);
enum scan_step weir_scan_next(struct scan *scan);
void weir_scan_close(struct scan *scan);

#endif
