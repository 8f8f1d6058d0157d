/* SPDX-License-Identifier: MIT */
/*
 * A sampled log of refusals: who was refused, by which limit. Off unless `log: {refusals: 10/s}` says how
 * often; what is above that is counted, and the next line tells how many it stands for:
 *
 *     event=refused policy=api limit=10/s key=user:42 user=app client=10.0.0.9:50211 retry_after_ms=100
 *     not_logged=318
 *
 * Law: lines and the numbers in them, together with what is not told yet, are all refusals since the start.
 * Limits of the log itself (service/log.h) do not count here: this has one of its own.
 */
#ifndef WEIR_SERVICE_REFUSAL_LOG_H
#define WEIR_SERVICE_REFUSAL_LOG_H

#include "service/engine/request.h"

struct refusal_log;

/* NULL: an error. */
struct refusal_log *weir_refusal_log_new(const char *limit, struct weir_error *err);
void weir_refusal_log_free(struct refusal_log *log);

/* Any thread, in the read section of the request, which was answered with a refusal. `client`: its address.
 */
void weir_refusal_log_tell(struct refusal_log *log, const struct request *request,
                           const struct answer *answer, const char *client, int64_t now_ns);

#endif
