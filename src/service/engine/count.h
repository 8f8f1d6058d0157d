/* SPDX-License-Identifier: MIT */
/*
 * Counts what was decided with the policy that it was about, for the worker and the protocol of the request.
 */
#ifndef WEIR_SERVICE_ENGINE_COUNT_H
#define WEIR_SERVICE_ENGINE_COUNT_H

#include "service/engine/request.h"

static inline struct policy_counts *counts_of(const struct worker *worker, const struct policy *policy)
{
    return &policy->counters->counts[worker->number];
}

/* Allowed; `shadow`: though a limit refused. */
static inline void count_allowed(struct worker *worker, const struct policy *policy, int64_t units,
                                 bool shadow)
{
    struct policy_counts *counts = counts_of(worker, policy);
    count_up(&counts->decisions[worker->protocol][shadow ? RESULT_SHADOW_REFUSED : RESULT_ALLOWED], 1);
    count_up(&counts->units, units);
}

/* Refused by the limit with that label. */
static inline void count_refused(struct worker *worker, const struct policy *policy, const char *label)
{
    count_up(&counts_of(worker, policy)->decisions[worker->protocol][RESULT_REFUSED], 1);
    weir_limit_counters_refused(policy->limit_counters, worker->number, label);
}

/* Nothing could be decided: with each policy of the request. */
static inline void count_unavailable(struct worker *worker, const struct request *request)
{
    for (size_t i = 0; i < request->count; i++) {
        const struct policy *policy = request->pairs[i].policy;
        if (policy)
            count_up(&counts_of(worker, policy)->decisions[worker->protocol][RESULT_UNAVAILABLE], 1);
    }
}

#endif
