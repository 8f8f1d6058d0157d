/* SPDX-License-Identifier: MIT */
/*
 * Processes of several threads do everything to the same tables that can be done, and are killed one after
 * the other at moments drawn by lot. What they were told is written down in memory beside the tables: before
 * each take that one is tried, after it that it passed. So whatever a kill hits,
 *
 *   passed <= spent <= tried          nothing is minted, and a kill costs a thread one operation at the most
 *   spent is the same for all limits of a key, and for keys that only take together
 *   no two promises that stand are due at the same second, under a limit of one a second
 *   no key passes twice in less time than its limit says, though it is forgotten and comes in again
 *
 * WEIR_KILLS says how many are killed; every ROUND of them all begins with new files.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "kill/files.h"
#include "table/wide.h"
#include "table/wide_slots.h"
#include "threads/team.h"

#define ROUND      50
#define VICTIMS    2
#define PROCESSES  (VICTIMS + 1) /* and one that is never killed, in every other round */
#define THREADS    2
#define COUNTED    6
#define SCARCE     40
#define SCARCE_MAX 20
#define DUES       4096
#define STREAM     400
#define STREAM_NS  WEIR_MS /* between two of a key */
#define LOG_MAX    (1 << 18)
#define BURST      "burst=1000000000"

enum { WORDS, WIDE, LOGS, LINE, WIDE_LINE, STREAMS, TABLES };

static const struct {
    const char *limits, *other; /* what it changes to and back */
    struct weir_table_options options;
} kinds[TABLES] = {
    [WORDS] = {"1000000/s " BURST, "500000/s " BURST, {.keys = 40, .overrides = 4, .name_bytes = 4096}},
    [WIDE] = {"1000000/s " BURST " name=a, 500000/s " BURST " name=b, 100000/s " BURST " name=c",
              "500000/s " BURST " name=a, 250000/s " BURST " name=b, 200000/s " BURST " name=c",
              {.keys = 40, .overrides = 4, .name_bytes = 4096}},
    [LOGS] = {"20/h algo=sliding-log", NULL, {.keys = 2 * SCARCE, .key_max = 16}},
    [LINE] = {"1/s", NULL, {.keys = 4}},
    [WIDE_LINE] = {"1/s, 10/s", NULL, {.keys = 4}},
    [STREAMS] = {"1000/s burst=1", NULL, {.keys = 150, .name_bytes = 8192}},
};

struct count {
    _Atomic int64_t tried, passed;
};

struct admission {
    int64_t key, read_ns, done_ns; /* the clock before it and after it */
};

/* Beside the tables: nobody's death changes it. */
struct board {
    _Atomic bool over;
    _Atomic int64_t faults, clock;
    _Atomic uint64_t progress, steady; /* of all, and of the one that is never killed */
    struct count words[COUNTED], wide[COUNTED], logs[SCARCE];
    struct count own[2];            /* keys that get limits of their own and lose them, of words and wide */
    struct count pairs[2], crossed; /* take together: two of words, two of wide, one of each */
    _Atomic int32_t due[2][DUES];
    _Atomic uint64_t logged;
    struct admission log[LOG_MAX];
};

struct process {
    struct board *board;
    struct weir_table *tables[TABLES];
    int64_t now;
    uint64_t stream;
    bool steady;
};

static char paths[TABLES][FILES_PATH_MAX];

/* ---- helpers ---- */

static void fault(struct board *board, const char *what, int64_t a, int64_t b)
{
    if (atomic_fetch_add(&board->faults, 1) < 10)
        fprintf(stderr, "# %s: %" PRId64 ", %" PRId64 "\n", what, a, b);
}

static size_t key_name(char name[16], const char *kind, int64_t number)
{
    return (size_t)snprintf(name, 16, "%s%" PRId64, kind, number);
}

static struct weir_table *open_kind(size_t kind, const char *limits)
{
    struct weir_error err;
    struct weir_table *table = weir_table_make(paths[kind], limits, &kinds[kind].options, &err);
    if (!table)
        fprintf(stderr, "# %s\n", err.text);
    return table;
}

static int64_t spent_of(struct weir_table *table, int64_t now, const char *key, size_t len, bool *uneven)
{
    struct weir_limit_state limits[3];
    size_t count = weir_table_explain_at(table, now, key, len, limits, 3);
    for (size_t i = 1; i < count && uneven; i++)
        *uneven = *uneven || limits[i].used != limits[0].used;
    return count > 0 ? limits[0].used : -1;
}

/* ---- what they do ---- */

static void take_counted(struct process *p, size_t table, const char *kind, int64_t number,
                         struct count *count)
{
    char key[16];
    size_t len = key_name(key, kind, number);
    atomic_fetch_add(&count->tried, 1);
    if (weir_table_take_at(p->tables[table], p->now, key, len, 1, NULL))
        atomic_fetch_add(&count->passed, 1);
    else if (table != LOGS)
        fault(p->board, "refused, with much left", (int64_t)table, number);
}

static void take_together(struct process *p, size_t first, size_t second, struct count *count)
{
    struct weir_ask asks[] = {{.table = p->tables[first], .key = "together", .len = 8, .n = 1},
                              {.table = p->tables[second], .key = "joined", .len = 6, .n = 1}};
    if (first != second)
        asks[0].key = asks[1].key = "crossed", asks[0].len = asks[1].len = 7;
    atomic_fetch_add(&count->tried, 1);
    if (weir_take_all_at(asks, 2, p->now))
        atomic_fetch_add(&count->passed, 1);
    else
        fault(p->board, "refused together, with much left", (int64_t)first, (int64_t)second);
}

/* A promise that stands has its second alone. */
static void promise(struct process *p, struct rng *rng, size_t which)
{
    struct weir_table *table = p->tables[which ? WIDE_LINE : LINE];
    struct weir_reservation r;
    if (!weir_table_reserve_at(table, p->now, "line", 4, 1, (DUES - 2) * WEIR_SEC, &r, NULL))
        return;
    _Atomic int32_t *due = &p->board->due[which][(r.due_ns - p->now) / WEIR_SEC];
    int32_t others = atomic_fetch_add(due, 1);
    if (others != 0)
        fault(p->board, "promised twice", (r.due_ns - p->now) / WEIR_SEC, others);
    if (r.wait_ns > 0 && rng_between(rng, 0, 3) > 0) {
        atomic_fetch_sub(due, 1);
        if (!weir_table_cancel_at(table, p->now, "line", 4, &r))
            fault(p->board, "cannot be handed back", (int64_t)which, r.wait_ns);
    }
}

static void take_of_stream(struct process *p, struct rng *rng)
{
    char key[16];
    struct board *board = p->board;
    int64_t number = rng_between(rng, 0, STREAM - 1);
    size_t len = key_name(key, "stream", number);
    int64_t now = atomic_fetch_add(&board->clock, rng_between(rng, 0, 20000));
    if (!weir_table_take_at(p->tables[STREAMS], now, key, len, 1, NULL))
        return;
    uint64_t at = atomic_fetch_add(&board->logged, 1);
    if (at < LOG_MAX)
        board->log[at] = (struct admission){number + 1, now, atomic_load(&board->clock)};
}

static void change_own(struct process *p, struct rng *rng, size_t table)
{
    struct weir_error err;
    const char *limits = rng_between(rng, 0, 1) ? kinds[table].other : NULL;
    if (!weir_table_override_at(p->tables[table], p->now, "own0", 4, limits, &err))
        fault(p->board, err.text, (int64_t)table, 0);
}

static void change_all(struct process *p, struct rng *rng, size_t table)
{
    struct weir_error err;
    const char *limits = rng_between(rng, 0, 1) ? kinds[table].other : kinds[table].limits;
    if (!weir_table_set_at(p->tables[table], p->now, limits, &err))
        fault(p->board, err.text, (int64_t)table, 0);
}

/* One more time, besides, with the limits it has. */
static void open_again(struct process *p, struct rng *rng)
{
    size_t kind = (size_t)rng_between(rng, 0, 1);
    char limits[256];
    (void)weir_table_text(p->tables[kind], limits, sizeof limits);
    struct weir_table *table = open_kind(kind, limits);
    if (!table) {
        fault(p->board, "cannot be opened", (int64_t)kind, 0);
        return;
    }
    struct process other = *p;
    other.tables[kind] = table;
    take_counted(&other, kind, "counted", 0, kind == WORDS ? &p->board->words[0] : &p->board->wide[0]);
    weir_table_free(table);
}

/* Seldom: a table grows seven times at the most. */
static void grow(struct process *p, struct rng *rng)
{
    struct weir_error err;
    struct weir_table_info info;
    struct weir_table *table = p->tables[rng_between(rng, 0, 1) ? WIDE : WORDS];
    weir_table_stat_at(table, p->now, &info);
    (void)weir_table_grow(table, (size_t)info.capacity + 8, &err);
}

static void check_count(struct process *p, struct rng *rng)
{
    char key[16];
    bool is_wide = rng_between(rng, 0, 1);
    int64_t number = rng_between(rng, 0, COUNTED - 1);
    const struct count *count = is_wide ? &p->board->wide[number] : &p->board->words[number];
    size_t len = key_name(key, "counted", number);
    bool uneven = false;
    int64_t passed = atomic_load(&count->passed);
    int64_t spent = spent_of(p->tables[is_wide ? WIDE : WORDS], p->now, key, len, &uneven);
    int64_t tried = atomic_load(&count->tried);
    if (spent < passed || spent > tried || uneven)
        fault(p->board, uneven ? "half charged" : spent < passed ? "minted" : "lost", spent, passed);
}

static void do_something(struct process *p, struct rng *rng)
{
    struct board *board = p->board;
    int64_t way = rng_between(rng, 0, 999), number = rng_between(rng, 0, COUNTED - 1);
    if (way < 150)
        take_counted(p, WORDS, "counted", number, &board->words[number]);
    else if (way < 300)
        take_counted(p, WIDE, "counted", number, &board->wide[number]);
    else if (way < 330)
        take_counted(p, LOGS, "scarce", way % SCARCE, &board->logs[way % SCARCE]);
    else if (way < 400)
        take_counted(p, way & 1 ? WIDE : WORDS, "own", 0, &board->own[way & 1]);
    else if (way < 500)
        take_together(p, way & 1 ? WIDE : WORDS, way & 1 ? WIDE : WORDS, &board->pairs[way & 1]);
    else if (way < 570)
        take_together(p, WORDS, WIDE, &board->crossed);
    else if (way < 670)
        promise(p, rng, way & 1);
    else if (way < 900)
        take_of_stream(p, rng);
    else if (way < 930)
        check_count(p, rng);
    else if (way < 960)
        change_own(p, rng, way & 1 ? WIDE : WORDS);
    else if (way < 975)
        (void)weir_table_sweep_at(p->tables[STREAMS], atomic_load(&board->clock), 64);
    else if (way < 985)
        change_all(p, rng, way & 1 ? WIDE : WORDS);
    else if (way < 997)
        open_again(p, rng);
    else if (rng_between(rng, 0, 9) == 0)
        grow(p, rng);
    else
        (void)weir_table_sweep_at(p->tables[way & 1 ? WIDE : WORDS], p->now, 64);
}

static void thread_run(size_t self, void *arg)
{
    struct process *p = arg;
    struct rng rng = rng_new(p->stream * THREADS + self);
    while (!atomic_load(&p->board->over)) {
        do_something(p, &rng);
        atomic_fetch_add(p->steady ? &p->board->steady : &p->board->progress, 1);
    }
}

/* ---- processes ---- */

static pid_t process_start(struct board *board, int64_t now, uint64_t stream, bool steady)
{
    (void)fflush(stdout);
    pid_t child = fork();
    if (child != 0)
        return child;
    struct process p = {.board = board, .now = now, .stream = stream, .steady = steady};
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* nobody is left behind if the test is stopped */
    (void)alarm(team_patience());
    for (size_t i = 0; i < TABLES; i++)
        if (!(p.tables[i] = open_kind(i, kinds[i].limits)))
            _exit(1);
    team_run(THREADS, thread_run, &p);
    for (size_t i = 0; i < TABLES; i++)
        weir_table_free(p.tables[i]);
    _exit(0);
}

static bool has_ended(pid_t child, bool killed)
{
    int status;
    if (killed)
        (void)kill(child, SIGKILL);
    if (waitpid(child, &status, 0) != child)
        return false;
    if (killed && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
        return true;
    if (!killed && WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    printf("# it ended by itself: wait status %#x\n", (unsigned)status);
    return false;
}

/* Until they have done so much more. */
static void wait_for(struct board *board, _Atomic uint64_t *progress, uint64_t more)
{
    uint64_t until = atomic_load(progress) + more;
    while (atomic_load(progress) < until && atomic_load(&board->faults) == 0)
        (void)sched_yield();
}

/* ---- at the end of a round ---- */

static void check_spent(struct weir_table *table, int64_t now, const char *key, size_t len,
                        const struct count *count, int64_t *lost)
{
    bool uneven = false;
    int64_t spent = spent_of(table, now, key, len, &uneven);
    bool right = CHECK(!uneven);
    right = CHECK(atomic_load(&count->passed) <= spent) && right;
    right = CHECK(spent <= atomic_load(&count->tried)) && right;
    if (!right)
        printf("#   %s: %" PRId64 " passed, %" PRId64 " spent\n", key, atomic_load(&count->passed), spent);
    *lost += spent - atomic_load(&count->passed);
}

static void check_counted(const struct board *board, struct weir_table **tables, int64_t now, int64_t *lost)
{
    char key[16];
    for (int64_t i = 0; i < COUNTED; i++) {
        size_t len = key_name(key, "counted", i);
        check_spent(tables[WORDS], now, key, len, &board->words[i], lost);
        check_spent(tables[WIDE], now, key, len, &board->wide[i], lost);
    }
    for (int64_t i = 0; i < SCARCE; i++) {
        size_t len = key_name(key, "scarce", i);
        struct weir_limit_state limit = {0};
        CHECK(weir_table_explain_at(tables[LOGS], now, key, len, &limit, 1) == 1);
        CHECK(atomic_load(&board->logs[i].passed) <= limit.used && limit.used <= SCARCE_MAX);
        *lost += limit.used - atomic_load(&board->logs[i].passed);
    }
    for (size_t i = 0; i < 2; i++) {
        struct weir_table *table = tables[i ? WIDE : WORDS];
        check_spent(table, now, "own0", 4, &board->own[i], lost);
        check_spent(table, now, "together", 8, &board->pairs[i], lost);
        CHECK_EQ(spent_of(table, now, "together", 8, NULL), spent_of(table, now, "joined", 6, NULL));
        check_spent(table, now, "crossed", 7, &board->crossed, lost);
    }
}

static int compare_admissions(const void *a, const void *b)
{
    const struct admission *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->read_ns < y->read_ns ? -1 : x->read_ns > y->read_ns;
}

/* Who took long may have passed at any moment meanwhile: only the quick ones are compared. */
static void check_stream(struct board *board, long *compared)
{
    uint64_t logged = atomic_load(&board->logged), count = 0;
    logged = logged < LOG_MAX ? logged : LOG_MAX;
    for (uint64_t i = 0; i < logged; i++)
        if (board->log[i].key != 0 && board->log[i].done_ns - board->log[i].read_ns < STREAM_NS)
            board->log[count++] = board->log[i];
    qsort(board->log, count, sizeof board->log[0], compare_admissions);
    for (uint64_t i = 1; i < count; i++)
        if (board->log[i].key == board->log[i - 1].key) {
            CHECK(board->log[i].read_ns - board->log[i - 1].read_ns >= STREAM_NS - 1);
            *compared += 1;
        }
}

/* Every key that is in the table is there once, and nothing is held by nobody. */
static void check_slots(struct weir_table *table, int64_t now)
{
    uint64_t *seen = calloc(1 << 12, sizeof *seen);
    size_t count = 0;
    (void)weir_table_sweep_at(table, now, 1 << 20);
    if (table->kind == &weir_table_wide)
        CHECK(weir_wide_check(table));
    for (uint64_t s = 0; table->kind == &weir_table_words && s < region_segments(table->region); s++) {
        const struct segment *segment = &table->region->segments[s];
        for (uint64_t i = 0; i < segment->lines * 4; i++) {
            const struct slot *slot = region_slot(segment, i);
            if (slot_hash(slot) == 0)
                continue;
            CHECK(slot_kind(slot_word(slot)) != SLOT_TENTATIVE);
            for (size_t j = 0; j < count; j++)
                CHECK(seen[j] != slot_hash(slot));
            seen[count++ & ((1 << 12) - 1)] = slot_hash(slot);
        }
    }
    free(seen);
}

static void check_round(struct board *board, int64_t now, int64_t *lost, long *compared)
{
    struct weir_table *tables[TABLES];
    char limits[256];
    for (size_t i = 0; i < TABLES; i++) {
        tables[i] = open_kind(i, kinds[i].limits); /* alone, with all its checks */
        if (!CHECK(tables[i] != NULL))
            return;
        CHECK(weir_table_text(tables[i], limits, sizeof limits) < sizeof limits);
        check_slots(tables[i], i == STREAMS ? atomic_load(&board->clock) : now);
    }
    check_counted(board, tables, now, lost);
    check_stream(board, compared);
    for (size_t i = 0; i < TABLES; i++)
        weir_table_free(tables[i]);
}

/* ---- rounds ---- */

static struct board *board_new(int64_t now)
{
    static const char *const files[TABLES] = {"words", "wide", "logs", "line", "wide-line", "streams"};
    struct board *board =
        mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (board == MAP_FAILED)
        abort();
    atomic_store(&board->clock, now);
    for (size_t i = 0; i < TABLES; i++) {
        files_path(paths[i], files[i]);
        (void)unlink(paths[i]);
    }
    return board;
}

/* Kills one of them; without a survivor all at once, so that the next one has the files alone. */
static int64_t kill_some(struct board *board, pid_t *children, int64_t now, struct rng *rng, bool survivor)
{
    int64_t kills = 0;
    size_t first = survivor ? (size_t)rng_between(rng, 0, VICTIMS - 1) : 0;
    size_t last = survivor ? first : VICTIMS - 1;
    for (size_t i = first; i <= last; i++, kills++)
        if (!CHECK(has_ended(children[i], true)))
            atomic_fetch_add(&board->faults, 1);
    for (size_t i = first; i <= last; i++)
        children[i] = process_start(board, now, rng_next(rng), false);
    return kills;
}

static int64_t run_round(struct rng *rng, int64_t kills, bool survivor, int64_t *lost, long *compared)
{
    int64_t now = weir_now(), done = 0;
    struct board *board = board_new(now);
    pid_t children[PROCESSES];
    size_t processes = survivor ? PROCESSES : VICTIMS;
    for (size_t i = 0; i < processes; i++)
        children[i] = process_start(board, now, rng_next(rng), i == VICTIMS);
    while (done < kills && atomic_load(&board->faults) == 0) {
        team_watch("processes that are killed");
        wait_for(board, &board->progress, (uint64_t)rng_magnitude(rng, 2000));
        done += kill_some(board, children, now, rng, survivor);
        if (survivor)
            wait_for(board, &board->steady, 2);
    }
    atomic_store(&board->over, true);
    for (size_t i = 0; i < processes; i++)
        CHECK(has_ended(children[i], false));
    CHECK_EQ(atomic_load(&board->faults), 0);
    check_round(board, now, lost, compared);
    (void)munmap(board, sizeof *board);
    return done;
}

TEST(nothing_is_minted_or_half_done_when_processes_are_killed)
{
    struct rng rng = rng_new(1);
    int64_t kills = check_env("WEIR_KILLS", 200), done = 0, lost = 0;
    long compared = 0;
    weir_clock_set(weir_now()); /* it stands, in all children too: what is spent stays spent */
    for (int64_t round = 0; done < kills && check.faults == 0; round++)
        done +=
            run_round(&rng, kills - done < ROUND ? kills - done : ROUND, round % 2 == 0, &lost, &compared);
    weir_clock_set(-1);
    team_watch_done();
    printf("# %" PRId64 " killed, %" PRId64 " units lost, %ld times a key came again\n", done, lost,
           compared);
    CHECK(lost <= done * THREADS * 2); /* two of them if they were of two tables */
    CHECK(kills < 100 || compared > 0);
}
