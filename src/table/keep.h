/* SPDX-License-Identifier: MIT */
/*
 * A table that a store keeps.
 *
 * Records, by kind; `number` has 48 bits of number and, above them, the low 16 of the generation:
 *   TABLE_WORD   who, number, word                          words, own
 *   TABLE_WIDE   who, number, whole key if it is kept (length, bytes in whole words), words of the state
 *   TABLE_OWN    who, number, whole key if it is kept, limits of this key alone (length, bytes in whole
 *                words), words of the state                 a key with limits of its own
 * who OVERFLOW_WHO: what keys without room share; of a wide table behind the number the stripe.
 *
 * Limits of before a live change are kept as long as there may be records of them: since the last image.
 */
#ifndef WEIR_TABLE_KEEP_H
#define WEIR_TABLE_KEEP_H

#include "region/keep.h"
#include "table/table.h"

enum { TABLE_WORD = 1, TABLE_WIDE, TABLE_OWN };

extern const struct keep_kind weir_table_keep; /* owner: struct weir_table */

/* A table in memory that can be kept: as weir_table_make(NULL, ...), with numbers. `key` NULL: one is drawn.
 */
struct weir_table *weir_table_new_kept(const char *limits, const struct weir_table_options *options,
                                       const struct hash_key *key, struct weir_error *err);

/* All that is needed to make it again, empty: kind, limits of the generations that records may be of, hash
 * key, room, options. A block of text or bytes of its own, versioned. */
void weir_table_describe(struct weir_table *table, struct buffer *out);
/* Then come weir_store_add, records, and weir_table_recovered. */
struct weir_table *weir_table_describe_read(const void *bytes, size_t len, struct weir_error *err);

enum table_recover {
    TABLE_EXACT,     /* what is there counts */
    TABLE_FLOOR,     /* every key, also one not seen before, is empty as of now */
    TABLE_OPTIMISTIC /* every key is as if never used */
};
/* After the last record: states become those of the latest limits. `now` is region time. */
void weir_table_recovered(struct weir_table *table, enum table_recover how, int64_t now);

/* An image is complete that was begun when the table was at `generation`: limits before that are not needed
 * any more. */
void weir_table_history_forget(struct weir_table *table, uint64_t generation);

#endif
