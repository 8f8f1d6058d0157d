/* SPDX-License-Identifier: MIT */
/*
 * A function that runs under a limiter.
 */
#include "limiter/limiter.h"

static void drain_limiter(struct weir_limiter *limiter, struct weir_verdict *verdict)
{
    (void)weir_limiter_drain(limiter);
    if (verdict)
        verdict->remaining = 0;
}

bool weir_limiter_call(struct weir_limiter *limiter, struct weir_call *call, struct weir_verdict *verdict)
{
    if (!call || !call->run)
        return weir_limiter_take(NULL, 0, verdict);
    int64_t n = call->count ? call->count(call->arg) : call->n == 0 ? 1 : call->n;
    if (!weir_limiter_acquire_unless(limiter, n, call->timeout_ns, call->stop, verdict))
        return false;
    call->result = call->run(call->arg);
    if (call->drain_on && call->drain_on(call->arg, call->result))
        drain_limiter(limiter, verdict);
    return true;
}
