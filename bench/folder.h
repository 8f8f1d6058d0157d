/* SPDX-License-Identifier: MIT */
/*
 * A place on a disk for servers that are measured: where TMPDIR says, or in /var/tmp, and gone at the end.
 */
#ifndef WEIR_BENCH_FOLDER_H
#define WEIR_BENCH_FOLDER_H

#include <stdbool.h>

#define FOLDER_MAX 256

struct folder {
    char path[FOLDER_MAX];
    char system[32]; /* the kind of its file system: "ext4" */
    bool in_memory;  /* which it is not meant to be: nothing is learnt about disks */
};

/* false: it has said why. */
bool folder_make(struct folder *folder);
/* A path in it, for `path`. */
void folder_path(const struct folder *folder, const char *name, char path[static FOLDER_MAX]);
/* All that is there by this name, folders too. Also if there is nothing. */
void folder_clear(const struct folder *folder, const char *name);
void folder_remove(struct folder *folder);

#endif
