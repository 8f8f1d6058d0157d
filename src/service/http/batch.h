/* SPDX-License-Identifier: MIT */
#ifndef WEIR_SERVICE_HTTP_BATCH_H
#define WEIR_SERVICE_HTTP_BATCH_H

#include "service/http/http_run.h"

#define HTTP_BATCH_MAX 1000 /* requests */

/* Runs the requests in the body, and answers them in their order. */
void weir_http_batch(struct http_run *run);

#endif
