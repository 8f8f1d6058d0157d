/* SPDX-License-Identifier: MIT */
/*
 * Room for keys. A tally begins small and grows eightfold when it is nearly full, as long as the budget has
 * room. To see how full a table is costs up to 65536 looks at its slots, so a tally is looked at when as many
 * calls were made as could have filled half of what was free, and besides all of them in turn.
 */
#include "service/growth.h"

#include "base/sat.h"
#include "core/idle.h"
#include "service/change.h"
#include "service/keep.h"
#include "service/log.h"
#include "table/override.h"

#define GROWTH_FACTOR  8
#define GROWTH_LEAST   4 /* a quarter more, or it is not worth one of seven growths */
#define SWEEP_SLOTS    4096
#define SLOTS_A_TICK   8192 /* that may be looked at, on the average, to see how full a table is */
#define SLOTS_LOOKED   65536
#define TURN_TICKS     16
#define FIRST_PART     192 /* of 256 MiB: few enough places that keys are counted exactly */
#define SWEEP_RECORDS  1024
#define WORD_KEY_BYTES 24

/* ---- bytes ---- */

/* Memory of a key, in round numbers: slots are two thirds full. */
static int64_t key_bytes(const struct tally *tally)
{
    return max64((int64_t)tally->table->region->shape.slot_size * 3 / 2, WORD_KEY_BYTES);
}

static int64_t key_bytes_of(const char *limits)
{
    struct weir_policy *policy = weir_policy_idle(limits, NULL);
    int64_t bytes = WORD_KEY_BYTES;
    if (policy && (policy->count > 1 || policy->words > STATE_HEADER + 1))
        bytes = (int64_t)(policy->words + 4) * 8 * 3 / 2;
    weir_policy_free(policy);
    return bytes;
}

int64_t weir_growth_first(const struct service *service, const char *limits, size_t policies)
{
    int64_t bytes = service->memory / 8 / max64((int64_t)policies, 1);
    return clamp64(bytes / key_bytes_of(limits), GROWTH_KEYS_LEAST, GROWTH_KEYS_MOST);
}

static int64_t free_bytes(const struct service *service)
{
    return service->memory - atomic_load_explicit(&service->memory_used, memory_order_relaxed);
}

int64_t weir_growth_next(const struct service *service, const char *limits)
{
    int64_t keys = free_bytes(service) / FIRST_PART / key_bytes_of(limits);
    return clamp64(keys, GROWTH_KEYS_LEAST, GROWTH_KEYS_MOST);
}

int64_t weir_growth_room(const struct service *service, const char *limits, int64_t keys)
{
    return clamp64(keys, 0, max64(free_bytes(service) / key_bytes_of(limits), GROWTH_KEYS_LEAST));
}

static int64_t bytes_of(const struct tally *tally, const struct weir_table_info *info)
{
    int64_t places = (int64_t)tally->table->region->shape.parts[PART_OVERRIDES];
    int64_t used = info->overrides * (int64_t)weir_override_part_size(0, 0);
    return info->bytes - places + min64(places, used);
}

int64_t weir_growth_bytes(const struct tally *tally)
{
    struct weir_table_info info;
    weir_table_stat(tally->table, &info);
    return bytes_of(tally, &info);
}

int64_t weir_growth_total(const struct service *service, const struct snapshot *snapshot)
{
    struct records_stat stat;
    int64_t total = service->client_keys ? service->client_keys->bytes : 0;
    if (service->ledger.reservations) {
        weir_records_stat(service->ledger.requests, &stat);
        total += stat.bytes;
        weir_records_stat(service->ledger.reservations, &stat);
        total += stat.bytes;
    }
    if (service->steps) {
        weir_steps_stat(service->steps, &stat);
        total += stat.bytes;
    }
    for (size_t i = 0; snapshot && i < snapshot->tally_count; i++)
        total = sat_add(total, snapshot->tallies[i]->bytes);
    return total;
}

static const struct snapshot *in_force(struct service *service)
{
    return atomic_load_explicit(&service->snapshot, memory_order_acquire);
}

void weir_growth_count(struct service *service)
{
    atomic_store_explicit(&service->memory_used, weir_growth_total(service, in_force(service)),
                          memory_order_relaxed);
}

/* ---- growing ---- */

static void warn(bool *said, const char *event, const char *policy, const struct weir_table_info *info)
{
    if (*said)
        return;
    *said = true;
    weir_log(LOG_WARN_LEVEL, event, LOG_TEXT("policy", policy), LOG_NUMBER("keys", info->keys),
             LOG_NUMBER("capacity", info->capacity),
             LOG_TEXT("do", "raise memory: in the configuration and start again"));
}

/* More keys than it has now, or 0: the budget does not allow for it. */
static int64_t larger(const struct service *service, const struct tally *tally,
                      const struct weir_table_info *info)
{
    int64_t used = atomic_load_explicit(&service->memory_used, memory_order_relaxed);
    int64_t more = max64(service->memory - used, 0) / key_bytes(tally);
    int64_t keys = min64(sat_mul(info->capacity, GROWTH_FACTOR), sat_add(info->capacity, more));
    return keys >= info->capacity + info->capacity / GROWTH_LEAST ? keys : 0;
}

static bool grow(struct service *service, struct tally *tally, const char *policy,
                 const struct weir_table_info *info)
{
    struct weir_error err;
    int64_t keys = larger(service, tally, info);
    if (keys == 0 || !weir_table_grow(tally->table, (size_t)keys, &err))
        return false;
    tally->bytes = weir_growth_bytes(tally);
    weir_growth_count(service);
    keep_owe(service);
    weir_log(LOG_INFO_LEVEL, "grown", LOG_TEXT("policy", policy), LOG_NUMBER("from", info->capacity),
             LOG_NUMBER("to", keys));
    return true;
}

static int64_t crowded_of(const struct tally *tally)
{
    const struct region_header *header = tally->table->region->header;
    return (int64_t)(atom_load(&header->shared, memory_order_relaxed) +
                     atom_load(&header->refused, memory_order_relaxed));
}

/* How many calls can come before it might be nearly full. */
static int64_t calls_until_full(const struct weir_table_info *info)
{
    return max64((info->capacity * 4 / 5 - info->keys) / 2, 64);
}

static void look(struct service *service, struct tally *tally, const char *policy, int64_t calls)
{
    struct weir_table_info info;
    weir_table_stat(tally->table, &info);
    bool full = crowded_of(tally) > tally->room.crowded;
    tally->room.crowded = crowded_of(tally);
    tally->room.tick = service->upkeep.ticks + min64(info.slots, SLOTS_LOOKED) / SLOTS_A_TICK;
    tally->bytes = bytes_of(tally, &info);
    tally->room.look_at = sat_add(calls, calls_until_full(&info));
    if ((!info.nearly_full && !full) || grow(service, tally, policy, &info))
        return;
    if (full)
        warn(&tally->room.warned_full, "table-full", policy, &info);
    else
        warn(&tally->room.warned_near, "table-nearly-full", policy, &info);
}

static int64_t calls_of_policy(const struct policy *policy)
{
    struct counts sum;
    weir_counters_sum(policy->counters, &sum);
    return sat_add(atomic_load_explicit(&sum.allowed, memory_order_relaxed),
                   atomic_load_explicit(&sum.refused, memory_order_relaxed));
}

static void look_if(struct service *service, struct tally *tally, const struct policy *policy, int64_t calls,
                    bool in_turn)
{
    if (!tally)
        return;
    bool due = calls >= tally->room.look_at && service->upkeep.ticks >= tally->room.tick;
    if (in_turn || due || crowded_of(tally) > tally->room.crowded)
        look(service, tally, policy->name, calls);
}

static void look_at_policy(struct service *service, const struct policy *policy, bool in_turn)
{
    int64_t calls = calls_of_policy(policy);
    look_if(service, policy->main, policy, calls, in_turn);
    look_if(service, policy->older, policy, calls, in_turn);
    look_if(service, policy->tried, policy, calls, in_turn);
    for (size_t i = 0; i < policy->prefix_count; i++)
        look_if(service, policy->prefixes[i].tally, policy, calls, in_turn);
}

/* Keys whose limits come with the call have a share of the budget from the start, and no more. */
static void look_at_client_keys(struct service *service)
{
    struct tally *tally = service->client_keys;
    struct weir_table_info info;
    weir_table_stat(tally->table, &info);
    if (sat_add(info.shared, info.refused) > 0)
        warn(&tally->room.warned_full, "client-keys-full", "CL.THROTTLE", &info);
    else if (info.nearly_full)
        warn(&tally->room.warned_near, "client-keys-nearly-full", "CL.THROTTLE", &info);
}

static int64_t commands_of(const struct service *service)
{
    int64_t commands = 0;
    for (uint32_t i = 0; i <= service->options.workers; i++)
        commands =
            sat_add(commands, atomic_load_explicit(&service->workers[i].commands, memory_order_relaxed));
    return commands;
}

/* A charge brings keys, too, and is no call that a policy counts: so while there are commands at all, now and
 * then one policy after the other has its turn. */
void weir_change_growth(struct service *service)
{
    pthread_mutex_lock(&service->change);
    const struct snapshot *snapshot = in_force(service);
    int64_t commands = commands_of(service);
    bool busy = commands != service->upkeep.seen;
    bool turn = busy && service->upkeep.ticks++ % TURN_TICKS == 0;
    size_t next = service->upkeep.looked_at < snapshot->policy_count ? service->upkeep.looked_at : 0;
    service->upkeep.seen = commands;
    for (size_t i = 0; busy && i < snapshot->policy_count; i++)
        look_at_policy(service, snapshot->policies[i], turn && i == next);
    if (turn && next == 0 && service->client_keys)
        look_at_client_keys(service);
    service->upkeep.looked_at = next + turn;
    if (busy)
        weir_growth_count(service);
    pthread_mutex_unlock(&service->change);
}

/* ---- the tick ---- */

static void sweep(struct service *service, int64_t now_ns)
{
    if (service->ledger.reservations) {
        weir_records_sweep(service->ledger.requests, SWEEP_RECORDS, now_ns);
        weir_records_sweep(service->ledger.reservations, SWEEP_RECORDS, now_ns);
    }
    if (service->steps)
        weir_steps_sweep(service->steps, SWEEP_RECORDS, now_ns);
    const struct snapshot *snapshot = in_force(service);
    size_t at = service->upkeep.swept < snapshot->tally_count ? service->upkeep.swept : 0;
    service->upkeep.swept = at + 1;
    if (at < snapshot->tally_count)
        (void)weir_table_sweep(snapshot->tallies[at]->table, SWEEP_SLOTS);
}

/* None of them grows. Who is refused for that reason is told so, but cannot do anything about it. */
static void warn_of_records(const char *event, const struct records_stat *stat, int64_t *seen,
                            const char *advice)
{
    if (stat->refused > *seen)
        weir_log(LOG_WARN_LEVEL, event, LOG_NUMBER("refused", stat->refused - *seen),
                 LOG_NUMBER("capacity", stat->capacity), LOG_TEXT("do", advice));
    *seen = stat->refused;
}

static void look_at_records(struct service *service)
{
    static const char advice[] =
        "raise memory: in the configuration and start again; a sixteenth of it is for these";
    struct records_stat stat;
    weir_records_stat(service->ledger.requests, &stat);
    warn_of_records("requests-full", &stat, &service->upkeep.requests_refused,
                    "lower ids: of the policies, or raise memory: in the configuration and start again; a "
                    "sixteenth of it is for these");
    weir_records_stat(service->ledger.reservations, &stat);
    warn_of_records("ledger-full", &stat, &service->upkeep.ledger_refused, advice);
    weir_steps_stat(service->steps, &stat);
    warn_of_records("steps-full", &stat, &service->upkeep.steps_refused, advice);
    weir_shares_warn(service);
}

/* Once a second. */
static void measure(struct service *service, int64_t now_ns)
{
    int64_t past = now_ns - service->upkeep.measured_ns, commands = commands_of(service);
    if (past >= 0 && past < WEIR_SEC)
        return;
    int64_t more = max64(commands - service->upkeep.measured, 0);
    atomic_store_explicit(&service->ops_per_second, past > 0 ? mul_div(more, WEIR_SEC, past) : 0,
                          memory_order_relaxed);
    service->upkeep.measured_ns = now_ns;
    service->upkeep.measured = commands;
    look_at_records(service);
}

void weir_service_tick(struct service *service)
{
    int64_t now_ns = weir_now();
    weir_change_ends(service);
    pthread_mutex_lock(&service->change);
    sweep(service, now_ns);
    weir_shares_look(service);
    weir_snapshot_collect(service);
    pthread_mutex_unlock(&service->change);
    weir_change_growth(service);
    measure(service, now_ns);
    weir_keep_tick(service);
}
