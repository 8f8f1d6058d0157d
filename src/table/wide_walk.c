/* SPDX-License-Identifier: MIT */
/*
 * Going through a wide table. A lock is held for some slots at a time, so that nobody waits long; only a
 * listing takes a stripe as a whole, or a key that moves meanwhile would be shown twice.
 */
#include <stdlib.h>
#include <string.h>

#include "core/idle.h"
#include "table/wide.h"

#define STEP 64 /* slots under one lock */

/* A stretch of at most STEP slots of one stripe, from `line` of the segment on. Gives how many. */
static uint64_t visit_some(struct weir_table *table, uint64_t segment, uint64_t line, uint64_t lines,
                           visit_slot *visit, void *arg, bool *all)
{
    struct region *region = table->region;
    uint64_t run = region->segments[segment].lines / region->shape.stripes, at = line % run;
    uint64_t count = lines < STEP ? lines : STEP;
    struct locked_stripe locked;
    if (count > run - at)
        count = run - at;
    if (!weir_wide_enter(&locked, table, line / run)) {
        *all = false;
        return count;
    }
    for (uint64_t i = 0; i < count; i++) {
        struct wide_ref place = wide_place(&locked, segment, at + i);
        if (wide_hash(place.slot) != 0)
            visit(&locked, &place, arg);
    }
    weir_wide_leave(&locked);
    return count;
}

bool weir_wide_visit(struct weir_table *table, uint64_t line, uint64_t lines, visit_slot *visit, void *arg)
{
    struct region *region = table->region;
    bool all_visited = true;
    uint64_t segments = region_segments(region);
    for (uint64_t segment = 0; segment < segments; segment++) {
        uint64_t all = region->segments[segment].lines;
        if (segment > 0 && segment < region_first(region) && line < all) { /* 0 has more than keys */
            lines -= lines < all - line ? lines : all - line;
            line = all;
        }
        while (line < all && lines > 0) {
            uint64_t count = visit_some(table, segment, line, lines, visit, arg, &all_visited);
            line += count;
            lines -= count;
        }
        line = line > all ? line - all : 0;
    }
    return all_visited;
}

/* ---- sweeping and counting ---- */

struct walk_counts {
    int64_t now;
    bool clear;
    uint64_t count;
};

static void visit_to_sweep(struct locked_stripe *locked, const struct wide_ref *place, void *arg)
{
    struct walk_counts *counts = arg;
    weir_wide_convert(locked, place);
    if (counts->clear && weir_wide_droppable(locked, place, counts->now)) {
        weir_wide_forget(locked, place, counts->now);
        counts->count++;
    }
}

size_t weir_wide_sweep(struct weir_table *table, int64_t now, uint64_t line, uint64_t lines, bool clear)
{
    struct walk_counts counts = {.now = now, .clear = clear};
    (void)weir_wide_visit(table, line, lines, visit_to_sweep, &counts);
    return (size_t)counts.count;
}

static void visit_to_count(struct locked_stripe *locked, const struct wide_ref *place, void *arg)
{
    struct walk_counts *counts = arg;
    if (wide_hash(place->slot) != OVERFLOW_HASH && !weir_wide_droppable(locked, place, counts->now))
        counts->count++;
}

uint64_t weir_wide_count(struct weir_table *table, int64_t now, uint64_t line, uint64_t lines)
{
    struct walk_counts counts = {.now = now};
    (void)weir_wide_visit(table, line, lines, visit_to_count, &counts);
    return counts.count;
}

/* ---- listing ---- */

struct stripe_listing { /* of one stripe */
    struct weir_key *keys;
    unsigned char *bytes; /* of whole keys, as many words for each as a slot has */
    uint64_t room, count;
    int64_t now;
};

/* Slots of a stripe where keys can be, in all segments. */
static uint64_t stripe_places(const struct locked_stripe *locked)
{
    uint64_t places = 0;
    for (uint64_t segment = locked->first; segment < locked->segments; segment++)
        places += wide_places(locked, segment);
    return places;
}

static bool make_listing_room(struct stripe_listing *listing, const struct weir_table *table, uint64_t places)
{
    free(listing->keys);
    free(listing->bytes);
    listing->keys = calloc(places, sizeof *listing->keys);
    listing->bytes = calloc(places, wide_key_words(table->key_max) * 8 + 1);
    listing->room = places;
    return listing->keys && listing->bytes;
}

static void list_wide_key(struct locked_stripe *locked, const struct wide_ref *place,
                          struct stripe_listing *listing)
{
    struct weir_table *table = locked->table;
    struct wide_slot *slot = place->slot;
    struct weir_key *shown = &listing->keys[listing->count];
    struct table_op op = {.verb = VERB_PEEK, .now = listing->now, .n = 1, .verdict = &shown->verdict};
    bool answer;
    if (wide_hash(slot) == 0 || weir_wide_droppable(locked, place, listing->now))
        return;
    *shown = (struct weir_key){.id = wide_hash(slot), .overridden = (slot->flags & WIDE_OVERRIDDEN) != 0};
    if (table->key_max > 0) {
        void *bytes = listing->bytes + listing->count * wide_key_words(table->key_max) * 8;
        uint64_t len =
            __atomic_load_n(&slot->contents[0], __ATOMIC_RELAXED); /* of a file: perhaps anything */
        shown->len = len < table->key_max ? len : table->key_max;
        shown->key = memcpy(bytes, slot->contents + 1, shown->len);
    }
    struct key key = {.bytes = shown->key, .len = shown->len, .hash = shown->id};
    weir_wide_convert(locked, place);
    if (!shown->overridden || !weir_override_run(table, &key, locked->stripe, &op, &answer))
        (void)weir_table_op_run(locked->edition->policy, wide_read(locked, slot, op.now), &op);
    listing->count++;
}

/* false: it has no memory for that. */
static bool list_stripe(struct weir_table *table, uint64_t stripe, struct stripe_listing *listing)
{
    struct locked_stripe locked;
    for (;;) {
        if (!weir_wide_enter(&locked, table, stripe))
            return false;
        uint64_t places = stripe_places(&locked);
        if (places <= listing->room)
            break;
        weir_wide_leave(&locked);
        if (!make_listing_room(listing, table, places))
            return false;
    }
    listing->count = 0;
    for (uint64_t segment = locked.first; segment < locked.segments; segment++)
        for (uint64_t at = 0; at < wide_places(&locked, segment); at++) {
            struct wide_ref place = wide_place(&locked, segment, at);
            list_wide_key(&locked, &place, listing);
        }
    weir_wide_leave(&locked);
    return true;
}

bool weir_wide_each(struct weir_table *table, int64_t now, weir_each_key *each, void *arg)
{
    struct stripe_listing listing = {.now = now};
    bool goes_on = true;
    for (uint64_t stripe = 0; goes_on && stripe < table->region->shape.stripes; stripe++) {
        goes_on = list_stripe(table, stripe, &listing);
        for (uint64_t i = 0; goes_on && i < listing.count; i++)
            goes_on = each(arg, &listing.keys[i]);
    }
    free(listing.keys);
    free(listing.bytes);
    return goes_on;
}

/* ---- checking ---- */

/* Is it where a search finds it, and nothing before it that looks the same? */
static bool is_found(const struct locked_stripe *locked, const struct wide_ref *place)
{
    const struct weir_table *table = locked->table;
    struct wide_slot *slot = place->slot;
    struct key key = {.hash = wide_hash(slot)};
    struct wide_ref found;
    if (key.hash <= OVERFLOW_HASH || table_stripe(table, key.hash) != locked->index)
        return false;
    if (table->key_max > 0) {
        key.bytes = slot->contents + 1;
        key.len = slot->contents[0];
        if (key.len > table->key_max || table_hash(table, key.bytes, key.len) != key.hash)
            return false;
    }
    return weir_wide_find(locked, &key, &found) && found.slot == slot;
}

static bool is_sound(const struct locked_stripe *locked, const struct wide_ref *place)
{
    struct wide_slot *slot = place->slot;
    const struct edition *edition = wide_edition(locked->edition, slot->generation);
    int64_t *state = wide_state(locked->table, slot);
    uint64_t places = wide_places(locked, place->segment);
    if (!edition || (slot->flags & ~(uint32_t)WIDE_OVERRIDDEN))
        return false;
    if (place->at >= places && (place->at != places + WIDE_OVERFLOW || wide_hash(slot) != OVERFLOW_HASH))
        return false;
    if (locked->table->region->file >= 0)
        state = weir_state_load(edition->policy, state, locked->copy);
    return (place->at >= places || is_found(locked, place)) && weir_state_valid(edition->policy, state);
}

static void visit_to_check(struct locked_stripe *locked, const struct wide_ref *place, void *arg)
{
    bool *sound = arg;
    *sound = *sound && is_sound(locked, place);
}

/* Does all that a slot holds fit in it, and is there a slot for every key? */
static bool is_spacious(struct weir_table *table)
{
    struct region *region = table->region;
    const struct region_shape *shape = &region->shape;
    uint64_t segments = region_segments(region);
    for (uint64_t segment = 0; segment < segments; segment++)
        if (region->segments[segment].lines % shape->stripes != 0 || region->segments[segment].lines == 0)
            return false;
    return weir_wide_shape_fits(shape, table->state_words + wide_key_words(table->key_max));
}

bool weir_wide_check(struct weir_table *table)
{
    bool sound = is_spacious(table);
    if (sound)
        (void)weir_wide_visit(table, 0, UINT64_MAX, visit_to_check, &sound);
    return sound;
}
