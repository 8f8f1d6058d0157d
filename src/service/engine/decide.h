/* SPDX-License-Identifier: MIT */
/*
 * Deciding, without a protocol: policies by name, modes, overrides, candidates and counters around the verbs
 * of a table. All of it within a worker's read section.
 */
#ifndef WEIR_SERVICE_ENGINE_DECIDE_H
#define WEIR_SERVICE_ENGINE_DECIDE_H

#include "service/engine/request.h"

/* Makes the key of a pair the one that is counted. */
void weir_pair_map(struct pair *pair);

/* Which policy table counts this key: an override of a prefix, or the main one. Labels are those of its
 * limits. */
struct policy_table *weir_policy_find_table(const struct policy *policy, struct slice key,
                                            const struct limit_labels **labels);
/* As it stands at `now`: modes that have ended count no more, MODE * stands above all. */
enum policy_mode weir_policy_mode(const struct worker *worker, const struct policy *policy, struct slice key);

/* All or none; at most PAIRS_MAX pairs. Counts. */
void weir_decide_take(struct worker *worker, const struct pair *pairs, size_t count, struct answer *answer);
/* The same without charging anything, if every pair is in shadow or disabled; else false, and nothing was
 * decided. */
bool weir_decide_unrecorded(struct worker *worker, const struct pair *pairs, size_t count,
                            struct answer *answer);
/* What a take would be told; counts nothing. */
void weir_decide_peek(struct worker *worker, const struct pair *pair, struct answer *answer);
/* Promises units within timeout_ns (below 0: the limit's timeout=, else none): answer->promise. Counts. */
void weir_decide_reserve(struct worker *worker, const struct pair *pair, int64_t timeout_ns,
                         struct answer *answer);
void weir_decide_give(struct worker *worker, const struct pair *pair);
bool weir_decide_charge(struct worker *worker, const struct pair *pair); /* false: no room for the key */
void weir_decide_reset(struct worker *worker, const struct pair *pair);

/* What limit number `limit` of this key is called; valid for this read section, and until the next answer.
 * Of a table of before a change, unless `previous` is NULL. */
const char *weir_decide_label(struct worker *worker, const struct pair *pair,
                              const struct policy_table *previous, int32_t limit);
const struct policy_override *weir_policy_override(const struct policy *policy,
                                                   struct slice key); /* or NULL */

/* The table of before the last change of the policy, if it decides about this key, too; else NULL. */
struct policy_table *weir_decide_previous(const struct worker *worker, const struct pair *pair);

/* Fetches the memory that the next decision about this key will need; gives the pair's hash. */
uint64_t weir_decide_prefetch(const struct policy *policy, struct slice key);

#endif
