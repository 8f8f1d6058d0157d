/* SPDX-License-Identifier: MIT */
/*
 * What making a table, changing it and growing it share.
 */
#ifndef WEIR_TABLE_MAKE_H
#define WEIR_TABLE_MAKE_H

#include "table/override.h"
#include "table/table.h"

/* Limits made ready; the text may be any that people write. */
struct edition *weir_edition_new(const char *text, uint64_t generation, int64_t time, struct weir_error *err);
void weir_edition_free(struct edition *edition); /* and all older ones */
/* Can a word hold its state? */
bool weir_edition_suits_words(struct edition *edition);

/* Would weir_table_set accept these limits, as far as their text and form go? */
bool weir_table_can_set(struct weir_table *table, const char *limits);

/* Under the change lock: finishes a change whose caller has died before all states were converted. */
void weir_table_finish_change(struct weir_table *table, const struct edition *latest, int64_t now);

/* Frees limits of this process that nobody needs any more: those before the generation before `generation`.
 * Every call to the table that has not ended yet must have begun when that was in force. */
void weir_table_forget(struct weir_table *table, uint64_t generation);

/* Reads the limits that the region is at. */
bool weir_table_load(struct weir_table *table, struct weir_error *err);

/* These limits are in force from now on, those before them were it last, and every state is of them: by who
 * has the table for himself. */
void weir_table_resume(struct weir_table *table, struct edition *latest);

/* As weir_table_make, in memory, to be kept by a store. `key` NULL: one is drawn. A state has at least so
 * many words. */
struct weir_table *weir_table_make_stored(const char *limits, const struct weir_table_options *options,
                                          const struct hash_key *key, size_t state_words,
                                          struct weir_error *err);
/* The options with which it could be made again; those of files are 0. */
void weir_table_options_of(const struct weir_table *table, struct weir_table_options *options);

/* Of all segments; and of those of them that are retired, which are the first. */
uint64_t weir_table_lines(struct weir_table *table);
uint64_t weir_table_retired(const struct weir_table *table);
/* The same for slots, without those that are retired or closed. */
uint64_t weir_table_open_slots(struct weir_table *table);
/* Lines of a segment for so many keys. */
uint64_t weir_table_lines_for(const struct weir_table *table, uint64_t keys);

/* Journals hold one state of the table, or of a key with limits of its own, and what is beside it. */
static inline void table_shape_journals(struct region_shape *shape)
{
    uint64_t state = shape->slot_size > OVERRIDE_WORDS * sizeof(int64_t) ? shape->slot_size
                                                                         : OVERRIDE_WORDS * sizeof(int64_t);
    shape->journal_size = weir_journal_size(state + 256, 8);
    shape->transaction_size = weir_journal_size(WEIR_ALL_MAX * (state + 64), WEIR_ALL_MAX * 4);
}

#endif
