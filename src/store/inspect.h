/* SPDX-License-Identifier: MIT */
/*
 * For weir doctor: reads a directory that nobody uses, and says what is in it. Changes nothing, unless told.
 */
#ifndef WEIR_STORE_INSPECT_H
#define WEIR_STORE_INSPECT_H

#include "store/store.h"

struct inspect_file {
    char name[DISK_NAME_MAX];
    uint64_t bytes, frames, records;
    uint64_t first, last;     /* sequences; images: that of the log behind it */
    int64_t time_ns, wall_ns; /* of the last frame */
    bool good;                /* a segment may end in the middle of a frame, if it is the last one */
    bool needed;              /* for recovery from the newest good image */
    bool unread;              /* the disk did not give it */
    uint64_t bad_offset;      /* of the first byte that makes no sense */
    char text[200];           /* what is wrong with it, and what that means; "" */
};

struct inspect {
    struct inspect_file *files; /* images first, then segments, by number; then others */
    size_t count;
    struct store_found found; /* what a start would find */
    bool can_start;           /* it would */
    bool is_none;             /* no file of a store is in it: nothing else was looked at */
    int64_t in_use_by;        /* a process; 0: none; -1: one that is not known */
    uint64_t regions[64];     /* records of the regions with the lowest numbers: see region_numbers */
    uint32_t region_numbers[64];
    size_t region_count;
    void *catalogue; /* the last catalogue; or NULL */
    size_t catalogue_len;
};

bool weir_inspect(struct disk *disk, const char *path, struct inspect *inspect, struct weir_error *err);
void weir_inspect_free(struct inspect *inspect);

/* Makes it one that can be started from: what is damaged gets another name (damaged-...), and nothing is
 * deleted. Calls back with a sentence for each thing it does. */
bool weir_inspect_repair(struct disk *disk, const char *path, void (*tell)(void *arg, const char *text),
                         void *arg, struct weir_error *err);

#endif
