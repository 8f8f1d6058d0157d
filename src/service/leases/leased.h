/* SPDX-License-Identifier: MIT */
/*
 * Deciding on units that this server has leased for a policy (policy->leases): the verbs of a table, on the
 * pool of a key. All of it within a worker's read section; nothing blocks.
 */
#ifndef WEIR_SERVICE_LEASES_LEASED_H
#define WEIR_SERVICE_LEASES_LEASED_H

#include "service/engine/decide.h"

struct leased_answer {
    struct weir_verdict verdict;
    bool may_come;    /* refused, but more may come within the policy's `wait` */
    int64_t until_ns; /* allowed: they may be spent, and given back, until then */
};

bool weir_leased_take(const struct worker *worker, const struct pair *pair, struct leased_answer *leased);
bool weir_leased_peek(const struct worker *worker, const struct pair *pair, struct weir_verdict *verdict);
void weir_leased_give(const struct worker *worker, const struct pair *pair);
bool weir_leased_charge(const struct worker *worker, const struct pair *pair); /* false: no room for it */
/* Units that were taken with that end; after it, they are gone. */
void weir_leased_return(const struct worker *worker, const struct pair *pair, int64_t until_ns);

/* The label of its one limit. */
static inline const char *leased_label(const struct policy *policy)
{
    return policy->labels && policy->labels->count > 0 ? policy->labels->text[0] : "";
}

#endif
