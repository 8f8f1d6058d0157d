/* SPDX-License-Identifier: MIT */
/*
 * A store of a few lines, for records: what threads have listed is captured when the test says so, and comes
 * back in an order that is drawn by lot.
 */
#ifndef WEIR_TESTS_UNIT_RECORDS_KIT_H
#define WEIR_TESTS_UNIT_RECORDS_KIT_H

#include "check.h"
#include "ledger/persist.h"
#include "region/region.h"

struct fake_store {
    struct persist persist;
    struct buffer log;
    size_t lists; /* that were appended because they were full, or for weir_records_append */
};

/* Captures what this thread has listed. */
static inline void fake_capture(struct buffer *out)
{
    for (uint32_t i = 0; weir_dirty && i < weir_dirty->count; i++) {
        struct dirty_item *item = &weir_dirty->items[i];
        item->persist->kind->capture(item->persist, item->slot, item->hash, out);
    }
}

/* The same, and that is in the log then. */
static inline void fake_append(struct fake_store *fake, struct buffer *out)
{
    fake_capture(out);
    for (uint32_t i = 0; weir_dirty && i < weir_dirty->count; i++) {
        struct dirty_item *item = &weir_dirty->items[i];
        item->persist->kind->released(item->persist, item->slot, item->hash);
    }
    if (weir_dirty)
        weir_dirty_clear(weir_dirty);
    fake->lists++;
}

static inline void fake_overfull(struct store *store)
{
    struct fake_store *fake = (struct fake_store *)(void *)store;
    fake_append(fake, &fake->log);
}

static inline void fake_keep(struct fake_store *fake, struct records *records, int64_t offset_ns)
{
    fake->persist = (struct persist){.store = (struct store *)(void *)fake,
                                     .number = 7,
                                     .kind = &weir_records_persist_ops,
                                     .owner = records,
                                     .overfull = fake_overfull};
    struct region *region = weir_records_region(records);
    region->offset_ns = offset_ns;
    region->persist = &fake->persist;
}

/* All records that are there, as an image has them. */
static inline void fake_walk(struct fake_store *fake, size_t bytes, struct buffer *out)
{
    uint64_t cursor = 0;
    bool more = true;
    while (more) {
        struct buffer part = {0};
        more = fake->persist.kind->walk(&fake->persist, &cursor, &part, bytes);
        buffer_put(out, buffer_bytes(&part), buffer_len(&part));
        weir_buffer_free(&part);
    }
}

/* Where each record of a log begins; gives how many. `starts` NULL: counts them. */
static inline size_t fake_records(struct buffer *log, size_t *starts)
{
    size_t count = 0, at = 0;
    while (at < buffer_len(log)) {
        struct persist_head head;
        memcpy(&head, buffer_bytes(log) + at, sizeof head);
        if (starts)
            starts[count] = at;
        count++;
        at += sizeof head + head.bytes;
    }
    return count;
}

/* Gives false if something made no sense; *failed as apply says. */
static inline bool fake_apply(struct fake_store *fake, struct buffer *log, size_t at, bool *failed)
{
    struct persist_head head;
    _Alignas(8) unsigned char body[1024];
    memcpy(&head, buffer_bytes(log) + at, sizeof head);
    if (!CHECK(head.bytes <= sizeof body && head.bytes % 8 == 0 && head.region == 7))
        return false;
    memcpy(body, buffer_bytes(log) + at + sizeof head, head.bytes);
    return fake->persist.kind->apply(&fake->persist, head.kind, body, head.bytes, failed);
}

/* All of it, in an order drawn by lot; `rng` NULL: in its own. true: all made sense and found room. */
static inline bool fake_replay(struct fake_store *fake, struct buffer *log, struct rng *rng)
{
    size_t count = fake_records(log, NULL);
    size_t *starts = calloc(count + 1, sizeof *starts);
    bool good = true, failed = false;
    (void)fake_records(log, starts);
    for (size_t i = 0; i < count; i++) {
        size_t pick = rng ? (size_t)rng_between(rng, (int64_t)i, (int64_t)count - 1) : i,
               start = starts[pick];
        starts[pick] = starts[i];
        good &= fake_apply(fake, log, start, &failed);
    }
    free(starts);
    return good && !failed;
}

#endif
