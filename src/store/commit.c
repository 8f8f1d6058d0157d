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

static struct buffer *take_frame_buffer(struct store *store)
{
    struct frame_buffers *pool = &store->pool;
    lock_take(&pool->lock);
    struct buffer *buffer = pool->count > 0 ? pool->free[--pool->count] : NULL;
    lock_drop(&pool->lock);
    return buffer ? buffer : calloc(1, sizeof *buffer);
}

static void return_frame_buffer(struct store *store, struct buffer *buffer)
{
    struct frame_buffers *pool = &store->pool;
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

static void empty_frame(struct buffer *frame)
{
    frame->start = frame->end = 0;
    weir_log_frame(frame);
}

/* ---- records ---- */

/* One frame in the making: entries from `first` on, captured when the log had been rotated so many times. */
struct commit_batch {
    struct buffer *frame;
    uint32_t first;
    uint64_t rotations;
    int64_t records;
};

static void begin_frame(const struct store *store, struct commit_batch *batch, uint32_t first)
{
    batch->first = first;
    batch->rotations = atomic_load_explicit(&store->log.rotations, memory_order_acquire);
    batch->records = 0;
    empty_frame(batch->frame);
}

enum append_result { APPENDED, APPEND_FAILED, APPEND_STALE };

/* STALE: an image may have been begun since, which left an entry out because it was as if never used by then;
 * behind it an older state of that entry must not follow. So it has to be captured again. */
static enum append_result append_frame(struct store *store, const struct commit_batch *batch)
{
    bool good = false;
    (void)pthread_mutex_lock(&store->log.lock);
    bool stale = atomic_load_explicit(&store->log.rotations, memory_order_relaxed) != batch->rotations;
    if (batch->frame->failed)
        weir_health_fault_locked(store, "records for the log", ENOMEM);
    else if (!stale)
        good = weir_log_append(store, FRAME_RECORDS, batch->frame, batch->records);
    (void)pthread_mutex_unlock(&store->log.lock);
    return good ? APPENDED : stale && !batch->frame->failed ? APPEND_STALE : APPEND_FAILED;
}

static void capture_item(const struct store *store, const struct dirty_item *item, struct commit_batch *batch)
{
    if (item->persist->store != store)
        return;
    size_t before = buffer_len(batch->frame);
    item->persist->kind->capture(item->persist, item->slot, item->hash, batch->frame);
    batch->records += buffer_len(batch->frame) > before;
}

/* Entries of this store, from the first one on; the others stay. */
static void append_items(struct store *store, struct dirty *dirty, struct buffer *frame)
{
    struct commit_batch batch = {.frame = frame};
    begin_frame(store, &batch, 0);
    for (uint32_t i = 0; i < dirty->count;) {
        capture_item(store, &dirty->items[i++], &batch);
        bool last = i == dirty->count, full = log_frame_payload(frame) >= FRAME_CUT || frame->failed;
        if (!full && !(last && batch.records > 0))
            continue;
        enum append_result appended = append_frame(store, &batch);
        ASSERT(appended != APPEND_FAILED || !store->options.manual || atomic_load(&store->health.ill));
        if (appended == APPEND_FAILED)
            return;
        i = appended == APPEND_STALE ? batch.first : i;
        begin_frame(store, &batch, i);
    }
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
    struct buffer *frame = take_frame_buffer(store);
    if (!frame) {
        weir_health_fault(store, "records for the log", ENOMEM);
        return;
    }
    append_items(store, dirty, frame);
    return_frame_buffer(store, frame);
}

static void release_items(const struct dirty *dirty)
{
    for (uint32_t i = 0; i < dirty->count; i++) {
        const struct dirty_item *item = &dirty->items[i];
        if (item->persist->kind->released)
            item->persist->kind->released(item->persist, item->slot, item->hash);
    }
}

/* All of the list: there may be entries of several stores in it. */
void weir_commit_flush(struct dirty *dirty)
{
    for (uint32_t i = 0; i < dirty->count; i++) {
        struct store *store = dirty->items[i].persist->store;
        uint32_t first = 0;
        while (dirty->items[first].persist->store != store)
            first++;
        if (first == i)
            flush_store(store, dirty);
    }
    release_items(dirty);
    weir_dirty_clear(dirty);
}

void weir_commit_overfull(struct store *store)
{
    (void)store;
    if (weir_dirty)
        weir_commit_flush(weir_dirty);
}

/* Something is in no list. */
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
    if (weir_dirty && weir_dirty->count > 0)
        weir_commit_flush(weir_dirty);
    look_for_misses(store); /* behind it: a capture may find that others have given up what it was to have */
    ASSERT(!store->options.manual ||
           atomic_load(&store->health.misses_seen) == atomic_load(&weir_dirty_misses));
    uint64_t ticket = atomic_load_explicit(&store->log.appended, memory_order_acquire);
    if (__builtin_expect(!atomic_load_explicit(&store->health.ill, memory_order_acquire), 1))
        return ticket;
    (void)pthread_mutex_lock(&store->log.lock);
    ticket = log_ticket_ill(store) - !store->log.broken;
    INVARIANT(41, ticket > atomic_load(&store->log.appended) || store->log.broken == false);
    (void)pthread_mutex_unlock(&store->log.lock);
    return ticket;
}

bool weir_store_catalogue(struct store *store, const void *catalogue, size_t len)
{
    struct buffer frame = {0};
    void *copy = len <= FRAME_BYTES_MAX ? malloc(len ? len : 1) : NULL;
    weir_log_frame(&frame);
    buffer_put(&frame, catalogue, len);
    if (!copy || frame.failed) {
        free(copy);
        weir_buffer_free(&frame);
        return false;
    }
    if (len > 0)
        memcpy(copy, catalogue, len);
    (void)pthread_mutex_lock(&store->log.lock);
    bool good = !atomic_load_explicit(&store->health.ill, memory_order_relaxed) &&
                weir_log_append(store, FRAME_CATALOGUE, &frame, 0);
    void *old = good ? store->log.catalogue : copy;
    if (good) {
        store->log.catalogue = copy;
        store->log.catalogue_len = len;
    }
    INVARIANT(46, !good ||
                      (store->log.catalogue_len == len && memcmp(store->log.catalogue, catalogue, len) == 0));
    (void)pthread_mutex_unlock(&store->log.lock);
    free(old);
    weir_buffer_free(&frame);
    return good;
}

/* ---- may it be answered? ---- */

static bool is_gate_open(struct store *store)
{
    int64_t oldest = atomic_load_explicit(&store->sync.oldest_ns, memory_order_relaxed);
    int64_t age = oldest == 0 ? 0 : sat_sub(weir_now(), oldest);
    bool open = age < SYNC_GATE_NS;
    ASSERT(!open || age < WEIR_SEC); /* the law of store.h */
    return open;
}

static enum store_ticket_status let_go(struct store *store, uint64_t ticket)
{
#if WEIR_ASSERTIONS
    bool synced = weir_check_is_synced(store, ticket);
    INVARIANT(41, synced || store->options.sync != STORE_ALWAYS);
    INVARIANT(41, synced || !store->options.manual || !atomic_load(&store->health.ill));
#else
    (void)store, (void)ticket;
#endif
    return STORE_GO;
}

enum store_ticket_status weir_store_ticket_status(struct store *store, uint64_t ticket)
{
    if (ticket <= atomic_load_explicit(&store->sync.synced, memory_order_acquire))
        return let_go(store, ticket);
    if (atomic_load_explicit(&store->health.ill, memory_order_acquire))
        return STORE_SICK;
    if (store->options.sync == STORE_NEVER || (store->options.sync == STORE_EVERYSEC && is_gate_open(store)))
        return let_go(store, ticket);
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
