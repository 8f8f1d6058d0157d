/* SPDX-License-Identifier: MIT */
#include "store/store_time.h"

#include <string.h>

#include "os/clock.h"

/* By the wall clock, which may have been wrong then, or may be now. */
static int64_t elapsed_by_wall(const struct recovered *last, struct store_found *found)
{
    int64_t step = sat_sub(weir_boot.wall(), last->wall_ns);
    found->other_boot = true;
    found->wall_step_ns = min64(step, 0);
    return clamp64(step, 0, STORE_TIME_ELAPSED_MAX_NS);
}

static int64_t elapsed_since(const struct store *store, int64_t host_now, bool same_boot,
                             struct store_found *found)
{
    const struct recovered *last = &store->recovered;
    if (store->options.no_elapsed)
        return 0;
    if (!same_boot)
        return elapsed_by_wall(last, found);
    return max64(0, sat_sub(sat_add(host_now, last->offset_ns), last->time_ns));
}

void weir_store_time_set(struct store *store, struct store_found *found)
{
    const struct recovered *last = &store->recovered;
    int64_t shift = 0, now = weir_now();
    bool known = weir_boot.id(store->boot) && weir_boot.shift(&shift);
    int64_t host_now = sat_sub(now, shift);
    store->host_offset_ns = sat_sub(now, host_now);
    ASSERT(last->has_time || sat_add(host_now, store->host_offset_ns) == now);
    if (!last->has_time)
        return;
    bool same_boot = known && memcmp(store->boot, last->boot, sizeof store->boot) == 0;
    int64_t time = clamp64(last->time_ns, 0, WEIR_TIME_MAX);
    found->elapsed_ns = elapsed_since(store, host_now, same_boot, found);
    time = min64(sat_add(time, found->elapsed_ns), WEIR_TIME_MAX);
    store->offset_ns = time - now;
    store->host_offset_ns = sat_sub(time, host_now);
    ASSERT(found->elapsed_ns >= 0 && sat_add(now, store->offset_ns) >= min64(last->time_ns, WEIR_TIME_MAX));
    ASSERT(!same_boot || memcmp(store->boot, last->boot, sizeof store->boot) == 0);
    ASSERT(same_boot || found->elapsed_ns <= STORE_TIME_ELAPSED_MAX_NS);
}
