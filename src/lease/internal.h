/* SPDX-License-Identifier: MIT */
/*
 * What the files of the lease machine share; the law is in lease.h.
 *
 *   lease.c  options, the step, when to wake
 *   epoch.c  which epoch it is, until when its units may be spent
 *   reply.c  what the coordinator answers
 *   order.c  what it is asked
 *   loss.c   when it does not answer
 */
#ifndef WEIR_LEASE_INTERNAL_H
#define WEIR_LEASE_INTERNAL_H

#include "base/random.h"
#include "base/sat.h"
#include "lease/lease.h"
#include "weir.h"

#define LEASE_MS  INT64_C(1000000)
#define LEASE_SEC INT64_C(1000000000)

/* One step. */
struct lease_run {
    struct lease *lease;
    struct lease_actions *out;
    int64_t now;
    int64_t held, wanted, spent; /* of the balance, with what this step has changed */
};

/* A span that one clock measures lasts at most so long by another one: (1 + rho) / (1 - rho). */
static inline int64_t span_up(const struct lease *lease, int64_t ns)
{
    return mul_div_up(max64(ns, 0), 1000000 + lease->options.rho_ppm, 1000000 - lease->options.rho_ppm);
}

/* And at least so long: (1 - rho) / (1 + rho) >= 1 - 2 rho. */
static inline int64_t span_down(const struct lease *lease, int64_t ns)
{
    return mul_div(max64(ns, 0), 1000000 - 2 * (int64_t)lease->options.rho_ppm, 1000000);
}

/* Orders of this kind that are on the way. */
size_t weir_lease_flying(const struct lease *lease, int32_t op);
/* Units below which the next chunk is asked for. */
int64_t weir_lease_low(const struct lease_run *run);
/* Somebody wants units, or spends some. */
bool weir_lease_active(const struct lease_run *run);
/* Nobody does, but somebody was there lately, and may find units when he comes again. */
bool weir_lease_keeps_ready(const struct lease_run *run);

/* ---- epoch.c ---- */

/* All units in the balance are void. */
void weir_lease_clear(struct lease_run *run);
/* `epoch` is the latest now; what was known to be before it began: `before_ns`, or -1. */
void weir_lease_enter(struct lease_run *run, uint64_t epoch, const struct lease_terms *terms,
                      int64_t before_ns);
/* The terms of this epoch, if they were not known yet and can be meant. */
void weir_lease_learn(struct lease_run *run, const struct lease_terms *terms);
/* Something more is known to lie before this epoch began. */
void weir_lease_before(struct lease *lease, int64_t before_ns);
/* Until when units of this epoch may be spent, as far as is known; 0: nothing is. */
int64_t weir_lease_deadline(const struct lease *lease);
/* Puts units of this epoch into the balance, or drops them if their time has passed. false: dropped. */
bool weir_lease_grant(struct lease_run *run, int64_t units, int64_t from_ns, int64_t until_ns);

/* ---- reply.c ---- */

void weir_lease_replied(struct lease_run *run, const struct lease_event *event);
/* An order that nobody will answer any more, taken out of the flight. */
void weir_lease_doubt(struct lease_run *run, size_t at);

/* ---- order.c ---- */

void weir_lease_ask(struct lease_run *run);
void weir_lease_withdrew(struct lease_run *run, int64_t chunks);
/* Whole chunks go back to this epoch. */
void weir_lease_return(struct lease_run *run, int64_t chunks);
void weir_lease_leave(struct lease_run *run);

/* ---- loss.c ---- */

/* The coordinator has answered; or has not, to something sent then. */
void weir_lease_answered(struct lease_run *run);
void weir_lease_unanswered(struct lease_run *run, int64_t sent_ns, int64_t retry_ns);
/* Orders without a reply, units whose time is over. */
void weir_lease_expire(struct lease_run *run);
/* It is lost before it was ever there. */
void weir_lease_away(struct lease_run *run);
/* Is it lost? What is done about it. */
void weir_lease_watch(struct lease_run *run);

#endif
