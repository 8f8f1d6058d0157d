/* SPDX-License-Identifier: MIT */
/*
 * Places come in groups of 32. An id may live in two groups, drawn by its hash, and a newcomer goes to the
 * one with more free places: that way groups fill evenly, and none is full before nearly all are. Each place
 * has a tag, a byte of the id's hash, or 0 if it is free: the 64 tags are all that a look-up reads of the
 * places that are not its own. Every look-up compares all of them, so it does not matter in which order
 * records have come and gone.
 *
 * Both groups lie in one range of places, which has one lock. Tags lie in the region's bytes of reach and
 * could be computed anew from the records.
 *
 * Law: a record whose time has not come, and which does not yield, is neither moved nor dropped. `used` of a
 * range is the number of its tags that are not 0.
 */
#include "ledger/records.h"

#include <errno.h>
#include <stdlib.h>

#include "base/error.h"
#include "ledger/persist.h"
#include "ledger/places.h"

#define SCARCE     8   /* free places of a group: then it is worth to look for expired ones */
#define RANGES_MAX 256 /* locks */
#define RANGE_PLACES                                                                                         \
    1024 /* at least, if there are several: chance must not fill one far above the others                    \
          */

/* ---- making ---- */

static uint64_t round_up(uint64_t number, uint64_t unit)
{
    return (number + unit - 1) / unit * unit;
}

static uint32_t ranges_for(uint64_t places)
{
    uint32_t ranges = 1;
    while (ranges < RANGES_MAX && places / RANGE_PLACES >= 2 * ranges)
        ranges *= 2;
    return ranges;
}

/* The second key goes where a store would find it again. */
static struct region_shape shape_for(uint64_t places, size_t bytes)
{
    struct hash_key second = weir_hash_key();
    return (struct region_shape){.kind = REGION_RECORDS,
                                 .capacity = places,
                                 .slot_size = sizeof(struct record) + bytes,
                                 .line_slots = 1,
                                 .lines = places,
                                 .stripes = 1,
                                 .own = {second.low, second.high}};
}

struct records *weir_records_new(size_t count, size_t bytes, struct weir_error *err)
{
    weir_error_clear(err);
    if (count < 1 || bytes < 8 || bytes % 8 != 0 || bytes > UINT32_MAX || count > UINT64_C(1) << 40) {
        weir_error_set(err, EINVAL, "records need a count, and a size that is a multiple of 8");
        return NULL;
    }
    uint32_t ranges = ranges_for(count);
    uint64_t places = round_up(count, (uint64_t)ranges * GROUP);
    struct region_shape shape = shape_for(places, bytes);
    struct region *region = weir_region_new(&shape, err);
    if (!region)
        return NULL;
    size_t size = sizeof(struct records) + ranges * sizeof(struct record_range);
    struct records *records =
        aligned_alloc(_Alignof(struct record_range), round_up(size, _Alignof(struct record_range)));
    if (!records) {
        weir_region_free(region);
        weir_error_set(err, ENOMEM, "out of memory");
        return NULL;
    }
    memset(records, 0, size);
    records->region = region;
    records->key[0] = region->header->key;
    records->key[1] = (struct hash_key){shape.own[0], shape.own[1]};
    records->stride = shape.slot_size;
    records->groups = places / GROUP;
    records->range_groups = records->groups / ranges;
    records->range_count = ranges;
    weir_region_ready(region);
    return records;
}

void weir_records_free(struct records *records)
{
    if (!records)
        return;
    weir_records_recovery_end(records);
    weir_region_free(records->region);
    for (uint32_t i = 0; i < records->tombstone_blocks; i++)
        free(records->tombstones[i]);
    free(records);
}

void weir_records_yield(struct records *records, record_yields *yields)
{
    records->yields = yields;
}

void weir_records_form(struct records *records, record_sane *sane, record_shift *shift)
{
    records->sane = sane;
    records->shift = shift;
}

/* ---- ids ---- */

/* Each half is a hash under a key of its own, which the kind has changed. */
struct record_id weir_record_id(const struct records *records, const char *kind, const void *bytes,
                                size_t len)
{
    struct record_id id;
    uint64_t lot = weir_hash(&records->key[0], kind, strlen(kind));
    for (int i = 0; i < 2; i++) {
        struct hash_key key = {records->key[i].low ^ lot, records->key[i].high};
        id.word[i] = weir_hash(&key, bytes, len);
    }
    if (id.word[0] == 0 && id.word[1] == 0)
        id.word[1] = 1;
    return id;
}

/* Gives how many places are free then. */
static unsigned group_sweep(struct records *records, uint64_t group, int64_t now_ns)
{
    const unsigned char *tags = tags_at(records, group * GROUP);
    for (uint64_t i = 0; i < GROUP; i++)
        if (tags[i] != 0 && is_expired(record_at(records, group * GROUP + i), now_ns))
            place_free(records, group * GROUP + i);
    return group_free_places(records, group);
}

/* ---- enter and leave ---- */

/* Those that have expired are looked for only where places become scarce: their times are not among the tags.
 */
static struct record *make_record(struct records *records, const uint64_t *groups, const struct record_id *id,
                                  int64_t now_ns)
{
    unsigned one = group_free_places(records, groups[0]), other = group_free_places(records, groups[1]);
    if (one < SCARCE && other < SCARCE) {
        one = group_sweep(records, groups[0], now_ns);
        other = group_sweep(records, groups[1], now_ns);
    }
    if (one > 0 || other > 0)
        return group_take(records, groups[one >= other ? 0 : 1], id);
    struct record *yielding = first_yielding(records, groups, now_ns);
    if (!yielding)
        return NULL;
    place_free(records, record_place(records, yielding));
    return groups_take(records, groups, id);
}

/* Whoever wants it now is the first again. */
static void renew_record(const struct records *records, struct record *record)
{
    record->expires_ns = 0;
    memset(record_bytes(record), 0, records->stride - sizeof *record);
}

void weir_records_enter(struct records *records, const struct record_id *id, int64_t now_ns,
                        struct record_visit *visit)
{
    uint64_t groups[2];
    persist_hold(); /* what is listed cannot be appended inside of a record, whose lock that needs */
    visit->lock = range_of_record(records, id);
    visit->looked = false;
    lock_take(&records->ranges[visit->lock].lock);
    groups_of_record(records, id, groups);
    visit->record = records_find(records, groups, id);
    visit->found = visit->record && !is_expired(visit->record, now_ns);
    if (visit->record && !visit->found)
        renew_record(records, visit->record);
    if (!visit->record)
        visit->record = make_record(records, groups, id, now_ns);
    if (!visit->record)
        (void)atom_add(&records->region->header->refused, 1, memory_order_relaxed);
}

void weir_records_leave(struct records *records, const struct record_visit *visit)
{
    struct record_range *range = &records->ranges[visit->lock];
    struct record *record = visit->record;
    struct record_id id = record ? record->id : (struct record_id){{0, 0}};
    bool free = record && record->expires_ns == 0;
    bool gone = free && visit->found && records->region->persist;
    uint64_t number = gone ? ++range->number : 0;
    if (free)
        place_free(records, record_place(records, record));
    lock_drop(&range->lock);
    if (gone)
        weir_records_add_tombstone(records, &id, number);
    else if (record && !free && !visit->looked)
        mark_dirty(records->region->persist, record, id.word[0]);
    persist_release();
}

/* ---- all of them ---- */

void weir_records_stat(struct records *records, struct records_stat *stat)
{
    *stat = (struct records_stat){
        .capacity = (int64_t)(records->groups * GROUP),
        .room = (int64_t)(records->groups * GROUP / 4 * 3),
        .bytes = (int64_t)atom_load(&records->region->bytes, memory_order_relaxed),
        .refused = (int64_t)atom_load(&records->region->header->refused, memory_order_relaxed)};
    for (uint32_t i = 0; i < records->range_count; i++)
        stat->used += atomic_load_explicit(&records->ranges[i].used, memory_order_relaxed);
}

void weir_records_sweep(struct records *records, size_t count, int64_t now_ns)
{
    uint64_t groups = count / GROUP + (count % GROUP != 0);
    if (groups > records->groups)
        groups = records->groups;
    uint64_t group = atom_add(&records->region->header->cursor, groups, memory_order_relaxed);
    for (uint64_t i = 0; i < groups; i++) {
        uint64_t at = (group + i) % records->groups;
        struct record_range *range = range_at(records, at * GROUP);
        lock_take(&range->lock);
        (void)group_sweep(records, at, now_ns);
        lock_drop(&range->lock);
    }
}

uint64_t weir_records_place(const struct records *records, const struct record *record)
{
    return record_place(records, record);
}

int64_t weir_records_clear(struct records *records)
{
    int64_t count = 0;
    for (uint64_t group = 0; group < records->groups; group++) {
        struct record_range *range = range_at(records, group * GROUP);
        lock_take(&range->lock);
        for (uint64_t place = group * GROUP; place < (group + 1) * GROUP; place++)
            if (*tags_at(records, place) != 0) {
                place_free(records, place);
                count++;
            }
        lock_drop(&range->lock);
    }
    return count;
}

static void group_each(struct records *records, uint64_t group, int64_t now_ns,
                       void (*each)(void *arg, struct record *record), void *arg)
{
    const unsigned char *tags = tags_at(records, group * GROUP);
    for (uint64_t i = 0; i < GROUP; i++) {
        struct record *record = record_at(records, group * GROUP + i);
        if (tags[i] != 0 && !is_expired(record, now_ns))
            each(arg, record);
    }
}

bool weir_records_page(struct records *records, int64_t now_ns, uint64_t *cursor, size_t most,
                       void (*each)(void *arg, struct record *record), void *arg)
{
    for (uint64_t seen = 0; *cursor < records->groups && seen < most; seen += GROUP) {
        struct record_range *range = range_at(records, *cursor * GROUP);
        lock_take(&range->lock);
        group_each(records, (*cursor)++, now_ns, each, arg);
        lock_drop(&range->lock);
    }
    return *cursor < records->groups;
}

void weir_records_keys(const struct records *records, struct hash_key keys[static 2])
{
    keys[0] = records->key[0];
    keys[1] = records->key[1];
}

void weir_records_set_keys(struct records *records, const struct hash_key keys[static 2])
{
    records->key[0] = keys[0];
    records->key[1] = keys[1];
}
