/* SPDX-License-Identifier: MIT */
/*
 * A table that a store keeps.
 *
 * Records, by kind; `number` has 48 bits of number and, above them, the low 16 of the generation:
 *   TABLE_WORD   hash, number, word                          words of hashed keys, own
 *   TABLE_WHOLE  hash, number, word, rest, form              words of whole keys: see exact.h
 *   TABLE_WIDE   hash, number, whole key if it is kept (length, bytes in whole words), words of the state
 *   TABLE_OVERRIDE    hash, number, whole key if it is kept, limits of this key alone (length, bytes in whole
 *                words), words of the state                 a key with limits of its own
 *   TABLE_GONE   hash, number                                no key that is called so is there
 *   TABLE_PART   hash, number, offset, length of all, bytes  a piece of a TABLE_WIDE that is too long; pieces
 *                                                           follow each other
 * hash OVERFLOW_HASH: what keys without room share, in a table of words a TABLE_WORD; of a wide table behind
 * the number the stripe, and no key.
 *
 * All numbers of a table are drawn from its region's counter: those of words by whoever makes a word less
 * spent (region/persist.h), all others by whoever captures, under the lock of the key's stripe. A word of a
 * key that gets limits of its own, or loses them, is changed under that lock, too, and has a new number
 * before it can be seen again. So the records of a key can be compared, whatever it was: see record_counts.
 *
 * A key that was made less spent, or lost limits of its own, may be forgotten before it is captured; what is
 * on the disk of it tells of the time before. So who captures a key that is not where he listed it looks for
 * it, and if it is nowhere he says so, under a number that was drawn before he looked: of a key that comes in
 * later the number is higher.
 *
 * Of whole keys in a table of words two may be called the same, one after the other (exact.h). Records are
 * compared by who alone: the entry of the second was made when the first was nowhere, so its number is
 * higher, and what the first had was as if never used.
 *
 * Limits of before a live change are kept as long as there may be records of them: since the last image. A
 * conversion is no record: the next one of the key is of the later generation, which counts.
 */
#ifndef WEIR_TABLE_PERSIST_PERSIST_H
#define WEIR_TABLE_PERSIST_PERSIST_H

#include "region/persist.h"
#include "table/history.h"
#include "table/table.h"

enum { TABLE_WORD = 1, TABLE_WIDE, TABLE_OVERRIDE, TABLE_GONE, TABLE_PART, TABLE_WHOLE };

extern const struct persist_ops weir_table_persist_ops; /* owner: struct weir_table */

/* A table in memory that can be kept: as weir_table_make(NULL, ...), with numbers. `key` NULL: one is drawn.
 */
struct weir_table *weir_table_new_stored(const char *limits, const struct weir_table_options *options,
                                         const struct hash_key *key, struct weir_error *err);

/* All that is needed to make it again, empty: kind, limits of the generations that records may be of, hash
 * key, room, options. A block of bytes of its own, versioned; a multiple of 8. */
void weir_table_describe(struct weir_table *table, struct buffer *out);
/* Then come weir_store_add, records, and weir_table_recovered. */
struct weir_table *weir_table_describe_read(const void *bytes, size_t len, struct weir_error *err);

/* What weir_table_recovered (recover.h) makes of what was read. */
enum table_recover {
    TABLE_EXACT,     /* what is there counts */
    TABLE_FLOOR,     /* every key, also one not seen before, is empty as of now */
    TABLE_OPTIMISTIC /* every key is as if never used */
};

/* ---- numbers of records ---- */

#define RECORD_NUMBER_BITS 48
#define RECORD_NUMBER_MAX  ((UINT64_C(1) << RECORD_NUMBER_BITS) - 1)

/* Numbers do not come to an end in years; should they, the more spent of two words counts. */
static inline uint64_t record_number(uint64_t number, uint64_t generation)
{
    return generation << RECORD_NUMBER_BITS | (number < RECORD_NUMBER_MAX ? number : RECORD_NUMBER_MAX);
}

static inline uint16_t record_generation(uint64_t number)
{
    return (uint16_t)(number >> RECORD_NUMBER_BITS);
}

/*
 * Of two records of one key, does the first count, and the other one not? The higher number; within one the
 * later generation, into which what was there before it was converted; within one the more spent: a word that
 * was made less spent has a higher number by the time that is answered, so of two with the same number the
 * less spent has been taken from less, or its lowering was not answered yet.
 */
static inline bool record_counts(uint64_t number, uint64_t spent, uint64_t over_number, uint64_t over_spent)
{
    uint64_t a = number & RECORD_NUMBER_MAX, b = over_number & RECORD_NUMBER_MAX;
    if (a != b)
        return a > b;
    int16_t later = (int16_t)(uint16_t)(record_generation(number) - record_generation(over_number));
    return later != 0 ? later > 0 : spent > over_spent;
}

/* How spent a word is, among those of its generation. A promise that is outstanding holds others back. */
static inline uint64_t record_spent(uint64_t word)
{
    return slot_value(word) << 1 | (slot_kind(word) == SLOT_PROMISED);
}

#endif
