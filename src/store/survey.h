/* SPDX-License-Identifier: MIT */
/*
 * Reading a file of frames from its first byte to its last, in pieces, whatever is in it: good frames one
 * after the other, also those behind something that is none. It only reads, and believes nothing that has no
 * right checksum. Behind a bad place every 8th byte is looked at, with a bound on the work that a file made
 * on purpose could ask for.
 */
#ifndef WEIR_STORE_SURVEY_H
#define WEIR_STORE_SURVEY_H

#include "store/files.h"
#include "store/frame.h"

#define SURVEY_SEQUENCES (UINT64_C(1) << 62) /* sequences are below this one */
#define SURVEY_NONE      UINT64_MAX          /* `bad`: there is no such byte */
#define SURVEY_KEPT      (UINT64_C(64) << 20)

/* Where files are. What was read of them stays in memory, up to `room` bytes, so that a start, which finds,
 * checks, applies and syncs them, reads each of them once. */
struct survey_dir {
    struct disk *disk;
    int dir;
    uint64_t room; /* SURVEY_KEPT at first; 0: nothing is kept */
    struct survey_kept *kept;
};
void weir_survey_forget(struct survey_dir *from);

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
    uint64_t bad;             /* first byte that is not as it should be; SURVEY_NONE */
    uint64_t behind;          /* good frames behind it */
    uint64_t rubbish;         /* bytes behind the last good frame, up to the last that is not zero */
    struct frame_start start;
    /* The frame that is shown: */
    uint64_t offset;
    struct frame_head head;
    const unsigned char *payload; /* behind the head as it is in the file */
};

/* Called for each good frame that makes sense. Not 0: an errno value, and the end of it. */
typedef int survey_frame(void *arg, const struct survey *survey);

/* `store`: whose file it has to be; NULL: whatever its first frame says. `each` may be NULL. */
void weir_survey_file(struct survey *survey, struct survey_dir *from, const unsigned char *store,
                      survey_frame *each, void *arg);
/* The same of its first frame alone: `started`, `start`, `later`, `error`. */
void weir_survey_start(struct survey *survey, struct disk *disk, int dir);

#endif
