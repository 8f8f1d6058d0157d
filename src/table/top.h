/* SPDX-License-Identifier: MIT */
/*
 * Heavy hitters: the keys that took most and those that were refused most, in a region's memory (PART_TOP),
 * in the manner of SpaceSaving with randomized admission (RAP). A list has a place for each of 256 keys. A
 * key without one draws lots for the place of the smallest: with u units against the c of the smallest it
 * gets the place in u of u + c cases. Then it inherits the c units, which are noted as its error. So a key's
 * expected count is what it took, but a flood of keys that come once raises the smallest count only as the
 * square root of their number: a key that keeps coming gets a place within c / u of its calls, and outgrows
 * them. What is told of a key is units - error: never more than was counted for this key itself.
 *
 * The places are 16 sets of 16, and a key's hash says which set: a sample reads four cache lines instead of
 * 64 and finds as much, because the hash spreads keys evenly.
 *
 * Counts are halved every minute of region time, so a key that takes r units a minute for long shows r to 2
 * r.
 *
 * A list is written under a lock that nobody waits for: who finds it taken leaves the sample out. A holder
 * who died, or was stopped for long, is passed over after a second. Then two may write at once: so all of it
 * is atomic words, any content is harmless, and readers believe nothing. They take no lock.
 */
#ifndef WEIR_TABLE_TOP_H
#define WEIR_TABLE_TOP_H

#include "table/table.h"

#define TOP_SETS       16
#define TOP_WAYS       16 /* keys in a set */
#define TOP_NAME_WORDS 16 /* sizeof(((struct weir_top_key *)0)->name) */
#define TOP_HALVING_NS (60 * WEIR_SEC)
#define TOP_HELD_NS    WEIR_SEC /* the longest that a lock is believed to be held */

struct top_set {
    atom64 hash[TOP_WAYS]; /* 0: nobody */
    atom64 units[TOP_WAYS];
};

struct top_detail {
    atom64 error;
    atom64 len;                  /* of the whole key */
    atom64 name[TOP_NAME_WORDS]; /* its first bytes, and a NUL at least */
    uint64_t reserved;           /* 0 */
};

struct top_list {
    atom64 lock;   /* 0, or 1 + the region time at which it was taken */
    atom64 halved; /* the minute of region time up to which it has faded */
    uint64_t reserved[6];
    struct top_set sets[TOP_SETS];
    struct top_detail details[TOP_SETS][TOP_WAYS];
};

/* PART_TOP. Memory that is zero is a list of nobody: there is nothing to be made ready. */
struct top {
    struct top_list lists[2]; /* by enum weir_top */
};

static inline uint64_t weir_top_size(void)
{
    return sizeof(struct top);
}

/* weir_table_top as of a region time. */
size_t weir_top_read(const struct weir_table *table, enum weir_top by, int64_t now, struct weir_top_key *keys,
                     size_t count);

void weir_table_sample(struct weir_table *table, const struct key *key, int64_t n, bool allowed, int64_t now);

/* Every so many calls of a busy thread one is sampled: the others pay a decrement. */
#define TOP_SAMPLE  64
#define TOP_CALL_NS INT64_C(20000) /* calls that come more slowly are all sampled, in the long run */
/* This thread is one that lasts: it begins with all of its calls, and finds the step by itself. */
void weir_top_begin(void);
extern _Thread_local uint32_t weir_top_countdown __attribute__((visibility("hidden")));

static inline void table_sample_call(struct weir_table *table, const struct key *key, int64_t n, bool allowed,
                                     int64_t now)
{
    if (__builtin_expect(weir_top_countdown-- == 0, 0))
        weir_table_sample(table, key, n, allowed, now);
}

#endif
