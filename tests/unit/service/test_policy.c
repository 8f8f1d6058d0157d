/* SPDX-License-Identifier: MIT */
#include "check.h"
#include "service/policies/policy.h"

TEST(a_policy_table_goes_with_its_last_owner)
{
    struct weir_error err;
    struct policy_table *ptable = weir_policy_table_new("10/s", 100, WEIR_FULL_SHARE, false, 0, &err);
    struct policy_table *other = weir_policy_table_new("10/s", 0, WEIR_FULL_SHARE, false, 0, &err);
    if (!CHECK(ptable && other))
        return;
    CHECK(ptable->serial != other->serial);
    CHECK(ptable->bytes > 0);
    CHECK(weir_policy_table_ref(ptable) == ptable);
    weir_policy_table_free(ptable);
    CHECK(weir_table_take_at(ptable->table, 0, "k", 1, 10, NULL));
    CHECK(!weir_table_take_at(ptable->table, 0, "k", 1, 1, NULL));
    weir_policy_table_free(ptable);
    weir_policy_table_free(other);
    weir_policy_table_free(NULL);
    CHECK(weir_policy_table_ref(NULL) == NULL);
}

TEST(a_policy_table_says_why_it_cannot_be)
{
    struct weir_error err;
    CHECK(weir_policy_table_new("10/x", 0, WEIR_FULL_SHARE, false, 0, &err) == NULL);
    CHECK(err.code != 0 && strstr(err.text, "'x' is not a period"));
}

TEST(limits_that_come_with_the_call)
{
    struct weir_error err;
    struct weir_own_limit limit = {1, WEIR_SEC, 2};
    struct policy_table *ptable =
        weir_policy_table_new(NULL, 100, WEIR_FULL_SHARE, true, 10 * WEIR_SEC, &err);
    if (!CHECK(ptable))
        return;
    CHECK(weir_table_take_own_at(ptable->table, 0, "k", 1, &limit, 2, NULL));
    CHECK(!weir_table_take_own_at(ptable->table, 0, "k", 1, &limit, 1, NULL));
    limit.burst = 11;
    CHECK(!weir_table_take_own_at(ptable->table, 0, "l", 1, &limit, 1, NULL)); /* beyond the horizon */
    weir_policy_table_free(ptable);
}

TEST(a_label_is_the_name_or_the_text)
{
    struct limit_labels *labels = weir_labels_new("100/s burst=20 timeout=3s, 10k/h name=hour timeout=2s");
    if (!CHECK(labels))
        return;
    CHECK_EQ(labels->count, 2);
    CHECK_STR(labels->text[0], "100/s burst=20 timeout=3s");
    CHECK_STR(labels->text[1], "hour");
    CHECK_EQ(labels->timeout_ns, 2 * WEIR_SEC);
    free(labels);
    labels = weir_labels_new("5/m");
    CHECK(labels && labels->timeout_ns == -1);
    free(labels);
    CHECK(weir_labels_new("5/x") == NULL);
}

static char *text(const char *bytes)
{
    char *copy = malloc(strlen(bytes) + 1);
    return copy ? memcpy(copy, bytes, strlen(bytes) + 1) : NULL;
}

static struct policy *make_policy(void)
{
    struct policy *policy = weir_policy_make("api", 2);
    if (!policy)
        return NULL;
    policy->main = weir_policy_table_new("10/s", 100, WEIR_FULL_SHARE, false, 0, NULL);
    policy->labels = weir_labels_new("10/s");
    policy->limits = text("10/s");
    policy->prefixes = calloc(1, sizeof *policy->prefixes);
    policy->prefix_count = 1;
    policy->prefixes[0] = (struct policy_override){
        .key = text("int:"),
        .len = 4,
        .ptable = weir_policy_table_new("20/s", 100, WEIR_FULL_SHARE, false, 0, NULL),
        .labels = weir_labels_new("20/s"),
        .limits = text("20/s"),
    };
    policy->keys = calloc(1, sizeof *policy->keys);
    policy->key_count = 1;
    policy->keys[0] =
        (struct policy_override){.key = text("acme"), .len = 4, .limits = text("1/s"), .reason = text("why")};
    return policy;
}

TEST(a_copy_shares_what_counts_and_owns_the_rest)
{
    struct policy *policy = make_policy(), *copy = policy ? weir_policy_copy(policy) : NULL;
    if (!CHECK(policy && copy))
        return;
    CHECK(copy->main == policy->main);
    CHECK(copy->counters == policy->counters);
    CHECK(copy->prefixes[0].ptable == policy->prefixes[0].ptable);
    CHECK(copy->labels != policy->labels);
    CHECK(copy->limits != policy->limits);
    weir_policy_drop(policy);
    CHECK_STR(copy->name, "api");
    CHECK_STR(copy->limits, "10/s");
    CHECK_STR(copy->labels->text[0], "10/s");
    CHECK_STR(copy->prefixes[0].key, "int:");
    CHECK_STR(copy->prefixes[0].labels->text[0], "20/s");
    CHECK_STR(copy->keys[0].key, "acme");
    CHECK_STR(copy->keys[0].reason, "why");
    CHECK(weir_table_take_at(copy->main->table, 0, "k", 1, 1, NULL));
    weir_policy_ref(copy);
    weir_policy_drop(copy);
    weir_policy_drop(copy);
}

TEST(counters_are_the_sum_of_all_workers)
{
    struct policy_counters *counters = weir_counters_new(3);
    struct policy_sums sum;
    if (!CHECK(counters))
        return;
    CHECK_EQ((uintptr_t)counters % 64, 0);
    for (int i = 0; i < 3; i++) {
        counters->counts[i].decisions[PROTOCOL_RESP][RESULT_ALLOWED] = 10 + i;
        counters->counts[i].decisions[PROTOCOL_HTTP][RESULT_ALLOWED] = 20;
        counters->counts[i].decisions[PROTOCOL_HTTP][RESULT_SHADOW_REFUSED] = i;
        counters->counts[i].decisions[i % PROTOCOLS][RESULT_REFUSED] = 1 + i;
        counters->counts[i].decisions[PROTOCOL_HTTP][RESULT_UNAVAILABLE] = 7;
        counters->counts[i].units = 100;
    }
    weir_counters_sum(counters, &sum);
    CHECK_EQ(sum.decisions[PROTOCOL_RESP][RESULT_ALLOWED], 33);
    CHECK_EQ(sum.decisions[PROTOCOL_HTTP][RESULT_ALLOWED], 60);
    CHECK_EQ(sum.decisions[PROTOCOL_RESP][RESULT_REFUSED], 4);
    CHECK_EQ(sum.decisions[PROTOCOL_HTTP][RESULT_REFUSED], 2);
    CHECK_EQ(sum.decisions[PROTOCOL_HTTP][RESULT_UNAVAILABLE], 21);
    CHECK_EQ(sum.allowed, 96); /* those refused in shadow were */
    CHECK_EQ(sum.shadow_refused, 3);
    CHECK_EQ(sum.units, 300);
    CHECK_EQ(sum.refused, 6);
    weir_counters_free(counters);
}

static int64_t refused_by(const struct policy *policy, const char *label)
{
    const struct limit_counters *limits = policy->limit_counters;
    for (size_t i = 0; i < limits->count; i++)
        if (strcmp(limits->of[i]->label, label) == 0)
            return weir_limit_counter_sum(limits->of[i], policy->counters->workers);
    return -1;
}

static struct policy *policy_with(const struct policy *before, const char *limits)
{
    struct policy *policy = before ? weir_policy_copy(before) : weir_policy_make("api", 2);
    if (policy) {
        free((void *)(uintptr_t)policy->labels);
        policy->labels = weir_labels_new(limits);
    }
    CHECK(policy && policy->labels && weir_limit_counters_make(policy));
    return policy;
}

TEST(a_limit_keeps_its_count_as_long_as_the_policy_has_it)
{
    struct policy *first = policy_with(NULL, "10/s, 100/m name=minute");
    weir_limit_counters_refused(first->limit_counters, 0, "minute");
    weir_limit_counters_refused(first->limit_counters, 1, "minute");
    weir_limit_counters_refused(first->limit_counters, 1, "10/s");
    weir_limit_counters_refused(first->limit_counters, 0, "7/d");
    CHECK_EQ(refused_by(first, "minute"), 2);
    CHECK_EQ(refused_by(first, "10/s"), 1);
    CHECK_EQ(refused_by(first, OTHER_LIMITS), 1);
    struct policy *second = policy_with(first, "20/s, 100/m name=minute");
    weir_limit_counters_refused(first->limit_counters, 0, "10/s"); /* by a request that began before */
    weir_limit_counters_refused(second->limit_counters, 0, "minute");
    CHECK_EQ(refused_by(first, "10/s"), 2);
    weir_policy_drop(first);
    CHECK_EQ(refused_by(second, "minute"), 3);
    CHECK_EQ(refused_by(second, "20/s"), 0);
    CHECK_EQ(refused_by(second, "10/s"), -1);
    CHECK_EQ(refused_by(second, OTHER_LIMITS), 1);
    struct policy *third = policy_with(second, "5/s"); /* nobody has "10/s" any more: its count goes */
    weir_policy_drop(second);
    struct policy *fourth = policy_with(third, "10/s");
    weir_policy_drop(third);
    CHECK_EQ(refused_by(fourth, "10/s"), 0);
    size_t known = 0; /* the third was there when the fourth was made */
    for (const struct limit_counter *at = fourth->counters->limits; at; at = at->next)
        known++;
    CHECK_EQ(known, 3);
    weir_policy_drop(fourth);
}

/* A policy whose keys have many limits of their own has a bounded number of series. */
TEST(labels_beyond_the_bound_are_counted_together)
{
    struct policy *policy = weir_policy_make("api", 1);
    struct policy_override keys[LIMIT_COUNTERS_MAX + 8] = {0};
    static char texts[LIMIT_COUNTERS_MAX + 8][64];
    policy->labels = weir_labels_new("10/s");
    policy->keys = keys;
    policy->key_count = sizeof keys / sizeof *keys;
    for (size_t i = 0; i < policy->key_count; i++) {
        (void)snprintf(texts[i], sizeof texts[i], "%zu/s", 100 + i / 2); /* each twice */
        keys[i].limits = texts[i];
    }
    CHECK(weir_limit_counters_make(policy));
    CHECK_EQ(policy->limit_counters->count, 2 + policy->key_count / 2);
    weir_limit_counters_free(policy->limit_counters);
    policy->limit_counters = NULL;
    for (size_t i = 0; i < policy->key_count; i++) /* the bound is reached between two limits of a key */
        (void)snprintf(texts[i], sizeof texts[i], "%zu/s, 500/m name=m%zu", 100 + i, i);
    CHECK(weir_limit_counters_make(policy));
    CHECK_EQ(policy->limit_counters->count, 1 + LIMIT_COUNTERS_MAX);
    CHECK_STR(policy->limit_counters->of[0]->label, OTHER_LIMITS);
    CHECK_STR(policy->limit_counters->of[1]->label, "10/s");
    weir_limit_counters_refused(policy->limit_counters, 0, "m0");
    weir_limit_counters_refused(policy->limit_counters, 0, "m39");
    CHECK_EQ(refused_by(policy, "m0"), 1);
    CHECK_EQ(refused_by(policy, OTHER_LIMITS), 1);
    policy->keys = NULL;
    policy->key_count = 0;
    weir_policy_drop(policy);
}

TEST(names_that_are_too_long_make_no_policy)
{
    char name[CONFIG_NAME_MAX + 2];
    memset(name, 'n', sizeof name);
    name[CONFIG_NAME_MAX + 1] = '\0';
    CHECK(weir_policy_make(name, 1) == NULL);
    name[CONFIG_NAME_MAX] = '\0';
    struct policy *policy = weir_policy_make(name, 1);
    CHECK(policy != NULL);
    CHECK_EQ(policy ? policy->percent : 0, CONFIG_PERCENT_ALL);
    weir_policy_drop(policy);
}
