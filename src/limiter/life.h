/* SPDX-License-Identifier: MIT */
/* How a limiter begins and ends, and who hears of what it does. */
#ifndef WEIR_LIMITER_LIFE_H
#define WEIR_LIMITER_LIFE_H

#include "limiter/limiter.h"

/* Called once, before the limiter is shared. false: out of memory. */
bool weir_limiter_set_name(struct weir_limiter *limiter, const char *name);
void weir_limiter_destroy(struct weir_limiter *limiter);

void weir_limiter_notify(struct weir_limiter *limiter, int32_t kind, int32_t reason, int64_t n, int64_t now);

static inline void limiter_notify(struct weir_limiter *limiter, bool allowed, int64_t n, int64_t now,
                                  const struct weir_verdict *verdict)
{
    if (__builtin_expect(listeners_any(&limiter->listeners), 0))
        weir_limiter_notify(limiter, allowed ? WEIR_EVENT_SUCCESS : WEIR_EVENT_FAILURE,
                            allowed   ? WEIR_OK
                            : verdict ? verdict->reason
                                      : WEIR_LATER,
                            n, now);
}

/* The thread of algo=hybrid fill=thread. */
int64_t weir_filler_time(const struct filler *filler, int64_t now);

/* A limiter whose units come out of this balance, and that says `text` (canonical limits) of itself. take,
 * peek, give, charge, drain, acquire, call, stat, listeners, names and references work as with any limiter;
 * reserve is a take or a refusal, and to cancel it is a give under the same deadline; set, reset and handles
 * are refused. In a forked child it refuses everything. NULL: out of memory, or `text` is no limit. */
struct weir_limiter *weir_balance_limiter(struct lease_balance *balance, const char *text,
                                          struct weir_error *err);

#endif
