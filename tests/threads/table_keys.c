/* SPDX-License-Identifier: MIT */
/*
 * A key lives once, whoever puts it into a table at the same time: what is taken of it is exactly what there
 * is. And a refusal writes nothing.
 */
#define _DEFAULT_SOURCE
#include <signal.h>

#include "threads/replay.h"
#include "threads/table_tools.h"

/* ---- many put one key in, and see different room ---- */

/*
 * All slots are taken by keys that become droppable one after the other, some nanoseconds apart. Threads come
 * at that time with readings that differ by as much: so they see different slots that are free for a new key.
 * The limit never refills: a key that lives twice is worth twice its burst.
 */
#define NEVER    "1/h burst=3"
#define BURST    3
#define FILLERS  100 /* more than fit */
#define ROOM     24  /* keys that the table is made for: in 36 slots */
#define NEWCOMER UINT64_C(1000000)
#define APART_NS 100
#define IDLE_AT  (START + TABLE_GRACE_NS)
#define LATER    (START + 3 * WEIR_MS)

struct arrival {
    atomic_llong taken[ROOM];
    atomic_uint arrived[ROOM];
    atomic_uint done; /* threads */
    unsigned threads;
    uint64_t stream;
    bool sweeps;
};

struct party {
    struct arrival *arrival;
    struct weir_table *table;
    unsigned first; /* number of its first thread */
};

static struct weir_table_options small_table(void)
{
    return (struct weir_table_options){
        .keys = ROOM, .when_full = WEIR_FULL_REFUSE, .no_top = 1, .overrides = 1};
}

/* Takes and gives back, so nothing is spent; the rest finds no room. */
static void fill_with_idlers(struct weir_table *table)
{
    for (uint64_t i = 0; i < FILLERS; i++) {
        int64_t now = START + (int64_t)i * APART_NS;
        if (take(table, i, now, 1, NULL))
            weir_table_give_at(table, now, &i, sizeof i, 1);
    }
}

/* All come to the same key at the same time, as well as they can. */
static void meet(atomic_uint *arrived, unsigned threads)
{
    unsigned turns = 0;
    atomic_fetch_add(arrived, 1);
    while (atomic_load(arrived) < threads && turns < 5000)
        if (++turns % 100 == 0)
            team_yield();
}

static void come_in(size_t self, void *arg)
{
    struct party *party = arg;
    struct arrival *arrival = party->arrival;
    struct rng rng = rng_new(arrival->stream * 100 + party->first + self);
    for (size_t i = 0; i < ROOM; i++) {
        struct weir_verdict v;
        meet(&arrival->arrived[i], arrival->threads);
        for (int refused = 0; refused < 3;) {
            int64_t now = IDLE_AT + rng_between(&rng, 0, 40 * APART_NS);
            if (arrival->sweeps && rng_between(&rng, 0, 7) == 0)
                (void)weir_table_sweep_at(party->table, now, 8);
            if (take(party->table, NEWCOMER + i, now, 1, rng_between(&rng, 0, 1) ? &v : NULL))
                atomic_fetch_add(&arrival->taken[i], 1);
            else
                refused++;
        }
    }
    atomic_fetch_add(&arrival->done, 1);
}

/* Looks for keys that are there twice, as long as threads run. */
static size_t watch_arrival(struct weir_table *table, struct arrival *arrival, struct team *team)
{
    size_t twice = 0;
    while (team ? team_running(team) > 0 : atomic_load(&arrival->done) < arrival->threads) {
        for (size_t i = 0; i < ROOM; i++)
            twice += lives_twice(table, NEWCOMER + i);
        team_yield();
    }
    return twice;
}

/* What is left at a time that nobody has been at before. */
static void check_arrival(struct weir_table *table, struct arrival *arrival, size_t twice)
{
    CHECK_EQ(twice, 0);
    for (size_t i = 0; i < ROOM; i++) {
        int64_t taken = atomic_load(&arrival->taken[i]);
        struct copies copies = copies_of(table, NEWCOMER + i);
        taken += take_until_refused(table, NEWCOMER + i, LATER);
        CHECK(copies.live <= 1);
        CHECK_EQ(copies.tentative, 0);
        if (copies.live > 0)
            CHECK_EQ(taken, BURST);
    }
}

static void run_arrival(unsigned threads, uint64_t stream, bool sweeps)
{
    struct arrival arrival = {.threads = threads, .stream = stream, .sweeps = sweeps};
    struct party party = {&arrival, table_open(NULL, NEVER, small_table()), 0};
    fill_with_idlers(party.table);
    struct team *team = team_start(threads, come_in, &party);
    size_t twice = watch_arrival(party.table, &arrival, team);
    team_join(team);
    check_arrival(party.table, &arrival, twice);
    weir_table_free(party.table);
}

TEST(a_key_that_many_put_in_lives_once)
{
    static const unsigned teams[] = {2, 8, 64};
    int64_t rounds = team_scaled(check_env("WEIR_KEYS_ROUNDS", 120));
    team_watch("threads that put a key in");
    for (int64_t i = 0; i < rounds; i++) {
        unsigned threads = i % 20 == 19 ? teams[2] : teams[i % 2];
        run_arrival(threads, (uint64_t)i, i % 3 == 2);
    }
    team_watch_done();
}

struct files {
    const char *path;
    struct arrival *arrival;
};

/* Two processes, and one that looks on. */
static int come_in_by_file(size_t self, void *arg)
{
    const struct files *files = arg;
    struct party party = {files->arrival, table_open(files->path, NEVER, small_table()), 2 * (unsigned)self};
    size_t twice = 0;
    if (self < 2)
        team_run(2, come_in, &party);
    else
        twice = watch_arrival(party.table, files->arrival, NULL);
    weir_table_free(party.table);
    return twice > 0;
}

TEST(a_key_that_processes_put_in_lives_once)
{
    struct files files = {.arrival = shared_memory(sizeof *files.arrival)};
    team_watch("processes that put a key in");
    for (int64_t i = team_scaled(40); i > 0; i--) {
        *files.arrival = (struct arrival){.threads = 4, .stream = 5000 + (uint64_t)i};
        files.path = table_path();
        struct weir_table *table = table_open(files.path, NEVER, small_table());
        fill_with_idlers(table);
        run_processes(3, come_in_by_file, &files);
        check_arrival(table, files.arrival, 0);
        weir_table_free(table);
        CHECK_EQ(unlink(files.path), 0);
    }
    (void)munmap(files.arrival, sizeof *files.arrival);
    team_watch_done();
}

/* ---- a key that finds no room, and room ---- */

/*
 * The same crowd, but keys without room share what one key has; somebody has taken a unit of it already. So a
 * key that comes in starts with one unit less, and what it has taken before it came in is not there again.
 */
#define SQUEEZES 64

struct squeeze {
    struct weir_table *tables[SQUEEZES];
    atomic_uint arrived[SQUEEZES];
    atomic_llong taken[SQUEEZES];
    unsigned threads;
    uint64_t stream;
};

static struct weir_table *sharing_table(void)
{
    struct weir_table_options options = small_table();
    options.when_full = WEIR_FULL_SHARE;
    struct weir_table *table = table_open(NULL, NEVER, options);
    for (uint64_t i = 0; atom_load(&table->region->header->shared, memory_order_relaxed) == 0; i++) {
        int64_t now = START + (int64_t)i * APART_NS;
        (void)take(table, i, now, 1, NULL);
        weir_table_give_at(table, now, &i, sizeof i, 1); /* of no use to who has no room */
    }
    return table;
}

static void squeeze_in(size_t self, void *arg)
{
    struct squeeze *squeeze = arg;
    struct rng rng = rng_new(squeeze->stream * 100 + self);
    for (size_t i = 0; i < SQUEEZES; i++) {
        meet(&squeeze->arrived[i], squeeze->threads);
        for (int refused = 0; refused < 2;) {
            int64_t now = IDLE_AT + rng_between(&rng, -10 * APART_NS, 10 * APART_NS);
            if (take(squeeze->tables[i], NEWCOMER, now, 1, NULL))
                atomic_fetch_add(&squeeze->taken[i], 1);
            else
                refused++;
        }
    }
}

TEST(a_key_that_takes_from_what_is_shared_and_comes_in_takes_nothing_twice)
{
    team_watch("keys between two states");
    for (int64_t round = 0; round < team_scaled(20); round++) {
        struct squeeze squeeze = {.threads = round % 2 ? 4 : 2, .stream = 7000 + (uint64_t)round};
        for (size_t i = 0; i < SQUEEZES; i++)
            squeeze.tables[i] = sharing_table();
        team_run(squeeze.threads, squeeze_in, &squeeze);
        for (size_t i = 0; i < SQUEEZES; i++) {
            int64_t taken = atomic_load(&squeeze.taken[i]);
            taken += take_until_refused(squeeze.tables[i], NEWCOMER, LATER);
            CHECK(taken <= BURST);
            weir_table_free(squeeze.tables[i]);
        }
    }
    team_watch_done();
}

/* ---- keys that come and go, as fast as they can ---- */

/* A unit every 5 us, so a key is as if never used 20 us after it was used up, and droppable when a
 * millisecond more has passed: the clock goes in steps of about that. */
#define SHORT      "200k/s burst=4"
#define CHURN_KEYS 3
#define SKEW_NS    INT64_C(3000)

struct churn {
    struct weir_table *table;
    atomic_llong clock;
    int64_t ops;
    uint64_t stream;
    struct thread_log {
        struct replay_log keys[CHURN_KEYS];
    } logs[8];
};

/* A key that was forgotten counts from the floor on, if that is later. */
static int64_t counts_at(const struct churn *churn, int64_t now)
{
    return max64(now, (int64_t)atom_load(&churn->table->region->header->floor, memory_order_seq_cst));
}

static void come_and_go(size_t self, void *arg)
{
    struct churn *churn = arg;
    struct rng rng = rng_new(churn->stream * 100 + self);
    for (int64_t op = 0; op < churn->ops; op++) {
        size_t key = (size_t)rng_between(&rng, 0, CHURN_KEYS - 1);
        int64_t now = atomic_load(&churn->clock) + rng_between(&rng, -SKEW_NS, SKEW_NS);
        if (rng_between(&rng, 0, 7) == 0)
            (void)weir_table_sweep_at(churn->table, now, 100);
        if (rng_between(&rng, 0, 31) == 0)
            team_yield(); /* and then calls, with what it has read long ago */
        if (take(churn->table, key, now, 1, NULL))
            replay_add(&churn->logs[self].keys[key],
                       (struct replay_event){now, counts_at(churn, now), 1, 0, 0, "take"});
        if (rng_between(&rng, 0, 5) == 0)
            atomic_fetch_add(&churn->clock, rng_between(&rng, 0, 1500000));
    }
}

static void check_churn(struct churn *churn, size_t threads)
{
    struct replay_epoch epoch = {.policy = weir_policy_new(SHORT, NULL), .until = INT64_MAX / 4};
    for (size_t key = 0; key < CHURN_KEYS; key++) {
        struct replay_log all = {0};
        for (size_t i = 0; i < threads; i++) {
            replay_append(&all, &churn->logs[i].keys[key]);
            replay_free(&churn->logs[i].keys[key]);
        }
        struct copies copies = copies_of(churn->table, key);
        CHECK(copies.live <= 1);
        CHECK_EQ(copies.tentative, 0);
        CHECK(replay_holds(&all, &epoch, 1));
        CHECK(all.count > 10);
        replay_free(&all);
    }
    weir_policy_free(epoch.policy);
}

static void run_churn(size_t threads, uint64_t stream)
{
    struct churn churn = {.table = table_open(NULL, SHORT, small_table()),
                          .clock = START,
                          .ops = team_scaled(4000) / (int64_t)threads,
                          .stream = stream};
    size_t twice = 0;
    struct team *team = team_start(threads, come_and_go, &churn);
    while (team_running(team) > 0) {
        for (size_t key = 0; key < CHURN_KEYS; key++)
            twice += lives_twice(churn.table, key);
        team_yield();
    }
    team_join(team);
    CHECK_EQ(twice, 0);
    check_churn(&churn, threads);
    weir_table_free(churn.table);
}

TEST(keys_that_come_and_go_all_the_time_live_once_and_keep_the_law)
{
    team_watch("keys that come and go");
    for (int64_t i = 0; i < team_scaled(60); i++)
        run_churn(i % 2 ? 8 : 2, 9000 + (uint64_t)i);
    team_watch_done();
}

/* ---- a storm of live changes ---- */

/* Five of them: a word tells the generation of its limits by two bits, and at one moment of time the same
 * limits four changes later would make the same word again. */
#define STORM_KEYS   40
#define STORM_LIMITS 5
#define STORM_BURST  30

static const char *const storm_limits[][STORM_LIMITS] = {
    {"7/h burst=30", "1300/h burst=30", "11/h burst=30", "500/h burst=30", "30/d burst=30"},
    {"30/h algo=fixed-window, 1k/d burst=30", "30/h algo=fixed-window, 999/d burst=30",
     "30/h algo=fixed-window, 77/d burst=30", "30/h algo=fixed-window, 5/h burst=30",
     "30/h algo=fixed-window, 3/s burst=30"}};

struct storm {
    struct weir_table *table;
    const char *const *limits;
    uint64_t stream;
    unsigned takers;
    atomic_uint done;
    atomic_llong taken[STORM_KEYS];
};

/* The first one changes the limits, again and again, others sweep; the rest takes, at one moment. */
static void weather(size_t self, void *arg)
{
    struct storm *storm = arg;
    struct rng rng = rng_new(storm->stream * 100 + self);
    if (self < 2) {
        for (size_t i = 0; atomic_load(&storm->done) < storm->takers; i++)
            if (self == 0)
                (void)weir_table_set_at(storm->table, START, storm->limits[i % STORM_LIMITS], NULL);
            else
                (void)weir_table_sweep_at(storm->table, START, 200);
        return;
    }
    int64_t mine[STORM_KEYS] = {0};
    for (int64_t i = 0; i < team_scaled(check_env("WEIR_STORM_OPS", 60000)) / (int64_t)storm->takers; i++) {
        uint64_t key = (uint64_t)rng_between(&rng, 0, STORM_KEYS - 1);
        if (mine[key] > 0 && rng_between(&rng, 0, 2) > 0) {
            weir_table_give_at(storm->table, START, &key, sizeof key, 1);
            mine[key]--;
        } else if (take(storm->table, key, START, 1, NULL))
            mine[key]++;
    }
    for (size_t key = 0; key < STORM_KEYS; key++)
        atomic_fetch_add(&storm->taken[key], mine[key]);
    atomic_fetch_add(&storm->done, 1);
}

static void run_storm(const char *const *limits, unsigned threads, uint64_t stream)
{
    struct storm storm = {.table = table_open(NULL, limits[0], (struct weir_table_options){.keys = 200}),
                          .limits = limits,
                          .stream = stream,
                          .takers = threads};
    team_run(threads + 2, weather, &storm);
    for (uint64_t key = 0; key < STORM_KEYS; key++) {
        int64_t taken = atomic_load(&storm.taken[key]) + take_until_refused(storm.table, key, START);
        struct copies copies = copies_of(storm.table, key);
        CHECK_EQ(copies.live, 1);
        CHECK_EQ(copies.tentative, 0);
        if (!CHECK_EQ(taken, STORM_BURST))
            printf("# key %" PRIu64 ", %s, %u threads\n", key, limits[0], threads);
    }
    weir_table_free(storm.table);
}

TEST(spent_units_stay_spent_in_a_storm_of_changes)
{
    team_watch("a storm of changes");
    for (int64_t i = 0; i < team_scaled(12); i++) {
        unsigned threads = i % 3 == 2 ? 30 : i % 3 == 1 ? 6 : 2;
        run_storm(storm_limits[0], threads, 20000 + (uint64_t)i);
        run_storm(storm_limits[1], threads, 21000 + (uint64_t)i);
    }
    team_watch_done();
}

/* ---- refusals ---- */

static const char complaint[] = "# a refusal wrote to the slots\n";

static void complain(int signal)
{
    (void)signal;
    ssize_t written = write(STDERR_FILENO, complaint, sizeof complaint - 1);
    (void)written;
    _exit(1);
}

/* Every question that is answered with no, of keys that are there and of some that are not. */
static void be_refused(size_t self, void *arg)
{
    struct weir_table *table = arg;
    struct rng rng = rng_new(30000 + self);
    for (int64_t i = 0; i < team_scaled(20000); i++) {
        uint64_t key = (uint64_t)rng_between(&rng, 0, 99), other = 1000 + key;
        struct weir_ask asks[] = {ask_for(table, &key, 1), ask_for(table, &other, 4)};
        struct weir_reservation r;
        struct weir_verdict v;
        bool allowed = take(table, key, START, 1, i % 2 ? &v : NULL);
        allowed |= take(table, other, START, 4, NULL); /* more than the burst */
        allowed |= weir_table_reserve_at(table, START, &key, sizeof key, 1, WEIR_SEC, &r, &v);
        allowed |= weir_take_each_at(asks, 2, START) > 0;
        if (!is_wide(table)) /* which marks a key while it decides */
            allowed |= weir_take_all_at(asks, 2, START);
        if (allowed)
            _exit(2);
    }
}

static int be_refused_in_peace(size_t self, void *arg)
{
    (void)self;
    struct weir_table *table = arg;
    const struct segment *segment = &table->region->segments[0];
    struct sigaction action = {.sa_handler = complain};
    (void)sigaction(SIGSEGV, &action, NULL);
    if (mprotect(segment->slots, segment->bytes, PROT_READ) != 0)
        return 3;
    team_run(2, be_refused, table);
    return 0;
}

TEST(a_refusal_writes_nothing)
{
    static const char *const limits[] = {"3/h", "3/h algo=leaky-bucket queue=2", "3/h, 5/d algo=sliding-log"};
    team_watch("refusals");
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        struct weir_table *table =
            table_open(NULL, limits[i], (struct weir_table_options){.keys = 500, .no_top = 1});
        for (uint64_t key = 0; key < 100; key++)
            CHECK(take_until_refused(table, key, START) > 0);
        run_processes(1, be_refused_in_peace, table); /* for itself, as it may come to a bad end */
        weir_table_free(table);
    }
    team_watch_done();
}
