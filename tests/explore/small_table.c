/* SPDX-License-Identifier: MIT */
#include "explore/small_table.h"

#include <string.h>

#include "core/idle.h"
#include "explore/explore.h"
#include "table/change.h"
#include "table/names.h"
#include "table/overflow_filter.h"
#include "table/override.h"

struct small_table small;
bool weir_region_scribbled;

/* ---- limits ---- */

bool small_table_read(const char *const *limits)
{
    bool good = true;
    for (int i = 0; i < SMALL_EDITIONS && limits[i]; i++) {
        struct edition *edition = &small.editions[i];
        *edition = (struct edition){.generation = (uint64_t)i, .policy = weir_policy_idle(limits[i], NULL)};
        edition->older = i > 0 ? &small.editions[i - 1] : NULL;
        good = good && edition->policy && weir_words_suit(edition->policy);
        edition->bucket = good ? &edition->policy->limits[0] : NULL;
    }
    return good;
}

void small_table_free(void)
{
    for (int i = 0; i < SMALL_EDITIONS; i++) {
        weir_policy_free(small.editions[i].policy);
        small.editions[i].policy = NULL;
    }
}

/* The limits of a generation are in the region before its number is: here they always were. */
struct edition *weir_table_refresh(struct weir_table *table)
{
    uint64_t generation = atom_load(&small.header.generation, memory_order_seq_cst);
    struct edition *latest = &small.editions[generation];
    atomic_store_explicit(&table->edition, latest, memory_order_release);
    return latest;
}

void small_table_change(int64_t now)
{
    struct weir_table *table = small_table();
    uint64_t generation = atom_load(&small.header.generation, memory_order_relaxed) + 1;
    small.editions[generation].time = now; /* the same for every execution, so no race */
    atom_store(&small.header.generation, generation, memory_order_seq_cst);
    const struct edition *latest = weir_table_refresh(table);
    weir_words_convert_shared(table, latest);
    (void)weir_words_sweep(table, now, 0, SMALL_SEGMENTS * SMALL_LINES, false);
    atom_store(&small.header.swept, generation, memory_order_seq_cst);
}

/* ---- the region ---- */

bool weir_region_refresh(struct region *region)
{
    atom_store(&region->mapped, atom_load(&region->header->segments, memory_order_seq_cst),
               memory_order_release);
    return true;
}

void small_table_grow(void)
{
    atom_store(&small.header.segments, SMALL_SEGMENTS, memory_order_seq_cst);
}

void small_table_exact(void)
{
    for (int i = 0; i < SMALL_PROCESSES; i++) {
        small.tables[i].is_exact = true;
        for (int s = 0; s < SMALL_SEGMENTS; s++)
            small.regions[i].segments[s].witnesses = small.witnesses[s];
    }
}

void small_table_unite(void)
{
    static uint64_t overflow_filter[OVERFLOW_FILTER_WORDS];
    memset(overflow_filter, 0, sizeof overflow_filter);
    small.regions[0].file = -1;
    for (int i = 0; i < SMALL_PROCESSES; i++) {
        small.tables[i].region = &small.regions[0];
        small.tables[i].overflow_filter = (struct overflow_filter *)(void *)overflow_filter;
    }
}

void small_table_enlarge(void)
{
    struct region *region = &small.regions[0];
    atom_store(&region->mapped, SMALL_SEGMENTS, memory_order_release);
    atomic_store_explicit(&region->front, &region->segments[1], memory_order_release);
    atom_store(&small.header.segments, SMALL_SEGMENTS, memory_order_seq_cst);
    atom_store(&region->open, 1, memory_order_seq_cst);
}

void small_table_move(int64_t now)
{
    struct weir_table *table = small_table();
    struct region *region = table->region;
    for (uint64_t i = 0; i < region->segments[0].lines * LINE_SLOTS; i++) {
        struct slot *slot = region_slot(&region->segments[0], i);
        if (slot_hash(slot) == 0 || slot_hash(slot) == SMALL_STAYS)
            continue;
        struct stripe *stripe = weir_stripe_lock(region, 0);
        bool left = false;
        EXPLORE_CHECK(weir_slots_rehash(table, table_edition(table), slot, 0, now, &left) && !left);
        weir_stripe_unlock(stripe);
    }
    atom_store(&region->first, 1, memory_order_release);
}

uint64_t weir_table_retired(const struct weir_table *table)
{
    return region_first(table->region) * SMALL_LINES;
}

struct stripe *weir_stripe_lock(struct region *region, uint64_t stripe)
{
    (void)region;
    (void)stripe;
    explore_lock(&small.stripe);
    return &small.stripe;
}

void weir_stripe_unlock(struct stripe *stripe)
{
    explore_unlock(stripe);
}

bool weir_journal_hold(struct region *region, struct journal *journal, struct slot *slot, uint64_t hash,
                       uint64_t word)
{
    (void)region;
    (void)journal;
    return slot_exchange(slot, hash, word, hash, slot_with_kind(word, SLOT_HELD));
}

/* ---- the rest of the table ---- */

const struct table_kind weir_table_own, weir_table_wide;

bool weir_override_has(struct weir_table *table, uint64_t hash)
{
    (void)table;
    return small.overridden != 0 && hash == small.overridden;
}

bool weir_override_run(struct weir_table *table, const struct key *key, struct stripe *stripe,
                       struct table_op *op, bool *answer)
{
    (void)stripe;
    (void)op;
    if (!weir_override_has(table, key->hash))
        return false;
    *answer = small.own_taken++ == 0;
    return true;
}

void weir_table_name(struct weir_table *table, const struct key *key)
{
    (void)key;
    small.came_in[table - small.tables]++;
}

struct weir_table *small_table(void)
{
    return &small.tables[explore_thread() < 0 ? 0 : explore_thread()];
}

/* ---- setup: memory is filled as if there were no atoms, for the explorer counts those that are used ---- */

static void name_slots(uint64_t segments, uint64_t lines)
{
    static const char *const names[SMALL_SEGMENTS][SMALL_LINES * LINE_SLOTS][2] = {
        {{"who 0", "word 0"},
         {"who 1", "word 1"},
         {"who 2", "word 2"},
         {"who 3", "word 3"},
         {"who 4", "word 4"},
         {"who 5", "word 5"},
         {"who 6", "word 6"},
         {"who 7", "word 7"}},
        {{"new who 0", "new word 0"},
         {"new who 1", "new word 1"},
         {"new who 2", "new word 2"},
         {"new who 3", "new word 3"}},
    };
    for (uint64_t s = 0; s < segments; s++)
        for (uint64_t i = 0; i < lines * LINE_SLOTS; i++) {
            explore_name(&small.slots[s][i].both.low, names[s][i][0]);
            explore_name(&small.slots[s][i].both.high, names[s][i][1]);
        }
}

static void name_rest(void)
{
    explore_name(&small.header.segments, "segments");
    explore_name(&small.header.generation, "generation");
    explore_name(&small.header.floor, "floor");
    explore_name(&small.header.number, "number");
    explore_name(&small.policies.overflow.both.high, "shared");
    explore_name(&small.reach[0][0], "reach 0");
    explore_name(&small.stripe, "stripe");
}

static void make_process(int process, uint64_t lines, bool numbered)
{
    struct region *region = &small.regions[process];
    struct weir_table *table = &small.tables[process];
    *region = (struct region){.header = &small.header, .mapped = {1}, .front = &region->segments[0]};
    for (int s = 0; s < SMALL_SEGMENTS; s++)
        region->segments[s] = (struct segment){.slots = (unsigned char *)small.slots[s],
                                               .reach = small.reach[s],
                                               .numbers = numbered ? small.numbers[s] : NULL,
                                               .lines = lines,
                                               .bytes = sizeof small.slots[s]};
    *table = (struct weir_table){.region = region,
                                 .kind = &weir_table_words,
                                 .edition = &small.editions[0],
                                 .policies = &small.policies};
}

void small_table_clear(uint64_t segments, uint64_t lines, bool numbered)
{
    memset(&small.header, 0, sizeof small.header);
    memset(small.slots, 0, sizeof small.slots);
    memset(small.witnesses, 0, sizeof small.witnesses);
    memset((void *)small.reach, 0, sizeof small.reach);
    memset(small.numbers, 0, sizeof small.numbers);
    memset(small.came_in, 0, sizeof small.came_in);
    small.overridden = 0;
    small.own_taken = 0;
    small.header.shape.stripes = 1;
    small.header.segments = (atom64){1};
    for (int i = 0; i < SMALL_PROCESSES; i++)
        make_process(i, lines, numbered);
    small_table_put(&small.policies.overflow, OVERFLOW_HASH, SLOT_PLAIN, 0, 0);
    name_slots(segments, lines);
    name_rest();
}

void small_table_put(struct slot *slot, uint64_t hash, enum slot_kind kind, int64_t time, int64_t spent)
{
    const struct ticks *ticks = &small.editions[0].bucket->ticks;
    uint64_t value = (uint64_t)(ticks_at(ticks, time) + spent * ticks->unit);
    *slot = (struct slot){{{hash}, {hash ? slot_pack(kind, 0, value) : 0}}};
}
