/* SPDX-License-Identifier: MIT */
#ifndef WEIR_CORE_EXPLAIN_H
#define WEIR_CORE_EXPLAIN_H

#include "core/limit.h"

/* Fills an element for each limit of the policy, at most `count`. Nothing changes. */
void weir_state_explain(const struct weir_policy *policy, const int64_t *state, int64_t now,
                        struct weir_limit_state *limits, size_t count);

#endif
