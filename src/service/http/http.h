/* SPDX-License-Identifier: MIT */
/*
 * HTTP requests, without a socket: struct http_request in, bytes of a response out.
 */
#ifndef WEIR_SERVICE_HTTP_HTTP_H
#define WEIR_SERVICE_HTTP_HTTP_H

#include "http/request.h"
#include "service/commands/call.h"

/* Runs a request and appends its response to `out`. `admin`: administrative routes are served on its address.
 * RUN_PENDING with nothing done: the credentials are being checked; the same request is to be run again when
 * session->pending was answered, so its bytes must stay as they are. */
struct run_result weir_http_run(struct worker *worker, struct session *session, struct http_request *request,
                                bool admin, struct buffer *out);
/* The response to bytes that are no request, after which the connection is to be closed. */
void weir_http_refuse(struct worker *worker, int status, const char *why, struct buffer *out);

/* What the command has replied, in the call's `out` behind `before` bytes, becomes what the exchange wants.
 */
void weir_http_finish(struct call *call, size_t before);

#endif
