/* SPDX-License-Identifier: MIT */
#include "property/table_look.h"

#include <inttypes.h>
#include <string.h>

#include "core/idle.h"
#include "table/change.h"
#include "table/override.h"
#include "table/slots.h"
#include "table/wide.h"
#include "table/wide_slots.h"
#include "table/words.h"

/* ---- how large ---- */

size_t look_places(struct weir_table *table)
{
    bool wide = table->kind == &weir_table_wide;
    return look_slots(table) - (wide ? WIDE_SPARE * table->region->header->shape.stripes : 0);
}

size_t look_slots(struct weir_table *table)
{
    return weir_table_lines(table) * table->region->header->shape.line_slots;
}

/* ---- words ---- */

static bool read_own(const struct site *site, const struct key *key, struct cell *cell)
{
    const struct weir_policy *policy;
    int64_t *state;
    if (!cell->own || !weir_override_find(site->table, key, &policy, &state) || !policy)
        return false;
    memcpy(cell->words, state, policy->words * sizeof *state);
    return true;
}

/* What was as if never used when the limits changed still is. */
static uint64_t read_shared(struct weir_table *table, const struct edition *edition)
{
    uint64_t word = slot_word(&table->policies->overflow), latest = edition->generation & 3;
    const struct edition *own = slot_generation(word) == latest ? edition : edition->older;
    if (own == edition || slot_value(word) > weir_slot_word_fresh(table, own, edition->time))
        return weir_slot_word_convert(table, edition, word);
    return slot_pack(SLOT_PLAIN, (unsigned)latest, weir_slot_word_fresh(table, edition, edition->time));
}

static bool read_word(const struct site *site, const struct key *key, struct cell *cell)
{
    const struct edition *edition = table_edition(site->table);
    uint64_t word;
    if (key) {
        struct slot_ref ref = weir_slots_find(site->table, key->hash);
        word = ref.slot ? slot_word(ref.slot) : 0;
        if (!ref.slot || slot_kind(word) == SLOT_HELD)
            return ref.slot && read_own(site, key, cell);
        word = weir_slot_word_convert(site->table, edition, word);
    } else {
        word = read_shared(site->table, edition);
    }
    weir_slot_word_unpack(&edition->policy->limits[0], word, cell->words);
    return !cell->own;
}

static void read_wide_state(const struct locked_stripe *locked, struct wide_slot *slot, struct cell *cell)
{
    const struct edition *next = locked->edition, *own = wide_edition(next, slot->generation);
    int64_t *state = wide_state(locked->table, slot);
    if (own == next)
        memcpy(cell->words, state, next->policy->words * sizeof *state);
    else if (wide_hash(slot) == OVERFLOW_HASH && weir_state_idle_from(own->policy, state) <= next->time)
        weir_state_init(next->policy, cell->words, next->time);
    else
        weir_state_change(own->policy, state, next->policy, cell->words, next->time);
}

static bool read_wide(const struct site *site, const struct key *key, struct cell *cell)
{
    struct locked_stripe locked;
    struct wide_ref place;
    bool found = true;
    if (!weir_wide_enter(&locked, site->table, key ? table_stripe(site->table, key->hash) : 0))
        return false;
    if (key) {
        found = weir_wide_find(&locked, key, &place);
    } else {
        place = wide_place(&locked, 0, wide_places(&locked, 0) + WIDE_OVERFLOW);
        found = wide_hash(place.slot) != 0;
    }
    if (found && (place.slot->flags & WIDE_OVERRIDDEN))
        found = read_own(site, key, cell);
    else if (found)
        read_wide_state(&locked, place.slot, cell);
    weir_wide_leave(&locked);
    return found;
}

bool look_read(const struct site *site, const uint32_t *number, struct cell *cell)
{
    char bytes[8];
    struct key key = {.bytes = bytes};
    if (number) {
        key.len = world_key(site, *number, bytes);
        key.hash = table_hash(site->table, bytes, key.len);
    }
    return (site->words ? read_word : read_wide)(site, number ? &key : NULL, cell);
}

bool look_is_shared(struct weir_table *table)
{
    struct locked_stripe locked;
    if (!weir_wide_enter(&locked, table, 0))
        return false;
    bool shared = wide_hash(wide_place(&locked, 0, wide_places(&locked, 0) + WIDE_OVERFLOW).slot) != 0;
    weir_wide_leave(&locked);
    return shared;
}

/* ---- everybody is where he should be ---- */

static bool look_at(struct world *world, struct site *site, const uint32_t *key, struct cell *cell)
{
    bool there = look_read(site, key, cell);
    if (there != cell->present)
        return world_fail(world, "%s %u of table %td is %s the table", key ? "key" : "shared", key ? *key : 0,
                          site - world->sites, there ? "in" : "not in");
    if (there && !cell_adopt(cell))
        return world_fail(world,
                          "the words of %s %u of table %td are not the model's: %" PRId64 " %" PRId64
                          ", promised %" PRId64 " %" PRId64,
                          key ? "key" : "shared", key ? *key : 0, site - world->sites,
                          cell->words[STATE_HEADER], cell->word ? (int64_t)cell_position(cell) : 0,
                          cell->words[STATE_PROMISED], cell->model.promised);
    return true;
}

static bool look_at_floor(struct world *world, const struct site *site)
{
    int64_t floor = (int64_t)atom_load(&site->table->region->header->floor, memory_order_relaxed);
    return floor == site->floor || world_fail(world, "the floor of table %td is %" PRId64 ", not %" PRId64,
                                              site - world->sites, floor, site->floor);
}

bool look_read_all(struct world *world, struct site *site)
{
    for (uint32_t i = 0; i < site->plan->keys; i++)
        if (!look_at(world, site, &i, &site->cells[i]))
            return false;
    return look_at(world, site, NULL, site->shared) && look_at_floor(world, site);
}

size_t look_for_gone(struct site *site, int64_t now)
{
    size_t gone = 0;
    for (uint32_t i = 0; i < site->plan->keys; i++) {
        struct cell *cell = &site->cells[i];
        char bytes[8];
        size_t len = world_key(site, i, bytes);
        if (!world_may_go(cell, now) ||
            site->table->kind->has(site->table, table_hash(site->table, bytes, len)))
            continue;
        cell->present = false;
        cell->life++;
        gone++;
    }
    return gone;
}

static bool look_after_site(struct world *world, struct site *site, int64_t now)
{
    size_t came = site->came, gone = came > 0 ? look_for_gone(site, now) : 0;
    site->came = 0;
    if (gone > came)
        return world_fail(world, "%zu came and %zu have gone", came, gone);
    if (gone > 0)
        world_raise_floor(site, now);
    return look_at(world, site, NULL, site->shared) && look_at_floor(world, site);
}

bool look_after(struct world *world, const struct story_action *op)
{
    bool moves = op->kind < ACTION_SET && op->kind != ACTION_RESET; /* else the words are other ones */
    for (size_t i = 0; i < op->count; i++) {
        struct site *site = &world->sites[op->asks[i].table];
        struct cell *cell = &site->cells[op->asks[i].key];
        int64_t now = world_action_time(site, op->at);
        if (!look_after_site(world, site, world_floor(site, now)) ||
            !look_at(world, site, &op->asks[i].key, cell))
            return false;
        if (moves && cell->present)
            cell_log_touch(cell, cell->came ? world_floor(site, now) : now);
        if (moves && site->shared->present)
            cell_log_touch(site->shared, world_floor(site, now));
    }
    return true;
}

/* ---- listing ---- */

struct listing {
    struct world *world;
    struct site *site;
    int64_t now;
    size_t count;
};

static bool show(void *arg, const struct weir_key *shown)
{
    struct listing *listing = arg;
    struct site *site = listing->site;
    struct weir_verdict want;
    for (uint32_t i = 0; i < site->plan->keys; i++) {
        struct cell *cell = &site->cells[i];
        char bytes[8];
        size_t len = world_key(site, i, bytes);
        if (table_hash(site->table, bytes, len) != shown->id)
            continue;
        listing->count++;
        if (!cell->present || world_may_go(cell, listing->now) || shown->overridden != (cell->own != NULL))
            return world_fail(listing->world, "key %u of table %td is shown, and overridden is %d", i,
                              site - listing->world->sites, shown->overridden);
        (void)cell_peek(cell, listing->now, 1, &want);
        return world_agrees(listing->world, "listing", cell, listing->now, &shown->verdict, &want);
    }
    return world_fail(listing->world, "a stranger is shown");
}

bool look_at_list(struct world *world, const struct story_action *op)
{
    struct site *site = &world->sites[op->asks[0].table];
    struct listing listing = {world, site, world_time(site, op->at), 0};
    struct weir_table_info stat;
    size_t in_use = 0;
    if (!weir_table_each_at(site->table, op->at, show, &listing))
        return world->fault[0] ? false : world_fail(world, "no memory for a listing");
    for (uint32_t i = 0; i < site->plan->keys; i++)
        in_use += site->cells[i].present && !world_may_go(&site->cells[i], listing.now);
    weir_table_stat_at(site->table, op->at, &stat);
    if (listing.count == in_use && stat.keys == (int64_t)in_use &&
        stat.overrides == (int64_t)site->override_count && stat.changes == (int64_t)site->generation)
        return true;
    return world_fail(world, "%zu shown, %" PRId64 " counted, in use %zu; overrides %" PRId64 " %zu",
                      listing.count, stat.keys, in_use, stat.overrides, site->override_count);
}
