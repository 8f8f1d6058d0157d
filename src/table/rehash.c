/* SPDX-License-Identifier: MIT */
#include "table/rehash.h"

#include <errno.h>

#include "base/error.h"
#include "table/change.h"
#include "table/override.h"
#include "table/slots.h"
#include "table/wide.h"
#include "table/wide_slots.h"

/* ---- growing ---- */

/* Under the change lock. */
static bool add_larger_segment(struct weir_table *table, size_t keys, struct weir_error *err)
{
    struct region_header *header = table->region->header;
    if (keys < atom_load(&header->capacity, memory_order_relaxed)) {
        weir_error_set(err, EINVAL, "the table has room for more keys than that");
        return false;
    }
    if (!weir_region_grow(table->region, weir_table_lines_for(table, keys), err))
        return false;
    weir_region_close(table->region);
    atom_store(&header->capacity, keys, memory_order_relaxed);
    return true;
}

bool weir_table_enlarge(struct weir_table *table, size_t keys, struct weir_error *err)
{
    if (table->region->file >= 0 || table->owner) {
        weir_error_set(err, ENOTSUP, "keys of a table in a file do not move");
        return false;
    }
    weir_change_lock(table->region);
    bool done = add_larger_segment(table, keys, err);
    weir_change_unlock(table->region);
    return done;
}

/* ---- moving ---- */

struct rehash {
    struct weir_table *table;
    const struct edition *edition;
    struct segment *segment; /* the first */
    int64_t now;
    struct stripe *stripe; /* that is held; or NULL */
    uint64_t index;        /* which that is */
};

static void rehash_unlock(struct rehash *rehash)
{
    if (rehash->stripe)
        weir_stripe_unlock(rehash->stripe);
    rehash->stripe = NULL;
}

/* Neighbours have neighbouring hashes, so most of the time it is the stripe that is held already. */
static void rehash_lock(struct rehash *rehash, uint64_t index)
{
    if (rehash->stripe && rehash->index == index)
        return;
    rehash_unlock(rehash);
    rehash->stripe = weir_stripe_lock(rehash->table->region, index);
    rehash->index = index;
}

static bool rehash_line(struct rehash *rehash, uint64_t line)
{
    struct slot *slot = region_slot(rehash->segment, line * LINE_SLOTS);
    for (int i = 0; i < LINE_SLOTS; i++, slot++) {
        bool left = true;
        while (left) {
            uint64_t hash = slot_hash(slot);
            if (hash == 0)
                break;
            rehash_lock(rehash, table_stripe(rehash->table, hash));
            left = false;
            if (!weir_slots_rehash(rehash->table, rehash->edition, slot, rehash->index, rehash->now, &left))
                return false;
        }
    }
    return true;
}

static bool rehash_wide_line(struct rehash *rehash, uint64_t line)
{
    struct weir_table *table = rehash->table;
    struct region *region = table->region;
    uint64_t first = region_first(region), run = rehash->segment->lines / region->shape.stripes;
    struct locked_stripe locked;
    if (!weir_wide_enter(&locked, table, line / run))
        return false;
    struct wide_ref place = wide_place(&locked, first, line % run);
    bool moved = place.at >= wide_places(&locked, first) || weir_wide_rehash(&locked, &place, rehash->now);
    weir_wide_leave(&locked);
    return moved;
}

#if WEIR_ASSERTIONS
/* A segment that is about to be retired: no key is in it, nor in what becomes of it. Those who come too late
 * may be about to see that. */
static void check_moved(const struct segment *segment, bool wide)
{
    for (uint64_t i = 0; !wide && i < segment->lines * LINE_SLOTS; i++) {
        const struct slot *slot = region_slot(segment, i);
        uint64_t word = slot_word(slot);
        INVARIANT(16, slot_hash(slot) == 0 || slot_kind(word) == SLOT_TENTATIVE || word == 0);
    }
}
#endif

/* Under the change lock. */
static enum rehash_status rehash_lines(struct weir_table *table, int64_t now, uint64_t lines)
{
    struct region *region = table->region;
    uint64_t first = region_first(region);
    bool wide = table->kind == &weir_table_wide;
    struct rehash rehash = {
        .table = table, .edition = table_edition(table), .segment = &region->segments[first], .now = now};
    if (first == region_open(region))
        return REHASH_DONE;
    bool moved = rehash.edition != NULL;
    for (; moved && lines > 0 && table->moving < rehash.segment->lines; lines--) {
        moved = wide ? rehash_wide_line(&rehash, table->moving) : rehash_line(&rehash, table->moving);
        table->moving += moved;
    }
    rehash_unlock(&rehash);
    if (!moved)
        return REHASH_STUCK;
    if (table->moving < rehash.segment->lines)
        return REHASH_MORE;
    table->moving = 0;
#if WEIR_ASSERTIONS
    check_moved(rehash.segment, wide);
#endif
    weir_region_retire(region, !wide || first > 0); /* of a wide table more than keys is in the first one */
    return first + 1 < region_open(region) ? REHASH_MORE : REHASH_DONE;
}

enum rehash_status weir_table_rehash(struct weir_table *table, int64_t now_ns, uint64_t lines)
{
    weir_change_lock(table->region);
    if (table->kind != &weir_table_own)
        weir_override_settle(table);
    enum rehash_status moving = rehash_lines(table, region_time(table->region, now_ns), lines);
    weir_change_unlock(table->region);
    return moving;
}
