/* SPDX-License-Identifier: MIT */
/*
 * Room for keys. A policy table begins small and grows before it is full, as long as the budget has room.
 * Slots in use are counted when keys come and go (region.h), and who brings in the key that reaches a mark
 * wakes the growth thread, which adds a larger segment and moves the keys to it, some at a time
 * (table/rehash.h). It is a thread of its own, and sees policy tables in read sections as a worker does:
 * nothing that clients ask for, and no reload, delays it.
 *
 * A key that finds no room, before more is there, waits a moment for it instead of sharing limits with
 * others.
 *
 * Keys that may be forgotten are cleared first: a table grows for keys that need it only.
 */
#define _POSIX_C_SOURCE 200809L
#include "service/policies/growth.h"

#include <errno.h>
#include <time.h>

#include "base/sat.h"
#include "core/idle.h"
#include "os/futex.h"
#include "service/log.h"
#include "service/persist/persist.h"
#include "service/persist/record_change.h"
#include "service/policies/change.h"
#include "service/shares.h"
#include "table/change.h"
#include "table/override.h"
#include "table/rehash.h"

#define SMALL_KEYS         INT64_C(32768) /* grows fourfold: little memory, and soon out of the way of a flood */
#define FAST_NS            WEIR_SEC /* one that grew so short a time ago doubles; else it grows by half */
#define GROWTH_LEAST       4        /* a quarter more, or it is not worth the while */
#define POLICY_PART        2 /* of the memory for policies: the most that one gets by growth beside others */
#define FIRST_PART         192 /* of what is free: room from the start */
#define SWEEP_SLOTS        4096
#define CLEAR_SLOTS        65536
#define MOVE_LINES         64 /* under one lock */
#define MOVE_STEPS         32 /* before another policy table has its turn */
#define READ_SECTION_TICKS 16
#define SWEEP_RECORDS      1024
#define POLL_NS            (100 * WEIR_MS) /* also if nobody wakes it */
#define WAIT_NS            (50 * WEIR_MS)  /* at the most, for room */

/* Slots in use at which a table should grow: keys still find room near their homes, and as many again can
 * come while the next segment is made. */
static uint64_t mark_of(uint64_t slots)
{
    return slots - slots * 2 / 5;
}

/* ---- bytes ---- */

int64_t weir_growth_first(const struct service *service, const char *limits, size_t policies)
{
    int64_t bytes = service->memory / 8 / max64((int64_t)policies, 1);
    return clamp64(bytes / weir_table_key_bytes(limits, 0), GROWTH_KEYS_LEAST, GROWTH_KEYS_MOST);
}

static int64_t free_bytes(const struct service *service)
{
    return service->memory - atomic_load_explicit(&service->memory_used, memory_order_relaxed);
}

int64_t weir_growth_next(const struct service *service, const char *limits)
{
    int64_t keys = free_bytes(service) / FIRST_PART / weir_table_key_bytes(limits, 0);
    return clamp64(keys, GROWTH_KEYS_LEAST, GROWTH_KEYS_MOST);
}

int64_t weir_growth_room(const struct service *service, const char *limits, int64_t keys)
{
    return clamp64(keys, 0, max64(free_bytes(service) / weir_table_key_bytes(limits, 0), GROWTH_KEYS_LEAST));
}

int64_t weir_growth_bytes(const struct policy_table *ptable)
{
    const struct region *region = ptable->table->region;
    int64_t places = (int64_t)region->shape.parts[PART_OVERRIDES];
    int64_t overrides = (int64_t)atom_load(&region->header->overrides, memory_order_relaxed);
    int64_t used = overrides * (int64_t)weir_override_part_size(0, 0);
    return (int64_t)atom_load(&region->bytes, memory_order_relaxed) - places + min64(places, used);
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
    if (service->smyte) {
        weir_records_stat(service->smyte, &stat);
        total += stat.bytes;
    }
    for (size_t i = 0; snapshot && i < snapshot->ptable_count; i++)
        total = sat_add(total, snapshot->ptables[i]->bytes);
    return total;
}

static const struct snapshot *in_force(struct service *service)
{
    return atomic_load_explicit(&service->snapshot, memory_order_acquire);
}

void weir_growth_count(struct service *service)
{
    pthread_mutex_lock(&service->growth.mutex);
    atomic_store_explicit(&service->memory_used, weir_growth_total(service, in_force(service)),
                          memory_order_relaxed);
    pthread_mutex_unlock(&service->growth.mutex);
}

/* ---- growing ---- */

struct growing_table { /* a policy table that is looked at */
    struct service *service;
    const struct snapshot *snapshot;
    const struct policy *policy;
    struct policy_table *ptable;
};

static void warn_once(bool *said, const char *event, const char *policy, const struct weir_table_info *info,
                      const char *advice)
{
    if (*said)
        return;
    *said = true;
    weir_log(LOG_WARN_LEVEL, event, LOG_TEXT("policy", policy), LOG_NUMBER("keys", info->keys),
             LOG_NUMBER("capacity", info->capacity), LOG_TEXT("do", advice));
}

static int64_t policy_bytes(const struct policy *policy)
{
    struct policy_table *ptables[POLICY_TABLES_MAX];
    int64_t bytes = 0;
    for (size_t i = weir_policy_tables(policy, ptables); i-- > 0;)
        bytes += ptables[i]->bytes;
    return bytes;
}

/* The budget less what other stores have from the start. */
static int64_t for_policies(const struct service *service)
{
    return service->memory - weir_growth_total(service, NULL);
}

/* Bytes that the policy table may still take; *bound: what its policy may take is less than what is free. */
static int64_t bytes_left(const struct growing_table *g, bool *bound)
{
    int64_t left = free_bytes(g->service), part = INT64_MAX;
    if (g->snapshot->policy_count > 1)
        part = for_policies(g->service) / POLICY_PART - policy_bytes(g->policy);
    *bound = part < left;
    return max64(min64(left, part), 0);
}

static int64_t wanted_keys(const struct policy_table *ptable, int64_t capacity)
{
    if (capacity < SMALL_KEYS)
        return 4 * capacity;
    bool fast = weir_now() - ptable->room.grown_ns < FAST_NS;
    return sat_add(capacity, fast ? capacity : capacity / 2);
}

/* One segment for all keys, if that and those before it fit into the budget until the keys have moved; else
 * one more beside them. 0: neither. */
static int64_t enlarged_capacity(const struct growing_table *g, int64_t capacity, int64_t left)
{
    struct weir_table *table = g->ptable->table;
    struct weir_error err;
    int64_t fits = left / weir_table_key_bytes_in(table),
            keys = min64(wanted_keys(g->ptable, capacity), fits);
    if (keys >= capacity + capacity / GROWTH_LEAST)
        return weir_table_enlarge(table, (size_t)keys, &err) ? keys : 0;
    keys = sat_add(capacity, fits);
    if (fits < capacity / GROWTH_LEAST || !weir_table_grow(table, (size_t)keys, &err))
        return 0;
    return keys;
}

static void record_growth(const struct growing_table *g, int64_t from, int64_t to)
{
    struct growth *growth = &g->service->growth;
    g->ptable->room.grown_ns = weir_now();
    g->ptable->bytes = weir_growth_bytes(g->ptable);
    weir_growth_count(g->service);
    persist_owe(g->service);
    pthread_mutex_lock(&growth->mutex);
    growth->grown++;
    pthread_cond_broadcast(&growth->done);
    pthread_mutex_unlock(&growth->mutex);
    weir_log(LOG_INFO_LEVEL, "grown", LOG_TEXT("policy", g->policy->name), LOG_NUMBER("from", from),
             LOG_NUMBER("to", to));
}

static bool grow_table(const struct growing_table *g, const char **advice)
{
    struct weir_table *table = g->ptable->table;
    int64_t capacity = (int64_t)atom_load(&table->region->header->capacity, memory_order_relaxed);
    bool bound;
    int64_t keys = enlarged_capacity(g, capacity, bytes_left(g, &bound));
    if (keys > 0)
        record_growth(g, capacity, keys);
    *advice = bound ? "this policy has half of the memory for keys, the most while there are others; raise "
                      "memory: and restart, or give it room with keys:"
                    : "raise memory: in the configuration and restart";
    /* Or somebody else has given it room meanwhile: then it is large enough already for that to fail. */
    return keys > 0 || (int64_t)atom_load(&table->region->header->capacity, memory_order_relaxed) > capacity;
}

/* Sets the mark at which the next key wakes the thread. */
static void set_wake_mark(struct weir_table *table)
{
    atom_store(&table->near, mark_of(weir_table_open_slots(table)), memory_order_relaxed);
}

static void clear_idle_keys(struct weir_table *table)
{
    uint64_t slots = weir_table_open_slots(table);
    for (uint64_t done = 0; done < slots; done += CLEAR_SLOTS)
        (void)weir_table_sweep(table, CLEAR_SLOTS);
}

/* Is it full of keys that may be forgotten? Then they go, and it has room enough. */
static bool is_cleared(struct weir_table *table, const struct weir_table_info *info, uint64_t slots)
{
    uint64_t mark = mark_of(slots);
    if (info->keys >= (int64_t)(mark - mark / 4))
        return false;
    clear_idle_keys(table);
    return true;
}

/* It has reached the mark, or a key has found no room. */
static void check_fill(const struct growing_table *g, bool wanted)
{
    struct weir_table *table = g->ptable->table;
    struct weir_table_info info;
    const char *advice;
    uint64_t slots = weir_table_open_slots(table);
    weir_table_stat(table, &info);
    if ((!wanted && is_cleared(table, &info, slots)) || grow_table(g, &advice)) {
        atomic_store_explicit(&table->full, false, memory_order_seq_cst);
        set_wake_mark(table);
        return;
    }
    atomic_store_explicit(&table->full, true, memory_order_seq_cst);
    atom_store(&table->near, UINT64_MAX, memory_order_relaxed);
    if (wanted || info.shared + info.refused > 0)
        warn_once(&g->ptable->room.warned_full, "table-full", g->policy->name, &info, advice);
    else
        warn_once(&g->ptable->room.warned_near, "table-nearly-full", g->policy->name, &info, advice);
}

/* Moves some keys. true: there are more. */
static bool move_some_keys(const struct growing_table *g)
{
    struct weir_table *table = g->ptable->table;
    enum rehash_status moving = REHASH_MORE;
    uint64_t first = region_first(table->region);
    if (first == region_open(table->region))
        return false;
    for (int i = 0; i < MOVE_STEPS && moving == REHASH_MORE; i++)
        moving = weir_table_rehash(table, weir_now(), MOVE_LINES);
    if (moving == REHASH_STUCK)
        atomic_store_explicit(&table->wanted, true, memory_order_relaxed);
    if (region_first(table->region) > first) {
        g->ptable->bytes = weir_growth_bytes(g->ptable);
        weir_growth_count(g->service);
    }
    return moving == REHASH_MORE;
}

/* `waited`: only if a key waits for room there. true: there is more to do. */
static bool tend_table(struct service *service, const struct snapshot *snapshot, const struct policy *policy,
                       struct policy_table *ptable, bool waited)
{
    if (waited && !atomic_load_explicit(&ptable->table->wanted, memory_order_relaxed))
        return false;
    struct growing_table g = {service, snapshot, policy, ptable};
    struct weir_table *table = ptable->table;
    uint64_t used = atom_load(&table->region->occupied, memory_order_relaxed);
    uint64_t slots = weir_table_open_slots(table);
    /* One that was wanted before the last growth is content by now: it is hardly half full. */
    bool wanted =
        atomic_exchange_explicit(&table->wanted, false, memory_order_relaxed) && used >= slots / 20 * 9;
    ptable->bytes = weir_growth_bytes(ptable);
    if (wanted || used >= mark_of(slots))
        check_fill(&g, wanted);
    else if (atom_load(&table->near, memory_order_relaxed) == UINT64_MAX) { /* it was full, or told */
        atomic_store_explicit(&table->full, false, memory_order_seq_cst);
        set_wake_mark(table);
    }
    return move_some_keys(&g);
}

/* All policies once. true: there is more to do. */
static bool tend_policies(struct service *service, const struct snapshot *snapshot, bool waited)
{
    bool more = false;
    for (size_t i = 0; i < snapshot->policy_count; i++) {
        struct policy_table *ptables[POLICY_TABLES_MAX];
        size_t count = weir_policy_tables(snapshot->policies[i], ptables);
        for (size_t at = 0; at < count; at++)
            more |= tend_table(service, snapshot, snapshot->policies[i], ptables[at], waited);
    }
    return more;
}

/* All of them once, those first where keys wait. true: there is more to do. */
static bool tend_all(struct service *service, const struct snapshot *snapshot)
{
    (void)tend_policies(service, snapshot, true);
    bool more = tend_policies(service, snapshot, false);
    weir_growth_count(service);
    return more;
}

void weir_growth_give(struct service *service, const struct policy *policy, int64_t keys)
{
    struct growing_table g = {service, in_force(service), policy, policy->main};
    struct weir_table *table = policy->main->table;
    int64_t capacity = (int64_t)atom_load(&table->region->header->capacity, memory_order_relaxed);
    struct weir_error err = {0};
    if (keys <= capacity)
        return;
    bool fits = keys * weir_table_key_bytes_in(table) <= free_bytes(service);
    if (fits ? weir_table_enlarge(table, (size_t)keys, &err) : weir_table_grow(table, (size_t)keys, &err))
        record_growth(&g, capacity, keys);
    else
        weir_log(LOG_WARN_LEVEL, "no-room-for-keys", LOG_TEXT("policy", policy->name),
                 LOG_NUMBER("keys", keys), LOG_NUMBER("capacity", capacity), LOG_TEXT("why", err.text));
}

int64_t weir_growth_cost(const struct policy_table *ptable, int64_t keys)
{
    int64_t capacity = (int64_t)atom_load(&ptable->table->region->header->capacity, memory_order_relaxed);
    return keys > capacity ? sat_mul(keys - capacity, weir_table_key_bytes_in(ptable->table)) : 0;
}

/* ---- the thread ---- */

static void near_mark(struct table_grower *grower, struct weir_table *table)
{
    struct growth *growth = (struct growth *)(void *)grower;
    atom_store(&table->near, UINT64_MAX, memory_order_relaxed); /* once is enough */
    pthread_mutex_lock(&growth->mutex);
    growth->woken = true;
    pthread_cond_signal(&growth->work);
    pthread_mutex_unlock(&growth->mutex);
}

static struct timespec deadline_after(int64_t wait_ns)
{
    int64_t ns = sat_add(weir_monotonic_ns(), wait_ns); /* also if a test has a clock of its own */
    return (struct timespec){ns / WEIR_SEC, ns % WEIR_SEC};
}

/* The round that was under way may have passed by the table: the one after it looks at it. While a round
 * holds up one key for too long, the next ones do not wait for it as well. */
static bool wait_for_growth(struct table_grower *grower, struct weir_table *table)
{
    struct growth *growth = (struct growth *)(void *)grower;
    struct timespec until = deadline_after(growth->wait_ns);
    if (atomic_load_explicit(&table->full, memory_order_seq_cst))
        return false;
    atomic_store_explicit(&table->wanted, true, memory_order_relaxed);
    pthread_mutex_lock(&growth->mutex);
    uint64_t grown = growth->grown, rounds = growth->rounds;
    int late = table->late == rounds + 1 ? ETIMEDOUT : 0; /* it waited for this round already */
    growth->woken = true;
    pthread_cond_signal(&growth->work);
    while (late == 0 && growth->runs && growth->grown == grown && growth->rounds < rounds + 2)
        late = pthread_cond_timedwait(&growth->done, &growth->mutex, &until);
    table->late = late != 0 ? growth->rounds + 1 : 0;
    pthread_mutex_unlock(&growth->mutex);
    return late == 0 && !atomic_load_explicit(&table->full, memory_order_seq_cst);
}

/* As the read section of a worker: see snapshot.c. */
static bool run_growth_round(struct service *service)
{
    uint64_t epoch = atomic_load_explicit(&service->epoch, memory_order_seq_cst);
    atomic_store_explicit(&service->growth.read_epoch, 2 * epoch + 1, memory_order_seq_cst);
    bool more = tend_all(service, atomic_load_explicit(&service->snapshot, memory_order_seq_cst));
    atomic_store_explicit(&service->growth.read_epoch, 0, memory_order_release);
    return more;
}

static bool wait_for_growth_work(struct growth *growth, bool more)
{
    struct timespec until = deadline_after(POLL_NS);
    int late = 0;
    pthread_mutex_lock(&growth->mutex);
    growth->rounds++;
    pthread_cond_broadcast(&growth->done);
    while (!more && late == 0 && growth->runs && !growth->woken)
        late = pthread_cond_timedwait(&growth->work, &growth->mutex, &until);
    growth->woken = false;
    bool runs = growth->runs;
    pthread_mutex_unlock(&growth->mutex);
    return runs;
}

static void *run_growth(void *arg)
{
    struct service *service = arg;
    bool more = false;
    while (wait_for_growth_work(&service->growth, more))
        more = run_growth_round(service);
    return NULL;
}

bool weir_growth_init(struct growth *growth)
{
    pthread_condattr_t attr;
    growth->grower = (struct table_grower){near_mark, wait_for_growth};
    growth->wait_ns = WAIT_NS;
    if (pthread_condattr_init(&attr) != 0)
        return false;
    bool good = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) == 0 &&
                pthread_mutex_init(&growth->mutex, NULL) == 0 &&
                pthread_cond_init(&growth->work, &attr) == 0 && pthread_cond_init(&growth->done, &attr) == 0;
    (void)pthread_condattr_destroy(&attr);
    return good;
}

void weir_growth_end(struct growth *growth)
{
    (void)pthread_cond_destroy(&growth->done);
    (void)pthread_cond_destroy(&growth->work);
    (void)pthread_mutex_destroy(&growth->mutex);
}

void weir_growth_serve(struct service *service, const struct snapshot *snapshot)
{
    for (size_t i = 0; service->growth.runs && i < snapshot->ptable_count; i++) {
        struct weir_table *table = snapshot->ptables[i]->table;
        if (table->grower)
            continue;
        set_wake_mark(table);
        table->grower = &service->growth.grower; /* nobody asks it yet */
    }
}

bool weir_growth_start(struct service *service)
{
    struct growth *growth = &service->growth;
    pthread_mutex_lock(&service->change);
    growth->runs = true;
    weir_growth_serve(service, in_force(service));
    growth->runs = pthread_create(&growth->thread, NULL, run_growth, service) == 0;
    pthread_mutex_unlock(&service->change);
    return growth->runs;
}

void weir_growth_stop(struct service *service)
{
    struct growth *growth = &service->growth;
    pthread_mutex_lock(&growth->mutex);
    bool runs = growth->runs;
    growth->runs = false;
    pthread_cond_broadcast(&growth->work);
    pthread_cond_broadcast(&growth->done);
    pthread_mutex_unlock(&growth->mutex);
    if (runs)
        (void)pthread_join(growth->thread, NULL);
}

/* ---- the tick ---- */

/* Keys whose limits come with the call have a share of the budget from the start, and no more. */
static void look_at_client_keys(struct service *service)
{
    static const char advice[] = "raise memory: or client_keys: in the configuration and restart";
    struct policy_table *ptable = service->client_keys;
    struct weir_table_info info;
    weir_table_stat(ptable->table, &info);
    if (sat_add(info.shared, info.refused) > 0)
        warn_once(&ptable->room.warned_full, "client-keys-full", "CL.THROTTLE", &info, advice);
    else if (info.nearly_full)
        warn_once(&ptable->room.warned_near, "client-keys-nearly-full", "CL.THROTTLE", &info, advice);
}

static int64_t commands_of(const struct service *service)
{
    int64_t commands = 0;
    for (uint32_t i = 0; i <= service->options.workers; i++)
        commands =
            sat_add(commands, atomic_load_explicit(&service->workers[i].commands, memory_order_relaxed));
    return commands;
}

/* Without a thread for it, as in tests, tables that are nearly full grow here. */
static void grow_tables(struct service *service)
{
    pthread_mutex_lock(&service->change);
    while (!service->growth.runs && tend_all(service, in_force(service))) {
    }
    if (service->upkeep.ticks++ % READ_SECTION_TICKS == 0 && service->client_keys)
        look_at_client_keys(service);
    pthread_mutex_unlock(&service->change);
}

static void sweep_next_table(struct service *service, int64_t now_ns)
{
    if (service->ledger.reservations) {
        weir_records_sweep(service->ledger.requests, SWEEP_RECORDS, now_ns);
        weir_records_sweep(service->ledger.reservations, SWEEP_RECORDS, now_ns);
    }
    if (service->smyte)
        weir_records_sweep(service->smyte, SWEEP_RECORDS, now_ns);
    const struct snapshot *snapshot = in_force(service);
    size_t at = service->upkeep.swept < snapshot->ptable_count ? service->upkeep.swept : 0;
    service->upkeep.swept = at + 1;
    if (at < snapshot->ptable_count)
        (void)weir_table_sweep(snapshot->ptables[at]->table, SWEEP_SLOTS);
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

static void warn_full_records(struct service *service)
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
    weir_records_stat(service->smyte, &stat);
    warn_of_records("rl-full", &stat, &service->upkeep.smyte_refused, advice);
    weir_shares_warn(service);
}

/* Once a second. */
static void measure_rates(struct service *service, int64_t now_ns)
{
    int64_t past = now_ns - service->upkeep.measured_ns, commands = commands_of(service);
    if (past >= 0 && past < WEIR_SEC)
        return;
    int64_t more = max64(commands - service->upkeep.measured, 0);
    atomic_store_explicit(&service->ops_per_second, past > 0 ? mul_div(more, WEIR_SEC, past) : 0,
                          memory_order_relaxed);
    service->upkeep.measured_ns = now_ns;
    service->upkeep.measured = commands;
    warn_full_records(service);
}

void weir_service_tick(struct service *service)
{
    int64_t now_ns = weir_now();
    weir_change_ends(service);
    pthread_mutex_lock(&service->change);
    sweep_next_table(service, now_ns);
    weir_shares_look(service, false);
    weir_snapshot_collect(service);
    pthread_mutex_unlock(&service->change);
    grow_tables(service);
    measure_rates(service, now_ns);
    weir_persist_tick(service);
}
