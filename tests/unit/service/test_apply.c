/* SPDX-License-Identifier: MIT */
/*
 * A configuration comes into force, all of it or nothing: keys keep what they spent, what the file does not
 * name any more goes, what commands have set stays.
 */
#define _POSIX_C_SOURCE 200809L
#include <unistd.h>

#include "check.h"
#include "service/policies/apply.h"
#include "unit/failing_memory.h"
#include "unit/service/change_kit.h"

static void complain(void *arg, const struct config_complaint *complaint)
{
    (void)arg;
    char text[COMPLAINT_TEXT_MAX];
    printf("# %s\n", weir_complaint_text(complaint, true, text));
}

static bool apply(struct kit *kit, const char *yaml, struct weir_error *err)
{
    struct config *config = weir_config_parse("weir.yaml", yaml, strlen(yaml), complain, NULL);
    bool done = CHECK(config != NULL) && weir_service_apply(kit->service, config, err);
    weir_config_free(config);
    return done;
}

/* ---- policies ---- */

TEST(the_same_file_again_changes_nothing)
{
    static const char yaml[] = "policies:\n"
                               "  - name: api\n"
                               "    limits: [10/h, 20/d]\n"
                               "    candidate: [5/h]\n"
                               "    overrides:\n"
                               "      - {key: org, limits: 100/h, reason: launch}\n"
                               "      - {key: 'in:*', limits: unlimited}\n";
    struct kit kit;
    struct weir_error err;
    if (!CHECK(kit_open(&kit, yaml)))
        return;
    CHECK(take(&kit, "api", "k", 4));
    CHECK(take(&kit, "api", "org", 60));
    const struct policy *policy = policy_of(&kit, "api");
    uint64_t main = policy->main->serial, candidate_table = policy->candidate_table->serial,
             in = policy->prefixes[0].ptable->serial;
    CHECK(apply(&kit, yaml, &err));
    policy = policy_of(&kit, "api");
    CHECK(policy->main->serial == main && policy->candidate_table->serial == candidate_table);
    CHECK_EQ(policy->prefixes[0].ptable->serial, in);
    CHECK(!policy->previous);
    CHECK_EQ(left(&kit, "api", "k"), 6);
    CHECK_EQ(left(&kit, "api", "org"), 40);
    struct weir_table_info info;
    weir_table_stat(policy->main->table, &info);
    CHECK_EQ(info.changes, 0);
    kit_close(&kit);
}

TEST(live_keys_keep_what_they_spent)
{
    struct kit kit;
    struct weir_error err;
    if (!CHECK(kit_open(&kit, "policies: [{name: api, limits: 10/h}, {name: gone, limits: 1/h}]")))
        return;
    CHECK(take(&kit, "api", "k", 8));
    CHECK(apply(&kit, "policies: [{name: api, limits: 5/h}, {name: new, limits: 3/h}]", &err));
    CHECK_EQ(left(&kit, "api", "k"), 2);
    CHECK_EQ(left(&kit, "api", "other"), 5);
    CHECK_EQ(left(&kit, "new", "k"), 3);
    CHECK(!policy_of(&kit, "gone"));
    CHECK(policy_of(&kit, "new")->from_file);
    kit_close(&kit);
}

TEST(what_commands_have_set_stays)
{
    struct kit kit;
    struct weir_error err;
    if (!CHECK(kit_open(&kit, "policies: [{name: api, limits: 10/h}]")))
        return;
    CHECK(kit_policy(&kit, "mine", "7/h"));
    CHECK(kit_policy(&kit, "api", "99/h"));
    CHECK(policy_of(&kit, "api")->touched);
    CHECK(weir_change_override(kit.service, word("api"), word("k"), "50/h", 0, word(""), &err));
    CHECK(weir_change_mode(kit.service, word("api"), MODE_SHADOW, 100, 60 * WEIR_SEC, &err));
    CHECK(apply(&kit, "policies: [{name: api, limits: 10/h, mode: enforce 50%}]", &err));
    const struct policy *policy = policy_of(&kit, "api");
    CHECK_STR(policy_of(&kit, "mine")->limits, "7/h");
    CHECK_STR(policy->limits, "10/h"); /* the file's again */
    CHECK(!policy->touched);
    CHECK_EQ(left(&kit, "api", "k"), 50);
    CHECK_EQ(policy->mode, MODE_SHADOW); /* until its end, and then the file's */
    kit_clock(&kit, 60000);
    kit_tick(&kit);
    CHECK_EQ(policy_of(&kit, "api")->mode, MODE_ENFORCE);
    CHECK_EQ(policy_of(&kit, "api")->percent, 50);
    CHECK(apply(&kit, "policies: [{name: mine, limits: 8/h}]", &err)); /* now it is the file's */
    CHECK(policy_of(&kit, "mine")->from_file && !policy_of(&kit, "api"));
    kit_close(&kit);
}

TEST(overrides_of_the_file_come_and_go)
{
    struct kit kit;
    struct weir_error err;
    if (!CHECK(kit_open(&kit,
                        "policies: [{name: api, limits: 10/h, overrides: ["
                        "{key: a, limits: 20/h}, {key: b, limits: 30/h}, {key: 'c*', limits: 40/h}]}]")))
        return;
    CHECK(left(&kit, "api", "a") == 20 && left(&kit, "api", "b") == 30 && left(&kit, "api", "cc") == 40);
    CHECK(take(&kit, "api", "b", 10));
    CHECK(apply(&kit,
                "policies: [{name: api, limits: 10/h, overrides: ["
                "{key: b, limits: 25/h}, {key: d, limits: 50/h}]}]",
                &err));
    CHECK_EQ(policy_of(&kit, "api")->key_count, 2);
    CHECK_EQ(policy_of(&kit, "api")->prefix_count, 0);
    CHECK_EQ(left(&kit, "api", "a"), 10);
    CHECK_EQ(left(&kit, "api", "b"), 20);
    CHECK_EQ(left(&kit, "api", "cc"), 10);
    CHECK_EQ(left(&kit, "api", "d"), 50);
    kit_close(&kit);
}

TEST(an_override_whose_end_has_passed_is_not_set)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, NULL)))
        return;
    kit_close(&kit);
    struct service_options options = {.workers = 1}; /* the clock on the wall: it is later than 2001 */
    if (!CHECK(kit_open_with(&kit,
                             "policies: [{name: api, limits: 10/h, overrides: ["
                             "{key: a, limits: 20/h, until: 2001-12-31}, {key: b, limits: 30/h}]}]",
                             &options)))
        return;
    CHECK_EQ(policy_of(&kit, "api")->key_count, 1);
    CHECK_EQ(left(&kit, "api", "a"), 10);
    kit_close(&kit);
}

TEST(another_rule_for_a_full_table_needs_another_table)
{
    struct kit kit;
    struct weir_error err;
    if (!CHECK(kit_open(&kit, "policies: [{name: api, limits: 10/h}]")))
        return;
    uint64_t serial = policy_of(&kit, "api")->main->serial;
    CHECK(take(&kit, "api", "k", 8));
    CHECK(apply(&kit, "policies: [{name: api, limits: 10/h, on_full: refuse}]", &err));
    CHECK(policy_of(&kit, "api")->main->serial != serial);
    CHECK(!take(&kit, "api", "k", 3)); /* nothing is forgotten by it */
    CHECK(take(&kit, "api", "k", 2));
    kit_close(&kit);
}

TEST(candidates_come_and_go)
{
    struct kit kit;
    struct weir_error err;
    struct policy_sums sum;
    if (!CHECK(kit_open(&kit, "policies: [{name: api, limits: 10/h, candidate: 2/h}]")))
        return;
    CHECK(take(&kit, "api", "k", 2));
    CHECK(apply(&kit, "policies: [{name: api, limits: 10/h, candidate: 3/h}]", &err));
    CHECK(take(&kit, "api", "k", 2));
    weir_counters_sum(policy_of(&kit, "api")->counters, &sum);
    CHECK_EQ(sum.candidate_refused, 1);
    CHECK(apply(&kit, "policies: [{name: api, limits: 10/h, candidate: 3/h algo=fixed-window}]", &err));
    CHECK(take(&kit, "api", "k", 1));
    CHECK(apply(&kit, "policies: [{name: api, limits: 10/h}]", &err));
    CHECK(!policy_of(&kit, "api")->candidate_table && !policy_of(&kit, "api")->candidate);
    CHECK_EQ(left(&kit, "api", "k"), 5);
    kit_close(&kit);
}

TEST(room_that_the_file_asks_for)
{
    struct kit kit;
    struct weir_error err;
    struct weir_table_info info;
    if (!CHECK(kit_open(&kit, "policies: [{name: api, limits: 10/h, keys: 5000}]")))
        return;
    weir_table_stat(policy_of(&kit, "api")->main->table, &info);
    CHECK_EQ(info.capacity, 5000);
    CHECK(apply(&kit, "policies: [{name: api, limits: 10/h, keys: 20000}]", &err));
    weir_table_stat(policy_of(&kit, "api")->main->table, &info);
    CHECK_EQ(info.capacity, 20000);
    CHECK(!apply(&kit, "policies: [{name: api, limits: 10/h, keys: 900000000}]", &err));
    CHECK(strstr(err.text, "memory") != NULL);
    CHECK(!apply(&kit, "policies: [{name: api, limits: 10/h}, {name: b, limits: 1/h, keys: 5000000}]", &err));
    CHECK(strstr(err.text, "memory") != NULL);
    CHECK(!policy_of(&kit, "b"));
    kit_close(&kit);
}

/* ---- users ---- */

TEST(users_are_replaced)
{
    struct kit kit;
    struct weir_error err;
    if (!CHECK(kit_open(&kit, "policies: [{name: api, limits: 10/h}]\n")))
        return;
    CHECK(take(&kit, "api", "k", 1));
    CHECK(apply(&kit,
                "users: [{name: default, may: [look]}]\n"
                "policies: [{name: api, limits: 10/h}]",
                &err));
    CHECK(strncmp(kit_ask(&kit, "WEIR.TAKE api k"), "-NOPERM", 7) == 0);
    kit_close(&kit);
}

static const struct http_rules *rules_of(struct kit *kit)
{
    return atomic_load(&kit->service->snapshot)->http;
}

TEST(routes_come_with_the_file_and_stay_through_other_changes)
{
    struct kit kit;
    struct weir_error err;
    static const char routes[] = "policies: [{name: api, limits: 10/h}]\nroutes: [{policy: api}]";
    if (!CHECK(kit_open(&kit, "policies: [{name: api, limits: 10/h}]\n")))
        return;
    CHECK_EQ(rules_of(&kit)->route_count, 0);
    CHECK(apply(&kit, routes, &err));
    const struct http_rules *rules = rules_of(&kit);
    CHECK_EQ(rules->route_count, 1);
    CHECK(kit_policy(&kit, "mine", "7/h"));
    CHECK(rules_of(&kit) == rules);
    CHECK(!apply(&kit, "trusted_proxies: none", &err)); /* it would take all policies away */
    CHECK(rules_of(&kit) == rules && rules->proxies.count == 0);
    CHECK(apply(&kit, "policies: [{name: api, limits: 10/h}]\n", &err));
    CHECK_EQ(rules_of(&kit)->route_count, 0);
    kit_close(&kit);
}

TEST(the_password_of_the_command_line_stays)
{
    struct kit kit;
    struct weir_error err;
    struct digest password = weir_sha256("secret", 6);
    struct service_options options = {.workers = 1, .test_clock = true, .password = &password};
    if (!CHECK(kit_open_with(&kit, NULL, &options)))
        return;
    CHECK(strncmp(kit_ask(&kit, "WEIR.POLICY LIST"), "-NOAUTH", 7) == 0);
    CHECK(apply(&kit, "policies: [{name: api, limits: 10/h}]", &err));
    CHECK(strncmp(kit_ask(&kit, "WEIR.POLICY LIST"), "-NOAUTH", 7) == 0);
    CHECK_STR(kit_ask(&kit, "AUTH secret"), "+OK\r\n");
    CHECK(take(&kit, "api", "k", 1));
    kit_close(&kit);
}

/* ---- room ---- */

static int64_t capacity_of(struct kit *kit, const char *name)
{
    struct weir_table_info info;
    weir_table_stat(policy_of(kit, name)->main->table, &info);
    return info.capacity;
}

TEST(a_file_that_is_refused_gives_no_table_more_room)
{
    struct kit kit;
    struct weir_error err;
    if (!CHECK(kit_open(&kit, "memory: 64MiB\npolicies: [{name: a, limits: 1/h, keys: 5000}, "
                              "{name: b, limits: 1/h, keys: 5000}]")))
        return;
    CHECK(!apply(&kit,
                 "memory: 64MiB\npolicies: [{name: a, limits: 1/h, keys: 100000}, "
                 "{name: b, limits: 1/h, keys: 900000000}]",
                 &err));
    CHECK(strstr(err.text, "keys: 900000000 needs ") && strstr(err.text, "raise memory: or lower keys:"));
    CHECK_EQ(capacity_of(&kit, "a"), 5000);
    CHECK_EQ(capacity_of(&kit, "b"), 5000);
    /* each would fit by itself */
    CHECK(!apply(&kit,
                 "memory: 64MiB\npolicies: [{name: a, limits: 1/h, keys: 1000000}, "
                 "{name: b, limits: 1/h, keys: 1000000}]",
                 &err));
    CHECK(strstr(err.text, "keys: 1000000 needs ") != NULL);
    CHECK_EQ(capacity_of(&kit, "a"), 5000);
    CHECK(apply(&kit,
                "memory: 64MiB\npolicies: [{name: a, limits: 1/h, keys: 100000}, "
                "{name: b, limits: 1/h, keys: 5000}]",
                &err));
    CHECK_EQ(capacity_of(&kit, "a"), 100000);
    CHECK_EQ(capacity_of(&kit, "b"), 5000);
    kit_close(&kit);
}

/* ---- reload ---- */

struct file {
    char path[64];
};

static void write_file(struct file *file, const char *text)
{
    if (!file->path[0]) {
        (void)snprintf(file->path, sizeof file->path, "/tmp/weir-apply-XXXXXX");
        int made = mkstemp(file->path);
        if (made >= 0)
            close(made);
    }
    FILE *out = fopen(file->path, "w");
    if (!CHECK(out != NULL))
        return;
    fputs(text, out);
    fclose(out);
}

static const char *reload(struct kit *kit, bool good)
{
    static char text[2048];
    struct buffer report = {0};
    CHECK_EQ(weir_service_reload(kit->service, &report), good);
    (void)snprintf(text, sizeof text, "%.*s", (int)buffer_len(&report),
                   buffer_len(&report) > 0 ? buffer_bytes(&report) : "");
    weir_buffer_free(&report);
    return text;
}

TEST(a_bad_file_keeps_the_last_good_one_and_says_why)
{
    struct kit kit;
    struct file file = {""};
    write_file(&file, "policies: [{name: api, limits: 10/h}]\n");
    struct service_options options = {.workers = 1, .test_clock = true, .config_path = file.path};
    if (!CHECK(kit_open_with(&kit, NULL, &options)))
        return;
    kit_clock(&kit, (14 * 3600 + 3 * 60 + 12) * 1000);
    CHECK_STR(reload(&kit, true), "");
    CHECK(take(&kit, "api", "k", 8));
    kit_clock(&kit, (14 * 3600 + 4 * 60) * 1000);
    write_file(&file, "policies: [{name: api, limits: 10/h brust=3}, {name: new, limits: 5/h}]\n");
    const char *report = reload(&kit, false);
    CHECK(strstr(report, "did you mean burst?") != NULL);
    CHECK(strstr(report, "nothing was changed: the configuration of 14:03:12 stays in force\n") != NULL);
    CHECK(!policy_of(&kit, "new"));
    CHECK_EQ(left(&kit, "api", "k"), 2);
    CHECK(strstr(kit.service->reload_error, ": not valid; see the log or weir check") != NULL);
    CHECK_EQ(kit.service->reload_failures, 1);
    write_file(&file, "policies: [{name: api, limits: 10/h}, {name: new, limits: 5/h}]\n");
    CHECK_STR(reload(&kit, true), "");
    CHECK_STR(kit.service->reload_error, "");
    CHECK_EQ(kit.service->reloads, 2);
    CHECK_EQ(left(&kit, "new", "k"), 5);
    unlink(file.path);
    (void)reload(&kit, false);
    kit_close(&kit);
}

TEST(without_a_file_there_is_nothing_to_read)
{
    struct kit kit;
    if (!CHECK(kit_open(&kit, NULL)))
        return;
    CHECK(strstr(reload(&kit, false), "--config") != NULL);
    kit_close(&kit);
}

/* ---- trouble ---- */

static void picture(struct kit *kit, struct buffer *text)
{
    const struct snapshot *snapshot = atomic_load(&kit->service->snapshot);
    for (size_t i = 0; i < snapshot->policy_count; i++) {
        const struct policy *policy = snapshot->policies[i];
        char line[512], limits[128];
        (void)weir_table_text(policy->main->table, limits, sizeof limits);
        int len = snprintf(line, sizeof line, "%s %s %s %llu %d %zu %zu %d; ", policy->name, policy->limits,
                           limits, (unsigned long long)policy->main->serial, policy->previous != NULL,
                           policy->key_count, policy->prefix_count, policy->mode);
        buffer_put(text, line, (size_t)len);
        (void)weir_table_override_text(policy->main->table, "q", 1, limits, sizeof limits);
        buffer_put(text, limits, strlen(limits) + 1);
    }
}

TEST(whichever_allocation_fails_nothing_is_changed)
{
    static const char before_yaml[] =
        "policies: [{name: a, limits: 10/h}, {name: b, limits: 1/h, overrides: [{key: q, limits: 2/h}]}]";
    static const char after_yaml[] =
        "policies: [{name: a, limits: 20/h, mode: shadow}, {name: b, limits: 2/h, candidate: 1/m, overrides: "
        "[{key: q, limits: 3/h}, {key: 'r*', limits: unlimited}]}, {name: c, limits: '1/h, 2/d'}, "
        "{name: d, limits: 9/s algo=quota, fleet: {coordinator: 'local:'}}]";
    struct config *config = weir_config_parse("weir.yaml", after_yaml, strlen(after_yaml), complain, NULL);
    struct kit kit;
    struct weir_error err = {0};
    if (!CHECK(config != NULL) || !CHECK(kit_open(&kit, before_yaml)))
        return;
    bool hit = true, done = false;
    int fail = 0, failed = 0;
    for (; hit && fail < 1000; fail++) {
        struct buffer before = {0}, after = {0};
        picture(&kit, &before);
        allocations_left = fail;
        done = weir_service_apply(kit.service, config, &err);
        hit = allocations_left < 0;
        failed += !done;
        allocations_left = -1;
        picture(&kit, &after);
        bool same = buffer_len(&before) == buffer_len(&after) &&
                    memcmp(buffer_bytes(&before), buffer_bytes(&after), buffer_len(&after)) == 0;
        CHECK(done ? !same : same && err.text[0] != '\0');
        weir_buffer_free(&before);
        weir_buffer_free(&after);
        if (done && hit) /* that one could be done without */
            CHECK(apply(&kit, before_yaml, &err));
    }
    CHECK(done && failed > 20);
    CHECK_EQ(policy_of(&kit, "b")->key_count, 1);
    weir_config_free(config);
    kit_close(&kit);
}
