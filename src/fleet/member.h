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
#include "limiter/balance.h"
#include "weir-fleet.h"

/* Reads `?name=value&...` of a URL over `options`, and checks all of it. */
bool weir_fleet_options_read(struct weir_fleet_options *options, const struct fleet_url *url,
                             struct weir_error *err);

/* Terms of a spec: one limit, algo=quota or token-bucket. */
bool weir_fleet_terms(const char *spec, const struct weir_fleet_options *options, struct lease_terms *terms,
                      struct weir_error *err);

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

/* ---- for `weir quota` ---- */

/* Opens the coordinator of a URL, asks, closes it. */
bool weir_quota_ask(const char *url, const struct quota_ask *ask, struct quota_answer *answer,
                    struct weir_error *err);

#endif
