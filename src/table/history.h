/* SPDX-License-Identifier: MIT */
/*
 * Limits of the past, of a table that a store keeps. Records are of the generation at which they were
 * captured, and may be read when the table is some generations further: then they are converted step by step,
 * as those who were there have been. So the text of each generation is kept, and the time from which it
 * counted, as long as there may be records of it.
 *
 * In memory of the process, under the region's lock `ready`.
 */
#ifndef WEIR_TABLE_HISTORY_H
#define WEIR_TABLE_HISTORY_H

#include "table/table.h"

#define HISTORY_MOST    4096 /* generations; then nobody can change limits before an image has come */
#define HISTORY_CROWDED 256  /* from then on the store is asked for one */
#define TIME_UNKNOWN    INT64_C(-1)

struct past_limits {
    uint64_t generation;
    int64_t time; /* TIME_UNKNOWN: not yet */
    char *text;
    struct past_limits *older;
};

struct limits_history {
    struct past_limits *latest;
    size_t count;
    char *announced; /* or NULL: limits of the next generation, if that comes */
};

/* An empty one, for a table that is to be kept. */
bool weir_history_begin(struct weir_table *table);
void weir_history_free(struct weir_table *table);

/* The next generation, which nobody has seen yet. One that did not come about is replaced. */
bool weir_history_add(struct weir_table *table, uint64_t generation, const char *text, int64_t time,
                      struct weir_error *err);
void weir_history_clear(struct weir_table *table); /* empty again */
void weir_history_set_time(struct weir_table *table, uint64_t generation, int64_t time);

/*
 * Before weir_table_set: these limits may come next. From now on weir_table_describe tells them, so that a
 * note can be appended before anybody takes by them: records of a generation that no catalogue tells of make
 * no sense. If the change then does not come about, that is harmless: recovery does not go to a generation
 * that no record is of, and that was not in force when it was described. NULL: nothing comes. Whoever notes
 * once more after the change tells the time from which the limits count; else that is the time of recovery.
 * false: the text is wrong, or out of memory.
 */
bool weir_table_announce(struct weir_table *table, const char *limits, struct weir_error *err);
uint64_t weir_table_generation(const struct weir_table *table); /* of the limits in force */

/* An image is complete that was begun when the table was at `generation`: limits before those that a state
 * could be of then are not needed any more. (The store calls it by weir_table_persist_ops.imaged.) */
void weir_table_history_forget(struct weir_table *table, uint64_t generation);

#endif
