/* SPDX-License-Identifier: MIT */
/*
 * The slots of wide tables. Everything happens under the lock of the key's stripe, which owns a run of slots
 * in each segment. A key lives in one slot: at its home, which follows from its hash, or up to 255 places
 * behind it, around at the end of the stripe's run; the home's byte of reach says how far to look. In segment
 * 0 two slots more end each run: what keys without room share, and memory to work in.
 *
 * A holder may be killed between any two stores. A slot comes to life, and goes, by the one store to `hash`;
 * a state that changes in one word changes by one store; all else is saved in the journal first. A reach that
 * is too far costs time and nothing else, so it is raised before a key comes and lowered after it has gone.
 */
#ifndef WEIR_TABLE_WIDE_H
#define WEIR_TABLE_WIDE_H

#include "table/table.h"

#define WIDE_SMALL     64  /* words of a state that is worked on outside of the region */
#define WIDE_REACH_MAX 255 /* places from home */

enum { WIDE_OVERFLOW, WIDE_SCRATCH, WIDE_SPARE }; /* slots behind a stripe's own, in segment 0 */

/* Flags. A slot that has one is not forgotten. */
enum {
    WIDE_OVERRIDDEN = 1, /* its limits and its state are in override.c */
    WIDE_JOINED = 2      /* take_all.c decides on it, under its transaction's journal */
};

struct wide_slot {
    atom64 hash;         /* 0: empty */
    uint32_t generation; /* of the limits by which its state counts */
    uint32_t flags;
    uint64_t contents[]; /* of whole keys the length and the bytes, in whole words; the state */
};

/* A stripe in the hands of its holder. */
struct locked_stripe {
    struct weir_table *table;
    const struct edition *edition;
    struct stripe *stripe;
    struct journal *journal;
    bool open; /* the journal is open already, and somebody else commits it */
    unsigned stripes_log2;
    uint64_t index, segments;
    uint64_t first, closed; /* segments before these are retired, and closed */
    bool may_wait;          /* with a key that finds no room nothing is done, and `crowded` is set */
    bool crowded;
    struct wide_slot *changed; /* the slot whose state, or limits of its own, have changed; or NULL */
    int64_t *scratch;          /* a state to work on: `small`, or the stripe's spare slot, or table->copies */
    int64_t *copy;             /* of a file: room for table_state */
    int64_t small[WIDE_SMALL], second[WIDE_SMALL];
#if WEIR_ASSERTIONS
    int64_t floor; /* that of the region when the lock was taken */
#endif
};

struct wide_ref {
    struct wide_slot *slot;
    uint64_t segment, at; /* in the stripe's run */
};

/* The place of the key's state, made if there is none: its own or, without room, what the stripe's keys
 * share; then who takes is to be noted (overflow_filter.h). false: no room, and keys do not share, or no
 * memory. */
bool weir_wide_settle(struct locked_stripe *locked, const struct key *key, int64_t now,
                      struct wide_ref *place);

/* Does an EXPORT or IMPORT to what keys of the stripe share that found no room. false: no memory. */
bool weir_wide_shared(struct weir_table *table, uint64_t stripe, struct table_op *op);

/* The limits of that generation. NULL: nobody knows them any more. */
static inline const struct edition *wide_edition(const struct edition *edition, uint32_t generation)
{
    while (edition && (uint32_t)edition->generation != generation)
        edition = edition->older;
    return edition;
}

/* ---- where things are ---- */

static inline size_t wide_key_words(size_t key_max)
{
    return key_max == 0 ? 0 : 1 + key_max / 8 + (key_max % 8 != 0);
}

static inline int64_t *wide_state(const struct weir_table *table, struct wide_slot *slot)
{
    return (int64_t *)(slot->contents + wide_key_words(table->key_max));
}

/* The state of the slot, of the edition at hand, as it can be used. */
static inline int64_t *wide_read(const struct locked_stripe *locked, struct wide_slot *slot, int64_t now)
{
    return table_state(locked->table, locked->edition->policy, wide_state(locked->table, slot), locked->copy,
                       now);
}

static inline uint64_t wide_hash(const struct wide_slot *slot)
{
    return atom_load(&slot->hash, memory_order_relaxed);
}

/* Slots of a stripe in a segment, the spare ones included. */
static inline uint64_t wide_run(const struct locked_stripe *locked, uint64_t segment)
{
    return locked->table->region->segments[segment].lines >> locked->stripes_log2;
}

/* Those of them where keys live. */
static inline uint64_t wide_places(const struct locked_stripe *locked, uint64_t segment)
{
    return wide_run(locked, segment) - (segment == 0 ? WIDE_SPARE : 0);
}

/* The number of a slot in its segment. */
static inline uint64_t wide_line(const struct locked_stripe *locked, uint64_t segment, uint64_t at)
{
    return locked->index * wide_run(locked, segment) + at;
}

static inline struct wide_ref wide_place(const struct locked_stripe *locked, uint64_t segment, uint64_t at)
{
    const struct region *region = locked->table->region;
    uint64_t line = wide_line(locked, segment, at);
    void *slot = region->segments[segment].slots + line * region->shape.slot_size;
    return (struct wide_ref){slot, segment, at};
}

/* The bits of the hash that did not choose the stripe choose the home. */
static inline uint64_t wide_home(const struct locked_stripe *locked, uint64_t hash, uint64_t places)
{
    return hash_to_index(hash << locked->stripes_log2, places);
}

static inline uint64_t wide_after(uint64_t at, uint64_t distance, uint64_t places)
{
    return at + distance < places ? at + distance : at + distance - places;
}

static inline uint64_t wide_distance(uint64_t home, uint64_t at, uint64_t places)
{
    return at >= home ? at - home : at + places - home;
}

/* How far keys of that home live from it; a damaged byte leads nowhere else. */
static inline uint64_t wide_reach(const struct locked_stripe *locked, uint64_t segment, uint64_t home)
{
    const struct segment *where = &locked->table->region->segments[segment];
    uint64_t reach =
        atomic_load_explicit(&where->reach[wide_line(locked, segment, home)], memory_order_relaxed);
    uint64_t most = wide_places(locked, segment) - 1;
    return reach < most ? reach : most;
}

#endif
