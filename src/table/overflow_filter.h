/* SPDX-License-Identifier: MIT */
/*
 * Which keys have taken from what keys without room share, since that was last as if never used: they start
 * from it when they come in, all others start fresh. A Bloom filter: it may say yes of a key that has not,
 * which is the safe side, and never no of one that has. The locks that guard what is shared guard it, too:
 * words have one filter under the lock of stripe 0, each stripe of a wide table has a part of its own. It is
 * read without.
 *
 * Tables in files have none: there everybody starts from what is shared.
 */
#ifndef WEIR_TABLE_OVERFLOW_FILTER_H
#define WEIR_TABLE_OVERFLOW_FILTER_H

#include "table/table.h"

#ifndef OVERFLOW_FILTER_BITS /* the explorer has fewer */
#define OVERFLOW_FILTER_BITS 65536
#endif
#define OVERFLOW_FILTER_WORDS (OVERFLOW_FILTER_BITS / 64)

/* May the key have taken from it? */
bool weir_overflow_filter_has(const struct weir_table *table, uint64_t hash);
/* Makes the filter, if there is none yet. false: out of memory, so nobody may take. */
bool weir_overflow_filter_make(struct weir_table *table);
/* The key is about to take. There is a filter. */
void weir_overflow_filter_add(struct weir_table *table, uint64_t hash);
/* What that key's stripe shares is as if never used: after the floor was raised. */
void weir_overflow_filter_clear(struct weir_table *table, uint64_t hash);
/* Nobody knows who has taken: everybody may have. false: out of memory. */
bool weir_overflow_filter_fill(struct weir_table *table);
void weir_overflow_filter_free(struct weir_table *table);

#endif
