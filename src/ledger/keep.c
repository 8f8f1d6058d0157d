/* SPDX-License-Identifier: MIT */
/*
 * Numbers are drawn under the lock of a record's range: when it is captured, and when it is taken back. So of
 * two records of the same id the one with the higher number is the later one, whoever appends first.
 *
 * A record that was taken back is not in its place any more when it is captured, and somebody else may be. So
 * its id goes to a grave of its own, which only the thread lists that took it back, and which is free again
 * when that is in the log: until then it may be captured again. If none is left the store has to make an
 * image, which does not have the record.
 */
#include "ledger/keep.h"

#include <stdlib.h>

#include "base/sat.h"
#include "ledger/places.h"

/* The range whose lock this thread has while it appends the record that it is inside of. */
static _Thread_local const struct range *inside;

/* ---- to the disk ---- */

static void put_record(struct records *records, struct range *range, const struct record *record,
                       struct buffer *out)
{
    const struct keep *keep = records->region->keep;
    size_t bytes = records->stride - sizeof *record;
    unsigned char *body = keep_put(out, keep->number, RECORD_KEPT, sizeof(struct record_head) + bytes);
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
static void grave_free(struct records *records, struct grave *grave)
{
    grave->serial = 0;
    grave->next = records->free_grave;
    records->free_grave = grave;
}

static void capture_grave(struct records *records, struct grave *grave, uint64_t serial, struct buffer *out)
{
    lock_take(&records->graves_lock);
    if (grave->serial == serial) {
        struct record_head head = {grave->id, grave->number, 0};
        void *body = keep_put(out, records->region->keep->number, RECORD_GONE, sizeof head);
        if (body)
            memcpy(body, &head, sizeof head);
    }
    lock_drop(&records->graves_lock);
}

static bool is_grave(const struct records *records, const void *slot)
{
    uintptr_t first = (uintptr_t)records->region->segments[0].slots, at = (uintptr_t)slot;
    return at < first || at - first >= records->groups * GROUP * records->stride;
}

static void capture(const struct keep *keep, void *slot, uint64_t who, struct buffer *out)
{
    struct records *records = keep->owner;
    struct record *record = slot;
    if (is_grave(records, slot)) {
        capture_grave(records, slot, who, out);
        return;
    }
    struct range *range = range_at(records, place_of(records, record));
    bool alone = range == inside;
    if (!alone)
        lock_take(&range->lock);
    if (record->id.word[0] == who && record->expires_ns != 0)
        put_record(records, range, record, out);
    if (!alone)
        lock_drop(&range->lock);
}

static void released(const struct keep *keep, void *slot, uint64_t who)
{
    struct records *records = keep->owner;
    struct grave *grave = slot;
    if (!is_grave(records, slot))
        return;
    lock_take(&records->graves_lock);
    if (grave->serial == who)
        grave_free(records, grave);
    lock_drop(&records->graves_lock);
}

/* The cursor counts groups. */
static bool walk(const struct keep *keep, uint64_t *cursor, struct buffer *out, size_t bytes)
{
    struct records *records = keep->owner;
    int64_t now_ns = weir_now();
    for (; *cursor < records->groups && buffer_len(out) < bytes && !out->failed; ++*cursor) {
        struct range *range = range_at(records, *cursor * GROUP);
        lock_take(&range->lock);
        for (uint64_t i = 0; i < GROUP; i++) {
            const struct record *record = record_at(records, *cursor * GROUP + i);
            if (*tags_at(records, *cursor * GROUP + i) != 0 && !is_expired(record, now_ns))
                put_record(records, range, record, out);
        }
        lock_drop(&range->lock);
    }
    return *cursor < records->groups;
}

const struct keep_kind weir_records_keep = {
    .capture = capture, .released = released, .walk = walk, .apply = weir_records_apply};

/* ---- what is to be captured ---- */

static bool graves_more(struct records *records)
{
    struct grave *graves = records->grave_blocks < GRAVE_BLOCKS ? calloc(GRAVES, sizeof *graves) : NULL;
    if (!graves)
        return false;
    records->graves[records->grave_blocks++] = graves;
    for (uint32_t i = GRAVES; i-- > 0;)
        grave_free(records, &graves[i]);
    return true;
}

/* There will be an image: whoever has not captured his does not have to any more. But he must know of it when
 * he has captured nothing, and that image must not have been begun before he took his record back: so it is
 * asked for first, and under the lock. */
static void graves_clear(struct records *records)
{
    weir_dirty_miss();
    records->free_grave = NULL;
    for (uint32_t block = records->grave_blocks; block-- > 0;)
        for (uint32_t i = GRAVES; i-- > 0;)
            grave_free(records, &records->graves[block][i]);
}

/* NULL: there was none, and no memory for more: there will be an image. */
static struct grave *grave_make(struct records *records, const struct record_id *id, uint64_t number,
                                uint64_t *serial)
{
    struct grave *grave = NULL;
    lock_take(&records->graves_lock);
    *serial = ++records->buried;
    if (records->free_grave || graves_more(records)) {
        grave = records->free_grave;
        records->free_grave = grave->next;
        *grave = (struct grave){.id = *id, .number = number, .serial = *serial};
    } else {
        graves_clear(records);
    }
    lock_drop(&records->graves_lock);
    return grave;
}

void weir_records_bury(struct records *records, const struct record_id *id, uint64_t number)
{
    uint64_t serial;
    struct grave *grave = grave_make(records, id, number, &serial);
    if (grave)
        keep_touch(records->region->keep, grave, serial);
}

void weir_records_flush(struct records *records)
{
    const struct keep *keep = records->region->keep;
    if (keep && weir_dirty && weir_dirty->count > 0)
        keep->overfull(keep->store);
}

void weir_records_append(struct records *records, const struct visit *visit)
{
    struct keep *keep = records->region->keep;
    if (!keep)
        return;
    keep_touch(keep, visit->record, visit->record->id.word[0]);
    inside = &records->ranges[visit->lock];
    keep->overfull(keep->store);
    inside = NULL;
}

static size_t change_group(struct records *records, uint64_t group, record_change *change, void *arg,
                           struct record **changed)
{
    size_t count = 0;
    struct range *range = range_at(records, group * GROUP);
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
        size_t count = change_group(records, group, change, arg, changed);
        for (size_t i = 0; i < count; i++)
            keep_touch(records->region->keep, changed[i], changed[i]->id.word[0]);
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

struct describe {
    uint32_t version;
    uint32_t bytes; /* of a record */
    struct hash_key key[2];
};

void weir_records_describe(const struct records *records, struct buffer *out)
{
    struct describe text = {DESCRIBE_VERSION,
                            (uint32_t)(records->stride - sizeof(struct record)),
                            {records->key[0], records->key[1]}};
    buffer_put(out, (const char *)&text, sizeof text);
}

bool weir_records_describe_read(struct records *records, const void *bytes, size_t len)
{
    struct describe text;
    if (len != sizeof text)
        return false;
    memcpy(&text, bytes, sizeof text);
    if (text.version != DESCRIBE_VERSION || text.bytes != records->stride - sizeof(struct record))
        return false;
    records->key[0] = text.key[0];
    records->key[1] = text.key[1];
    return true;
}
