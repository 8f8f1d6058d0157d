/* SPDX-License-Identifier: MIT */
/*
 * From what a thread has listed to frames of the log. Entries are captured, without a lock of the store's, in
 * the order in which they were listed; then the frame is appended. Whatever cannot be captured or appended
 * makes the store ill before the ticket is drawn: so the ticket is not good before an image has it.
 */
#include "store/commit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "os/clock.h"
#include "store/health.h"
#include "store/log.h"
#include "store/sync.h"

#define FRAME_CUT   (UINT64_C(1) << 20)   /* a frame of records ends when it has so many bytes */
#define BUFFER_KEEP (UINT64_C(256) << 10) /* larger ones are not kept */

/* ---- buffers ---- */

static struct buffer *buffer_take(struct store *store)
{
    struct pool *pool = &store->pool;
    lock_take(&pool->lock);
    struct buffer *buffer = pool->count > 0 ? pool->free[--pool->count] : NULL;
    lock_drop(&pool->lock);
    return buffer ? buffer : calloc(1, sizeof *buffer);
}

static void buffer_return(struct store *store, struct buffer *buffer)
{
    struct pool *pool = &store->pool;
    if (buffer->failed || buffer->size > BUFFER_KEEP)
        weir_buffer_free(buffer);
    lock_take(&pool->lock);
    bool kept = pool->count < POOL_MOST;
    if (kept)
        pool->free[pool->count++] = buffer;
    lock_drop(&pool->lock);
    if (kept)
        return;
    weir_buffer_free(buffer);
    free(buffer);
}

void weir_commit_free(struct store *store)
{
    while (store->pool.count > 0) {
        struct buffer *buffer = store->pool.free[--store->pool.count];
        weir_buffer_free(buffer);
        free(buffer);
    }
}

static void empty(struct buffer *frame)
{
    frame->start = frame->end = 0;
    weir_log_frame(frame);
}

/* ---- records ---- */

static bool append(struct store *store, struct buffer *frame, int64_t records)
{
    bool good = false;
    (void)pthread_mutex_lock(&store->log.lock);
    if (frame->failed)
        weir_health_fault_locked(store, "records for the log", ENOMEM);
    else
        good = weir_log_append(store, FRAME_RECORDS, frame, records);
    (void)pthread_mutex_unlock(&store->log.lock);
    return good;
}

/* Entries of this store, from the first one on; the others stay. */
static void append_items(struct store *store, struct dirty *dirty, struct buffer *frame)
{
    int64_t records = 0;
    bool good = true;
    empty(frame);
    for (uint32_t i = 0; i < dirty->count && good; i++) {
        struct dirty_item *item = &dirty->items[i];
        if (item->keep->store != store)
            continue;
        size_t before = buffer_len(frame);
        item->keep->kind->capture(item->keep, item->slot, item->who, frame);
        records += buffer_len(frame) > before;
        if (log_frame_payload(frame) < FRAME_CUT && !frame->failed)
            continue;
        good = append(store, frame, records);
        records = 0;
        empty(frame);
    }
    if (good && (records > 0 || frame->failed))
        (void)append(store, frame, records);
}

static bool is_broken(struct store *store)
{
    if (!atomic_load_explicit(&store->health.ill, memory_order_acquire))
        return false;
    (void)pthread_mutex_lock(&store->log.lock);
    bool broken = store->log.broken;
    (void)pthread_mutex_unlock(&store->log.lock);
    return broken;
}

static void flush_store(struct store *store, struct dirty *dirty)
{
    if (is_broken(store))
        return; /* the image will have it */
    struct buffer *frame = buffer_take(store);
    if (!frame) {
        weir_health_fault(store, "records for the log", ENOMEM);
        return;
    }
    append_items(store, dirty, frame);
    buffer_return(store, frame);
}

/* All of the list: there may be entries of several stores in it. */
static void flush(struct dirty *dirty)
{
    for (uint32_t i = 0; i < dirty->count; i++) {
        struct store *store = dirty->items[i].keep->store;
        uint32_t first = 0;
        while (dirty->items[first].keep->store != store)
            first++;
        if (first == i)
            flush_store(store, dirty);
    }
    weir_dirty_clear(dirty);
}

void weir_commit_at_end(struct dirty *dirty)
{
    flush(dirty);
}

void weir_commit_overfull(struct store *store)
{
    (void)store;
    if (weir_dirty)
        flush(weir_dirty);
}

/* Something is in no list: `missed` of a keep. */
static void look_for_misses(struct store *store)
{
    uint64_t misses = atomic_load_explicit(&weir_dirty_misses, memory_order_acquire);
    if (__builtin_expect(misses == atomic_load_explicit(&store->health.misses_seen, memory_order_acquire), 1))
        return;
    weir_health_fault(store, "listing what has changed", ENOMEM);
    atomic_store_explicit(&store->health.misses_seen, misses, memory_order_release);
}

uint64_t weir_store_commit(struct store *store)
{
    look_for_misses(store);
    if (weir_dirty && weir_dirty->count > 0)
        flush(weir_dirty);
    uint64_t ticket = atomic_load_explicit(&store->log.appended, memory_order_acquire);
    if (__builtin_expect(!atomic_load_explicit(&store->health.ill, memory_order_acquire), 1))
        return ticket;
    (void)pthread_mutex_lock(&store->log.lock);
    ticket = log_ticket_ill(store) - !store->log.broken;
    (void)pthread_mutex_unlock(&store->log.lock);
    return ticket;
}

bool weir_store_note(struct store *store, const void *meta, size_t len)
{
    struct buffer frame = {0};
    void *copy = len <= FRAME_BYTES_MAX ? malloc(len ? len : 1) : NULL;
    weir_log_frame(&frame);
    buffer_put(&frame, meta, len);
    if (!copy || frame.failed) {
        free(copy);
        weir_buffer_free(&frame);
        return false;
    }
    if (len > 0)
        memcpy(copy, meta, len);
    (void)pthread_mutex_lock(&store->log.lock);
    bool good = !atomic_load_explicit(&store->health.ill, memory_order_relaxed) &&
                weir_log_append(store, FRAME_META, &frame, 0);
    void *old = good ? store->log.meta : copy;
    if (good) {
        store->log.meta = copy;
        store->log.meta_len = len;
    }
    (void)pthread_mutex_unlock(&store->log.lock);
    free(old);
    weir_buffer_free(&frame);
    return good;
}

/* ---- may it be answered? ---- */

static bool is_gate_open(struct store *store)
{
    int64_t oldest = atomic_load_explicit(&store->sync.oldest_ns, memory_order_relaxed);
    return oldest == 0 || sat_sub(weir_now(), oldest) < SYNC_GATE_NS;
}

enum store_may weir_store_may(struct store *store, uint64_t ticket)
{
    if (ticket <= atomic_load_explicit(&store->sync.synced, memory_order_acquire))
        return STORE_GO;
    if (atomic_load_explicit(&store->health.ill, memory_order_acquire))
        return STORE_SICK;
    if (store->options.sync == STORE_NEVER || (store->options.sync == STORE_EVERYSEC && is_gate_open(store)))
        return STORE_GO;
    if (store->options.sync == STORE_EVERYSEC) { /* the syncer may still sleep, if a clock was set */
        (void)pthread_mutex_lock(&store->log.lock);
        weir_sync_poke(store);
        (void)pthread_mutex_unlock(&store->log.lock);
    }
    return STORE_WAIT;
}

bool weir_store_is_well(const struct store *store)
{
    return !atomic_load_explicit(&store->health.ill, memory_order_relaxed);
}
