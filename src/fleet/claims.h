/* SPDX-License-Identifier: MIT */
/*
 * Those who wait for units of a member, first come, first served: threads in acquire, which sleep, and
 * asynchronous takes, which are answered by the agent's thread.
 *
 * Law: each has one answer. Units come with an end; a thread that wakes at or after it does not have them,
 * and waits again in front of all others.
 */
#ifndef WEIR_FLEET_CLAIMS_H
#define WEIR_FLEET_CLAIMS_H

#include <stdatomic.h>

#include "weir-fleet.h"

struct fleet_member;

enum claim_state { CLAIM_WAITS, CLAIM_HAS, CLAIM_REFUSED };

struct claim {
    struct claim *next, *prev;
    int64_t n, began_ns, deadline_ns;
    enum claim_state state;
    int32_t reason;    /* REFUSED */
    int64_t until_ns;  /* HAS */
    int64_t remaining; /* HAS: what was left here */
    /* A thread on whose stack it is. */
    _Atomic uint32_t *word; /* it sleeps on: `own`, or the word of its weir_stop */
    _Atomic uint32_t own;
    /* Or one that is called. */
    weir_fleet_answer *answer;
    void *arg;
};

struct claims {
    struct claim *first, *last;
    int64_t count, units; /* units: of all */
    /* How far hopeless ones were looked for: nobody before `fresh` was, by what could be hoped for then. */
    struct claim *fresh;
    int64_t next_ns;           /* the first asynchronous one has to be answered then, or later */
    int64_t retry_at_ns, most; /* of `view` */
};

/* weir_limiter_acquire of a member. */
bool weir_claims_acquire(struct fleet_member *member, int64_t now, int64_t n, int64_t timeout_ns,
                         struct weir_stop *stop, struct weir_verdict *verdict);
/* weir_fleet_take. */
bool weir_claims_take(struct fleet_member *member, int64_t now, int64_t n, int64_t timeout_ns,
                      weir_fleet_answer *answer, void *arg);

/* ---- by the agent's thread ---- */

/* Gives what is there to whoever is first, refuses those who cannot hope any more, and answers. true: units
 * have moved. */
bool weir_claims_serve(struct fleet_member *member, int64_t now);
/* Nobody waits from now on: all are told WEIR_CANCELED. */
void weir_claims_cancel(struct fleet_member *member);
/* The same for threads alone, by anybody, and nobody is called. */
void weir_claims_cancel_threads(struct fleet_member *member);
/* Units that are waited for. */
int64_t weir_claims_units(struct fleet_member *member);
/* When the first asynchronous take has to be answered with no, or a little before; after weir_claims_serve.
 */
int64_t weir_claims_next(struct fleet_member *member);

#endif
