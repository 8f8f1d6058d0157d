/* SPDX-License-Identifier: MIT */
/*
 * All or none, by many threads at once: nobody is refused because of units that nobody gets, and no key is
 * charged for a question that another one refuses. All of it at one moment of time, so that what is spent can
 * be counted.
 */
#define _DEFAULT_SOURCE
#include "base/sat.h"
#include "threads/table_tools.h"

/* ---- a question that is always refused leaves no trace ---- */

/*
 * Some threads ask for a unit of a key that all share together with one of a key that has none. Others take
 * from the shared one alone: exactly as many units as there are. So whoever of them is refused was refused
 * because of a charge that was undone.
 */
#define SINGLES   2
#define HAMMERERS 4
#define EMPTY     5 /* keys that have nothing */
#define SHARED    UINT64_C(100)

struct contest {
    struct weir_table *shared, *empty;
    int64_t quota; /* of each who takes alone */
    int64_t most;  /* questions that the others may ask, however long those are kept from running */
    bool refills;  /* somebody gives the empty ones a unit now and then */
    uint64_t stream;
    atomic_uint done;
    atomic_llong asked, taken, together, refused, blamed;
};

/* Not faster than the others ask. */
static void take_alone(struct contest *contest)
{
    for (int64_t i = 0; i < contest->quota; i++) {
        while (atomic_load(&contest->asked) < 2 * i)
            team_yield();
        if (take(contest->shared, SHARED, START, 1, NULL))
            atomic_fetch_add(&contest->taken, 1);
        else
            atomic_fetch_add(&contest->refused, 1);
    }
    atomic_fetch_add(&contest->done, 1);
}

static void hammer(struct contest *contest, struct rng *rng)
{
    while (atomic_load(&contest->done) < SINGLES && atomic_load(&contest->asked) < contest->most) {
        uint64_t key = (uint64_t)rng_between(rng, 0, EMPTY - 1), shared = SHARED;
        struct weir_ask asks[] = {ask_for(contest->shared, &shared, 1), ask_for(contest->empty, &key, 1)};
        if (contest->refills && rng_between(rng, 0, 3) == 0)
            weir_table_reset_at(contest->empty, START, &key, sizeof key);
        if (weir_take_all_at(asks, 2, START))
            atomic_fetch_add(&contest->together, 1);
        else if (contest->refills && asks[0].verdict.reason != WEIR_OK)
            atomic_fetch_add(&contest->blamed, 1);
        atomic_fetch_add(&contest->asked, 1);
    }
}

static void compete(size_t self, void *arg)
{
    struct contest *contest = arg;
    struct rng rng = rng_new(contest->stream * 100 + self);
    if (self < SINGLES)
        take_alone(contest);
    else
        hammer(contest, &rng);
}

struct field {
    const char *more;  /* limits of the shared key beside its first one */
    const char *empty; /* limits of the others; NULL: they are in the same table */
    size_t key_max;    /* of the shared key's table */
};

#define WIDER ", 100/h burst=900000"

static const struct field fields[] = {
    {"", "1/h, 1/d", 0},                                                    /* a word is held, and let go */
    {"", "1/h", 0},                                                         /* two words */
    {WIDER, "1/h", 0},                                                      /* a wide state and a word */
    {WIDER, "1/h, 1/d", 0}, {"", NULL, 0}, {WIDER, NULL, 0}, {"", NULL, 8}, /* whole keys */
};

static void begin_contest(struct contest *contest, const struct field *field, int64_t burst)
{
    char limits[64];
    (void)snprintf(limits, sizeof limits, "10/h burst=%" PRId64 "%s", burst, field->more);
    contest->shared =
        table_open(NULL, limits, (struct weir_table_options){.keys = 50, .key_max = field->key_max});
    contest->empty = field->empty ? table_open(NULL, field->empty, (struct weir_table_options){.keys = 50})
                                  : contest->shared;
    for (uint64_t key = 0; key < EMPTY; key++)
        CHECK_EQ(take_until_refused(contest->empty, key, START), field->empty ? 1 : burst);
}

static void end_contest(struct contest *contest)
{
    if (contest->empty != contest->shared)
        weir_table_free(contest->empty);
    weir_table_free(contest->shared);
}

TEST(who_takes_alone_is_never_refused_because_of_questions_that_are)
{
    int64_t quota = team_scaled(check_env("WEIR_ALL_OPS", 4000));
    team_watch("questions that are always refused");
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        struct contest contest = {.quota = quota, .most = INT64_MAX, .stream = i};
        begin_contest(&contest, &fields[i], SINGLES * quota);
        team_run(SINGLES + HAMMERERS, compete, &contest);
        bool fine = CHECK_EQ(atomic_load(&contest.refused), 0);
        fine &= CHECK_EQ(atomic_load(&contest.taken), SINGLES * quota);
        fine &= CHECK_EQ(atomic_load(&contest.together), 0);
        if (!fine)
            printf("# shared key%s, others: %s\n", fields[i].more,
                   fields[i].empty ? fields[i].empty : "same");
        end_contest(&contest);
    }
    team_watch_done();
}

/* Now some of them pass; there is enough for everybody, so the shared key never says no. */
TEST(what_is_taken_alone_and_together_adds_up)
{
    int64_t quota = team_scaled(check_env("WEIR_ALL_OPS", 4000)), burst = 900000;
    team_watch("questions of which some are refused");
    for (size_t i = 0; i < sizeof fields / sizeof fields[0] && fields[i].empty; i++) {
        struct contest contest = {
            .quota = quota, .most = burst - SINGLES * quota - HAMMERERS, .refills = true, .stream = 100 + i};
        struct weir_verdict v;
        uint64_t key = SHARED;
        begin_contest(&contest, &fields[i], burst);
        team_run(SINGLES + HAMMERERS, compete, &contest);
        CHECK_EQ(atomic_load(&contest.refused), 0);
        CHECK_EQ(atomic_load(&contest.blamed), 0);
        CHECK(atomic_load(&contest.together) > 0);
        (void)weir_table_peek_at(contest.shared, START, &key, sizeof key, 1, &v);
        if (!CHECK_EQ(burst - v.remaining, atomic_load(&contest.taken) + atomic_load(&contest.together)))
            printf("# shared key%s, others: %s\n", fields[i].more, fields[i].empty);
        end_contest(&contest);
    }
    team_watch_done();
}

/* ---- keys without room ---- */

/* What they share is a single state, whoever asks for it with whom. */
#define CROWD UINT64_C(1000) /* the first of its keys */

struct crowd {
    struct weir_table *table;
    atomic_llong taken;
};

static void ask_without_room(size_t self, void *arg)
{
    struct crowd *crowd = arg;
    struct rng rng = rng_new(5000 + self);
    for (int refused = 0; refused < 3;) {
        uint64_t key = CROWD + (uint64_t)rng_between(&rng, 0, 999), other = key + 1000;
        struct weir_ask asks[] = {ask_for(crowd->table, &key, 1), ask_for(crowd->table, &other, 1)};
        if (weir_take_all_at(asks, 2, START))
            atomic_fetch_add(&crowd->taken, 2);
        else if (take(crowd->table, key, START, 1, NULL))
            atomic_fetch_add(&crowd->taken, 1);
        else
            refused++;
    }
}

TEST(keys_without_room_that_ask_together_share_one_limit)
{
    int64_t burst = team_scaled(200000);
    team_watch("keys without room");
    for (int i = 0; i < 2; i++) {
        char limits[64];
        struct weir_table_info info;
        (void)snprintf(limits, sizeof limits, "10/h burst=%" PRId64 "%s", burst, i ? WIDER : "");
        struct crowd crowd = {.table = table_open(NULL, limits, (struct weir_table_options){.keys = 4})};
        for (uint64_t key = 0; key < 100; key++) /* the last of them share, too */
            CHECK(take(crowd.table, key, START, 1, NULL));
        weir_table_stat_at(crowd.table, START, &info);
        CHECK(info.shared > 0);
        team_run(SINGLES + HAMMERERS, ask_without_room, &crowd);
        CHECK_EQ(atomic_load(&crowd.taken) + info.shared, burst);
        weir_table_free(crowd.table);
    }
    team_watch_done();
}

/* ---- never half charged ---- */

#define KEYS    10
#define THREADS 8
#define TURNS   5 /* limits that take turns: see table_keys.c */

struct form {
    const char *limits[TURNS];
    size_t key_max;
    bool is_single;
};

/* All hold 60 units. */
#define BUCKETS                                                                                              \
    {                                                                                                        \
        "1/h burst=60", "7/h burst=60", "100/h burst=60", "9/d burst=60", "60/h"                             \
    }
static const struct form forms[] = {
    {BUCKETS, 0, true},
    {BUCKETS, 8, true}, /* whole keys */
    {{"1/h burst=60, 60/d algo=sliding-log, 60/h algo=fixed-window",
      "3/h burst=60, 60/d algo=sliding-log, 60/h algo=fixed-window",
      "9/h burst=60, 60/d algo=sliding-log, 60/h algo=fixed-window",
      "27/h burst=60, 60/d algo=sliding-log, 60/h algo=fixed-window",
      "81/h burst=60, 60/d algo=sliding-log, 60/h algo=fixed-window"},
     0,
     false},
};

struct accounts { /* shared by all processes */
    atomic_llong spent[2][KEYS];
    atomic_uint done;
    unsigned threads; /* of all processes */
    uint64_t stream;
    int64_t ops;
};

struct pairing {
    struct accounts *accounts;
    struct weir_table *tables[2];
    const struct form *forms[2];
    unsigned first; /* number of its first thread */
};

struct pick {
    size_t table;
    uint64_t key;
    int64_t n;
};

/* What a thread has taken together, and may give back. */
struct basket {
    struct pick picks[4];
    size_t count;
};

static void count_spent(struct pairing *pairing, const struct pick *pick, int64_t n)
{
    atomic_fetch_add(&pairing->accounts->spent[pick->table][pick->key], n);
}

/* Two to four keys of both tables, in any order, perhaps one of them twice. */
static void take_together(struct pairing *pairing, struct rng *rng, struct basket *basket)
{
    struct weir_ask asks[4];
    size_t count = (size_t)rng_between(rng, 2, 4), first = (size_t)rng_between(rng, 0, 1);
    for (size_t i = 0; i < count; i++) {
        struct pick *pick = &basket->picks[i];
        *pick = (struct pick){i < 2 ? i ^ first : (size_t)rng_between(rng, 0, 1),
                              (uint64_t)rng_between(rng, 0, KEYS - 1), rng_between(rng, 1, 2)};
        asks[i] = ask_for(pairing->tables[pick->table], &pick->key, pick->n);
    }
    basket->count = weir_take_all_at(asks, count, START) ? count : 0;
    for (size_t i = 0; i < basket->count; i++)
        count_spent(pairing, &basket->picks[i], basket->picks[i].n);
}

static void give_back(struct pairing *pairing, struct basket *basket)
{
    while (basket->count > 0) {
        const struct pick *pick = &basket->picks[--basket->count];
        weir_table_give_at(pairing->tables[pick->table], START, &pick->key, sizeof pick->key, pick->n);
        count_spent(pairing, pick, -pick->n);
    }
}

static void trade(struct pairing *pairing, struct rng *rng)
{
    struct basket basket = {.count = 0};
    for (int64_t op = 0; op < pairing->accounts->ops; op++) {
        struct pick pick = {(size_t)rng_between(rng, 0, 1), (uint64_t)rng_between(rng, 0, KEYS - 1), 1};
        int64_t way = rng_between(rng, 0, 9);
        if (basket.count > 0 && way < 7)
            give_back(pairing, &basket);
        else if (way < 9)
            take_together(pairing, rng, &basket);
        else if (take(pairing->tables[pick.table], pick.key, START, 1, NULL))
            count_spent(pairing, &pick, 1);
    }
}

/* A key with limits of its own, for a while; what it has spent it keeps. */
static void override(struct pairing *pairing, size_t table, uint64_t key, const char *limits)
{
    if (pairing->forms[table]->is_single)
        (void)weir_table_override_at(pairing->tables[table], START, &key, sizeof key, limits, NULL);
}

/* Limits change, the tables are swept and grow, while others decide. */
static void disturb(struct pairing *pairing)
{
    for (size_t i = 0; atomic_load(&pairing->accounts->done) < pairing->accounts->threads; i++) {
        size_t table = i % 2;
        (void)weir_table_set_at(pairing->tables[table], START, pairing->forms[table]->limits[i / 2 % TURNS],
                                NULL);
        (void)weir_table_sweep_at(pairing->tables[table], START, 100);
        override(pairing, table, i % 3, i / 6 % 2 ? NULL : "5/h burst=60");
        if (i % 64 == 63)
            (void)weir_table_grow(pairing->tables[table], 100 + i, NULL);
        team_yield();
    }
}

static void trade_or_disturb(size_t self, void *arg)
{
    struct pairing *pairing = arg;
    struct rng rng = rng_new(pairing->accounts->stream * 100 + pairing->first + self);
    if (self == 0 && pairing->first == 0) {
        disturb(pairing);
        return;
    }
    trade(pairing, &rng);
    atomic_fetch_add(&pairing->accounts->done, 1);
}

/* Every limit of every key has spent what was admitted. */
static void check_accounts(const struct pairing *pairing)
{
    for (size_t table = 0; table < 2; table++)
        for (uint64_t key = 0; key < KEYS; key++) {
            struct weir_limit_state limits[4];
            size_t count = weir_table_explain_at(pairing->tables[table], START, &key, sizeof key, limits, 4);
            CHECK(count > 0);
            for (size_t i = 0; i < count; i++)
                if (!CHECK_EQ(limits[i].used, atomic_load(&pairing->accounts->spent[table][key])))
                    printf("# table %zu, key %" PRIu64 ", limit %zu: %s\n", table, key, i, limits[i].text);
            CHECK(copies_of(pairing->tables[table], key).live <= 1);
        }
}

static void open_pair(struct pairing *pairing, char paths[2][64])
{
    for (size_t i = 0; i < 2; i++)
        pairing->tables[i] =
            table_open(paths ? paths[i] : NULL, pairing->forms[i]->limits[0],
                       (struct weir_table_options){.keys = 50, .key_max = pairing->forms[i]->key_max});
}

static void close_pair(struct pairing *pairing)
{
    weir_table_free(pairing->tables[0]);
    weir_table_free(pairing->tables[1]);
}

static struct accounts new_accounts(unsigned threads, uint64_t stream)
{
    return (struct accounts){.threads = threads,
                             .stream = stream,
                             .ops = 5 * team_scaled(check_env("WEIR_ALL_OPS", 4000)) / (int64_t)threads};
}

enum { FORMS = sizeof forms / sizeof forms[0] };

TEST(no_key_is_charged_for_a_question_that_another_refuses)
{
    team_watch("pairs of keys");
    for (size_t i = 0; i < FORMS * FORMS; i++) {
        struct accounts accounts = new_accounts(THREADS, 1000 + i);
        struct pairing pairing = {.accounts = &accounts, .forms = {&forms[i / FORMS], &forms[i % FORMS]}};
        open_pair(&pairing, NULL);
        team_run(THREADS + 1, trade_or_disturb, &pairing);
        check_accounts(&pairing);
        close_pair(&pairing);
    }
    team_watch_done();
}

/* ---- the same by processes ---- */

struct files {
    struct accounts *accounts;
    const struct form *forms[2];
    char paths[2][64];
};

static int trade_by_file(size_t self, void *arg)
{
    struct files *files = arg;
    struct pairing pairing = {.accounts = files->accounts,
                              .forms = {files->forms[0], files->forms[1]},
                              .first = (unsigned)self * 100};
    open_pair(&pairing, files->paths);
    team_run(self == 0 ? THREADS / 2 + 1 : THREADS / 2, trade_or_disturb, &pairing);
    close_pair(&pairing);
    return 0;
}

TEST(no_key_is_charged_for_a_question_that_another_refuses_to_a_process)
{
    struct files files = {.accounts = shared_memory(sizeof *files.accounts)};
    team_watch("pairs of keys, by processes");
    weir_clock_set(START); /* who opens a file with other limits changes them, now */
    for (size_t i = 0; i < FORMS * FORMS; i++) {
        *files.accounts = new_accounts(THREADS, 2000 + i);
        struct pairing pairing = {.accounts = files.accounts,
                                  .forms = {&forms[i / FORMS], &forms[i % FORMS]}};
        for (size_t t = 0; t < 2; t++) {
            files.forms[t] = pairing.forms[t];
            (void)snprintf(files.paths[t], sizeof files.paths[t], "%s", table_path());
        }
        open_pair(&pairing, files.paths);
        run_processes(2, trade_by_file, &files);
        check_accounts(&pairing);
        close_pair(&pairing);
        CHECK(unlink(files.paths[0]) == 0 && unlink(files.paths[1]) == 0);
    }
    (void)munmap(files.accounts, sizeof *files.accounts);
    weir_clock_set(-1);
    team_watch_done();
}
