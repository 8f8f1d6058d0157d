/* SPDX-License-Identifier: MIT */
/*
 * Changes by command: what was spent stays spent whatever the limits become, modes and overrides end by
 * themselves, and what fails changes nothing.
 */
#include "check.h"
#include "os/boot.h"
#include "service/policies/snapshot.h"
#include "unit/failing_memory.h"
#include "unit/service/change_kit.h"

static bool set(struct kit *kit, const char *limits)
{
    return kit_policy(kit, "api", limits);
}

static bool set_fresh(struct kit *kit, const char *limits)
{
    struct weir_error err;
    return weir_change_policy(kit->service, word("api"), limits, true, &err);
}

static bool override(struct kit *kit, const char *key, const char *limits, int64_t for_ns,
                     struct weir_error *err)
{
    return weir_change_override(kit->service, word("api"), word(key), limits, for_ns, word("because"), err);
}

/* ---- limits ---- */

TEST(a_new_policy_decides_at_once)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, NULL)))
        return;
    CHECK(set(&kit, "2/m"));
    CHECK(take(&kit, "api", "k", 2));
    CHECK(!take(&kit, "api", "k", 1));
    const struct policy *policy = policy_of(&kit, "api");
    CHECK_STR(policy->limits, "2/m");
    CHECK(!policy->from_file && !policy->previous && policy->mode == MODE_ENFORCE);
    CHECK_EQ(policy->settings.ids_ns, 300 * WEIR_SEC);
    kit_close(&kit);
}

TEST(what_cannot_be_read_says_so_and_changes_nothing)
{
    struct kit kit;
    struct weir_error err;
    if (!CHECK(kit_open(&kit, NULL)))
        return;
    CHECK(!weir_change_policy(kit.service, word("api"), "5/m brust=10", false, &err));
    CHECK_STR(err.text, "5/m brust=10: column 5: unknown option 'brust'; did you mean burst?");
    CHECK(!weir_change_policy(kit.service, word("a b"), "5/m", false, &err));
    CHECK(!weir_change_policy(kit.service, word(""), "5/m", false, &err));
    CHECK(!weir_change_remove(kit.service, word("api"), false, &err));
    CHECK(set(&kit, "5/m"));
    CHECK(!weir_change_remove(kit.service, word("ap"), false, &err));
    CHECK_STR(err.text, "no policy 'ap'; did you mean 'api'? (WEIR.POLICY LIST)");
    CHECK(!weir_change_policy(kit.service, word("api"), "5", false, &err));
    CHECK_STR(policy_of(&kit, "api")->limits, "5/m");
    kit_close(&kit);
}

TEST(the_same_algorithm_keeps_what_was_spent)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, NULL)) || !CHECK(set(&kit, "10/m")))
        return;
    uint64_t serial = policy_of(&kit, "api")->main->serial;
    CHECK(take(&kit, "api", "k", 8));
    CHECK(set(&kit, "20/m"));
    CHECK_EQ(left(&kit, "api", "k"), 2); /* a larger burst has to fill first */
    CHECK_EQ(left(&kit, "api", "new"), 20);
    kit_clock(&kit, 3000);
    CHECK_EQ(left(&kit, "api", "k"), 3);
    CHECK(set(&kit, "4/m"));
    CHECK_EQ(left(&kit, "api", "k"), 3);
    CHECK_EQ(policy_of(&kit, "api")->main->serial, serial);
    CHECK_STR(policy_of(&kit, "api")->labels->text[0], "4/m");
    CHECK(!policy_of(&kit, "api")->previous);
    kit_close(&kit);
}

TEST(another_algorithm_must_agree_with_the_old_one_until_that_has_forgotten)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, NULL)) || !CHECK(set(&kit, "5/m algo=sliding-log")))
        return;
    CHECK(take(&kit, "api", "k", 5));
    CHECK(set(&kit, "100/s"));
    CHECK(!take(&kit, "api", "k", 1));
    CHECK(take(&kit, "api", "other", 5));  /* one that has spent nothing */
    CHECK(!take(&kit, "api", "other", 1)); /* is still held by both */
    CHECK(policy_of(&kit, "api")->previous != NULL);
    CHECK_EQ(policy_previous_ends(policy_of(&kit, "api")), 60 * WEIR_SEC);
    kit_clock(&kit, 60001);
    CHECK(take(&kit, "api", "k", 100));
    kit_tick(&kit);
    CHECK(!policy_of(&kit, "api")->previous);
    kit_close(&kit);
}

TEST(back_to_the_kind_of_before_counts_on)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, NULL)) || !CHECK(set(&kit, "10/h")))
        return;
    uint64_t serial = policy_of(&kit, "api")->main->serial;
    CHECK(take(&kit, "api", "k", 4));
    CHECK(set(&kit, "100/d algo=sliding-window"));
    CHECK(take(&kit, "api", "k", 3));
    CHECK(set(&kit, "12/h"));
    CHECK_EQ(policy_of(&kit, "api")->main->serial, serial);
    CHECK_EQ(left(&kit, "api", "k"), 3);
    CHECK(policy_of(&kit, "api")->previous != NULL);
    kit_close(&kit);
}

TEST(fresh_forgets_and_unlimited_waits_for_nothing)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, NULL)) || !CHECK(set(&kit, "1/h")))
        return;
    CHECK(take(&kit, "api", "k", 1));
    CHECK(set_fresh(&kit, "1/h"));
    CHECK(take(&kit, "api", "k", 1));
    CHECK(!take(&kit, "api", "k", 1));
    CHECK(set(&kit, "unlimited"));
    CHECK(take(&kit, "api", "k", 1000000));
    CHECK(!policy_of(&kit, "api")->previous);
    kit_close(&kit);
}

/* The second detour would begin with whole bursts, and nobody would know what was spent. */
TEST(a_third_kind_of_limits_has_to_wait)
{
    struct kit kit;
    struct weir_error err;
    if (!CHECK(kit_open(&kit, NULL)) || !CHECK(set(&kit, "5/m")))
        return;
    CHECK(take(&kit, "api", "k", 5));
    CHECK(set(&kit, "5/m algo=sliding-log"));
    CHECK(!weir_change_policy(kit.service, (struct slice){"api", 3}, "5/m algo=fixed-window", false, &err));
    CHECK_STR(err.text,
              "policy 'api' changed the kind of its limits just before, which is remembered for 61 s "
              "more; try again then, or write FRESH behind WEIR.POLICY SET to forget what was spent");
    CHECK(!take(&kit, "api", "k", 1));
    CHECK(set(&kit, "6/m")); /* back to the kind of before */
    CHECK_EQ(left(&kit, "api", "k"), 0);
    CHECK(weir_change_policy(kit.service, (struct slice){"api", 3}, "5/m algo=fixed-window", true, &err));
    CHECK(take(&kit, "api", "k", 5));
    kit_close(&kit);
}

/* Who is in a read section asks the old limits alone: what he takes must be remembered as long as any of it.
 */
TEST(older_limits_end_after_the_last_read_section_without_the_new_ones)
{
    struct kit kit;
    struct weir_error err;
    if (!CHECK(kit_open(&kit, NULL)) || !CHECK(set(&kit, "5/m")))
        return;
    weir_read_begin(&kit.service->workers[0]);
    CHECK(weir_change_policy(kit.service, (struct slice){"api", 3}, "100/s algo=fixed-window", false, &err));
    kit_tick(&kit);
    CHECK_EQ(policy_previous_ends(policy_of(&kit, "api")), WEIR_FOREVER);
    kit_clock(&kit, 30000);
    weir_read_end(&kit.service->workers[0]);
    kit_tick(&kit);
    CHECK_EQ(policy_previous_ends(policy_of(&kit, "api")), 90 * WEIR_SEC);
    kit_clock(&kit, 90000);
    kit_tick(&kit);
    CHECK(!policy_of(&kit, "api")->previous);
    kit_close(&kit);
}

TEST(blocked_is_a_pause)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, NULL)) || !CHECK(set(&kit, "10/h")))
        return;
    CHECK(take(&kit, "api", "k", 7));
    CHECK(set(&kit, "blocked"));
    CHECK(!take(&kit, "api", "k", 1));
    CHECK(set(&kit, "10/h"));
    CHECK_EQ(left(&kit, "api", "k"), 3);
    kit_close(&kit);
}

TEST(a_debt_is_remembered_longer_than_the_limits_say)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, NULL)) || !CHECK(set(&kit, "1/s")))
        return;
    (void)kit_ask(&kit, "WEIR.CHARGE api k 101");
    CHECK(set(&kit, "10/s algo=fixed-window"));
    CHECK(policy_previous_ends(policy_of(&kit, "api")) >= 100 * WEIR_SEC);
    kit_clock(&kit, 99000);
    CHECK(!take(&kit, "api", "k", 1));
    kit_close(&kit);
}

TEST(a_policy_that_was_removed_is_forgotten)
{
    struct kit kit;
    struct weir_error err;
    if (!CHECK(kit_open(&kit, NULL)) || !CHECK(set(&kit, "1/h")))
        return;
    CHECK(take(&kit, "api", "k", 1));
    CHECK(weir_change_remove(kit.service, word("api"), false, &err));
    CHECK(!policy_of(&kit, "api"));
    CHECK(strncmp(kit_ask(&kit, "WEIR.TAKE api k"), "-ERR no policy 'api'", 20) == 0);
    CHECK(set(&kit, "1/h"));
    CHECK(take(&kit, "api", "k", 1));
    kit_close(&kit);
}

TEST(a_larger_log_gets_a_table_of_its_own)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, NULL)) || !CHECK(set(&kit, "5/m algo=sliding-log")))
        return;
    CHECK(take(&kit, "api", "k", 5));
    CHECK(set(&kit, "50/m algo=sliding-log"));
    CHECK(!take(&kit, "api", "k", 1));
    CHECK(policy_of(&kit, "api")->previous != NULL);
    kit_clock(&kit, 60001);
    CHECK(take(&kit, "api", "k", 50));
    kit_close(&kit);
}

/* ---- modes ---- */

static bool mode(struct kit *kit, const char *name, enum policy_mode mode, int percent, int64_t for_ns)
{
    struct weir_error err;
    return weir_change_mode(kit->service, word(name), mode, percent, for_ns, &err);
}

TEST(a_mode_ends_by_itself)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, NULL)) || !CHECK(set(&kit, "1/h")))
        return;
    CHECK(take(&kit, "api", "k", 1));
    CHECK(mode(&kit, "api", MODE_DISABLED, 100, 30 * WEIR_SEC));
    CHECK(take(&kit, "api", "k", 1));
    CHECK(mode(&kit, "api", MODE_SHADOW, 100, 10 * WEIR_SEC)); /* instead of the first */
    CHECK_STR(kit_text(kit_ask(&kit, "WEIR.TAKE api k"), "reason"), "shadow");
    kit_clock(&kit, 10000);
    CHECK(!take(&kit, "api", "k", 1));
    kit_tick(&kit);
    CHECK_EQ(policy_of(&kit, "api")->mode, MODE_ENFORCE);
    CHECK_EQ(policy_of(&kit, "api")->mode_until_ms, 0);
    kit_close(&kit);
}

TEST(a_mode_above_all_ends_or_is_ended)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, NULL)) || !CHECK(set(&kit, "1/h")) || !CHECK(kit_policy(&kit, "new", "1/h")))
        return;
    CHECK(mode(&kit, "new", MODE_SHADOW, 100, 0));
    CHECK(take(&kit, "api", "k", 1));
    CHECK(mode(&kit, "*", MODE_DISABLED, 100, 60 * WEIR_SEC));
    CHECK(take(&kit, "api", "k", 1));
    kit_clock(&kit, 60000);
    CHECK(!take(&kit, "api", "k", 1));
    kit_tick(&kit);
    CHECK(!atomic_load(&kit.service->snapshot)->mode_for_all);
    CHECK(mode(&kit, "*", MODE_DISABLED, 100, 0));
    CHECK(take(&kit, "api", "k", 1));
    CHECK(mode(&kit, "*", MODE_ENFORCE, 100, 0));
    CHECK(!take(&kit, "api", "k", 1));
    CHECK_EQ(policy_of(&kit, "new")->mode, MODE_SHADOW); /* nobody enforces what was on trial */
    CHECK(!mode(&kit, "*", MODE_ENFORCE, 25, 0));
    CHECK(!mode(&kit, "*", MODE_ENFORCE, 100, WEIR_SEC));
    kit_close(&kit);
}

TEST(percentages_are_those_of_enforce)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, NULL)) || !CHECK(set(&kit, "1/h")))
        return;
    CHECK(!mode(&kit, "api", MODE_SHADOW, 25, 0));
    CHECK(!mode(&kit, "api", MODE_ENFORCE, 0, 0));
    CHECK(!mode(&kit, "api", MODE_ENFORCE, 101, 0));
    CHECK(!mode(&kit, "api", MODE_ENFORCE, 100, -1));
    CHECK(!mode(&kit, "apo", MODE_ENFORCE, 100, 0));
    CHECK(mode(&kit, "api", MODE_ENFORCE, 25, 0));
    CHECK_EQ(policy_of(&kit, "api")->percent, 25);
    CHECK(mode(&kit, "api", MODE_ENFORCE, 50, WEIR_SEC));
    kit_clock(&kit, 1000);
    kit_tick(&kit);
    CHECK_EQ(policy_of(&kit, "api")->percent, 25);
    kit_close(&kit);
}

/* ---- overrides ---- */

TEST(a_key_with_limits_of_its_own_keeps_what_it_spent)
{
    struct kit kit;
    struct weir_error err;
    if (!CHECK(kit_open(&kit, NULL)) || !CHECK(set(&kit, "10/h")))
        return;
    CHECK(take(&kit, "api", "k", 8));
    CHECK(override(&kit, "k", "3600/h", 0, &err));
    CHECK_EQ(left(&kit, "api", "k"), 2);
    CHECK_EQ(left(&kit, "api", "other"), 10);
    kit_clock(&kit, 60000);
    CHECK(take(&kit, "api", "k", 58));
    CHECK(weir_change_unoverride(kit.service, word("api"), word("k"), &err));
    CHECK_EQ(left(&kit, "api", "k"), 4);
    CHECK(!weir_change_unoverride(kit.service, word("api"), word("k"), &err));
    CHECK_EQ(policy_of(&kit, "api")->key_count, 0);
    kit_close(&kit);
}

TEST(overrides_end)
{
    struct kit kit;
    struct weir_error err;
    if (!CHECK(kit_open(&kit, NULL)) || !CHECK(set(&kit, "10/h")))
        return;
    CHECK(override(&kit, "k", "3/h", 2 * WEIR_SEC, &err));
    CHECK(override(&kit, "in:*", "unlimited", 3 * WEIR_SEC, &err));
    const struct policy *policy = policy_of(&kit, "api");
    CHECK_EQ(policy->keys[0].until_ms, 2000);
    CHECK_STR(policy->keys[0].reason, "because");
    kit_clock(&kit, 1999);
    kit_tick(&kit);
    CHECK(!take(&kit, "api", "k", 4));
    CHECK(override(&kit, "q", "3/h", 0, &err)); /* a later change does not hide the end */
    kit_clock(&kit, 2000);
    kit_tick(&kit);
    CHECK_STR(kit_text(kit_ask(&kit, "WEIR.TAKE api k 4"), "limit"), "10/h");
    CHECK_EQ(policy_of(&kit, "api")->key_count, 1);
    CHECK(take(&kit, "api", "in:1", 1000));
    kit_clock(&kit, 3000);
    kit_tick(&kit);
    CHECK(!take(&kit, "api", "in:1", 1000));
    CHECK_EQ(policy_of(&kit, "api")->prefix_count, 0);
    kit_close(&kit);
}

TEST(the_key_comes_first_and_then_the_longest_prefix)
{
    struct kit kit;
    struct weir_error err;
    if (!CHECK(kit_open(&kit, NULL)) || !CHECK(set(&kit, "10/h")))
        return;
    CHECK(override(&kit, "a*", "20/h", 0, &err));
    CHECK(override(&kit, "ab*", "30/h", 0, &err));
    CHECK(override(&kit, "abc", "40/h", 0, &err));
    CHECK(override(&kit, "aa*", "31/h", 0, &err));
    CHECK_EQ(left(&kit, "api", "b"), 10);
    CHECK_EQ(left(&kit, "api", "a"), 20);
    CHECK_EQ(left(&kit, "api", "abd"), 30);
    CHECK_EQ(left(&kit, "api", "aa"), 31);
    CHECK_EQ(left(&kit, "api", "abc"), 40);
    CHECK(take(&kit, "api", "ab", 10));
    CHECK(override(&kit, "ab*", "35/h", 0, &err)); /* a prefix keeps what was spent under it, too */
    CHECK_EQ(left(&kit, "api", "ab"), 20);
    CHECK(weir_change_unoverride(kit.service, word("api"), word("ab*"), &err));
    CHECK_EQ(left(&kit, "api", "abd"), 20);
    CHECK(!weir_change_unoverride(kit.service, word("api"), word("ab*"), &err));
    kit_close(&kit);
}

TEST(another_kind_of_limits_leaves_overrides_alone)
{
    struct kit kit;
    struct weir_error err;
    if (!CHECK(kit_open(&kit, NULL)) || !CHECK(set(&kit, "10/h")))
        return;
    CHECK(override(&kit, "k", "100/h", 0, &err));
    CHECK(take(&kit, "api", "k", 60));
    CHECK(set(&kit, "10/h algo=fixed-window"));
    CHECK(take(&kit, "api", "k", 30));
    CHECK(!take(&kit, "api", "k", 11)); /* 60 were spent before */
    CHECK(override(&kit, "k", "7200/h", 0, &err));
    kit_clock(&kit, 60000);
    CHECK(take(&kit, "api", "k", 130)); /* the old limits know of it, too */
    kit_close(&kit);
}

TEST(there_are_only_so_many_overrides)
{
    struct kit kit;
    struct weir_error err;
    char key[32];
    bool done = true;
    if (!CHECK(kit_open(&kit, NULL)) || !CHECK(set(&kit, "10/h")))
        return;
    for (int i = 0; done && i < CONFIG_PREFIXES_MAX; i++) {
        (void)snprintf(key, sizeof key, "%d:*", i);
        done = CHECK(override(&kit, key, "unlimited", 0, &err));
    }
    CHECK(!override(&kit, "x:*", "unlimited", 0, &err));
    CHECK_STR(err.text, "policy 'api' has limits for 64 prefixes already, the most there can be");
    CHECK(!override(&kit, "k", "61/m algo=sliding-log", 0, &err));
    CHECK(strstr(err.text, "sliding-window") != NULL);
    CHECK(!override(&kit, "k", "6", 0, &err));
    CHECK_EQ(policy_of(&kit, "api")->key_count, 0);
    kit_close(&kit);
}

/* ---- trouble ---- */

/* Everything that can be seen of the policy. */
static void picture(struct kit *kit, char *text, size_t size)
{
    const struct policy *policy = policy_of(kit, "api");
    char limits[256];
    (void)weir_table_text(policy->main->table, limits, sizeof limits);
    (void)snprintf(text, size, "%s %s %d %zu %zu %d %d %lld", policy->limits, limits,
                   policy->previous != NULL, policy->key_count, policy->prefix_count, policy->mode,
                   policy->percent, (long long)left(kit, "api", "k"));
}

static bool change_number(struct kit *kit, int number, struct weir_error *err)
{
    switch (number) {
    case 0:
        return weir_change_policy(kit->service, word("api"), "20/h", false, err);
    case 1:
        return weir_change_policy(kit->service, word("api"), "20/h, 100/d", false, err);
    case 2:
        return weir_change_policy(kit->service, word("new"), "20/h", false, err);
    case 3:
        return weir_change_mode(kit->service, word("api"), MODE_SHADOW, 100, 0, err);
    case 4:
        return override(kit, "k", "7/h", 0, err);
    case 5:
        return override(kit, "k*", "7/h", 0, err);
    case 6:
        return weir_change_unoverride(kit->service, word("api"), word("q"), err);
    default:
        return weir_change_remove(kit->service, word("api"), false, err);
    }
}

static bool open_for_trouble(struct kit *kit)
{
    struct weir_error err;
    return CHECK(kit_open(kit, NULL)) && CHECK(set(kit, "10/h")) &&
           CHECK(override(kit, "q", "9/h", 0, &err)) && CHECK(take(kit, "api", "k", 3));
}

/* Lets one allocation fail. false: there was none of that number. */
static bool fail_one(struct kit *kit, int number, int fail, bool *done)
{
    struct weir_error err = {0};
    char before[512], after[512];
    picture(kit, before, sizeof before);
    allocations_left = fail;
    *done = change_number(kit, number, &err);
    bool hit = allocations_left < 0;
    allocations_left = -1;
    if (*done)
        return hit;
    picture(kit, after, sizeof after);
    CHECK_STR(after, before);
    CHECK(err.text[0] != '\0');
    return hit;
}

TEST(whichever_allocation_fails_nothing_is_changed)
{
    for (int number = 0; number <= 7; number++) {
        struct kit kit;
        bool done = false, hit = open_for_trouble(&kit);
        int fail = 0, failed = 0;
        for (; hit && fail < 1000; fail++) {
            hit = fail_one(&kit, number, fail, &done);
            failed += !done;
            if (done && hit) { /* that one could be done without */
                kit_close(&kit);
                hit = open_for_trouble(&kit);
            }
        }
        CHECK(done && failed > 5);
        kit_close(&kit);
    }
}

/* ---- the wall clock steps, as it does when NTP has found the time ---- */

static int64_t (*real_wall)(void);
static int64_t wall_step_ns;

static int64_t stepped_wall(void)
{
    return real_wall() + wall_step_ns;
}

#define HOUR_NS (3600 * WEIR_SEC)

TEST(ends_follow_the_wall_clock_as_it_is_now)
{
    struct kit kit;
    struct service_options options = {.workers = 1};
    real_wall = weir_boot.wall;
    weir_boot.wall = stepped_wall;
    wall_step_ns = -20 * 365 * 24 * HOUR_NS; /* a machine that does not know the time yet */
    if (CHECK(kit_open_with(&kit, NULL, &options))) {
        CHECK(kit_policy(&kit, "api", "10/h"));
        CHECK(strncmp(kit_ask(&kit, "WEIR.POLICY MODE * disabled FOR 1h"), "+OK", 3) == 0);
        wall_step_ns = 0;
        kit_tick(&kit); /* 20 years later */
        CHECK_STR(kit_text(kit_ask(&kit, "WEIR.TAKE api a"), "reason"), "ok");
        CHECK(strncmp(kit_ask(&kit, "WEIR.POLICY MODE * disabled FOR 1h"), "+OK", 3) == 0);
        CHECK(strncmp(kit_ask(&kit, "WEIR.POLICY MODE api shadow FOR 3h"), "+OK", 3) == 0);
        CHECK(strncmp(kit_ask(&kit, "WEIR.OVERRIDE SET api vip 20/h FOR 3h"), "+OK", 3) == 0);
        kit_tick(&kit);
        CHECK_STR(kit_text(kit_ask(&kit, "WEIR.TAKE api a"), "reason"), "disabled");
        wall_step_ns = 2 * HOUR_NS;
        kit_tick(&kit);
        CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.POLICY SHOW api"), "overrides"), 1);
        CHECK_STR(kit_text(kit_ask(&kit, "WEIR.TAKE api a 11"), "reason"), "shadow");
        wall_step_ns = 4 * HOUR_NS;
        kit_tick(&kit);
        CHECK_EQ(kit_field(kit_ask(&kit, "WEIR.POLICY SHOW api"), "overrides"), 0);
        CHECK_STR(kit_text(kit_ask(&kit, "WEIR.TAKE api a 11"), "reason"), "never");
        kit_close(&kit);
    }
    weir_boot.wall = real_wall;
}
