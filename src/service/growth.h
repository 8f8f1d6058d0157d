/* SPDX-License-Identifier: MIT */
/*
 * How much room tallies have, and what all of it takes of the budget.
 */
#ifndef WEIR_SERVICE_GROWTH_H
#define WEIR_SERVICE_GROWTH_H

#include "service/service.h"

#define GROWTH_KEYS_LEAST  INT64_C(4096)
#define GROWTH_KEYS_MOST   INT64_C(1048576)
#define GROWTH_KEYS_PREFIX INT64_C(1024) /* of an override of a prefix */

/* Room from the start for the keys of one of `policies` policies. */
int64_t weir_growth_first(const struct service *service, const char *limits, size_t policies);
/* The same for one that is set by command: a part of what is free, because nobody knows how many will come; a
 * table that was made large is faster than one that has grown. */
int64_t weir_growth_next(const struct service *service, const char *limits);
/* So many keys, or as many as the budget has room for. */
int64_t weir_growth_room(const struct service *service, const char *limits, int64_t keys);
/* Memory of a tally. Places for limits of single keys count when they are used. */
int64_t weir_growth_bytes(const struct tally *tally);
/* Of everything that the budget is for, with the tallies of that snapshot. */
int64_t weir_growth_total(const struct service *service, const struct snapshot *snapshot);
/* Writes that to service->memory_used. Under `change`. */
void weir_growth_count(struct service *service);

#endif
