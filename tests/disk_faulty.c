/* SPDX-License-Identifier: MIT */
#include "disk_faulty.h"

#include <stddef.h>

static bool is_due(struct faulty *faulty, enum disk_call order, uint64_t number)
{
    uint64_t from = atomic_load(&faulty->from[order]);
    return from != 0 && (number == from || (number > from && atomic_load(&faulty->for_ever[order])));
}

/* Counts; gives the errno with which this call has to fail, or 0. */
static int call(struct faulty *faulty, enum disk_call kind, void *site)
{
    uint64_t number = atomic_fetch_add(&faulty->calls[kind], 1) + 1;
    uint64_t of_all = atomic_fetch_add(&faulty->calls[DISK_CALL_ANY], 1) + 1;
    int fault = 0;
    bool due = is_due(faulty, kind, number), any = !due && is_due(faulty, DISK_CALL_ANY, of_all);
    if (due || any) {
        fault = atomic_load(&faulty->faults[due ? kind : DISK_CALL_ANY]);
        atomic_store(&faulty->site, site);
    }
    if (fault)
        atomic_fetch_add(&faulty->failed, 1);
    return fault;
}

/* Every function of the disk is the same: count, perhaps fail, else ask the disk below. */
#define FORWARD(NAME, KIND, PARAMETERS, ...)                                                                 \
    static int faulty_##NAME PARAMETERS                                                                      \
    {                                                                                                        \
        struct faulty *faulty = (struct faulty *)disk;                                                       \
        int fault = call(faulty, DISK_CALL_##KIND, __builtin_return_address(0));                             \
        return fault ? fault : faulty->under->NAME(faulty->under, __VA_ARGS__);                              \
    }

FORWARD(lock_dir, LOCK_DIR, (struct disk * disk, int dir, int64_t *pid), dir, pid)
FORWARD(watch_dir, LOCK_DIR, (struct disk * disk, int dir, int64_t *pid), dir, pid)
FORWARD(list, LIST,
        (struct disk * disk, int dir, int (*each)(void *arg, const char *name, uint64_t bytes), void *arg),
        dir, each, arg)
FORWARD(sync_dir, SYNC_DIR, (struct disk * disk, int dir), dir)
FORWARD(rename, RENAME, (struct disk * disk, int dir, const char *from, const char *to), dir, from, to)
FORWARD(remove, REMOVE, (struct disk * disk, int dir, const char *name), dir, name)
FORWARD(link, LINK, (struct disk * disk, int dir, const char *name, int to_dir, const char *to), dir, name,
        to_dir, to)
FORWARD(room, ROOM, (struct disk * disk, int dir, uint64_t *bytes), dir, bytes)
FORWARD(size, SIZE, (struct disk * disk, int file, uint64_t *bytes), file, bytes)
FORWARD(read, READ,
        (struct disk * disk, int file, void *bytes, uint64_t count, uint64_t offset, uint64_t *done), file,
        bytes, count, offset, done)
FORWARD(write, WRITE, (struct disk * disk, int file, const void *bytes, uint64_t count, uint64_t offset),
        file, bytes, count, offset)
FORWARD(truncate, TRUNCATE, (struct disk * disk, int file, uint64_t bytes), file, bytes)
FORWARD(sync, SYNC, (struct disk * disk, int file), file)
FORWARD(witness, WITNESS, (struct disk * disk, int place), place)

/* ---- what opens and closes: that is counted, too ---- */

static int opened(struct faulty *faulty, int fault)
{
    if (!fault)
        atomic_fetch_add(&faulty->open, 1);
    return fault;
}

static int faulty_open_dir(struct disk *disk, const char *path, bool make, int *dir)
{
    struct faulty *faulty = (struct faulty *)disk;
    int fault = call(faulty, DISK_CALL_OPEN_DIR, __builtin_return_address(0));
    return fault ? fault : opened(faulty, faulty->under->open_dir(faulty->under, path, make, dir));
}

static int faulty_open_sub(struct disk *disk, int dir, const char *name, bool make, int *sub)
{
    struct faulty *faulty = (struct faulty *)disk;
    int fault = call(faulty, DISK_CALL_OPEN_SUB, __builtin_return_address(0));
    return fault ? fault : opened(faulty, faulty->under->open_sub(faulty->under, dir, name, make, sub));
}

static int faulty_open(struct disk *disk, int dir, const char *name, enum disk_open how, int *file)
{
    struct faulty *faulty = (struct faulty *)disk;
    int fault = call(faulty, DISK_CALL_OPEN, __builtin_return_address(0));
    return fault ? fault : opened(faulty, faulty->under->open(faulty->under, dir, name, how, file));
}

static void faulty_close_dir(struct disk *disk, int dir)
{
    struct faulty *faulty = (struct faulty *)disk;
    atomic_fetch_sub(&faulty->open, 1);
    faulty->under->close_dir(faulty->under, dir);
}

/* A close that fails has closed it all the same. */
static int faulty_close(struct disk *disk, int file)
{
    struct faulty *faulty = (struct faulty *)disk;
    int fault = call(faulty, DISK_CALL_CLOSE, __builtin_return_address(0)),
        below = faulty->under->close(faulty->under, file);
    atomic_fetch_sub(&faulty->open, 1);
    return fault ? fault : below;
}

static int faulty_same_dir(struct disk *disk, int dir)
{
    struct faulty *faulty = (struct faulty *)disk;
    return faulty->under->same_dir(faulty->under, dir);
}

static void faulty_flush(struct disk *disk, int file, uint64_t offset, uint64_t bytes)
{
    struct faulty *faulty = (struct faulty *)disk;
    faulty->under->flush(faulty->under, file, offset, bytes);
}

/* ---- orders ---- */

void faulty_init(struct faulty *faulty, struct disk *under)
{
    *faulty = (struct faulty){.disk = {.open_dir = faulty_open_dir,
                                       .open_sub = faulty_open_sub,
                                       .close_dir = faulty_close_dir,
                                       .lock_dir = faulty_lock_dir,
                                       .watch_dir = faulty_watch_dir,
                                       .same_dir = faulty_same_dir,
                                       .list = faulty_list,
                                       .sync_dir = faulty_sync_dir,
                                       .rename = faulty_rename,
                                       .remove = faulty_remove,
                                       .link = faulty_link,
                                       .room = faulty_room,
                                       .open = faulty_open,
                                       .close = faulty_close,
                                       .size = faulty_size,
                                       .read = faulty_read,
                                       .write = faulty_write,
                                       .truncate = faulty_truncate,
                                       .sync = faulty_sync,
                                       .witness = faulty_witness,
                                       .flush = faulty_flush},
                              .under = under ? under : &weir_disk};
}

/* The number comes last: who sees it sees the rest of the order. */
void faulty_fail(struct faulty *faulty, enum disk_call kind, uint64_t n, int fault, bool for_ever)
{
    atomic_store(&faulty->from[kind], 0);
    atomic_store(&faulty->faults[kind], fault);
    atomic_store(&faulty->for_ever[kind], for_ever);
    atomic_store(&faulty->from[kind], n == 0 ? 0 : atomic_load(&faulty->calls[kind]) + n);
}

void faulty_no_faults(struct faulty *faulty)
{
    for (int kind = 0; kind <= DISK_CALLS; kind++)
        atomic_store(&faulty->from[kind], 0);
}
