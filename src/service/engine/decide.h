/* SPDX-License-Identifier: MIT */
/*
 * Deciding, without a protocol: policies by name, modes, overrides, candidates and counters around the verbs
 * of a table. All of it within a worker's read section.
 */
#ifndef WEIR_SERVICE_ENGINE_DECIDE_H
#define WEIR_SERVICE_ENGINE_DECIDE_H

#include "service/service.h"

#define KEY_MAX 4096 /* bytes of a key */
#define PAIRS_MAX                                                                                            \
    (WEIR_ALL_MAX / 2) /* of one question: each may have a previous policy table to ask as well */
/* Units of one request: a number that was mistyped must not be a debt for ever. */
#define UNITS_MAX INT64_C(1000000000000)

enum answer_reason {
    ANSWER_OK,
    ANSWER_LATER,
    ANSWER_NEVER,
    ANSWER_SHADOW,
    ANSWER_FULL,
    ANSWER_DISABLED,
    ANSWER_LOST,
    ANSWER_SHARED
};

struct answer {
    bool allowed;
    enum answer_reason reason;
    int64_t remaining;
    int64_t retry_after_ns; /* 0 if allowed; WEIR_FOREVER: never */
    int64_t reset_after_ns;
    int32_t limit;      /* index in labels; -1: the policy is disabled */
    int32_t pair;       /* which of several decided */
    const char *policy; /* its name, if there were several pairs; else NULL */
    const char *label;  /* of the limit that decided; valid for this read section */
    int64_t wait_ns;    /* of a promise: until it is due */
    uint32_t
        charged; /* bit i: the units of pair i were charged to its policy table (weir_policy_find_table) */
    uint32_t candidate_charged; /* bit i: and to that of its candidate */
    /* Nothing was decided or counted: units of a fleet are on their way, and a patient one may ask again, for
     * hold_ns at the most. */
    bool waits_for_fleet;
    int64_t hold_ns;
    int64_t ends_ns; /* units of a fleet were taken that may be spent, or given back, until then; 0: none */
};

struct pair {
    struct policy *policy;
    struct slice key; /* as it is counted */
    int64_t n;
    uint64_t hash;     /* of the key, in the policy table that counts it, if it is known already; else 0 */
    struct slice said; /* as it was said, if that is another one: keys of a fleet (weir_pools_key) */
    bool patient;      /* see struct answer */
    char digest[POOLS_DIGEST]; /* room for a key */
};

/* The key of a pair, as it was said. */
static inline struct slice pair_said(const struct pair *pair)
{
    return pair->said.bytes ? pair->said : pair->key;
}
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
/* Promises units within timeout_ns (below 0: the limit's timeout=, else none). `reservation` is filled.
 * Counts. */
void weir_decide_reserve(struct worker *worker, const struct pair *pair, int64_t timeout_ns,
                         struct weir_reservation *reservation, struct answer *answer);
void weir_decide_give(struct worker *worker, const struct pair *pair);
bool weir_decide_charge(struct worker *worker, const struct pair *pair); /* false: no room for the key */
void weir_decide_reset(struct worker *worker, const struct pair *pair);

/* What limit number `limit` of this key is called; valid for this read section, and until the next answer. */
const char *weir_decide_label(struct worker *worker, const struct pair *pair, int32_t limit);
const struct policy_override *weir_policy_override(const struct policy *policy,
                                                   struct slice key); /* or NULL */

/* Fetches the memory that the next decision about this key will need; gives the pair's `who`. */
uint64_t weir_decide_prefetch(const struct policy *policy, struct slice key);

#endif
