/* SPDX-License-Identifier: MIT */
/*
 * All or none, in one thread: beside a model that has a state of the core for every key, asks all of them
 * first and takes from all or from none.
 */
#define _GNU_SOURCE
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "core/idle.h"
#include "weir.h"

#define START  (INT64_C(1000) * WEIR_SEC)
#define TABLES 5
#define KEYS   6

static struct weir_table *make(const char *limits, struct weir_table_options options)
{
    struct weir_error err;
    struct weir_table *table = weir_table_make(NULL, limits, &options, &err);
    if (!CHECK(table != NULL))
        printf("# %s: %s\n", limits ? limits : "own", err.text);
    return table;
}

static struct weir_ask ask_for(struct weir_table *table, const char *key, int64_t n)
{
    return (struct weir_ask){.table = table, .key = key, .len = strlen(key), .n = n};
}

static bool take(struct weir_table *table, int64_t now, const char *key, int64_t n)
{
    return weir_table_take_at(table, now, key, strlen(key), n, NULL);
}

static int64_t remaining(struct weir_table *table, int64_t now, const char *key)
{
    struct weir_verdict verdict;
    (void)weir_table_peek_at(table, now, key, strlen(key), 1, &verdict);
    return verdict.remaining;
}

/* ---- the model ---- */

struct subject {
    struct weir_policy *policy;
    bool own; /* not the table's */
    int64_t state[32];
};

struct world {
    struct weir_table *tables[TABLES];
    struct subject subjects[TABLES][KEYS];
    char keys[KEYS][32];
};

static void begin(struct world *world)
{
    static const struct {
        const char *limits;
        size_t key_max;
    } tables[TABLES] = {
        {"10/s", 0}, {"7/s burst=20", 0}, {"10/s, 50/m", 0}, {"12/s", 16}, {"9/s algo=sliding-log", 0}};
    for (size_t t = 0; t < TABLES; t++) {
        world->tables[t] =
            make(tables[t].limits, (struct weir_table_options){.keys = 1000, .key_max = tables[t].key_max});
        for (size_t k = 0; k < KEYS; k++) {
            struct subject *subject = &world->subjects[t][k];
            (void)snprintf(world->keys[k], sizeof world->keys[k], "key %zu", k);
            subject->policy = weir_policy_idle(tables[t].limits, NULL);
            subject->own = false;
            weir_state_init(subject->policy, subject->state, START);
        }
    }
}

static void end(struct world *world)
{
    for (size_t t = 0; t < TABLES; t++) {
        for (size_t k = 0; k < KEYS; k++)
            weir_policy_free(world->subjects[t][k].policy);
        weir_table_free(world->tables[t]);
    }
}

static void override(struct world *world, size_t t, size_t k, const char *limits, int64_t now)
{
    struct subject *subject = &world->subjects[t][k];
    struct weir_policy *next = weir_policy_idle(limits, NULL);
    int64_t to[32];
    CHECK(
        weir_table_override_at(world->tables[t], now, world->keys[k], strlen(world->keys[k]), limits, NULL));
    if (!subject->own && weir_state_idle_from(subject->policy, subject->state) <= now)
        weir_state_init(next, to, now);
    else
        weir_state_change(subject->policy, subject->state, next, to, now);
    memcpy(subject->state, to, sizeof to);
    weir_policy_free(subject->policy);
    subject->policy = next;
    subject->own = true;
}

struct choice {
    size_t table, key;
    int64_t n;
};

/* What the ask is told: the verdict of its key for the units of all asks for it. */
static bool model_ask(struct world *world, const struct choice *choices, size_t count, size_t i, bool charge,
                      int64_t now, struct weir_verdict *verdict)
{
    struct subject *subject = &world->subjects[choices[i].table][choices[i].key];
    int64_t n = 0;
    for (size_t j = 0; j < count; j++)
        if (choices[j].table == choices[i].table && choices[j].key == choices[i].key)
            n += choices[j].n;
    return charge ? weir_state_take(subject->policy, subject->state, now, n, verdict)
                  : weir_state_peek(subject->policy, subject->state, now, n, verdict);
}

static bool is_repeated(const struct choice *choices, size_t i, size_t *of)
{
    for (*of = 0; *of < i; ++*of)
        if (choices[*of].table == choices[i].table && choices[*of].key == choices[i].key)
            return true;
    return false;
}

static bool model_all(struct world *world, const struct choice *choices, size_t count, int64_t now,
                      struct weir_verdict *verdicts)
{
    bool allowed = true;
    size_t of;
    for (size_t i = 0; i < count; i++)
        if (!model_ask(world, choices, count, i, false, now, &verdicts[i]))
            allowed = false;
    for (size_t i = 0; i < count; i++) {
        if (allowed && is_repeated(choices, i, &of))
            verdicts[i] = verdicts[of];
        else if (allowed)
            (void)model_ask(world, choices, count, i, true, now, &verdicts[i]);
        verdicts[i].allowed = allowed;
    }
    return allowed;
}

static void check_same(const struct weir_verdict *got, const struct weir_verdict *want)
{
    CHECK_EQ(got->allowed, want->allowed);
    CHECK_EQ(got->reason, want->reason);
    CHECK_EQ(got->remaining, want->remaining);
    CHECK_EQ(got->retry_after_ns, want->retry_after_ns);
    CHECK_EQ(got->reset_after_ns, want->reset_after_ns);
    CHECK_EQ(got->limit, want->limit);
}

static void ask_together(struct world *world, struct rng *rng, int64_t now, int *passed)
{
    struct choice choices[WEIR_ALL_MAX];
    struct weir_ask asks[WEIR_ALL_MAX];
    struct weir_verdict verdicts[WEIR_ALL_MAX];
    size_t count = (size_t)rng_magnitude(rng, WEIR_ALL_MAX);
    for (size_t i = 0; i < count; i++) {
        choices[i] = (struct choice){(size_t)rng_between(rng, 0, TABLES - 1),
                                     (size_t)rng_between(rng, 0, KEYS - 1), 1 + rng_magnitude(rng, 8)};
        asks[i] = ask_for(world->tables[choices[i].table], world->keys[choices[i].key], choices[i].n);
    }
    bool want = model_all(world, choices, count, now, verdicts);
    CHECK_EQ(weir_take_all_at(asks, count, now), want);
    for (size_t i = 0; i < count; i++)
        check_same(&asks[i].verdict, &verdicts[i]);
    CHECK_EQ(weir_ask_refusing(asks, count) == count, want);
    *passed += want && count > 1;
}

static void ask_alone(struct world *world, struct rng *rng, int64_t now)
{
    size_t t = (size_t)rng_between(rng, 0, TABLES - 1), k = (size_t)rng_between(rng, 0, KEYS - 1);
    struct subject *subject = &world->subjects[t][k];
    struct weir_verdict got, want;
    int64_t n = rng_between(rng, 1, 4);
    (void)weir_table_take_at(world->tables[t], now, world->keys[k], strlen(world->keys[k]), n, &got);
    (void)weir_state_take(subject->policy, subject->state, now, n, &want);
    check_same(&got, &want);
}

TEST(random_asks_of_all_kinds_of_tables_pass_together_or_not_at_all)
{
    static const char *const limits[] = {"100/s", "5/s algo=sliding-window", "unlimited", "3/s, 20/m"};
    struct rng rng = rng_new(1);
    struct world world;
    int passed = 0;
    int64_t now = START;
    begin(&world);
    for (int i = 0; i < 20000; i++) {
        now += rng_magnitude(&rng, 2 * WEIR_SEC);
        int64_t what = rng_between(&rng, 0, 99);
        if (what == 0)
            override(&world, (size_t)rng_between(&rng, 0, TABLES - 1), (size_t)rng_between(&rng, 0, KEYS - 1),
                     limits[rng_between(&rng, 0, 3)], now);
        else if (what < 40)
            ask_alone(&world, &rng, now);
        else
            ask_together(&world, &rng, now, &passed);
    }
    CHECK(passed > 500);
    end(&world);
}

/* ---- stories ---- */

TEST(a_refusal_charges_nobody_and_says_why)
{
    struct weir_table *users = make("10/s", (struct weir_table_options){.keys = 100});
    struct weir_table *tenants = make("100/s, 200/m", (struct weir_table_options){.keys = 100});
    CHECK(take(users, START, "poor", 8));
    struct weir_ask asks[] = {ask_for(tenants, "t", 5), ask_for(users, "poor", 5), ask_for(users, "rich", 5),
                              ask_for(users, "poorer", 20)};
    for (int i = 0; i < 3; i++) {
        CHECK(!weir_take_all_at(asks, 4, START));
        for (int j = 0; j < 4; j++)
            CHECK_EQ(asks[j].verdict.allowed, 0);
    }
    CHECK_EQ(asks[0].verdict.reason, WEIR_OK);
    CHECK_EQ(asks[1].verdict.reason, WEIR_LATER);
    CHECK_EQ(asks[1].verdict.retry_after_ns, 300 * WEIR_MS);
    CHECK_EQ(asks[2].verdict.reason, WEIR_OK);
    CHECK_EQ(asks[3].verdict.reason, WEIR_NEVER);
    CHECK_EQ(weir_ask_refusing(asks, 4), 3);
    CHECK_EQ(weir_ask_refusing(asks, 3), 1);
    CHECK_EQ(weir_ask_refusing(asks, 1), 1);
    CHECK_EQ(remaining(tenants, START, "t"), 100);
    CHECK_EQ(remaining(users, START, "rich"), 10);
    struct weir_table_info stat;
    weir_table_stat_at(users, START, &stat);
    CHECK_EQ(stat.keys, 1); /* nor did anybody come in */
    CHECK(weir_take_all_at(asks, 3, START + 300 * WEIR_MS));
    CHECK_EQ(weir_ask_refusing(asks, 3), 3);
    CHECK_EQ(remaining(tenants, START + 300 * WEIR_MS, "t"), 95);
    CHECK_EQ(remaining(users, START + 300 * WEIR_MS, "rich"), 5);
    CHECK_EQ(remaining(users, START + 300 * WEIR_MS, "poor"), 0);
    weir_table_free(users);
    weir_table_free(tenants);
}

TEST(the_same_key_twice_counts_together)
{
    static const char *const limits[] = {"10/s", "10/s, 100/m"};
    for (size_t l = 0; l < 2; l++) {
        struct weir_table *table = make(limits[l], (struct weir_table_options){.keys = 100});
        struct weir_ask asks[] = {ask_for(table, "a", 6), ask_for(table, "b", 1), ask_for(table, "a", 5)};
        CHECK(!weir_take_all_at(asks, 3, START));
        CHECK_EQ(asks[0].verdict.reason, WEIR_NEVER);
        CHECK_EQ(asks[2].verdict.reason, WEIR_NEVER);
        asks[2].n = 4;
        CHECK(weir_take_all_at(asks, 3, START));
        CHECK_EQ(asks[0].verdict.remaining, 0);
        CHECK_EQ(asks[2].verdict.remaining, 0);
        CHECK_EQ(asks[1].verdict.remaining, 9);
        asks[0].n = asks[2].n = INT64_MAX;
        CHECK(!weir_take_all_at(asks, 3, START));
        weir_table_free(table);
    }
}

TEST(a_promise_is_not_overtaken)
{
    struct weir_table *table = make("1/s", (struct weir_table_options){.keys = 100});
    struct weir_ask asks[] = {ask_for(table, "a", 1), ask_for(table, "b", 1)};
    struct weir_reservation reservation;
    CHECK(take(table, START, "a", 1));
    CHECK(weir_table_reserve_at(table, START, "a", 1, 1, WEIR_FOREVER, &reservation, NULL));
    CHECK(!weir_take_all_at(asks, 2, START + WEIR_SEC / 2));
    CHECK(weir_table_cancel_at(table, START + WEIR_SEC / 2, "a", 1, &reservation)); /* still the same word */
    CHECK(weir_take_all_at(asks, 2, START + WEIR_SEC));
    weir_table_free(table);
}

TEST(asks_without_sense_are_invalid)
{
    struct weir_table *table = make("10/s", (struct weir_table_options){.keys = 100});
    struct weir_table *own = make(NULL, (struct weir_table_options){.keys = 100, .own_limits = 1});
    struct weir_ask many[WEIR_ALL_MAX + 1];
    for (size_t i = 0; i < WEIR_ALL_MAX + 1; i++)
        many[i] = ask_for(table, "a", 1);
    CHECK(weir_take_all_at(NULL, 0, START));
    CHECK(!weir_take_all_at(NULL, 1, START));
    CHECK(!weir_take_all_at(many, WEIR_ALL_MAX + 1, START));
    CHECK_EQ(many[0].verdict.reason, WEIR_INVALID);
    CHECK_EQ(many[WEIR_ALL_MAX].verdict.reason, WEIR_INVALID);
    struct weir_ask bad[] = {ask_for(own, "a", 1), ask_for(NULL, "a", 1), ask_for(table, "a", 0),
                             ask_for(table, "a", -1), ask_for(table, "a", 1)};
    bad[4].key = NULL;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct weir_ask asks[] = {ask_for(table, "a", 1), bad[i], ask_for(table, "b", 11)};
        CHECK(!weir_take_all_at(asks, 3, START));
        CHECK_EQ(asks[0].verdict.reason, WEIR_OK);
        CHECK_EQ(asks[1].verdict.reason, WEIR_INVALID);
        CHECK_EQ(asks[2].verdict.reason, WEIR_NEVER);
        CHECK_EQ(weir_ask_refusing(asks, 2), 1);
    }
    CHECK_EQ(remaining(table, START, "a"), 10);
    weir_table_free(table);
    weir_table_free(own);
}

/* ---- no room ---- */

static const char *const slow[] = {"10/h", "10/h, 100/d"};

static struct weir_table *full_table(size_t l, int32_t when_full)
{
    struct weir_table *table = make(slow[l], (struct weir_table_options){.keys = 4, .when_full = when_full});
    char key[32];
    struct weir_table_info stat = {0};
    for (int i = 0; i < 1000 && stat.shared + stat.refused == 0; i++) {
        (void)snprintf(key, sizeof key, "full %d", i);
        (void)take(table, START, key, 10);
        weir_table_stat_at(table, START, &stat);
    }
    CHECK_EQ(stat.shared + stat.refused, 1); /* what is shared is used up */
    return table;
}

TEST(keys_without_room_share_also_here)
{
    for (size_t l = 0; l < 2; l++) {
        struct weir_table *table = full_table(l, WEIR_FULL_SHARE);
        struct weir_ask asks[] = {ask_for(table, "full 0", 3), ask_for(table, "new", 2),
                                  ask_for(table, "newer", 1)};
        CHECK(!weir_take_all_at(asks, 3, START));
        CHECK_EQ(asks[1].verdict.reason, WEIR_SHARED);
        int64_t later = START + 3 * 360 * WEIR_SEC - 1; /* nearly three units */
        CHECK(!weir_take_all_at(asks, 3, later));
        CHECK(weir_take_all_at(asks, 3, later + 1));
        CHECK(!take(table, later + 1, "newest", 1));
        CHECK_EQ(asks[1].verdict.remaining, 0);
        CHECK_EQ(asks[2].verdict.remaining, 0);
        struct weir_table_info stat;
        weir_table_stat_at(table, later, &stat);
        CHECK(stat.shared >= 3);
        weir_table_free(table);
    }
}

TEST(keys_without_room_are_refused_if_the_table_says_so)
{
    for (size_t l = 0; l < 2; l++) {
        struct weir_table *table = full_table(l, WEIR_FULL_REFUSE);
        struct weir_ask asks[] = {ask_for(table, "full 0", 1), ask_for(table, "new", 1)};
        int64_t later = START + WEIR_SEC * 1800, before = remaining(table, later, "full 0");
        CHECK(!weir_take_all_at(asks, 2, later));
        CHECK_EQ(asks[0].verdict.reason, WEIR_OK);
        CHECK_EQ(asks[1].verdict.reason, WEIR_FULL);
        CHECK_EQ(remaining(table, later, "full 0"), before);
        CHECK_EQ(before, 5);
        weir_table_free(table);
    }
}

/* In a table that is nearly full of keys that could be forgotten, new ones take their places; not those that
 * are asked for at the same time. */
TEST(nobody_loses_his_place_to_another_ask)
{
    static const char *const limits[] = {"3/s", "3/s, 100/m"};
    struct rng rng = rng_new(2);
    for (size_t l = 0; l < 2; l++) {
        struct weir_table *table = make(limits[l], (struct weir_table_options){.keys = 4});
        int64_t now = START;
        for (int round = 0; round < 500; round++) {
            char keys[5][32];
            struct weir_ask asks[5];
            int64_t first = rng_between(&rng, 0, 30);
            now += 10 * WEIR_SEC;
            for (int i = 0; i < 5; i++) {
                (void)snprintf(keys[i], sizeof keys[i], "%d", (int)(first + i * 3) % 31);
                asks[i] = ask_for(table, keys[i], 3);
            }
            CHECK(weir_take_all_at(asks, 5, now));
            for (int i = 0; i < 5; i++)
                CHECK(!take(table, now, keys[i], 1));
        }
        weir_table_free(table);
    }
}

/* ---- files ---- */

static bool copy_file(const char *from, const char *to)
{
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    char bytes[4096];
    size_t got;
    while (in && out && (got = fread(bytes, 1, sizeof bytes, in)) > 0)
        if (fwrite(bytes, 1, got, out) != got)
            return false;
    return in && out && fclose(in) == 0 && fclose(out) == 0;
}

TEST(a_file_opened_twice_is_one_table_and_a_copy_is_another)
{
    char path[64], copy[80];
    (void)snprintf(path, sizeof path, "%s/weir-all-XXXXXX", access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
    int file = mkstemp(path);
    CHECK(file >= 0 && close(file) == 0 && unlink(path) == 0);
    (void)snprintf(copy, sizeof copy, "%s.copy", path);
    struct weir_table *one = weir_table_open(path, "10/s", 100, NULL);
    struct weir_table *same = weir_table_open(path, "10/s", 100, NULL);
    int64_t now = weir_now();
    CHECK(copy_file(path, copy));
    struct weir_table *other = weir_table_open(copy, "10/s", 100, NULL);
    if (CHECK(one && same && other)) {
        struct weir_ask asks[] = {ask_for(same, "a", 5), ask_for(other, "a", 5), ask_for(one, "a", 6)};
        CHECK(!weir_take_all_at(asks, 3, now));
        asks[2].n = 4;
        CHECK(weir_take_all_at(asks, 3, now));
        CHECK_EQ(remaining(one, now, "a"), 1);
        CHECK_EQ(remaining(same, now, "a"), 1);
        CHECK_EQ(remaining(other, now, "a"), 5);
    }
    weir_table_free(one);
    weir_table_free(same);
    weir_table_free(other);
    (void)unlink(path);
    (void)unlink(copy);
}
