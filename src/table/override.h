/* SPDX-License-Identifier: MIT */
/*
 * Keys with limits of their own. They are in a part of the region:
 *
 *   head | hash of each place | places: number, key, limits, state
 *
 * A key's place is found from its hash on, place by place, up to the first that was never used. What belongs
 * to a key changes only under the lock of its stripe, and `hash` of a place is saved in that stripe's journal
 * before it changes: so the key has the limits of before or of after, with the state that goes with them,
 * whenever its holder is killed. Places are given out under `change`; who gets that lock after a death lets
 * the dead one's stripe be recovered first.
 */
#ifndef WEIR_TABLE_OVERRIDE_H
#define WEIR_TABLE_OVERRIDE_H

#include "table/table.h"

#define OVERRIDE_WORDS    64  /* most words of a state */
#define OVERRIDE_TEXT_MAX 512 /* bytes of the limits, with the NUL */

/* Of PART_OVERRIDES, for so many keys. All zero it is empty. */
uint64_t weir_override_part_size(size_t overrides, size_t key_max);
/* Is every place one that this code could have left? For files that were opened alone. */
bool weir_override_check(struct weir_table *table);
/* What this process has made ready. */
void weir_override_free(struct weir_table *table);

/* The limits of the key's own, as text. NULL: it has none. Under the stripe's lock, which also guards the
 * policy and the state, in the region. *policy is NULL if there is no memory to make it ready. */
const char *weir_override_find(struct weir_table *table, const struct key *key,
                               const struct weir_policy **policy, int64_t **state);
/* How many keys may have limits of their own. */
size_t weir_override_room(const struct weir_table *table);
/* A key that had limits of its own has them again, with a state of them; by who has the table for himself.
 * false: no room. */
bool weir_override_restore(struct weir_table *table, const struct key *key, const char *text,
                           const int64_t *state, size_t words);
/* Every state of such a key in turn; by who has the table for himself. */
void weir_override_each(struct weir_table *table,
                        void (*each)(void *arg, const struct weir_policy *policy, int64_t *state), void *arg);
/* Is there one for a key that is called so? */
bool weir_override_has(struct weir_table *table, uint64_t hash);

/* After recovery: keys with limits of their own that are called none of these have the table's again. */
bool weir_override_only(struct weir_table *table, const uint64_t *hashes, size_t count,
                        struct weir_error *err);

/* Under header->change, before anything else: somebody may have died while he changed the limits of a key.
 * That is undone, or it was done. */
void weir_override_settle(struct weir_table *table);

/* Under the stripe's lock: does the operation, if the key has limits of its own. false: it has none. */
bool weir_override_run(struct weir_table *table, const struct key *key, struct stripe *stripe,
                       struct table_op *op, bool *answer);

#endif
