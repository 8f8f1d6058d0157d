/* SPDX-License-Identifier: MIT */
/*
 * An operation: one verb and all it needs, to be done to the state of one key. So every kind of table has one
 * way in, and a verb is written once.
 */
#ifndef WEIR_TABLE_OP_H
#define WEIR_TABLE_OP_H

#include "core/limit.h"
#include "core/state.h"

enum table_verb {
    VERB_TAKE,
    VERB_PEEK,
    VERB_RESERVE,
    VERB_CANCEL,
    VERB_GIVE,
    VERB_CHARGE,
    VERB_RESET,
    VERB_EXPLAIN,
    VERB_EXPORT, /* see export.h */
    VERB_IMPORT
};

/* A state on its way from one table to another. */
struct state_transfer {
    int64_t *words; /* EXPORT: `room` of them; IMPORT: `count` */
    size_t room, count;
    const struct weir_policy *policy; /* by which the words count: to be compared, not to be used */
    int64_t spent[WEIR_LIMITS_MAX];   /* units, of each limit */
    size_t limits;
    bool idle; /* EXPORT: it is as if never used */
};

struct table_op {
    enum table_verb verb;
    int64_t now; /* region time */
    int64_t n, timeout_ns;
    struct weir_reservation *reservation; /* RESERVE: filled, may be NULL. CANCEL. In region time */
    struct weir_verdict *verdict;         /* or NULL */
    struct weir_limit_state *limits;      /* EXPLAIN; EXPORT: all of WEIR_LIMITS_MAX */
    struct limit_numbers *numbers;        /* EXPLAIN: instead of them, for n units; or NULL */
    bool named;                           /* and with their names */
    size_t limit_count;                   /* EXPLAIN: in: elements; out: limits */
    int64_t chargeable;                   /* EXPLAIN: out, but with numbers: see weir_state_chargeable */
    struct state_transfer *transfer;      /* EXPORT: filled; IMPORT */
    bool changed; /* out: the state is another one now; set where that is found out under a lock */
};

/* Copies a state that another process may write to at any time; gives the copy. */
int64_t *weir_state_load(const struct weir_policy *policy, const int64_t *state, int64_t *copy);
/* The same; what can be no state of the policy becomes one that has nothing left. */
int64_t *weir_state_fetch(const struct weir_policy *policy, const int64_t *state, int64_t *copy, int64_t now);

/* Does it to a state in the form of the core; gives the answer (EXPLAIN, GIVE, CHARGE, RESET: true). */
bool weir_table_op_run(const struct weir_policy *policy, int64_t *state, struct table_op *op);

/* The same for a key that is not in the table, whose state `fresh` is, which is `shared` if it is what keys
 * without room have left: what can be answered without putting it there is, and then *insert is false. */
bool weir_table_op_absent(const struct weir_policy *policy, int64_t *fresh, bool shared, struct table_op *op,
                          bool *insert);

/* Could it have changed a state of the policy that it was done to, with this answer? */
bool weir_table_op_may_change(const struct weir_policy *policy, const struct table_op *op, bool answer);

/* Could it make the state less spent? Such operations draw a lowering number. */
static inline bool table_op_lowers(const struct table_op *op)
{
    return op->verb == VERB_GIVE || op->verb == VERB_CANCEL || op->verb == VERB_RESET;
}

/* Does it ask for units that are then the caller's? */
static inline bool table_op_takes(const struct table_op *op)
{
    return op->verb == VERB_TAKE || op->verb == VERB_RESERVE;
}

/* Does it leave the state as it is? */
static inline bool table_op_reads(const struct table_op *op)
{
    return op->verb == VERB_PEEK || op->verb == VERB_EXPLAIN || op->verb == VERB_EXPORT;
}

/* Does it count what has happened already? That is nobody else's: it needs room of its own. */
static inline bool table_op_charges(const struct table_op *op)
{
    return op->verb == VERB_CHARGE || op->verb == VERB_IMPORT;
}

/* It was decided by what keys without room share: a refusal says so. */
static inline void weir_table_op_shared(struct table_op *op, bool answer)
{
    if (!answer && op->verdict && op->verdict->reason == WEIR_LATER)
        op->verdict->reason = WEIR_SHARED;
}

/* A question that makes no sense. */
static inline bool table_reject(struct weir_verdict *verdict)
{
    if (verdict)
        *verdict = (struct weir_verdict){.reason = WEIR_INVALID, .retry_after_ns = WEIR_FOREVER};
    return false;
}

/* There is no room for the key, and it does not share: refused. */
bool weir_table_op_full(struct table_op *op);

#endif
