/* SPDX-License-Identifier: MIT */
#include "table/wide.h"

#include <stdlib.h>
#include <string.h>

#include "core/idle.h"
#include "table/takers.h"

/* ---- the lock ---- */

static void prepare(struct holding *holding, struct weir_table *table, uint64_t stripe)
{
    holding->table = table;
    holding->index = stripe;
    holding->stripes_log2 = (unsigned)__builtin_ctzll(table->region->shape.stripes);
    holding->changed = NULL;
    holding->may_wait = holding->crowded = false;
    holding->scratch = holding->small;
    holding->copy = holding->second;
    if (table->state_words > WIDE_SMALL && !table->copies)
        holding->scratch =
            wide_state(table, wide_place(holding, 0, wide_places(holding, 0) + WIDE_SCRATCH).slot);
    else if (table->state_words > WIDE_SMALL) {
        holding->scratch = table->copies + stripe * 2 * table->state_words;
        holding->copy = holding->scratch + table->state_words;
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
static bool is_current(struct holding *holding)
{
    const struct region_header *header = holding->table->region->header;
    holding->first = region_first(holding->table->region);
    holding->closed = region_open(holding->table->region);
    return atom_load(&header->generation, memory_order_acquire) == holding->edition->generation &&
           atom_load(&header->segments, memory_order_acquire) <= holding->segments;
}

bool weir_wide_enter(struct holding *holding, struct weir_table *table, uint64_t stripe)
{
    prepare(holding, table, stripe);
    for (;;) {
        holding->edition = table_edition(table);
        if (!holding->edition)
            return false;
        holding->segments = region_segments(table->region);
        holding->stripe = weir_stripe_lock(table->region, stripe);
        holding->journal = &holding->stripe->journal;
        holding->open = false;
        if (is_current(holding))
            return true;
        weir_stripe_unlock(holding->stripe);
        if (!weir_region_refresh(table->region))
            return false;
    }
}

void weir_wide_leave(struct holding *holding)
{
    weir_stripe_unlock(holding->stripe);
}

bool weir_wide_join(struct holding *holding, struct weir_table *table, uint64_t stripe,
                    struct journal *journal)
{
    prepare(holding, table, stripe);
    holding->edition = table_edition(table);
    holding->segments = region_segments(table->region);
    holding->stripe = NULL;
    holding->journal = journal;
    holding->open = true;
    return holding->edition && is_current(holding);
}

/* ---- changing a slot ---- */

static void begin(struct holding *holding)
{
    if (!holding->open)
        weir_journal_begin(holding->journal);
}

static void commit(struct holding *holding)
{
    if (!holding->open)
        weir_journal_commit(holding->table->region, holding->journal);
}

void weir_wide_save(struct holding *holding, const void *address, size_t bytes)
{
    (void)weir_journal_save(/* there is room: see table_shape_journals */
                            holding->table->region, holding->journal, address, bytes);
}

/* A state of limits that nobody knows any more counts as used up. What keys without room share stays as if
 * never used, if it was: see weir_word_convert_shared. */
static void make_current(struct holding *holding, const struct wide *slot, int64_t *state)
{
    const struct edition *next = holding->edition, *own = wide_edition(next->older, slot->generation);
    if (own)
        state = table_state(holding->table, own->policy, state, holding->copy, next->time);
    if (own && wide_who(slot) == OVERFLOW_WHO && weir_state_idle_from(own->policy, state) <= next->time) {
        weir_state_init(next->policy, holding->scratch, next->time);
        return;
    }
    if (own) {
        weir_state_change(own->policy, state, next->policy, holding->scratch, next->time);
        return;
    }
    weir_state_init(next->policy, holding->scratch, next->time);
    (void)weir_state_drain(next->policy, holding->scratch, next->time);
}

void weir_wide_fetch(const struct holding *holding, struct wide *slot, int64_t *to, int64_t now)
{
    const struct weir_policy *policy = holding->edition->policy;
    if (holding->table->region->file < 0)
        memcpy(to, wide_state(holding->table, slot), policy->words * sizeof *to);
    else
        (void)weir_state_fetch(policy, wide_state(holding->table, slot), to, now);
}

void weir_wide_convert(struct holding *holding, const struct place *place)
{
    struct wide *slot = place->slot;
    int64_t *state = wide_state(holding->table, slot);
    size_t bytes = holding->edition->policy->words * sizeof *state;
    if (__builtin_expect(slot->generation == (uint32_t)holding->edition->generation, 1))
        return;
    make_current(holding, slot, state);
    begin(holding);
    weir_wide_save(holding, &slot->generation, sizeof(uint64_t));
    weir_wide_save(holding, state, bytes);
    slot->generation = (uint32_t)holding->edition->generation;
    memcpy(state, holding->scratch, bytes);
    commit(holding);
}

/* ---- looking ---- */

static bool is_whole(const struct wide *slot, const struct key *key)
{
    return slot->contents[0] == key->len &&
           (key->len == 0 || memcmp(slot->contents + 1, key->bytes, key->len) == 0);
}

/* `whole`: the key is to be the same, too; or NULL. */
static bool search(const struct holding *holding, uint64_t who, const struct key *whole, struct place *place)
{
    for (uint64_t segment = holding->first; segment < holding->segments; segment++) {
        uint64_t places = wide_places(holding, segment), home = wide_home(holding, who, places);
        uint64_t reach = wide_reach(holding, segment, home);
        for (uint64_t distance = 0; distance <= reach; distance++) {
            *place = wide_place(holding, segment, wide_after(home, distance, places));
            if (wide_who(place->slot) == who && (!whole || is_whole(place->slot, whole)))
                return true;
        }
    }
    return false;
}

bool weir_wide_find(const struct holding *holding, const struct key *key, struct place *place)
{
    return search(holding, key->who, holding->table->key_max > 0 ? key : NULL, place);
}

bool weir_wide_has(const struct holding *holding, uint64_t who)
{
    struct place place;
    return search(holding, who, NULL, &place);
}

bool weir_wide_room(struct holding *holding, uint64_t who, int64_t now, struct place *place)
{
    for (uint64_t segment = holding->segments; segment-- > holding->closed;) {
        uint64_t places = wide_places(holding, segment), home = wide_home(holding, who, places);
        for (uint64_t distance = 0; distance < places && distance <= WIDE_REACH_MAX; distance++) {
            *place = wide_place(holding, segment, wide_after(home, distance, places));
            if (wide_who(place->slot) == 0 || weir_wide_droppable(holding, place, now))
                return true;
        }
    }
    return false;
}

/* ---- coming and going ---- */

static void set_reach(const struct holding *holding, uint64_t segment, uint64_t home, uint64_t reach)
{
    _Atomic unsigned char *bytes = holding->table->region->segments[segment].reach;
    atomic_store_explicit(&bytes[wide_line(holding, segment, home)], (unsigned char)reach,
                          memory_order_relaxed);
}

static void raise_reach(const struct holding *holding, const struct place *place, uint64_t who)
{
    uint64_t places = wide_places(holding, place->segment), home = wide_home(holding, who, places);
    uint64_t distance = wide_distance(home, place->at, places);
    if (distance > wide_reach(holding, place->segment, home))
        set_reach(holding, place->segment, home, distance);
}

/* If the one who went lived farthest from home, there is less to look at from now on. */
static void lower_reach(const struct holding *holding, const struct place *place, uint64_t who)
{
    uint64_t places = wide_places(holding, place->segment), home = wide_home(holding, who, places);
    uint64_t reach = wide_reach(holding, place->segment, home);
    if (wide_distance(home, place->at, places) < reach)
        return;
    for (; reach > 0; reach--) {
        struct place other = wide_place(holding, place->segment, wide_after(home, reach, places));
        uint64_t lives = wide_who(other.slot);
        if (lives != 0 && wide_home(holding, lives, places) == home)
            break;
    }
    set_reach(holding, place->segment, home, reach);
}

void weir_wide_insert(struct holding *holding, const struct place *place, const struct key *key, int64_t now)
{
    struct wide *slot = place->slot;
    bool is_overflow = key->who == OVERFLOW_WHO;
    if (wide_who(slot) != 0)
        weir_wide_forget(holding, place, now);
    if (!is_overflow)
        table_count(holding->table, 1);
    if (holding->open)
        weir_wide_save(holding, slot, sizeof *slot);
    slot->generation = (uint32_t)holding->edition->generation;
    slot->flags = 0;
    if (holding->table->key_max > 0 && !is_overflow) {
        slot->contents[0] = key->len;
        if (key->len > 0)
            memcpy(slot->contents + 1, key->bytes, key->len);
    }
    memcpy(wide_state(holding->table, slot), holding->scratch,
           holding->edition->policy->words * sizeof *holding->scratch);
    if (!is_overflow)
        raise_reach(holding, place, key->who);
    atom_store(&slot->who, key->who, memory_order_release); /* from here on it is there */
}

bool weir_wide_droppable(struct holding *holding, const struct place *place, int64_t now)
{
    struct wide *slot = place->slot;
    bool is_old = slot->generation != (uint32_t)holding->edition->generation;
    if (slot->flags != 0)
        return false;
    if (is_old && holding->open) /* the open journal has no room for all that could be converted */
        return false;
    weir_wide_convert(holding, place);
    return weir_state_idle_from(holding->edition->policy, wide_read(holding, slot, now)) <=
           now - TABLE_GRACE_NS;
}

/* Fresh states begin at the floor at the earliest. So a thread that read the clock long ago cannot count a
 * key's units at a time before the key was forgotten. */
static void raise_floor(struct region_header *header, int64_t now)
{
    uint64_t floor = atom_load(&header->floor, memory_order_relaxed);
    while ((int64_t)floor < now - TABLE_GRACE_NS &&
           !atom_cas(&header->floor, &floor, (uint64_t)now, memory_order_seq_cst)) {
    }
}

void weir_wide_forget(struct holding *holding, const struct place *place, int64_t now)
{
    uint64_t who = wide_who(place->slot);
    raise_floor(holding->table->region->header, now);
    atom_store(&place->slot->who, 0, memory_order_release);
    if (who == OVERFLOW_WHO) {
        uint64_t first = holding->stripes_log2 > 0 ? holding->index << (64 - holding->stripes_log2) : 0;
        weir_takers_clear(holding->table, first); /* any hash of the stripe will do */
        return;
    }
    lower_reach(holding, place, who);
    table_count(holding->table, (uint64_t)-1);
}

bool weir_wide_move(struct holding *holding, const struct place *from, int64_t now)
{
    struct wide *slot = from->slot;
    uint64_t who = wide_who(slot);
    struct place to;
    if (who == 0)
        return true;
    if (weir_wide_droppable(holding, from, now)) {
        weir_wide_forget(holding, from, now);
        return true;
    }
    if (!weir_wide_room(holding, who, now, &to))
        return false;
    if (wide_who(to.slot) != 0)
        weir_wide_forget(holding, &to, now);
    raise_reach(holding, &to, who);
    memcpy(&to.slot->generation, &slot->generation,
           holding->table->region->shape.slot_size - offsetof(struct wide, generation));
    atom_store(&to.slot->who, who, memory_order_release);
    atom_store(&slot->who, 0, memory_order_release);
    return true;
}
