/* SPDX-License-Identifier: MIT */
#ifndef WEIR_CORE_HYBRID_H
#define WEIR_CORE_HYBRID_H

#include "core/limit.h"

/* hybrid alone: EngineBlock's restart, how far behind the callers are, and that with all that was
 * discarded before. */
int64_t weir_hybrid_restart(const struct limit *limit, int64_t *state, int64_t now);
int64_t weir_hybrid_behind(const struct limit *limit, const int64_t *state, int64_t now);
int64_t weir_hybrid_behind_total(const struct limit *limit, const int64_t *state, int64_t now);

#endif
