/* SPDX-License-Identifier: MIT */
/*
 * The n-th failure, for every n and every kind of call: disk, memory, pages. In each story a directory that
 * has an image and a log is opened, read, written, imaged, copied and closed; one call fails. Nobody crashes
 * or hangs, and what was let go is there afterwards: after a power cut, or a kill, right behind it; and when
 * the store was left alone with a disk that works again it is well, and all of it is there.
 *
 * Memory fails on the real disk, since the simulated one needs some, too. script/failure-sites lists the
 * places whose calls have failed, and those of the store whose calls have not.
 */
#define _GNU_SOURCE
#include <pthread.h>

#include "disk_faulty.h"
#include "disk_sim.h"
#include "store/backup.h"
#include "store/checkpoint.h"
#include "store/commit.h"
#include "store/health.h"
#include "store/inspect.h"
#include "unit/failure_sites.h"
#include "unit/folder.h"
#include "unit/os/failing_map.h"
#include "unit/store/failure_kit.h"

#define CALLS_MOST 5000 /* no story has so many */

/* ---- stories ---- */

/* How a story ends: the store is left alone until it is well, and closed; or it is cut off, at the end of the
 * story, or as soon as something has failed. */
enum ending { HEALED, CUT, CUT_AT_ONCE, ENDINGS };
static const char *const ending_names[ENDINGS] = {"healed", "cut", "cut at once"};

static int64_t *pause_of(bool memory)
{
    return memory ? &allocations_left : NULL;
}

/* Two images, a log behind them, and a process that did not end well. */
static bool prepare(struct world *world)
{
    if (!CHECK(world_begin(world)))
        return false;
    for (int i = 0; i < 6; i++) {
        world_turn(world, NULL);
        world_work(world);
        if (i % 2 == 1)
            CHECK(weir_store_image(world->store, &world->err));
    }
    return CHECK(world_heal(world));
}

/* Everything that a store does while it runs. `ill`: it has to heal, too. */
static void live(struct world *world, bool memory, bool ill)
{
    struct buffer note = {0};
    for (int i = 0; i < 14; i++) {
        world_turn(world, pause_of(memory));
        if (ill && i == 5)
            weir_health_fault(world->store, "a test", EIO);
        world_work(world);
        if (world->is_over && world->is_over())
            return;
        if (i == 3)
            (void)weir_store_image(world->store, NULL);
        if (i == 6) {
            world_note(world, &note);
            if (!note.failed)
                (void)weir_store_catalogue(world->store, buffer_bytes(&note), buffer_len(&note));
            weir_buffer_free(&note);
        }
        if (i == 9)
            (void)weir_store_backup(world->store, "copy", NULL);
        world_time(world, WEIR_SEC / 4);
    }
    for (int i = 0; i < 6; i++)
        world_work(world);
}

/* ---- the disk ---- */

struct place {
    struct sim *sim;
    uint64_t faults;      /* before the story */
    struct faulty faulty; /* tells where calls come from */
    struct world world;
};

static struct order {
    enum disk_call kind;
    uint64_t n;
    int fault;
    bool copies; /* there are no links */
    bool ill;    /* it has to heal from something else */
    bool log;    /* doctors: a segment is damaged, not an image */
    enum ending ending;
} order;

static struct place place;

static bool has_failed(void)
{
    return sim_faults(place.sim) > place.faults;
}

static void give_order(void)
{
    sim_fail(place.sim, order.kind, order.n, order.fault, false);
    faulty_fail(&place.faulty, order.kind, order.n, 0, false);
    if (order.copies)
        faulty_fail(&place.faulty, DISK_CALL_LINK, 1, EXDEV, true);
}

static void take_order_back(void)
{
    sim_no_faults(place.sim);
    faulty_no_faults(&place.faulty);
}

static void die(bool begun)
{
    sim_stop_after(place.sim, 0);
    if (begun)
        (void)world_end(&place.world);
    sim_cut(place.sim, NULL);
}

/* Was the call reached? */
static bool run_disk(void)
{
    struct world *world = &place.world;
    bool heals = order.ending == HEALED, closed = false;
    place.faults = sim_faults(place.sim);
    world->is_over = order.ending == CUT_AT_ONCE ? has_failed : NULL;
    give_order();
    bool begun = world_begin(world);
    if (begun) {
        CHECK(world_check(world));
        live(world, false, order.ill);
    }
    if (begun && heals) {
        CHECK(world_heal(world) || has_failed());
        closed = world_end(world); /* here it may fail as well */
        begun = false;
    }
    bool reached = has_failed();
    CHECK(reached || !heals || closed);
    take_order_back();
    if (reached)
        site_add(disk_call_names[order.kind], atomic_load(&place.faulty.site));
    die(begun);
    return reached;
}

static bool try_disk(void)
{
    long faults = check.faults;
    bool reached = false;
    memset(&place, 0, sizeof place);
    place.sim = sim_new(check.seed + order.n + (uint64_t)order.kind * CALLS_MOST);
    faulty_init(&place.faulty, sim_disk(place.sim));
    world_init(&place.world, &place.faulty.disk, "data");
    if (prepare(&place.world)) {
        die(true);
        reached = run_disk();
        if (CHECK(world_begin(&place.world))) {
            CHECK(world_check(&place.world));
            world_forget(&place.world);
            world_turn(&place.world, NULL);
            CHECK(world_heal(&place.world));
            CHECK(world_end(&place.world));
        }
        CHECK_EQ(sim_handles(place.sim), 0);
    }
    if (check.faults > faults)
        printf("# call %" PRIu64 " of %s, fault %d%s%s, %s\n", order.n, disk_call_names[order.kind],
               order.fault, order.copies ? ", without links" : "", order.ill ? ", ill" : "",
               ending_names[order.ending]);
    sim_free(place.sim);
    weir_clock_set(-1);
    return reached;
}

static void try_kind(struct order what)
{
    uint64_t n = 1;
    order = what;
    bool reached = true;
    for (; n < CALLS_MOST && reached && check.faults < 10; n++) {
        reached = false;
        order.n = n;
        for (int ending = 0; ending < ENDINGS; ending++) {
            order.ending = (enum ending)ending;
            reached = try_disk() || reached;
        }
    }
    CHECK(n < CALLS_MOST);
    printf("# %s: %d calls\n", disk_call_names[order.kind], (int)n - 2);
}

TEST(every_call_of_the_disk_may_fail)
{
    for (int kind = 0; kind < DISK_CALLS; kind++)
        try_kind((struct order){.kind = (enum disk_call)kind, .fault = EIO});
}

TEST(every_call_may_fail_while_it_heals)
{
    for (int kind = 0; kind < DISK_CALLS; kind++)
        try_kind((struct order){.kind = (enum disk_call)kind, .fault = EIO, .ill = true});
}

TEST(a_disk_may_be_full_at_every_call)
{
    try_kind((struct order){.kind = DISK_CALL_WRITE, .fault = ENOSPC});
    try_kind((struct order){.kind = DISK_CALL_OPEN, .fault = ENOSPC});
}

/* Backups are copied where links are not to be had. */
TEST(every_call_may_fail_where_there_are_no_links)
{
    static const enum disk_call kinds[] = {DISK_CALL_READ, DISK_CALL_WRITE, DISK_CALL_SYNC, DISK_CALL_OPEN};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        try_kind((struct order){.kind = kinds[i], .fault = EIO, .copies = true});
}

/* ---- doctors ---- */

static void ignore_sentence(void *arg, const char *text)
{
    (void)arg;
    CHECK(text[0] != '\0');
}

/* Looks, and repairs; what fails says why. Was the call reached? */
static bool run_doctor(void)
{
    struct inspect inspect;
    struct weir_error err = {0};
    uint64_t before = sim_faults(place.sim);
    give_order();
    if (weir_inspect(&place.faulty.disk, "data", &inspect, &err))
        weir_inspect_free(&inspect);
    else
        CHECK(err.text[0] != '\0');
    err = (struct weir_error){0};
    CHECK(weir_inspect_repair(&place.faulty.disk, "data", ignore_sentence, NULL, &err) ||
          err.text[0] != '\0');
    bool reached = sim_faults(place.sim) > before;
    if (reached)
        site_add(disk_call_names[order.kind], atomic_load(&place.faulty.site));
    take_order_back();
    sim_cut(place.sim, NULL);
    return reached;
}

/* In the middle of the oldest segment that is there. */
static bool flip_log(struct sim *sim)
{
    char path[64];
    for (int number = 1; number < 32; number++) {
        uint64_t len;
        (void)snprintf(path, sizeof path, "data/log-%016x", (unsigned)number);
        if (sim_bytes(sim, path, &len) && len > 400)
            return sim_flip(sim, path, 8 * 300);
    }
    return false;
}

/* The newest image is damaged, or a part of the log that it has made unnecessary: nothing is missing. What a
 * bad disk does not give is given up, and that is told; what has another reason is not. */
static bool try_doctor(void)
{
    struct weir_error err = {0};
    bool reached = false;
    memset(&place, 0, sizeof place);
    place.sim = sim_new(check.seed + order.n);
    faulty_init(&place.faulty, sim_disk(place.sim));
    world_init(&place.world, &place.faulty.disk, "data");
    if (prepare(&place.world)) {
        die(true);
        CHECK(order.log ? flip_log(place.sim) : sim_flip(place.sim, "data/image-0000000000000003", 8 * 200));
        reached = run_doctor();
        CHECK(weir_inspect_repair(&place.faulty.disk, "data", ignore_sentence, NULL, &err));
        if (CHECK(world_begin(&place.world))) {
            const struct store_found *found = &place.world.found;
            bool told = order.fault == EIO && (found->unsure || found->fresh);
            CHECK(told || world_check(&place.world));
            CHECK(world_end(&place.world));
        }
        CHECK_EQ(sim_handles(place.sim), 0);
    }
    sim_free(place.sim);
    weir_clock_set(-1);
    return reached;
}

static void try_doctors(int fault, bool log)
{
    for (int kind = 0; kind < DISK_CALLS && check.faults == 0; kind++) {
        order = (struct order){.kind = (enum disk_call)kind, .n = 1, .fault = fault, .log = log};
        while (order.n < CALLS_MOST && check.faults == 0 && try_doctor())
            order.n++;
        printf("# %s: %d calls\n", disk_call_names[kind], (int)order.n - 1);
    }
}

TEST(every_call_of_a_doctor_may_fail)
{
    try_doctors(EIO, false);
    try_doctors(EIO, true);
}

TEST(what_a_doctor_may_not_read_is_not_damaged)
{
    try_doctors(EACCES, false);
    try_doctors(EACCES, true);
    try_doctors(EMFILE, false);
}

/* ---- memory ---- */

static struct memory_story {
    struct faulty faulty;
    struct world world;
    int64_t n;
    bool reached, ill;
    enum ending ending;
} story;

static bool is_missing(void)
{
    return allocations_left < 0;
}

static void run_memory(void)
{
    struct world *world = &story.world;
    bool heals = story.ending == HEALED;
    world->is_over = story.ending == CUT_AT_ONCE ? is_missing : NULL;
    allocation_site = NULL;
    allocations_left = story.n;
    bool begun = world_begin(world);
    if (begun)
        live(world, true, story.ill);
    story.reached = is_missing();
    allocations_left = -1;
    if (story.reached)
        site_add("memory", allocation_site);
    if (begun && heals)
        CHECK(world_heal(world));
    else
        faulty_fail(&story.faulty, DISK_CALL_ANY, 1, EIO, true); /* nothing more comes to the disk */
    if (begun)
        CHECK(world_end(world) == heals);
    faulty_no_faults(&story.faulty);
}

/* A thread of its own has a list of its own, whose memory may fail. */
static void *try_memory(void *arg)
{
    run_memory();
    if (CHECK(world_begin(&story.world))) {
        CHECK(world_check(&story.world));
        CHECK(world_end(&story.world));
    }
    CHECK_EQ(atomic_load(&story.faulty.open), 0);
    return arg;
}

static bool try_piece(int64_t n, enum ending ending, bool ill)
{
    pthread_t thread;
    long faults = check.faults;
    memset(&story, 0, sizeof story);
    story.n = n;
    story.ending = ending;
    story.ill = ill;
    faulty_init(&story.faulty, NULL);
    world_init(&story.world, &story.faulty.disk, folder_new());
    if (!prepare(&story.world))
        return false;
    faulty_fail(&story.faulty, DISK_CALL_ANY, 1, EIO, true);
    (void)world_end(&story.world);
    faulty_no_faults(&story.faulty);
    if (!CHECK(pthread_create(&thread, NULL, try_memory, NULL) == 0))
        return false;
    (void)pthread_join(thread, NULL);
    if (check.faults > faults)
        printf("# allocation %d, %s%s\n", (int)n, ill ? "ill, " : "", ending_names[ending]);
    return story.reached;
}

static void try_pieces(bool ill)
{
    int64_t n = 0;
    while (n < CALLS_MOST && check.faults < 10 && try_piece(n, HEALED, ill) && try_piece(n, CUT, ill)) {
        (void)try_piece(n, CUT_AT_ONCE, ill);
        n++;
    }
    CHECK(n > 100 && n < CALLS_MOST);
    printf("# memory: %d pieces\n", (int)n);
    weir_clock_set(-1);
}

TEST(every_piece_of_memory_may_be_missing)
{
    try_pieces(false);
}

TEST(every_piece_of_memory_may_be_missing_while_it_heals)
{
    try_pieces(true);
}
