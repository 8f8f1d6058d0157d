/* SPDX-License-Identifier: MIT */
/*
 * For tests of tables that are kept: a store that keeps every record in memory, and gives them back in
 * whatever order. Time is an argument; the clock that decides what an image leaves out is set by hand.
 */
#ifndef WEIR_TESTS_UNIT_KEEP_KIT_H
#define WEIR_TESTS_UNIT_KEEP_KIT_H

#include "check.h"
#include "os/clock.h"
#include "table/persist/persist.h"
#include "table/persist/recover.h"

#define KIT __attribute__((unused)) static

#define START (INT64_C(1000) * WEIR_SEC)

/* All the words of the language; `next` is what each may be changed to. */
struct kept_limits {
    const char *limits, *next, *last;
};
static const struct kept_limits kept_limits[] = {
    {"10/s burst=20", "20/s burst=7", "5/s burst=40"},
    {"10/s algo=interval", "20/s algo=interval", "3/s algo=interval"},
    {"10/s algo=leaky-bucket queue=8", "20/s algo=leaky-bucket queue=4", "7/s algo=leaky-bucket queue=20"},
    {"10/s burst=6 algo=smooth", "20/s burst=3 algo=smooth", "5/s burst=9 algo=smooth"},
    {"10/s algo=warmup warmup=3s", "20/s algo=warmup warmup=1s", "5/s algo=warmup warmup=5s"},
    {"10/s algo=hybrid ratio=1.5 pool=2s", "20/s algo=hybrid ratio=1.1 pool=2s",
     "5/s algo=hybrid ratio=2 pool=4s"},
    {"10/s algo=fixed-window", "20/2s algo=fixed-window", "5/s algo=fixed-window"},
    {"10/s algo=fixed-window refused=count", "20/2s algo=fixed-window",
     "5/s algo=fixed-window refused=count"},
    {"10/s algo=sliding-window", "20/2s algo=sliding-window", "5/s algo=sliding-window"},
    {"10/s algo=sliding-log", "8/2s algo=sliding-log", "5/s algo=sliding-log"},
    {"100/s algo=sliding-log", "70/2s algo=sliding-log", "90/s algo=sliding-log"},
    {"10/s burst=20 algo=step", "20/s burst=10 algo=step", "5/s burst=30 algo=step"},
    {"10/s burst=20, 100/min burst=50, 6/s algo=fixed-window",
     "20/s burst=10, 90/min burst=60, 5/s algo=fixed-window",
     "5/s burst=30, 200/min burst=20, 7/s algo=fixed-window"},
    {"unlimited", "unlimited", "unlimited"},
};
enum { KEPT_LIMITS = sizeof kept_limits / sizeof kept_limits[0] };

/* ---- a store ---- */

struct kept_record {
    uint8_t kind;
    size_t len;
    uint64_t body[]; /* at a multiple of 8 */
};

struct kept {
    struct persist persist;
    struct kept_record **records;
    size_t count, room, wanted; /* `wanted`: images that the table has asked for */
    struct buffer described;
};

KIT void kept_put(struct kept *kept, const struct persist_head *head, const void *body)
{
    if (kept->count == kept->room) {
        kept->room = kept->room ? 2 * kept->room : 64;
        kept->records = realloc(kept->records, kept->room * sizeof(struct kept_record *));
    }
    struct kept_record *record = malloc(sizeof *record + head->bytes);
    record->kind = head->kind;
    record->len = head->bytes;
    memcpy(record->body, body, head->bytes);
    kept->records[kept->count++] = record;
}

KIT void kept_take_in(struct kept *kept, struct buffer *out)
{
    const char *at = buffer_bytes(out), *end = at + buffer_len(out);
    CHECK(!out->failed);
    while (at < end) {
        struct persist_head head;
        memcpy(&head, at, sizeof head);
        CHECK_EQ(head.region, kept->persist.number);
        CHECK_EQ(head.bytes % 8, 0);
        kept_put(kept, &head, at + sizeof head);
        at += sizeof head + head.bytes;
    }
    weir_buffer_free(out);
}

/* What this thread has listed, as it is now. */
KIT void kept_commit(struct kept *kept)
{
    struct buffer out = {0};
    if (!weir_dirty)
        return;
    for (uint32_t i = 0; i < weir_dirty->count; i++)
        kept->persist.kind->capture(&kept->persist, weir_dirty->items[i].slot, weir_dirty->items[i].hash,
                                    &out);
    weir_dirty_clear(weir_dirty);
    kept_take_in(kept, &out);
}

KIT void kept_overfull(struct store *store)
{
    kept_commit((struct kept *)(void *)store);
}

KIT void kept_want_image(struct store *store)
{
    ((struct kept *)(void *)store)->wanted++;
}

/* All of it, as an image has it. */
KIT void kept_image(struct kept *kept)
{
    uint64_t cursor = 0;
    bool more = true;
    while (more) {
        struct buffer out = {0};
        more = kept->persist.kind->walk(&kept->persist, &cursor, &out, 300);
        kept_take_in(kept, &out);
    }
}

/* As the owner's note. */
KIT void kept_note(struct kept *kept, struct weir_table *table)
{
    weir_buffer_free(&kept->described);
    weir_table_describe(table, &kept->described);
    CHECK(!kept->described.failed);
}

KIT void kept_begin(struct kept *kept, struct weir_table *table)
{
    *kept = (struct kept){.persist = {.store = (struct store *)(void *)kept,
                                      .number = 7,
                                      .kind = &weir_table_persist_ops,
                                      .owner = table,
                                      .overfull = kept_overfull,
                                      .want_image = kept_want_image}};
    table->region->persist = &kept->persist;
    kept_note(kept, table);
}

KIT void kept_end(struct kept *kept)
{
    for (size_t i = 0; i < kept->count; i++)
        free(kept->records[i]);
    free(kept->records);
    weir_buffer_free(&kept->described);
    if (weir_dirty)
        weir_dirty_clear(weir_dirty);
}

KIT void kept_shuffle(struct kept *kept, struct rng *rng)
{
    for (size_t i = kept->count; i > 1; i--) {
        size_t j = (size_t)rng_between(rng, 0, (int64_t)i - 1);
        struct kept_record *record = kept->records[i - 1];
        kept->records[i - 1] = kept->records[j];
        kept->records[j] = record;
    }
}

/* A table made of the last note and the records from `from` on, each once, or with a chance of 1 in 4 twice.
 */
KIT struct weir_table *kept_recover(struct kept *kept, size_t from, struct rng *rng, enum table_recover how,
                                    int64_t now)
{
    struct weir_error err;
    struct weir_table *table =
        weir_table_describe_read(buffer_bytes(&kept->described), buffer_len(&kept->described), &err);
    if (!CHECK(table != NULL)) {
        printf("# %s\n", err.text);
        return NULL;
    }
    struct persist persist = kept->persist;
    bool failed = false;
    persist.owner = table;
    for (size_t i = from; i < kept->count; i++) {
        const struct kept_record *record = kept->records[i];
        for (int times = rng && rng_between(rng, 0, 3) == 0 ? 2 : 1; times > 0; times--)
            CHECK(persist.kind->apply(&persist, record->kind, (const unsigned char *)record->body,
                                      record->len, &failed));
    }
    CHECK(!failed);
    CHECK(weir_table_recovered(table, how, now));
    return table;
}

/* Keys have the same hashes in every run. */
KIT struct weir_table *kept_table(const char *limits, struct weir_table_options options)
{
    struct weir_error err;
    struct hash_key key = {4711, 42};
    struct weir_table *table = weir_table_new_stored(limits, &options, &key, &err);
    if (!CHECK(table != NULL)) {
        printf("# %s: %s\n", limits ? limits : "(own)", err.text);
        abort();
    }
    return table;
}

/* ---- the same answers ---- */

KIT bool same_verdict(const struct weir_verdict *a, const struct weir_verdict *b)
{
    return a->allowed == b->allowed && a->reason == b->reason && a->remaining == b->remaining &&
           a->retry_after_ns == b->retry_after_ns && a->reset_after_ns == b->reset_after_ns &&
           a->wait_ns == b->wait_ns && a->limit == b->limit;
}

struct kept_name { /* of a key */
    unsigned char bytes[24];
    size_t len;
};

KIT bool asked_alike(struct weir_table *a, struct weir_table *b, int64_t now, const struct kept_name *key,
                     int64_t n)
{
    struct weir_verdict one, other;
    (void)weir_table_peek_at(a, now, key->bytes, key->len, n, &one);
    (void)weir_table_peek_at(b, now, key->bytes, key->len, n, &other);
    if (!CHECK(same_verdict(&one, &other))) {
        printf("# peek of key %d, n %" PRId64 ": left %" PRId64 " and %" PRId64 ", reset %" PRId64
               " and %" PRId64 "\n",
               key->bytes[0], n, one.remaining, other.remaining, one.reset_after_ns, other.reset_after_ns);
        return false;
    }
    bool yes = weir_table_take_at(a, now, key->bytes, key->len, n, &one);
    return CHECK_EQ(weir_table_take_at(b, now, key->bytes, key->len, n, &other), yes) &&
           CHECK(same_verdict(&one, &other));
}

/* Both are asked the same of these keys, now and later. */
KIT bool names_alike(struct weir_table *a, struct weir_table *b, int64_t now, const struct kept_name *names,
                     size_t count)
{
    static const int64_t later[] = {0, 1, 10 * WEIR_MS, 200 * WEIR_MS, 3 * WEIR_SEC, 40 * WEIR_SEC};
    for (size_t i = 0; i < sizeof later / sizeof later[0]; i++)
        for (size_t key = 0; key < count; key++)
            for (int64_t n = 1; n <= 16; n *= 4)
                if (!asked_alike(a, b, now + later[i], &names[key], n))
                    return false;
    return true;
}

KIT struct kept_name kept_number(uint64_t key)
{
    struct kept_name name = {.len = sizeof key};
    memcpy(name.bytes, &key, sizeof key);
    return name;
}

/* The same of keys 1, 2 ... */
KIT bool answers_alike(struct weir_table *a, struct weir_table *b, int64_t now, uint64_t keys)
{
    struct kept_name names[16];
    for (uint64_t i = 0; i < keys; i++)
        names[i] = kept_number(i + 1);
    return CHECK(keys <= 16) && names_alike(a, b, now, names, keys);
}

#endif
