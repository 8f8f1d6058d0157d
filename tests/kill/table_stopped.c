/* SPDX-License-Identifier: MIT */
/*
 * Holders of a lock that are stopped, not killed, and forks in the midst of it: who has no business with what
 * is held goes on at once.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "kill/files.h"
#include "table/table.h"
#include "table/top.h"
#include "threads/step.h"
#include "threads/team.h"

#define LIMITS  "1000/s, 2000/m"
#define BURST   1000
#define KEYS    64
#define HOLDER  0
#define THREADS 4

/* ---- a stopped process ---- */

struct scene {
    struct weir_table *table;
    int64_t now;
    atomic_bool *passed; /* shared: the one who waited has taken */
};

static size_t key_name(char name[16], int64_t number)
{
    return (size_t)snprintf(name, 16, "key %" PRId64, number);
}

static bool take(const struct scene *s, int64_t number)
{
    char name[16];
    size_t len = key_name(name, number);
    return weir_table_take_at(s->table, s->now, name, len, 1, NULL);
}

static uint64_t stripe_of(const struct scene *s, int64_t number)
{
    char name[16];
    size_t len = key_name(name, number);
    return table_stripe(s->table, table_hash(s->table, name, len));
}

static void take_as_holder(void *arg)
{
    weir_top_countdown = 1000;
    (void)take(arg, HOLDER);
}

/* Has the child the lock of its key's stripe, and its journal open? */
static bool is_inside(void *arg)
{
    const struct scene *s = arg;
    const struct region *region = s->table->region;
    uint64_t size = weir_stripe_size(region->header->shape.journal_size);
    const struct stripe *stripe = (const void *)(region->stripes + stripe_of(s, HOLDER) * size);
    return atomic_load(&stripe->journal.state) == JOURNAL_OPEN;
}

static pid_t start_waiting(const struct scene *s)
{
    pid_t child = fork();
    if (child == 0) {
        (void)alarm(team_patience() / 2);
        atomic_store(s->passed, take(s, HOLDER));
        _exit(0);
    }
    return child;
}

/* In the kernel's list a process that waits for a lock is S; here it has nothing else to sleep for. */
static char state_of(pid_t child)
{
    char path[64], line[512] = "";
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)child);
    FILE *file = fopen(path, "re");
    if (!file || !fgets(line, sizeof line, file))
        line[0] = '\0';
    if (file)
        (void)fclose(file);
    const char *name_end = strrchr(line, ')');
    return name_end ? name_end[2] : '?';
}

static void scene_begin(struct scene *s)
{
    char path[FILES_PATH_MAX];
    struct weir_error err;
    files_path(path, "stopped");
    (void)unlink(path);
    *s = (struct scene){.table = weir_table_open(path, LIMITS, 64 * KEYS, &err), .now = weir_now()};
    s->passed = mmap(NULL, sizeof *s->passed, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(s->table != NULL && s->passed != MAP_FAILED);
    for (int64_t i = 0; i < KEYS; i++)
        CHECK(take(s, i));
}

static void scene_end(struct scene *s)
{
    struct weir_limit_state limits[2];
    char name[16];
    size_t len = key_name(name, HOLDER);
    CHECK_EQ(weir_table_explain_at(s->table, s->now, name, len, limits, 2), 2);
    CHECK_EQ(limits[0].used, limits[1].used);
    CHECK(limits[0].used == 2 || limits[0].used == 3);
    weir_table_free(s->table);
    (void)munmap(s->passed, sizeof *s->passed);
}

/* `end` is the signal that ends the stop. */
static void run_stopped(int end)
{
    struct scene s;
    int64_t others = 0;
    scene_begin(&s);
    team_watch("a stopped process");
    pid_t holder = step_stop(take_as_holder, is_inside, &s);
    if (holder < 0) {
        weir_table_free(s.table);
        check_skip("no process can be led step by step here");
        return;
    }
    CHECK(holder > 0);
    while (state_of(holder) != 'T')
        (void)sched_yield();
    pid_t waiter = start_waiting(&s);
    for (int64_t i = 0; i < KEYS; i++)
        if (stripe_of(&s, i) != stripe_of(&s, HOLDER))
            others += take(&s, i); /* or the watch ends it */
    CHECK(others > KEYS / 2);
    while (state_of(waiter) != 'S')
        (void)sched_yield();
    CHECK(!atomic_load(s.passed) && state_of(holder) == 'T');
    (void)kill(holder, end);
    CHECK(waitpid(waiter, NULL, 0) == waiter && atomic_load(s.passed));
    (void)kill(holder, SIGKILL); /* it has stopped again, at its end */
    CHECK(waitpid(holder, NULL, 0) == holder);
    team_watch_done();
    scene_end(&s);
}

TEST(a_stopped_process_delays_only_the_keys_of_its_stripe)
{
    run_stopped(SIGCONT);
}

TEST(a_stopped_process_that_is_killed_delays_nobody_any_more)
{
    run_stopped(SIGKILL);
}

/* ---- forks ---- */

struct busy {
    struct weir_table *words, *wide;
    int64_t now;
    atomic_bool over;
};

static bool take_pair(struct weir_table *table, int64_t now)
{
    struct weir_ask asks[] = {{.table = table, .key = "one", .len = 3, .n = 1},
                              {.table = table, .key = "other", .len = 5, .n = 1}};
    return weir_take_all_at(asks, 2, now);
}

static void be_busy(size_t self, void *arg)
{
    static const char *const limits[2][2] = {
        {"1M/s burst=1G", "2M/s burst=1G"}, {"1M/s burst=1G, 2M/s burst=1G", "2M/s burst=1G, 4M/s burst=1G"}};
    struct busy *b = arg;
    struct rng rng = rng_new(self);
    while (!atomic_load(&b->over)) {
        struct weir_table *table = rng_between(&rng, 0, 1) ? b->words : b->wide;
        int64_t way = rng_between(&rng, 0, 999);
        if (way < 600)
            (void)take_pair(table, b->now);
        else if (way < 990)
            (void)weir_table_take_at(table, b->now, "single", 6, 1, NULL);
        else if (way < 994) /* the same burst: what is spent stays the same number */
            (void)weir_table_set_at(table, b->now, limits[table == b->wide][way & 1], NULL);
        else
            (void)weir_table_override_at(table, b->now, "own", 3, way < 997 ? NULL : "5/s", NULL);
    }
}

static int64_t used_of(struct weir_table *table, int64_t now, const char *key)
{
    struct weir_limit_state limits[2];
    size_t count = weir_table_explain_at(table, now, key, strlen(key), limits, 2);
    return count == 0 || (count == 2 && limits[0].used != limits[1].used) ? -1 : limits[0].used;
}

/* All works at once, nothing is half done, and what it takes is its own. 0: well. */
static int use_copy(const struct busy *b)
{
    struct weir_table *tables[] = {b->words, b->wide};
    for (int i = 0; i < 2; i++) {
        struct weir_error err;
        int64_t one = used_of(tables[i], b->now, "one"), other = used_of(tables[i], b->now, "other");
        if (one < 0 || one != other)
            return 10 + i;
        if (used_of(tables[i], b->now, "single") < 0 || !take_pair(tables[i], b->now))
            return 20 + i;
        if (used_of(tables[i], b->now, "one") != one + 1 || used_of(tables[i], b->now, "other") != one + 1)
            return 30 + i;
        if (!weir_table_override_at(tables[i], b->now, "own", 3, NULL, &err) ||
            !weir_table_grow(tables[i], 3 * KEYS, &err))
            return 40 + i;
        if (!weir_table_set_at(tables[i], b->now, i ? "7M/s burst=1G, 8M/s burst=1G" : "7M/s burst=1G", &err))
            return 50 + i;
        weir_table_free(tables[i]);
    }
    return 0;
}

TEST(a_child_uses_its_copy_at_once_while_threads_of_the_parent_decide)
{
    struct weir_error err;
    struct busy b = {.now = weir_now(),
                     .words = weir_table_new("1M/s burst=1G", KEYS, &err),
                     .wide = weir_table_new("1M/s burst=1G, 2M/s burst=1G", KEYS, &err)};
    if (!CHECK(b.words && b.wide))
        return;
    team_watch("forks");
    struct team *team = team_start(THREADS, be_busy, &b);
    for (int64_t i = 0; i < team_scaled(100) && check.faults == 0; i++) {
        int status = 0;
        pid_t child = fork();
        if (child == 0) {
            (void)alarm(team_patience() / 2);
            _exit(use_copy(&b));
        }
        CHECK(child > 0 && waitpid(child, &status, 0) == child);
        CHECK_EQ(status, 0);
    }
    atomic_store(&b.over, true);
    team_join(team);
    team_watch_done();
    weir_table_free(b.words);
    weir_table_free(b.wide);
}

static int64_t take_all_there_is(struct weir_table *table, int64_t now)
{
    int64_t taken = 0;
    while (weir_table_take_at(table, now, "both", 4, 1, NULL))
        taken++;
    return taken;
}

/* Both take until nothing is left: together they get what there is. */
static void run_shared(const char *limits)
{
    char path[FILES_PATH_MAX];
    struct weir_error err;
    int64_t now = weir_now();
    files_path(path, "shared");
    (void)unlink(path);
    struct weir_table *table = weir_table_open(path, limits, KEYS, &err);
    void *memory = mmap(NULL, sizeof(int64_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    _Atomic int64_t *taken = memory;
    if (!CHECK(table && memory != MAP_FAILED))
        return;
    team_watch("a fork");
    pid_t child = fork();
    if (child == 0) {
        (void)alarm(team_patience() / 2);
        atomic_fetch_add(taken, take_all_there_is(table, now));
        weir_table_free(table);
        _exit(0);
    }
    atomic_fetch_add(taken, take_all_there_is(table, now));
    CHECK(child > 0 && waitpid(child, NULL, 0) == child);
    CHECK_EQ(atomic_load(taken), BURST);
    team_watch_done();
    weir_table_free(table);
    (void)munmap(memory, sizeof *taken);
}

TEST(a_table_in_a_file_is_one_for_parent_and_child)
{
    run_shared("1000/s");
    run_shared(LIMITS);
}
