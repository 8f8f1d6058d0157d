/* SPDX-License-Identifier: MIT */
/*
 * A store on the real disk, with its own threads: many append at the same time, in every mode, while images
 * are written and segments change; now and then a call of the disk fails. What was let go is there
 * afterwards.
 */
#define _POSIX_C_SOURCE 200809L
#include <dirent.h>
#include <pthread.h>
#include <unistd.h>

#include "disk_faulty.h"
#include "os/thread.h"
#include "store/checkpoint.h"
#include "store/commit.h"
#include "store/store.h"
#include "unit/store/store_kit.h"

#define THREADS 4
#define ROUNDS  200

struct team {
    char path[64];
    struct faulty faulty;
    struct store *store;
    struct shelf shelf;
    enum store_sync sync;
    bool fails;
    _Atomic uint64_t let_go[SHELF]; /* values that were answered */
    _Atomic uint64_t given_up;
    _Atomic int ills, wells;
};

static void team_event(void *arg, const struct store_event *event)
{
    struct team *team = arg;
    atomic_fetch_add(&team->ills, event->kind == STORE_EVENT_ILL);
    atomic_fetch_add(&team->wells, event->kind == STORE_EVENT_WELL);
}

static bool team_open(struct team *team, struct store_found *found)
{
    struct weir_error err = {0};
    struct store_options options = {.disk = &team->faulty.disk,
                                    .path = team->path,
                                    .sync = team->sync,
                                    .segment_bytes = 64 * 1024,
                                    .image_log_bytes = 256 * 1024,
                                    .event = team_event,
                                    .arg = team};
    memset(&team->shelf, 0, sizeof team->shelf);
    team->shelf.region.header = &team->shelf.header;
    team->shelf.region.shape.kind = REGION_WORDS;
    team->store = weir_store_open(&options, found, &err);
    bool good = CHECK(team->store != NULL) &&
                CHECK(weir_store_add(team->store, SHELF_REGION, &team->shelf.region, 0, &shelf_kind,
                                     &team->shelf, &err)) &&
                CHECK(weir_store_replay(team->store, found, &err)) &&
                CHECK(weir_store_start(team->store, "note", 4, &err));
    if (!good)
        printf("# %s\n", err.text);
    return good;
}

static void note_let_go(struct team *team, uint64_t index, uint64_t value)
{
    uint64_t seen = atomic_load(&team->let_go[index]);
    while (seen < value && !atomic_compare_exchange_weak(&team->let_go[index], &seen, value)) {
    }
}

static void *member(void *arg)
{
    struct team *team = arg;
    static _Atomic uint64_t number;
    struct rng rng = rng_new(check.seed + atomic_fetch_add(&number, 1));
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t index = (uint64_t)rng_between(&rng, 0, SHELF - 1);
        for (int more = 0; more < 4; more++)
            shelf_raise(&team->shelf, (index + (uint64_t)more) % SHELF);
        uint64_t value = atomic_load(&team->shelf.values[index]);
        /* Others may have raised it since, and not yet appended: whoever answers for that lists it. */
        mark_dirty(team->shelf.region.persist, &team->shelf.values[index], index + 1);
        uint64_t ticket = weir_store_commit(team->store);
        if (weir_store_wait(team->store, ticket, 20 * WEIR_SEC))
            note_let_go(team, index, value);
        else
            atomic_fetch_add(&team->given_up, 1);
        if (i == ROUNDS / 2 && !team->fails)
            (void)weir_store_image(team->store, NULL);
    }
    shelf_raise(&team->shelf, 0); /* listed, and not committed: the end of the thread does that */
    return NULL;
}

static void run(struct team *team)
{
    pthread_t threads[THREADS];
    struct store_state state = {0};
    if (team->fails) /* before anybody writes: they may be through before we come again */
        faulty_fail(&team->faulty, DISK_CALL_WRITE, 3, EIO, false);
    for (int i = 0; i < THREADS; i++)
        CHECK(weir_thread_start(&threads[i], member, team));
    while (team->fails && state.faults == 0)
        weir_store_state(team->store, &state);
    for (int i = 0; i < THREADS; i++)
        (void)pthread_join(threads[i], NULL);
}

static void clean(const char *path)
{
    char name[400];
    DIR *dir = opendir(path);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        (void)snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        (void)remove(name);
    }
    if (dir)
        (void)closedir(dir);
    (void)rmdir(path);
}

static void check_mode(enum store_sync sync, bool fails)
{
    static struct team team;
    struct store_found found;
    memset(&team, 0, sizeof team);
    team.sync = sync;
    team.fails = fails;
    faulty_init(&team.faulty, NULL);
    (void)snprintf(team.path, sizeof team.path, "store-XXXXXX");
    if (!CHECK(mkdtemp(team.path) != NULL) || !team_open(&team, &found))
        return;
    run(&team);
    CHECK_EQ(atomic_load(&team.given_up), 0);
    uint64_t last = atomic_load(&team.shelf.values[0]);
    CHECK(weir_store_close(team.store, NULL));
    CHECK_EQ(atomic_load(&team.faulty.open), 0);
    if (fails)
        CHECK(atomic_load(&team.ills) > 0 && atomic_load(&team.ills) == atomic_load(&team.wells));
    if (team_open(&team, &found)) {
        CHECK(found.clean);
        for (int i = 0; i < SHELF; i++)
            CHECK(atomic_load(&team.shelf.values[i]) >= atomic_load(&team.let_go[i]));
        CHECK_EQ(atomic_load(&team.shelf.values[0]), last);
        CHECK(weir_store_close(team.store, NULL));
    }
    clean(team.path);
}

TEST(threads_commit_always)
{
    check_mode(STORE_ALWAYS, false);
}

TEST(threads_commit_everysec)
{
    check_mode(STORE_EVERYSEC, false);
}

TEST(threads_commit_never)
{
    check_mode(STORE_NEVER, false);
}

TEST(threads_wait_while_it_is_ill_and_go_on_when_it_is_well)
{
    check_mode(STORE_ALWAYS, true);
}
