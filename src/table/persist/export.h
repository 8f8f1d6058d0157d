/* SPDX-License-Identifier: MIT */
/*
 * Keys on their way to another table: each with the words of its state, in region time, and the units that it
 * has spent of each limit.
 *
 * Law: what is brought in is never less spent than it was. A key that is as if never used where it comes to
 * gets the same words, if its table has the same limits, hash key and region time; else, and if it has spent
 * something there as well, the spent units are charged on top.
 *
 * Where limits come with each call a key has spent nanoseconds, until it is full again: they add up.
 *
 * A table is walked by ranges of hashes, so that a walk may stop and go on at any time: whatever comes in,
 * goes or makes the table grow meanwhile, a key that is there all the time is met.
 */
#ifndef WEIR_TABLE_PERSIST_EXPORT_H
#define WEIR_TABLE_PERSIST_EXPORT_H

#include "table/table.h"

#define EXPORT_WORDS_MAX 1024 /* of a state; of a larger one only what it has spent is told */

struct export_range { /* of hashes, both ends included; a key's is never 0 */
    uint64_t from, to;
};

struct export_key {
    uint64_t hash;
    const void *name; /* or NULL: only the hash is known */
    size_t len;
    const int64_t *words;
    size_t count; /* of words; 0: only what it has spent is known, as of a key with limits of its own */
    int64_t spent[WEIR_LIMITS_MAX], most[WEIR_LIMITS_MAX];
    size_t limits;
    int64_t reset_after_ns; /* until it is as if never used */
};
typedef bool export_each(void *arg, const struct export_key *key); /* false: stop */

/* Calls back for the keys that are not as if never used, from range->from on, and moves that on; after about
 * `most` of them it stops. `names` may be NULL. false: it failed, for want of memory, or `each` did. It was
 * the last if range->from is above range->to, or 0. */
struct name_index;
bool weir_table_export(struct weir_table *table, int64_t now_ns, struct export_range *range, size_t most,
                       const struct name_index *names, export_each *each, void *arg);

/* Brings one in, by its name or else its hash (not where whole keys are kept). `words`, if there are any,
 * count by the limits and the region time of the table. false: no room. */
bool weir_table_import(struct weir_table *table, int64_t now_ns, const struct export_key *key);

/*
 * What keys that found no room share (docs/internals/tables.md, 16): one of them has spent there, and it is
 * not known which one. So it moves, too, in two steps. Before keys come in, those that are here already are
 * charged, each as if it had been the one. After them what is shared here is charged: before that, they would
 * start from it.
 */
struct export_shared {
    struct export_range of; /* the hashes, of those asked for, whose keys share it */
    struct export_key key;  /* without hash and name */
};
typedef bool export_each_shared(void *arg, const struct export_shared *shared); /* false: stop */

/* Calls back for those that are not as if never used, and that keys of the range share. false: it failed, or
 * `each` did. */
bool weir_table_export_shared(struct weir_table *table, int64_t now_ns, const struct export_range *range,
                              export_each_shared *each, void *arg);
/* The two steps. false: for want of memory. */
bool weir_table_expect_shared(struct weir_table *table, int64_t now_ns, const struct export_shared *shared);
bool weir_table_import_shared(struct weir_table *table, int64_t now_ns, const struct export_shared *shared);

/* A table that takes over hash key and region time of another: `time` is its region time at `now_ns`. Only
 * before anybody uses it. */
void weir_table_adopt_time(struct weir_table *table, int64_t now_ns, int64_t time);

#endif
