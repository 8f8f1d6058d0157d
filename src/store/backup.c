/* SPDX-License-Identifier: MIT */
/*
 * A backup is a directory like that of a store: an image, the log behind it up to a moment, a mark. It is
 * what a process would have left that had ended at that moment. Segments that are closed, and images, never
 * change: so they get another name there, and are copied only where that cannot be.
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "store/backup.h"
#include "store/checkpoint.h"
#include "store/files.h"
#include "store/log.h"
#include "store/mark.h"
#include "store/survey.h"
#include "store/sync.h"

#define BACKUPS    "backups"
#define COPY_PIECE (UINT64_C(1) << 20)

struct backup {
    struct store *store;
    struct disk *disk;
    const char *name;
    char half[DISK_NAME_MAX];
    int parent, dir;         /* -1: not open */
    bool named;              /* it may have its name */
    uint64_t image, segment; /* what it begins with */
    uint64_t end, sequence;  /* the first segment, and sequence, that it does not have */
};

static bool is_backup_name(const char *name)
{
    size_t len = strlen(name);
    return len > 0 && len <= STORE_BACKUP_NAME && name[0] != '.' &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == len;
}

/* ---- where it goes ---- */

static int remove_one(void *arg, const char *name, uint64_t bytes)
{
    struct backup *backup = arg;
    (void)bytes;
    return backup->disk->remove(backup->disk, backup->dir, name);
}

static int empty_backup_dir(struct backup *backup)
{
    return backup->disk->list(backup->disk, backup->dir, remove_one, backup);
}

/* 0: nothing has its name. */
static int find_backup_name(const struct backup *backup)
{
    int there, error = backup->disk->open_sub(backup->disk, backup->parent, backup->name, false, &there);
    if (!error)
        backup->disk->close_dir(backup->disk, there);
    return error == ENOENT ? 0 : error ? error : EEXIST;
}

static int open_dirs(struct backup *backup)
{
    struct disk *disk = backup->disk;
    int error = disk->open_sub(disk, backup->store->dir, BACKUPS, true, &backup->parent);
    if (error) {
        backup->parent = -1;
        return error;
    }
    if ((error = find_backup_name(backup)) != 0)
        return error;
    error = disk->open_sub(disk, backup->parent, backup->half, true, &backup->dir);
    if (error)
        backup->dir = -1;
    return error ? error : empty_backup_dir(backup); /* of one that was killed */
}

/* What could not be finished gives its room back: names there keep images and segments from going. */
static void close_dirs(struct backup *backup)
{
    if (backup->dir >= 0 && !backup->named)
        (void)empty_backup_dir(backup);
    if (backup->dir >= 0)
        backup->disk->close_dir(backup->disk, backup->dir);
    if (backup->parent >= 0)
        backup->disk->close_dir(backup->disk, backup->parent);
}

/* ---- files ---- */

static int copy_file_bytes(struct disk *disk, int from, int to, unsigned char *piece)
{
    uint64_t at = 0, done = COPY_PIECE;
    int error = 0;
    while (!error && done == COPY_PIECE) {
        error = disk->read(disk, from, piece, COPY_PIECE, at, &done);
        if (!error && done > 0)
            error = disk->write(disk, to, piece, done, at);
        at += done;
    }
    return error ? error : disk->sync(disk, to);
}

static int copy_file(struct backup *backup, const char *name)
{
    struct disk *disk = backup->disk;
    int from, to;
    unsigned char *piece = malloc(COPY_PIECE);
    int error = piece ? disk->open(disk, backup->store->dir, name, DISK_READ, &from) : ENOMEM;
    if (error) {
        free(piece);
        return error;
    }
    error = disk->open(disk, backup->dir, name, DISK_CREATE, &to);
    if (!error) {
        error = copy_file_bytes(disk, from, to, piece);
        (void)disk->close(disk, to);
    }
    (void)disk->close(disk, from);
    free(piece);
    return error;
}

static int backup_file(struct backup *backup, enum file_kind kind, uint64_t number)
{
    char name[DISK_NAME_MAX];
    weir_file_name(name, kind, number);
    int error = backup->disk->link(backup->disk, backup->store->dir, name, backup->dir, name);
    return error && error != ENOENT && error != EIO ? copy_file(backup, name) : error;
}

static int backup_files(struct backup *backup)
{
    struct files files;
    size_t linked = 0;
    int error = weir_files_read(&files, backup->disk, backup->store->dir);
    if (error)
        return error;
    error = backup_file(backup, FILE_IMAGE, backup->image);
    for (size_t i = 0; i < files.segments.count && !error; i++) {
        uint64_t number = files.segments.entries[i].number;
        if (number >= backup->segment && number < backup->end) {
            error = backup_file(backup, FILE_SEGMENT, number);
            linked++;
        }
    }
    ASSERT(error || linked > 0); /* the one that was begun for the image */
    weir_files_free(&files);
    return error;
}

static int finish_backup(struct backup *backup)
{
    struct disk *disk = backup->disk;
    int error = weir_mark_put(disk, backup->dir, backup->store->id, backup->sequence - 1);
    if (!error)
        error = disk->sync_dir(disk, backup->dir);
    if (error)
        return error;
    CHECK_DIR(backup->store, backup->dir, false);
    error = disk->rename(disk, backup->parent, backup->half, backup->name);
    backup->named = !error || find_backup_name(backup) != 0; /* a rename that failed may have been done */
    if (!error)
        error = disk->sync_dir(disk, backup->parent);
    if (!error)
        error = disk->sync_dir(disk, backup->store->dir);
    return error ? error : disk->witness(disk, backup->store->dir);
}

/* ---- what is in it ---- */

/* The image just made, or a later one, and the log up to now: closed, and on the disk. */
static int find_backup_range(struct backup *backup)
{
    struct store *store = backup->store;
    (void)pthread_mutex_lock(&store->log.lock);
    backup->image = store->image.number;
    (void)pthread_mutex_unlock(&store->log.lock);
    struct survey survey = {.kind = FILE_IMAGE, .number = backup->image};
    weir_survey_start(&survey, store->disk, store->dir);
    if (!survey.started)
        return survey.error ? survey.error : EIO;
    backup->segment = survey.start.segment;
    if (!weir_log_rotate(store, &backup->end, &backup->sequence))
        return EIO;
    (void)weir_sync_step(store);
    return atomic_load_explicit(&store->sync.synced, memory_order_acquire) < backup->sequence - 1 ? EIO : 0;
}

static bool make_backup(struct backup *backup, struct weir_error *err)
{
    int error = open_dirs(backup);
    if (!error && !weir_store_image(backup->store, err)) {
        close_dirs(backup);
        return false;
    }
    if (!error)
        error = find_backup_range(backup);
    if (!error)
        error = backup_files(backup);
    if (!error)
        error = finish_backup(backup);
    if (!error)
        CHECK_DIR(backup->store, backup->parent, true);
    close_dirs(backup);
    if (!error)
        return true;
    if (error != EEXIST)
        return weir_error_fault(err, error, "the backup '%s' could not be written", backup->name);
    char text[128];
    (void)snprintf(text, sizeof text, "there is a backup '%s' already; use another name", backup->name);
    weir_error_set(err, error, text);
    return false;
}

bool weir_store_backup(struct store *store, const char *name, struct weir_error *err)
{
    struct backup backup = {.store = store, .disk = store->disk, .name = name, .parent = -1, .dir = -1};
    if (!is_backup_name(name))
        return weir_error_complain(
            err,
            "a backup's name has 1 to %d letters, digits, '.', '_' and '-', and does not "
            "begin with '.'",
            STORE_BACKUP_NAME);
    (void)snprintf(backup.half, sizeof backup.half, ".%s.tmp", name); /* no backup is called so */
    weir_image_pin(store, true);
    bool good = make_backup(&backup, err);
    weir_image_pin(store, false);
    return good;
}
