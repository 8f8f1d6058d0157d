/* SPDX-License-Identifier: MIT */
/*
 * What a thread has changed and not appended yet. The index finds an entry that is listed: places are tried
 * from the hash of its address on, and one of another turn is empty, so that to clear the list is to begin
 * the next turn.
 */
#define _POSIX_C_SOURCE 200809L
#include "region/persist.h"

#include <pthread.h>
#include <stdlib.h>

#define INDEX_SIZE (2 * DIRTY_MOST)
#define INDEX_BITS 13

_Static_assert(INDEX_SIZE == 1 << INDEX_BITS, "a hash of so many bits is a place of the index");
_Static_assert(DIRTY_MOST + DIRTY_SPARE < INDEX_SIZE, "a search ends at an empty place");

_Atomic uint64_t weir_dirty_misses;
_Thread_local struct dirty *weir_dirty;
_Thread_local uint32_t weir_dirty_holds;

static _Atomic(void (*)(struct dirty *dirty)) flush_at_end;
static pthread_key_t ending;
static bool has_ending;

/* ---- threads come and go ---- */

static void flush_dirty_at_exit(void *arg)
{
    struct dirty *dirty = arg;
    void (*flush)(struct dirty *) = atomic_load_explicit(&flush_at_end, memory_order_acquire);
    if (dirty->count > 0 && flush)
        flush(dirty);
    weir_dirty = NULL;
    free(dirty);
}

/* What is listed are entries of the parent, whose thread appends them. */
static void clear_dirty_in_child(void)
{
    if (weir_dirty)
        weir_dirty_clear(weir_dirty);
}

static void begin_dirty(void)
{
    has_ending = pthread_key_create(&ending, flush_dirty_at_exit) == 0;
    (void)pthread_atfork(NULL, NULL, clear_dirty_in_child);
}

static struct dirty *dirty_of_thread(void)
{
    static pthread_once_t begun = PTHREAD_ONCE_INIT;
    if (weir_dirty)
        return weir_dirty;
    (void)pthread_once(&begun, begin_dirty);
    struct dirty *dirty = calloc(1, sizeof *dirty);
    if (!dirty || !has_ending || pthread_setspecific(ending, dirty) != 0) {
        free(dirty);
        return NULL;
    }
    dirty->turn = 1;
    weir_dirty = dirty;
    return dirty;
}

void weir_dirty_at_end(void (*flush)(struct dirty *dirty))
{
    atomic_store_explicit(&flush_at_end, flush, memory_order_release);
}

/* ---- the list ---- */

void weir_dirty_clear(struct dirty *dirty)
{
    dirty->count = 0;
    if (++dirty->turn != 0)
        return;
    memset(dirty->index, 0, sizeof dirty->index);
    dirty->turn = 1;
}

/* A list may have entries of several stores; each takes its own out, or all. */
void weir_dirty_relieve(void)
{
    struct dirty *dirty = weir_dirty;
    uint32_t before;
    do {
        before = dirty->count;
        struct persist *persist = dirty->items[0].persist;
        persist->overfull(persist->store);
    } while (dirty->count > 0 && dirty->count < before);
}

void weir_dirty_miss(void)
{
    atomic_fetch_add_explicit(&weir_dirty_misses, 1, memory_order_release);
}

static bool is_dirty_item(const struct dirty_item *item, const void *slot, uint64_t hash)
{
    return item->slot == slot && item->hash == hash;
}

/* The place of the entry in the index, or the empty one where it would be. */
static uint32_t dirty_index_of(const struct dirty *dirty, const void *slot, uint64_t hash)
{
    uint64_t mixed = (uint64_t)(uintptr_t)slot * UINT64_C(0x9E3779B97F4A7C15);
    uint32_t at = (uint32_t)(mixed >> (64 - INDEX_BITS));
    while (dirty->index[at].turn == dirty->turn &&
           !is_dirty_item(&dirty->items[dirty->index[at].item], slot, hash))
        at = (at + 1) % INDEX_SIZE;
    return at;
}

static void put_dirty_item(struct dirty *dirty, uint32_t at, struct dirty_item item)
{
    dirty->index[at].turn = dirty->turn;
    dirty->index[at].item = dirty->count;
    dirty->items[dirty->count++] = item;
}

static void list_dirty_item(struct dirty *dirty, struct persist *persist, void *slot, uint64_t hash)
{
    uint32_t at = dirty_index_of(dirty, slot, hash);
    if (dirty->index[at].turn == dirty->turn)
        return;
    if (dirty->count >= DIRTY_MOST && weir_dirty_holds == 0) {
        weir_dirty_relieve();
        at = dirty_index_of(dirty, slot, hash);
    }
    if (dirty->count == DIRTY_MOST + DIRTY_SPARE || (dirty->count >= DIRTY_MOST && weir_dirty_holds == 0)) {
        weir_dirty_miss();
        return;
    }
    put_dirty_item(dirty, at, (struct dirty_item){persist, slot, hash});
}

void weir_dirty_forget(const struct store *store)
{
    struct dirty *dirty = weir_dirty;
    uint32_t count = dirty ? dirty->count : 0;
    if (count > 0)
        weir_dirty_clear(dirty);
    for (uint32_t i = 0; i < count; i++) { /* items are not behind where they were */
        struct dirty_item item = dirty->items[i];
        if (item.persist->store != store)
            put_dirty_item(dirty, dirty_index_of(dirty, item.slot, item.hash), item);
    }
}

/* Nearly always it is the entry that was listed last. */
void weir_dirty_note(struct persist *persist, void *slot, uint64_t hash)
{
    struct dirty *dirty = dirty_of_thread();
    if (!dirty) {
        weir_dirty_miss();
        return;
    }
    dirty->touched++;
    if (dirty->count == 0 || !is_dirty_item(&dirty->items[dirty->count - 1], slot, hash))
        list_dirty_item(dirty, persist, slot, hash);
}
