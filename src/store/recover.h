/* SPDX-License-Identifier: MIT */
/*
 * Finding out what a directory holds: the newest image that is whole, and the log behind it. It only reads,
 * and gives the same again however often it is begun and broken off.
 *
 * Every good frame counts, also behind a bad place: records may come in any order, and more knowledge is
 * never worse. What is missing is told by the sequences. Each frame claims how much of the log before it was
 * on the disk, and so do mark and image: what is missing up to there is lost. What is missing above it may
 * never have been there: nobody waited for it (STORE_ALWAYS), or he may have been answered (unsure).
 *
 * A log of STORE_ALWAYS has zeros behind its last frame, at every time. If it ends with that frame, or with
 * something that is no frame, then what was there may have been answered: since the last sync that a frame or
 * the mark tells of. That is unsure, too. It may as well be what was being written when the power went.
 *
 * A gap with records behind it is a hole: these may belong together with what is missing (a reservation
 * without its charge). Without any it is an end, as any kill leaves one: a process that could not write began
 * a segment, in vain, and was killed, say. The next process has begun from what was there, so its records
 * miss nothing.
 *
 * A process that begins to write notes in its first segment what it has found (enum frame_flags). Gaps that
 * it knew of are not held against what it claims later, and a loss that it knew of is told again until there
 * is an image of after it.
 */
#ifndef WEIR_STORE_RECOVER_H
#define WEIR_STORE_RECOVER_H

#include "store/files.h"
#include "store/internal.h"
#include "store/mark.h"
#include "store/survey.h"

#define RECOVERY_GAPS 32 /* that are told apart */

struct recovery {
    struct survey_dir from;
    struct files files;
    struct mark mark;
    unsigned char store[16];
    bool known; /* whose directory it is */
    struct recovered recovered;
    unsigned char *catalogue;
    size_t catalogue_len;
    uint64_t catalogue_sequence;
    /* -- while it reads -- */
    struct store_found *found;
    uint64_t next;   /* the sequence that should come */
    uint64_t first;  /* that came; 0: none */
    uint64_t synced; /* all up to this one was on the disk, somebody claims */
    struct gap {
        uint64_t first, last;
        uint64_t segment; /* in which it was noticed */
    } gaps[RECOVERY_GAPS];
    size_t gap_count;
    uint64_t missing;  /* frames that were on the disk */
    uint64_t segments; /* that were begun, in all */
    uint32_t flags;    /* of all segments that were read, or image */
    bool gaps_seen;    /* there was one */
    bool behind_gap;   /* of the process that wrote what is read now */
    bool holes;        /* there were records behind one */
    /* Of the process that has written last: */
    uint64_t torn;    /* a segment with something that is no frame, or with a hole; 0: none */
    uint64_t shorter; /* the last segment, if nothing is behind its last frame; 0: something is */
    bool rubbish;     /* bytes that are no frame */
    bool incomplete;  /* it cannot be started from, since something is not there */
#if WEIR_ASSERTIONS
    uint64_t base, counted, gapped; /* first sequence behind the image; log frames read, and missing */
    uint64_t last_catalogue;        /* the greatest sequence of one */
#endif
    struct survey unread; /* the newest image that the disk did not give: error 0: none */
};

/* false: it cannot be started from; err says why. To be freed in any case. */
bool weir_recovery_find(struct recovery *recovery, struct disk *disk, int dir, struct store_found *found,
                        struct weir_error *err);
void weir_recovery_free(struct recovery *recovery);

/* Directory and disk are open and locked. Fills in store->id (unless fresh), recovered, found_catalogue. */
bool weir_recover_find(struct store *store, struct store_found *found, struct weir_error *err);
bool weir_recover_replay(struct store *store, struct store_found *found, struct weir_error *err);
/* Before the first frame is written, which claims that all before it is on the disk: makes that so (a process
 * that was killed may not have), and removes what such a process leaves: images that were not finished,
 * segments that were not begun. */
bool weir_recover_settle(struct store *store, struct weir_error *err);
/* After it: zeros behind the last frames of earlier processes go. Not before, since the log would seem to be
 * short. If that fails they are read once more. */
void weir_recover_trim(const struct store *store);

#endif
