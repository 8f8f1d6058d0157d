/* SPDX-License-Identifier: MIT */
/*
 * A scenario: the policies that a state goes through, and a list of operations with everything in them
 * written out, so that any part of the list can be run again without the rest.
 */
#ifndef WEIR_TESTS_PROPERTY_SCENARIO_H
#define WEIR_TESTS_PROPERTY_SCENARIO_H

#include <stdio.h>

#include "model/model.h"
#include "property/dice.h"

#define SCENARIO_OPS      120
#define SCENARIO_POLICIES 3

enum op_kind {
    OP_TAKE,
    OP_PEEK,
    OP_RESERVE,
    OP_CANCEL,
    OP_GIVE,
    OP_CHARGE,
    OP_DRAIN,
    OP_RESET,
    OP_CHANGE,
    OP_RESTART
};

struct op {
    enum op_kind kind;
    int64_t at, n, timeout;
    uint32_t id;
    uint32_t ref; /* cancel: the id of the reserve; change: the number of the policy */
};

/* What the traffic is made of. */
enum mood {
    MOOD_MIXED,
    MOOD_SINGLE,   /* one unit at a time, nothing given back */
    MOOD_PROMISES, /* reserve and cancel, with gives and charges between */
    MOOD_LAST
};

struct subject;

struct scenario {
    const struct subject *subject; /* who runs it: see run.h */
    struct weir_policy *policies[SCENARIO_POLICIES];
    int64_t start;
    enum mood mood;
    struct op ops[SCENARIO_OPS];
    size_t count;
};

/* `algos`: the algorithms of its limits. `strangers`: a live change may also be one to another algorithm. */
void scenario_build(struct scenario *scenario, const int32_t *algos, size_t count, bool strangers,
                    struct dice *dice);
void scenario_free(struct scenario *scenario);
void scenario_print(const struct scenario *scenario, FILE *out);

/* A random spec that compiles. */
struct weir_spec scenario_spec(int32_t algo, struct dice *dice);

#endif
