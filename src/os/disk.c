/* SPDX-License-Identifier: MIT */
/*
 * The real disk: directories and files are descriptors. Names come from files' own lists and from people, so
 * none of them leads elsewhere (O_NOFOLLOW), waits (O_NONBLOCK: a pipe in place of a file) or is inherited.
 */
#define _GNU_SOURCE
#include "os/disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "os/lock.h"

#define LOCK_NAME  "lock"
#define DIR_MODE   0700
#define FILE_MODE  0600
#define DIR_FLAGS  (O_RDONLY | O_DIRECTORY | O_CLOEXEC)
#define FILE_FLAGS (O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK)

static int fault_of(int result)
{
    return result < 0 ? errno : 0;
}

/* A failure that says that data is lost is told to one caller, once; one that says that a signal came says
 * nothing about data. */
static int sync_with(int (*function)(int), int file)
{
    int result;
    do {
        result = function(file);
    } while (result != 0 && errno == EINTR);
    return fault_of(result);
}

/* ---- directories ---- */

/* What made a directory cannot reach the one above it. Who may not read that one has all of the disk synced.
 */
static int sync_parent(int dir)
{
    int parent = openat(dir, "..", DIR_FLAGS);
    if (parent < 0)
        return sync_with(syncfs, dir);
    int fault = sync_with(fsync, parent);
    (void)close(parent);
    return fault;
}

static int real_open_dir(struct disk *disk, const char *path, bool make, int *dir)
{
    (void)disk;
    bool made = make && mkdir(path, DIR_MODE) == 0;
    if (make && !made && errno != EEXIST)
        return errno;
    int file = open(path, DIR_FLAGS);
    if (file < 0)
        return errno;
    int fault = make ? sync_parent(file) : 0; /* also of one that was made just before a crash */
    if (fault && made) {
        (void)close(file);
        return fault;
    }
    *dir = file;
    return 0;
}

static int real_open_sub(struct disk *disk, int dir, const char *name, bool make, int *sub)
{
    (void)disk;
    if (make && mkdirat(dir, name, DIR_MODE) != 0 && errno != EEXIST)
        return errno;
    int file = openat(dir, name, DIR_FLAGS | O_NOFOLLOW);
    if (file < 0)
        return errno;
    *sub = file;
    return 0;
}

/* Of files alone, with names that fit. */
static int list_entry(int dir, const char *name, int (*each)(void *arg, const char *name, uint64_t bytes),
                      void *arg)
{
    struct stat status;
    if (strlen(name) >= DISK_NAME_MAX)
        return 0;
    if (fstatat(dir, name, &status, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? 0 : errno; /* it went away meanwhile */
    return S_ISREG(status.st_mode) ? each(arg, name, (uint64_t)status.st_size) : 0;
}

static int real_list(struct disk *disk, int dir, int (*each)(void *arg, const char *name, uint64_t bytes),
                     void *arg)
{
    (void)disk;
    int fault = 0,
        file = openat(dir, ".", DIR_FLAGS); /* to be read from its start, whoever reads it beside us */
    DIR *stream = file < 0 ? NULL : fdopendir(file);
    if (!stream) {
        fault = errno;
        if (file >= 0)
            (void)close(file);
        return fault;
    }
    while (fault == 0) {
        errno = 0;
        const struct dirent *entry = readdir(stream);
        if (!entry) {
            fault = errno;
            break;
        }
        fault = list_entry(dir, entry->d_name, each, arg);
    }
    (void)closedir(stream);
    return fault;
}

static int real_sync_dir(struct disk *disk, int dir)
{
    (void)disk;
    return sync_with(fsync, dir);
}

static int real_rename(struct disk *disk, int dir, const char *from, const char *to)
{
    (void)disk;
    return fault_of(renameat(dir, from, dir, to));
}

static int real_remove(struct disk *disk, int dir, const char *name)
{
    (void)disk;
    return fault_of(unlinkat(dir, name, 0));
}

static int real_link(struct disk *disk, int dir, const char *name, int to_dir, const char *to)
{
    (void)disk;
    return fault_of(linkat(dir, name, to_dir, to, 0));
}

static int real_room(struct disk *disk, int dir, uint64_t *bytes)
{
    struct statvfs room;
    (void)disk;
    if (fstatvfs(dir, &room) != 0)
        return errno;
    bool endless = room.f_blocks == 0; /* a file system without a limit of its own */
    *bytes = endless ? UINT64_MAX : (uint64_t)room.f_bavail * room.f_frsize;
    return 0;
}

/* ---- directories that are locked ---- */

struct held_dir {
    struct held_dir *next;
    int dir, file;
    char *path; /* from the root, of the directory; NULL: not known */
};

static struct held_dir *all_held;
static struct lock held_lock;

/* Where the list has the directory, or its end; under the lock. */
static struct held_dir **find_held(int dir)
{
    struct held_dir **at = &all_held;
    while (*at && (*at)->dir != dir)
        at = &(*at)->next;
    return at;
}

/* The lock's file of a directory that is locked; -1: it is none. */
static int dir_lock_file(int dir)
{
    lock_take(&held_lock);
    const struct held_dir *held = *find_held(dir);
    int file = held ? held->file : -1;
    lock_drop(&held_lock);
    return file;
}

/* ---- files ---- */

/* 0: it is one. Nothing else has contents that stay. */
static int check_is_file(int file)
{
    struct stat status;
    if (fstat(file, &status) != 0)
        return errno;
    return S_ISREG(status.st_mode) ? 0 : ENOTSUP;
}

static int open_disk_file(int dir, const char *name, int flags, int *file)
{
    int opened = openat(dir, name, FILE_FLAGS | flags, FILE_MODE);
    if (opened < 0)
        return errno;
    int fault = check_is_file(opened);
    if (fault)
        (void)close(opened);
    else
        *file = opened;
    return fault;
}

static int real_open(struct disk *disk, int dir, const char *name, enum disk_open how, int *file)
{
    static const int flags[] = {
        [DISK_READ] = O_RDONLY, [DISK_CREATE] = O_RDWR | O_CREAT | O_EXCL, [DISK_WRITE] = O_RDWR};
    (void)disk;
    return open_disk_file(dir, name, flags[how], file);
}

static int real_close(struct disk *disk, int file)
{
    (void)disk;
    return close(file) == 0 || errno == EINTR ? 0 : errno; /* it is closed then, too */
}

static int real_size(struct disk *disk, int file, uint64_t *bytes)
{
    struct stat status;
    (void)disk;
    if (fstat(file, &status) != 0)
        return errno;
    *bytes = (uint64_t)status.st_size;
    return 0;
}

static bool offset_fits(uint64_t count, uint64_t offset)
{
    return count <= INT64_MAX && offset <= INT64_MAX - count;
}

static int real_read(struct disk *disk, int file, void *bytes, uint64_t count, uint64_t offset,
                     uint64_t *done)
{
    (void)disk;
    *done = 0;
    if (!offset_fits(count, offset))
        return EINVAL;
    while (*done < count) {
        ssize_t len = pread(file, (unsigned char *)bytes + *done, count - *done, (off_t)(offset + *done));
        if (len < 0 && errno != EINTR)
            return errno;
        if (len == 0)
            break;
        *done += len > 0 ? (uint64_t)len : 0;
    }
    return 0;
}

static int real_write(struct disk *disk, int file, const void *bytes, uint64_t count, uint64_t offset)
{
    (void)disk;
    if (!offset_fits(count, offset))
        return EFBIG;
    for (uint64_t done = 0; done < count;) {
        const unsigned char *rest = (const unsigned char *)bytes + done;
        ssize_t len = pwrite(file, rest, count - done, (off_t)(offset + done));
        if (len < 0 && errno != EINTR)
            return errno;
        if (len == 0)
            return ENOSPC; /* it takes nothing and does not say why */
        done += len > 0 ? (uint64_t)len : 0;
    }
    return 0;
}

static int real_truncate(struct disk *disk, int file, uint64_t bytes)
{
    int result;
    (void)disk;
    if (!offset_fits(bytes, 0))
        return EFBIG;
    do {
        result = ftruncate(file, (off_t)bytes);
    } while (result != 0 && errno == EINTR);
    return fault_of(result);
}

static int real_sync(struct disk *disk, int file)
{
    (void)disk;
    return sync_with(fdatasync, file);
}

static int real_witness(struct disk *disk, int place)
{
    struct stat status;
    int lock = dir_lock_file(place), file = lock >= 0 ? lock : place;
    if (fstat(file, &status) != 0)
        return errno;
    /* To set the size that it has needs a transaction, which a failed journal refuses. A second sync, fsync
     * of the directory, statvfs, chmod and chown do not: they return 0. */
    return real_truncate(disk, file, (uint64_t)status.st_size);
}

static void real_flush(struct disk *disk, int file, uint64_t offset, uint64_t bytes)
{
    int saved = errno;
    (void)disk;
    if (offset_fits(bytes, offset))
        (void)sync_file_range(file, (off_t)offset, (off_t)bytes, SYNC_FILE_RANGE_WRITE);
    errno = saved;
}

/* ---- locks: a file in the directory, which is locked as long as it is open ---- */

static int64_t read_pid(int file)
{
    char text[24] = "";
    ssize_t len = pread(file, text, sizeof text - 1, 0);
    long long pid = len > 0 ? strtoll(text, NULL, 10) : 0;
    return pid > 0 ? pid : 0;
}

/* For people, and for who finds it locked: a disk that is full does not keep us from having it. */
static void write_pid(int file)
{
    char text[24];
    int len = snprintf(text, sizeof text, "%lld\n", (long long)getpid());
    if (ftruncate(file, 0) == 0)
        (void)!pwrite(file, text, (size_t)len, 0);
}

static int lock_file(int file, int64_t *pid)
{
    int result;
    do {
        result = flock(file, LOCK_EX | LOCK_NB);
    } while (result != 0 && errno == EINTR);
    int fault = fault_of(result);
    if (fault == EAGAIN)
        *pid = read_pid(file);
    return fault;
}

/* The name that it has now: the one it was opened by may be one within a directory that the process leaves,
 * and have links on its way. */
static char *path_of(int dir)
{
    char link[40], path[PATH_MAX];
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", dir);
    ssize_t len = readlink(link, path, sizeof path - 1);
    return len > 0 ? strndup(path, (size_t)len) : NULL;
}

static int hold_dir_lock(int dir, int flags, int64_t *pid)
{
    int file = -1;
    *pid = 0;
    struct held_dir *held = malloc(sizeof *held);
    if (!held)
        return ENOMEM;
    int fault = open_disk_file(dir, LOCK_NAME, flags, &file);
    if (!fault && (fault = lock_file(file, pid)) != 0)
        (void)close(file);
    if (fault) {
        free(held);
        return fault;
    }
    if (flags & O_CREAT)
        write_pid(file);
    *held = (struct held_dir){.dir = dir, .file = file, .path = path_of(dir)};
    lock_take(&held_lock);
    held->next = all_held;
    all_held = held;
    lock_drop(&held_lock);
    return 0;
}

static int real_lock_dir(struct disk *disk, int dir, int64_t *pid)
{
    (void)disk;
    return hold_dir_lock(dir, O_RDWR | O_CREAT, pid);
}

static int real_watch_dir(struct disk *disk, int dir, int64_t *pid)
{
    (void)disk;
    int fault = hold_dir_lock(dir, O_RDONLY, pid);
    return fault == ENOENT ? 0 : fault;
}

/* Is what we have open still what that name leads to? What cannot be told is. */
static bool leads_to(int dir, const char *name, int flags, int file)
{
    struct stat ours, there;
    if (fstat(file, &ours) != 0)
        return true;
    if (fstatat(dir, name, &there, flags) != 0)
        return errno != ENOENT && errno != ENOTDIR;
    return ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
}

static int check_dir_lock(const struct held_dir *held)
{
    bool same = (!held->path || leads_to(AT_FDCWD, held->path, 0, held->dir)) &&
                leads_to(held->dir, LOCK_NAME, AT_SYMLINK_NOFOLLOW, held->file);
    return same ? 0 : ESTALE;
}

static int real_same_dir(struct disk *disk, int dir)
{
    (void)disk;
    lock_take(&held_lock);
    const struct held_dir *held = *find_held(dir);
    int fault = held ? check_dir_lock(held) : EBADF;
    lock_drop(&held_lock);
    return fault;
}

static struct held_dir *remove_dir_lock(int dir)
{
    lock_take(&held_lock);
    struct held_dir **at = find_held(dir), *held = *at;
    if (held)
        *at = held->next;
    lock_drop(&held_lock);
    return held;
}

static void real_close_dir(struct disk *disk, int dir)
{
    (void)disk;
    struct held_dir *held = remove_dir_lock(dir); /* before somebody else gets the number */
    if (held) {
        (void)close(held->file);
        free(held->path);
    }
    free(held);
    (void)close(dir);
}

struct disk weir_disk = {.open_dir = real_open_dir,
                         .open_sub = real_open_sub,
                         .close_dir = real_close_dir,
                         .lock_dir = real_lock_dir,
                         .watch_dir = real_watch_dir,
                         .same_dir = real_same_dir,
                         .list = real_list,
                         .sync_dir = real_sync_dir,
                         .rename = real_rename,
                         .remove = real_remove,
                         .link = real_link,
                         .room = real_room,
                         .open = real_open,
                         .close = real_close,
                         .size = real_size,
                         .read = real_read,
                         .write = real_write,
                         .truncate = real_truncate,
                         .sync = real_sync,
                         .witness = real_witness,
                         .flush = real_flush};
