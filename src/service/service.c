/* SPDX-License-Identifier: MIT */

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/sat.h"
#include "config/hash_key.h"
#include "ledger/persist.h"
#include "os/boot.h"
#include "service/commands/commands.h"
#include "service/leases/fleet_joiner.h"
#include "service/log.h"
#include "service/pending.h"
#include "service/persist/persist.h"
#include "service/persist/record_change.h"
#include "service/policies/apply.h"
#include "service/policies/growth.h"
#include "service/refusal_log.h"
#include "service/run.h"
#include "service/service.h"
#include "service/shares.h"
#include "service/transfer/load.h"

#define SMYTE_BYTES    (sizeof(struct record) + sizeof(struct smyte_bucket))
#define LEAST          64    /* entries, keys: however small the budget */
#define LOGIN_FAILURES 16384 /* pairs of an address and a user that have failed to log in */
#define TENANT_PART    2     /* of the clients may be one user's, if there are others */

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

static size_t records_for_part(int64_t memory, int64_t part, size_t bytes)
{
    return (size_t)max64(memory / part / (int64_t)bytes, LEAST);
}

static bool make_login_state(struct service *service, const struct config *config)
{
    service->max_clients = config->max_clients > 0 ? config->max_clients : CONFIG_CLIENTS;
    service->per_address = config->per_address;
    service->per_user = config->per_user;
    service->login_failures = weir_login_failures_new(LOGIN_FAILURES);
    service->client_counts = weir_client_counts_new();
    service->password_check = weir_password_check_new();
    return service->login_failures && service->client_counts && service->password_check;
}

struct client_count_limits weir_service_clients(const struct service *service, const struct users *users)
{
    int64_t part = weir_users_tenants(users) > 1 ? max64(service->max_clients / TENANT_PART, 1) : 0;
    return (struct client_count_limits){.most = service->max_clients,
                                        .per_address = service->per_address,
                                        .per_user = service->per_user > 0 ? service->per_user : part};
}

/* Pages are taken as they are needed, so more than the machine has would be found out late, and hard. */
static bool has_machine(int64_t memory, struct weir_error *err)
{
    int64_t pages = sysconf(_SC_PHYS_PAGES), machine = sat_mul(pages, sysconf(_SC_PAGESIZE));
    if (pages <= 0 || memory <= machine)
        return true;
    return weir_error_complain(err,
                               "a memory of %" PRId64 " MiB is more than this machine has, which is %" PRId64
                               " MiB; lower --memory, or memory: in the configuration",
                               memory >> 20, machine >> 20);
}

static bool make_shares(struct service *service, int64_t keys, struct weir_error *err)
{
    struct records_stat requests, reservations, smyte;
    weir_records_stat(service->ledger.requests, &requests);
    weir_records_stat(service->ledger.reservations, &reservations);
    weir_records_stat(service->smyte, &smyte);
    struct weir_table_info client_keys;
    weir_table_stat(service->client_keys->table, &client_keys);
    const uint64_t places[SHARE_STORES] = {(uint64_t)requests.capacity, (uint64_t)reservations.capacity,
                                           (uint64_t)smyte.capacity, (uint64_t)client_keys.slots};
    const int64_t rooms[SHARE_STORES] = {requests.room, reservations.room, smyte.room, keys};
    for (int i = 0; i < SHARE_STORES; i++) {
        service->shares[i] = weir_share_new(places[i], rooms[i]);
        if (!service->shares[i]) {
            weir_error_set(err, ENOMEM, "out of memory");
            return false;
        }
    }
    return true;
}

static bool make_memory(struct service *service, const struct config *config, struct weir_error *err)
{
    int64_t memory = config->memory > 0 ? config->memory : CONFIG_MEMORY;
    if (!has_machine(memory, err))
        return false;
    int64_t keys = config->client_keys > 0 ? config->client_keys
                                           : (int64_t)records_for_part(memory, CONFIG_CLIENT_SHARE,
                                                                       (size_t)weir_table_key_bytes(NULL, 0));
    (void)weir_service_look_at_wall(service);
    struct persistence none = {0}, *persistence = service->persistence ? service->persistence : &none;
    size_t requests = weir_persist_room(&persistence->requests,
                                        records_for_part(memory, CONFIG_LEDGER_SHARE, LEDGER_REQUEST_BYTES));
    size_t reservations = weir_persist_room(
        &persistence->reservations, records_for_part(memory, CONFIG_LEDGER_SHARE, LEDGER_RESERVATION_BYTES));
    size_t smyte =
        weir_persist_room(&persistence->smyte, records_for_part(memory, CONFIG_SMYTE_SHARE, SMYTE_BYTES));
    service->memory = memory;
    service->horizon_ns = config->horizon_ns;
    if (!weir_ledger_init(&service->ledger, requests, reservations, err))
        return false;
    service->smyte = weir_smyte_new(smyte, err);
    if (service->smyte && service->has_hash_key) {
        struct hash_key other = {~service->hash_key.high, ~service->hash_key.low};
        weir_records_set_keys(service->smyte, (struct hash_key[2]){service->hash_key, other});
    }
    /* Not shared when full: one key with the longest limit there is would be everybody's debt. */
    service->client_keys =
        service->smyte ? weir_persist_client_keys(service, keys, config->horizon_ns, err) : NULL;
    return service->client_keys && make_shares(service, keys, err);
}

/* 160 bits that no other start has. */
static void draw_run_id(char run_id[static 41])
{
    struct hash_key key = weir_hash_key(), other = weir_hash_key();
    (void)snprintf(run_id, 41, "%016llx%016llx%08llx", (unsigned long long)key.low,
                   (unsigned long long)key.high, (unsigned long long)(other.low & UINT32_MAX));
}

/* Two readings are never of the same instant: what is less than a millisecond is no step. */
bool weir_service_look_at_wall(struct service *service)
{
    int64_t was_ns = service_wall_ns(service, 0);
    int64_t lead_ns = sat_sub(weir_boot.wall(), weir_now());
    if (service->options.test_clock) /* which runs on from one start to the next, as a wall clock does */
        lead_ns = service->store ? weir_store_offset(service->store) : 0;
    bool moved = lead_ns - was_ns >= WEIR_MS || was_ns - lead_ns >= WEIR_MS;
    if (moved)
        atomic_store_explicit(&service->wall_lead_ns, lead_ns, memory_order_relaxed);
    return moved;
}

static void start_test_clock(struct service *service)
{
    if (service->options.test_clock)
        weir_clock_set(0);
    int64_t now_ns = weir_now();
    (void)weir_service_look_at_wall(service);
    service->start_lead_ns = service_wall_ns(service, 0);
    service->started_ns = now_ns;
    service->started_ms = service_wall_ms(service, now_ns);
}

/* What stands before the first configuration is applied: its users, and the policies that a store has. */
static bool make_snapshot(struct service *service, const struct config *config, struct weir_error *err)
{
    struct snapshot *snapshot = calloc(1, sizeof *snapshot);
    if (!snapshot)
        return false;
    snapshot->loaded_ms = service->started_ms;
    snapshot->users = weir_users_new(config);
    snapshot->http = weir_http_rules_ref(config->http);
    snapshot->policies = calloc(1, sizeof(struct policy *));
    if (!snapshot->users || !snapshot->policies || !weir_persist_restore(service, config, snapshot, err) ||
        !weir_snapshot_seal(snapshot)) {
        weir_snapshot_free(snapshot);
        return false;
    }
    atomic_store_explicit(&service->snapshot, snapshot, memory_order_seq_cst);
    return true;
}

static bool read_hash_key(struct service *service, const struct config *config, struct weir_error *err)
{
    service->credential_key = weir_hash_key();
    service->has_hash_key = config->hash_key_file != NULL;
    return !service->has_hash_key || weir_hash_key_read(config->hash_key_file, &service->hash_key, err);
}

static bool make_refusal_log(struct service *service, const struct config *config, struct weir_error *err)
{
    if (config->log_refusals && strcmp(config->log_refusals, "none") != 0)
        service->refusal_log = weir_refusal_log_new(config->log_refusals, err);
    return !config->log_refusals || strcmp(config->log_refusals, "none") == 0 || service->refusal_log;
}

/* ---- all of it ---- */

struct service *weir_service_new(const struct config *config, const struct service_options *options,
                                 struct weir_error *err)
{
    struct service *service = calloc(1, sizeof *service);
    weir_error_clear(err);
    if (!service || pthread_mutex_init(&service->change, NULL) != 0 || !weir_growth_init(&service->growth)) {
        weir_error_set(err, ENOMEM, "out of memory");
        free(service);
        return NULL;
    }
    service->options = *options;
    service->options.workers = options->workers > 0 ? options->workers : 1;
    draw_run_id(service->run_id);
    start_test_clock(service);
    if (!weir_start_digest(service, config) || !read_hash_key(service, config, err) ||
        !make_refusal_log(service, config, err) || !make_workers(service) ||
        !make_login_state(service, config) || !weir_persist_open(service, config, err) ||
        !make_memory(service, config, err) || !make_snapshot(service, config, err)) {
        if (err && err->code == 0)
            weir_error_set(err, ENOMEM, "out of memory");
        weir_service_free(service);
        return NULL;
    }
    if (!weir_service_apply(service, config, err) || !weir_persist_applied(service, config, err)) {
        weir_service_free(service);
        return NULL;
    }
    weir_shares_look(service, true);
    return service;
}

static void free_workers(struct service *service)
{
    for (uint32_t i = 0; service->workers && i <= service->options.workers; i++)
        free(service->workers[i].calls);
    free(service->workers);
}

static void close_service_store(struct service *service)
{
    struct weir_error err;
    if (!weir_service_close(service, &err))
        weir_log(LOG_ERROR_LEVEL, "store-not-closed", LOG_TEXT("why", err.text));
    if (service->persistence)
        free(service->persistence->path);
    free(service->persistence);
}

void weir_service_free(struct service *service)
{
    if (!service)
        return;
    weir_growth_stop(service);
    weir_loads_free(service);
    close_service_store(service);
    weir_snapshot_free(atomic_load_explicit(&service->snapshot, memory_order_acquire));
    while (service->retired) {
        struct snapshot *retired = service->retired;
        service->retired = retired->retired;
        weir_snapshot_free(retired);
    }
    weir_fleet_joiner_free(service->fleet_joiner); /* behind the last policy: it frees their pools */
    weir_ledger_end(&service->ledger);
    weir_records_free(service->smyte);
    weir_policy_table_free(service->client_keys);
    weir_login_failures_free(service->login_failures);
    weir_client_counts_free(service->client_counts);
    for (int i = 0; i < SHARE_STORES; i++)
        weir_share_free(service->shares[i]);
    weir_password_check_free(service->password_check);
    weir_refusal_log_free(service->refusal_log);
    free_workers(service);
    free(service->listens);
    weir_growth_end(&service->growth);
    (void)pthread_mutex_destroy(&service->change);
    free(service);
}

bool weir_service_close(struct service *service, struct weir_error *err)
{
    struct store *store = service->store;
    weir_error_clear(err);
    if (!store)
        return true;
    weir_persist_last_catalogue(service);
    bool closed = weir_store_close(store, err);
    service->store = NULL; /* tables are nobody's but ours again */
    return closed;
}

void weir_session_begin(struct session *session, struct service *service, const char *address,
                        const char *local, int64_t now_ns)
{
    *session = (struct session){.version = 2, .since_ns = now_ns, .active_ns = now_ns, .user = "default"};
    session->id = atomic_fetch_add_explicit(&service->sessions, 1, memory_order_relaxed) + 1;
    session->last_command = "NULL"; /* as Redis has it */
    (void)snprintf(session->address, sizeof session->address, "%s", address);
    (void)snprintf(session->local, sizeof session->local, "%s", local);
}

void weir_session_end(struct session *session, struct worker *worker)
{
    weir_client_counts_leave(worker->service->client_counts, &session->client_entry);
    weir_pending_cancel(worker, session);
    free(session->name);
    free(session->lib_name);
    free(session->lib_version);
    session->name = session->lib_name = session->lib_version = NULL;
    INVARIANT(33, !session->pending);
}

const struct user *weir_session_user(const struct session *session, const struct snapshot *snapshot)
{
    const struct users *users = snapshot->users;
    if (!session->logged_in)
        return users->list[0].has_password || session->must_log_in ? NULL : &users->list[0];
    const struct user *user = weir_users_find(users, (struct slice){session->user, strlen(session->user)});
    return user && weir_user_has(user, session->generation) ? user : NULL;
}

void weir_session_log_in(struct session *session, const struct user *user, uint64_t generation)
{
    (void)snprintf(session->user, sizeof session->user, "%s", user->name);
    session->generation = generation;
    session->logged_in = true;
}

bool weir_session_enter(struct session *session, struct worker *worker, const struct user *user,
                        uint64_t generation)
{
    const struct service *service = worker->service;
    struct client_count_limits limits = weir_service_clients(service, worker->snapshot->users);
    if (!weir_client_counts_log_in(service->client_counts, &limits, &session->client_entry, user->name,
                                   weir_user_is_admin(user))) {
        weir_log(LOG_WARN_LEVEL, "client-refused", LOG_TEXT("client", session->address),
                 LOG_TEXT("user", user->name), LOG_TEXT("why", "too many clients of this user, or in all"));
        return false;
    }
    weir_session_log_in(session, user, generation);
    return true;
}

bool weir_session_certificate(struct session *session, struct worker *worker, const char *subject)
{
    bool began = read_section_begin(worker);
    const struct user *user = weir_users_certificate(worker->snapshot->users, subject);
    bool good = !user || weir_session_enter(session, worker, user, user->certificate_generation);
    session->has_certificate = user != NULL;
    session->certificate = user ? user->certificate_generation : 0;
    read_section_end(worker, began);
    return good;
}

bool weir_session_has_ended(const struct session *session, struct worker *worker)
{
    bool began = read_section_begin(worker);
    bool ended = session->logged_in && !weir_session_user(session, worker->snapshot);
    read_section_end(worker, began);
    return ended;
}

bool weir_session_is_of_proxy(const struct session *session, struct worker *worker)
{
    bool began = read_section_begin(worker);
    bool trusted = weir_proxy_is_trusted(worker->snapshot->http, session->address);
    read_section_end(worker, began);
    return trusted;
}

void weir_session_mute(struct session *session, struct buffer *out, size_t before)
{
    if (__builtin_expect(session->replies == REPLY_ON, 1))
        return;
    out->end = out->start + before;
    if (session->replies == REPLY_SKIP_NEXT)
        session->replies = REPLY_SKIP;
    else if (session->replies == REPLY_SKIP)
        session->replies = REPLY_ON;
}
