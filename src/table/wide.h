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
};

struct wide_ref {
    struct wide_slot *slot;
    uint64_t segment, at; /* in the stripe's run */
};

/* For wide tables a region of this shape, but for its journals: so many keys fit, with a state of so many
 * words and whole keys of up to `key_max` bytes. */
void weir_wide_shape(struct region_shape *shape, size_t keys, size_t words, size_t key_max);
/* Lines of a segment for so many keys more. */
uint64_t weir_wide_lines(const struct region_shape *shape, size_t keys);
/* Could that be the shape of a wide table with such states? A file may say anything. */
bool weir_wide_shape_fits(const struct region_shape *shape, uint64_t words);
/* Private memory for states that are too large for the stack, if the table is in a file. false: there is
 * none. */
bool weir_wide_copies(struct weir_table *table);
/* Is every slot one that this code could have left? For files that were opened alone. */
bool weir_wide_check(struct weir_table *table);

/* ---- wide_slots.c ---- */

/* Takes the lock. false: limits or segments that others have made cannot be read for want of memory. */
bool weir_wide_enter(struct locked_stripe *locked, struct weir_table *table, uint64_t stripe);
void weir_wide_leave(struct locked_stripe *locked);
/* The same for a lock that the caller has, with a journal that is open. */
bool weir_wide_join(struct locked_stripe *locked, struct weir_table *table, uint64_t stripe,
                    struct journal *journal);

bool weir_wide_find(const struct locked_stripe *locked, const struct key *key, struct wide_ref *place);
/* The same for any key that is called so. */
bool weir_wide_has(const struct locked_stripe *locked, uint64_t hash);
/* A place for a new key: empty, or of a key that may be forgotten. */
bool weir_wide_room(struct locked_stripe *locked, uint64_t hash, int64_t now, struct wide_ref *place);
/* Puts a key there, with the state in `scratch`; who was there before is forgotten. */
void weir_wide_insert(struct locked_stripe *locked, const struct wide_ref *place, const struct key *key,
                      int64_t now);
/* Makes the state one of the edition at hand. Uses `scratch`. */
void weir_wide_convert(struct locked_stripe *locked, const struct wide_ref *place);
/* May it be forgotten? Converts it first. */
bool weir_wide_droppable(struct locked_stripe *locked, const struct wide_ref *place, int64_t now);
void weir_wide_forget(struct locked_stripe *locked, const struct wide_ref *place, int64_t now);
/* Moves what is in that slot of a closed segment to an open one, or forgets it. Only in memory of the
 * process: nobody is killed in the middle of it. false: there is no room. */
bool weir_wide_rehash(struct locked_stripe *locked, const struct wide_ref *from, int64_t now);
/* Copies the state to `to`, as it can be used. */
void weir_wide_fetch(const struct locked_stripe *locked, struct wide_slot *slot, int64_t *to, int64_t now);
/* These bytes of a slot are about to be changed. */
void weir_wide_save(struct locked_stripe *locked, const void *address, size_t bytes);

/* ---- wide.c ---- */

/* The place of the key's state, made if there is none: its own or, without room, what the stripe's keys
 * share; then who takes is to be noted (overflow_filter.h). false: no room, and keys do not share, or no
 * memory. */
bool weir_wide_settle(struct locked_stripe *locked, const struct key *key, int64_t now,
                      struct wide_ref *place);

/* Does an EXPORT or IMPORT to what keys of the stripe share that found no room. false: no memory. */
bool weir_wide_shared(struct weir_table *table, uint64_t stripe, struct table_op *op);

/* ---- wide_walk.c ---- */

/* Called under the lock, for each slot that is not empty. */
typedef void visit_slot(struct locked_stripe *locked, const struct wide_ref *place, void *arg);
/* `lines` slots from `line` on, of all segments in turn. The lock is held for some at a time. false: some
 * were left out, for want of memory. */
bool weir_wide_visit(struct weir_table *table, uint64_t line, uint64_t lines, visit_slot *visit, void *arg);

size_t weir_wide_sweep(struct weir_table *table, int64_t now, uint64_t line, uint64_t lines, bool clear);
bool weir_wide_each(struct weir_table *table, int64_t now, weir_each_key *each, void *arg);
uint64_t weir_wide_count(struct weir_table *table, int64_t now, uint64_t line, uint64_t lines);

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
