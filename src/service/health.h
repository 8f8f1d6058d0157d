/* SPDX-License-Identifier: MIT */
/*
 * What probes ask. Alive: every I/O thread does its work, so a restart would not help. Ready: the server can
 * decide. A coordinator that is away is no reason: policies say by themselves what to answer then, and
 * a restart elsewhere would find it away as well.
 */
#ifndef WEIR_SERVICE_HEALTH_H
#define WEIR_SERVICE_HEALTH_H

#include "service/service.h"

#define HEALTH_SILENT_MS 5000 /* an I/O thread that was not seen for longer does not work */

/* By the I/O thread, at least once a second. `now_ms` is of CLOCK_MONOTONIC. */
static inline void health_beat(struct worker *worker, int64_t now_ms)
{
    atomic_store_explicit(&worker->heartbeat_ms, now_ms, memory_order_relaxed);
}

/* Any thread. `silent`, or NULL: how many I/O threads were not seen for HEALTH_SILENT_MS. */
bool weir_health_live(const struct service *service, int64_t now_ms, uint32_t *silent);

/* Any thread. Appends why not as a JSON array of words, [] if there is no reason: loading (`service` is NULL:
 * it is not there yet), draining, store. */
bool weir_health_ready(const struct service *service, struct buffer *reasons_json);

#endif
