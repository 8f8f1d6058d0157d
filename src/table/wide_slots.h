/* SPDX-License-Identifier: MIT */
/* The slots of a wide table: found, made, forgotten, walked along; by who has the lock of their stripe. */
#ifndef WEIR_TABLE_WIDE_SLOTS_H
#define WEIR_TABLE_WIDE_SLOTS_H

#include "table/wide.h"

/* For wide tables a region of this shape, but for its journals: so many keys fit, with a state of so many
 * words and whole keys of up to `key_max` bytes. */
void weir_wide_shape(struct region_shape *shape, size_t keys, size_t words, size_t key_max);
/* Lines of a segment for so many keys more. */
uint64_t weir_wide_lines(const struct region_shape *shape, size_t keys);
/* Could that be the shape of a wide table with such states? A file may say anything. */
bool weir_wide_shape_fits(const struct region_shape *shape, uint64_t words);
/* Private memory for states that are too large for the stack, if the table is in a file. false: there is
 * none. */
bool weir_wide_copies(struct weir_table *table);
/* Is every slot one that this code could have left? For files that were opened alone. */
bool weir_wide_check(struct weir_table *table);

/* Takes the lock. false: limits or segments that others have made cannot be read for want of memory. */
bool weir_wide_enter(struct locked_stripe *locked, struct weir_table *table, uint64_t stripe);
void weir_wide_leave(struct locked_stripe *locked);
/* The same for a lock that the caller has, with a journal that is open. */
bool weir_wide_join(struct locked_stripe *locked, struct weir_table *table, uint64_t stripe,
                    struct journal *journal);

bool weir_wide_find(const struct locked_stripe *locked, const struct key *key, struct wide_ref *place);
/* The same for any key that is called so. */
bool weir_wide_has(const struct locked_stripe *locked, uint64_t hash);
/* A place for a new key: empty, or of a key that may be forgotten. */
bool weir_wide_room(struct locked_stripe *locked, uint64_t hash, int64_t now, struct wide_ref *place);
/* Puts a key there, with the state in `scratch`; who was there before is forgotten. */
void weir_wide_insert(struct locked_stripe *locked, const struct wide_ref *place, const struct key *key,
                      int64_t now);
/* Makes the state one of the edition at hand. Uses `scratch`. */
void weir_wide_convert(struct locked_stripe *locked, const struct wide_ref *place);
/* May it be forgotten? Converts it first. */
bool weir_wide_droppable(struct locked_stripe *locked, const struct wide_ref *place, int64_t now);
void weir_wide_forget(struct locked_stripe *locked, const struct wide_ref *place, int64_t now);
/* Moves what is in that slot of a closed segment to an open one, or forgets it. Only in memory of the
 * process: nobody is killed in the middle of it. false: there is no room. */
bool weir_wide_rehash(struct locked_stripe *locked, const struct wide_ref *from, int64_t now);
/* Copies the state to `to`, as it can be used. */
void weir_wide_fetch(const struct locked_stripe *locked, struct wide_slot *slot, int64_t *to, int64_t now);
/* These bytes of a slot are about to be changed. */
void weir_wide_save(struct locked_stripe *locked, const void *address, size_t bytes);

/* Called under the lock, for each slot that is not empty. */
typedef void visit_slot(struct locked_stripe *locked, const struct wide_ref *place, void *arg);
/* `lines` slots from `line` on, of all segments in turn. The lock is held for some at a time. false: some
 * were left out, for want of memory. */
bool weir_wide_visit(struct weir_table *table, uint64_t line, uint64_t lines, visit_slot *visit, void *arg);

size_t weir_wide_sweep(struct weir_table *table, int64_t now, uint64_t line, uint64_t lines, bool clear);
bool weir_wide_each(struct weir_table *table, int64_t now, weir_each_key *each, void *arg);
uint64_t weir_wide_count(struct weir_table *table, int64_t now, uint64_t line, uint64_t lines);

#endif
