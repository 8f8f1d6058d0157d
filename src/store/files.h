/* SPDX-License-Identifier: MIT */
/*
 * The files of a store's directory, by their names: log-N, image-N, image-N.tmp with 16 hexadecimal digits.
 * Whatever has another name is somebody else's, and is left alone.
 */
#ifndef WEIR_STORE_FILES_H
#define WEIR_STORE_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "os/disk.h"

#define FILES_MOST    65536               /* of each kind: more are not a store's */
#define FILES_NUMBERS (UINT64_C(1) << 62) /* numbers are below this one, */
#define FILES_SPARE   (UINT64_C(1) << 32) /* and by so many where a process starts: it always has a next */

enum file_kind { FILE_OTHER, FILE_IMAGE, FILE_SEGMENT, FILE_HALF /* of an image: image-N.tmp */, FILE_KINDS };

void weir_file_name(char name[DISK_NAME_MAX], enum file_kind kind, uint64_t number);
/* FILE_OTHER: none that weir_file_name would give. */
enum file_kind weir_file_parse(const char *name, uint64_t *number);

struct file_entry {
    uint64_t number, bytes;
};

struct file_list { /* by number */
    struct file_entry *entries;
    size_t count, room;
};

struct files {
    struct file_list images, segments, halves;
};

/* Whose a directory is, by the names of its files; those with a dot in front are nobody's. */
enum files_owner { FILES_NOBODY, FILES_OURS, FILES_FOREIGN /* and none of them is ours */ };
int weir_files_owner(struct disk *disk, int dir, enum files_owner *owner); /* an errno value */
/* One that a store, or its repair, leaves in its directory. */
bool weir_file_is_ours(const char *name);

/* 0, or an errno value: then there is nothing to be freed. */
int weir_files_read(struct files *files, struct disk *disk, int dir);
void weir_files_free(struct files *files);

static inline uint64_t file_list_last(const struct file_list *list) /* 0: none */
{
    return list->count > 0 ? list->entries[list->count - 1].number : 0;
}

#endif
