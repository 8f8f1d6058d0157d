/* SPDX-License-Identifier: MIT */
/*
 * Members and agents: how the lease machine (lease/lease.h), a balance (limiter/balance.h) and a coordinator
 * come together.
 *
 *   agent    one for each coordinator (by URL) of a process: a thread, an inbox, the coordinator; counted
 *            by members
 *   member   one for each name at an agent: balance, machine, those who wait. Whoever joins the same name at
 * the same coordinator again with the same limit shares it
 *
 * The agent's thread alone steps machines and fills balances. Everybody else puts something into its inbox (a
 * want, a reply, somebody who waits) and wakes it. Grants serve those who wait first, in the order of their
 * coming; the rest goes into the balance. A grant that has not started (a bucket's) waits in the member until
 * it has.
 */
#ifndef WEIR_FLEET_MEMBER_H
#define WEIR_FLEET_MEMBER_H

#include "fleet/coordinator.h"
#include "limiter/balance_limiter.h"
#include "weir-fleet.h"

/* Joins as weir_fleet_join_with. `patient`: also if the coordinator cannot be reached now: it is lost then,
 * and joined when it comes (the server's way). */
struct weir_limiter *weir_member_join(const char *url, const char *name, const char *spec,
                                      const struct weir_fleet_options *options, bool patient,
                                      struct weir_error *err);

/* Called by the agent's thread whenever the balance got something, or refusals may have another reason now.
 * One for each limiter; must not block. */
typedef void member_moved(void *arg);
void weir_member_watch(struct weir_limiter *limiter, member_moved *moved, void *arg);

/* Why the coordinator is lost, as it said; "" if it is not. */
void weir_member_trouble(struct weir_limiter *limiter, char *text, size_t size);

/* ---- for agent.c, claims.c and fleet.c ---- */

struct fleet_member;
/* It could not be reached: it counts as lost from now on, until it is. true also if it was reached meanwhile;
 * false: it was, and has refused: `err`. */
bool weir_member_begin_lost(struct fleet_member *member, struct weir_error *err);
struct fleet_member *
weir_member_of(const struct weir_limiter *limiter);  /* NULL: it is none, or of another process */
void weir_member_unref(struct fleet_member *member); /* one holder less */
/* false, and the verdict says no for sure: no answer within the timeout can be another. */
bool weir_member_may_succeed(struct fleet_member *member, int64_t now, int64_t n, int64_t timeout_ns,
                             struct weir_verdict *verdict);
void weir_member_explain(struct fleet_member *member, int64_t now, int64_t n, struct weir_verdict *verdict);

#endif
