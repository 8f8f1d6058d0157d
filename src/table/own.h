/* SPDX-License-Identifier: MIT */
/* Tables whose limits come with each call, for the server. */
#ifndef WEIR_TABLE_OWN_H
#define WEIR_TABLE_OWN_H

#include "base/admission_hook.h"
#include "table/table.h"

/* As weir_table_take_own_at, by somebody who may not bring in as many keys as he likes. */
bool weir_table_take_own_as(struct weir_table *table, int64_t now_ns, const void *key, size_t len,
                            const struct weir_own_limit *limit, int64_t n, const struct admission_hook *hook,
                            struct weir_verdict *verdict);
/* Looks at the next `count` places, from *cursor on, and tells which have keys, and whether these are in use
 * or may be forgotten. false: there are no more. A table whose limits come with the call, and which does not
 * grow. */
typedef void own_seen(void *arg, uint64_t place, bool in_use);
bool weir_table_own_look(struct weir_table *table, int64_t now_ns, uint64_t *cursor, uint64_t count,
                         own_seen *seen, void *arg);

#endif
