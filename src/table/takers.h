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
#ifndef WEIR_TABLE_TAKERS_H
#define WEIR_TABLE_TAKERS_H

#include "table/table.h"

#ifndef TAKERS_BITS /* the explorer has fewer */
#define TAKERS_BITS 65536
#endif
#define TAKERS_WORDS (TAKERS_BITS / 64)

/* May the key have taken from it? */
bool weir_takers_have(const struct weir_table *table, uint64_t who);
/* Makes the filter, if there is none yet. false: out of memory, so nobody may take. */
bool weir_takers_make(struct weir_table *table);
/* The key is about to take. There is a filter. */
void weir_takers_add(struct weir_table *table, uint64_t who);
/* What that key's stripe shares is as if never used: after the floor was raised. */
void weir_takers_clear(struct weir_table *table, uint64_t who);
/* Nobody knows who has taken: everybody may have. false: out of memory. */
bool weir_takers_fill(struct weir_table *table);
void weir_takers_free(struct weir_table *table);

#endif
