/* SPDX-License-Identifier: MIT */
/*
 * A look at all keys: listing, clearing, counting.
 */
#include "os/clock.h"
#include "table/change.h"
#include "table/names.h"
#include "table/table.h"

#define SAMPLE_SLOTS 65536 /* counted by weir_table_stat at the most */

/* ---- names ---- */

static bool is_key_in_table(void *arg, uint64_t hash)
{
    struct weir_table *table = arg;
    return table->kind->has(table, hash);
}

/* Names of keys that are gone make room for others. */
static void compact_names(struct weir_table *table)
{
    if (!table->names || !weir_name_log_needs_compaction(table))
        return;
    weir_change_lock(table->region);
    (void)weir_name_log_compact(table, is_key_in_table, table);
    weir_change_unlock(table->region);
}

/* ---- listing ---- */

struct name_listing {
    weir_each_key *each;
    void *arg;
    const struct name_index *names;
};

/* Adds the name, where one is kept. */
static bool list_named_key(void *arg, const struct weir_key *key)
{
    const struct name_listing *listing = arg;
    struct weir_key named = *key;
    if (!named.key && listing->names)
        named.key = weir_name_index_find(listing->names, key->id, &named.len);
    return listing->each(listing->arg, &named);
}

bool weir_table_each_at(struct weir_table *table, int64_t now_ns, weir_each_key *each, void *arg)
{
    if (!table || !each)
        return false;
    compact_names(table);
    struct name_index *names = table->names ? weir_name_index_read(table) : NULL;
    struct name_listing listing = {each, arg, names};
    bool all = table->kind->each(table, region_time(table->region, now_ns), list_named_key, &listing);
    weir_name_index_free(names);
    return all;
}

bool weir_table_each(struct weir_table *table, weir_each_key *each, void *arg)
{
    return weir_table_each_at(table, clock_now(), each, arg);
}

/* ---- clearing ---- */

size_t weir_table_sweep_at(struct weir_table *table, int64_t now_ns, size_t slots)
{
    if (!table || slots == 0)
        return 0;
    const struct region_shape *shape = &table->region->shape;
    int64_t now = region_time(table->region, now_ns);
    uint64_t retired = weir_table_retired(table), all = weir_table_lines(table) - retired;
    uint64_t lines = (slots + shape->line_slots - 1) / shape->line_slots;
    lines = lines < all ? lines : all;
    uint64_t from = atom_add(&table->region->header->cursor, lines, memory_order_relaxed) % all;
    uint64_t first = lines < all - from ? lines : all - from;
    size_t cleared = table->kind->sweep(table, now, retired + from, first, true);
    if (first < lines)
        cleared += table->kind->sweep(table, now, retired, lines - first, true);
    compact_names(table);
    weir_region_note_time(table->region, now);
    return cleared;
}

size_t weir_table_sweep(struct weir_table *table, size_t slots)
{
    return weir_table_sweep_at(table, clock_now(), slots);
}

/* ---- counting ---- */

/* Keys, from stretches of lines evenly spread over the table if it is large. */
static int64_t estimate_keys(struct weir_table *table, int64_t now, uint64_t first, uint64_t lines)
{
    uint64_t sample = SAMPLE_SLOTS / table->region->shape.line_slots, stretch = 64;
    if (lines <= sample)
        return (int64_t)table->kind->count(table, now, first, lines);
    uint64_t stretches = sample / stretch, keys = 0;
    for (uint64_t i = 0; i < stretches; i++)
        keys += table->kind->count(table, now, first + i * (lines - stretch) / stretches, stretch);
    return (int64_t)((weir_u128)keys * lines / (stretches * stretch));
}

void weir_table_stat_at(struct weir_table *table, int64_t now_ns, struct weir_table_info *stat)
{
    if (!stat)
        return;
    *stat = (struct weir_table_info){0};
    if (!table)
        return;
    const struct region_header *header = table->region->header;
    uint64_t retired = weir_table_retired(table), lines = weir_table_lines(table) - retired;
    int64_t now = region_time(table->region, now_ns);
    stat->keys = estimate_keys(table, now, retired, lines);
    stat->capacity = (int64_t)atom_load(&header->capacity, memory_order_relaxed);
    stat->slots = (int64_t)(lines * table->region->shape.line_slots);
    stat->bytes = (int64_t)atom_load(&table->region->bytes, memory_order_relaxed);
    stat->shared = (int64_t)atom_load(&header->shared, memory_order_relaxed);
    stat->refused = (int64_t)atom_load(&header->refused, memory_order_relaxed);
    stat->overrides = (int64_t)atom_load(&header->overrides, memory_order_relaxed);
    stat->changes = (int64_t)atom_load(&header->generation, memory_order_relaxed);
    stat->names_lost = table->names ? (int64_t)weir_name_log_lost(table) : 0;
    stat->nearly_full = stat->keys >= stat->capacity - stat->capacity / 5;
    stat->huge_pages = table->region->huge;
    weir_region_note_time(table->region, now);
}

void weir_table_stat(struct weir_table *table, struct weir_table_info *stat)
{
    weir_table_stat_at(table, clock_now(), stat);
}
