/* SPDX-License-Identifier: MIT */
/*
 * Live change of a table: its limits, made ready, and what making and growing it share with that.
 */
#ifndef WEIR_TABLE_CHANGE_H
#define WEIR_TABLE_CHANGE_H

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

/* Of all segments; and of those of them that are retired, which are the first. */
uint64_t weir_table_lines(struct weir_table *table);
uint64_t weir_table_retired(const struct weir_table *table);
/* The same for slots, without those that are retired or closed. */
uint64_t weir_table_open_slots(struct weir_table *table);

/* Journals hold one state of the table, or of a key with limits of its own, and what is beside it. */
static inline void table_shape_journals(struct region_shape *shape)
{
    uint64_t state = shape->slot_size > OVERRIDE_WORDS * sizeof(int64_t) ? shape->slot_size
                                                                         : OVERRIDE_WORDS * sizeof(int64_t);
    shape->journal_size = weir_journal_size(state + 256, 8);
    shape->transaction_size = weir_journal_size(WEIR_ALL_MAX * (state + 64), WEIR_ALL_MAX * 4);
}

/* The latest, which the region is at; reads it from there if another process has changed it. NULL: that
 * failed, for want of memory: refuse. */
struct edition *weir_table_refresh(struct weir_table *table);

static inline struct edition *table_edition(struct weir_table *table)
{
    struct edition *edition = atomic_load_explicit(&table->edition, memory_order_acquire);
    uint64_t generation = atom_load(&table->region->header->generation, memory_order_acquire);
    return __builtin_expect(edition->generation == generation, 1) ? edition : weir_table_refresh(table);
}

#endif
