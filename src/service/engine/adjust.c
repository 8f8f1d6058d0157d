/* SPDX-License-Identifier: MIT */
#include "service/engine/adjust.h"

#include "service/engine/decide.h"
#include "service/leases/leased.h"
#include "table/verbs.h"

/* The policy tables that know of this key, at most three; also while the policy is disabled: what is charged
 * has happened. */
static size_t tables_of_pair(const struct worker *worker, const struct pair *pair,
                             struct policy_table **ptables)
{
    size_t count = 0;
    struct policy_table *ptable = weir_policy_find_table(pair->policy, pair->key, NULL);
    ptables[count++] = ptable;
    struct policy_table *previous = weir_decide_previous(worker, pair);
    if (previous)
        ptables[count++] = previous;
    if (weir_policy_has_candidate(pair->policy, pair->key, ptable))
        ptables[count++] = pair->policy->candidate_table;
    return count;
}

void weir_decide_give(struct worker *worker, const struct pair *pair)
{
    struct policy_table *ptables[3];
    size_t count = tables_of_pair(worker, pair, ptables);
    if (pair->policy->leases) {
        weir_leased_give(worker, pair);
        return;
    }
    for (size_t i = 0; i < count; i++)
        weir_table_give_at(ptables[i]->table, worker->now_ns, pair->key.bytes, pair->key.len, pair->n);
}

bool weir_decide_charge(struct worker *worker, const struct pair *pair)
{
    struct policy_table *ptables[3];
    size_t count = tables_of_pair(worker, pair, ptables);
    bool counted = true;
    if (pair->policy->leases)
        return weir_leased_charge(worker, pair);
    for (size_t i = 0; i < count; i++) {
        bool done =
            weir_table_charge_at(ptables[i]->table, worker->now_ns, pair->key.bytes, pair->key.len, pair->n);
        counted = counted && (done || ptables[i] == pair->policy->candidate_table);
    }
    return counted;
}

void weir_decide_reset(struct worker *worker, const struct pair *pair)
{
    struct policy_table *ptable = weir_policy_find_table(pair->policy, pair->key, NULL);
    struct policy_table *ptables[] = {ptable, pair->policy->previous, pair->policy->candidate_table};
    for (size_t i = 0; i < sizeof ptables / sizeof *ptables; i++)
        if (ptables[i])
            weir_table_reset_at(ptables[i]->table, worker->now_ns, pair->key.bytes, pair->key.len);
}
