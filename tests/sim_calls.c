/* SPDX-License-Identifier: MIT */
/*
 * The calls of a simulated disk. Each begins with `begin`, which counts it and says whether it has to fail.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim_tree.h"

#define FIRST_PID 4711                /* of the first process; the next one has the next */
#define ENDLESS   (UINT64_C(1) << 40) /* room, if nobody has said how much there is */
#define FILE_MAX  (UINT64_C(1) << 32) /* of a file: it is in memory */

/* ---- what every call does first ---- */

static bool is_due(struct sim *sim, enum disk_call kind)
{
    if (sim->order.left == 0 || (sim->order.kind != DISK_CALL_ANY && sim->order.kind != kind))
        return false;
    if (sim->order.left > 1) {
        sim->order.left--;
        return false;
    }
    sim->order.left = sim->order.for_ever ? 1 : 0;
    return true;
}

static bool by_chance(struct sim *sim, enum disk_call kind)
{
    uint32_t chance = sim->often[kind].per_million;
    return chance > 0 && rng_next(&sim->rng) % 1000000 < chance;
}

static int begin(struct sim *sim, enum disk_call kind)
{
    int fault = 0;
    sim->calls[kind]++;
    sim->calls[DISK_CALL_ANY]++;
    sim->stopped = sim->stopped || sim->stop_in == 0;
    if (sim->stopped)
        return EIO;
    sim->stop_in -= sim->stop_in != SIM_NEVER;
    sim->aborted = sim->aborted || sim->abort_in == 0;
    sim->abort_in -= sim->abort_in != SIM_NEVER && sim->abort_in > 0;
    if (is_due(sim, kind))
        fault = sim->order.fault;
    else if (by_chance(sim, kind))
        fault = sim->often[kind].fault;
    sim->faults += fault != 0;
    return fault;
}

static bool is_frozen(const struct sim *sim)
{
    return sim->read_only || sim->aborted;
}

/* Does a call that has to fail what it was asked for, all the same? With EIO nobody knows. */
static bool is_done(struct sim *sim, int fault)
{
    return !fault || (fault == EIO && !sim->stopped && rng_next(&sim->rng) % 4 == 0);
}

static bool is_name(const char *name)
{
    return name[0] && strlen(name) < DISK_NAME_MAX && !strchr(name, '/') && strcmp(name, ".") != 0 &&
           strcmp(name, "..") != 0;
}

static struct sim_node *find_dir(struct sim *sim, int number)
{
    struct sim_handle *handle = sim_handle_find(sim, number);
    return handle && handle->node->is_dir ? handle->node : NULL;
}

static struct sim_handle *find_file(struct sim *sim, int number)
{
    struct sim_handle *handle = sim_handle_find(sim, number);
    return handle && !handle->node->is_dir ? handle : NULL;
}

/* ---- directories ---- */

static int call_open_dir(struct disk *disk, const char *path, bool make, int *dir)
{
    struct sim *sim = (struct sim *)disk;
    struct sim_node *above, *node;
    const char *name;
    int fault = begin(sim, DISK_CALL_OPEN_DIR);
    if (fault)
        return fault;
    fault = sim_tree_walk(sim, path, &above, &name, &node);
    if (fault == ENOENT && make && above) {
        char plain[DISK_NAME_MAX] = "";
        memcpy(plain, name, strcspn(name, "/"));
        if (is_frozen(sim))
            return EROFS;
        node = sim_node_new(sim, true);
        sim_names_sync(&above->names); /* it is there for good, and what was in it before, too */
        sim_names_change(&above->names, "", plain, node);
        sim_names_sync(&above->names);
        fault = 0;
    }
    if (fault)
        return fault;
    return node->is_dir ? sim_handle_open(sim, node, DISK_READ, dir) : ENOTDIR;
}

static int call_open_sub(struct disk *disk, int dir, const char *name, bool make, int *sub)
{
    struct sim *sim = (struct sim *)disk;
    int fault = begin(sim, DISK_CALL_OPEN_SUB);
    struct sim_node *above = find_dir(sim, dir);
    if (fault || !above)
        return fault ? fault : EBADF;
    if (!is_name(name))
        return EINVAL;
    struct sim_node *node = sim_names_find(&above->names, name);
    if (!node && (!make || is_frozen(sim)))
        return make ? EROFS : ENOENT;
    if (!node) {
        node = sim_node_new(sim, true);
        sim_names_change(&above->names, "", name, node);
    }
    return node->is_dir ? sim_handle_open(sim, node, DISK_READ, sub) : ENOTDIR;
}

static void call_close_dir(struct disk *disk, int dir)
{
    struct sim *sim = (struct sim *)disk;
    if (find_dir(sim, dir))
        sim_handle_close(sim, sim_handle_find(sim, dir));
}

static int call_lock_dir(struct disk *disk, int dir, int64_t *pid)
{
    struct sim *sim = (struct sim *)disk;
    int fault = begin(sim, DISK_CALL_LOCK_DIR);
    struct sim_node *node = find_dir(sim, dir);
    *pid = 0;
    if (fault || !node)
        return fault ? fault : EBADF;
    if (is_frozen(sim))
        return EROFS;
    if (node->is_locked) {
        *pid = FIRST_PID + sim->life;
        return EAGAIN;
    }
    if (!sim_names_find(&node->names, "lock"))
        sim_names_change(&node->names, "", "lock", sim_node_new(sim, false));
    node->is_locked = true;
    sim_handle_find(sim, dir)->has_lock = true;
    return 0;
}

static int call_watch_dir(struct disk *disk, int dir, int64_t *pid)
{
    struct sim *sim = (struct sim *)disk;
    int fault = begin(sim, DISK_CALL_LOCK_DIR);
    struct sim_node *node = find_dir(sim, dir);
    *pid = 0;
    if (fault || !node)
        return fault ? fault : EBADF;
    *pid = node->is_locked ? FIRST_PID + sim->life : 0;
    return node->is_locked ? EAGAIN : 0;
}

/* Nobody takes directories of this disk away. */
static int call_same_dir(struct disk *disk, int dir)
{
    (void)disk, (void)dir;
    return 0;
}

/* From somewhere in the middle, since any order is as good; of a copy, since `each` may change it. */
static int call_list(struct disk *disk, int dir, int (*each)(void *arg, const char *name, uint64_t bytes),
                     void *arg)
{
    struct sim *sim = (struct sim *)disk;
    int fault = begin(sim, DISK_CALL_LIST);
    struct sim_node *node = find_dir(sim, dir);
    if (fault || !node)
        return fault ? fault : EBADF;
    size_t count = node->names.now.count, start = count ? rng_next(&sim->rng) % count : 0;
    struct sim_entry *entries = malloc((count + 1) * sizeof *entries);
    if (!entries)
        abort();
    if (count > 0)
        memcpy(entries, node->names.now.entries, count * sizeof *entries);
    for (size_t i = 0; fault == 0 && i < count; i++) {
        const struct sim_entry *entry = &entries[(start + i) % count];
        if (!entry->node->is_dir)
            fault = each(arg, entry->name, entry->node->file.now.size);
    }
    free(entries);
    return fault;
}

static int call_sync_dir(struct disk *disk, int dir)
{
    struct sim *sim = (struct sim *)disk;
    int fault = begin(sim, DISK_CALL_SYNC_DIR);
    struct sim_node *node = find_dir(sim, dir);
    if (!node)
        return fault ? fault : EBADF;
    if (fault && !sim->stopped && !sim->aborted)
        sim_names_sync_some(&node->names, &sim->rng);
    if (fault)
        return fault;
    if (sim->aborted) /* what it says is true, or not */
        return rng_next(&sim->rng) >> 63 ? 0 : EROFS;
    sim_names_sync(&node->names);
    sim_tree_sweep(sim);
    return 0;
}

/* What rename, remove and link have in common: may they, and shall they? false: *fault is the answer. */
static bool begin_change(struct sim *sim, enum disk_call kind, struct sim_node *dir, int *fault)
{
    *fault = begin(sim, kind);
    if (!dir || sim->aborted || (!*fault && sim->read_only)) {
        *fault = *fault ? *fault : dir ? EROFS : EBADF;
        return false;
    }
    return is_done(sim, *fault);
}

static int call_rename(struct disk *disk, int dir, const char *from, const char *to)
{
    struct sim *sim = (struct sim *)disk;
    struct sim_node *above = find_dir(sim, dir);
    int fault;
    if (!begin_change(sim, DISK_CALL_RENAME, above, &fault))
        return fault;
    struct sim_node *node = sim_names_find(&above->names, from), *old = sim_names_find(&above->names, to);
    if (!node || !is_name(to))
        return fault ? fault : node ? EINVAL : ENOENT;
    if (old && old->is_dir)
        return fault ? fault : EISDIR;
    if (node != old)
        sim_names_change(&above->names, from, to, node);
    return fault;
}

static int call_remove(struct disk *disk, int dir, const char *name)
{
    struct sim *sim = (struct sim *)disk;
    struct sim_node *above = find_dir(sim, dir);
    int fault;
    if (!begin_change(sim, DISK_CALL_REMOVE, above, &fault))
        return fault;
    const struct sim_node *node = sim_names_find(&above->names, name);
    if (!node || node->is_dir)
        return fault ? fault : node ? EISDIR : ENOENT;
    sim_names_change(&above->names, name, "", NULL);
    return fault;
}

static int call_link(struct disk *disk, int dir, const char *name, int to_dir, const char *to)
{
    struct sim *sim = (struct sim *)disk;
    struct sim_node *above = find_dir(sim, dir), *other = find_dir(sim, to_dir);
    int fault;
    if (!begin_change(sim, DISK_CALL_LINK, other ? above : NULL, &fault))
        return fault;
    struct sim_node *node = sim_names_find(&above->names, name);
    if (!node || node->is_dir || !is_name(to))
        return fault ? fault : !node ? ENOENT : node->is_dir ? EPERM : EINVAL;
    if (sim_names_find(&other->names, to))
        return fault ? fault : EEXIST;
    sim_names_change(&other->names, "", to, node);
    return fault;
}

static int call_room(struct disk *disk, int dir, uint64_t *bytes)
{
    struct sim *sim = (struct sim *)disk;
    int fault = begin(sim, DISK_CALL_ROOM);
    if (fault || !find_dir(sim, dir))
        return fault ? fault : EBADF;
    uint64_t used = sim->capacity == UINT64_MAX ? 0 : sim_tree_used(sim);
    *bytes = sim->capacity == UINT64_MAX ? ENDLESS : used < sim->capacity ? sim->capacity - used : 0;
    return 0;
}

/* ---- files ---- */

static int call_open(struct disk *disk, int dir, const char *name, enum disk_open how, int *file)
{
    struct sim *sim = (struct sim *)disk;
    int fault = begin(sim, DISK_CALL_OPEN);
    struct sim_node *above = find_dir(sim, dir);
    if (fault || !above)
        return fault ? fault : EBADF;
    if (!is_name(name))
        return EINVAL;
    struct sim_node *node = sim_names_find(&above->names, name);
    if (how == DISK_CREATE && node)
        return EEXIST;
    if (how != DISK_CREATE && !node)
        return ENOENT;
    if (how != DISK_READ && is_frozen(sim))
        return EROFS;
    if (node && node->is_dir)
        return ENOTSUP;
    if (!node) {
        node = sim_node_new(sim, false);
        sim_names_change(&above->names, "", name, node);
    }
    return sim_handle_open(sim, node, how, file);
}

/* A close that fails has closed it all the same. */
static int call_close(struct disk *disk, int file)
{
    struct sim *sim = (struct sim *)disk;
    struct sim_handle *handle = find_file(sim, file);
    int fault = begin(sim, DISK_CALL_CLOSE);
    if (!handle)
        return fault ? fault : EBADF;
    sim_handle_close(sim, handle);
    return fault;
}

static int call_size(struct disk *disk, int file, uint64_t *bytes)
{
    struct sim *sim = (struct sim *)disk;
    int fault = begin(sim, DISK_CALL_SIZE);
    const struct sim_handle *handle = find_file(sim, file);
    if (fault || !handle)
        return fault ? fault : EBADF;
    *bytes = handle->node->file.now.size;
    return 0;
}

static int call_read(struct disk *disk, int file, void *bytes, uint64_t count, uint64_t offset,
                     uint64_t *done)
{
    struct sim *sim = (struct sim *)disk;
    int fault = begin(sim, DISK_CALL_READ);
    const struct sim_handle *handle = find_file(sim, file);
    *done = 0;
    if (fault || !handle)
        return fault ? fault : EBADF;
    const struct sim_bytes *now = &handle->node->file.now;
    if (offset >= now->size || count == 0)
        return 0;
    *done = count < now->size - offset ? count : now->size - offset;
    memcpy(bytes, now->at + offset, *done);
    return 0;
}

/* May a file of `size` bytes become one of `wanted`? Gives the size that it may have. */
static uint64_t size_that_fits(const struct sim *sim, uint64_t size, uint64_t wanted)
{
    if (sim->capacity == UINT64_MAX || wanted <= size)
        return wanted;
    uint64_t used = sim_tree_used(sim), own = (size + SIM_SECTOR - 1) / SIM_SECTOR * SIM_SECTOR;
    uint64_t most = used < sim->capacity ? own + (sim->capacity - used) / SIM_SECTOR * SIM_SECTOR : own;
    return wanted < most ? wanted : most;
}

/* Any first part of a write that fails, often of whole sectors. */
static uint64_t some_of(struct sim *sim, uint64_t count, uint64_t offset)
{
    uint64_t part = (uint64_t)rng_between(&sim->rng, 0, (int64_t)count);
    uint64_t beyond = (offset + part) % SIM_SECTOR;
    return rng_next(&sim->rng) >> 63 && beyond <= part ? part - beyond : part;
}

static int call_write(struct disk *disk, int file, const void *bytes, uint64_t count, uint64_t offset)
{
    struct sim *sim = (struct sim *)disk;
    int fault = begin(sim, DISK_CALL_WRITE);
    struct sim_handle *handle = find_file(sim, file);
    if (!handle || handle->how == DISK_READ)
        return fault ? fault : EBADF;
    if (sim->stopped)
        return fault;
    if (sim->read_only || (sim->aborted && rng_next(&sim->rng) >> 63))
        return fault ? fault : EROFS;
    if (count > FILE_MAX || offset > FILE_MAX - count)
        return EFBIG;
    struct sim_file *content = &handle->node->file;
    uint64_t fits = size_that_fits(sim, content->now.size, offset + count);
    uint64_t whole = fits >= offset + count ? count : fits > offset ? fits - offset : 0;
    sim_file_write(content, bytes, fault ? some_of(sim, whole, offset) : whole, offset);
    return fault ? fault : whole < count ? ENOSPC : 0;
}

static int call_truncate(struct disk *disk, int file, uint64_t bytes)
{
    struct sim *sim = (struct sim *)disk;
    struct sim_handle *handle = find_file(sim, file);
    int fault;
    bool open = handle && handle->how != DISK_READ;
    if (!begin_change(sim, DISK_CALL_TRUNCATE, open ? handle->node : NULL, &fault))
        return fault;
    if (bytes > FILE_MAX)
        return fault ? fault : EFBIG;
    struct sim_file *content = &handle->node->file;
    if (size_that_fits(sim, content->now.size, bytes) < bytes)
        return fault ? fault : ENOSPC;
    sim_file_resize(content, bytes);
    return fault;
}

static int call_sync(struct disk *disk, int file)
{
    struct sim *sim = (struct sim *)disk;
    int fault = begin(sim, DISK_CALL_SYNC);
    struct sim_handle *handle = find_file(sim, file);
    if (!handle)
        return fault ? fault : EBADF;
    if (!fault && sim->aborted) {
        sim_file_sync_in_place(&handle->node->file);
        bool grown = handle->node->file.smallest != handle->node->file.largest;
        return grown && rng_next(&sim->rng) >> 63 ? EIO : 0;
    }
    if (fault && !sim->stopped) {
        bool seen = rng_next(&sim->rng) >> 63 != 0;
        sim_file_lose(&handle->node->file, &sim->rng, seen);
    }
    if (!fault)
        sim_file_sync(&handle->node->file);
    return fault;
}

static int call_witness(struct disk *disk, int place)
{
    struct sim *sim = (struct sim *)disk;
    int fault = begin(sim, DISK_CALL_WITNESS);
    const struct sim_handle *handle = sim_handle_find(sim, place);
    if (!handle || (handle->node->is_dir ? !handle->has_lock : handle->how == DISK_READ))
        return fault ? fault : EBADF;
    return fault ? fault : is_frozen(sim) ? EROFS : 0;
}

static void call_flush(struct disk *disk, int file, uint64_t offset, uint64_t bytes)
{
    (void)disk, (void)file, (void)offset, (void)bytes;
}

const struct disk sim_disk_calls = {.open_dir = call_open_dir,
                                    .open_sub = call_open_sub,
                                    .close_dir = call_close_dir,
                                    .lock_dir = call_lock_dir,
                                    .watch_dir = call_watch_dir,
                                    .same_dir = call_same_dir,
                                    .list = call_list,
                                    .sync_dir = call_sync_dir,
                                    .rename = call_rename,
                                    .remove = call_remove,
                                    .link = call_link,
                                    .room = call_room,
                                    .open = call_open,
                                    .close = call_close,
                                    .size = call_size,
                                    .read = call_read,
                                    .write = call_write,
                                    .truncate = call_truncate,
                                    .sync = call_sync,
                                    .witness = call_witness,
                                    .flush = call_flush};
