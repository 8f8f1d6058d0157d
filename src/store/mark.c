/* SPDX-License-Identifier: MIT */
#include "store/mark.h"

#include <errno.h>
#include <string.h>

#include "base/crc.h"
#include "os/clock.h"
#include "store/health.h"
#include "store/sync.h"

#define MARK_NEW "mark.tmp"

_Static_assert(sizeof(struct mark_slot) == 64, "no gaps: they would be written");

static uint32_t mark_checksum(const struct mark_slot *slot)
{
    return weir_crc32c(0, (const unsigned char *)slot + sizeof slot->crc, sizeof *slot - sizeof slot->crc);
}

/* ---- reading ---- */

static bool is_mark_good(const struct mark_slot *slot)
{
    return slot->magic == MARK_MAGIC && slot->version == MARK_VERSION && slot->clean <= 1 &&
           slot->crc == mark_checksum(slot);
}

int weir_mark_read(struct disk *disk, int dir, struct mark *mark)
{
    int file;
    uint64_t best = 0;
    *mark = (struct mark){0};
    int error = disk->open(disk, dir, MARK_NAME, DISK_READ, &file);
    if (error)
        return error == ENOENT ? 0 : error;
    for (uint64_t i = 0; i < 2 && !error; i++) {
        struct mark_slot slot = {0};
        uint64_t done = 0;
        error = disk->read(disk, file, &slot, sizeof slot, i * MARK_STRIDE, &done);
        if (error || done != sizeof slot || !is_mark_good(&slot) || (mark->found && slot.counter <= best))
            continue;
        best = slot.counter;
        *mark = (struct mark){.found = true, .clean = slot.clean == 1, .synced = slot.synced};
        memcpy(mark->store, slot.store, sizeof mark->store);
    }
    (void)disk->close(disk, file);
    mark->damaged = !mark->found;
    return error;
}

/* ---- writing ---- */

static int write_mark_slot(struct disk *disk, int file, struct mark_slot slot, const unsigned char *store)
{
    slot.magic = MARK_MAGIC;
    slot.version = MARK_VERSION;
    memcpy(slot.store, store, sizeof slot.store);
    slot.crc = mark_checksum(&slot);
    int error = disk->write(disk, file, &slot, sizeof slot, slot.counter % 2 * MARK_STRIDE);
    return error ? error : disk->sync(disk, file);
}

static int write_next_mark(struct store *store, int file, bool clean, uint64_t synced)
{
    struct mark_slot slot = {.clean = clean, .counter = ++store->sync.mark_counter, .synced = synced};
    ASSERT(!clean || store->stopping);
    ASSERT(synced <= atomic_load(&store->sync.synced));
    return write_mark_slot(store->disk, file, slot, store->id);
}

int weir_mark_put(struct disk *disk, int dir, const unsigned char store[16], uint64_t synced)
{
    int file, error = disk->open(disk, dir, MARK_NAME, DISK_CREATE, &file);
    if (error)
        return error;
    error =
        write_mark_slot(disk, file, (struct mark_slot){.clean = 1, .counter = 2, .synced = synced}, store);
    (void)disk->close(disk, file);
    return error;
}

static void count_written_mark(struct store *store, uint64_t synced)
{
    (void)pthread_mutex_lock(&store->log.lock);
    store->sync.mark_synced = synced;
    (void)pthread_mutex_unlock(&store->log.lock);
    store->sync.mark_ns = weir_now();
}

int weir_mark_write(struct store *store, bool clean)
{
    uint64_t synced = atomic_load_explicit(&store->sync.synced, memory_order_relaxed);
    int error =
        store->sync.mark_file < 0 ? EBADF : write_next_mark(store, store->sync.mark_file, clean, synced);
    if (!error)
        count_written_mark(store, synced);
    return error;
}

void weir_mark_step(struct store *store)
{
    (void)pthread_mutex_lock(&store->log.lock);
    bool due = store->sync.mark_file >= 0 && !store->log.broken &&
               store->sync.mark_synced != atomic_load_explicit(&store->sync.synced, memory_order_relaxed);
    (void)pthread_mutex_unlock(&store->log.lock);
    int64_t age = sat_sub(weir_now(), store->sync.mark_ns);
    if (!due || (age >= 0 && age < MARK_NS))
        return;
    int error = weir_mark_write(store, false);
    if (error)
        weir_health_fault(store, "writing the mark", error);
}

int weir_mark_make(struct store *store)
{
    struct disk *disk = store->disk;
    uint64_t synced = atomic_load_explicit(&store->sync.synced, memory_order_relaxed);
    int file;
    weir_mark_close(store);
    (void)disk->remove(disk, store->dir, MARK_NEW);
    int error = disk->open(disk, store->dir, MARK_NEW, DISK_CREATE, &file);
    if (error)
        return error;
    /* The second slot first, empty: so it has the size that it keeps, and is written in place from now on. */
    error = disk->write(disk, file, &(struct mark_slot){0}, sizeof(struct mark_slot), MARK_STRIDE);
    if (!error)
        error = write_next_mark(store, file, false, synced);
    if (!error)
        error = disk->rename(disk, store->dir, MARK_NEW, MARK_NAME);
    if (!error)
        error = disk->sync_dir(disk, store->dir);
    if (!error)
        error = disk->witness(disk, store->dir);
    if (error) {
        (void)disk->close(disk, file);
        return error;
    }
    CHECK_DURABLE(store, MARK_NAME);
    store->sync.mark_file = file;
    count_written_mark(store, synced);
    return 0;
}

void weir_mark_close(struct store *store)
{
    if (store->sync.mark_file >= 0)
        (void)store->disk->close(store->disk, store->sync.mark_file);
    store->sync.mark_file = -1;
}
