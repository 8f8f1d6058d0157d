/* SPDX-License-Identifier: MIT */
/*
 * A table of words for the explorer: one or two segments of one or two lines, in static memory. Every thread
 * is a process of its own: it has its own `struct weir_table` and `struct region` around the one header and
 * the slots. So nothing orders the threads but what is in the region. Where keys move they are threads of one
 * process, for whom `struct region` is shared, too: only tables in memory of a process do that.
 *
 * Stand-ins take the place of what is not explored: limits are made ready beforehand, no key has limits of
 * its own, nothing is logged, and a stripe's lock is one of the explorer.
 */
#ifndef WEIR_TESTS_EXPLORE_SMALL_TABLE_H
#define WEIR_TESTS_EXPLORE_SMALL_TABLE_H

#include "table/slots.h"
#include "table/words.h"

enum { SMALL_PROCESSES = 3, SMALL_SEGMENTS = 2, SMALL_LINES = 2, SMALL_EDITIONS = 6 };

/* A debtor that is not worth moving: it fills a slot and no thread asks for it. */
#define SMALL_STAYS (UINT64_C(3) << 60)

struct small_table {
    struct region_header header;
    struct table_policies policies;
    _Alignas(64) struct slot slots[SMALL_SEGMENTS][SMALL_LINES * LINE_SLOTS];
    _Alignas(64) atom128 witnesses[SMALL_SEGMENTS][SMALL_LINES * LINE_SLOTS];
    _Atomic unsigned char reach[SMALL_SEGMENTS][SMALL_LINES];
    atom64 numbers[SMALL_SEGMENTS][SMALL_LINES];
    struct stripe stripe; /* all keys have the same */
    struct edition editions[SMALL_EDITIONS];
    struct region regions[SMALL_PROCESSES];
    struct weir_table tables[SMALL_PROCESSES];
    int came_in[SMALL_PROCESSES]; /* how often each has made an entry plain */
    uint64_t overridden;          /* who has limits of its own: one unit; 0: nobody */
    int own_taken;                /* under the lock */
};
extern struct small_table small;

/* Reads limits, up to a NULL; one generation each. false: they make no sense. */
bool small_table_read(const char *const *limits);
void small_table_free(void);

/* Empty, with one segment that has so many lines, at generation 0, and with lowering numbers if they matter;
 * for setup. `segments` may be used in all. */
void small_table_clear(uint64_t segments, uint64_t lines, bool numbered);
/* A key that took `spent` units at `time`, when it was fresh. */
void small_table_put(struct slot *slot, uint64_t hash, enum slot_kind kind, int64_t time, int64_t spent);

/* The process of the running thread. */
struct weir_table *small_table(void);

/* As change.c does it. */
void small_table_change(int64_t now);
/* A segment more, as region.c adds it. */
void small_table_grow(void);
/* The table keeps whole keys; for setup. */
void small_table_exact(void);
/* All threads are of one process; for setup. */
void small_table_unite(void);
/* A segment more that takes in the keys of the first: as weir_table_enlarge does it, and weir_table_rehash.
 */
void small_table_enlarge(void);
void small_table_move(int64_t now);

#endif
