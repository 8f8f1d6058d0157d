/* SPDX-License-Identifier: MIT */
/*
 * A store with real regions: a table of words, a wide one, a key with limits of its own, records; and beside
 * it everything that each of them ever was, with the ticket of that moment. What comes back after a fault
 * must be something that was there at the last moment that was let go, or later.
 */
#ifndef WEIR_TESTS_UNIT_FAILURE_KIT_H
#define WEIR_TESTS_UNIT_FAILURE_KIT_H

#include "base/error.h"
#include "check.h"
#include "ledger/persist.h"
#include "os/clock.h"
#include "store/commit.h"
#include "store/store.h"
#include "table/persist/persist.h"
#include "table/persist/recover.h"

#define WORLD_TABLES  2
#define WORLD_KEYS    3 /* of each table; the last one gets limits of its own */
#define WORLD_RECORDS 3
#define WORLD_ENTRIES (WORLD_TABLES * WORLD_KEYS + WORLD_RECORDS)
#define WORLD_STATES  64 /* of an entry */

struct world_entry {
    struct {
        int64_t value;
        uint64_t ticket;
    } states[WORLD_STATES];
    size_t count;
    size_t good; /* the latest that was let go */
};

struct world {
    struct store_options options;
    struct store *store;
    struct store_found found;
    struct weir_error err;
    struct weir_table *tables[WORLD_TABLES];
    struct records *records;
    struct world_entry entries[WORLD_ENTRIES];
    int64_t now_ns;
    int round;
    bool (*is_over)(void); /* NULL: a story is told to its end */
    char why[160];         /* world_is_there */
};

/* Nothing comes back by itself while a test runs. */
static const char *const world_limits[WORLD_TABLES] = {"1000/365d burst=1000",
                                                       "1000/365d burst=1000, 5000/365d burst=5000"};

static inline void world_time(struct world *world, int64_t more_ns)
{
    weir_clock_set(world->now_ns += more_ns);
}

static inline void world_init(struct world *world, struct disk *disk, const char *path)
{
    memset(world, 0, sizeof *world);
    world->options = (struct store_options){.disk = disk,
                                            .path = path,
                                            .sync = STORE_ALWAYS,
                                            .manual = true,
                                            .no_elapsed = true,
                                            .segment_bytes = 4096};
    for (size_t i = 0; i < WORLD_ENTRIES; i++)
        world->entries[i].count = 1;
    for (size_t i = 0; i < WORLD_TABLES * WORLD_KEYS; i++)
        world->entries[i].states[0].value = 1000;
    world->now_ns = 1000 * WEIR_SEC;
    world_time(world, 0);
}

/* ---- from open to close ---- */

static inline void world_free(struct world *world)
{
    for (int t = 0; t < WORLD_TABLES; t++)
        weir_table_free(world->tables[t]);
    if (world->records)
        weir_records_free(world->records);
    memset(world->tables, 0, sizeof world->tables);
    world->records = NULL;
}

static inline void world_put_part(struct buffer *note, struct buffer *part)
{
    uint64_t len = buffer_len(part);
    buffer_put(note, (const char *)&len, sizeof len);
    buffer_put(note, buffer_bytes(part), len);
    note->failed = note->failed || part->failed;
    weir_buffer_free(part);
}

static inline void world_note(struct world *world, struct buffer *note)
{
    struct buffer part = {0};
    for (int t = 0; t < WORLD_TABLES; t++) {
        weir_table_describe(world->tables[t], &part);
        world_put_part(note, &part);
    }
    weir_records_describe(world->records, &part);
    world_put_part(note, &part);
}

static inline struct slice world_part(const unsigned char *catalogue, size_t len, int index)
{
    size_t at = 0;
    for (;; index--) {
        uint64_t bytes;
        if (!CHECK(len - at >= sizeof bytes))
            abort();
        memcpy(&bytes, catalogue + at, sizeof bytes);
        at += sizeof bytes;
        if (index == 0)
            return (struct slice){(const char *)catalogue + at, bytes};
        at += bytes;
    }
}

static inline bool world_make(struct world *world)
{
    size_t len;
    const unsigned char *catalogue = weir_store_found_catalogue(world->store, &len);
    struct weir_table_options options = {.keys = 64};
    for (int t = 0; t < WORLD_TABLES; t++) {
        struct slice part = catalogue ? world_part(catalogue, len, t) : (struct slice){NULL, 0};
        world->tables[t] = catalogue ? weir_table_describe_read(part.bytes, part.len, &world->err)
                                     : weir_table_new_stored(world_limits[t], &options, NULL, &world->err);
        if (!world->tables[t] || !weir_store_add(world->store, (uint32_t)t + 1, world->tables[t]->region, 0,
                                                 &weir_table_persist_ops, world->tables[t], &world->err))
            return false;
    }
    struct slice part = catalogue ? world_part(catalogue, len, WORLD_TABLES) : (struct slice){NULL, 0};
    world->records = weir_records_new(64, sizeof(int64_t), &world->err);
    return world->records &&
           (!catalogue || CHECK(weir_records_describe_read(world->records, part.bytes, part.len))) &&
           weir_store_add(world->store, WORLD_TABLES + 1, weir_records_region(world->records), 0,
                          &weir_records_persist_ops, world->records, &world->err);
}

static inline bool world_recover(struct world *world)
{
    struct buffer note = {0};
    if (!weir_store_replay(world->store, &world->found, &world->err))
        return false;
    for (int t = 0; t < WORLD_TABLES; t++) {
        struct region *region = world->tables[t]->region;
        if (!weir_table_recovered(world->tables[t], TABLE_EXACT, region_time(region, weir_now()))) {
            weir_error_set(&world->err, ENOMEM, "out of memory");
            return false;
        }
    }
    weir_records_recovered(world->records, weir_now());
    world_note(world, &note);
    if (note.failed)
        weir_error_set(&world->err, ENOMEM, "out of memory");
    bool started =
        !note.failed && weir_store_start(world->store, buffer_bytes(&note), buffer_len(&note), &world->err);
    weir_buffer_free(&note);
    return started;
}

/* false: it says why, and everything is gone again. */
static inline bool world_begin(struct world *world)
{
    world->err = (struct weir_error){0};
    world->store = weir_store_open(&world->options, &world->found, &world->err);
    if (world->store && world_make(world) && world_recover(world))
        return true;
    CHECK(world->err.text[0] != '\0');
    if (world->store)
        (void)weir_store_close(world->store, NULL);
    world->store = NULL;
    world_free(world);
    return false;
}

static inline bool world_end(struct world *world)
{
    bool closed = weir_store_close(world->store, &world->err);
    world->store = NULL;
    world_free(world);
    return closed;
}

/* ---- what is done to it ---- */

static inline int64_t world_value(struct world *world, size_t entry)
{
    char name = (char)('a' + entry % WORLD_KEYS);
    if (entry < WORLD_TABLES * WORLD_KEYS) {
        struct weir_verdict verdict;
        (void)weir_table_peek(world->tables[entry / WORLD_KEYS], &name, 1, 1, &verdict);
        return verdict.remaining;
    }
    struct record_id id = weir_record_id(world->records, "test", &entry, sizeof entry);
    struct record_visit visit;
    weir_records_enter(world->records, &id, weir_now(), &visit);
    int64_t value = visit.record && visit.found ? *(int64_t *)record_bytes(visit.record) : 0;
    visit.looked = true;
    weir_records_leave(world->records, &visit);
    return value;
}

static inline void world_put_record(struct world *world, size_t entry)
{
    struct record_id id = weir_record_id(world->records, "test", &entry, sizeof entry);
    struct record_visit visit;
    weir_records_enter(world->records, &id, weir_now(), &visit);
    if (visit.record) {
        *(int64_t *)record_bytes(visit.record) = world->round;
        visit.record->expires_ns = world->round % 4 == 3 ? 0 : weir_now() + 86400 * WEIR_SEC;
    }
    weir_records_leave(world->records, &visit);
}

/* Units are taken, and sometimes given back; limits of one key come and go. */
static inline void world_change(struct world *world, size_t entry)
{
    struct weir_table *table = world->tables[entry / WORLD_KEYS % WORLD_TABLES];
    char name = (char)('a' + entry % WORLD_KEYS);
    int round = world->round;
    if (entry >= WORLD_TABLES * WORLD_KEYS)
        world_put_record(world, entry);
    else if (entry % WORLD_KEYS == 1 && round % 3 == 2)
        weir_table_give(table, &name, 1, 5);
    else if (entry % WORLD_KEYS == 2 && round % 5 == 2)
        (void)weir_table_override(table, &name, 1, round % 2 ? "500/365d burst=500" : NULL, NULL);
    else
        (void)weir_table_take(table, &name, 1, 3 + round % 4, NULL);
}

/* All entries, once; one answer for all. `pause` and `go_on` are called around what only looks. */
static inline void world_turn(struct world *world, int64_t *pause)
{
    world->round++;
    for (size_t entry = 0; entry < WORLD_ENTRIES; entry++)
        world_change(world, entry);
    uint64_t ticket = weir_store_commit(world->store);
    int64_t left = pause ? *pause : 0;
    if (pause)
        *pause = -1;
    for (size_t i = 0; i < WORLD_ENTRIES; i++) {
        struct world_entry *entry = &world->entries[i];
        if (!CHECK(entry->count < WORLD_STATES))
            abort();
        entry->states[entry->count].value = world_value(world, i);
        entry->states[entry->count++].ticket = ticket;
    }
    if (pause)
        *pause = left;
}

static inline void world_answer(struct world *world)
{
    for (size_t i = 0; i < WORLD_ENTRIES; i++) {
        struct world_entry *entry = &world->entries[i];
        while (entry->good + 1 < entry->count &&
               weir_store_ticket_status(world->store, entry->states[entry->good + 1].ticket) == STORE_GO)
            entry->good++;
    }
}

static inline void world_work(struct world *world)
{
    (void)weir_store_work(world->store, STORE_WORK_SYNC | STORE_WORK_IMAGE);
    world_answer(world);
}

/* With all that works again: it becomes well, and everybody is answered. */
static inline bool world_heal(struct world *world)
{
    for (int i = 0; i < 30; i++) {
        world_work(world);
        if (weir_store_is_well(world->store) && world->entries[0].good + 1 == world->entries[0].count)
            return true;
        world_time(world, WEIR_SEC);
    }
    return false;
}

/* ---- what came back ---- */

/* Each entry is what it was when it was last let go, or at a later moment. false: it says which is not. */
static inline bool world_is_there(struct world *world)
{
    bool good = true;
    for (size_t i = 0; i < WORLD_ENTRIES; i++) {
        const struct world_entry *entry = &world->entries[i];
        int64_t value = world_value(world, i);
        size_t at = entry->good;
        while (at < entry->count && entry->states[at].value != value)
            at++;
        if (at == entry->count)
            (void)snprintf(world->why, sizeof world->why,
                           "entry %zu is %" PRId64 ", and was %" PRId64 " when it was let go, %" PRId64
                           " at last",
                           i, value, entry->states[entry->good].value, entry->states[entry->count - 1].value);
        good = good && at < entry->count;
    }
    return good;
}

static inline bool world_check(struct world *world)
{
    bool good = CHECK(world_is_there(world));
    if (!good)
        printf("# %s\n", world->why);
    return good;
}

/* What is there now is where the next life begins. */
static inline void world_forget(struct world *world)
{
    for (size_t i = 0; i < WORLD_ENTRIES; i++) {
        struct world_entry *entry = &world->entries[i];
        entry->states[0].value = world_value(world, i);
        entry->states[0].ticket = 0;
        entry->count = 1;
        entry->good = 0;
    }
}

#endif
