/* SPDX-License-Identifier: MIT */
/*
 * The store: regions that survive. Regions live in memory; a log says what has changed, before it is
 * answered; images say from time to time what all of it is, so that the log before them can go. It knows no
 * limits: what an entry is, and which of two records of it counts, its owner says (region/persist.h).
 *
 * Law. Let an answer be given only after weir_store_ticket_status has said STORE_GO for a ticket that was
 * drawn, by weir_store_commit, after the change (commit.h). Then what was answered is recovered
 *   - in every mode after the process was killed at any instruction;
 *   - STORE_ALWAYS: after a power cut at any time;
 *   - STORE_EVERYSEC: after a power cut, but for at most 1.0 s of answers, the last ones. That second ends
 *     before the cut where the disk had fallen behind: nothing is answered then (STORE_WAIT).
 * And nothing else is recovered than states that were there.
 *
 * The directory: lock, mark, ballast (room for a full disk), log-N, image-N, retired/, backups/. One process
 * has it (lock). `mark` says how far the log was surely on the disk, and whether the last process ended well.
 *
 * Life:   open (finds out) -> add regions -> replay -> start -> catalogue, commit, status ... -> close
 *
 * Faults. A write or sync that fails is never tried again on that file: the store is STORE_ILL, tickets wait,
 * a new segment is begun and then a new image written from memory. When both are on the disk all tickets so
 * far are good, since they have all of it: see health.c. If not, it is tried again later, less and less
 * often.
 */
#ifndef WEIR_STORE_STORE_H
#define WEIR_STORE_STORE_H

#include "os/disk.h"
#include "region/persist.h"
#include "region/region.h"
#include "weir.h"

enum store_sync { STORE_ALWAYS = 1, STORE_EVERYSEC, STORE_NEVER };

enum store_event_kind {
    STORE_EVENT_ILL,   /* `text` says what failed */
    STORE_EVENT_WELL,  /* again */
    STORE_EVENT_SLOW,  /* the disk is behind: admits wait */
    STORE_EVENT_IMAGE, /* an image was written: bytes, ns it took */
    STORE_EVENT_IMAGE_FAILED,
    STORE_EVENT_REPLAY /* by who replays, every 2 s: bytes so far, of all */
};
struct store_event {
    enum store_event_kind kind;
    const char *text;
    int64_t bytes, ns, all;
};

struct store_options {
    struct disk *disk; /* NULL: the real one */
    const char *path;
    enum store_sync sync;
    bool manual;            /* no threads of its own: somebody calls weir_store_work (tests) */
    bool no_elapsed;        /* no time has passed since it was last used (tests with a clock of their own) */
    uint64_t segment_bytes; /* 0: 64 MiB */
    uint64_t image_log_bytes; /* an image is made when the log behind the last one is longer than this, and
                               * than that image; 0: 64 MiB */
    int64_t image_age_ns;     /* or when it is older and something was logged; 0: 15 min */
    uint32_t images;          /* generations kept; 0: 2 */
    bool hold_images;         /* none is begun until weir_store_free_images */
    /* Called by the store's threads: tickets that waited may be good now, or never will be before it is well
     * again. Must not wait. */
    void (*moved)(void *arg);
    void (*event)(void *arg, const struct store_event *event);
    void *arg;
};

/* What was found in a directory. */
struct store_found {
    bool fresh;  /* nothing: it was made, or is empty */
    bool clean;  /* the last process ended well, and all of it is there */
    bool lost;   /* something is missing, or damaged, that was surely on the disk */
    bool unsure; /* something may be missing that was answered: it did not end well, and was not written
                  * with STORE_ALWAYS, or its end is damaged or short. Also after `lost` */
    bool
        holes; /* frames are missing behind which there were records, which count: they may belong together */
    enum store_sync sync;     /* how it was written */
    uint64_t images_damaged;  /* that could not be used */
    uint64_t frames, records; /* that were read, of image and log */
    uint64_t unknown;         /* records of regions that nobody added, or that made no sense */
    uint64_t bytes;
    uint64_t sequence;    /* the last of the log */
    int64_t elapsed_ns;   /* since the last frame, as far as clocks tell */
    bool other_boot;      /* of the machine: by the wall clock, then */
    int64_t wall_step_ns; /* below 0: the wall clock says that it is before the last frame */
    char text[400];       /* the worst of it, in a sentence; "" */
};

struct store;

/* Finds out what is there; changes nothing but the lock, in a directory that has something. NULL: an error
 * (in use by another process, no image can be read, written by a later version: it says what to do). */
struct store *weir_store_open(const struct store_options *options, struct store_found *found,
                              struct weir_error *err);
/* The owner's last catalogue that was found; NULL: none. */
const void *weir_store_found_catalogue(const struct store *store, size_t *len);

/* Keeps a region from now on, under a number that no other region of this directory ever had. Sets the
 * region's time: lead_ns ahead of store time. Before replay for those that the catalogue names; later for new
 * ones, before anybody uses them and before the catalogue that names them. */
bool weir_store_add(struct store *store, uint32_t number, struct region *region, int64_t lead_ns,
                    const struct persist_ops *kind, void *owner, struct weir_error *err);
/* Keeps it no more; what is on the disk of it will be skipped. No thread has it listed any more. */
void weir_store_drop(struct store *store, struct region *region);

/* Gives all records to the regions that were added, once. */
bool weir_store_replay(struct store *store, struct store_found *found, struct weir_error *err);
/* Begins to write: a new segment with the owner's catalogue. An image follows soon if much was replayed. */
bool weir_store_start(struct store *store, const void *catalogue, size_t len, struct weir_error *err);

/* Store time: runs on from one process, and boot, to the next; never back. = weir_now + weir_store_offset. */
int64_t weir_store_offset(const struct store *store);

/* While it runs, by any thread: commit.h, checkpoint.h, backup.h; and */

/* Waits for STORE_GO; false: not within that time. Not for threads that have better things to do. */
bool weir_store_wait(struct store *store, uint64_t ticket, int64_t timeout_ns);

/* options.manual: does what the threads would do next: at most one sync, or one step of an image. true: there
 * is more to do. */
enum store_work { STORE_WORK_SYNC = 1, STORE_WORK_IMAGE = 2 };
bool weir_store_work(struct store *store, unsigned what);

struct store_state {
    bool ill, slow;
    char error[160];      /* of the last fault; "" */
    int64_t ill_since_ns; /* weir_now */
    enum store_sync sync;
    uint64_t sequence, synced; /* last frame appended, last that is on the disk */
    uint64_t log_bytes;        /* behind the last image */
    uint64_t image_bytes, image_number;
    int64_t image_time_ns; /* weir_now when it was done; 0: none yet */
    int64_t images, image_failures, faults, syncs, appends, records;
    int64_t sync_ns_last, sync_ns_most;
    int64_t unsynced_ns; /* age of the oldest frame that is not on the disk; 0 */
    bool image_running;
};
void weir_store_state(struct store *store, struct store_state *state);

/* Everything is on the disk and marked so; false: it was not. Frees it in any case. Regions stay. No other
 * thread has anything listed of it any more. */
bool weir_store_close(struct store *store, struct weir_error *err);

#endif
