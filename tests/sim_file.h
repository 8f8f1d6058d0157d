/* SPDX-License-Identifier: MIT */
/*
 * The contents of a file on a simulated disk (disk_sim.h): what is surely there, and the writes since. Of
 * each of its sectors every version since the last sync can thus be had again.
 */
#ifndef WEIR_TESTS_SIM_FILE_H
#define WEIR_TESTS_SIM_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rng.h"

struct sim_bytes { /* behind `size` all are 0, up to `room` */
    unsigned char *at;
    uint64_t size, room;
};

struct sim_write {
    uint64_t offset, len;
    uint64_t from; /* in `written`; SIM_ZEROS: zeros */
};

struct sim_file {
    struct sim_bytes now;       /* as reads see it */
    struct sim_bytes safe;      /* as it was at the last sync */
    struct sim_bytes written;   /* bytes of `writes` */
    struct sim_write *writes;   /* since then */
    size_t count, space;        /* of them */
    uint64_t smallest, largest; /* sizes that it had since then */
};

void sim_file_free(struct sim_file *file);
void sim_file_write(struct sim_file *file, const void *bytes, uint64_t len, uint64_t offset);
void sim_file_resize(struct sim_file *file, uint64_t size);
void sim_file_sync(struct sim_file *file);
/* The same of what is in place: new sizes, and what is behind the old one, are not on the disk. */
void sim_file_sync_in_place(struct sim_file *file);
/* Keeps any version of each sector, and any size. `seen`: reads see no more than that, as after a power cut;
 * else they see what is lost, too. */
void sim_file_lose(struct sim_file *file, struct rng *rng, bool seen);
/* No new size is kept: to be followed by sim_file_lose. */
void sim_file_freeze(struct sim_file *file);
/* All that is seen is surely there. */
void sim_file_settle(struct sim_file *file);

#endif
