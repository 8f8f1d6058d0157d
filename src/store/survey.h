/* SPDX-License-Identifier: MIT */
/*
 * What one file of a store says, read from its first byte to its last. It only reads, and believes nothing
 * that has no right checksum.
 */
#ifndef WEIR_STORE_SURVEY_H
#define WEIR_STORE_SURVEY_H

#include "store/files.h"
#include "store/scan.h"

#define SURVEY_SEQUENCES (UINT64_C(1) << 62) /* sequences are below this one */

struct survey {
    enum file_kind kind;
    uint64_t number;
    uint64_t limit; /* no more bytes of it are read; 0: all */
    uint64_t bytes;
    int error;    /* it could not be read: an errno value */
    bool later;   /* by a later version of weir */
    bool started; /* `start` was there, and is about this file */
    bool whole;   /* image: all of it is right. Segment: nothing but zeros between frames, or behind them */
    uint64_t frames;          /* good ones */
    uint64_t nonsense;        /* good frames that make no sense here */
    uint64_t first, last;     /* least and greatest sequence of good frames; first > last: none */
    uint64_t synced;          /* the most that was claimed */
    int64_t time_ns, wall_ns; /* of the frame `last` */
    uint64_t used;            /* bytes up to the end of the last good frame */
    uint64_t bad;             /* first byte that is not as it should be; UINT64_MAX: none */
    uint64_t behind;          /* good frames behind it */
    uint64_t rubbish;         /* bytes behind the last good frame, up to the last that is not zero */
    struct frame_start start;
};

/* Called for each good frame that makes sense. Not 0: an errno value, and the end of it. */
typedef int survey_frame(void *arg, const struct survey *survey, const struct scan *scan);

/* `store`: whose file it has to be; NULL: whatever its first frame says. `each` may be NULL. */
void weir_survey_file(struct survey *survey, struct disk *disk, int dir, const unsigned char *store,
                      survey_frame *each, void *arg);
/* The same of its first frame alone: `started`, `start`, `later`, `error`. */
void weir_survey_start(struct survey *survey, struct disk *disk, int dir);

#endif
