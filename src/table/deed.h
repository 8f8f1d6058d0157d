/* SPDX-License-Identifier: MIT */
/*
 * A deed: one verb and all it needs, to be done to the state of one key. So every kind of table has one way
 * in, and a verb is written once.
 */
#ifndef WEIR_TABLE_DEED_H
#define WEIR_TABLE_DEED_H

#include "core/limit.h"
#include "core/state.h"

enum verb {
    VERB_TAKE,
    VERB_PEEK,
    VERB_RESERVE,
    VERB_CANCEL,
    VERB_GIVE,
    VERB_CHARGE,
    VERB_RESET,
    VERB_EXPLAIN
};

struct deed {
    enum verb verb;
    int64_t now; /* region time */
    int64_t n, timeout_ns;
    struct weir_reservation *reservation; /* RESERVE: filled, may be NULL. CANCEL. In region time */
    struct weir_verdict *verdict;         /* or NULL */
    struct weir_limit_state *limits;      /* EXPLAIN */
    size_t limit_count;                   /* EXPLAIN: in: elements; out: limits */
};

/* Does it to a state in the form of the core; gives the answer (EXPLAIN, GIVE, CHARGE, RESET: true). */
bool weir_deed_do(const struct weir_policy *policy, int64_t *state, struct deed *deed);

/* The same for a key that is not in the table, whose state `fresh` is: what can be answered without putting
 * it there is, and then *insert is false. */
bool weir_deed_absent(const struct weir_policy *policy, int64_t *fresh, struct deed *deed, bool *insert);

/* Could it make the state less spent? Such deeds draw a lowering number. */
static inline bool deed_lowers(const struct deed *deed)
{
    return deed->verb == VERB_GIVE || deed->verb == VERB_CANCEL || deed->verb == VERB_RESET;
}

/* Does it ask for units that are then the caller's? */
static inline bool deed_takes(const struct deed *deed)
{
    return deed->verb == VERB_TAKE || deed->verb == VERB_RESERVE;
}

/* Does it leave the state as it is? */
static inline bool deed_reads(const struct deed *deed)
{
    return deed->verb == VERB_PEEK || deed->verb == VERB_EXPLAIN;
}

/* There is no room for the key, and it does not share: refused. */
bool weir_deed_full(struct deed *deed);

#endif
