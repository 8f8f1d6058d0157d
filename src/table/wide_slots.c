/* SPDX-License-Identifier: MIT */
#include "table/wide.h"

#include <stdlib.h>
#include <string.h>

#include "core/idle.h"
#include "table/change.h"
#include "table/overflow_filter.h"
#include "table/override.h"
#include "table/wide_slots.h"

/* ---- the lock ---- */

static void wide_prepare(struct locked_stripe *locked, struct weir_table *table, uint64_t stripe)
{
    locked->table = table;
    locked->index = stripe;
    locked->stripes_log2 = (unsigned)__builtin_ctzll(table->region->shape.stripes);
    locked->changed = NULL;
    locked->may_wait = locked->crowded = false;
    locked->scratch = locked->small;
    locked->copy = locked->second;
    if (table->state_words > WIDE_SMALL && !table->copies)
        locked->scratch =
            wide_state(table, wide_place(locked, 0, wide_places(locked, 0) + WIDE_SCRATCH).slot);
    else if (table->state_words > WIDE_SMALL) {
        locked->scratch = table->copies + stripe * 2 * table->state_words;
        locked->copy = locked->scratch + table->state_words;
    }
}

bool weir_wide_copies(struct weir_table *table)
{
    if (table->region->file < 0 || table->state_words <= WIDE_SMALL)
        return true;
    table->copies = calloc(table->region->shape.stripes, 2 * table->state_words * sizeof *table->copies);
    return table->copies != NULL;
}

/* Whoever converted a slot of this stripe, or put a key into a new segment, had read of that before he took
 * the lock; so who has the lock after him and reads the same generation and number of segments as before
 * misses nothing. */
static bool is_current(struct locked_stripe *locked)
{
    const struct region_header *header = locked->table->region->header;
    locked->first = region_first(locked->table->region);
    locked->closed = region_open(locked->table->region);
#if WEIR_ASSERTIONS
    locked->floor = region_floor(locked->table->region);
#endif
    return atom_load(&header->generation, memory_order_acquire) == locked->edition->generation &&
           atom_load(&header->segments, memory_order_acquire) <= locked->segments;
}

bool weir_wide_enter(struct locked_stripe *locked, struct weir_table *table, uint64_t stripe)
{
    wide_prepare(locked, table, stripe);
    for (;;) {
        locked->edition = table_edition(table);
        if (!locked->edition)
            return false;
        locked->segments = region_segments(table->region);
        locked->stripe = weir_stripe_lock(table->region, stripe);
        locked->journal = &locked->stripe->journal;
        locked->open = false;
        if (is_current(locked))
            return true;
        weir_stripe_unlock(locked->stripe);
        if (!weir_region_refresh(table->region))
            return false;
    }
}

void weir_wide_leave(struct locked_stripe *locked)
{
    weir_stripe_unlock(locked->stripe);
}

bool weir_wide_join(struct locked_stripe *locked, struct weir_table *table, uint64_t stripe,
                    struct journal *journal)
{
    wide_prepare(locked, table, stripe);
    locked->edition = table_edition(table);
    locked->segments = region_segments(table->region);
    locked->stripe = NULL;
    locked->journal = journal;
    locked->open = true;
    return locked->edition && is_current(locked);
}

/* ---- changing a slot ---- */

static void wide_begin(struct locked_stripe *locked)
{
    if (!locked->open)
        weir_journal_begin(locked->journal);
}

static void wide_commit(struct locked_stripe *locked)
{
    if (!locked->open)
        weir_journal_commit(locked->table->region, locked->journal);
}

void weir_wide_save(struct locked_stripe *locked, const void *address, size_t bytes)
{
    (void)weir_journal_save(/* there is room: see table_shape_journals */
                            locked->table->region, locked->journal, address, bytes);
    INVARIANT(19, INTACT(weir_journal_covers(locked->table->region, locked->journal, address, bytes)));
}

/* A state of limits that nobody knows any more counts as used up. What keys without room share stays as if
 * never used, if it was: see weir_slot_word_convert_shared. */
static void make_current(struct locked_stripe *locked, const struct wide_slot *slot, int64_t *state)
{
    const struct edition *next = locked->edition, *own = wide_edition(next->older, slot->generation);
    if (own)
        state = table_state(locked->table, own->policy, state, locked->copy, next->time);
    if (own && wide_hash(slot) == OVERFLOW_HASH && weir_state_idle_from(own->policy, state) <= next->time) {
        weir_state_init(next->policy, locked->scratch, next->time);
        return;
    }
    if (own) {
        weir_state_change(own->policy, state, next->policy, locked->scratch, next->time);
        return;
    }
    weir_state_init(next->policy, locked->scratch, next->time);
    (void)weir_state_drain(next->policy, locked->scratch, next->time);
}

void weir_wide_fetch(const struct locked_stripe *locked, struct wide_slot *slot, int64_t *to, int64_t now)
{
    const struct weir_policy *policy = locked->edition->policy;
    if (locked->table->region->file < 0)
        memcpy(to, wide_state(locked->table, slot), policy->words * sizeof *to);
    else
        (void)weir_state_fetch(policy, wide_state(locked->table, slot), to, now);
}

void weir_wide_convert(struct locked_stripe *locked, const struct wide_ref *place)
{
    struct wide_slot *slot = place->slot;
    int64_t *state = wide_state(locked->table, slot);
    size_t bytes = locked->edition->policy->words * sizeof *state;
    if (__builtin_expect(slot->generation == (uint32_t)locked->edition->generation, 1))
        return;
    INVARIANT(17, INTACT((int32_t)((uint32_t)locked->edition->generation - slot->generation) > 0));
    make_current(locked, slot, state);
    wide_begin(locked);
    weir_wide_save(locked, &slot->generation, sizeof(uint64_t));
    weir_wide_save(locked, state, bytes);
    INVARIANT(19, INTACT(weir_journal_covers(locked->table->region, locked->journal, &slot->generation,
                                             sizeof(uint64_t)) &&
                         weir_journal_covers(locked->table->region, locked->journal, state, bytes)));
    slot->generation = (uint32_t)locked->edition->generation;
    memcpy(state, locked->scratch, bytes);
    wide_commit(locked);
}

/* ---- looking ---- */

static bool is_whole_key(const struct wide_slot *slot, const struct key *key)
{
    return slot->contents[0] == key->len &&
           (key->len == 0 || memcmp(slot->contents + 1, key->bytes, key->len) == 0);
}

/* `whole`: the key is to be the same, too; or NULL. */
static bool wide_search(const struct locked_stripe *locked, uint64_t hash, const struct key *whole,
                        struct wide_ref *place)
{
    for (uint64_t segment = locked->first; segment < locked->segments; segment++) {
        uint64_t places = wide_places(locked, segment), home = wide_home(locked, hash, places);
        uint64_t reach = wide_reach(locked, segment, home);
        for (uint64_t distance = 0; distance <= reach; distance++) {
            *place = wide_place(locked, segment, wide_after(home, distance, places));
            if (wide_hash(place->slot) == hash && (!whole || is_whole_key(place->slot, whole)))
                return true;
        }
    }
    return false;
}

bool weir_wide_find(const struct locked_stripe *locked, const struct key *key, struct wide_ref *place)
{
    return wide_search(locked, key->hash, locked->table->key_max > 0 ? key : NULL, place);
}

bool weir_wide_has(const struct locked_stripe *locked, uint64_t hash)
{
    struct wide_ref place;
    return wide_search(locked, hash, NULL, &place);
}

bool weir_wide_room(struct locked_stripe *locked, uint64_t hash, int64_t now, struct wide_ref *place)
{
    for (uint64_t segment = locked->segments; segment-- > locked->closed;) {
        uint64_t places = wide_places(locked, segment), home = wide_home(locked, hash, places);
        for (uint64_t distance = 0; distance < places && distance <= WIDE_REACH_MAX; distance++) {
            *place = wide_place(locked, segment, wide_after(home, distance, places));
            if (wide_hash(place->slot) == 0 || weir_wide_droppable(locked, place, now)) {
                INVARIANT(16, segment >= locked->closed);
                return true;
            }
        }
    }
    return false;
}

/* ---- coming and going ---- */

static void wide_set_reach(const struct locked_stripe *locked, uint64_t segment, uint64_t home,
                           uint64_t reach)
{
    _Atomic unsigned char *bytes = locked->table->region->segments[segment].reach;
    atomic_store_explicit(&bytes[wide_line(locked, segment, home)], (unsigned char)reach,
                          memory_order_relaxed);
}

static void wide_raise_reach(const struct locked_stripe *locked, const struct wide_ref *place, uint64_t hash)
{
    uint64_t places = wide_places(locked, place->segment), home = wide_home(locked, hash, places);
    uint64_t distance = wide_distance(home, place->at, places);
    if (distance > wide_reach(locked, place->segment, home))
        wide_set_reach(locked, place->segment, home, distance);
}

#if WEIR_ASSERTIONS
/* No key of that home lives further away; not looked at where there are many. */
static bool is_within_reach(const struct locked_stripe *locked, uint64_t segment, uint64_t home)
{
    uint64_t places = wide_places(locked, segment), reach = wide_reach(locked, segment, home);
    for (uint64_t distance = reach + 1; places <= 4096 && distance < places; distance++) {
        struct wide_ref other = wide_place(locked, segment, wide_after(home, distance, places));
        if (wide_hash(other.slot) != 0 && wide_home(locked, wide_hash(other.slot), places) == home)
            return false;
    }
    return true;
}

/* The key is found there, and nowhere before it. */
static bool is_found_at(const struct locked_stripe *locked, const struct wide_ref *place,
                        const struct key *key)
{
    struct wide_ref found;
    return key->hash == OVERFLOW_HASH || (weir_wide_find(locked, key, &found) && found.slot == place->slot);
}

/* May it go? Asked of the core. */
static bool is_idle(const struct locked_stripe *locked, const struct wide_ref *place, int64_t now)
{
    const struct wide_slot *slot = place->slot;
    return slot->flags == 0 && slot->generation == (uint32_t)locked->edition->generation &&
           weir_state_idle_from(locked->edition->policy, wide_read(locked, place->slot, now)) <=
               sat_sub(now, TABLE_GRACE_NS);
}
#else
#define is_within_reach(...) true
#define is_found_at(...)     true
#define is_idle(...)         true
#endif

/* If the one who went lived farthest from home, there is less to look at from now on. */
static void wide_lower_reach(const struct locked_stripe *locked, const struct wide_ref *place, uint64_t hash)
{
    uint64_t places = wide_places(locked, place->segment), home = wide_home(locked, hash, places);
    uint64_t reach = wide_reach(locked, place->segment, home);
    if (wide_distance(home, place->at, places) < reach)
        return;
    for (; reach > 0; reach--) {
        struct wide_ref other = wide_place(locked, place->segment, wide_after(home, reach, places));
        uint64_t lives = wide_hash(other.slot);
        if (lives != 0 && wide_home(locked, lives, places) == home)
            break;
    }
    wide_set_reach(locked, place->segment, home, reach);
    INVARIANT(13, INTACT(is_within_reach(locked, place->segment, home)));
}

void weir_wide_insert(struct locked_stripe *locked, const struct wide_ref *place, const struct key *key,
                      int64_t now)
{
    struct wide_slot *slot = place->slot;
    bool is_overflow = key->hash == OVERFLOW_HASH;
    if (wide_hash(slot) != 0)
        weir_wide_forget(locked, place, now);
    if (!is_overflow)
        table_count(locked->table, 1);
    if (locked->open)
        weir_wide_save(locked, slot, sizeof *slot);
    slot->generation = (uint32_t)locked->edition->generation;
    slot->flags = 0;
    if (locked->table->key_max > 0 && !is_overflow) {
        slot->contents[0] = key->len;
        if (key->len > 0)
            memcpy(slot->contents + 1, key->bytes, key->len);
    }
    memcpy(wide_state(locked->table, slot), locked->scratch,
           locked->edition->policy->words * sizeof *locked->scratch);
    if (!is_overflow)
        wide_raise_reach(locked, place, key->hash);
    INVARIANT(19, INTACT(wide_hash(slot) == 0));
    atom_store(&slot->hash, key->hash, memory_order_release); /* from here on it is there */
    INVARIANT(13, INTACT(is_found_at(locked, place, key)));
}

bool weir_wide_droppable(struct locked_stripe *locked, const struct wide_ref *place, int64_t now)
{
    struct wide_slot *slot = place->slot;
    bool is_old = slot->generation != (uint32_t)locked->edition->generation;
    if (slot->flags != 0)
        return false;
    if (is_old && locked->open) /* the open journal has no room for all that could be converted */
        return false;
    weir_wide_convert(locked, place);
    return weir_state_idle_from(locked->edition->policy, wide_read(locked, slot, now)) <=
           now - TABLE_GRACE_NS;
}

void weir_wide_forget(struct locked_stripe *locked, const struct wide_ref *place, int64_t now)
{
    uint64_t hash = wide_hash(place->slot);
    INVARIANT(14, INTACT(locked->table->recovery || is_idle(locked, place, now)));
    table_raise_floor(locked->table->region, now);
    INVARIANT(15, INTACT(region_floor(locked->table->region) >= now - TABLE_GRACE_NS));
    atom_store(&place->slot->hash, 0, memory_order_release);
    if (hash == OVERFLOW_HASH) {
        uint64_t first = locked->stripes_log2 > 0 ? locked->index << (64 - locked->stripes_log2) : 0;
        weir_overflow_filter_clear(locked->table, first); /* any hash of the stripe will do */
        return;
    }
    wide_lower_reach(locked, place, hash);
    table_count(locked->table, (uint64_t)-1);
}

bool weir_wide_rehash(struct locked_stripe *locked, const struct wide_ref *from, int64_t now)
{
    struct wide_slot *slot = from->slot;
    uint64_t hash = wide_hash(slot);
    struct wide_ref to;
    if (hash == 0)
        return true;
    if (weir_wide_droppable(locked, from, now)) {
        weir_wide_forget(locked, from, now);
        return true;
    }
    if (!weir_wide_room(locked, hash, now, &to))
        return false;
    if (wide_hash(to.slot) != 0)
        weir_wide_forget(locked, &to, now);
    wide_raise_reach(locked, &to, hash);
    memcpy(&to.slot->generation, &slot->generation,
           locked->table->region->shape.slot_size - offsetof(struct wide_slot, generation));
    atom_store(&to.slot->hash, hash, memory_order_release);
    atom_store(&slot->hash, 0, memory_order_release);
    INVARIANT(
        16, is_found_at(locked, &to,
                        &(struct key){.bytes = slot->contents + 1, .len = slot->contents[0], .hash = hash}));
    return true;
}

/*
 * How large a wide table is. A run is 7/10 full when it has its share of the keys. They spread over the
 * stripes as dice fall: a share of 196 keys or more leaves room for six standard deviations. And no key comes
 * near the end of its home's reach: of 10^7 keys the farthest lives about 150 places away.
 */

#define WIDE_STRIPES_MAX 1024
#define SHARE_LEAST      196 /* keys of a stripe, if there are several */
#define WIDE_KEYS_MAX    (UINT64_C(1) << 48)

/* Slots that a stripe needs for its share of the keys. */
static uint64_t run_for(size_t keys, uint64_t stripes)
{
    uint64_t most = keys < WIDE_KEYS_MAX ? keys : WIDE_KEYS_MAX;
    uint64_t share = most / stripes + (most % stripes != 0);
    return share + share * 3 / 7 + 1;
}

/* Slots of about whole cache lines become that. */
static uint64_t slot_size_for(size_t words, size_t key_max)
{
    uint64_t size = sizeof(struct wide_slot) + 8 * ((uint64_t)words + wide_key_words(key_max));
    uint64_t whole = (size + 63) / 64 * 64;
    return (whole - size) * 4 <= size ? whole : size;
}

void weir_wide_shape(struct region_shape *shape, size_t keys, size_t words, size_t key_max)
{
    shape->kind = REGION_WIDE;
    shape->capacity = keys;
    shape->line_slots = 1;
    shape->slot_size = slot_size_for(words, key_max);
    shape->stripes = 1;
    while (shape->stripes < WIDE_STRIPES_MAX && keys / (2 * shape->stripes) >= SHARE_LEAST)
        shape->stripes *= 2;
    shape->lines = shape->stripes * (run_for(keys, shape->stripes) + WIDE_SPARE);
}

uint64_t weir_wide_lines(const struct region_shape *shape, size_t keys)
{
    return shape->stripes * run_for(keys, shape->stripes);
}

bool weir_wide_shape_fits(const struct region_shape *shape, uint64_t words)
{
    uint64_t stripes = shape->stripes;
    return shape->kind == REGION_WIDE && shape->line_slots == 1 && stripes > 0 &&
           stripes <= WIDE_STRIPES_MAX && (stripes & (stripes - 1)) == 0 && shape->lines % stripes == 0 &&
           shape->lines / stripes > WIDE_SPARE && shape->slot_size % 8 == 0 && words >= STATE_HEADER &&
           shape->slot_size >= sizeof(struct wide_slot) &&
           words <= (shape->slot_size - sizeof(struct wide_slot)) / 8;
}

/*
 * Going through a wide table. A lock is held for some slots at a time, so that nobody waits long; only a
 * listing takes a stripe as a whole, or a key that moves meanwhile would be shown twice.
 */

#define WIDE_STEP 64 /* slots under one lock */

/* A stretch of at most WIDE_STEP slots of one stripe, from `line` of the segment on. Gives how many. */
static uint64_t visit_some(struct weir_table *table, uint64_t segment, uint64_t line, uint64_t lines,
                           visit_slot *visit, void *arg, bool *all)
{
    struct region *region = table->region;
    uint64_t run = region->segments[segment].lines / region->shape.stripes, at = line % run;
    uint64_t count = lines < WIDE_STEP ? lines : WIDE_STEP;
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
        ASSERT(shown->len <= table->key_max);
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
