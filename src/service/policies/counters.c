/* SPDX-License-Identifier: MIT */
#include "service/policies/counters.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "service/policies/policy.h"

/* ---- decisions ---- */

struct policy_counters *weir_counters_new(uint32_t workers)
{
    size_t size = sizeof(struct policy_counters) + workers * sizeof(struct policy_counts);
    struct policy_counters *counters = aligned_alloc(_Alignof(struct policy_counters), size);
    if (!counters)
        return NULL;
    memset(counters, 0, size);
    counters->workers = workers;
    atomic_init(&counters->refs, 1);
    return counters;
}

void weir_counters_free(struct policy_counters *counters)
{
    if (!counters || atomic_fetch_sub_explicit(&counters->refs, 1, memory_order_acq_rel) != 1)
        return;
    while (counters->limits) {
        struct limit_counter *limit = counters->limits;
        counters->limits = limit->next;
        free(limit);
    }
    free(counters);
}

static int64_t add_count(int64_t sum, const _Atomic int64_t *count)
{
    return sat_add(sum, atomic_load_explicit(count, memory_order_relaxed));
}

void weir_counters_sum(const struct policy_counters *counters, struct policy_sums *sums)
{
    *sums = (struct policy_sums){0};
    for (uint32_t i = 0; i < counters->workers; i++) {
        const struct policy_counts *counts = &counters->counts[i];
        for (int protocol = 0; protocol < PROTOCOLS; protocol++)
            for (int result = 0; result < RESULTS; result++)
                sums->decisions[protocol][result] =
                    add_count(sums->decisions[protocol][result], &counts->decisions[protocol][result]);
        sums->candidate_refused = add_count(sums->candidate_refused, &counts->candidate_refused);
        sums->errors = add_count(sums->errors, &counts->errors);
        sums->units = add_count(sums->units, &counts->units);
    }
    for (int protocol = 0; protocol < PROTOCOLS; protocol++) {
        const int64_t *decisions = sums->decisions[protocol];
        sums->refused = sat_add(sums->refused, decisions[RESULT_REFUSED]);
        sums->shadow_refused = sat_add(sums->shadow_refused, decisions[RESULT_SHADOW_REFUSED]);
        sums->allowed =
            sat_add(sums->allowed, sat_add(decisions[RESULT_ALLOWED], decisions[RESULT_SHADOW_REFUSED]));
    }
}

/* ---- refusals by limit ---- */

/* The counter of that label; made if no edition has had it. NULL: out of memory. */
static struct limit_counter *find_counter(struct policy_counters *counters, const char *label)
{
    for (struct limit_counter *limit = counters->limits; limit; limit = limit->next)
        if (strcmp(limit->label, label) == 0)
            return limit;
    size_t size =
        sizeof(struct limit_counter) + counters->workers * sizeof(((struct limit_counter *)0)->of[0]);
    struct limit_counter *limit = aligned_alloc(_Alignof(struct limit_counter), size);
    if (!limit)
        return NULL;
    memset(limit, 0, size);
    memcpy(limit->label, label, strlen(label) + 1);
    atomic_init(&limit->refs, 1);
    limit->next = counters->limits;
    counters->limits = limit;
    return limit;
}

/* A label that does not fit shares the counter of the others. false: out of memory. */
static bool list_counter(struct limit_counters *limits, struct policy_counters *counters, const char *label)
{
    for (size_t i = 0; i < limits->count; i++)
        if (strcmp(limits->of[i]->label, label) == 0)
            return true;
    if (limits->count > LIMIT_COUNTERS_MAX || label[0] == '\0')
        return true;
    struct limit_counter *limit = find_counter(counters, label);
    if (!limit)
        return false;
    atomic_fetch_add_explicit(&limit->refs, 1, memory_order_relaxed);
    limits->of[limits->count++] = limit;
    return true;
}

static bool list_labels(struct limit_counters *limits, struct policy_counters *counters,
                        const struct limit_labels *labels)
{
    for (size_t i = 0; labels && i < labels->count; i++)
        if (!list_counter(limits, counters, labels->text[i]))
            return false;
    return true;
}

static bool list_limits(struct limit_counters *limits, struct policy_counters *counters, const char *text)
{
    struct limit_labels *labels = weir_labels_new(text);
    bool listed = labels && list_labels(limits, counters, labels);
    free(labels);
    return listed;
}

static bool list_override(struct limit_counters *limits, struct policy_counters *counters,
                          const struct policy_override *override)
{
    if (override->labels || limits->count > LIMIT_COUNTERS_MAX || !override->limits)
        return list_labels(limits, counters, override->labels);
    return list_limits(limits, counters, override->limits);
}

static bool list_all(struct limit_counters *limits, const struct policy *policy)
{
    struct policy_counters *counters = policy->counters;
    bool good = list_counter(limits, counters, OTHER_LIMITS) && list_labels(limits, counters, policy->labels);
    if (good && policy->address && policy->address->list)
        good = list_counter(limits, counters, BLOCK_LABEL);
    for (size_t i = 1; good && policy->address && i < policy->address->tier_count; i++)
        good = list_limits(limits, counters, policy->address->tiers[i].limits);
    for (size_t i = 0; good && i < policy->prefix_count; i++)
        good = list_override(limits, counters, &policy->prefixes[i]);
    for (size_t i = 0; good && i < policy->key_count; i++)
        good = list_override(limits, counters, &policy->keys[i]);
    /* The limits of before the last change may refuse, too. */
    for (struct limit_counter *at = counters->limits; good && policy->previous && at; at = at->next)
        good = list_counter(limits, counters, at->label);
    return good;
}

/* Those that no edition has any more. */
static void drop_unused(struct policy_counters *counters)
{
    for (struct limit_counter **at = &counters->limits; *at;) {
        struct limit_counter *limit = *at;
        if (atomic_load_explicit(&limit->refs, memory_order_acquire) > 1) {
            at = &limit->next;
            continue;
        }
        *at = limit->next;
        free(limit);
    }
}

bool weir_limit_counters_make(struct policy *policy)
{
    if (policy->limit_counters)
        return true;
    policy->limit_counters = calloc(1, sizeof *policy->limit_counters);
    bool made = policy->limit_counters && list_all(policy->limit_counters, policy);
    if (!made) {
        weir_limit_counters_free(policy->limit_counters);
        policy->limit_counters = NULL;
    }
    drop_unused(policy->counters);
    return made;
}

void weir_limit_counters_free(struct limit_counters *limits)
{
    for (size_t i = 0; limits && i < limits->count; i++)
        atomic_fetch_sub_explicit(&limits->of[i]->refs, 1, memory_order_release);
    free(limits);
}

void weir_limit_counters_refused(const struct limit_counters *limits, uint32_t number, const char *label)
{
    size_t at = limits->count - 1;
    while (at > 0 && strcmp(limits->of[at]->label, label) != 0)
        at--;
    count_up(&limits->of[at]->of[number].refused, 1);
}

int64_t weir_limit_counter_sum(const struct limit_counter *limit, uint32_t workers)
{
    int64_t sum = 0;
    for (uint32_t i = 0; i < workers; i++)
        sum = add_count(sum, &limit->of[i].refused);
    return sum;
}
