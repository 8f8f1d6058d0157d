/* SPDX-License-Identifier: MIT */
/*
 * Hostile descriptions and records of tables, and of the ledger's records: what a store gives whose checksums
 * are right and whose bytes are anything. An input is
 *
 *   byte 0        bits 0-2 which table, or records; bits 3-4 how it is recovered
 *   byte 1        so many changes of its description follow: offset in words (1 byte), a word (8 bytes)
 *   and then      records: kind (1 byte), length in words (1 byte), that many words
 *                 with bit 7 of the kind a good record, of which word number `length` becomes the one behind
 *
 * It is refused, or it makes a table that can be asked, copied, described and made again.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "ledger/persist.h"
#include "must.h"
#include "os/clock.h"
#include "region/region.h"
#include "table/persist/recover.h"
#include "table/persist/persist.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Keys of hashes are the same in every run. */
ssize_t __wrap_getrandom(void *bytes, size_t count, unsigned flags);
ssize_t __wrap_getrandom(void *bytes, size_t count, unsigned flags)
{
    (void)flags;
    memset(bytes, 7, count);
    return (ssize_t)count;
}

/* Pages come when they are touched: an input needs few of them. */
int __wrap_madvise(void *memory, size_t bytes, int advice);
int __wrap_madvise(void *memory, size_t bytes, int advice)
{
    (void)memory;
    (void)bytes;
    (void)advice;
    return 0;
}

#define TABLES   6
#define SUBJECTS (TABLES + 1) /* and records */
#define NOW      (1000 * WEIR_SEC)
#define KEYS     4
#define WORDS    64
#define ROOM     (UINT64_C(1) << 12) /* of what a description may ask for: more costs time alone */

static struct subject {
    struct buffer described, records;
} good[SUBJECTS];
static bool prepared;

/* ---- what is good ---- */

static const struct {
    const char *limits;
    struct weir_table_options options;
} tables[TABLES] = {
    {"10/s burst=20", {.keys = 64}},
    {"10/s burst=20, 6/s algo=fixed-window", {.keys = 64}},
    {"10/s algo=sliding-log", {.keys = 64, .key_max = 32}},
    {"10/s algo=leaky-bucket queue=8", {.keys = 64, .name_bytes = 4096}},
    {NULL, {.keys = 64, .own_limits = 1}},
    {"10/s burst=20", {.keys = 64, .key_max = 16}},
};

static void no_more(struct store *store)
{
    (void)store;
    abort(); /* no list is full here */
}

static void keep_with(struct persist *persist, struct region *region, const struct persist_ops *kind,
                      void *owner)
{
    *persist = (struct persist){.number = 7, .kind = kind, .owner = owner, .overfull = no_more};
    region->persist = persist;
    region->offset_ns = 0;
}

static void take_some(struct weir_table *table)
{
    static const struct weir_own_limit limit = {.count = 10, .period_ns = WEIR_SEC, .burst = 20};
    for (char key = 'a'; key < 'a' + KEYS; key++) {
        struct weir_verdict verdict;
        bool own = weir_table_take_own(table, &key, 1, &limit, 3, &verdict);
        if (!own)
            (void)weir_table_take(table, &key, 1, 3, &verdict);
    }
}

static void walk(const struct persist *persist, struct buffer *out)
{
    uint64_t cursor = 0;
    while (persist->kind->walk(persist, &cursor, out, 4096)) {
    }
    MUST(!out->failed);
}

static void prepare_table(int which)
{
    struct persist persist;
    struct weir_table *table =
        weir_table_new_stored(tables[which].limits, &tables[which].options, NULL, NULL);
    MUST(table);
    keep_with(&persist, table->region, &weir_table_persist_ops, table);
    take_some(table);
    if (tables[which].limits)
        MUST(weir_table_override(table, "a", 1, "5/s burst=7", NULL));
    take_some(table);
    weir_table_describe(table, &good[which].described);
    walk(&persist, &good[which].records);
    weir_dirty_clear(weir_dirty);
    table->region->persist = NULL;
    weir_table_free(table);
}

static struct records *new_records(void)
{
    struct records *records = weir_records_new(64, 2 * sizeof(int64_t), NULL);
    MUST(records);
    return records;
}

static void prepare_records(void)
{
    struct persist persist;
    struct records *records = new_records();
    keep_with(&persist, weir_records_region(records), &weir_records_persist_ops, records);
    for (uint64_t i = 0; i < KEYS; i++) {
        struct record_id id = weir_record_id(records, "test", &i, sizeof i);
        struct record_visit visit;
        weir_records_enter(records, &id, NOW, &visit);
        visit.record->expires_ns = NOW + WEIR_SEC;
        weir_records_leave(records, &visit);
    }
    weir_records_describe(records, &good[TABLES].described);
    walk(&persist, &good[TABLES].records);
    weir_dirty_clear(weir_dirty);
    weir_records_region(records)->persist = NULL;
    weir_records_free(records);
}

static void prepare(void)
{
    weir_clock_set(NOW);
    for (int i = 0; i < TABLES; i++)
        prepare_table(i);
    prepare_records();
    prepared = true;
}

/* ---- what is not ---- */

struct input {
    const uint8_t *data;
    size_t size;
};

static uint8_t next_byte(struct input *input)
{
    if (input->size == 0)
        return 0;
    input->size--;
    return *input->data++;
}

static uint64_t next_word(struct input *input)
{
    uint64_t word = 0;
    size_t len = input->size < sizeof word ? input->size : sizeof word;
    if (len > 0)
        memcpy(&word, input->data, len);
    input->data += len;
    input->size -= len;
    return word;
}

/* A copy at the end of its memory, with some words changed. Sizes stay small: a word above ROOM that is none
 * of the hash, time or texts would only take time. */
static unsigned char *spoil(struct input *input, const struct buffer *from, size_t *len)
{
    *len = from->end - from->start;
    unsigned char *bytes = malloc(*len);
    MUST(bytes);
    memcpy(bytes, from->bytes + from->start, *len);
    for (int count = next_byte(input); count > 0 && input->size > 0; count--) {
        size_t at = 8u * next_byte(input);
        uint64_t word = next_word(input);
        bool size = at >= 24 && at < 24 + 6 * 8;
        if (at + 8 > *len)
            *len = at < *len ? at : *len; /* cut */
        else if (!size || word < ROOM)
            memcpy(bytes + at, &word, sizeof word);
    }
    return bytes;
}

/* The next record that the input tells; its kind. */
static uint8_t next_record(struct input *input, const struct buffer *from, uint64_t *body, size_t *len)
{
    uint8_t kind = next_byte(input), words = next_byte(input);
    struct persist_head head;
    size_t at = from->start;
    if ((kind & 0x80) == 0) {
        *len = (size_t)(words % WORDS) * 8;
        for (size_t i = 0; i < *len / 8; i++)
            body[i] = next_word(input);
        return kind;
    }
    for (int skip = kind & 0x7f;; skip--) {
        if (at >= from->end)
            return 0;
        memcpy(&head, from->bytes + at, sizeof head);
        if (skip == 0)
            break;
        at += sizeof head + head.bytes;
    }
    *len = head.bytes < WORDS * 8 ? head.bytes : WORDS * 8;
    memcpy(body, from->bytes + at + sizeof head, *len);
    if (words < *len / 8)
        body[words] = next_word(input);
    return head.kind;
}

static bool apply_all(struct input *input, const struct persist *persist, const struct buffer *from)
{
    bool failed = false;
    while (input->size > 0 && !failed) {
        size_t len = 0;
        uint64_t body[WORDS];
        uint8_t kind = next_record(input, from, body, &len);
        uint64_t *exact = malloc(len + 1); /* its end is the end of memory */
        MUST(exact);
        memcpy(exact, body, len);
        (void)persist->kind->apply(persist, kind, (const unsigned char *)exact, len, &failed);
        free(exact);
    }
    return !failed;
}

/* ---- trying it ---- */

static void use_table(struct weir_table *table, const struct persist *persist)
{
    struct buffer again = {0}, all = {0};
    struct weir_error err = {0};
    take_some(table);
    walk(persist, &all);
    weir_table_describe(table, &again);
    MUST(!again.failed);
    struct weir_table *twin =
        weir_table_describe_read(again.bytes + again.start, again.end - again.start, &err);
    if (!twin)
        fprintf(stderr, "%s\n", err.text);
    MUST(twin);
    weir_table_free(twin);
    weir_buffer_free(&again);
    weir_buffer_free(&all);
}

static void try_table(struct input *input, struct subject *subject, enum table_recover how)
{
    struct persist persist;
    struct weir_error err = {0};
    size_t len;
    unsigned char *bytes = spoil(input, &subject->described, &len);
    struct weir_table *table = weir_table_describe_read(bytes, len, &err);
    free(bytes);
    MUST(table || err.text[0]);
    if (!table)
        return;
    keep_with(&persist, table->region, &weir_table_persist_ops, table);
    if (apply_all(input, &persist, &subject->records) && weir_table_recovered(table, how, NOW))
        use_table(table, &persist);
    if (weir_dirty)
        weir_dirty_clear(weir_dirty);
    table->region->persist = NULL;
    weir_table_free(table);
}

static void try_records(struct input *input, struct subject *subject)
{
    struct persist persist;
    struct records *records = new_records();
    size_t len;
    unsigned char *bytes = spoil(input, &subject->described, &len);
    keep_with(&persist, weir_records_region(records), &weir_records_persist_ops, records);
    if (weir_records_describe_read(records, bytes, len) && apply_all(input, &persist, &subject->records)) {
        struct buffer all = {0};
        weir_records_recovered(records, NOW);
        walk(&persist, &all);
        weir_buffer_free(&all);
    }
    free(bytes);
    weir_records_region(records)->persist = NULL;
    weir_records_free(records);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const int subjects[] = {0, 1, 2, 3, 4, TABLES, 5, 1};
    struct input input = {data, size};
    if (!prepared)
        prepare();
    uint8_t first = next_byte(&input);
    int which = subjects[first & 7];
    if (which < TABLES)
        try_table(&input, &good[which], (enum table_recover)((first >> 3 & 3) % 3));
    else
        try_records(&input, &good[TABLES]);
    return 0;
}
