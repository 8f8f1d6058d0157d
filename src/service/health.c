/* SPDX-License-Identifier: MIT */
#include "service/health.h"

#include "store/commit.h"

bool weir_health_live(const struct service *service, int64_t now_ms, uint32_t *silent)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < service->options.workers; i++) {
        int64_t seen_ms = atomic_load_explicit(&service->workers[i].heartbeat_ms, memory_order_relaxed);
        count += sat_sub(now_ms, seen_ms) > HEALTH_SILENT_MS;
    }
    if (silent)
        *silent = count;
    return count == 0;
}

bool weir_health_ready(const struct service *service, struct buffer *reasons_json)
{
    const char *reasons[3];
    size_t count = 0;
    if (!service)
        reasons[count++] = "loading";
    if (service && atomic_load_explicit(&service->draining, memory_order_relaxed))
        reasons[count++] = "draining";
    if (service && service->store && !weir_store_is_well(service->store))
        reasons[count++] = "store";
    buffer_put(reasons_json, "[", 1);
    for (size_t i = 0; i < count; i++)
        weir_buffer_print(reasons_json, "%s\"%s\"", i > 0 ? "," : "", reasons[i]);
    buffer_put(reasons_json, "]", 1);
    return count == 0;
}
