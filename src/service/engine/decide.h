/* SPDX-License-Identifier: MIT */
/*
 * Deciding, without a protocol: policies by name, modes, overrides, candidates and counters around the verbs
 * of a table. All of it within a worker's read section.
 */
#ifndef WEIR_SERVICE_ENGINE_DECIDE_H
#define WEIR_SERVICE_ENGINE_DECIDE_H

#include "service/engine/lookup.h"
#include "service/engine/request.h"

/* Where several pairs are decided, each tier of an address is one of them, behind its first tier.
 *
 * All or none; at most PAIRS_MAX pairs. Counts. */
void weir_decide_take(struct worker *worker, const struct pair *pairs, size_t count, struct answer *answer);
/* The same without charging anything, if every pair is in shadow or disabled; else false, and nothing was
 * decided. */
bool weir_decide_unrecorded(struct worker *worker, const struct pair *pairs, size_t count,
                            struct answer *answer);
/* What a take of one pair, with its tiers, would be told; counts nothing. */
void weir_decide_peek(struct worker *worker, const struct pair *pairs, size_t count, struct answer *answer);
/* Promises units within timeout_ns (below 0: the limit's timeout=, else none): answer->promise. Counts. */
void weir_decide_reserve(struct worker *worker, const struct pair *pair, int64_t timeout_ns,
                         struct answer *answer);

/* What limit number `limit` of this key is called; valid for this read section, and until the next answer.
 * Of a table of before a change, unless `previous` is NULL. */
const char *weir_decide_label(struct worker *worker, const struct pair *pair,
                              const struct policy_table *previous, int32_t limit);

/* The table of before the last change of the policy, if it decides about this key, too; else NULL. */
struct policy_table *weir_decide_previous(const struct worker *worker, const struct pair *pair);

/* Fetches the memory that the next decision about this key will need; gives the pair's hash. */
uint64_t weir_decide_prefetch(const struct policy *policy, struct slice key);

#endif
