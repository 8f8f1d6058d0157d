/* SPDX-License-Identifier: MIT */
/* Records of wide tables and of keys with limits of their own: captured as struct persist_ops says, and
 * applied. */
#ifndef WEIR_TABLE_PERSIST_RECORDS_WIDE_H
#define WEIR_TABLE_PERSIST_RECORDS_WIDE_H

#include "table/persist/recover.h"

struct wide_slot;
void weir_wide_capture(const struct persist *persist, struct wide_slot *slot, uint64_t hash,
                       struct buffer *out);
bool weir_wide_record_walk(const struct persist *persist, uint64_t *cursor, struct buffer *out, size_t bytes);

/* Under the stripe's lock: the record of a key with limits of its own. false: it has none. */
bool weir_override_put_record(const struct persist *persist, struct weir_table *table, const struct key *key,
                              struct buffer *out);

/* The record of a key that is nowhere; `number` was drawn before that was found out. */
void weir_gone_put(const struct persist *persist, uint64_t hash, uint64_t number, struct buffer *out);

bool weir_wide_apply(struct weir_table *table, const unsigned char *body, size_t len, bool *failed);
bool weir_wide_apply_gone(struct weir_table *table, const struct gone_record *gone, bool *failed);
bool weir_wide_apply_part(struct weir_table *table, const unsigned char *body, size_t len, bool *failed);
bool weir_wide_apply_override(struct weir_table *table, uint64_t number, struct override_record *own,
                              size_t len, bool *failed);
bool weir_wide_recovered(struct weir_table *table, enum table_recover how, int64_t now);

#endif
