/* SPDX-License-Identifier: MIT */
/*
 * What regions outlive: boots of the machine, wrong clocks, other time namespaces, forks, kills.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "os/boot.h"
#include "unit/region/regions.h"

#define YEAR (366 * INT64_C(86400) * WEIR_SEC)

/* ---- time ---- */

static struct {
    unsigned char id;
    int64_t shift, wall;
    bool no_id, no_shift;
} fake;

static bool fake_id(unsigned char *id)
{
    memset(id, fake.id, BOOT_ID_SIZE);
    return !fake.no_id;
}

static bool fake_shift(int64_t *shift_ns)
{
    *shift_ns = fake.shift;
    return !fake.no_shift;
}

static int64_t fake_wall(void)
{
    return fake.wall;
}

static struct boot real;

/* The first boot: the machine has been up for 1000 s, and the wall clock says 5000 s. */
static const char *pretend(const char *name)
{
    if (!real.id)
        real = weir_boot;
    weir_boot = (struct boot){.id = fake_id, .shift = fake_shift, .wall = fake_wall};
    fake.id = 1;
    fake.shift = 0;
    fake.no_id = fake.no_shift = false;
    fake.wall = 5000 * WEIR_SEC;
    weir_clock_set(1000 * WEIR_SEC);
    return fresh_path(name);
}

static void pretend_boot(int64_t up_s, int64_t wall_s)
{
    fake.id++;
    fake.wall = wall_s * WEIR_SEC;
    weir_clock_set(up_s * WEIR_SEC);
}

static void be_real(const char *path)
{
    weir_boot = real;
    weir_clock_set(-1);
    (void)unlink(path);
}

static int64_t time_of(const struct region *region)
{
    return region_time(region, weir_now());
}

/* Opens the file, tells the time in it, in seconds, and closes it again. */
static int64_t time_in(const char *path)
{
    struct region *region = open_ready(path, false, true);
    int64_t time = region ? time_of(region) / WEIR_SEC : -1;
    weir_region_free(region);
    return time;
}

TEST(region_time_is_boot_time_while_nothing_happens)
{
    const char *path = pretend("time");
    struct region *region = open_ready(path, true, true);
    CHECK_EQ(time_of(region), 1000 * WEIR_SEC);
    weir_region_free(region);
    weir_clock_set(1060 * WEIR_SEC);
    fake.wall = 1; /* within a boot nobody asks the wall clock */
    CHECK_EQ(time_in(path), 1060);
    be_real(path);
}

TEST(region_time_begins_at_a_second_at_least)
{
    const char *path = pretend("early");
    weir_clock_set(5);
    struct region *region = open_ready(path, true, true);
    CHECK_EQ(time_of(region), WEIR_SEC);
    weir_clock_set(WEIR_SEC);
    CHECK_EQ(time_of(region), 2 * WEIR_SEC - 5);
    weir_region_free(region);
    be_real(path);
}

TEST(after_a_boot_time_goes_on_by_what_the_wall_clock_says)
{
    const char *path = pretend("boot");
    weir_region_free(open_ready(path, true, true));
    pretend_boot(20, 5600);
    CHECK_EQ(time_in(path), 1600);
    weir_clock_set(30 * WEIR_SEC);
    CHECK_EQ(time_in(path), 1610);
    pretend_boot(3, 6000); /* never noted since: the lead of the boot before is still right */
    CHECK_EQ(time_in(path), 2000);
    be_real(path);
}

TEST(a_wall_clock_that_went_back_or_leaps_mints_neither_time_nor_loses_any)
{
    const char *path = pretend("wrong");
    weir_region_free(open_ready(path, true, true));
    pretend_boot(20, 100);
    CHECK_EQ(time_in(path), 1000);
    pretend_boot(20, 150); /* from here on it is right again, by its own measure */
    CHECK_EQ(time_in(path), 1050);
    pretend_boot(20, 3000000000);
    CHECK_EQ(time_in(path), 1050 + YEAR / WEIR_SEC);
    pretend_boot(20, 3000000007);
    CHECK_EQ(time_in(path), 1057 + YEAR / WEIR_SEC);
    fake.id++;
    fake.wall = INT64_MIN;
    CHECK_EQ(time_in(path), 1057 + YEAR / WEIR_SEC);
    be_real(path);
}

TEST(time_never_goes_below_the_floor_nor_beyond_its_end)
{
    const char *path = pretend("floor");
    struct region *region = open_ready(path, true, true);
    atom_store(&region->header->floor, 4000 * WEIR_SEC, memory_order_relaxed);
    weir_region_free(region);
    pretend_boot(20, 5001);
    region = open_ready(path, false, true);
    CHECK_EQ(time_of(region), 4000 * WEIR_SEC);
    atom_store(&region->header->floor, WEIR_TIME_MAX, memory_order_relaxed);
    weir_region_free(region);
    pretend_boot(20, 5001);
    CHECK_EQ(time_in(path), WEIR_TIME_MAX / WEIR_SEC);
    be_real(path);
}

TEST(a_note_is_made_once_a_second_and_is_what_the_next_boot_goes_by)
{
    const char *path = pretend("note");
    struct region *region = open_ready(path, true, true);
    const struct region_header *header = region->header;
    weir_region_note_time(region, 1001 * WEIR_SEC - 1);
    CHECK_EQ(atom_load(&header->seen_time, memory_order_relaxed), 1000 * WEIR_SEC);
    fake.wall = 9001 * WEIR_SEC; /* somebody has set it */
    weir_region_note_time(region, 1001 * WEIR_SEC);
    CHECK_EQ(atom_load(&header->seen_time, memory_order_relaxed), 1001 * WEIR_SEC);
    weir_region_note_time(region, 500 * WEIR_SEC);
    weir_region_note_time(region, INT64_MIN);
    CHECK_EQ(atom_load(&header->seen_time, memory_order_relaxed), 1001 * WEIR_SEC);
    weir_region_free(region);
    pretend_boot(1, 9011);
    CHECK_EQ(time_in(path), 1011);
    region = open_ready(path, false, true);
    weir_region_note_time(region, INT64_MAX);
    CHECK_EQ(atom_load(&region->header->seen_time, memory_order_relaxed), WEIR_TIME_MAX);
    weir_region_free(region);
    CHECK_EQ(time_in(path), 1011);
    be_real(path);
}

/* The words are stored one by one, and a kill can come after each of them. */
TEST(half_a_note_and_half_a_boot_mint_no_time)
{
    for (int stored = 0; stored < 4; stored++) {
        const char *path = pretend("half");
        struct region *region = open_ready(path, true, true);
        struct region_header *header = region->header;
        if (stored >= 1)
            atom_store(&header->wall_lead, (uint64_t)(5600 - 1600) * WEIR_SEC, memory_order_relaxed);
        if (stored >= 2)
            atom_store(&header->seen_time, 1600 * WEIR_SEC, memory_order_relaxed);
        if (stored >= 3)
            atom_store(&header->offset, 1580 * WEIR_SEC, memory_order_relaxed);
        weir_region_free(region);
        pretend_boot(25, 5605);
        CHECK_EQ(time_in(path), 1605);
        be_real(path);
    }
}

TEST(a_process_in_another_time_namespace_sees_the_same_region_time)
{
    const char *path = pretend("namespace");
    struct region *here = open_ready(path, true, true);
    fake.shift = 7 * WEIR_SEC; /* its own clock tells 7 s more */
    weir_clock_set(1007 * WEIR_SEC);
    struct region *there = open_ready(path, false, false);
    CHECK_EQ(time_of(there), 1000 * WEIR_SEC);
    CHECK_EQ(region_time(here, 1003 * WEIR_SEC), region_time(there, 1010 * WEIR_SEC));
    weir_region_free(here);
    weir_region_free(there);
    pretend_boot(27, 5600); /* the machine is up for 20 s */
    CHECK_EQ(time_in(path), 1600);
    fake.shift = 0;
    weir_clock_set(21 * WEIR_SEC);
    CHECK_EQ(time_in(path), 1601);
    be_real(path);
}

static void check_refused(const char *path, int code, const char *part)
{
    struct region_shape shape = shape_of(REGION_WORDS, 64);
    struct weir_error err;
    bool made, alone;
    CHECK(weir_region_open(path, &shape, 0600, &made, &alone, &err) == NULL);
    CHECK_EQ(err.code, code);
    if (!CHECK(strstr(err.text, part) != NULL))
        printf("# %s\n", err.text);
}

TEST(a_file_whose_time_cannot_be_told_is_refused)
{
    const char *path = pretend("untold");
    fake.no_id = true;
    check_refused(path, ENOSYS, "/proc does not tell the boot");
    CHECK(access(path, F_OK) != 0);
    fake.no_id = false;
    fake.no_shift = true;
    check_refused(path, ENOSYS, "time namespace");
    fake.no_shift = false;
    struct region *region = open_ready(path, true, true);
    fake.id = 2;
    check_refused(path, EBUSY, "is in use on another machine");
    weir_region_free(region);
    be_real(path);
}

/* ---- the machine's own answers ---- */

static int64_t child_shift_s;

/* In the new namespace, as its first process. */
static int ask_inside(void *arg)
{
    int64_t shift = 0;
    (void)arg;
    return weir_boot.shift(&shift) && shift == child_shift_s * WEIR_SEC + 5 ? 0 : 1;
}

/* Makes a namespace for children, whose boot time is ahead; the process itself stays where it is. */
static int make_namespace(void *arg)
{
    int64_t shift = 1;
    char line[64];
    if (unshare(CLONE_NEWTIME) != 0)
        return 77;
    int len = snprintf(line, sizeof line, "boottime %" PRId64 " 5\n", child_shift_s);
    int file = open("/proc/self/timens_offsets", O_WRONLY);
    if (file < 0 || write(file, line, (size_t)len) != len)
        return 77;
    (void)close(file);
    if (!weir_boot.shift(&shift) || shift != 0)
        return 2;
    return in_child(ask_inside, arg);
}

TEST(the_offset_of_a_real_time_namespace_is_known_inside_of_it)
{
    child_shift_s = 100000;
    int result = in_child(make_namespace, NULL);
    if (result == 77)
        check_skip("time namespaces cannot be made here");
    else
        CHECK_EQ(result, 0);
}

TEST(the_machine_has_a_boot_id_and_a_wall_clock)
{
    unsigned char id[BOOT_ID_SIZE], again[BOOT_ID_SIZE], zero[BOOT_ID_SIZE] = {0};
    int64_t shift = 1;
    CHECK(weir_boot.id(id) && weir_boot.id(again) && memcmp(id, again, sizeof id) == 0);
    CHECK(memcmp(id, zero, sizeof id) != 0);
    CHECK(weir_boot.shift(&shift));
    CHECK(weir_boot.wall() > INT64_C(1600000000) * WEIR_SEC);
}

/* ---- forks ---- */

struct crowd {
    struct region *private, *shared;
    atomic_bool over;
};

static void *be_busy(void *arg)
{
    struct crowd *crowd = arg;
    struct rng rng = rng_new(3);
    while (!atomic_load(&crowd->over)) {
        struct stripe *stripe = weir_stripe_lock(crowd->private, rng_next(&rng) % 8);
        weir_journal_begin(&stripe->journal);
        (void)weir_journal_save(crowd->private, &stripe->journal, crowd->private->parts[0], 8);
        crowd->private->parts[0][0] = 1;
        weir_journal_undo(crowd->private, &stripe->journal);
        weir_stripe_unlock(stripe);
        (void)weir_region_refresh(crowd->private);
        (void)weir_region_refresh(crowd->shared);
    }
    return NULL;
}

static int use_in_child(void *arg)
{
    struct crowd *crowd = arg;
    for (uint64_t i = 0; i < 8; i++)
        weir_stripe_unlock(weir_stripe_lock(crowd->private, i));
    weir_change_lock(crowd->private);
    bool grown = weir_region_grow(crowd->private, 8, NULL);
    weir_change_unlock(crowd->private);
    bool whole = crowd->private->parts[0][0] == 0 && crowd->private->parts[0][1] == 17;
    crowd->private->parts[0][1] = 18; /* a copy */
    crowd->shared->parts[0][1]++;     /* not a copy */
    bool mapped = weir_region_refresh(crowd->shared);
    weir_region_free(crowd->private);
    weir_region_free(crowd->shared);
    return grown && whole && mapped ? 0 : 1;
}

TEST(a_child_has_a_whole_copy_of_what_is_private_and_shares_what_is_in_a_file)
{
    struct region_shape shape = shape_of(REGION_WORDS, 64);
    const char *path = fresh_path("fork");
    struct crowd crowd = {.private = weir_region_new(&shape, NULL), .shared = open_ready(path, true, true)};
    pthread_t thread;
    crowd.private->parts[0][1] = 17;
    CHECK(pthread_create(&thread, NULL, be_busy, &crowd) == 0);
    for (int i = 0; i < 100; i++)
        CHECK_EQ(in_child(use_in_child, &crowd), 0);
    atomic_store(&crowd.over, true);
    (void)pthread_join(thread, NULL);
    CHECK_EQ(crowd.private->parts[0][1], 17);
    CHECK_EQ(crowd.shared->parts[0][1], 100);
    weir_region_free(crowd.private);
    weir_region_free(
        open_ready(path, false, false)); /* the children's copies of its locks took nothing away */
    weir_region_free(crowd.shared);
    weir_region_free(open_ready(path, false, true));
    (void)unlink(path);
}

/* ---- kills ---- */

static int die_half_done(void *arg)
{
    struct region *region = open_ready(arg, false, false);
    struct stripe *stripe = weir_stripe_lock(region, 3);
    weir_journal_begin(&stripe->journal);
    if (!weir_journal_save(region, &stripe->journal, region->parts[0], 8))
        return 1;
    memset(region->parts[0], 1, 8);
    return 0;
}

TEST(who_is_alone_finds_undone_what_a_dead_process_left_half_done)
{
    const char *path = fresh_path("undone");
    struct region *region = open_ready(path, true, true);
    memset(region->parts[0], 9, 8);
    CHECK_EQ(in_child(die_half_done, (void *)(uintptr_t)path), 0);
    CHECK_EQ(region->parts[0][0], 1);
    weir_region_free(region);
    region = open_ready(path, false, true);
    for (int i = 0; i < 8; i++)
        CHECK_EQ(region->parts[0][i], 9);
    weir_region_free(region);
    (void)unlink(path);
}

struct victim {
    const char *path;
    atomic_int begun;
};

/* Makes the file, or grows it, again and again. */
static int make_and_grow(void *arg)
{
    struct victim *victim = arg;
    struct region_shape shape = shape_of(REGION_WORDS, 64);
    bool made, alone;
    atomic_store(&victim->begun, 1);
    for (;;) {
        struct region *region = weir_region_open(victim->path, &shape, 0600, &made, &alone, NULL);
        if (!region)
            return 1;
        weir_region_ready(region);
        weir_change_lock(region);
        bool grown = weir_region_grow(region, 64, NULL);
        weir_change_unlock(region);
        weir_region_free(region);
        if (!grown)
            (void)unlink(victim->path);
    }
}

/* Kills a child some time after it has begun. */
static void kill_one(struct victim *victim, int64_t after_ns)
{
    atomic_store(&victim->begun, 0);
    (void)fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        (void)alarm(PATIENCE);
        _exit(make_and_grow(victim));
    }
    while (!atomic_load(&victim->begun))
        (void)sched_yield();
    for (int64_t end = weir_now() + after_ns; weir_now() < end;) {
    }
    int status = 0;
    CHECK(kill(child, SIGKILL) == 0 && waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void check_what_is_left(const char *path, int *unfinished)
{
    struct region_shape shape = shape_of(REGION_WORDS, 64);
    bool made, alone, was_there = access(path, F_OK) == 0;
    struct region *region = open_region(path, &shape, &made, &alone);
    if (!CHECK(region && alone))
        return;
    *unfinished += was_there && made;
    weir_region_ready(region);
    for (uint64_t i = 0; i < region_segments(region); i++)
        CHECK(is_zero(region->segments[i].slots, 64 * 64));
    for (uint64_t i = 0; i < shape.stripes; i++)
        weir_stripe_unlock(weir_stripe_lock(region, i));
    weir_change_lock(region);
    bool full = region_segments(region) == REGION_SPANS;
    CHECK_EQ(weir_region_grow(region, 8, NULL), !full);
    weir_change_unlock(region);
    weir_region_free(region);
    weir_region_free(open_ready(path, false, true));
}

TEST(whoever_is_killed_while_he_makes_or_grows_a_file_leaves_one_that_can_be_opened)
{
    struct victim *victim =
        mmap(NULL, sizeof *victim, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int64_t kills = check_env("WEIR_REGION_KILLS", 300);
    struct rng rng = rng_new(1);
    int unfinished = 0;
    for (int64_t i = 0; i < kills; i++) {
        victim->path = fresh_path("killed");
        kill_one(victim, rng_magnitude(&rng, 4 * WEIR_MS));
        check_what_is_left(victim->path, &unfinished);
    }
    printf("# %d of %" PRId64 " left a file that was not finished\n", unfinished, kills);
    (void)unlink(victim->path);
    (void)munmap(victim, sizeof *victim);
}
