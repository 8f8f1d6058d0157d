/* SPDX-License-Identifier: MIT */
/*
 * Room for keys: tables grow when they are nearly full, as far as the budget goes, and nobody is refused who
 * could have had a place.
 */
#include "check.h"
#include "service/policies/change.h"
#include "service/policies/growth.h"
#include "unit/service/service_kit.h"

static const struct policy *policy_of(struct kit *kit, const char *name)
{
    return weir_snapshot_policy(atomic_load(&kit->service->snapshot), (struct slice){name, strlen(name)});
}

static struct weir_table_info info_of(struct kit *kit, const char *name)
{
    struct weir_table_info info;
    weir_table_stat(policy_of(kit, name)->main->table, &info);
    return info;
}

/* Takes one unit for each of the keys from ... to - 1; gives how many were allowed. */
static int take_keys(struct kit *kit, const char *policy, int from, int to)
{
    int allowed = 0;
    for (int i = from; i < to; i++) {
        char line[64];
        (void)snprintf(line, sizeof line, "WEIR.TAKE %s k%d", policy, i);
        allowed += kit_field(kit_ask(kit, line), "allowed") == 1;
    }
    return allowed;
}

TEST(a_table_grows_before_it_is_full)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, "policies: [{name: api, limits: 1/h, on_full: refuse, keys: 4096}]")))
        return;
    CHECK_EQ(info_of(&kit, "api").capacity, 4096);
    CHECK_EQ(take_keys(&kit, "api", 0, 3000), 3000);
    kit_tick(&kit);
    CHECK_EQ(info_of(&kit, "api").capacity, 4096);
    CHECK_EQ(take_keys(&kit, "api", 3000, 3600), 600);
    kit_tick(&kit);
    CHECK_EQ(info_of(&kit, "api").capacity, 4 * 4096);
    CHECK(info_of(&kit, "api").slots < 6 * 4096); /* those that were before have gone */
    CHECK_EQ(take_keys(&kit, "api", 3600, 12000), 8400);
    CHECK_EQ(take_keys(&kit, "api", 0, 100), 0); /* what was spent is known */
    CHECK_EQ(info_of(&kit, "api").refused, 0);
    kit_close(&kit);
}

TEST(memory_is_counted)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, NULL)))
        return;
    int64_t before = kit.service->memory_used;
    CHECK(before > 0 && before < kit.service->memory / 2);
    int64_t keys = weir_growth_next(kit.service, "1/h");
    CHECK(kit_policy(&kit, "api", "1/h"));
    int64_t with = kit.service->memory_used;
    CHECK(with > before + keys * 23);
    CHECK(with < before + keys * 25 + (INT64_C(1) << 20));
    struct weir_error err;
    CHECK(weir_change_remove(kit.service, (struct slice){"api", 3}, false, &err));
    CHECK_EQ(kit.service->memory_used, before);
    kit_close(&kit);
}

TEST(hundreds_of_policies_fit_into_the_default_budget)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, "memory: 256MiB")))
        return;
    for (int i = 0; i < 200; i++) {
        char name[32];
        snprintf(name, sizeof name, "p%d", i);
        if (!CHECK(kit_policy(&kit, name, "1/h")))
            break;
    }
    CHECK(kit.service->memory_used <= kit.service->memory);
    if (check.faults == 0)
        CHECK(info_of(&kit, "p0").capacity >= info_of(&kit, "p199").capacity);
    kit_close(&kit);
}

TEST(the_budget_is_not_exceeded)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, "memory: 8MiB\npolicies: [{name: api, limits: 1/h, keys: 4096}]")))
        return;
    int from = 0;
    for (int round = 0; round < 40; round++) {
        (void)take_keys(&kit, "api", from, from + 8000);
        from += 8000;
        kit_tick(&kit);
        if (!CHECK(kit.service->memory_used <= kit.service->memory + (64 << 10)))
            break;
    }
    struct weir_table_info info = info_of(&kit, "api");
    CHECK(info.capacity > 100000 && info.capacity < 320000);
    CHECK(policy_of(&kit, "api")->main->room.warned_full);
    kit_close(&kit);
}

TEST(more_policies_than_the_budget_holds_are_refused)
{
    struct kit kit;
    struct weir_error err = {0};
    char name[16];
    int made = 0;
    if (!CHECK(kit_open(&kit, "memory: 8MiB")))
        return;
    for (; made < 1000; made++) {
        (void)snprintf(name, sizeof name, "p%d", made);
        if (!weir_change_policy(kit.service, (struct slice){name, strlen(name)}, "1/h", false, &err))
            break;
    }
    CHECK(made >= 5 && made < 100);
    CHECK(strstr(err.text, "raise memory:") != NULL);
    CHECK(kit.service->memory_used <= kit.service->memory);
    CHECK_EQ(take_keys(&kit, "p0", 0, 10), 10); /* the others go on */
    kit_close(&kit);
}

/* As after a start with less memory:, and keys: that did not fit. */
TEST(a_mode_needs_no_memory)
{
    struct kit kit;
    struct weir_error err = {0};
    struct slice api = {"api", 3};
    if (!CHECK(kit_open(&kit, "policies: [{name: api, limits: 1/h, keys: 4096}]")))
        return;
    ((struct policy *)(uintptr_t)policy_of(&kit, "api"))->keys_asked = 8192;
    kit.service->memory = 1;
    CHECK(weir_change_mode(kit.service, api, MODE_DISABLED, 100, 0, &err));
    CHECK(weir_change_mode(kit.service, (struct slice){"*", 1}, MODE_DISABLED, 100, 0, &err));
    CHECK_EQ(info_of(&kit, "api").capacity, 4096);
    CHECK(!weir_change_policy(kit.service, (struct slice){"b", 1}, "1/h", false, &err));
    CHECK(weir_change_policy(kit.service, api, "2/h", false, &err)); /* no more than before */
    kit_close(&kit);
}

TEST(first_room_is_a_share)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, "memory: 64MiB")))
        return;
    CHECK_EQ(weir_growth_first(kit.service, "1/h", 40), (8 << 20) / 40 / 24);
    CHECK_EQ(weir_growth_first(kit.service, "1/h", 80), (8 << 20) / 80 / 24);
    CHECK_EQ(weir_growth_first(kit.service, "1/h", 1000), GROWTH_KEYS_LEAST);
    CHECK(weir_growth_first(kit.service, "1/h, 2/d", 40) < (8 << 20) / 40 / 24);
    kit.service->memory = INT64_C(1) << 40;
    CHECK_EQ(weir_growth_first(kit.service, "1/h", 1), GROWTH_KEYS_MOST);
    kit.service->memory = 64 << 20;
    kit_close(&kit);
}

TEST(keys_that_are_back_from_a_change_find_room)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, "memory: 64MiB\npolicies: [{name: api, limits: 1/h, keys: 40000}]")))
        return;
    CHECK_EQ(take_keys(&kit, "api", 0, 30000), 30000);
    CHECK(kit_policy(&kit, "api", "1/h algo=fixed-window"));
    CHECK(info_of(&kit, "api").capacity >= 30000);
    CHECK_EQ(take_keys(&kit, "api", 0, 100), 0);
    kit_close(&kit);
}

TEST(forgotten_keys_are_swept_and_rates_measured)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, "policies: [{name: api, limits: 1/s, keys: 4096}]")))
        return;
    CHECK_EQ(take_keys(&kit, "api", 0, 2000), 2000);
    kit_clock(&kit, 1000);
    kit_tick(&kit);
    CHECK_EQ(kit.service->ops_per_second, 2000);
    kit_clock(&kit, 2000);
    kit_tick(&kit);
    CHECK_EQ(kit.service->ops_per_second, 0);
    kit_clock(&kit, 100000);
    kit_tick(&kit);
    kit_tick(&kit);
    CHECK_EQ(weir_table_sweep(policy_of(&kit, "api")->main->table, 100000), 0); /* nothing is left of them */
    kit_close(&kit);
}

/* ---- the growth thread ---- */

#define FLOOD 60000

/* Keys wait for as long as it takes: a busy machine may keep the thread from running for longer than they
 * otherwise do. */
static bool start_patient(struct kit *kit)
{
    kit->service->growth.wait_ns = 600 * WEIR_SEC;
    return weir_growth_start(kit->service);
}

static int allowed_by_table(struct weir_table *table, uint64_t from, uint64_t to)
{
    int allowed = 0;
    for (uint64_t key = from; key < to; key++)
        allowed += weir_table_take(table, &key, sizeof key, 1, NULL);
    return allowed;
}

/* Nobody calls the tick. A key that comes before there is room for it waits. */
TEST(a_flood_of_new_keys_finds_room)
{
    static const char *const limits[] = {"1/h", "1/h, 2/d"};
    for (size_t i = 0; i < 2; i++) {
        struct kit kit;
        char text[128];
        (void)snprintf(text, sizeof text, "memory: 64MiB\npolicies: [{name: api, limits: '%s', keys: 64}]",
                       limits[i]);
        if (!CHECK(kit_open(&kit, text)))
            return;
        CHECK(start_patient(&kit));
        struct weir_table *table = policy_of(&kit, "api")->main->table;
        CHECK_EQ(allowed_by_table(table, 0, FLOOD), FLOOD);
        CHECK_EQ(allowed_by_table(table, 0, FLOOD), 0);
        weir_growth_stop(kit.service);
        struct weir_table_info info = info_of(&kit, "api");
        CHECK_EQ(info.shared + info.refused, 0);
        CHECK(info.capacity < 4 * FLOOD);
        kit_close(&kit);
    }
}

TEST(several_keys_at_once_find_room)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, "memory: 64MiB\npolicies: [{name: a, limits: 1/h, keys: 64}, "
                              "{name: b, limits: '1/h, 2/d', keys: 64}]")))
        return;
    CHECK(start_patient(&kit));
    struct weir_table *a = policy_of(&kit, "a")->main->table, *b = policy_of(&kit, "b")->main->table;
    int allowed = 0;
    for (uint64_t key = 0; key < FLOOD / 6; key++) {
        struct weir_ask asks[2] = {{.table = a, .key = &key, .len = sizeof key, .n = 1},
                                   {.table = b, .key = &key, .len = sizeof key, .n = 1}};
        allowed += weir_take_all(asks, 2);
    }
    CHECK_EQ(allowed, FLOOD / 6);
    weir_growth_stop(kit.service);
    CHECK_EQ(info_of(&kit, "a").shared + info_of(&kit, "b").shared, 0);
    kit_close(&kit);
}

/* As on a machine so busy that the thread does not run. */
TEST(keys_do_not_wait_for_ever_for_a_thread_that_does_not_come)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, "memory: 64MiB\npolicies: [{name: api, limits: 1/h, keys: 64}]")))
        return;
    struct growth *growth = &kit.service->growth;
    growth->runs = true;
    growth->wait_ns = WEIR_MS;
    weir_growth_serve(kit.service, atomic_load(&kit.service->snapshot));
    struct weir_table *table = policy_of(&kit, "api")->main->table;
    int allowed = allowed_by_table(table, 0, 1000);
    CHECK(allowed >= 64 && allowed < 1000);
    CHECK_EQ(info_of(&kit, "api").shared, 1000 - allowed + 1); /* one passed by what they share */
    growth->runs = false;
    kit_tick(&kit);
    CHECK_EQ(allowed_by_table(table, 1000, 1100), 100);
    kit_close(&kit);
}

/* ---- after an overflow ---- */

static uint64_t shared_by(const struct weir_table *table)
{
    return atom_load(&table->region->header->shared, memory_order_relaxed);
}

/* Those who took from what keys without room share have spent it; nobody else has. */
TEST(only_keys_that_shared_start_from_what_is_shared)
{
    static const char *const limits[] = {"2/h", "2/h, 100/d"};
    for (size_t i = 0; i < 2; i++) {
        struct kit kit;
        char text[128];
        (void)snprintf(text, sizeof text, "memory: 64MiB\npolicies: [{name: api, limits: '%s', keys: 4096}]",
                       limits[i]);
        if (!CHECK(kit_open(&kit, text)))
            return;
        struct weir_table *table = policy_of(&kit, "api")->main->table;
        uint64_t key = 0, shared[256], sharers = 0;
        while (shared_by(table) == 0 || sharers < 2) { /* until all is taken from what is shared */
            uint64_t before = shared_by(table);
            bool passed = allowed_by_table(table, key, key + 1) == 1;
            if (passed && shared_by(table) > before && sharers < 256)
                shared[sharers++] = key;
            if (!CHECK(++key < 100000))
                break;
        }
        struct weir_verdict verdict;
        uint64_t next = key;
        while (weir_table_take(table, &next, sizeof next, 1, &verdict) && next < 100000)
            next++;
        CHECK_EQ(verdict.reason, WEIR_SHARED);
        CHECK_STR(weir_reason_name(verdict.reason), "shared");
        kit_tick(&kit); /* it grows */
        CHECK_EQ(allowed_by_table(table, next, next + 100), 100);
        for (uint64_t s = 0; s < sharers; s++) {
            (void)allowed_by_table(table, shared[s], shared[s] + 1); /* at most what was left there */
            CHECK_EQ(allowed_by_table(table, shared[s], shared[s] + 1), 0);
        }
        kit_close(&kit);
    }
}

TEST(explain_does_not_charge_a_key_with_what_others_shared)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, "memory: 8MiB\npolicies: [{name: api, limits: 10/h, keys: 64}]")))
        return;
    struct weir_table *table = policy_of(&kit, "api")->main->table;
    uint64_t key = 0;
    while (shared_by(table) < 50)
        (void)allowed_by_table(table, key, key + 1), key++;
    const char *text = kit_ask(&kit, "WEIR.EXPLAIN api stranger");
    CHECK(strstr(text, "used 0") != NULL);
    CHECK(strstr(text, "all keys share that find no room") != NULL);
    CHECK(strstr(kit_ask(&kit, "WEIR.EXPLAIN api stranger JSON"), "\"reason\":\"shared\"") != NULL);
    CHECK_STR(kit_text(kit_ask(&kit, "WEIR.TAKE api stranger"), "reason"), "shared");
    kit_close(&kit);
}

/* ---- one policy's part ---- */

TEST(one_policy_does_not_take_the_room_of_others)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, "memory: 16MiB\npolicies: [{name: loud, limits: 1/h, keys: 4096}, "
                              "{name: calm, limits: 1/h, keys: 4096}]")))
        return;
    struct weir_table *loud = policy_of(&kit, "loud")->main->table;
    for (uint64_t round = 0; round < 30; round++) {
        (void)allowed_by_table(loud, round * 20000, (round + 1) * 20000);
        kit_tick(&kit);
    }
    int64_t for_policies = kit.service->memory - weir_growth_total(kit.service, NULL);
    CHECK(policy_of(&kit, "loud")->main->bytes <= for_policies / 2 + (64 << 10));
    CHECK(policy_of(&kit, "loud")->main->room.warned_full);
    struct weir_table *calm = policy_of(&kit, "calm")->main->table;
    for (uint64_t round = 0; round < 15; round++) { /* 60 000 users of the other one */
        CHECK_EQ(allowed_by_table(calm, round * 4000, (round + 1) * 4000), 4000);
        kit_tick(&kit);
    }
    kit_close(&kit);
}

/* A table whose keys are idle is cleared instead. */
TEST(a_table_does_not_grow_for_keys_that_may_be_forgotten)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, "policies: [{name: api, limits: 1/s, keys: 40000}]")))
        return;
    struct weir_table *table = policy_of(&kit, "api")->main->table;
    for (uint64_t round = 0; round < 6; round++) {
        kit_clock(&kit, 2000 * (int64_t)(round + 1));
        CHECK_EQ(allowed_by_table(table, round * 20000, (round + 1) * 20000), 20000);
        kit_tick(&kit);
    }
    CHECK_EQ(info_of(&kit, "api").capacity, 40000);
    kit_close(&kit);
}
