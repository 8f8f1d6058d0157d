/* SPDX-License-Identifier: MIT */
#ifndef WEIR_SERVICE_HTTP_BROWSER_H
#define WEIR_SERVICE_HTTP_BROWSER_H

#include "service/http/http_run.h"

/* Keeps the header fields for a page of another site that weir.yaml lets in. */
void weir_browser_note_cors(struct http_run *run);
/* May it be run, as far as web pages go (access.h)? false: it was answered. */
bool weir_browser_check(struct http_run *run, bool exempt);
void weir_browser_preflight(struct http_run *run);

#endif
