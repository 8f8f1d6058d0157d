/* SPDX-License-Identifier: MIT */
/*
 * The laws of the lease machine and of a pool (lease.h, pool.h), looked at from outside: what was before a
 * step, what came, what is after it. Of builds with assertions alone.
 */
#ifndef WEIR_LEASE_CHECK_H
#define WEIR_LEASE_CHECK_H

#include "base/assert.h"
#include "lease/pool.h"

#if WEIR_ASSERTIONS
void weir_lease_check(const struct lease *before, const struct lease_event *event,
                      const struct lease_balance_view *balance, int64_t now, const struct lease *after,
                      const struct lease_actions *actions);
/* What a coordinator may answer: no more than was asked for. */
void weir_reply_check(const struct lease_order *order, const struct lease_reply *reply);
void weir_pool_check(const struct lease_pool *before, const struct lease_order *order, int64_t now,
                     const struct lease_pool *after, const struct lease_reply *reply);
#endif

#endif
