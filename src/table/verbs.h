/* SPDX-License-Identifier: MIT */
#ifndef WEIR_TABLE_VERBS_H
#define WEIR_TABLE_VERBS_H

#include "base/admission_hook.h"
#include "table/table.h"

/* Is there a table, and is the key one that it can have? */
bool weir_table_knows(const struct weir_table *table, const void *bytes, size_t len);
/* `now` is region time. */
bool weir_table_take_key(struct weir_table *table, const struct key *key, int64_t now, int64_t n,
                         struct weir_verdict *verdict);
bool weir_table_do(struct weir_table *table, const struct key *key, struct table_op *op);

/* The verbs for a key of which only the identity is known (table_hash): not where whole keys are kept. */
void weir_table_give_by_hash(struct weir_table *table, int64_t now_ns, uint64_t hash, int64_t n);
bool weir_table_charge_by_hash(struct weir_table *table, int64_t now_ns, uint64_t hash, int64_t n);
bool weir_table_cancel_by_hash(struct weir_table *table, int64_t now_ns, uint64_t hash,
                               struct weir_reservation *reservation);
bool weir_table_peek_by_hash(struct weir_table *table, int64_t now_ns, uint64_t hash, int64_t n,
                             struct weir_verdict *verdict);

/* Units that may be charged until the key owes as much as its limits let pass at once. */
int64_t weir_table_chargeable_by_hash(struct weir_table *table, int64_t now_ns, uint64_t hash);

/* Every key is as if never used. Gives how many were not. */
int64_t weir_table_reset_all(struct weir_table *table, int64_t now_ns);

/* Lists the key, or what keys without room share, as if this thread had changed it: somebody else has, whose
 * change may not be in the log yet, and what is answered now depends on it. Nothing, if no store keeps it. */
void weir_table_mark_dirty(struct weir_table *table, uint64_t hash);

/* Fetches the memory that a verb for this key will need. */
void weir_table_prefetch(struct weir_table *table, const void *key, size_t len);

/* Fills an element for each limit of the key, at most `count`, for a request of n units, with names if
 * `named`; returns how many limits there are. */
size_t weir_table_numbers_at(struct weir_table *table, int64_t now_ns, const void *key, size_t len, int64_t n,
                             bool named, struct limit_numbers *numbers, size_t count);

#endif
