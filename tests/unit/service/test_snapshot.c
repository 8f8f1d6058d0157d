/* SPDX-License-Identifier: MIT */
#include "check.h"
#include "service/policies/snapshot.h"
#include "unit/service/service_kit.h"

static struct slice slice(const char *text)
{
    return (struct slice){text, strlen(text)};
}

static struct snapshot *empty(void)
{
    return calloc(1, sizeof(struct snapshot));
}

TEST(policies_are_found_by_name)
{
    struct snapshot *snapshot = empty();
    char name[32];
    if (!CHECK(snapshot))
        return;
    for (int i = 0; i < 300; i++) {
        (void)snprintf(name, sizeof name, "policy-%d", i * 7919 % 300);
        CHECK(weir_snapshot_put(snapshot, name, weir_policy_make(name, 1)));
    }
    CHECK(weir_snapshot_seal(snapshot));
    CHECK_EQ(snapshot->policy_count, 300);
    for (int i = 0; i < 300; i++) {
        (void)snprintf(name, sizeof name, "policy-%d", i);
        struct policy *policy = weir_snapshot_policy(snapshot, slice(name));
        CHECK(policy && strcmp(policy->name, name) == 0);
        CHECK(i == 0 || strcmp(snapshot->policies[i - 1]->name, snapshot->policies[i]->name) < 0);
    }
    CHECK(weir_snapshot_policy(snapshot, slice("policy-300")) == NULL);
    CHECK(weir_snapshot_policy(snapshot, slice("policy-")) == NULL);
    CHECK(weir_snapshot_policy(snapshot, slice("")) == NULL);
    CHECK(weir_snapshot_policy(snapshot, (struct slice){"policy-1\0", 9}) == NULL);
    for (int i = 0; i < 300; i++) { /* zeros behind a name are part of the word */
        char longer[CONFIG_NAME_MAX] = "";
        (void)snprintf(longer, sizeof longer, "policy-%d", i);
        for (size_t len = strlen(longer) + 1; len <= sizeof longer; len++)
            CHECK(weir_snapshot_policy(snapshot, (struct slice){longer, len}) == NULL);
    }
    CHECK(weir_snapshot_policy(
              snapshot, slice("a name that is longer than any policy's name can ever be, so")) == NULL);
    weir_snapshot_free(snapshot);
}

TEST(put_replaces_and_removes)
{
    struct snapshot *snapshot = empty();
    if (!CHECK(snapshot))
        return;
    struct policy *first = weir_policy_make("b", 1), *second = weir_policy_make("b", 1);
    CHECK(weir_snapshot_put(snapshot, "b", first));
    CHECK(weir_snapshot_put(snapshot, "c", weir_policy_make("c", 1)));
    CHECK(weir_snapshot_put(snapshot, "a", weir_policy_make("a", 1)));
    CHECK(weir_snapshot_put(snapshot, "b", second));
    CHECK_EQ(snapshot->policy_count, 3);
    CHECK(snapshot->policies[1] == second);
    CHECK(weir_snapshot_put(snapshot, "a", NULL));
    CHECK(weir_snapshot_put(snapshot, "nobody", NULL));
    CHECK_EQ(snapshot->policy_count, 2);
    CHECK_STR(snapshot->policies[0]->name, "b");
    CHECK_STR(snapshot->policies[1]->name, "c");
    weir_snapshot_free(snapshot);
}

TEST(policy_tables_are_found_by_serial)
{
    struct snapshot *snapshot = empty();
    struct policy *policy = weir_policy_make("a", 1);
    if (!CHECK(snapshot && policy))
        return;
    policy->previous = weir_policy_table_new("1/s", 10, WEIR_FULL_SHARE, false, 0, NULL);
    policy->main = weir_policy_table_new("2/s", 10, WEIR_FULL_SHARE, false, 0, NULL);
    policy->candidate_table = weir_policy_table_new("3/s", 10, WEIR_FULL_SHARE, false, 0, NULL);
    uint64_t last = policy->candidate_table->serial;
    CHECK(weir_snapshot_put(snapshot, "a", policy));
    CHECK(weir_snapshot_seal(snapshot));
    CHECK_EQ(snapshot->ptable_count, 3);
    CHECK(weir_snapshot_policy_table(snapshot, policy->main->serial) == policy->main);
    CHECK(weir_snapshot_policy_table(snapshot, policy->previous->serial) == policy->previous);
    CHECK(weir_snapshot_policy_table(snapshot, last) == policy->candidate_table);
    CHECK(weir_snapshot_policy_table(snapshot, last + 1) == NULL);
    CHECK(weir_snapshot_policy_table(snapshot, 0) == NULL);
    weir_snapshot_free(snapshot);
}

TEST(the_name_that_was_meant)
{
    struct snapshot *snapshot = empty();
    if (!CHECK(snapshot))
        return;
    CHECK(weir_snapshot_put(snapshot, "api", weir_policy_make("api", 1)));
    CHECK(weir_snapshot_put(snapshot, "llm-tokens", weir_policy_make("llm-tokens", 1)));
    CHECK(weir_snapshot_seal(snapshot));
    CHECK_STR(weir_snapshot_near(snapshot, slice("ap")), "api");
    CHECK_STR(weir_snapshot_near(snapshot, slice("llm_tokns")), "llm-tokens");
    CHECK(weir_snapshot_near(snapshot, slice("search")) == NULL);
    CHECK(weir_snapshot_near(snapshot, slice("xyz")) == NULL);
    weir_snapshot_free(snapshot);
}

/* ---- when a snapshot goes ---- */

static size_t retired(const struct kit *kit)
{
    size_t count = 0;
    for (const struct snapshot *snapshot = kit->service->retired; snapshot; snapshot = snapshot->retired)
        count++;
    return count;
}

static void publish(struct kit *kit)
{
    struct snapshot *next = weir_snapshot_copy(atomic_load(&kit->service->snapshot));
    CHECK(next && weir_snapshot_seal(next));
    weir_snapshot_publish(kit->service, next);
    weir_snapshot_collect(kit->service);
}

TEST(a_snapshot_stays_while_a_read_section_can_see_it)
{
    struct kit kit;
    struct service_options options = {.workers = 2, .test_clock = true};
    if (!CHECK(kit_open_with(&kit, "policies:\n  - {name: api, limits: [10/s]}\n", &options)))
        return;
    struct worker *first = &kit.service->workers[0], *second = &kit.service->workers[1];
    weir_snapshot_collect(kit.service);
    CHECK_EQ(retired(&kit), 0);
    weir_read_begin(first);
    const struct snapshot *seen = first->snapshot;
    publish(&kit);
    publish(&kit);
    CHECK_EQ(retired(&kit), 2); /* the second one, too: it was published after the read section began */
    CHECK(first->snapshot == seen);
    CHECK(weir_snapshot_policy(seen, slice("api")) != NULL);
    weir_read_begin(second);
    CHECK(second->snapshot != seen);
    weir_read_end(first);
    weir_snapshot_collect(kit.service);
    CHECK_EQ(retired(&kit), 0);
    publish(&kit);
    CHECK_EQ(retired(&kit), 1);
    weir_read_end(second);
    publish(&kit);
    CHECK_EQ(retired(&kit), 0);
    kit_close(&kit);
}
