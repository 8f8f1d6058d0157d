/* SPDX-License-Identifier: MIT */
/*
 * Many threads at records that are kept: each appends what it has listed, with others in between, and an
 * image is walked beside them. Read again in any order, the log has the last state of every record.
 */
#include <stdatomic.h>

#include "threads/team.h"
#include "unit/ledger/records_kit.h"

#define THREADS 6
#define IDS     50

struct scene {
    struct fake_store fake;
    struct records *records;
    struct buffer logs[THREADS];
    int64_t rounds;
    _Atomic size_t running;
    uint64_t seed;
};

static _Thread_local struct buffer *own_log;

static void overfull(struct store *store)
{
    struct fake_store *fake = (struct fake_store *)(void *)store;
    for (uint32_t i = 0; weir_dirty && i < weir_dirty->count; i++) {
        struct dirty_item *item = &weir_dirty->items[i];
        fake->persist.kind->capture(&fake->persist, item->slot, item->hash, own_log);
        fake->persist.kind->released(&fake->persist, item->slot, item->hash);
    }
    if (weir_dirty)
        weir_dirty_clear(weir_dirty);
}

static struct record_id id_of(const struct records *records, uint64_t number)
{
    return weir_record_id(records, "test", &number, sizeof number);
}

/* One more, or taken back; sometimes it is appended from inside. */
static void change(struct scene *scene, struct rng *rng)
{
    uint64_t number = (uint64_t)rng_between(rng, 0, IDS - 1);
    struct record_id id = id_of(scene->records, number);
    struct record_visit visit;
    bool from_inside = rng_between(rng, 0, 3) == 0;
    if (from_inside)
        weir_records_flush(scene->records);
    weir_records_enter(scene->records, &id, 1, &visit);
    if (!visit.record)
        abort();
    int64_t *bytes = record_bytes(visit.record);
    bytes[0]++;
    visit.record->expires_ns = 1000;
    if (from_inside)
        weir_records_append(scene->records, &visit);
    if (rng_between(rng, 0, 9) == 0 && (visit.found || !from_inside))
        visit.record->expires_ns = 0;
    weir_records_leave(scene->records, &visit);
}

static void work(size_t self, void *arg)
{
    struct scene *scene = arg;
    struct rng rng = {scene->seed * 1000 + self};
    own_log = &scene->logs[self];
    for (int64_t i = 0; i < scene->rounds; i++) {
        if (self == 0 && i % 64 == 0)
            fake_walk(&scene->fake, 500, own_log);
        else
            change(scene, &rng);
        if (rng_between(&rng, 0, 4) == 0)
            overfull(scene->fake.persist.store);
    }
    overfull(scene->fake.persist.store);
}

static int64_t value_of(struct records *records, uint64_t number)
{
    struct record_id id = id_of(records, number);
    struct record_visit visit;
    weir_records_enter(records, &id, 1, &visit);
    int64_t value = visit.record && visit.found ? *(int64_t *)record_bytes(visit.record) : 0;
    visit.looked = true;
    weir_records_leave(records, &visit);
    return value;
}

static struct records *records_of(size_t count, struct fake_store *fake)
{
    struct weir_error err;
    struct records *records = weir_records_new(count, 16, &err);
    if (!records)
        abort();
    fake_keep(fake, records, 0);
    fake->persist.overfull = overfull;
    return records;
}

static void compare(struct scene *scene)
{
    struct fake_store other = {0};
    struct buffer all = {0}, text = {0};
    struct rng rng = rng_new(1);
    struct records *twin = records_of(3000, &other);
    weir_records_describe(scene->records, &text);
    CHECK(weir_records_describe_read(twin, buffer_bytes(&text), buffer_len(&text)));
    for (size_t i = 0; i < THREADS; i++) {
        buffer_put(&all, buffer_bytes(&scene->logs[i]), buffer_len(&scene->logs[i]));
        weir_buffer_free(&scene->logs[i]);
    }
    CHECK(fake_replay(&other, &all, &rng));
    weir_records_recovered(twin, 1);
    for (uint64_t i = 0; i < IDS; i++)
        CHECK_EQ(value_of(twin, i), value_of(scene->records, i));
    weir_buffer_free(&all);
    weir_buffer_free(&text);
    weir_records_free(twin);
}

TEST(the_last_state_of_every_record_is_in_the_logs)
{
    weir_clock_set(1);
    for (uint64_t round = 0; round < 20; round++) {
        struct scene *scene = calloc(1, sizeof *scene);
        scene->records = records_of(2000, &scene->fake);
        scene->rounds = team_scaled(3000);
        scene->seed = check.seed * 100 + round;
        uint64_t misses = weir_dirty_misses;
        team_watch("records that are kept");
        team_run(THREADS, work, scene);
        team_watch_done();
        CHECK_EQ(weir_dirty_misses, misses);
        compare(scene);
        weir_records_free(scene->records);
        free(scene);
    }
    weir_clock_set(-1);
}
