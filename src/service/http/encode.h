/* SPDX-License-Identifier: MIT */
/*
 * Decisions over HTTP: struct answer -> JSON with all its numbers, or a sentence; Retry-After and the
 * RateLimit fields. All numbers of an object come from one limit. What has no bound, or is not known, is
 * null.
 */
#ifndef WEIR_SERVICE_HTTP_ENCODE_H
#define WEIR_SERVICE_HTTP_ENCODE_H

#include "service/commands/call.h"

/* The whole response, or the element of a batch; `limits` is what weir_http_encode_limits wrote earlier, of
 * an answer that has waited, or NULL. */
void weir_http_encode_answer(struct call *call, const struct request *request, const struct answer *answer,
                             const struct buffer *limits);
/* The limits of an answer alone: a list. */
void weir_http_encode_limits(struct buffer *out, const struct request *request, const struct answer *answer);

#endif
