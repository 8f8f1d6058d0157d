/* SPDX-License-Identifier: MIT */
/*
 * A policy: limits compiled from text or from specs.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "core/limit.h"
#include "core/state.h"

_Static_assert(WEIR_LIMITS_MAX == 16, "the message below says so");

static struct weir_policy *policy_alloc(size_t count, struct weir_error *err)
{
    struct weir_policy *policy = calloc(1, sizeof *policy + count * sizeof policy->limits[0]);
    if (!policy) {
        weir_error_set(err, ENOMEM, "out of memory");
        return NULL;
    }
    policy->words = STATE_HEADER;
    policy->limits = (struct limit *)(policy + 1);
    return policy;
}

static bool init_limit(struct limit *limit, const struct weir_spec *specs, size_t index,
                       struct weir_error *err)
{
    struct spec_fault fault;
    char message[sizeof fault.text + 32];
    if (!weir_limit_init(limit, &specs[index], &fault))
        (void)snprintf(message, sizeof message, "limit %zu: %s", index + 1, fault.text);
    else if (weir_spec_has_namesake(specs, index))
        (void)snprintf(message, sizeof message, SPEC_NAMESAKE, limit->spec.name);
    else
        return true;
    weir_error_set(err, EINVAL, message);
    return false;
}

/* Gives a limit its place in the state, and its say in the timeout. */
static void policy_append_limit(struct weir_policy *policy, struct limit *limit)
{
    int64_t timeout_ns = limit->spec.timeout_ns;
    if (timeout_ns > 0 && (policy->timeout_ns == 0 || timeout_ns < policy->timeout_ns))
        policy->timeout_ns = timeout_ns;
    limit->offset = policy->words;
    policy->words += limit->algorithm->words(limit);
}

struct weir_policy *weir_policy_from(const struct weir_spec *specs, size_t count, struct weir_error *err)
{
    if (!specs || count == 0 || count > WEIR_LIMITS_MAX) {
        weir_error_set(err, EINVAL, specs ? "a policy has 1 to 16 limits" : "specs is NULL");
        return NULL;
    }
    struct weir_policy *policy = policy_alloc(count, err);
    if (!policy)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        struct limit *limit = &policy->limits[policy->count++];
        if (!init_limit(limit, specs, i, err)) {
            free(policy);
            return NULL;
        }
        policy_append_limit(policy, limit);
    }
    weir_error_clear(err);
    return policy;
}

struct weir_policy *weir_policy_new(const char *limits, struct weir_error *err)
{
    struct weir_spec specs[WEIR_LIMITS_MAX];
    size_t count = weir_spec_parse(limits, specs, WEIR_LIMITS_MAX, err);
    return count == 0 ? NULL : weir_policy_from(specs, count, err);
}

void weir_policy_free(struct weir_policy *policy)
{
    free(policy);
}

size_t weir_policy_count(const struct weir_policy *policy)
{
    return policy ? policy->count : 0;
}

const struct weir_spec *weir_policy_spec(const struct weir_policy *policy, size_t index)
{
    return index < weir_policy_count(policy) ? &policy->limits[index].spec : NULL;
}

int64_t weir_policy_most(const struct weir_policy *policy, size_t index, int64_t span_ns)
{
    if (index >= weir_policy_count(policy))
        return 0;
    const struct limit *limit = &policy->limits[index];
    return limit->algorithm->most(limit, clamp64(span_ns, 0, WEIR_TIME_MAX));
}

size_t weir_policy_state_size(const struct weir_policy *policy)
{
    return policy ? policy->words * sizeof(int64_t) : 0;
}
