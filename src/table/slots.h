/* SPDX-License-Identifier: MIT */
/*
 * Where keys live in a table of 16-byte slots, and how they come in and go out without a lock. The proofs are
 * in docs/internals/tables.md, 13 to 17, and exact-keys.md.
 *
 * A key's home is a line of four slots in each segment. It may live there or in a line behind, as far as the
 * line's reach tells; the lines within reach, of all segments, are its window. Reach only grows.
 *
 *   coming in   claims a slot with a TENTATIVE word that nobody has used before, looks through the whole
 *               window again, and makes the entry that stands in the lowest place PLAIN; others are removed.
 *               Whoever asks for the key settles an entry whose inserter was killed. A key starts at the
 *               floor at the earliest, and no better than what keys without room share, if it has taken from
 *               that. All of this is read after the entry was seen; so are the generation and whether the
 *               segment is closed, and who changes or closes removes every tentative entry that it passes
 *   going out   raises the floor, then empties the slot, once the key has been as if never used for
 *               TABLE_GRACE_NS
 *   moving      under the lock of the key's stripe: held, copied to an open segment, emptied here. Looks go
 *               through the segments in rising order, and again if one was added meanwhile
 *   witness     of an exact table: written under the number of the tentative word, before the entry is plain
 *
 * Inserts and looks need one order for all: they are sequentially consistent.
 */
#ifndef WEIR_TABLE_SLOTS_H
#define WEIR_TABLE_SLOTS_H

#include "table/table.h"

#define LINE_SLOTS 4
#define REACH_MAX  63 /* lines behind its home that a key may live */

struct slot_ref {
    struct segment *segment;
    uint64_t line;
    struct slot *slot; /* NULL: nowhere */
};

/* The key's entry, whatever its kind, but tentative; looks no further than the window. */
struct slot_ref weir_slots_find(struct weir_table *table, uint64_t hash);
/* The same for this very key: none, if another one that is called so is there. */
struct slot_ref weir_slots_find_key(struct weir_table *table, const struct key *key);
/* Is there one of any kind, or may there be? */
bool weir_slots_any(struct weir_table *table, uint64_t hash);
/* The key's entry. NULL: tentative ones were removed, so that who brings it in begins anew; *gone: all that
 * there were, else one may have become plain meanwhile. */
struct slot *weir_slots_seek(struct weir_table *table, uint64_t hash, bool *gone);
/* After a key without room has taken from the shared state: has it come in meanwhile, or may it have come in
 * and been forgotten again, at a time for which the reading `now` is too old? */
bool weir_slots_came(struct weir_table *table, const struct key *key, int64_t now);
/* The key's entry, put there if it is not, under the latest limits: *edition is the latest afterwards. NULL:
 * no room; or no memory for the latest limits, and *edition is NULL, too. */
struct slot_ref weir_slots_settle(struct weir_table *table, const struct edition **edition,
                                  const struct key *key, int64_t now);
/* Moves the entry in that slot of a closed segment to an open one, drops it if it may be forgotten, and
 * removes it if it is tentative. Under `change` and the lock of stripe `stripe`; *left: it is of another one,
 * and stays. false: there is no room for it. */
bool weir_slots_rehash(struct weir_table *table, const struct edition *edition, struct slot *from,
                       uint64_t stripe, int64_t now, bool *left);
/* Could the key come in at `now`? */
bool weir_slots_has_room(struct weir_table *table, const struct edition *edition, const struct key *key,
                         int64_t now);
/* May the slot's key be forgotten at `now`? No, if `edition` is not the latest any more. */
bool weir_slot_is_idle(struct weir_table *table, const struct edition *edition, uint64_t hash, uint64_t word,
                       int64_t now);
/* Empties the slot, if it still is {hash, word}, of which weir_slot_is_idle has said yes, or which is
 * tentative. */
bool weir_slots_drop(struct weir_table *table, struct slot *slot, uint64_t hash, uint64_t word, int64_t now);
/* Under the lock of stripe 0: forgets who has taken from what is shared, if that is as if never used. */
void weir_slots_clear_overflow_filter(struct weir_table *table, const struct edition *edition, int64_t now);
/* Empties the slot of a tentative entry, or of one whose key was forgotten or moved, if it still is that. */
bool weir_slots_empty(struct weir_table *table, struct slot *slot, uint64_t hash, uint64_t word);

/* For assertions, while nobody else uses the table: is every entry of that key, or of any (0), where it may
 * be, and each key there once? `settled`: nobody has died while a key came in. Gives how many there are. */
uint64_t weir_slots_check(struct weir_table *table, uint64_t only, bool settled);

static inline atom128 *slots_witness(const struct segment *segment, const struct slot *slot)
{
    return segment->witnesses + (slot - region_slot(segment, 0));
}

/* Is the entry in the slot, which has the key's hash, this key's and no other's? Only as long as the slot is
 * what it was when that was read. */
static inline bool slots_is_key(const struct segment *segment, const struct slot *slot, const struct key *key)
{
    const atom128 *witness = slots_witness(segment, slot);
    uint64_t rest = atom_load(&witness->low, memory_order_acquire);
    uint64_t form = atom_load(&witness->high, memory_order_acquire);
    return rest == key->rest && (form & ((1 << EXACT_FORM_BITS) - 1)) == key->form;
}

/* The same for whoever goes on to exchange the word, which he has read before. Where keys are hashes, and of
 * what is shared, who is all there is. */
static inline bool slots_has_key(const struct weir_table *table, struct slot_ref place, const struct key *key)
{
    return !table->is_exact || !place.segment || slots_is_key(place.segment, place.slot, key);
}

/* The name of the entry in the slot, which has that who: that of one key. Only as long as the slot is what it
 * was. A witness is written as a whole, and never twice under one number. */
static inline struct exact_name slots_name(const struct segment *segment, const struct slot *slot,
                                           uint64_t hash)
{
    const atom128 *witness = slots_witness(segment, slot);
    uint64_t rest, form, again = atom_load(&witness->high, memory_order_acquire);
    do {
        form = again;
        rest = atom_load(&witness->low, memory_order_acquire);
        again = atom_load(&witness->high, memory_order_acquire);
    } while (again != form);
    return (struct exact_name){hash, rest, (uint32_t)form & ((1 << EXACT_FORM_BITS) - 1)};
}

/* Which of the four it is nobody can foresee: computed, not branched on, so that a processor can run ahead to
 * the next take while the line is on its way. */
static inline struct slot *slots_in_line(struct slot *line, uint64_t hash)
{
    unsigned is = 0;
    for (unsigned i = 0; i < LINE_SLOTS; i++)
        is |= (unsigned)(slot_hash(&line[i]) == hash) << i;
    return __builtin_expect(is != 0, 1) ? line + __builtin_ctz(is) : NULL;
}

/* In that segment, in its home line or the next one: there nearly all keys are. */
static inline struct slot *slots_near_home(const struct segment *segment, uint64_t hash)
{
    uint64_t home = hash_to_index(hash, segment->lines);
    struct slot *line = region_slot(segment, home * LINE_SLOTS), *slot = slots_in_line(line, hash);
    if (__builtin_expect(!slot && home + 1 < segment->lines, 0))
        slot = slots_in_line(line + LINE_SLOTS, hash);
    return slot;
}

/* Further from it, as far as its reach. */
struct slot *weir_slots_far(const struct segment *segment, uint64_t hash);

static inline void slots_prefetch(const struct segment *segment, uint64_t hash)
{
    __builtin_prefetch(region_slot(segment, hash_to_index(hash, segment->lines) * LINE_SLOTS), 1);
}

#endif
