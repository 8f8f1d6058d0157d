/* SPDX-License-Identifier: MIT */
/*
 * What making a table, changing it and growing it share.
 */
#ifndef WEIR_TABLE_MAKE_H
#define WEIR_TABLE_MAKE_H

#include "table/table.h"

/* Limits made ready; the text may be any that people write. */
struct edition *weir_edition_new(const char *text, uint64_t generation, int64_t time, struct weir_error *err);
void weir_edition_free(struct edition *edition); /* and all older ones */
/* Can a word hold its state? */
bool weir_edition_suits_words(struct edition *edition);

/* Reads the limits that the region is at. */
bool weir_table_load(struct weir_table *table, struct weir_error *err);

/* Of all segments. */
uint64_t weir_table_lines(struct weir_table *table);

#endif
