/* SPDX-License-Identifier: MIT */
/*
 * The store from inside. Files: log.c (segments), sync.c (what is on the disk), mark.c, commit.c
 * (what threads have listed), health.c (faults) write the log; recover.c,
 * image.c, checkpoint.c, backup.c read it, and write images.
 *
 * Requests append to the log. The syncer syncs it, and writes the mark. The checkpointer writes images and
 * heals. Locks, in this order:
 *   sync.step      around one sync, or one attempt to heal: who holds it may close files of the log
 *   regions.lock   around the list of regions, and a walk through one of them
 *   log.lock       around the log's end; held while a frame is written, never while something is synced
 *
 * Sequences. Every frame of the log has the next number, a segment's first frame, too; numbers that were used
 * are not used again. Where a segment begins later than its predecessor has ended, something between them was
 * given up, or lost: nothing that was promised, if an image is there that begins with the later one, or with
 * one after it (health.c). What else it means recovery finds out from what later frames claim (recover.h).
 */
#ifndef WEIR_STORE_INTERNAL_H
#define WEIR_STORE_INTERNAL_H

#include <pthread.h>

#include "os/boot.h"
#include "store/check.h"
#include "store/store.h"
#include "store/survey.h"

#define STORE_SEGMENT_BYTES       (UINT64_C(64) << 20)
#define STORE_IMAGE_LOG_BYTES     (UINT64_C(64) << 20)
#define STORE_IMAGE_AGE_NS        (15 * 60 * WEIR_SEC)
#define STORE_IMAGES              2
#define STORE_IMAGES_MOST         8
#define STORE_TEXT_MAX            160
#define STORE_TIME_ELAPSED_MAX_NS (366 * 24 * 3600 * WEIR_SEC)

struct stored_region { /* a region */
    struct persist persist;
    struct region *region;
    int64_t lead_ns;
    uint64_t begun;                          /* header->generation when the last image was begun */
    uint64_t generations[STORE_IMAGES_MOST]; /* of the region when images were begun, the latest first */
    struct stored_region *next;              /* by number, rising */
#if WEIR_ASSERTIONS
    const struct image *of_image, *in_image; /* it was there when that was begun; is in it */
#endif
};

struct found_segment {
    uint64_t number, bytes;
    uint64_t frames, used; /* good ones, and the bytes up to the end of the last */
    uint64_t cut;          /* behind this there are only zeros */
};

/* What recovery has found out: by weir_recover_find, at open. */
struct recovered {
    bool fresh;
    uint64_t sequence; /* of the last frame of the log that counts; at least the image's, less 1 */
    uint64_t marked;   /* what the mark says was synced: 0 if there is none */
    uint64_t claimed;  /* all up to this one was synced, mark or frames say */
    uint64_t segment;  /* highest number of a log-N that is there, also a damaged or empty one; 0 */
    uint64_t image;    /* the same of images */
    uint32_t flags;    /* enum frame_flags: for the first segment that this process begins */
    /* The image that was read, and the log behind it; 0: none, the log goes back to its beginning. */
    uint64_t from_image, from_segment;
    uint64_t image_bytes, log_bytes;
    struct found_segment *segments; /* behind that image, by number */
    size_t segment_count;
    uint64_t starts; /* of processes, behind that image */
    bool has_time;   /* of the last frame: */
    int64_t time_ns, wall_ns;
    int64_t offset_ns; /* of the segment, or image, it is in: struct frame_start */
    unsigned char boot[BOOT_ID_SIZE];
#if WEIR_ASSERTIONS
    uint64_t frames; /* of the image and of `segments` */
#endif
};

struct log_file { /* a segment that is open */
    int file;     /* -1: none */
    uint64_t number, salt;
    uint64_t end;    /* where the next frame goes */
    uint64_t zeroed; /* zeros are written behind the frames up to here; below `end`: none are */
    uint64_t ready;  /* a size that is on the disk: frames up to here are written in place */
    uint64_t looked; /* `end` when the last sync of it began */
    bool named;      /* its name is synced */
};

#define LOG_OLD_MOST 8 /* segments that wait for a sync; then they get longer instead */

struct log {
    pthread_mutex_t lock;
    struct log_file now;               /* file -1: none yet */
    bool broken;                       /* after a fault: nothing is appended or synced any more */
    struct log_file old[LOG_OLD_MOST]; /* full, not yet synced; by number */
    uint32_t old_count;
    uint64_t last_number;       /* of all segments */
    _Atomic uint64_t rotations; /* segments begun so far: changes under the lock */
    _Atomic uint64_t appended;  /* sequence of the last frame, also of one that failed */
    int64_t time_ns;            /* of the last frame: store time never goes back */
    uint64_t bytes;             /* appended since start */
    uint32_t flags;             /* of the first segment; 0 when it is begun */
    int64_t appends, records;
    void *catalogue; /* the catalogue in force; guarded by the lock */
    size_t catalogue_len;
};

struct sync {
    pthread_mutex_t step;
    pthread_cond_t work;       /* with log.lock: for the syncer */
    pthread_cond_t moved;      /* with log.lock: for weir_store_wait, weir_store_image */
    bool sleeping;             /* the syncer */
    bool timed;                /* it will look by itself, soon enough for any append */
    bool poked;                /* somebody cannot wait for that */
    _Atomic uint64_t synced;   /* all tickets up to this one are good */
    _Atomic int64_t oldest_ns; /* weir_now at the first append that is not synced; 0: none */
    int64_t next_oldest_ns;    /* the same of what the sync that runs now leaves out */
    int64_t syncs, ns_last, ns_most;
    _Atomic bool slow; /* the disk is behind, an event said so */
    int mark_file;     /* -1: none */
    uint64_t mark_counter, mark_synced;
    int64_t mark_ns;
    pthread_t thread;
    bool running;
};

struct regions {
    pthread_mutex_t lock;
    struct stored_region *first;
};

/* Of image.c, which alone changes it, but for `wanted`. */
struct image_state {
    uint64_t wanted;          /* asked for so many, log.lock */
    uint64_t done;            /* ended so many of these, well or not, log.lock */
    bool last_good;           /* the last one that ended, log.lock */
    char why[STORE_TEXT_MAX]; /* it did not, log.lock */
    bool running;             /* log.lock */
    bool held;                /* options.hold_images, log.lock */
    bool asked;               /* an owner wants one soon: keep.want_image, log.lock */
    uint64_t number, bytes;   /* of the last good one, log.lock */
    uint64_t found;           /* the highest number at open: later ones are this process's own */
    int64_t time_ns;          /* weir_now when it was done, log.lock */
    uint64_t log_start;       /* log.bytes when it was begun; what was replayed counts below 0 */
    uint64_t log_before;      /* bytes of log found at open, behind the image: until the first image */
    int64_t images, failures;
    uint32_t pinned;           /* by so many: no file is removed, log.lock */
    int64_t since_ns;          /* weir_now when the last one was begun, or at open: the checkpointer's */
    int64_t retry_ns, wait_ns; /* weir_now; after one that failed: the checkpointer's */
    struct image *now;         /* the one that is being written: the checkpointer's */
};

struct health { /* guarded by log.lock */
    _Atomic bool ill;
    bool healing;                 /* a segment is begun, its image is not there yet */
    bool told;                    /* the event of what `ill` is now was given */
    uint64_t first_number;        /* of segments that were begun to heal, in vain: sync.step. 0: none */
    _Atomic uint64_t misses_seen; /* of weir_dirty_misses */
    char error[STORE_TEXT_MAX];
    int code;                            /* errno value of that error; 0: none */
    int64_t since_ns, retry_ns, wait_ns; /* weir_now; of the next attempt; between attempts */
    int64_t faults;
    bool ballast; /* it is there; the checkpointer's */
#if WEIR_ASSERTIONS
    int64_t images; /* image.images when healing began */
#endif
};

#define POOL_MOST 16

struct frame_buffers { /* buffers for frames, so that a commit takes no memory */
    struct lock lock;
    struct buffer *free[POOL_MOST];
    uint32_t count;
};

struct store {
    struct store_options options;
    char *path;
    struct disk *disk;
    int dir; /* -1: not open */
    unsigned char id[16];
    unsigned char boot[BOOT_ID_SIZE];
    int64_t offset_ns;      /* store time = weir_now + this; fixed at open */
    int64_t host_offset_ns; /* the same for the machine's CLOCK_BOOTTIME, whatever the time namespace */
    bool replayed, started, stopping /* log.lock */;
    struct recovered recovered;
    struct survey_dir from; /* of the recovery, until it is started */
    void *found_catalogue;  /* the catalogue that was found */
    size_t found_catalogue_len;

    struct log log;
    struct sync sync;
    struct regions regions;
    struct image_state image;
    struct health health;
    struct frame_buffers pool;
    pthread_cond_t checkpointer_work; /* with log.lock */
    pthread_t checkpointer;
    bool checkpointer_running;
#if WEIR_ASSERTIONS
    struct checked_disk checked;
#endif
};

#endif
