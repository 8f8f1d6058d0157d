/* SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L
#include "unit/table/wide_table.h"

#include "table/change.h"
#include "table/overflow_filter.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/idle.h"
#include "table/names.h"
#include "table/wide_slots.h"

static struct weir_policy *policy_new(const char *limits)
{
    struct weir_error err;
    struct weir_policy *policy = weir_policy_idle(limits, &err);
    if (!policy)
        printf("# %s\n", err.text);
    return policy;
}

static struct edition *edition_new(const char *limits, struct edition *older, int64_t time)
{
    struct edition *edition = calloc(1, sizeof *edition);
    edition->policy = policy_new(limits);
    edition->generation = older ? older->generation + 1 : 0;
    edition->time = time;
    edition->older = older;
    return edition;
}

/* In a file without a name: children share it. */
static struct region *region_in_file(const struct region_shape *shape, struct weir_error *err)
{
    char folder[] = "/dev/shm/weir-wide-XXXXXX", path[64];
    bool made, alone;
    if (!mkdtemp(folder))
        return NULL;
    (void)snprintf(path, sizeof path, "%s/table", folder);
    struct region *region = weir_region_open(path, shape, 0600, &made, &alone, err);
    if (region)
        weir_region_ready(region);
    (void)unlink(path);
    (void)rmdir(folder);
    return region;
}

static struct weir_table *make(const char *limits, const char *widest, size_t keys, size_t key_max,
                               bool in_file)
{
    struct weir_table *table = calloc(1, sizeof *table);
    struct edition *edition = edition_new(limits, NULL, 0);
    struct region_shape shape = {0};
    struct weir_error err = {0};
    table->kind = &weir_table_wide;
    table->key_max = key_max;
    table->state_words = edition->policy->words;
    if (widest) {
        struct weir_policy *wide = policy_new(widest);
        table->state_words = wide->words;
        weir_policy_free(wide);
    }
    weir_wide_shape(&shape, keys, table->state_words, key_max);
    table_shape_journals(&shape);
    table->region = in_file ? region_in_file(&shape, &err) : weir_region_new(&shape, &err);
    if (!table->region) {
        printf("# no region: %s\n", err.text);
        exit(1);
    }
    if (!weir_wide_copies(table))
        exit(1);
    atomic_store(&table->edition, edition);
    return table;
}

struct weir_table *table_new(const char *limits, const char *widest, size_t keys, size_t key_max)
{
    return make(limits, widest, keys, key_max, false);
}

struct weir_table *table_shared(const char *limits, size_t keys, size_t key_max)
{
    return make(limits, NULL, keys, key_max, true);
}

void table_free(struct weir_table *table)
{
    for (struct edition *next, *edition = atomic_load(&table->edition); edition; edition = next) {
        next = edition->older;
        weir_policy_free(edition->policy);
        free(edition);
    }
    weir_overflow_filter_free(table);
    weir_region_free(table->region);
    free(table->copies);
    free(table);
}

const struct weir_policy *policy_of(struct weir_table *table)
{
    return atomic_load(&table->edition)->policy;
}

struct edition *weir_table_refresh(struct weir_table *table)
{
    return atomic_load(&table->edition);
}

void table_change(struct weir_table *table, const char *limits, int64_t time)
{
    struct edition *edition = edition_new(limits, atomic_load(&table->edition), time);
    atomic_store(&table->edition, edition);
    atom_store(&table->region->header->generation, edition->generation, memory_order_seq_cst);
}

bool table_grow(struct weir_table *table, size_t keys)
{
    weir_change_lock(table->region);
    bool grown = weir_region_grow(table->region, weir_wide_lines(&table->region->header->shape, keys), NULL);
    weir_change_unlock(table->region);
    return grown;
}

uint64_t lines_of(const struct weir_table *table)
{
    uint64_t lines = 0;
    for (uint64_t i = 0; i < atom_load(&table->region->header->segments, memory_order_relaxed); i++)
        lines += table->region->segments[i].lines;
    return lines;
}

uint64_t keys_in(struct weir_table *table, int64_t now)
{
    return table->kind->count(table, now, 0, lines_of(table));
}

size_t sweep_all(struct weir_table *table, int64_t now)
{
    return table->kind->sweep(table, now, 0, lines_of(table), true);
}

struct key key_of(const struct weir_table *table, const char *name)
{
    return (struct key){.bytes = name, .len = strlen(name), .hash = table_hash(table, name, strlen(name))};
}

struct wide_ref place_of(struct weir_table *table, const struct key *key)
{
    struct locked_stripe locked;
    struct wide_ref place;
    bool entered = weir_wide_enter(&locked, table, table_stripe(table, key->hash));
    assert(entered);
    (void)entered;
    if (!weir_wide_find(&locked, key, &place))
        place.slot = NULL;
    weir_wide_leave(&locked);
    return place;
}

int names_told;
void weir_table_name(struct weir_table *table, const struct key *key)
{
    (void)table;
    (void)key;
    names_told++;
}

uint64_t overridden_hash;
bool weir_override_run(struct weir_table *table, const struct key *key, struct stripe *stripe,
                       struct table_op *op, bool *answer)
{
    (void)table;
    if (!stripe || key->hash != overridden_hash)
        return false;
    if (op->verdict)
        *op->verdict = (struct weir_verdict){.reason = WEIR_NEVER, .remaining = 77};
    *answer = false;
    return true;
}

static bool is_tight_in(const struct locked_stripe *locked, uint64_t segment)
{
    uint64_t places = wide_places(locked, segment);
    uint64_t *far = calloc(places, sizeof *far);
    bool tight = true;
    for (uint64_t at = 0; at < places; at++) {
        uint64_t hash = wide_hash(wide_place(locked, segment, at).slot);
        uint64_t home = wide_home(locked, hash, places), distance = wide_distance(home, at, places);
        if (hash != 0 && distance > far[home])
            far[home] = distance;
    }
    for (uint64_t home = 0; home < places; home++)
        tight = tight && wide_reach(locked, segment, home) == far[home];
    free(far);
    return tight;
}

bool is_tight(struct weir_table *table)
{
    bool tight = weir_wide_check(table);
    for (uint64_t stripe = 0; stripe < table->region->header->shape.stripes; stripe++) {
        struct locked_stripe locked;
        if (!weir_wide_enter(&locked, table, stripe))
            return false;
        for (uint64_t segment = 0; segment < locked.segments; segment++)
            tight = tight && is_tight_in(&locked, segment);
        weir_wide_leave(&locked);
    }
    return tight;
}
