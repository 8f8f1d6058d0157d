/* SPDX-License-Identifier: MIT */
/* Records of tables of slots come back. */
#ifndef WEIR_TABLE_PERSIST_RECOVER_WORDS_H
#define WEIR_TABLE_PERSIST_RECOVER_WORDS_H

#include "table/persist/recover.h"

bool weir_words_apply(struct weir_table *table, const struct word_record *record, bool *failed);
bool weir_words_apply_override(struct weir_table *table, uint64_t number, struct override_record *own,
                               size_t len, bool *failed);
/* Those that are on their way. false: out of memory. */
bool weir_words_apply_pending(struct weir_table *table);
bool weir_words_recovered(struct weir_table *table, enum table_recover how, int64_t now);

#endif
