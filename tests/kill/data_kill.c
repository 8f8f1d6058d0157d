/* SPDX-License-Identifier: MIT */
/*
 * A program that embeds the library is killed at moments drawn by lot, also while it opens its data, and
 * started again. What it was told is written down in memory that it shares with us: before each take that one
 * is tried, and after the commit behind it that it passed. So after every start
 *
 *   passed <= spent <= tried         of every key: nothing that was committed is lost, nothing was never
 * there
 *
 * WEIR_KILLS says how many are killed.
 */
#define _GNU_SOURCE
#include "unit/folder.h"

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "check.h"
#include "threads/team.h"
#include "weir.h"

#define KEYS    40
#define THREADS 2
#define BATCH   8
#define BURST   INT64_C(1000000)
#define ROUND   100 /* kills, then all begins in an empty directory */

enum { WORDS, WHOLE, WIDE, TABLES };

static const char *const names[TABLES] = {"words", "whole", "wide"};
static const char *const limits[TABLES][2] = {
    {"1/m burst=1M", "2/m burst=1M"},
    {"1/m burst=1M", "2/m burst=1M"},
    {"1/m burst=1M name=a, 3/m burst=2M name=b", "2/m burst=1M name=a, 2/m burst=2M name=b"}};

struct book { /* shared with those who are killed */
    _Atomic int64_t tried[TABLES][KEYS], passed[TABLES][KEYS];
    _Atomic int64_t steps, opened, images;
    _Atomic int wrong;
    char what[256];
};

struct victim {
    struct book *book;
    struct weir_data *data;
    struct weir_table *tables[TABLES];
    uint64_t seed;
};

static void complain(struct book *book, const char *what, int64_t a, int64_t b, int64_t c)
{
    if (atomic_exchange(&book->wrong, 1) == 0)
        (void)snprintf(book->what, sizeof book->what, "%s: %" PRId64 " %" PRId64 " %" PRId64, what, a, b, c);
    _exit(1);
}

/* ---- in the process that is killed ---- */

static void compare(const struct victim *victim)
{
    struct book *book = victim->book;
    for (int t = 0; t < TABLES; t++)
        for (int k = 0; k < KEYS; k++) {
            struct weir_verdict verdict;
            (void)weir_table_peek(victim->tables[t], &k, sizeof k, 1, &verdict);
            int64_t spent = BURST - verdict.remaining, passed = book->passed[t][k], tried = book->tried[t][k];
            if (spent + 1 < passed || spent > tried) /* a unit a minute comes back */
                complain(book, names[t], passed, spent, tried);
            atomic_store(&book->passed[t][k], spent); /* from here on */
            atomic_store(&book->tried[t][k], spent);
        }
}

static void take_some(struct victim *victim, struct rng *rng)
{
    struct book *book = victim->book;
    int count = (int)rng_between(rng, 1, BATCH), t[BATCH], k[BATCH];
    int64_t n[BATCH];
    for (int i = 0; i < count; i++) {
        t[i] = (int)rng_between(rng, 0, TABLES - 1);
        k[i] = (int)rng_between(rng, 0, KEYS - 1);
        n[i] = rng_between(rng, 2, 100);
        (void)atomic_fetch_add(&book->tried[t[i]][k[i]], n[i]);
        if (!weir_table_take(victim->tables[t[i]], &k[i], sizeof k[i], n[i], NULL))
            n[i] = 0; /* a machine that is slow to kill lets it use up a burst */
    }
    if (!weir_data_commit(victim->data, 30 * WEIR_SEC))
        complain(book, "not committed", 0, 0, 0);
    for (int i = 0; i < count; i++)
        (void)atomic_fetch_add(&book->passed[t[i]][k[i]], n[i]);
    (void)atomic_fetch_add(&book->steps, 1);
}

static void work(size_t self, void *arg)
{
    struct victim *victim = arg;
    struct rng rng = {victim->seed * 10 + self};
    struct weir_error err;
    for (;;) {
        int64_t what = rng_between(&rng, 0, 999);
        if (what < 20) {
            int t = (int)rng_between(&rng, 0, TABLES - 1);
            if (!weir_table_set(victim->tables[t], limits[t][rng_between(&rng, 0, 1)], &err))
                complain(victim->book, err.text, 0, 0, 0);
        } else if (what == 20) {
            if (!weir_data_image(victim->data, &err))
                complain(victim->book, err.text, 0, 0, 0);
            (void)atomic_fetch_add(&victim->book->images, 1);
        } else {
            take_some(victim, &rng);
        }
    }
}

static void live(struct book *book, const char *path, uint64_t seed)
{
    struct rng rng = {seed};
    struct weir_data_options options = {.sync = (int32_t)rng_between(&rng, 0, 2),
                                        .image_log_bytes = rng_between(&rng, 1, 64) << 10};
    struct weir_table_options room = {.keys = 2 * KEYS};
    struct weir_error err;
    struct victim victim = {.book = book, .seed = seed};
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    victim.data = weir_data_open(path, &options, &err);
    if (!victim.data)
        complain(book, err.text, 0, 0, 0);
    for (int t = 0; t < TABLES; t++) {
        room.key_max = t == WHOLE ? 16 : 0;
        victim.tables[t] = weir_data_table(victim.data, names[t], NULL, NULL, &err);
        if (!victim.tables[t])
            victim.tables[t] = weir_data_table(victim.data, names[t], limits[t][0], &room, &err);
        if (!victim.tables[t])
            complain(book, err.text, 0, 0, 0);
    }
    compare(&victim);
    (void)atomic_fetch_add(&book->opened, 1);
    team_run(THREADS, work, &victim);
}

/* ---- and in ours ---- */

static bool kill_one(struct book *book, const char *path, uint64_t seed)
{
    struct rng rng = {seed * 31};
    int64_t from = book->steps, patience = rng_magnitude(&rng, 300), spins = rng_magnitude(&rng, 3000);
    int status;
    (void)fflush(stdout);
    team_watch("a program with data that is killed");
    pid_t child = fork();
    if (child == 0) {
        live(book, path, seed);
        _exit(1);
    }
    bool in_the_beginning = rng_between(&rng, 0, 3) == 0; /* while it recovers */
    while (!in_the_beginning && book->steps < from + patience && !book->wrong)
        team_yield();
    for (int64_t i = 0; i < spins && !book->wrong; i++)
        team_yield();
    (void)kill(child, SIGKILL);
    (void)waitpid(child, &status, 0);
    team_watch_done();
    if (book->wrong)
        printf("# %s\n", book->what);
    return CHECK(!book->wrong && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

TEST(whatever_was_committed_is_there_after_any_kill)
{
    const char *text = getenv("WEIR_KILLS");
    int64_t kills = text ? strtoll(text, NULL, 10) : 60;
    char data[96];
    struct book *book = mmap(NULL, sizeof *book, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!CHECK(book != MAP_FAILED))
        return;
    for (int64_t i = 0; i < kills; i++) {
        if (i % ROUND == 0) {
            (void)snprintf(data, sizeof data, "%s/data", folder_new());
            memset(book->tried, 0, sizeof book->tried);
            memset(book->passed, 0, sizeof book->passed);
        }
        if (!kill_one(book, data, check.seed * 100000 + (uint64_t)i)) {
            printf("# kill %" PRId64 "\n", i);
            break;
        }
    }
    printf("# %" PRId64 " commits, %" PRId64 " starts, %" PRId64 " images\n", (int64_t)book->steps,
           (int64_t)book->opened, (int64_t)book->images);
    (void)munmap(book, sizeof *book);
}
