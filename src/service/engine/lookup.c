/* SPDX-License-Identifier: MIT */
#include "service/engine/lookup.h"

#include <string.h>

#include "base/hash.h"
#include "base/sat.h"

const struct policy_override *weir_policy_override(const struct policy *policy, struct slice key)
{
    size_t low = 0, high = policy->key_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct policy_override *own = &policy->keys[middle];
        size_t both = own->len < key.len ? own->len : key.len;
        int order = both > 0 ? memcmp(own->key, key.bytes, both) : 0;
        if (order == 0 && own->len == key.len)
            return own;
        if (order < 0 || (order == 0 && own->len < key.len))
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

struct policy_table *weir_policy_find_table(const struct policy *policy, struct slice key,
                                            const struct limit_labels **labels)
{
    if (__builtin_expect(policy->prefix_count > 0, 0) && !policy_has_override(policy, key))
        for (size_t i = 0; i < policy->prefix_count; i++) {
            const struct policy_override *prefix = &policy->prefixes[i];
            if (key.len >= prefix->len && memcmp(key.bytes, prefix->key, prefix->len) == 0) {
                if (labels)
                    *labels = prefix->labels;
                return prefix->ptable;
            }
        }
    if (labels)
        *labels = policy->labels;
    return policy->main;
}

/* The same keys on every machine and after every start, other ones in every policy; and who is among the
 * first 5 % is among the first 25 %. */
static bool is_in_percent(const struct policy *policy, struct slice key, int percent)
{
    const struct hash_key fixed = {UINT64_C(0x70657263656e7421), UINT64_C(0x6f66746865206b65)};
    struct hash_key own = {weir_hash(&fixed, policy->name, strlen(policy->name)), fixed.high};
    return mulhi(weir_hash(&own, key.bytes, key.len), 100) < (uint64_t)max64(percent, 0);
}

enum policy_mode weir_policy_mode(const struct worker *worker, const struct policy *policy, struct slice key)
{
    const struct snapshot *snapshot = worker->snapshot;
    if (__builtin_expect(snapshot->mode_for_all, 0) && !worker_is_past(worker, snapshot->all_until_ms))
        return snapshot->all_mode;
    bool over = worker_is_past(worker, policy->mode_until_ms);
    enum policy_mode mode = over ? policy->mode_after : policy->mode;
    int percent = over ? policy->percent_after : policy->percent;
    if (mode != MODE_ENFORCE || percent >= CONFIG_PERCENT_ALL)
        return mode;
    return is_in_percent(policy, key, percent) ? MODE_ENFORCE : MODE_SHADOW;
}

bool weir_policy_has_candidate(const struct policy *policy, struct slice key,
                               const struct policy_table *ptable)
{
    return __builtin_expect(policy->candidate_table != NULL, 0) && ptable == policy->main &&
           !policy_has_override(policy, key);
}
