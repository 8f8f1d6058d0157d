/* SPDX-License-Identifier: MIT */
/*
 * A log of names, in a region's memory (PART_NAMES): a table keeps hashes, and weir_table_each wants to tell
 * names. When a key comes in its name is appended, without a lock. When the log is crowded, the names of keys
 * that are still there are copied to the other one of its two halves, which then is the log.
 *
 *   head | half 0: filter, records | half 1: filter, records
 *
 * A record is a head word (length, turn, whether it is whole), the key's hash and its bytes, in whole words.
 * The first word that is 0 is the end: an appender changes it from 0 to its head word, by which the place is
 * reserved and its length known at the same moment. So an appender who is killed leaves a hole, and never an
 * end.
 *
 * Nothing in it has to be believed. A record counts if the keyed hash of its bytes is the one it has: what
 * was torn, damaged, or written by somebody who slept while the halves changed twice, is nobody's name.
 * Readers then look for the next record word by word. The worst that can happen is that a name is not known.
 *
 * The filter remembers hashes of records, most of them: a key that goes and comes again is seldom logged
 * again.
 */
#ifndef WEIR_TABLE_NAMES_H
#define WEIR_TABLE_NAMES_H

#include "table/table.h"

#define NAME_LENGTH_MAX 4096 /* names that are longer are not kept */
#define NAME_LOG_LEAST  4096 /* bytes of the smallest log */

/* Starts the part; memory that is zero is an empty log. */
struct name_log {
    atom64 turn;        /* halves changed so many times: its lowest bit is the half in use */
    atom64 lost;        /* names that were not kept */
    atom64 ends[2];     /* of the records of each half, in words; may lag behind */
    atom64 packed;      /* where the end was after the last compaction, */
    atom64 lost_before; /* and what `lost` was then */
    uint64_t reserved[2];
};

/* Bytes of the part if the user grants so many: 0 for 0, else at least NAME_LOG_LEAST and whole lines. */
uint64_t weir_name_log_size(uint64_t name_bytes);

/* Is it worth a compaction? Three quarters full, and enough has come in since the last one to pay for it. */
bool weir_name_log_needs_compaction(const struct weir_table *table);
/* Keeps the names of the living, once each. Under header->change, which the caller has; others go on
 * appending. `alive` has to find a key as soon as weir_table_name is called for it. false: no log, or no
 * memory. */
bool weir_name_log_compact(struct weir_table *table, bool (*alive)(void *arg, uint64_t hash), void *arg);
/* How many names were not kept. */
uint64_t weir_name_log_lost(const struct weir_table *table);

/* A private copy of all names, to find them by their hash. NULL: no log, or no memory. */
struct name_index;
struct name_index *weir_name_index_read(const struct weir_table *table);
/* The bytes, which last as long as the index; NULL: not known. `index` may be NULL. */
const void *weir_name_index_find(const struct name_index *index, uint64_t hash, size_t *len);
void weir_name_index_free(struct name_index *index);

void weir_table_name(struct weir_table *table, const struct key *key); /* a key came in */

#endif
