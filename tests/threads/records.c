/* SPDX-License-Identifier: MIT */
/*
 * Many threads at the same records: inside of a record a thread is alone; what has not expired stays, what is
 * made is made once.
 */
#include <stdatomic.h>

#include "check.h"
#include "ledger/records.h"
#include "threads/team.h"

#define THREADS 8
#define IDS     64

struct scene {
    struct records *records;
    _Atomic int inside[IDS];
    _Atomic int64_t made[IDS], added[IDS], disturbed, refused;
    int64_t rounds;
    uint64_t seed;
};

struct content {
    int64_t sum, again; /* always the same number, while nobody is inside */
};

static struct record_id id_of(const struct scene *scene, uint64_t number)
{
    return weir_record_id(scene->records, "test", &number, sizeof number);
}

static struct scene scene_of(size_t count, int64_t rounds)
{
    struct weir_error err;
    struct scene scene = {.records = weir_records_new(count, sizeof(struct content), &err),
                          .rounds = team_scaled(rounds),
                          .seed = check.seed};
    if (!scene.records) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
    return scene;
}

static void add_inside(struct scene *scene, struct record_visit *visit, uint64_t number, int64_t n)
{
    if (!visit->record) {
        (void)atomic_fetch_add(&scene->refused, 1);
        return;
    }
    struct content *content = record_bytes(visit->record);
    if (atomic_fetch_add(&scene->inside[number], 1) != 0 || content->sum != content->again)
        (void)atomic_fetch_add(&scene->disturbed, 1);
    if (!visit->found)
        (void)atomic_fetch_add(&scene->made[number], 1);
    content->sum += n;
    if (content->sum % 64 == 0)
        team_yield(); /* somebody else has time to come in */
    visit->record->expires_ns = 1000;
    content->again += n;
    (void)atomic_fetch_add(&scene->added[number], n);
    (void)atomic_fetch_sub(&scene->inside[number], 1);
}

static void add_to_some(size_t self, void *arg)
{
    struct scene *scene = arg;
    struct rng rng = {scene->seed * 1000 + self};
    for (int64_t i = 0; i < scene->rounds; i++) {
        uint64_t number = (uint64_t)rng_between(&rng, 0, IDS - 1);
        struct record_id id = id_of(scene, number);
        struct record_visit visit;
        weir_records_enter(scene->records, &id, 1, &visit);
        add_inside(scene, &visit, number, 1);
        weir_records_leave(scene->records, &visit);
    }
}

static void check_sums(struct scene *scene)
{
    CHECK_EQ(scene->disturbed, 0);
    CHECK_EQ(scene->refused, 0);
    for (uint64_t i = 0; i < IDS; i++) {
        struct record_id id = id_of(scene, i);
        struct record_visit visit;
        weir_records_enter(scene->records, &id, 999, &visit);
        CHECK(visit.found || scene->added[i] == 0);
        CHECK_EQ(scene->made[i], visit.found);
        CHECK_EQ(((struct content *)record_bytes(visit.record))->sum, scene->added[i]);
        weir_records_leave(scene->records, &visit);
    }
    weir_records_free(scene->records);
}

TEST(who_is_inside_is_alone_with_one_lock)
{
    struct scene scene = scene_of(IDS * 2, 20000);
    team_run(THREADS, add_to_some, &scene);
    check_sums(&scene);
}

TEST(who_is_inside_is_alone_with_many_locks)
{
    struct scene scene = scene_of(16384, 20000);
    team_run(THREADS, add_to_some, &scene);
    check_sums(&scene);
}

/* ---- records that come and go, under a sweep ---- */

static void make_and_drop(size_t self, void *arg)
{
    struct scene *scene = arg;
    struct rng rng = {scene->seed * 1000 + self};
    for (int64_t i = 0; i < scene->rounds; i++) {
        int64_t now = 1 + i;
        uint64_t number = (uint64_t)self << 32 | (uint64_t)i;
        struct record_id id = id_of(scene, number);
        struct record_visit visit;
        weir_records_enter(scene->records, &id, now, &visit);
        if (visit.found || !visit.record) {
            (void)atomic_fetch_add(&scene->refused, 1);
        } else {
            *(struct content *)record_bytes(visit.record) = (struct content){i, i};
            visit.record->expires_ns = rng_between(&rng, 0, 3) == 0 ? 0 : 2 + i;
        }
        weir_records_leave(scene->records, &visit);
        if (i % 64 == 0)
            weir_records_sweep(scene->records, 256, now);
    }
}

TEST(places_are_used_again_and_what_stays_is_left_alone)
{
    struct scene scene = scene_of(4096, 20000);
    for (uint64_t i = 0; i < IDS; i++) { /* these stay */
        struct record_id id = id_of(&scene, UINT64_MAX - i);
        struct record_visit visit;
        weir_records_enter(scene.records, &id, 1, &visit);
        *(struct content *)record_bytes(visit.record) = (struct content){(int64_t)i, (int64_t)i};
        visit.record->expires_ns = INT64_MAX;
        weir_records_leave(scene.records, &visit);
    }
    team_run(4, make_and_drop, &scene);
    CHECK_EQ(scene.refused, 0);
    for (uint64_t i = 0; i < IDS; i++) {
        struct record_id id = id_of(&scene, UINT64_MAX - i);
        struct record_visit visit;
        weir_records_enter(scene.records, &id, INT64_MAX - 1, &visit);
        CHECK(visit.found);
        CHECK_EQ(((struct content *)record_bytes(visit.record))->again, i);
        weir_records_leave(scene.records, &visit);
    }
    struct records_stat stat;
    weir_records_sweep(scene.records, SIZE_MAX, INT64_MAX - 1);
    weir_records_stat(scene.records, &stat);
    CHECK_EQ(stat.used, IDS);
    weir_records_free(scene.records);
}
