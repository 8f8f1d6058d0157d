/* SPDX-License-Identifier: MIT */
/*
 * Growing by moving: a larger segment is added, those before it are closed, their keys are moved to it, some
 * at a time, and what they used goes back. So a table that has grown is as large, and as fast, as one that
 * was made for so many keys. Only for tables in memory of the process: nobody is killed between two steps of
 * a move. Why no key is ever gone, or there twice: docs/internals/tables.md, 16b; wide keys move under the
 * lock of their stripe.
 */
#ifndef WEIR_TABLE_REHASH_H
#define WEIR_TABLE_REHASH_H

#include "table/table.h"

/* Room for so many keys in one segment more, which takes in all others; not fewer than there is room for now.
 * false: nothing has changed. */
bool weir_table_enlarge(struct weir_table *table, size_t keys, struct weir_error *err);

enum rehash_status {
    REHASH_DONE, /* all keys are in open segments */
    REHASH_MORE, /* to be called again */
    REHASH_STUCK /* a key finds no room: enlarge it, or try again when keys may be forgotten */
};

/* Moves what is in the next `lines` lines. Others use the table meanwhile. */
enum rehash_status weir_table_rehash(struct weir_table *table, int64_t now_ns, uint64_t lines);

#endif
