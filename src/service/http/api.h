/* SPDX-License-Identifier: MIT */
#ifndef WEIR_SERVICE_HTTP_API_H
#define WEIR_SERVICE_HTTP_API_H

#include "service/http/endpoints.h"
#include "service/http/http_run.h"

/* Runs what a path behind /v1/ means. */
void weir_http_api(struct http_run *run, struct slice path);
/* Runs the words that a row of endpoints.h makes of the request. */
void weir_http_endpoint(struct http_run *run, const struct endpoint *endpoint, struct slice policy,
                        struct slice key);
/* Answers 405 with the methods that there are, and 404 with what was probably meant. */
void weir_http_not_allowed(struct http_run *run, unsigned allowed);
void weir_http_not_found(struct http_run *run, struct slice behind_v1);

#endif
