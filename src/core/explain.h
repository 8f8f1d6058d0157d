/* SPDX-License-Identifier: MIT */
#ifndef WEIR_CORE_EXPLAIN_H
#define WEIR_CORE_EXPLAIN_H

#include "core/limit.h"

/* The most units that are there at one instant; in a warm-up's store, those of a cold one. */
int64_t weir_limit_capacity(const struct limit *limit);

/* Units that all limits let pass now; a verdict tells them of one. */
int64_t weir_state_available(const struct weir_policy *policy, const int64_t *state, int64_t now);

/* Units that may be charged until a limit owes as much as it lets pass at once. Limits that let any number
 * pass do not count. */
int64_t weir_state_chargeable(const struct weir_policy *policy, const int64_t *state, int64_t now);

/* Fills an element for each limit of the policy, at most `count`. Nothing changes. */
void weir_state_explain(const struct weir_policy *policy, const int64_t *state, int64_t now,
                        struct weir_limit_state *limits, size_t count);

/* A limit and how it stands, in numbers. INT64_MAX: without a bound. */
struct limit_numbers {
    const char *name; /* its name=, or its text; perhaps in `text` */
    char text[128];
    int32_t pair; /* whose, of several keys that are asked for together */
    int64_t count, window_ns, burst;
    int64_t used, remaining; /* used is more than burst if the key is in debt */
    int64_t reset_after_ns;  /* until it is idle; WEIR_FOREVER: never */
    int64_t retry_after_ns;  /* until this limit lets n units pass */
};
/* The same as weir_state_explain, for a request of n units. To put names into words takes longer than all the
 * rest: without `named` they are empty, for callers that know them. */
void weir_state_numbers(const struct weir_policy *policy, const int64_t *state, int64_t now, int64_t n,
                        bool named, struct limit_numbers *numbers, size_t count);

#endif
