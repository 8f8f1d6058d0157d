/* SPDX-License-Identifier: MIT */
/*
 * Many takes at once. A take of a large table mostly waits for memory; so first all keys are hashed and their
 * lines asked for, and then decided on, when they have arrived.
 */
#include "os/clock.h"
#include "table/verbs.h"

#define FLIGHT                                                                                               \
    32 /* lines that are fetched at the same time; processors can have some more than 10 on the way */

static bool reject_batch(struct weir_verdict *verdict)
{
    *verdict = (struct weir_verdict){.reason = WEIR_INVALID, .retry_after_ns = WEIR_FOREVER};
    return false;
}

static size_t take_prefetched(struct weir_ask *asks, size_t count, int64_t now_ns)
{
    struct key keys[FLIGHT];
    size_t passed = 0;
    for (size_t i = 0; i < count; i++) {
        const struct weir_ask *ask = &asks[i];
        keys[i].hash = 0;
        if (weir_table_knows(ask->table, ask->key, ask->len)) {
            keys[i] = table_key(ask->table, ask->key, ask->len);
            ask->table->kind->prefetch(ask->table, keys[i].hash);
        }
    }
    for (size_t i = 0; i < count; i++) {
        struct weir_ask *ask = &asks[i];
        bool allowed = keys[i].hash != 0 ? weir_table_take_key(ask->table, &keys[i],
                                                               region_time(ask->table->region, now_ns),
                                                               ask->n, &ask->verdict)
                                         : reject_batch(&ask->verdict);
        passed += allowed;
    }
    return passed;
}

size_t weir_take_each_at(struct weir_ask *asks, size_t count, int64_t now_ns)
{
    size_t passed = 0;
    for (size_t i = 0; asks && i < count; i += FLIGHT)
        passed += take_prefetched(asks + i, count - i < FLIGHT ? count - i : FLIGHT, now_ns);
    return passed;
}

size_t weir_take_each(struct weir_ask *asks, size_t count)
{
    return weir_take_each_at(asks, count, clock_now());
}
