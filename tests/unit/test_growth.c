/* SPDX-License-Identifier: MIT */
/*
 * Room for keys: tables grow when they are nearly full, as far as the budget goes, and nobody is refused who
 * could have had a place.
 */
#include "check.h"
#include "service/change.h"
#include "service/growth.h"
#include "unit/service_kit.h"

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
    CHECK_EQ(take_keys(&kit, "api", 3000, 3400), 400);
    kit_tick(&kit);
    CHECK_EQ(info_of(&kit, "api").capacity, 8 * 4096);
    CHECK_EQ(take_keys(&kit, "api", 3400, 12000), 8600);
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

/* The first ones get more room than the later ones, so that there is something left for those. */
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
        CHECK(info_of(&kit, "p0").capacity > 2 * info_of(&kit, "p199").capacity);
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

TEST(first_room_is_a_share)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, "memory: 64MiB")))
        return;
    CHECK_EQ(weir_growth_first(kit.service, "1/h", 1), (8 << 20) / 24);
    CHECK_EQ(weir_growth_first(kit.service, "1/h", 2), (4 << 20) / 24);
    CHECK_EQ(weir_growth_first(kit.service, "1/h", 1000), GROWTH_KEYS_LEAST);
    CHECK(weir_growth_first(kit.service, "1/h, 2/d", 1) < (8 << 20) / 24);
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
