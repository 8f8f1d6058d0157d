/* SPDX-License-Identifier: MIT */
/*
 * Looks into a table: who is there, and with which words.
 */
#ifndef WEIR_TESTS_PROPERTY_TABLE_LOOK_H
#define WEIR_TESTS_PROPERTY_TABLE_LOOK_H

#include "property/table_world.h"

size_t look_places(struct weir_table *table); /* where keys can be */
size_t look_slots(struct weir_table *table);  /* that a sweep goes through */
/* Wide tables: is there something that keys share? */
bool look_is_shared(struct weir_table *table);

/* Reads the words of a key, or of what is shared (NULL), into the cell. false: it is not there. */
bool look_read(const struct site *site, const uint32_t *key, struct cell *cell);
/* The same for all: everybody is where the model has him, with the model's words. */
bool look_read_all(struct world *world, struct site *site);

/* Marks those that are not there any more, and could go at `now`; gives how many. */
size_t look_for_gone(struct site *site, int64_t now);
/* After an operation: the keys that it was about, who had to go for them, and the floor. */
bool look_after(struct world *world, const struct story_action *op);
/* weir_table_each and weir_table_stat show those that cannot be forgotten. */
bool look_at_list(struct world *world, const struct story_action *op);

#endif
