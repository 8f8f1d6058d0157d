/* SPDX-License-Identifier: MIT */
/*
 * How much room policy tables have, and what all of it takes of the budget.
 */
#ifndef WEIR_SERVICE_POLICIES_GROWTH_H
#define WEIR_SERVICE_POLICIES_GROWTH_H

#include "service/service.h"

#define GROWTH_KEYS_LEAST  INT64_C(4096)
#define GROWTH_KEYS_MOST   INT64_C(16384)
#define GROWTH_KEYS_PREFIX INT64_C(1024) /* of an override of a prefix */

/* Room from the start for the keys of one of `policies` policies. */
int64_t weir_growth_first(const struct service *service, const char *limits, size_t policies);
/* The same for one that is set by command: a part of what is free. */
int64_t weir_growth_next(const struct service *service, const char *limits);
/* So many keys, or as many as the budget has room for. */
int64_t weir_growth_room(const struct service *service, const char *limits, int64_t keys);
/* Memory of a policy table. Places for limits of single keys count when they are used. */
int64_t weir_growth_bytes(const struct policy_table *ptable);
/* Of everything that the budget is for, with the policy tables of that snapshot. */
int64_t weir_growth_total(const struct service *service, const struct snapshot *snapshot);
/* Writes that to service->memory_used. Under `change`, or in a read section. */
void weir_growth_count(struct service *service);

/* Memory that room for so many keys takes beyond what it has. */
int64_t weir_growth_cost(const struct policy_table *ptable, int64_t keys);
/* Gives a policy room for so many keys, if it has less; logs if that fails. Under `change`. */
void weir_growth_give(struct service *service, const struct policy *policy, int64_t keys);

/* ---- the growth thread ---- */

bool weir_growth_init(struct growth *growth); /* false: out of memory */
void weir_growth_end(struct growth *growth);
/* Before others use the service; without it tables grow in the tick. false: there is no thread to be had. */
bool weir_growth_start(struct service *service);
void weir_growth_stop(struct service *service);
/* The tables of a snapshot that is about to be published tell the thread when they need room. */
void weir_growth_serve(struct service *service, const struct snapshot *snapshot);

/* Now and then, by the job thread: tables grow, ends of modes and overrides come, sweeps, retired snapshots
 * go, rates are measured. */
void weir_service_tick(struct service *service);

#endif
