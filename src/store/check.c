/* SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L
#include "store/check.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "store/internal.h"

#if WEIR_ASSERTIONS

static struct checked_disk *lock_checked(struct disk *disk)
{
    struct checked_disk *checked = (struct checked_disk *)(void *)disk;
    (void)pthread_mutex_lock(&checked->lock);
    checked->clock++;
    return checked;
}

static int unlock_checked(struct checked_disk *checked, int error)
{
    checked->failed = checked->failed || error;
    (void)pthread_mutex_unlock(&checked->lock);
    return error;
}

static struct checked_file *find_file(struct checked_disk *checked, int file)
{
    for (size_t i = 0; i < CHECKED_FILES; i++)
        if (checked->files[i].name[0] && checked->files[i].file == file)
            return &checked->files[i];
    return NULL;
}

static struct checked_file *find_name(struct checked_disk *checked, int dir, const char *name)
{
    for (size_t i = 0; i < CHECKED_FILES; i++)
        if (checked->files[i].dir == dir && strcmp(checked->files[i].name, name) == 0)
            return &checked->files[i];
    return NULL;
}

static void forget_name(struct checked_disk *checked, int dir, const char *name)
{
    struct checked_file *file = find_name(checked, dir, name);
    if (file)
        *file = (struct checked_file){.file = -1};
}

/* A place that is free, or that of a file that was closed. */
static struct checked_file *new_file(struct checked_disk *checked)
{
    for (size_t i = 0; i < CHECKED_FILES; i++) {
        struct checked_file *file = &checked->files[checked->next_file++ % CHECKED_FILES];
        if (!file->name[0] || file->file < 0)
            return file;
    }
    return &checked->files[checked->next_file++ % CHECKED_FILES];
}

static struct checked_dir *dir_of(struct checked_disk *checked, int dir)
{
    for (size_t i = 0; i < 8; i++)
        if (checked->dirs[i].dir == dir + 1)
            return &checked->dirs[i];
    struct checked_dir *place = &checked->dirs[checked->next_dir++ % 8];
    *place = (struct checked_dir){.dir = dir + 1};
    return place;
}

static int checked_open(struct disk *disk, int dir, const char *name, enum disk_open how, int *file)
{
    struct checked_disk *checked = lock_checked(disk);
    uint64_t number;
    int error = checked->inner->open(checked->inner, dir, name, how, file);
    if (!error && how == DISK_CREATE) {
        forget_name(checked, dir, name);
        struct checked_file *made = new_file(checked);
        *made = (struct checked_file){
            .dir = dir, .file = *file, .segment = weir_file_parse(name, &number) == FILE_SEGMENT};
        (void)snprintf(made->name, sizeof made->name, "%s", name);
        dir_of(checked, dir)->changed = checked->clock;
    }
    (void)unlock_checked(checked, how == DISK_CREATE ? error : 0);
    return error;
}

static int checked_close(struct disk *disk, int file)
{
    struct checked_disk *checked = lock_checked(disk);
    struct checked_file *closed = find_file(checked, file);
    ASSERT(!closed || !closed->segment || checked->failed || closed->synced == closed->last);
    if (closed && closed->segment)
        *closed = (struct checked_file){.file = -1};
    else if (closed)
        closed->file = -1;
    return unlock_checked(checked, checked->inner->close(checked->inner, file));
}

static bool is_zero(const void *bytes, uint64_t count)
{
    const unsigned char *at = bytes;
    return count == 0 || (at[0] == 0 && memcmp(at, at + 1, count - 1) == 0);
}

static void note_frame(struct checked_file *file, const void *bytes, uint64_t count, uint64_t offset)
{
    struct frame_head head;
    ASSERT(count >= sizeof head && offset == file->frames_end);
    memcpy(&head, bytes, sizeof head);
    ASSERT(weir_frame_is_good(bytes, count, head.salt));
    ASSERT(head.sequence > file->last && head.synced < head.sequence);
    file->first = file->first ? file->first : head.sequence;
    file->last = head.sequence;
    file->frames_end = offset + frame_size(head.bytes);
}

static int checked_write(struct disk *disk, int file, const void *bytes, uint64_t count, uint64_t offset)
{
    struct checked_disk *checked = lock_checked(disk);
    struct checked_file *written = find_file(checked, file);
    bool zeros = is_zero(bytes, count);
    ASSERT(!written || !written->write_failed);
    ASSERT(!written || !written->segment || offset >= written->frames_end);
    if (written && written->segment && !zeros)
        note_frame(written, bytes, count, offset);
    int error = checked->inner->write(checked->inner, file, bytes, count, offset);
    if (written) {
        written->dirty = true;
        written->size = !error && offset + count > written->size ? offset + count : written->size;
    }
    if (error && written && !zeros) /* zeros ahead need not be there */
        written->write_failed = true;
    return unlock_checked(checked, error);
}

static int checked_truncate(struct disk *disk, int file, uint64_t bytes)
{
    struct checked_disk *checked = lock_checked(disk);
    struct checked_file *cut = find_file(checked, file);
    ASSERT(!cut || bytes >= cut->frames_end);
    int error = checked->inner->truncate(checked->inner, file, bytes);
    if (cut && !error)
        cut->size = bytes;
    (void)unlock_checked(checked, 0);
    return error;
}

/* Others write while it runs: what was there when it began is on the disk then. */
static int checked_sync(struct disk *disk, int file)
{
    struct checked_disk *checked = lock_checked(disk);
    struct checked_file *synced = find_file(checked, file), before = {0};
    ASSERT(!synced || !synced->sync_failed); /* a write may fail beside it, which another thread learns */
    if (synced) {
        before = *synced;
        synced->dirty = false;
    }
    (void)unlock_checked(checked, 0);
    int error = checked->inner->sync(checked->inner, file);
    checked = lock_checked(disk);
    synced = find_file(checked, file);
    if (synced && !error) {
        synced->synced = before.last;
        synced->synced_size = before.size;
    } else if (synced) {
        synced->sync_failed = synced->dirty = true;
    }
    return unlock_checked(checked, error);
}

static int checked_sync_dir(struct disk *disk, int dir)
{
    struct checked_disk *checked = lock_checked(disk);
    bool naming[CHECKED_FILES];
    uint64_t began = checked->clock;
    for (size_t i = 0; i < CHECKED_FILES; i++)
        naming[i] = checked->files[i].name[0] && checked->files[i].dir == dir;
    (void)unlock_checked(checked, 0);
    int error = checked->inner->sync_dir(checked->inner, dir);
    checked = lock_checked(disk);
    for (size_t i = 0; i < CHECKED_FILES && !error; i++)
        checked->files[i].named |= naming[i] && checked->files[i].dir == dir;
    if (!error)
        dir_of(checked, dir)->synced = began;
    return unlock_checked(checked, error);
}

static int checked_witness(struct disk *disk, int place)
{
    struct checked_disk *checked = lock_checked(disk);
    struct checked_file before[CHECKED_FILES];
    uint64_t began = checked->clock;
    memcpy(before, checked->files, sizeof before);
    (void)unlock_checked(checked, 0);
    int error = checked->inner->witness(checked->inner, place);
    checked = lock_checked(disk);
    for (size_t i = 0; i < CHECKED_FILES && !error; i++) {
        struct checked_file *file = &checked->files[i];
        if (strcmp(file->name, before[i].name) != 0)
            continue;
        if (file->witnessed_size < before[i].synced_size) /* another may have ended meanwhile */
            file->witnessed_size = before[i].synced_size;
        file->name_witnessed |= before[i].named;
    }
    if (!error)
        checked->witnessed = began;
    return unlock_checked(checked, error);
}

static int checked_rename(struct disk *disk, int dir, const char *from, const char *to)
{
    struct checked_disk *checked = lock_checked(disk);
    struct checked_file *file = find_name(checked, dir, from);
    ASSERT(!file || (!file->dirty && file->size > 0));
    int error = checked->inner->rename(checked->inner, dir, from, to);
    dir_of(checked, dir)->changed = checked->clock;
    if (!error && file) {
        forget_name(checked, dir, to);
        (void)snprintf(file->name, sizeof file->name, "%s", to);
        file->named = file->name_witnessed = false;
    }
    return unlock_checked(checked, error);
}

static int checked_remove(struct disk *disk, int dir, const char *name)
{
    struct checked_disk *checked = lock_checked(disk);
    int error = checked->inner->remove(checked->inner, dir, name);
    if (!error)
        forget_name(checked, dir, name);
    (void)unlock_checked(checked, 0);
    return error;
}

static int checked_link(struct disk *disk, int dir, const char *name, int to_dir, const char *to)
{
    struct checked_disk *checked = lock_checked(disk);
    dir_of(checked, to_dir)->changed = checked->clock;
    (void)unlock_checked(checked, 0);
    return checked->inner->link(checked->inner, dir, name, to_dir, to);
}

#define PASS_ON(RESULT, NAME, PARAMETERS, DO, ...)                                                           \
    static RESULT checked_##NAME PARAMETERS                                                                  \
    {                                                                                                        \
        struct disk *inner = ((struct checked_disk *)(void *)disk)->inner;                                   \
        DO inner->NAME(inner, __VA_ARGS__);                                                                  \
    }
PASS_ON(int, open_dir, (struct disk * disk, const char *path, bool make, int *dir), return, path, make, dir)
PASS_ON(int, open_sub, (struct disk * disk, int dir, const char *name, bool make, int *sub), return, dir,
        name, make, sub)
PASS_ON(void, close_dir, (struct disk * disk, int dir), , dir)
PASS_ON(int, lock_dir, (struct disk * disk, int dir, int64_t *pid), return, dir, pid)
PASS_ON(int, watch_dir, (struct disk * disk, int dir, int64_t *pid), return, dir, pid)
PASS_ON(int, same_dir, (struct disk * disk, int dir), return, dir)
PASS_ON(int, list,
        (struct disk * disk, int dir, int (*each)(void *arg, const char *name, uint64_t bytes), void *arg),
        return, dir, each, arg)
PASS_ON(int, room, (struct disk * disk, int dir, uint64_t *bytes), return, dir, bytes)
PASS_ON(int, size, (struct disk * disk, int file, uint64_t *bytes), return, file, bytes)
PASS_ON(int, read,
        (struct disk * disk, int file, void *bytes, uint64_t count, uint64_t offset, uint64_t *done), return,
        file, bytes, count, offset, done)
PASS_ON(void, flush, (struct disk * disk, int file, uint64_t offset, uint64_t bytes), , file, offset, bytes)

struct disk *weir_check_disk(struct checked_disk *checked, struct disk *inner)
{
    static const struct disk functions = {.open_dir = checked_open_dir,
                                          .open_sub = checked_open_sub,
                                          .close_dir = checked_close_dir,
                                          .lock_dir = checked_lock_dir,
                                          .watch_dir = checked_watch_dir,
                                          .same_dir = checked_same_dir,
                                          .list = checked_list,
                                          .sync_dir = checked_sync_dir,
                                          .rename = checked_rename,
                                          .remove = checked_remove,
                                          .link = checked_link,
                                          .room = checked_room,
                                          .open = checked_open,
                                          .close = checked_close,
                                          .size = checked_size,
                                          .read = checked_read,
                                          .write = checked_write,
                                          .truncate = checked_truncate,
                                          .sync = checked_sync,
                                          .witness = checked_witness,
                                          .flush = checked_flush};
    checked->disk = functions;
    checked->inner = inner;
    pthread_mutexattr_t again; /* a disk of a test may call the store */
    (void)pthread_mutexattr_init(&again);
    (void)pthread_mutexattr_settype(&again, PTHREAD_MUTEX_RECURSIVE);
    (void)pthread_mutex_init(&checked->lock, &again);
    (void)pthread_mutexattr_destroy(&again);
    for (size_t i = 0; i < CHECKED_FILES; i++)
        checked->files[i].file = -1;
    return &checked->disk;
}

void weir_check_fault(struct store *store)
{
    (void)unlock_checked(lock_checked(&store->checked.disk), EIO);
}

bool weir_check_is_synced(struct store *store, uint64_t ticket)
{
    struct checked_disk *checked = lock_checked(&store->checked.disk);
    bool synced = ticket <= checked->synced;
    (void)unlock_checked(checked, 0);
    return synced;
}

void weir_check_moved(struct store *store, uint64_t target)
{
    struct checked_disk *checked = lock_checked(&store->checked.disk);
    ASSERT(target >= checked->synced);
    for (size_t i = 0; i < CHECKED_FILES; i++) {
        const struct checked_file *file = &checked->files[i];
        if (!file->name[0] || !file->segment || file->first == 0 || file->first > target)
            continue;
        ASSERT(file->named && file->name_witnessed);
        ASSERT(file->synced >= (file->last < target ? file->last : target));
        ASSERT(file->witnessed_size >= file->synced_size);
    }
    checked->synced = target;
    (void)unlock_checked(checked, 0);
}

void weir_check_durable(struct store *store, const char *name)
{
    struct checked_disk *checked = lock_checked(&store->checked.disk);
    const struct checked_file *file = find_name(checked, store->dir, name);
    ASSERT(file && !file->write_failed && !file->sync_failed && !file->dirty && file->named &&
           file->name_witnessed);
    (void)unlock_checked(checked, 0);
}

void weir_check_dir(struct store *store, int dir, bool witnessed)
{
    struct checked_disk *checked = lock_checked(&store->checked.disk);
    const struct checked_dir *names = dir_of(checked, dir);
    ASSERT(names->synced > names->changed);
    ASSERT(!witnessed || checked->witnessed > names->synced);
    (void)unlock_checked(checked, 0);
}

#endif
