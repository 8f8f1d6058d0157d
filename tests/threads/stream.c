/* SPDX-License-Identifier: MIT */
/*
 * Far more keys than a table has room for stream through it, each once, while some keys that have spent their
 * units are watched: nobody's debt is forgotten to make room, and memory stays what it was. Time is given, so
 * the pure core says to the unit what the watched keys may get.
 *
 * WEIR_STREAM_KEYS keys through a table of WEIR_STREAM_MIB; script/stream does it at length.
 */
#include <inttypes.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/sat.h"
#include "check.h"
#include "threads/team.h"
#include "weir.h"

#define START   (1000 * WEIR_SEC)
#define LIMITS  "10/s"
#define FULL    10                /* units of a key */
#define REFILL  (WEIR_SEC / FULL) /* of one unit: so long a key that took it cannot be forgotten */
#define THREADS 2
#define AT_ONCE 40   /* keys that a thread draws at once: more than the library fetches at once */
#define STEP    400  /* keys by which the one who watches lets the stream go on */
#define WATCHED 1000 /* keys */
#define HOUR    (3600 * WEIR_SEC)

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define SANITIZED true
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define SANITIZED true
#endif
#endif
#ifndef SANITIZED
#define SANITIZED false
#endif

/* ---- the table ---- */

static int64_t resident_bytes(void)
{
    long long pages = 0;
    char line[128] = "", *at = line;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file && fgets(line, sizeof line, file)) {
        (void)strtoll(line, &at, 10);
        pages = strtoll(at, NULL, 10);
    }
    if (file)
        fclose(file);
    return (int64_t)pages * sysconf(_SC_PAGESIZE);
}

static int64_t budget(void)
{
    return check_env("WEIR_STREAM_MIB", team_scaled(8)) << 20;
}

static int64_t stream_keys(void)
{
    return check_env("WEIR_STREAM_KEYS", team_scaled(2000000));
}

/* For as many keys as the budget pays for. */
static struct weir_table *table_of_budget(enum weir_when_full when_full, struct weir_table_info *stat)
{
    struct weir_table_options options = {.keys = (size_t)budget() / 20, .when_full = (int32_t)when_full};
    for (;;) {
        struct weir_error err;
        struct weir_table *table = weir_table_make(NULL, LIMITS, &options, &err);
        if (!table) {
            fprintf(stderr, "%s\n", err.text);
            abort();
        }
        weir_table_stat_at(table, START, stat);
        if (stat->bytes <= budget())
            return table;
        weir_table_free(table);
        options.keys -= options.keys / 100;
    }
}

/* ---- those who are watched ---- */

/* Every third has spent all it had, and asks for what comes. Every third has as well, and is silent until the
 * end, when all of it is back. Every third is in debt beyond the end, and silent. */
enum { STATE_WORDS = 3 }; /* of a token bucket */

enum way { ASKS, WAITS, OWES, WAYS };

struct watched {
    struct weir_policy *policy;
    int64_t states[WATCHED][STATE_WORDS]; /* what the core makes of them */
    int64_t got, next;
};

static enum way way_of(int64_t number)
{
    return (enum way)(number % WAYS);
}

static size_t watched_name(int64_t number, char name[static 32])
{
    return (size_t)snprintf(name, 32, "watched %" PRId64, number);
}

static struct watched *watched_new(struct weir_table *table, int64_t debt)
{
    struct watched *w = calloc(1, sizeof *w);
    if (!w)
        abort();
    w->policy = weir_policy_new(LIMITS, NULL);
    CHECK_EQ(weir_policy_state_size(w->policy), sizeof w->states[0]);
    for (int64_t i = 0; i < WATCHED; i++) {
        char name[32];
        size_t len = watched_name(i, name);
        int64_t n = way_of(i) == OWES ? debt + i : FULL;
        weir_state_init(w->policy, w->states[i], START);
        weir_state_charge(w->policy, w->states[i], START, n);
        CHECK(weir_table_charge_at(table, START, name, len, n));
    }
    return w;
}

static void watched_free(struct watched *w)
{
    weir_policy_free(w->policy);
    free(w);
}

/* It gets as many units as the core says: not one more, not one less. */
static void watch(struct watched *w, struct weir_table *table, int64_t now, int64_t number)
{
    char name[32];
    size_t len = watched_name(number, name);
    int64_t want = 0, got = 0;
    while (weir_state_take(w->policy, w->states[number], now, 1, NULL))
        want++;
    while (got <= want && weir_table_take_at(table, now, name, len, 1, NULL))
        got++;
    if (!CHECK_EQ(got, want) && check.faults <= 10)
        printf("# key %" PRId64 " at %" PRId64 "\n", number, now - START);
    w->got += got;
}

static void watch_next(struct watched *w, struct weir_table *table, int64_t now)
{
    if (way_of(w->next) == ASKS)
        watch(w, table, now, w->next);
    w->next = (w->next + 1) % WATCHED;
}

/* ---- those who come once ---- */

struct stream {
    struct weir_table *table;
    int64_t keys, first;       /* from that number on */
    int64_t start, per_refill; /* so many come in the time of one unit */
    atomic_llong next, allowed;
    atomic_llong open; /* keys before that number may come: nobody's time is later than the watcher's */
};

static int64_t time_of(const struct stream *s, int64_t number)
{
    return s->start + (int64_t)((weir_i128)number * REFILL / s->per_refill);
}

static int64_t take_one_by_one(struct stream *s, int64_t from, int64_t end)
{
    int64_t allowed = 0;
    for (int64_t i = from; i < end; i++) {
        int64_t key = s->first + i;
        allowed += weir_table_take_at(s->table, time_of(s, i), &key, sizeof key, 1, NULL);
    }
    return allowed;
}

static int64_t take_together(struct stream *s, int64_t from, int64_t end)
{
    struct weir_ask asks[AT_ONCE];
    int64_t keys[AT_ONCE];
    for (int64_t i = from; i < end; i++) {
        keys[i - from] = s->first + i;
        asks[i - from] =
            (struct weir_ask){.table = s->table, .key = &keys[i - from], .len = sizeof keys[0], .n = 1};
    }
    int64_t allowed = 0;
    (void)weir_take_each_at(asks, (size_t)(end - from), time_of(s, from));
    for (int64_t i = from; i < end; i++)
        allowed += asks[i - from].verdict.allowed;
    return allowed;
}

static void stream_some(size_t self, void *arg)
{
    struct stream *s = arg;
    int64_t allowed = 0;
    for (;;) {
        int64_t from = atomic_fetch_add(&s->next, AT_ONCE), end = from + AT_ONCE;
        if (from >= s->keys)
            break;
        end = end < s->keys ? end : s->keys;
        while (atomic_load(&s->open) < end)
            team_yield();
        allowed += self % 2 ? take_together(s, from, end) : take_one_by_one(s, from, end);
    }
    atomic_fetch_add(&s->allowed, allowed);
}

static int64_t stream_end(const struct stream *s)
{
    return time_of(s, s->keys);
}

/* A key that is forgotten counts from the latest time that the table knows (its floor). The watcher's time is
 * the latest there is, so what it sees is exact however long a thread of the stream is kept from running. */
static void stream_run(struct stream *s, struct watched *w, const char *what)
{
    int64_t began = weir_now();
    struct team *team = team_start(THREADS, stream_some, s);
    while (team_running(team) > 0) {
        int64_t open = atomic_load(&s->open);
        watch_next(w, s->table, time_of(s, open));
        if (atomic_load(&s->next) > open - STEP)
            atomic_store(&s->open, open + STEP);
        team_yield();
    }
    team_join(team);
    printf("# %s: %" PRId64 " keys, %.2f M keys/s, resident %.1f MiB\n", what, s->keys,
           (double)s->keys * 1e3 / (double)(weir_now() - began), (double)resident_bytes() / 0x1p20);
}

/* Five in a hundred beyond the budget, for code and stacks that are used for the first time; in a small table
 * that is less than they are. */
static void check_memory(int64_t before)
{
    if (!SANITIZED)
        CHECK(resident_bytes() - before <= budget() + max64(budget() / 20, 1 << 20));
}

/* When all that was taken is back, but for those who owe. */
static void watch_all(struct watched *w, struct weir_table *table, int64_t now)
{
    for (int64_t i = 0; i < WATCHED; i++)
        watch(w, table, now, i);
}

TEST(a_stream_of_keys_that_can_be_forgotten_costs_nobody_a_unit_and_no_memory)
{
    struct weir_table_info stat;
    int64_t before = resident_bytes();
    struct weir_table *table = table_of_budget(WEIR_FULL_SHARE, &stat);
    struct stream s = {
        .table = table, .keys = stream_keys(), .start = START, .per_refill = stat.capacity / 2};
    int64_t later = stream_end(&s) + 2 * WEIR_SEC;
    struct watched *w = watched_new(table, (later - START) / REFILL + FULL);
    stream_run(&s, w, "calm");
    CHECK_EQ(atomic_load(&s.allowed), s.keys);
    watch_all(w, table, later);
    CHECK(w->got > 0);
    weir_table_stat_at(table, later, &stat);
    CHECK_EQ(stat.shared + stat.refused, 0);
    check_memory(before);
    watched_free(w);
    weir_table_free(table);
}

/* A place serves one key in the time of one unit; those without a place have the limits of one key together.
 */
static void check_shared(const struct stream *s, const struct weir_table_info *stat)
{
    int64_t refills = (stream_end(s) - START) / REFILL;
    CHECK(stat->shared > 0);
    CHECK(atomic_load(&s->allowed) >= stat->capacity);
    CHECK(atomic_load(&s->allowed) <= stat->slots * (1 + refills) + FULL + refills);
}

/* Keys come eight times as fast as they can be forgotten. */
static void check_crowd(enum weir_when_full when_full)
{
    struct weir_table_info stat, end;
    int64_t before = resident_bytes();
    struct weir_table *table = table_of_budget(when_full, &stat);
    struct stream s = {
        .table = table, .keys = stream_keys(), .start = START, .per_refill = 8 * stat.capacity};
    s.keys = s.keys / 4 > 3 * stat.capacity ? s.keys / 4 : 3 * stat.capacity;
    int64_t later = stream_end(&s) + 2 * WEIR_SEC;
    struct watched *w = watched_new(table, (later - START) / REFILL + FULL);
    stream_run(&s, w, when_full == WEIR_FULL_SHARE ? "crowd that shares" : "crowd, refused");
    weir_table_stat_at(table, stream_end(&s), &stat);
    if (when_full == WEIR_FULL_SHARE)
        check_shared(&s, &stat);
    else
        CHECK_EQ(atomic_load(&s.allowed), s.keys - stat.refused);
    CHECK(stat.nearly_full);
    watch_all(w, table, later);

    struct stream calm = {.table = table,
                          .keys = stat.capacity / 2,
                          .first = s.keys,
                          .start = later,
                          .per_refill = stat.capacity / 2};
    stream_run(&calm, w, "after it");
    CHECK_EQ(atomic_load(&calm.allowed), calm.keys);
    weir_table_stat_at(table, later, &end);
    CHECK_EQ(end.shared, stat.shared);
    CHECK_EQ(end.refused, stat.refused);
    check_memory(before);
    watched_free(w);
    weir_table_free(table);
}

TEST(keys_that_find_no_room_share_one_limit_and_take_nothing_from_others)
{
    check_crowd(WEIR_FULL_SHARE);
}

TEST(keys_that_find_no_room_are_refused_and_take_nothing_from_others)
{
    check_crowd(WEIR_FULL_REFUSE);
}

/* ---- limits that clients name ---- */

static struct weir_table *table_of_clients(size_t keys, enum weir_when_full when_full, int64_t horizon_ns)
{
    struct weir_error err;
    struct weir_table *table = weir_table_make(
        NULL, NULL,
        &(struct weir_table_options){
            .keys = keys, .own_limits = 1, .when_full = (int32_t)when_full, .horizon_ns = horizon_ns},
        &err);
    if (!table) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
    return table;
}

static bool take_own(struct weir_table *table, int64_t now, int64_t key, const struct weir_own_limit *limit,
                     struct weir_verdict *verdict)
{
    return weir_table_take_own_at(table, now, &key, sizeof key, limit, 1, verdict);
}

TEST(a_limit_that_would_be_remembered_for_years_is_refused_and_leaves_nothing)
{
    static const struct weir_own_limit absurd[] = {
        {1, 1000000000 * WEIR_SEC, 1}, /* 31 years a unit */
        {1, 32 * 24 * HOUR, 1},
        {1, HOUR, 1000}, /* a burst that takes 41 days to come back */
        {1, WEIR_FOREVER, WEIR_FOREVER},
    };
    struct weir_table *table = table_of_clients(1000, WEIR_FULL_SHARE, 0);
    struct weir_table_info stat;
    for (int64_t key = 0; key < 4000; key++) {
        struct weir_verdict verdict = {.allowed = 1};
        CHECK(!take_own(table, START, key, &absurd[key % 4], &verdict));
        CHECK_EQ(verdict.allowed, 0);
        CHECK(verdict.reason != WEIR_OK && verdict.reason != WEIR_LATER);
    }
    weir_table_stat_at(table, START, &stat);
    CHECK_EQ(stat.keys + stat.shared + stat.refused, 0);
    CHECK(take_own(table, START, 1, &(struct weir_own_limit){1, 30 * 24 * HOUR, 1}, NULL));
    weir_table_free(table);
}

/* Clients bring a key each that cannot be forgotten for the whole horizon, three times what there is room
 * for. Gives how many got through. */
static int64_t attack(struct weir_table *clients, int64_t now, int64_t keys, int64_t first)
{
    const struct weir_own_limit longest = {1, HOUR, 1};
    int64_t allowed = 0;
    for (int64_t key = first; key < first + keys; key++)
        allowed += take_own(clients, now, key, &longest, NULL);
    return allowed;
}

static void check_attack(enum weir_when_full when_full)
{
    const int64_t room = team_scaled(100000);
    struct weir_table_info stat, before;
    struct weir_table *clients = table_of_clients((size_t)room, when_full, HOUR);
    struct weir_table *others = table_of_budget(when_full, &stat);
    struct stream s = {.table = others, .keys = room, .start = START, .per_refill = stat.capacity / 2};
    struct watched *w = watched_new(others, stream_end(&s) / REFILL);

    int64_t allowed = attack(clients, START, 3 * room, 0);
    weir_table_stat_at(clients, START, &before);
    CHECK(before.nearly_full);
    CHECK((when_full == WEIR_FULL_SHARE ? before.shared : before.refused) > 0);
    CHECK(allowed >= room);
    CHECK(allowed - 1 <= 3 * room - before.shared - before.refused); /* who shares has one unit together */
    CHECK_EQ(attack(clients, START + HOUR - 2 * WEIR_MS, room, 3 * room), 0);

    /* Who is not asked by clients does not notice. */
    stream_run(&s, w, "beside the attack");
    CHECK_EQ(atomic_load(&s.allowed), s.keys);
    watch_all(w, others, stream_end(&s) + 2 * WEIR_SEC);
    weir_table_stat_at(others, stream_end(&s), &stat);
    CHECK_EQ(stat.shared + stat.refused, 0);

    /* And after the horizon it is over. */
    weir_table_stat_at(clients, START, &before);
    CHECK_EQ(attack(clients, START + 2 * HOUR, room, 4 * room), room);
    weir_table_stat_at(clients, START + 2 * HOUR, &stat);
    CHECK_EQ(stat.shared, before.shared);
    CHECK_EQ(stat.refused, before.refused);
    watched_free(w);
    weir_table_free(clients);
    weir_table_free(others);
}

TEST(debts_that_clients_name_fill_only_their_own_table_and_end_with_the_horizon)
{
    check_attack(WEIR_FULL_SHARE);
    check_attack(WEIR_FULL_REFUSE);
}
