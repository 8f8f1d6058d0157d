/* SPDX-License-Identifier: MIT */
#include "service/service.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/sat.h"
#include "os/boot.h"
#include "service/command.h"

#define LEDGER_SHARE 16 /* one part in so many of the memory */
#define STEPS_SHARE  16
#define CLIENT_SHARE 8
#define CLIENT_BYTES 24 /* of a key whose limits come with the call */
#define STEP_BYTES   (sizeof(struct record) + sizeof(struct step_bucket))
#define LEAST        64     /* entries, keys: however small the budget */
#define LOGINS       "10/m" /* failed logins of an address; enough for people, too few to guess */
#define LOGIN_KEYS   4096

/* ---- parts ---- */

static bool make_worker(struct service *service, uint32_t number)
{
    struct worker *worker = &service->workers[number];
    size_t count = weir_command_count() + 1;
    worker->service = service;
    worker->number = number;
    worker->calls = calloc(3 * count, sizeof *worker->calls);
    if (!worker->calls)
        return false;
    worker->failed = worker->calls + count;
    worker->usec = worker->failed + count;
    return true;
}

static bool make_workers(struct service *service)
{
    size_t size = (service->options.workers + 1) * sizeof *service->workers;
    service->workers = aligned_alloc(_Alignof(struct worker), size);
    if (!service->workers)
        return false;
    memset(service->workers, 0, size);
    for (uint32_t i = 0; i <= service->options.workers; i++)
        if (!make_worker(service, i))
            return false;
    return true;
}

static size_t share(int64_t memory, int64_t part, size_t bytes)
{
    return (size_t)max64(memory / part / (int64_t)bytes, LEAST);
}

static bool make_memory(struct service *service, const struct config *config, struct weir_error *err)
{
    int64_t memory = config->memory > 0 ? config->memory : CONFIG_MEMORY;
    int64_t keys =
        config->client_keys > 0 ? config->client_keys : (int64_t)share(memory, CLIENT_SHARE, CLIENT_BYTES);
    service->memory = memory;
    service->horizon_ns = config->horizon_ns;
    if (!weir_ledger_init(&service->ledger, share(memory, LEDGER_SHARE, sizeof(struct record) + LEDGER_BYTES),
                          err))
        return false;
    service->steps = weir_steps_new(share(memory, STEPS_SHARE, STEP_BYTES), err);
    /* Not shared when full: one key with the longest limit there is would be everybody's debt. */
    service->client_keys =
        service->steps ? weir_tally_new(NULL, keys, WEIR_FULL_REFUSE, true, config->horizon_ns, err) : NULL;
    service->logins = service->client_keys ? weir_table_new(LOGINS, LOGIN_KEYS, err) : NULL;
    return service->logins != NULL;
}

/* 160 bits that no other start has. */
static void draw_run_id(char run_id[static 41])
{
    struct hash_key key = weir_hash_key(), other = weir_hash_key();
    (void)snprintf(run_id, 41, "%016llx%016llx%08llx", (unsigned long long)key.low,
                   (unsigned long long)key.high, (unsigned long long)(other.low & UINT32_MAX));
}

static void set_clock(struct service *service)
{
    if (service->options.test_clock)
        weir_clock_set(0);
    int64_t now_ns = weir_now();
    service->wall_lead_ns = service->options.test_clock ? 0 : sat_sub(weir_boot.wall(), now_ns);
    service->started_ns = now_ns;
    service->started_ms = service_wall_ms(service, now_ns);
}

/* What stands before the first configuration is applied: its users, and no policies. */
static bool make_snapshot(struct service *service, const struct config *config)
{
    struct snapshot *snapshot = calloc(1, sizeof *snapshot);
    if (!snapshot)
        return false;
    snapshot->loaded_ms = service->started_ms;
    snapshot->users = weir_users_new(config);
    snapshot->policies = calloc(1, sizeof(struct policy *));
    if (!snapshot->users || !snapshot->policies || !weir_snapshot_seal(snapshot)) {
        weir_snapshot_free(snapshot);
        return false;
    }
    atomic_store_explicit(&service->snapshot, snapshot, memory_order_seq_cst);
    return true;
}

/* ---- all of it ---- */

struct service *weir_service_new(const struct config *config, const struct service_options *options,
                                 struct weir_error *err)
{
    struct service *service = calloc(1, sizeof *service);
    weir_error_clear(err);
    if (!service || pthread_mutex_init(&service->change, NULL) != 0) {
        weir_error_set(err, ENOMEM, "out of memory");
        free(service);
        return NULL;
    }
    service->options = *options;
    service->options.workers = options->workers > 0 ? options->workers : 1;
    service->max_clients = config->max_clients > 0 ? config->max_clients : 10000;
    draw_run_id(service->run_id);
    set_clock(service);
    if (!make_workers(service) || !make_memory(service, config, err) || !make_snapshot(service, config)) {
        if (err && err->code == 0)
            weir_error_set(err, ENOMEM, "out of memory");
        weir_service_free(service);
        return NULL;
    }
    if (!weir_service_apply(service, config, err)) {
        weir_service_free(service);
        return NULL;
    }
    return service;
}

static void free_workers(struct service *service)
{
    for (uint32_t i = 0; service->workers && i <= service->options.workers; i++)
        free(service->workers[i].calls);
    free(service->workers);
}

void weir_service_free(struct service *service)
{
    if (!service)
        return;
    weir_snapshot_free(atomic_load_explicit(&service->snapshot, memory_order_acquire));
    while (service->retired) {
        struct snapshot *retired = service->retired;
        service->retired = retired->retired;
        weir_snapshot_free(retired);
    }
    if (service->ledger.records)
        weir_ledger_end(&service->ledger);
    if (service->steps)
        weir_steps_free(service->steps);
    weir_tally_free(service->client_keys);
    weir_table_free(service->logins);
    free_workers(service);
    free(service->listens);
    (void)pthread_mutex_destroy(&service->change);
    free(service);
}
