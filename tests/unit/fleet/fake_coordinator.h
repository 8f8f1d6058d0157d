/* SPDX-License-Identifier: MIT */
/*
 * A coordinator for tests, fake://NAME: pools (lease/pool.h) on weir_now behind faults that the test says.
 * One for the process. Needs -Wl,--wrap=weir_coordinator_kind.
 */
#ifndef WEIR_TESTS_FAKE_COORDINATOR_H
#define WEIR_TESTS_FAKE_COORDINATOR_H

#include "fleet/coordinator.h"
#include "lease/pool.h"

enum fake_way {
    FAKE_ANSWER,     /* applied and answered at once */
    FAKE_HOLD,       /* kept until fake_release */
    FAKE_LOSE_REPLY, /* applied; UNKNOWN */
    FAKE_LOSE,       /* not applied; UNKNOWN */
    FAKE_FAIL,       /* not applied; FAILED */
    FAKE_FORBID,     /* the same, and it says why: "the fake coordinator does not know you" */
    FAKE_SILENT,     /* not applied, and never answered */
    FAKE_SLOW,       /* the same, and to be told so takes 4 s: the clock is set */
    FAKE_TWICE       /* applied once, answered twice */
};

struct fake_counts {
    int64_t opens, closes, enters, leaves; /* opens: tries, also those that fail */
    int64_t open;                          /* now */
    int64_t places;                        /* that have not left */
    int64_t orders, ops[5];
    int64_t granted;  /* units of all TAKEs that were applied, whether the reply came or not */
    int64_t returned; /* chunks */
};

/* As at the start: no pools, everything is answered. Nobody may be joined. */
void fake_begin(enum lease_pool_flags way);
void fake_say(enum fake_way way);
/* From now on `open` fails (with a message that says so); or does so again. */
void fake_refuse(bool refuse);
/* `open` waits until this is false again. */
void fake_block_open(bool block);
void fake_refuse_names(bool refuse);
/* The connection of all is lost, or back. */
void fake_connect(bool up, const char *why);
/* Applies and answers what was held; gives how many that were. */
size_t fake_release(void);
/* How many are held. */
size_t fake_held(void);
/* Tells all places that there is more, or that epoch `epoch` was seen. */
void fake_more(void);
void fake_notice(uint64_t epoch);
void fake_trouble(const char *why);
struct fake_counts fake_counts(void);
/* The pool of that name as it is now; false: there is none. */
bool fake_pool(const char *name, struct lease_pool *pool);

#endif
