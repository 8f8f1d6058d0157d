/* SPDX-License-Identifier: MIT */
/* How tables of slots are captured, as struct persist_ops says. */
#ifndef WEIR_TABLE_PERSIST_CAPTURE_WORDS_H
#define WEIR_TABLE_PERSIST_CAPTURE_WORDS_H

#include "table/persist/persist.h"

void weir_words_capture(const struct persist *persist, struct slot *slot, uint64_t hash, struct buffer *out);
bool weir_words_walk(const struct persist *persist, uint64_t *cursor, struct buffer *out, size_t bytes);

#endif
