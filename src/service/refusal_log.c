/* SPDX-License-Identifier: MIT */
#include "service/refusal_log.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/error.h"
#include "service/engine/engine.h"
#include "service/log.h"

struct refusal_log {
    struct weir_limiter *limiter;
    _Atomic int64_t not_logged; /* since the last line. Memory order: relaxed, each is told once */
};

struct refusal_log *weir_refusal_log_new(const char *limit, struct weir_error *err)
{
    struct refusal_log *log = calloc(1, sizeof *log);
    if (!log) {
        weir_error_set(err, ENOMEM, "out of memory");
        return NULL;
    }
    log->limiter = weir_limiter_new(limit, err);
    if (!log->limiter) {
        free(log);
        return NULL;
    }
    return log;
}

void weir_refusal_log_free(struct refusal_log *log)
{
    if (log)
        weir_limiter_free(log->limiter);
    free(log);
}

void weir_refusal_log_tell(struct refusal_log *log, const struct request *request,
                           const struct answer *answer, const char *client, int64_t now_ns)
{
    const struct pair *pair = &request->pairs[answer->pair];
    char key[72];
    ASSERT(!answer->allowed && (size_t)answer->pair < request->count);
    if (!weir_limiter_take_at(log->limiter, now_ns, 1, NULL)) {
        (void)atomic_fetch_add_explicit(&log->not_logged, 1, memory_order_relaxed);
        return;
    }
    int64_t not_logged = atomic_exchange_explicit(&log->not_logged, 0, memory_order_relaxed);
    weir_log_change(LOG_INFO_LEVEL, "refused", LOG_TEXT("policy", pair->policy->name),
                    LOG_TEXT("limit", answer->label), LOG_TEXT("key", weir_shown(pair_said(pair), key)),
                    LOG_TEXT("user", request->user->name), LOG_TEXT("client", client),
                    LOG_NUMBER("retry_after_ms", ms_up(answer->retry_after_ns)),
                    LOG_NUMBER("not_logged", not_logged));
}
