/* SPDX-License-Identifier: MIT */
/*
 * Numbers are drawn under the lock of a record's range: when it is captured, and when it is taken back. So of
 * two records of the same id the one with the higher number is the later one, whoever appends first.
 *
 * A record that was taken back is not in its place any more when it is captured, and somebody else may be. So
 * its id goes to a tombstone of its own, which only the thread lists that took it back, and which is free
 * again when that is in the log: until then it may be captured again. If none is left the store has to make
 * an image, which does not have the record.
 */
#include "ledger/persist.h"

#include <stdlib.h>

#include "base/sat.h"
#include "ledger/places.h"

/* The range whose lock this thread has while it appends the record that it is inside of. */
static _Thread_local const struct record_range *inside;

/* ---- to the disk ---- */

static void append_record(struct records *records, struct record_range *range, const struct record *record,
                          struct buffer *out)
{
    const struct persist *persist = records->region->persist;
    size_t bytes = records->stride - sizeof *record;
    unsigned char *body = persist_put(out, persist->number, RECORD_KEPT, sizeof(struct record_head) + bytes);
    if (!body)
        return;
    struct record_head head = {record->id, ++range->number,
                               sat_add(record->expires_ns, records->region->offset_ns)};
    memcpy(body, &head, sizeof head);
    memcpy(body + sizeof head, record + 1, bytes);
    if (records->shift)
        records->shift(body + sizeof head, records->region->offset_ns);
}

/* Under their lock, as all that follows about them. */
static void free_a_tombstone(struct records *records, struct tombstone *tombstone)
{
    tombstone->serial = 0;
    tombstone->next = records->free_tombstone;
    records->free_tombstone = tombstone;
}

static void capture_tombstone(struct records *records, struct tombstone *tombstone, uint64_t serial,
                              struct buffer *out)
{
    lock_take(&records->tombstones_lock);
    if (tombstone->serial == serial) {
        struct record_head head = {tombstone->id, tombstone->number, 0};
        void *body = persist_put(out, records->region->persist->number, RECORD_GONE, sizeof head);
        if (body)
            memcpy(body, &head, sizeof head);
    }
    lock_drop(&records->tombstones_lock);
}

static bool is_tombstone(const struct records *records, const void *slot)
{
    uintptr_t first = (uintptr_t)records->region->segments[0].slots, at = (uintptr_t)slot;
    return at < first || at - first >= records->groups * GROUP * records->stride;
}

static void capture_record(const struct persist *persist, void *slot, uint64_t hash, struct buffer *out)
{
    struct records *records = persist->owner;
    struct record *record = slot;
    if (is_tombstone(records, slot)) {
        capture_tombstone(records, slot, hash, out);
        return;
    }
    struct record_range *range = range_at(records, record_place(records, record));
    bool alone = range == inside;
    if (!alone)
        lock_take(&range->lock);
    if (record->id.word[0] == hash && record->expires_ns != 0)
        append_record(records, range, record, out);
    if (!alone)
        lock_drop(&range->lock);
}

static void release_record(const struct persist *persist, void *slot, uint64_t hash)
{
    struct records *records = persist->owner;
    struct tombstone *tombstone = slot;
    if (!is_tombstone(records, slot))
        return;
    lock_take(&records->tombstones_lock);
    if (tombstone->serial == hash)
        free_a_tombstone(records, tombstone);
    lock_drop(&records->tombstones_lock);
}

/* The cursor counts groups. */
static bool walk_records(const struct persist *persist, uint64_t *cursor, struct buffer *out, size_t bytes)
{
    struct records *records = persist->owner;
    int64_t now_ns = weir_now();
    for (; *cursor < records->groups && buffer_len(out) < bytes && !out->failed; ++*cursor) {
        struct record_range *range = range_at(records, *cursor * GROUP);
        lock_take(&range->lock);
        for (uint64_t i = 0; i < GROUP; i++) {
            const struct record *record = record_at(records, *cursor * GROUP + i);
            if (*tags_at(records, *cursor * GROUP + i) != 0 && !is_expired(record, now_ns))
                append_record(records, range, record, out);
        }
        lock_drop(&range->lock);
    }
    return *cursor < records->groups;
}

const struct persist_ops weir_records_persist_ops = {
    .capture = capture_record, .released = release_record, .walk = walk_records, .apply = weir_records_apply};

/* ---- what is to be captured ---- */

static bool add_tombstone_block(struct records *records)
{
    struct tombstone *tombstones =
        records->tombstone_blocks < TOMBSTONE_BLOCKS ? calloc(TOMBSTONES, sizeof *tombstones) : NULL;
    if (!tombstones)
        return false;
    records->tombstones[records->tombstone_blocks++] = tombstones;
    for (uint32_t i = TOMBSTONES; i-- > 0;)
        free_a_tombstone(records, &tombstones[i]);
    return true;
}

/* There will be an image: whoever has not captured his does not have to any more. But he must know of it when
 * he has captured nothing, and that image must not have been begun before he took his record back: so it is
 * asked for first, and under the lock. */
static void clear_tombstones(struct records *records)
{
    weir_dirty_miss();
    records->free_tombstone = NULL;
    for (uint32_t block = records->tombstone_blocks; block-- > 0;)
        for (uint32_t i = TOMBSTONES; i-- > 0;)
            free_a_tombstone(records, &records->tombstones[block][i]);
}

/* NULL: there was none, and no memory for more: there will be an image. */
static struct tombstone *make_tombstone(struct records *records, const struct record_id *id, uint64_t number,
                                        uint64_t *serial)
{
    struct tombstone *tombstone = NULL;
    lock_take(&records->tombstones_lock);
    *serial = ++records->tombstones_made;
    if (records->free_tombstone || add_tombstone_block(records)) {
        tombstone = records->free_tombstone;
        records->free_tombstone = tombstone->next;
        *tombstone = (struct tombstone){.id = *id, .number = number, .serial = *serial};
    } else {
        clear_tombstones(records);
    }
    lock_drop(&records->tombstones_lock);
    return tombstone;
}

void weir_records_add_tombstone(struct records *records, const struct record_id *id, uint64_t number)
{
    uint64_t serial;
    struct tombstone *tombstone = make_tombstone(records, id, number, &serial);
    if (tombstone)
        mark_dirty(records->region->persist, tombstone, serial);
}

void weir_records_flush(struct records *records)
{
    const struct persist *persist = records->region->persist;
    if (persist && weir_dirty && weir_dirty->count > 0)
        persist->overfull(persist->store);
}

void weir_records_append(struct records *records, const struct record_visit *visit)
{
    struct persist *persist = records->region->persist;
    if (!persist)
        return;
    mark_dirty(persist, visit->record, visit->record->id.word[0]);
    inside = &records->ranges[visit->lock];
    persist->overfull(persist->store);
    inside = NULL;
}

static size_t change_group_records(struct records *records, uint64_t group, record_change *change, void *arg,
                                   struct record **changed)
{
    size_t count = 0;
    struct record_range *range = range_at(records, group * GROUP);
    lock_take(&range->lock);
    for (uint64_t i = 0; i < GROUP; i++) {
        struct record *record = record_at(records, group * GROUP + i);
        if (*tags_at(records, group * GROUP + i) != 0 && change(arg, record))
            changed[count++] = record;
    }
    lock_drop(&range->lock);
    return count;
}

size_t weir_records_change(struct records *records, record_change *change, void *arg)
{
    size_t sum = 0;
    for (uint64_t group = 0; group < records->groups; group++) {
        struct record *changed[GROUP];
        size_t count = change_group_records(records, group, change, arg, changed);
        for (size_t i = 0; i < count; i++)
            mark_dirty(records->region->persist, changed[i], changed[i]->id.word[0]);
        sum += count;
    }
    return sum;
}

struct region *weir_records_region(const struct records *records)
{
    return records->region;
}

/* ---- what must be known to find them again ---- */

#define DESCRIBE_VERSION 1

struct records_description {
    uint32_t version;
    uint32_t bytes; /* of a record */
    struct hash_key key[2];
};

void weir_records_describe(const struct records *records, struct buffer *out)
{
    struct records_description text = {DESCRIBE_VERSION,
                                       (uint32_t)(records->stride - sizeof(struct record)),
                                       {records->key[0], records->key[1]}};
    buffer_put(out, (const char *)&text, sizeof text);
}

bool weir_records_describe_read(struct records *records, const void *bytes, size_t len)
{
    struct records_description text;
    if (len != sizeof text)
        return false;
    memcpy(&text, bytes, sizeof text);
    if (text.version != DESCRIBE_VERSION || text.bytes != records->stride - sizeof(struct record))
        return false;
    records->key[0] = text.key[0];
    records->key[1] = text.key[1];
    return true;
}
