/* SPDX-License-Identifier: MIT */
#ifndef WEIR_TABLE_VERBS_H
#define WEIR_TABLE_VERBS_H

#include "table/table.h"

/* Is there a table, and is the key one that it can have? */
bool weir_table_knows(const struct weir_table *table, const void *bytes, size_t len);
/* `now` is region time. */
bool weir_table_take_key(struct weir_table *table, const struct key *key, int64_t now, int64_t n,
                         struct weir_verdict *verdict);
bool weir_table_do(struct weir_table *table, const struct key *key, struct deed *deed);

#endif
