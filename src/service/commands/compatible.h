/* SPDX-License-Identifier: MIT */
/*
 * What the commands of other limiters share: their limits come with the call.
 */
#ifndef WEIR_SERVICE_COMMANDS_COMPATIBLE_H
#define WEIR_SERVICE_COMMANDS_COMPATIBLE_H

#include "service/run.h"
#include "service/shares.h"

#define HORIZON_DEFAULT_NS (INT64_C(31) * 86400 * WEIR_SEC)

static inline int64_t horizon_of(const struct call *call)
{
    int64_t horizon_ns = call->worker->service->horizon_ns;
    return horizon_ns > 0 ? horizon_ns : HORIZON_DEFAULT_NS;
}

/* Who may name a limit must not fill the memory with one that lasts for years. */
static inline void refuse_horizon(struct call *call)
{
    weir_call_error(call,
                    "ERR this limit needs longer than %lld s to be full again (client_limits: horizon); make "
                    "it a policy instead: WEIR.POLICY SET name limits",
                    (long long)(horizon_of(call) / WEIR_SEC));
}

/* A whole number as these clients write them: +1 and 007, too. */
static inline bool read_signed(struct slice text, int64_t *number)
{
    bool negative = text.len > 0 && text.bytes[0] == '-';
    size_t at = negative || (text.len > 0 && text.bytes[0] == '+');
    int64_t value = 0;
    if (at == text.len)
        return false;
    for (; at < text.len; at++) {
        int digit = text.bytes[at] - '0';
        if (digit < 0 || digit > 9 || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, negative ? -digit : digit, &value))
            return false;
    }
    *number = value;
    return true;
}

static inline void count_decision(struct worker *worker, bool allowed)
{
    count_up(&worker->client_limits[worker->protocol][allowed], 1);
}

#endif
