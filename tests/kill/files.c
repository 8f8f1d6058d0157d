/* SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L
#include "kill/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];

static void stop(const char *what)
{
    perror(what);
    abort();
}

/* ---- the folder ---- */

static void remove_folder(void)
{
    DIR *all = opendir(folder);
    struct dirent *entry;
    while (all && (entry = readdir(all)))
        if (entry->d_name[0] != '.')
            (void)unlinkat(dirfd(all), entry->d_name, 0);
    if (all)
        (void)closedir(all);
    (void)rmdir(folder);
}

static void make_folder(void)
{
    const char *temporary = getenv("TMPDIR");
    const char *where = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : temporary ? temporary : "/tmp";
    int length = snprintf(folder, sizeof folder, "%s/weir-kill-XXXXXX", where);
    if (length >= (int)sizeof folder || !mkdtemp(folder))
        stop("mkdtemp");
    (void)atexit(remove_folder);
}

void files_path(char path[FILES_PATH_MAX], const char *name)
{
    if (!folder[0])
        make_folder();
    if (snprintf(path, FILES_PATH_MAX, "%s/%s", folder, name) >= FILES_PATH_MAX)
        abort();
}

/* ---- images ---- */

static void make_room(struct image *image, size_t size)
{
    image->size = size;
    if (size <= image->room)
        return;
    free(image->bytes);
    image->bytes = malloc(size);
    image->room = size;
    if (!image->bytes)
        stop("malloc");
}

void image_read(struct image *image, const char *path)
{
    struct stat stat;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    image->size = 0;
    if (file < 0 && errno == ENOENT)
        return;
    if (file < 0 || fstat(file, &stat) != 0)
        stop(path);
    make_room(image, (size_t)stat.st_size);
    if (image->size > 0 && pread(file, image->bytes, image->size, 0) != (ssize_t)image->size)
        stop(path);
    (void)close(file);
}

void image_write(const struct image *image, const char *path)
{
    int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || ftruncate(file, (off_t)image->size) != 0)
        stop(path);
    if (image->size > 0 && pwrite(file, image->bytes, image->size, 0) != (ssize_t)image->size)
        stop(path);
    (void)close(file);
}

void image_copy(struct image *image, const struct image *from)
{
    make_room(image, from->size);
    if (from->size > 0)
        memcpy(image->bytes, from->bytes, from->size);
}

bool image_is(const struct image *image, const struct image *other)
{
    return image->size == other->size &&
           (image->size == 0 || memcmp(image->bytes, other->bytes, image->size) == 0);
}

void image_free(struct image *image)
{
    free(image->bytes);
    *image = (struct image){NULL, 0, 0};
}
