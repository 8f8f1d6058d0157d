/* SPDX-License-Identifier: MIT */
/*
 * Where keys live in a table of 16-byte slots, and how they come in and go out without a lock.
 *
 * A key's home is a line of four slots in each segment. It may live there or in a line behind, as far as the
 * line's reach tells; the lines within reach, of all segments, are its window. Reach only grows.
 *
 * **A key lives once.** An insert claims a slot for the key with a TENTATIVE word, which nobody has used
 * before, and looks through the whole window again. Of several tentative entries of a key the one in the
 * lowest place stands, the others are removed; a PLAIN one beats them all. An entry X is made PLAIN only by
 * somebody who has seen it, then looked through the window, and found no better one. Let X and Y be entries
 * of one key, and X be inserted before Y. Who makes Y plain has looked after Y came in, hence after X did,
 * and reach was raised before that: so he saw X, or X was gone. If X was plain, or stood lower, he left Y
 * alone; if X stood higher he removed it first, and as its word was unique it can never become plain. So X
 * and Y are never plain at the same time. All of this needs one order of all inserts and looks: they are
 * sequentially consistent. It does not matter who does it: an entry whose inserter was killed is settled by
 * the next who asks for the key.
 *
 * **What is forgotten was as if never used, for everybody.** A slot is dropped when its key has been so for
 * TABLE_GRACE_NS. A thread whose clock reading is older than that could insert the key anew and count its
 * units at a time at which it was not: they would come on top. So, before a slot is dropped at the reading r,
 * `floor` is raised to at least r - TABLE_GRACE_NS, and a key that comes in starts at the floor, if its
 * reading lies before it. Whoever does not find the key reads the floor after the drop.
 *
 * **No key comes in under limits of the past.** Who makes an entry plain looks at the generation after he has
 * seen the entry; a change first sets the generation, then removes every tentative entry it passes. So an
 * entry that came in under the old limits is removed before it is plain, or its inserter sees the new
 * generation.
 * The word it gets is reckoned by that generation, and what it is reckoned from is read before.
 *
 * **A key that moves is never gone, and never there twice.** Growth closes segments, and their keys are moved
 * to the open ones behind them (rehash.c), each under the lock of its stripe: the entry is held, a copy is
 * put into its new place, the old slot is emptied. So there is one at every moment, and of two only the copy
 * can be taken from: whoever meets the other comes to the lock, and looks again. All who look go through the
 * segments in rising order, and again if there is one more at the end of the look: they meet the entry where
 * it was, or where it is. Nothing becomes valid in a closed segment: who makes an entry plain looks whether
 * its segment is open after he has seen the entry; the mover closes the segment first, and then removes every
 * tentative entry it passes. So an entry that came in too late is removed, or its inserter sees that he is
 * too late. When the mover has passed all lines the segment is empty for good.
 *
 * **A witness is its entry's.** Of an exact table an entry is made plain, or held, only when its witness has
 * the number of the tentative word. Who writes a witness reads it, sees that the slot still has that word,
 * and exchanges the witness for one with that number. If the slot had it, every later claim of the slot comes
 * after that moment, and writes a witness with another number: then the exchange fails. So whoever was
 * delayed changes nothing that somebody else relies on. Two keys with the same hash may write to the witness
 * of one entry: the first one has it.
 *
 * **Nobody takes twice by way of the overflow.** A key that finds no room takes from the state that all such
 * keys share. Afterwards it looks whether it has come in meanwhile; and who makes an entry plain reads the
 * shared state after the entry came in, and starts no better than that. One of the two sees the other. If the
 * key has come in and gone again by then, the floor tells: whoever finds it above his reading begins anew.
 * In memory of the process only keys that took from it start from it (overflow_filter.h): a key is noted
 * there before it takes, under the lock of stripe 0, and who makes an entry plain reads the note after the
 * entry came in. Notes are forgotten under the same lock, when what is shared is as if never used: as a drop,
 * after the floor was raised, which is read after the note.
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
