/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE

#include "server/file_watch.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

static struct file_mark read_mark(const char *path)
{
    struct stat about;
    struct file_mark mark;
    memset(&mark, 0, sizeof mark); /* marks are compared as bytes */
    if (stat(path, &about) != 0)
        return mark;
    mark.device = about.st_dev;
    mark.inode = about.st_ino;
    mark.size = about.st_size;
    mark.changed.tv_sec = about.st_ctim.tv_sec;
    mark.changed.tv_nsec = about.st_ctim.tv_nsec;
    mark.modified.tv_sec = about.st_mtim.tv_sec;
    mark.modified.tv_nsec = about.st_mtim.tv_nsec;
    return mark;
}

static bool mark_is(const struct file_mark *one, const struct file_mark *other)
{
    return memcmp(one, other, sizeof *one) == 0;
}

static const struct watched_file *find_watched(const struct file_watch *watch, const char *path)
{
    for (size_t i = 0; i < watch->count; i++)
        if (strcmp(watch->files[i].path, path) == 0)
            return &watch->files[i];
    return NULL;
}

void weir_file_watch_set(struct file_watch *watch, const char *const *paths, size_t count)
{
    struct file_watch next = {.count = 0};
    ASSERT(count <= FILES_WATCHED);
    for (size_t i = 0; i < count; i++) {
        struct watched_file *file = &next.files[next.count];
        const struct watched_file *known = paths[i] ? find_watched(watch, paths[i]) : NULL;
        file->path = paths[i] ? strdup(paths[i]) : NULL;
        if (!file->path)
            continue;
        file->known = known ? known->known : read_mark(file->path);
        file->last = known ? known->last : file->known;
        next.count++;
    }
    for (size_t i = 0; i < watch->count; i++)
        free(watch->files[i].path);
    *watch = next;
}

bool weir_file_watch_look(struct file_watch *watch)
{
    bool changed = false, steady = true;
    for (size_t i = 0; i < watch->count; i++) {
        struct watched_file *file = &watch->files[i];
        struct file_mark mark = read_mark(file->path);
        steady &= mark_is(&mark, &file->last);
        changed |= !mark_is(&mark, &file->known);
        file->last = mark;
    }
    for (size_t i = 0; changed && steady && i < watch->count; i++)
        watch->files[i].known = watch->files[i].last;
    return changed && steady;
}
