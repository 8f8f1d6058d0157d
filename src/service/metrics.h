/* SPDX-License-Identifier: MIT */
/*
 * What Prometheus scrapes, as its text format 0.0.4 or as OpenMetrics 1.0. docs/operations.md has the table.
 *
 * Every policy has all of its series from the start, with zeros; one that is removed has none any more. No
 * key of a client is ever in a label.
 */
#ifndef WEIR_SERVICE_METRICS_H
#define WEIR_SERVICE_METRICS_H

#include "service/service.h"

#define METRICS_TEXT_TYPE "text/plain; version=0.0.4; charset=utf-8"
#define METRICS_OPEN_TYPE "application/openmetrics-text; version=1.0.0; charset=utf-8"

/* Appends all metrics; `out` bounds how much that can be. Policies that the user may not use are left out;
 * NULL: none is. In a read section; keys of all tables are counted, so it is a job (WEIR.METRICS). */
void weir_metrics_write(struct worker *worker, const struct user *user, bool openmetrics, struct buffer *out);

#endif
