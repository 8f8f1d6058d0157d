/* SPDX-License-Identifier: MIT */
#include "property/agree.h"

#include <inttypes.h>
#include <stdio.h>

static bool has_warmup(const struct weir_policy *policy)
{
    for (size_t i = 0; i < policy->count; i++)
        if (policy->limits[i].spec.algo == WEIR_WARMUP)
            return true;
    return false;
}

/* A warmup's store is a double: what comes from it may differ by some roundings of a full one. */
bool agree_near(const struct weir_policy *policy, const struct model_policy *model, int64_t a, int64_t b)
{
    double apart = (double)(a > b ? sat_sub(a, b) : sat_sub(b, a)), slack = 0;
    for (size_t i = 0; i < policy->count; i++) {
        const struct limit *limit = &policy->limits[i];
        double most = limit->u.warmup.most, idle = most * limit->u.warmup.cool;
        if (limit->spec.algo == WEIR_WARMUP)
            slack += 2 + (idle + most + (double)model->limits[i].u.warmup.cost) * 0x1p-42;
    }
    return apart <= slack;
}

/* Forever is what comes after the end of time, and that may be near. */
static int64_t reset_of(const struct weir_policy *policy, int64_t now, const struct weir_verdict *v)
{
    int64_t end = WEIR_TIME_MAX;
    for (size_t i = 0; i < policy->count; i++)
        if (policy->limits[i].spec.algo == WEIR_WARMUP)
            end = min64(end, policy->limits[i].ticks.time_max);
    bool forever = v->reset_after_ns == WEIR_FOREVER && has_warmup(policy);
    return forever ? end + 1 - now : v->reset_after_ns;
}

/* A verdict describes one limit. Where a rounding of a warmup's store decides which one, the library and the
 * model may choose differently: then the model describes the library's limit, if that may be the right one.
 */
static bool describe_the_same(const struct weir_policy *policy, const struct model_policy *model, int64_t now,
                              const struct weir_verdict *got, struct weir_verdict *want)
{
    if (got->limit == want->limit)
        return true;
    if (!has_warmup(policy) || got->limit < 0 || (size_t)got->limit >= policy->count)
        return false;
    size_t mine = (size_t)got->limit, its = (size_t)want->limit;
    bool free = want->allowed && want->wait_ns == 0;
    if (free && !model_has_no_more_left(model, now, mine, its))
        return false;
    model_describe(model, now, mine, want);
    return true;
}

bool agree_verdicts(const struct weir_policy *policy, const struct model_policy *model, int64_t now,
                    const struct weir_verdict *got, const struct weir_verdict *wanted)
{
    struct weir_verdict copy = *wanted, *want = &copy;
    return describe_the_same(policy, model, now, got, want) && got->allowed == want->allowed &&
           got->reason == want->reason && agree_near(policy, model, got->remaining, want->remaining) &&
           got->retry_after_ns == want->retry_after_ns &&
           agree_near(policy, model, reset_of(policy, now, got), reset_of(policy, now, want)) &&
           got->wait_ns == want->wait_ns && got->behind_ns == want->behind_ns && got->reserved[0] == 0 &&
           got->reserved[1] == 0 && got->reserved[2] == 0;
}

void agree_print(const char *verb, const struct weir_verdict *got, const struct weir_verdict *want,
                 char *text, size_t size)
{
    (void)snprintf(text, size,
                   "%s and model differ: allowed %d %d, reason %d %d, remaining %" PRId64 " %" PRId64
                   ", retry %" PRId64 " %" PRId64 ", reset %" PRId64 " %" PRId64 ", wait %" PRId64 " %" PRId64
                   ", behind %" PRId64 " %" PRId64 ", limit %d %d",
                   verb, got->allowed, want->allowed, got->reason, want->reason, got->remaining,
                   want->remaining, got->retry_after_ns, want->retry_after_ns, got->reset_after_ns,
                   want->reset_after_ns, got->wait_ns, want->wait_ns, got->behind_ns, want->behind_ns,
                   got->limit, want->limit);
}
