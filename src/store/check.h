/* SPDX-License-Identifier: MIT */
/*
 * For builds with assertions: a disk between the store and its disk, which remembers what was synced, and
 * what can be asserted of that. It knows nothing of why the store does what it does.
 *
 *   - A file that has failed is neither written nor synced again.
 *   - Frames are written one behind the other, and nothing is written over them but themselves.
 *   - A file gets its final name when all of it is synced.
 *   - A segment is closed when all of it is synced, or something has failed.
 */
#ifndef WEIR_STORE_CHECK_H
#define WEIR_STORE_CHECK_H

#include "base/assert.h"
#include "os/disk.h"

struct store;

#if WEIR_ASSERTIONS
#include <pthread.h>

#define CHECKED_FILES 64

struct checked_file {
    char name[DISK_NAME_MAX]; /* "": free */
    int dir, file;            /* -1: closed */
    bool segment;
    bool write_failed, sync_failed;
    bool named, name_witnessed; /* its name is on the disk; and the file system has proved it */
    bool dirty;                 /* written, and not synced */
    uint64_t size, synced_size, witnessed_size;
    uint64_t frames_end;          /* of the last frame of a segment */
    uint64_t first, last, synced; /* sequences: written, and synced */
};

struct checked_dir {
    int dir;
    uint64_t changed, synced; /* when; `clock` below */
};

struct checked_disk {
    struct disk disk; /* the first */
    struct disk *inner;
    pthread_mutex_t lock;
    bool failed; /* something has */
    uint64_t clock, witnessed;
    struct checked_file files[CHECKED_FILES];
    struct checked_dir dirs[8];
    uint64_t next_file, next_dir; /* to be used again, if none is free */
    uint64_t synced;              /* the greatest target of weir_check_moved */
};

/* The one to be used in place of `inner`. */
struct disk *weir_check_disk(struct checked_disk *checked, struct disk *inner);
/* Files may be closed that are not synced: the store is ill, or was never started. */
void weir_check_fault(struct store *store);
/* Tickets up to `target` are good now: all frames up to it that are in open segments are on the disk. */
void weir_check_moved(struct store *store, uint64_t target);
bool weir_check_is_synced(struct store *store, uint64_t ticket);
/* The file, and its name, are on the disk. */
void weir_check_durable(struct store *store, const char *name);
/* Names in that directory are on the disk; `witnessed`: and that is proved. */
void weir_check_dir(struct store *store, int dir, bool witnessed);
#define CHECK_FAULT(STORE)               weir_check_fault(STORE)
#define CHECK_MOVED(STORE, TARGET)       weir_check_moved(STORE, TARGET)
#define CHECK_DURABLE(STORE, NAME)       weir_check_durable(STORE, NAME)
#define CHECK_DIR(STORE, DIR, WITNESSED) weir_check_dir(STORE, DIR, WITNESSED)
#else
#define CHECK_FAULT(STORE)               ((void)0)
#define CHECK_MOVED(STORE, TARGET)       ((void)0)
#define CHECK_DURABLE(STORE, NAME)       ((void)0)
#define CHECK_DIR(STORE, DIR, WITNESSED) ((void)0)
#endif

#endif
