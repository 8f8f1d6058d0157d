/* SPDX-License-Identifier: MIT */
/*
 * Writing images, step by step, beside everybody else: image.c says why image and log together are right;
 * checkpoint.c when it is done, and what goes then.
 */
#ifndef WEIR_STORE_IMAGE_H
#define WEIR_STORE_IMAGE_H

#include "store/frame.h"
#include "store/internal.h"

#define IMAGE_STEP_BYTES  (UINT64_C(256) << 10) /* of records that are copied at once */
#define IMAGE_FLUSH_BYTES (UINT64_C(4) << 20)   /* the disk begins to write when there are so many */

enum image_phase { IMAGE_RECORDS, IMAGE_TABLES, IMAGE_LOG, IMAGE_LAST, IMAGE_DONE };

struct image {
    uint64_t number, segment, sequence, salt;
    int file;
    enum image_phase phase;
    uint32_t region; /* the one that is copied; 0: before the first */
    bool copying;    /* it is not yet done */
    uint64_t cursor;
    struct buffer frame;
    struct frame_end end;
    uint64_t flushed;
    uint64_t wanted;    /* so many had asked when it began */
    uint64_t log_start; /* log.bytes then */
    int64_t begun_ns;
    bool healing; /* sync.step is held by the caller */
#if WEIR_ASSERTIONS
    bool has_tables;      /* a region was copied that has no records */
    uint64_t copied_when; /* log.appended when the copy ended */
#endif
};

/* Of what is in memory, for the log behind `segment`, which was begun before. NULL: out of memory. */
struct image *weir_image_new(struct store *store, uint64_t segment, uint64_t sequence, bool healing);
/* A step, until it is IMAGE_DONE; an errno value. */
int weir_image_next(struct store *store, struct image *image);
void weir_image_free(struct store *store, struct image *image);

#endif
