/* SPDX-License-Identifier: MIT */
/*
 * Deciding, without a protocol: policies by name, modes, overrides, candidates and counters around the verbs
 * of a table. All of it within a worker's turn.
 */
#ifndef WEIR_SERVICE_DECIDE_H
#define WEIR_SERVICE_DECIDE_H

#include "service/service.h"

#define KEY_MAX 4096 /* bytes of a key */

enum answer_reason { ANSWER_OK, ANSWER_LATER, ANSWER_NEVER, ANSWER_SHADOW, ANSWER_FULL, ANSWER_LOST };
const char *weir_answer_reason(int reason); /* "ok", "later", "never", "shadow", "full", "lost" */

struct answer {
    bool allowed;
    enum answer_reason reason;
    int64_t remaining;
    int64_t retry_after_ns; /* 0 if allowed; WEIR_FOREVER: never */
    int64_t reset_after_ns;
    int32_t limit;      /* index in labels */
    int32_t pair;       /* which of several decided */
    const char *policy; /* its name, if there were several pairs; else NULL */
    const char *label;  /* of the limit that decided; valid for this turn */
};

struct pair {
    struct policy *policy;
    struct slice key;
    int64_t n;
};

/* Which tally counts this key: an override of a prefix, or the main one. Labels are those of its limits. */
struct tally *weir_policy_tally(const struct policy *policy, struct slice key, const struct labels **labels);
/* As it stands at `now`: modes that have ended count no more, MODE * stands above all. */
enum policy_mode weir_policy_mode(const struct worker *worker, const struct policy *policy, struct slice key);

/* All or none; at most WEIR_ALL_MAX pairs. Counts. */
void weir_decide_take(struct worker *worker, const struct pair *pairs, size_t count, struct answer *answer);
/* What a take would be told; counts nothing. */
void weir_decide_peek(struct worker *worker, const struct pair *pair, struct answer *answer);
/* Promises units within timeout_ns (below 0: the limit's timeout=, else none). `reservation` is filled.
 * Counts. */
void weir_decide_reserve(struct worker *worker, const struct pair *pair, int64_t timeout_ns,
                         struct weir_reservation *reservation, struct answer *answer);
void weir_decide_give(struct worker *worker, const struct pair *pair);
bool weir_decide_charge(struct worker *worker, const struct pair *pair); /* false: no room for the key */
void weir_decide_reset(struct worker *worker, const struct pair *pair);

/* Fetches the memory that the next decision about this key will need. */
void weir_decide_prefetch(const struct policy *policy, struct slice key);

#endif
