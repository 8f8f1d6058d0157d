/* SPDX-License-Identifier: MIT */
/*
 * Runs a scenario on the library (the pure core, or a limiter) and on the model side by side, and checks
 * after every operation that the two agree in every field of the verdict, a refusal and a peek leave every
 * byte of the state as it was, retry_after, remaining and reset_after are true, by asking again at those
 * times and for those units, and at the end that the log of admissions keeps the law over all intervals.
 */
#ifndef WEIR_TESTS_PROPERTY_RUN_H
#define WEIR_TESTS_PROPERTY_RUN_H

#include "model/law.h"
#include "property/scenario.h"

struct held {
    uint32_t id;
    bool passed;  /* its time has come, on some clock */
    size_t event; /* in the log */
    struct weir_reservation reservations[MODEL_LIMITS];
    struct model_promise promises[MODEL_LIMITS];
};

struct run;

/* What is driven. The verbs are those of weir.h; each leaves in run->state what the state is now, in the form
 * of the core. */
struct subject {
    bool is_limiter;
    void (*begin)(struct run *run, int64_t at);
    void (*end)(struct run *run);
    bool (*take)(struct run *run, int64_t at, int64_t n, struct weir_verdict *verdict);
    bool (*peek)(struct run *run, int64_t at, int64_t n, struct weir_verdict *verdict);
    /* `reservations` has an element for each limit; a limiter fills the first. */
    bool (*reserve)(struct run *run, int64_t at, int64_t n, int64_t timeout,
                    struct weir_reservation *reservations, struct weir_verdict *verdict);
    bool (*cancel)(struct run *run, int64_t at, struct weir_reservation *reservations);
    void (*give)(struct run *run, int64_t at, int64_t n);
    void (*charge)(struct run *run, int64_t at, int64_t n);
    int64_t (*drain)(struct run *run, int64_t at);
    void (*reset)(struct run *run, int64_t at);
    int64_t (*restart)(struct run *run, int64_t at);
    int64_t (*behind)(struct run *run, int64_t at);
    /* From `policy` to `next`. run->policy is what is in force after that. */
    void (*change)(struct run *run, int64_t at, const struct weir_policy *policy,
                   const struct weir_policy *next);
};

extern const struct subject subject_state, subject_limiter;

/* What a limiter can undo exactly: the last promise, if nothing has happened since.
 */
struct run_undo {
    bool kept;
    int64_t n, due, age, number;
    struct model_policy model;                        /* as it was before */
    int64_t clock[MODEL_LIMITS], local[MODEL_LIMITS]; /* of the law */
};

struct run {
    const struct scenario *scenario;
    const struct subject *subject;
    struct weir_limiter *limiter;     /* subject_limiter */
    const struct weir_policy *policy; /* in force */
    const struct weir_policy *said;   /* the last one that was set: the same, or a pause */
    int64_t behind_before;            /* of hybrid limits that a limiter had before, in all */
    int64_t *state, *before, *copy;
    size_t size; /* of a state, in bytes */
    struct model_policy model;
    struct run_undo undo;
    struct law_log law;
    struct held held[SCENARIO_OPS];
    size_t held_count;
    int64_t now;               /* of the last operation, clamped to the range of time */
    struct weir_verdict last;  /* what the library said last */
    struct weir_verdict retry; /* the last refusal */
    uint64_t decisions;
    char fault[512]; /* what went wrong; "" if nothing did */
};

bool run_begin(struct run *run, const struct scenario *scenario);
bool run_op(struct run *run, const struct op *op);
bool run_finish(struct run *run);
void run_end(struct run *run);

/* An operation that suits the run so far. */
struct op run_roll(const struct run *run, uint32_t id, struct dice *dice);

/* Runs the whole list; false if something went wrong, with the reason in `fault`. */
bool run_scenario(const struct scenario *scenario, char *fault, size_t size);

/* Makes the list as short and its numbers as small as they can be while it still fails. */
void run_shrink(struct scenario *scenario);

/* Runs random scenarios of a policy with these algorithms (chosen anew by `roll`, if there is one, for each)
 * until so many decisions were made. A failure is shrunk and printed, and stops. */
struct prove {
    const char *name;
    const int32_t *algos;
    size_t count;
    void (*roll)(struct dice *dice, int32_t *algos, size_t *count);
    const struct subject *subject; /* NULL: subject_state */
    bool strangers;                /* see scenario_build */
    uint64_t seed, stream;
    int64_t decisions;
};

bool run_prove(const struct prove *prove);

#endif
