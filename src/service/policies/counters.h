/* SPDX-License-Identifier: MIT */
/*
 * What was decided. Each worker counts in memory of its own, which it alone writes and any thread reads; sums
 * are made by whoever reads. All editions of a policy share its counters, so a reload that keeps the policy
 * keeps its counts.
 *
 * Refusals are also counted by the label of the limit that refused. An edition of a policy lists the labels
 * that its verdicts can show: of its own limits, of prefixes and of keys with limits of their own. A label
 * that a later edition still has keeps its count; one that none has any more is dropped.
 */
#ifndef WEIR_SERVICE_POLICIES_COUNTERS_H
#define WEIR_SERVICE_POLICIES_COUNTERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/sat.h"

#define LABEL_MAX          128
#define LIMIT_COUNTERS_MAX 32 /* labels of a policy that are counted apart; the rest shares OTHER_LIMITS */
#define OTHER_LIMITS       "other"
#define BLOCK_LABEL        "block" /* of what block: of a policy refuses, and allow: lets pass: */
#define ALLOW_LABEL        "allow"

/* What clients speak; counters of decisions have one of each. */
enum protocol { PROTOCOL_RESP, PROTOCOL_HTTP, PROTOCOLS };

enum decision_result {
    RESULT_ALLOWED,
    RESULT_REFUSED,
    RESULT_SHADOW_REFUSED, /* refused on paper, and allowed */
    RESULT_UNAVAILABLE,    /* nothing could be decided */
    RESULTS
};

/* Counters that one thread writes and others read. Units can be as many as a client says. */
static inline void count_up(_Atomic int64_t *count, int64_t by)
{
    atomic_store_explicit(count, sat_add(atomic_load_explicit(count, memory_order_relaxed), by),
                          memory_order_relaxed);
}

/* One worker's: nobody else writes it. A take over RESP touches the first cache line alone. */
struct policy_counts {
    _Alignas(64) _Atomic int64_t units;
    _Atomic int64_t candidate_refused, errors;
    _Atomic int64_t decisions[PROTOCOLS][RESULTS];
};

/* What limits with this label have refused. */
struct limit_counter {
    struct limit_counter *next; /* of the policy; under the service's `change` */
    _Atomic uint32_t refs;      /* editions, and the list that `next` makes */
    char label[LABEL_MAX];
    struct {
        _Alignas(64) _Atomic int64_t refused;
    } of[]; /* each worker */
};

struct policy_counters {
    _Atomic uint32_t refs;
    uint32_t workers;
    struct limit_counter *limits;  /* of all editions; under the service's `change` */
    struct policy_counts counts[]; /* one of each worker */
};

/* Those of an edition; immutable. The first is that of OTHER_LIMITS. */
struct limit_counters {
    size_t count;
    struct limit_counter *of[1 + LIMIT_COUNTERS_MAX];
};

struct policy_sums {
    int64_t decisions[PROTOCOLS][RESULTS];
    int64_t allowed; /* of all protocols; shadow-refused ones included */
    int64_t refused, shadow_refused, candidate_refused, errors, units;
};

struct policy_counters *weir_counters_new(uint32_t workers);
void weir_counters_free(struct policy_counters *counters); /* one reference */
void weir_counters_sum(const struct policy_counters *counters, struct policy_sums *sums);

struct policy;
/* Lists the labels of an edition that nobody uses yet, unless it has the list. Under the service's `change`.
 * false: out of memory. */
bool weir_limit_counters_make(struct policy *policy);
void weir_limit_counters_free(struct limit_counters *limits); /* NULL is fine */
/* By worker `number`: a limit with this label has refused. */
void weir_limit_counters_refused(const struct limit_counters *limits, uint32_t number, const char *label);
int64_t weir_limit_counter_sum(const struct limit_counter *limit, uint32_t workers);

#endif
