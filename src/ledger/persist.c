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

#include "base/assert.h"
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
    INVARIANT(43, range->number >= head.number);
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
        INVARIANT(43, serial == tombstone->serial); /* it may have to be captured again */
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
#if WEIR_ASSERTIONS
    uint64_t misses = atomic_load(&weir_dirty_misses);
#endif
    weir_dirty_miss();
#if WEIR_ASSERTIONS
    INVARIANT(43, atomic_load(&weir_dirty_misses) > misses);
#endif
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

/*
 * Records come back from the disk, in any order; of those with the same id the one with the highest number
 * counts. While they come in each place has the number of what is in it. An id that has no place, because it
 * was taken back or had to yield, is remembered with its number, so that nothing older comes in again: an
 * open reservation whose settlement had to yield would be settled twice.
 *
 * Places may fill in another order than they did when the records were made. So here, and only here, a record
 * is moved to its other group for a newcomer that would find no place.
 */

#define NUMBER_MAX (UINT64_MAX >> 2) /* nobody draws so many */

struct absent_record { /* number 0: none */
    struct record_id id;
    uint64_t number;
};

struct records_recovery {
    int64_t now_ns;
    uint64_t highest;  /* number */
    uint64_t *numbers; /* of each place */
    unsigned char *bytes;
    struct absent_record *absent; /* absent_size of them, by hash; at most half of them are used */
    uint64_t absent_size, absent_count;
};

/* ---- ids without a place ---- */

static struct absent_record *absent_find(const struct records_recovery *recovery, const struct record_id *id)
{
    uint64_t mask = recovery->absent_size - 1;
    for (uint64_t i = id->word[0] & mask;; i = (i + 1) & mask) {
        struct absent_record *absent = &recovery->absent[i];
        if (absent->number == 0 || memcmp(&absent->id, id, sizeof *id) == 0)
            return absent;
    }
}

static bool absent_grow(struct records_recovery *recovery)
{
    struct records_recovery next = *recovery;
    next.absent_size = recovery->absent_size > 0 ? 2 * recovery->absent_size : 64;
    next.absent = calloc(next.absent_size, sizeof *next.absent);
    if (!next.absent)
        return false;
    for (uint64_t i = 0; i < recovery->absent_size; i++)
        if (recovery->absent[i].number != 0)
            *absent_find(&next, &recovery->absent[i].id) = recovery->absent[i];
    free(recovery->absent);
    *recovery = next;
    return true;
}

static bool add_absent(struct records_recovery *recovery, const struct record_id *id, uint64_t number)
{
    if (2 * recovery->absent_count >= recovery->absent_size && !absent_grow(recovery))
        return false;
    struct absent_record *absent = absent_find(recovery, id);
    recovery->absent_count += absent->number == 0;
    *absent = (struct absent_record){*id, number};
    return true;
}

static uint64_t absent_number(const struct records_recovery *recovery, const struct record_id *id)
{
    return recovery->absent_count > 0 ? absent_find(recovery, id)->number : 0;
}

/* ---- places ---- */

/* To its other group, if that has a free place. */
static bool move_record(struct records *records, struct record *record)
{
    uint64_t groups[2], from = record_place(records, record);
    groups_of_record(records, &record->id, groups);
    uint64_t to = from / GROUP == groups[0] ? groups[1] : groups[0];
    if (to == from / GROUP || group_free_places(records, to) == 0)
        return false;
    struct record *moved = group_take(records, to, &record->id);
    memcpy(moved, record, records->stride);
    records->recovery->numbers[record_place(records, moved)] = records->recovery->numbers[from];
    records->recovery->numbers[from] = 0;
    place_free(records, from);
    return true;
}

static bool move_any(struct records *records, const uint64_t *groups)
{
    for (uint64_t i = 0; i < 2 * GROUP; i++)
        if (move_record(records, record_at(records, groups[i / GROUP] * GROUP + i % GROUP)))
            return true;
    return false;
}

static bool drop_any(struct records *records, const uint64_t *groups)
{
    struct record *first = first_yielding(records, groups, records->recovery->now_ns);
    if (!first)
        return false;
    uint64_t place = record_place(records, first);
    if (!add_absent(records->recovery, &first->id, records->recovery->numbers[place]))
        return false;
    place_free(records, place);
    return true;
}

static struct record *take_place(struct records *records, const struct record_id *id)
{
    uint64_t groups[2];
    groups_of_record(records, id, groups);
    struct record *record = groups_take(records, groups, id);
    if (!record && (move_any(records, groups) || drop_any(records, groups)))
        record = groups_take(records, groups, id);
    return record;
}

/* ---- records ---- */

static struct records_recovery *begin_recovery(struct records *records)
{
    struct records_recovery *recovery = records->recovery;
    if (recovery)
        return recovery;
    records->recovery = recovery = calloc(1, sizeof *recovery);
    if (!recovery)
        return NULL;
    recovery->now_ns = weir_now();
    recovery->numbers = calloc(records->groups * GROUP, sizeof *recovery->numbers);
    recovery->bytes = malloc(records->stride);
    if (!recovery->numbers || !recovery->bytes)
        weir_records_recovery_end(records);
    return records->recovery;
}

/* It is not there, and nothing older is. false: out of memory. */
static bool remove_record(struct records *records, const struct record_head *head, struct record *record)
{
    if (!add_absent(records->recovery, &head->id, head->number))
        return false;
    if (record) {
        records->recovery->numbers[record_place(records, record)] = 0;
        place_free(records, record_place(records, record));
    }
    return true;
}

/* `bytes` is a record in the making, sane. */
static bool put_recovered_record(struct records *records, const struct record_head *head,
                                 struct record *record, const struct record *made)
{
    if (!record)
        record = take_place(records, &head->id);
    if (!record) /* one that may yield does so at once */
        return records->yields && records->yields(made, records->recovery->now_ns) &&
               add_absent(records->recovery, &head->id, head->number);
    memcpy(record, made, records->stride);
    records->recovery->numbers[record_place(records, record)] = head->number;
    return true;
}

static bool read_record_head(const struct records *records, uint8_t kind, const unsigned char *body,
                             size_t len, struct record_head *head)
{
    size_t bytes = records->stride - sizeof(struct record);
    if ((kind != RECORD_KEPT && kind != RECORD_GONE) ||
        len != sizeof *head + (kind == RECORD_KEPT ? bytes : 0))
        return false;
    memcpy(head, body, sizeof *head);
    if ((head->id.word[0] == 0 && head->id.word[1] == 0) || head->number == 0 || head->number > NUMBER_MAX)
        return false;
    return kind == RECORD_GONE ? head->expires_ns == 0 : head->expires_ns > 0;
}

static bool make_record(const struct records *records, const unsigned char *body, size_t len,
                        const struct record_head *head, struct record *made)
{
    if (len == sizeof *head)
        return true;
    int64_t offset_ns = records->region->offset_ns;
    *made = (struct record){head->id, sat_sub(head->expires_ns, offset_ns)};
    memcpy(made + 1, body + sizeof *head, len - sizeof *head);
    if (records->sane && !records->sane(made + 1))
        return false;
    if (records->shift)
        records->shift(made + 1, sat_sub(0, offset_ns));
    return true;
}

bool weir_records_apply(const struct persist *persist, uint8_t kind, const unsigned char *body, size_t len,
                        bool *failed)
{
    struct records *records = persist->owner;
    struct record_head head;
    uint64_t groups[2];
    if (!read_record_head(records, kind, body, len, &head))
        return false;
    struct records_recovery *recovery = begin_recovery(records);
    if (!recovery) {
        *failed = true;
        return true;
    }
    struct record *made = (struct record *)(void *)recovery->bytes;
    if (!make_record(records, body, len, &head, made))
        return false;
    if (recovery->highest < head.number)
        recovery->highest = head.number;
    groups_of_record(records, &head.id, groups);
    struct record *record = records_find(records, groups, &head.id);
    uint64_t known =
        record ? recovery->numbers[record_place(records, record)] : absent_number(recovery, &head.id);
    bool gone = kind == RECORD_GONE, expired = !gone && is_expired(made, recovery->now_ns);
    if (known >= head.number || (expired && !record)) {
        INVARIANT(43, head.number <= known || expired);
        return true;
    }
    if (!(gone || expired ? remove_record(records, &head, record)
                          : put_recovered_record(records, &head, record, made)))
        *failed = true;
#if WEIR_ASSERTIONS
    record = records_find(records, groups, &head.id);
    INVARIANT(43, *failed || (record ? recovery->numbers[record_place(records, record)]
                                     : absent_number(recovery, &head.id)) >= head.number);
#endif
    return true;
}

void weir_records_recovery_end(struct records *records)
{
    struct records_recovery *recovery = records->recovery;
    records->recovery = NULL;
    if (!recovery)
        return;
    free(recovery->numbers);
    free(recovery->bytes);
    free(recovery->absent);
    free(recovery);
}

void weir_records_recovered(struct records *records, int64_t now_ns)
{
    for (uint32_t i = 0; records->recovery && i < records->range_count; i++)
        records->ranges[i].number = records->recovery->highest;
#if WEIR_ASSERTIONS
    const struct records_recovery *recovery = records->recovery;
    for (uint32_t i = 0; recovery && i < records->range_count; i++)
        INVARIANT(43, records->ranges[i].number >= recovery->highest);
#endif
    weir_records_recovery_end(records);
    weir_records_sweep(records, SIZE_MAX, now_ns);
}
