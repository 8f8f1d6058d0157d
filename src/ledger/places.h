/* SPDX-License-Identifier: MIT */
/*
 * Records from inside: places in groups, groups in ranges, as records.c explains. All of it under the lock of
 * the range.
 */
#ifndef WEIR_LEDGER_PLACES_H
#define WEIR_LEDGER_PLACES_H

#include <string.h>

#include "ledger/records.h"
#include "region/region.h"

#define GROUP            32   /* places; two groups of tags are one cache line */
#define TOMBSTONES       4096 /* of a block: as many as a thread may list */
#define TOMBSTONE_BLOCKS 64

_Static_assert(sizeof(struct record) == REGION_RECORD_HEAD, "as the region has it");
_Static_assert(sizeof(struct record_id) == 2 * sizeof(uint64_t), "no padding: ids are compared as bytes");

struct record_range {
    _Alignas(64) struct lock lock;
    _Atomic uint32_t used; /* written under the lock, read by anybody */
    uint64_t number;       /* the last that was drawn for a record on the disk; under the lock */
};

/* A record that was taken back before its time, as long as the log does not know. */
struct tombstone {
    struct record_id id;
    uint64_t number; /* drawn when it was taken back: what comes in under that id later has a higher one */
    uint64_t serial; /* whose it is; 0: nobody's any more */
    struct tombstone *next; /* that is free, too */
};

struct records {
    struct region *region;
    struct hash_key key[2];
    size_t stride; /* from a record to the next */
    uint64_t groups, range_groups;
    uint32_t range_count;
    record_yields *yields; /* or NULL */
    record_sane *sane;     /* or NULL */
    record_shift *shift;   /* or NULL */
    struct lock tombstones_lock;
    struct tombstone *tombstones[TOMBSTONE_BLOCKS], *free_tombstone; /* made when they are needed */
    uint32_t tombstone_blocks;
    uint64_t tombstones_made;
    struct records_recovery *recovery; /* until weir_records_recovered: see recover.c */
    struct record_range ranges[];
};

static inline uint32_t range_of_record(const struct records *records, const struct record_id *id)
{
    return (uint32_t)mulhi(id->word[0], records->range_count);
}

static inline unsigned char tag_of_record(const struct record_id *id)
{
    unsigned char tag = (unsigned char)id->word[0];
    return tag ? tag : 1;
}

/* The two groups of an id, which are one if the range has no more. */
static inline void groups_of_record(const struct records *records, const struct record_id *id,
                                    uint64_t *groups)
{
    uint64_t first = range_of_record(records, id) * records->range_groups;
    uint64_t one = mulhi(id->word[1] << 32, records->range_groups);
    uint64_t other = mulhi(id->word[1], records->range_groups);
    if (one == other)
        other = one + 1 < records->range_groups ? one + 1 : 0;
    groups[0] = first + one;
    groups[1] = first + other;
}

/* ---- places; under the lock of their range ---- */

static inline struct record *record_at(const struct records *records, uint64_t place)
{
    return (struct record *)(void *)(records->region->segments[0].slots + place * records->stride);
}

static inline uint64_t record_place(const struct records *records, const struct record *record)
{
    const unsigned char *first = records->region->segments[0].slots;
    return (uint64_t)((const unsigned char *)record - first) / records->stride;
}

static inline unsigned char *tags_at(const struct records *records, uint64_t place)
{
    return (unsigned char *)(uintptr_t)records->region->segments[0].reach + place; /* under the lock: plain */
}

static inline struct record_range *range_at(struct records *records, uint64_t place)
{
    return &records->ranges[place / GROUP / records->range_groups];
}

/* Only who has the lock writes it. */
static inline void count_used_places(struct record_range *range, uint32_t more)
{
    uint32_t used = atomic_load_explicit(&range->used, memory_order_relaxed);
    atomic_store_explicit(&range->used, used + more, memory_order_relaxed);
}

static inline void place_free(struct records *records, uint64_t place)
{
    memset(record_at(records, place), 0, records->stride);
    *tags_at(records, place) = 0;
    count_used_places(range_at(records, place), UINT32_MAX);
}

static inline struct record *place_take(struct records *records, uint64_t place, const struct record_id *id)
{
    struct record *record = record_at(records, place);
    *tags_at(records, place) = tag_of_record(id);
    count_used_places(range_at(records, place), 1);
    record->id = *id;
    return record;
}

static inline struct record *group_find(const struct records *records, uint64_t group,
                                        const struct record_id *id)
{
    const unsigned char *tags = tags_at(records, group * GROUP);
    unsigned char tag = tag_of_record(id);
    for (uint64_t i = 0; i < GROUP; i++) {
        if (tags[i] == tag) {
            struct record *record = record_at(records, group * GROUP + i);
            if (memcmp(&record->id, id, sizeof *id) == 0)
                return record;
        }
    }
    return NULL;
}

static inline unsigned group_free_places(const struct records *records, uint64_t group)
{
    const unsigned char *tags = tags_at(records, group * GROUP);
    unsigned count = 0;
    for (uint64_t i = 0; i < GROUP; i++)
        count += tags[i] == 0;
    return count;
}

static inline bool is_expired(const struct record *record, int64_t now_ns)
{
    return record->expires_ns <= now_ns;
}

/* There is a free place. */
static inline struct record *group_take(struct records *records, uint64_t group, const struct record_id *id)
{
    const unsigned char *tag = memchr(tags_at(records, group * GROUP), 0, GROUP);
    return place_take(records, (uint64_t)(tag - tags_at(records, 0)), id);
}

/* Of the records that may go, the one that would expire first; NULL: none may. */
static inline struct record *first_yielding(const struct records *records, const uint64_t *groups,
                                            int64_t now_ns)
{
    struct record *first = NULL;
    for (uint64_t i = 0; records->yields && i < 2 * GROUP; i++) {
        struct record *record = record_at(records, groups[i / GROUP] * GROUP + i % GROUP);
        if ((!first || record->expires_ns < first->expires_ns) && records->yields(record, now_ns))
            first = record;
    }
    return first;
}

/* In the emptier one; NULL: both are full. */
static inline struct record *groups_take(struct records *records, const uint64_t *groups,
                                         const struct record_id *id)
{
    unsigned one = group_free_places(records, groups[0]), other = group_free_places(records, groups[1]);
    return one + other > 0 ? group_take(records, groups[one >= other ? 0 : 1], id) : NULL;
}

static inline struct record *records_find(const struct records *records, const uint64_t *groups,
                                          const struct record_id *id)
{
    struct record *record = group_find(records, groups[0], id);
    return record ? record : group_find(records, groups[1], id);
}

#endif
