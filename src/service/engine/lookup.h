/* SPDX-License-Identifier: MIT */
/*
 * What counts for a key of a policy: which policy table, which override, which mode. Within a read section.
 */
#ifndef WEIR_SERVICE_ENGINE_LOOKUP_H
#define WEIR_SERVICE_ENGINE_LOOKUP_H

#include "service/service.h"

const struct policy_override *weir_policy_override(const struct policy *policy,
                                                   struct slice key); /* or NULL */
/* Which policy table counts this key: an override of a prefix, or the main one. Labels are those of its
 * limits. */
struct policy_table *weir_policy_find_table(const struct policy *policy, struct slice key,
                                            const struct limit_labels **labels);
/* Has this table a candidate beside it for the key? It stands in for the limits of the policy, not for
 * overrides. */
bool weir_policy_has_candidate(const struct policy *policy, struct slice key,
                               const struct policy_table *ptable);
/* As it stands at `now`: modes that have ended count no more, MODE * stands above all. */
enum policy_mode weir_policy_mode(const struct worker *worker, const struct policy *policy, struct slice key);

static inline bool policy_has_override(const struct policy *policy, struct slice key)
{
    return __builtin_expect(policy->key_count > 0, 0) && weir_policy_override(policy, key) != NULL;
}

#endif
