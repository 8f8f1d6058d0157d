/* SPDX-License-Identifier: MIT */
#include "table/move.h"

#include <errno.h>

#include "base/error.h"
#include "table/make.h"
#include "table/override.h"
#include "table/slots.h"
#include "table/wide.h"

/* ---- growing ---- */

/* Under the change lock. */
static bool enlarge(struct weir_table *table, size_t keys, struct weir_error *err)
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
    bool done = enlarge(table, keys, err);
    weir_change_unlock(table->region);
    return done;
}

/* ---- moving ---- */

struct mover {
    struct weir_table *table;
    const struct edition *edition;
    struct segment *segment; /* the first */
    int64_t now;
    struct stripe *stripe; /* that is held; or NULL */
    uint64_t index;        /* which that is */
};

static void let_go(struct mover *mover)
{
    if (mover->stripe)
        weir_stripe_unlock(mover->stripe);
    mover->stripe = NULL;
}

/* Neighbours have neighbouring hashes, so most of the time it is the stripe that is held already. */
static void hold(struct mover *mover, uint64_t index)
{
    if (mover->stripe && mover->index == index)
        return;
    let_go(mover);
    mover->stripe = weir_stripe_lock(mover->table->region, index);
    mover->index = index;
}

static bool move_line(struct mover *mover, uint64_t line)
{
    struct slot *slot = region_slot(mover->segment, line * LINE_SLOTS);
    for (int i = 0; i < LINE_SLOTS; i++, slot++) {
        bool left = true;
        while (left) {
            uint64_t who = slot_who(slot);
            if (who == 0)
                break;
            hold(mover, table_stripe(mover->table, who));
            left = false;
            if (!weir_slots_move(mover->table, mover->edition, slot, mover->index, mover->now, &left))
                return false;
        }
    }
    return true;
}

static bool move_wide(struct mover *mover, uint64_t line)
{
    struct weir_table *table = mover->table;
    struct region *region = table->region;
    uint64_t first = region_first(region), run = mover->segment->lines / region->shape.stripes;
    struct holding holding;
    if (!weir_wide_enter(&holding, table, line / run))
        return false;
    struct place place = wide_place(&holding, first, line % run);
    bool moved = place.at >= wide_places(&holding, first) || weir_wide_move(&holding, &place, mover->now);
    weir_wide_leave(&holding);
    return moved;
}

/* Under the change lock. */
static enum moving move(struct weir_table *table, int64_t now, uint64_t lines)
{
    struct region *region = table->region;
    uint64_t first = region_first(region);
    bool wide = table->kind == &weir_table_wide;
    struct mover mover = {
        .table = table, .edition = table_edition(table), .segment = &region->segments[first], .now = now};
    if (first == region_open(region))
        return MOVE_DONE;
    bool moved = mover.edition != NULL;
    for (; moved && lines > 0 && table->moving < mover.segment->lines; lines--) {
        moved = wide ? move_wide(&mover, table->moving) : move_line(&mover, table->moving);
        table->moving += moved;
    }
    let_go(&mover);
    if (!moved)
        return MOVE_STUCK;
    if (table->moving < mover.segment->lines)
        return MOVE_MORE;
    table->moving = 0;
    weir_region_retire(region, !wide || first > 0); /* of a wide table more than keys is in the first one */
    return first + 1 < region_open(region) ? MOVE_MORE : MOVE_DONE;
}

enum moving weir_table_move(struct weir_table *table, int64_t now_ns, uint64_t lines)
{
    weir_change_lock(table->region);
    if (table->kind != &weir_table_own)
        weir_override_settle(table);
    enum moving moving = move(table, region_time(table->region, now_ns), lines);
    weir_change_unlock(table->region);
    return moving;
}
