/* SPDX-License-Identifier: MIT */
/*
 * A wide table by hand, for its tests. What belongs to other files is played here: new limits, names, keys
 * with limits of their own.
 */
#ifndef WEIR_TESTS_WIDE_TABLE_H
#define WEIR_TESTS_WIDE_TABLE_H

#include "table/wide.h"

#define COUNT(ARRAY) (sizeof(ARRAY) / sizeof(ARRAY)[0])

/* `widest` may be NULL; else states have room for these limits, too. */
struct weir_table *table_new(const char *limits, const char *widest, size_t keys, size_t key_max);
/* One that children share. */
struct weir_table *table_shared(const char *limits, size_t keys, size_t key_max);
void table_free(struct weir_table *table);
void table_change(struct weir_table *table, const char *limits, int64_t time);
bool table_grow(struct weir_table *table, size_t keys);

const struct weir_policy *policy_of(struct weir_table *table);
uint64_t lines_of(const struct weir_table *table);
uint64_t keys_in(struct weir_table *table, int64_t now);
size_t sweep_all(struct weir_table *table, int64_t now);

struct key key_of(const struct weir_table *table, const char *name);
/* Where the key lives; slot NULL: nowhere. */
struct wide_ref place_of(struct weir_table *table, const struct key *key);

/* Is every key within its home's reach, and no reach farther than needed? */
bool is_tight(struct weir_table *table);

extern int names_told;
/* One key, at most, has limits of its own here: they let nothing pass, and 77 units remain. */
extern uint64_t overridden_hash;

static inline uint64_t counter(const atom64 *counter)
{
    return atom_load(counter, memory_order_relaxed);
}

#endif
