/* SPDX-License-Identifier: MIT */
/*
 * INFO: sections of lines "field:value", as monitoring tools read them from Redis, and one of weir's own.
 * Counters of workers are read one by one while they count: each is right, their sums may be a call apart.
 */

#include <inttypes.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/sat.h"
#include "service/commands/cmd_client.h"
#include "service/commands/info.h"
#include "service/leases/lease_text.h"
#include "service/persist/persist.h"
#include "service/policies/retired.h"

/*
 * INFO persistence: first what monitoring tools look for in a Redis server, then what there is.
 */

static void tell_as_redis(const struct store_state *state, bool kept, struct buffer *out)
{
    weir_buffer_print(out,
                      "loading:0\r\nasync_loading:0\r\nrdb_changes_since_last_save:0\r\n"
                      "rdb_bgsave_in_progress:%d\r\nrdb_last_bgsave_status:ok\r\naof_enabled:%d\r\n"
                      "aof_rewrite_in_progress:0\r\naof_rewrite_scheduled:0\r\n",
                      state->image_running, kept);
    if (kept)
        weir_buffer_print(out, "aof_last_write_status:%s\r\n", state->ill ? "err" : "ok");
}

static void tell_files(const struct service *service, const struct store_state *state, int64_t now_ns,
                       struct buffer *out)
{
    int64_t files, bytes;
    weir_retired_count(service, &files, &bytes);
    weir_buffer_print(out,
                      "store_log_bytes:%" PRIu64 "\r\nstore_image:%" PRIu64 "\r\nstore_image_bytes:%" PRIu64
                      "\r\nstore_image_age_ms:%" PRId64 "\r\n",
                      state->log_bytes, state->image_number, state->image_bytes,
                      state->image_time_ns > 0 ? max64(now_ns - state->image_time_ns, 0) / WEIR_MS : -1);
    weir_buffer_print(
        out, "store_images:%" PRId64 "\r\nstore_image_failures:%" PRId64 "\r\nstore_image_running:%d\r\n",
        state->images, state->image_failures, state->image_running);
    weir_buffer_print(out, "retired_files:%" PRId64 "\r\nretired_bytes:%" PRId64 "\r\n", files, bytes);
}

static void tell_syncs(const struct store_state *state, struct buffer *out)
{
    weir_buffer_print(out,
                      "store_appends:%" PRId64 "\r\nstore_records:%" PRId64 "\r\nstore_syncs:%" PRId64
                      "\r\nstore_sync_us_last:%" PRId64 "\r\nstore_sync_us_most:%" PRId64
                      "\r\nstore_unsynced_ms:%" PRId64 "\r\n",
                      state->appends, state->records, state->syncs, state->sync_ns_last / 1000,
                      state->sync_ns_most / 1000, state->unsynced_ns / WEIR_MS);
}

static void tell_recovery(const struct persistence *persistence, struct buffer *out)
{
    const struct store_found *found = &persistence->found;
    const char *word = found->fresh    ? "nothing"
                       : found->clean  ? "clean"
                       : found->lost   ? "lost"
                       : found->unsure ? "unsure"
                                       : "unclean";
    weir_buffer_print(
        out, "recovered:%s\r\nrecovered_how:%s\r\nrecovered_keys:%" PRId64 "\r\nrecovered_ms:%" PRId64 "\r\n",
        word, persistence->how, persistence->keys, persistence->took_ns / WEIR_MS);
}

/* Its section about the store. */
static void write_persistence(const struct worker *worker, struct buffer *out)
{
    const struct service *service = worker->service;
    struct store_state state = {0};
    if (service->store)
        weir_store_state(service->store, &state);
    tell_as_redis(&state, service->store != NULL, out);
    if (!service->store) {
        weir_buffer_print(out, "data:none\r\n");
        return;
    }
    weir_buffer_print(out, "data:%s\r\nfsync:%s\r\nstore_status:%s\r\n", service->persistence->path,
                      weir_fsync_name((int)service->persistence->sync),
                      state.ill    ? "ill"
                      : state.slow ? "slow"
                                   : "ok");
    weir_buffer_print(out, "store_error:%s\r\nstore_ill_ms:%" PRId64 "\r\nstore_faults:%" PRId64 "\r\n",
                      state.error, state.ill ? max64(worker->now_ns - state.ill_since_ns, 0) / WEIR_MS : 0,
                      state.faults);
    tell_files(service, &state, worker->now_ns, out);
    tell_syncs(&state, out);
    tell_recovery(service->persistence, out);
}

struct info_writer {
    struct worker *worker;
    struct service *service;
    const struct user *user;
    struct buffer *out;
    int64_t keys; /* of all policies, once they were counted; -1: not yet */
};

#define say(teller, ...) weir_buffer_print((teller)->out, __VA_ARGS__)

/* ---- sums ------------------------------------------------------------------------------------- */

struct info_sums {
    int64_t commands, errors, allowed, refused, input, output, connections, waiting;
};

static int64_t load_relaxed(const _Atomic int64_t *number)
{
    return atomic_load_explicit(number, memory_order_relaxed);
}

/* Behind the workers of the loops stands the job thread's. */
static struct info_sums sum_up(const struct service *service)
{
    struct info_sums sums = {0};
    for (uint32_t i = 0; i <= service->options.workers; i++) {
        const struct worker *worker = &service->workers[i];
        sums.commands += load_relaxed(&worker->commands);
        sums.errors += load_relaxed(&worker->errors);
        sums.allowed += load_relaxed(&worker->allowed);
        sums.refused += load_relaxed(&worker->refused);
        for (int protocol = 0; protocol < PROTOCOLS; protocol++) {
            sums.refused += load_relaxed(&worker->client_limits[protocol][false]);
            sums.allowed += load_relaxed(&worker->client_limits[protocol][true]);
        }
        sums.input += load_relaxed(&worker->input_bytes);
        sums.output += load_relaxed(&worker->output_bytes);
        sums.connections += load_relaxed(&worker->connections);
        sums.waiting += load_relaxed(&worker->waiting);
    }
    return sums;
}

static void add_room(const struct policy_table *ptable, int64_t now_ns, struct policy_room *room)
{
    struct weir_table_info info = {0};
    if (!ptable || !ptable->table)
        return;
    weir_table_stat_at(ptable->table, now_ns, &info);
    room->keys += info.keys;
    room->capacity += info.capacity;
}

void weir_policy_room(const struct policy *policy, int64_t now_ns, struct policy_room *room)
{
    *room = (struct policy_room){0};
    add_room(policy->main, now_ns, room);
    for (size_t i = 0; i < policy->prefix_count; i++)
        add_room(policy->prefixes[i].ptable, now_ns, room);
}

static int64_t keys_of_policies(const struct worker *worker)
{
    const struct snapshot *snapshot = worker->snapshot;
    int64_t keys = 0;
    for (size_t i = 0; i < snapshot->policy_count; i++) {
        struct policy_room room;
        weir_policy_room(snapshot->policies[i], worker->now_ns, &room);
        keys += room.keys;
    }
    return keys;
}

/* Whose limits come with the call. */
static int64_t keys_of_clients(const struct worker *worker)
{
    struct policy_room room = {0};
    struct records_stat smyte = {0};
    add_room(worker->service->client_keys, worker->now_ns, &room);
    if (worker->service->smyte)
        weir_records_stat(worker->service->smyte, &smyte);
    return room.keys + smyte.used;
}

int64_t weir_keys_all(const struct worker *worker)
{
    return keys_of_policies(worker) + keys_of_clients(worker);
}

enum policy_mode weir_policy_stated_mode(const struct worker *worker, const struct policy *policy,
                                         int *percent)
{
    bool over = worker_is_past(worker, policy->mode_until_ms);
    *percent = over ? policy->percent_after : policy->percent;
    return over ? policy->mode_after : policy->mode;
}

/* ---- sections --------------------------------------------------------------------------------- */

static void tell_server(struct info_writer *teller)
{
    const struct service *service = teller->service;
    struct utsname system;
    int64_t up = (teller->worker->now_ns - service->started_ns) / WEIR_SEC;
    say(teller, "redis_version:%s\r\nweir_version:%s\r\nredis_mode:standalone\r\n", REDIS_VERSION,
        weir_version());
    if (uname(&system) == 0)
        say(teller, "os:%s %s %s\r\n", system.sysname, system.release, system.machine);
    say(teller, "arch_bits:%zu\r\nmultiplexing_api:epoll\r\nprocess_id:%ld\r\nrun_id:%s\r\ntcp_port:%d\r\n",
        sizeof(void *) * 8, (long)getpid(), service->run_id, service->tcp_port);
    int64_t now_ns = service_wall_ns(service, teller->worker->now_ns);
    say(teller,
        "server_time_usec:%" PRId64 "\r\nuptime_in_seconds:%" PRId64 "\r\nuptime_in_days:%" PRId64 "\r\n",
        now_ns / 1000, up, up / 86400);
    int number = 0;
    for (const char *at = service->listens; at && *at; at += strcspn(at, "\n") + 1) {
        int kind = (int)strcspn(at, " ");
        say(teller, "listener%d:name=%.*s,address=%.*s\r\n", number++, kind, at,
            (int)strcspn(at, "\n") - kind - 1, at + kind + 1);
    }
    say(teller, "io_threads:%" PRIu32 "\r\nconfig_file:%s\r\n", service->options.workers,
        service->options.config_path ? service->options.config_path : "");
}

static void tell_clients(struct info_writer *teller)
{
    struct info_sums sums = sum_up(teller->service);
    say(teller, "connected_clients:%" PRId64 "\r\ncluster_connections:0\r\nmaxclients:%" PRId64 "\r\n",
        sums.connections, teller->service->max_clients);
    say(teller, "blocked_clients:%" PRId64 "\r\ntracking_clients:0\r\npubsub_clients:0\r\n", sums.waiting);
}

static int64_t most_memory(void)
{
    struct rusage usage;
    return getrusage(RUSAGE_SELF, &usage) == 0 ? (int64_t)usage.ru_maxrss * 1024 : 0;
}

static void tell_size(struct info_writer *teller, const char *name, int64_t bytes)
{
    static const char units[] = "BKMGT";
    double size = (double)bytes;
    size_t unit = 0;
    for (; size >= 1024 && units[unit + 1]; unit++)
        size /= 1024;
    say(teller, "%s:%" PRId64 "\r\n%s_human:%.2f%c\r\n", name, bytes, name, size, units[unit]);
}

static void tell_memory(struct info_writer *teller)
{
    tell_size(teller, "used_memory", load_relaxed(&teller->service->memory_used));
    tell_size(teller, "used_memory_peak", most_memory());
    tell_size(teller, "maxmemory", teller->service->memory);
    say(teller, "maxmemory_policy:noeviction\r\n");
}

static void tell_persistence(struct info_writer *teller)
{
    write_persistence(teller->worker, teller->out);
}

static void tell_stats(struct info_writer *teller)
{
    struct service *service = teller->service;
    struct info_sums sums = sum_up(service);
    say(teller, "total_connections_received:%" PRIu64 "\r\ntotal_commands_processed:%" PRId64 "\r\n",
        atomic_load_explicit(&service->sessions, memory_order_relaxed), sums.commands);
    say(teller, "instantaneous_ops_per_sec:%" PRId64 "\r\ntotal_net_input_bytes:%" PRId64 "\r\n",
        load_relaxed(&service->ops_per_second), sums.input);
    say(teller, "total_net_output_bytes:%" PRId64 "\r\nrejected_connections:%" PRId64 "\r\n", sums.output,
        load_relaxed(&service->rejected));
    say(teller, "displaced_connections:%" PRId64 "\r\n", load_relaxed(&service->displaced));
    say(teller,
        "expired_keys:0\r\nevicted_keys:0\r\nkeyspace_hits:0\r\nkeyspace_misses:0\r\n"
        "total_error_replies:%" PRId64 "\r\n",
        sums.errors);
}

static void tell_replication(struct info_writer *teller)
{
    say(teller, "role:master\r\nconnected_slaves:0\r\nmaster_failover_state:no-failover\r\n"
                "master_repl_offset:0\r\n");
}

static void tell_cpu(struct info_writer *teller)
{
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) != 0)
        return;
    say(teller, "used_cpu_sys:%" PRId64 ".%06" PRId64 "\r\nused_cpu_user:%" PRId64 ".%06" PRId64 "\r\n",
        (int64_t)usage.ru_stime.tv_sec, (int64_t)usage.ru_stime.tv_usec, (int64_t)usage.ru_utime.tv_sec,
        (int64_t)usage.ru_utime.tv_usec);
}

static void tell_modules(struct info_writer *teller)
{
    (void)teller;
}

static void tell_commands(struct info_writer *teller)
{
    const struct service *service = teller->service;
    for (size_t command = 0; command < weir_command_count(); command++) {
        int64_t calls = 0, failed = 0, usec = 0;
        for (uint32_t i = 0; i <= service->options.workers; i++) {
            const struct worker *worker = &service->workers[i];
            calls += load_relaxed(&worker->calls[command]);
            failed += load_relaxed(&worker->failed[command]);
            usec += load_relaxed(&worker->usec[command]);
        }
        if (calls > 0)
            say(teller,
                "cmdstat_%s:calls=%" PRId64 ",usec=%" PRId64
                ",usec_per_call=%.2f,rejected_calls=0,failed_calls=%" PRId64 "\r\n",
                weir_command_at(command)->name, calls, usec, (double)usec / (double)calls, failed);
    }
}

static void tell_errors(struct info_writer *teller)
{
    struct info_sums sums = sum_up(teller->service);
    if (sums.errors > 0)
        say(teller, "errorstat_ERR:count=%" PRId64 "\r\n", sums.errors);
}

static void tell_cluster(struct info_writer *teller)
{
    say(teller, "cluster_enabled:0\r\n");
}

static void tell_keyspace(struct info_writer *teller)
{
    if (teller->keys < 0)
        teller->keys = keys_of_policies(teller->worker);
    int64_t keys = teller->keys + keys_of_clients(teller->worker);
    if (keys > 0)
        say(teller, "db0:keys=%" PRId64 ",expires=%" PRId64 ",avg_ttl=0\r\n", keys, keys);
}

/* ---- # Weir ----------------------------------------------------------------------------------- */

/* Of all policies. */
struct info_totals {
    int64_t keys, capacity, shadow_refused;
};

static void tell_policy(struct info_writer *teller, const struct policy *policy, struct info_totals *totals)
{
    struct policy_sums sums;
    struct policy_room room;
    int percent;
    weir_counters_sum(policy->counters, &sums);
    weir_policy_room(policy, teller->worker->now_ns, &room);
    totals->keys += room.keys;
    totals->capacity += room.capacity;
    totals->shadow_refused += sums.shadow_refused;
    if (!weir_user_may_policy(teller->user, (struct slice){policy->name, strlen(policy->name)}))
        return;
    enum policy_mode mode = weir_policy_stated_mode(teller->worker, policy, &percent);
    say(teller,
        "policy_%s:allowed=%" PRId64 ",refused=%" PRId64 ",shadow_refused=%" PRId64
        ",candidate_refused=%" PRId64 ",errors=%" PRId64,
        policy->name, sums.allowed, sums.refused, sums.shadow_refused, sums.candidate_refused, sums.errors);
    say(teller, ",keys=%" PRId64 ",capacity=%" PRId64 ",mode=%s,percent=%d\r\n", room.keys, room.capacity,
        weir_mode_name(mode), percent);
}

/* A live change of many keys holds the lock for long; nobody waits for it here. */
static void tell_reload(struct info_writer *teller)
{
    struct service *service = teller->service;
    say(teller, "config_loaded_ms:%" PRId64 "\r\nreloads:%" PRId64 "\r\nreload_failures:%" PRId64 "\r\n",
        teller->worker->snapshot->loaded_ms, load_relaxed(&service->reloads),
        load_relaxed(&service->reload_failures));
    char error[sizeof service->reload_error] = "a change is going on; ask again";
    if (pthread_mutex_trylock(&service->change) == 0) {
        memcpy(error, service->reload_error, sizeof error);
        pthread_mutex_unlock(&service->change);
    }
    for (char *sign = error; *sign; sign++) /* it may show what stands in a file */
        if ((unsigned char)*sign < ' ')
            *sign = ' ';
    say(teller, "last_reload_error:%s\r\n", error);
}

static void tell_mode_of_all(struct info_writer *teller)
{
    const struct snapshot *snapshot = teller->worker->snapshot;
    int64_t until = worker_end_ns(teller->worker, snapshot->all_until_ms), now = teller->worker->now_ns;
    bool stands = snapshot->mode_for_all && (until == 0 || now < until);
    say(teller, "mode_of_all:%s\r\nmode_of_all_ends_in_ms:%" PRId64 "\r\n",
        stands ? weir_mode_name(snapshot->all_mode) : "none", stands && until ? ms_up(until - now) : -1);
}

static void tell_ledger(struct info_writer *teller)
{
    struct records_stat requests = {0}, ledger = {0}, smyte = {0};
    if (teller->service->ledger.reservations) {
        weir_records_stat(teller->service->ledger.requests, &requests);
        weir_records_stat(teller->service->ledger.reservations, &ledger);
    }
    if (teller->service->smyte)
        weir_records_stat(teller->service->smyte, &smyte);
    say(teller,
        "requests_used:%" PRId64 "\r\nrequests_capacity:%" PRId64 "\r\nrequests_refused:%" PRId64 "\r\n",
        requests.used, requests.room, requests.refused);
    say(teller,
        "ledger_used:%" PRId64 "\r\nledger_capacity:%" PRId64 "\r\nledger_refused:%" PRId64
        "\r\nrl_used:%" PRId64 "\r\nrl_capacity:%" PRId64 "\r\n",
        ledger.used, ledger.room, ledger.refused, smyte.used, smyte.room);
}

/* What one user may hold of stores that all have in common: fair_share.h. */
static void tell_shares(struct info_writer *teller)
{
    static const char *const names[SHARE_STORES] = {"requests", "ledger", "rl", "client_keys"};
    for (int i = 0; i < SHARE_STORES; i++) {
        struct share_stat stat;
        weir_share_stat(teller->service->shares[i], &stat);
        say(teller, "%s_share_most:%" PRId64 "\r\n%s_share_refused:%" PRId64 "\r\n", names[i], stat.most,
            names[i], stat.refused);
    }
}

static void tell_totals(struct info_writer *teller, const struct info_totals *totals)
{
    struct info_sums sums = sum_up(teller->service);
    say(teller, "policies:%zu\r\nkeys:%" PRId64 "\r\ncapacity:%" PRId64 "\r\n",
        teller->worker->snapshot->policy_count, totals->keys, totals->capacity);
    say(teller,
        "allowed:%" PRId64 "\r\nrefused:%" PRId64 "\r\nshadow_refused:%" PRId64 "\r\nerrors:%" PRId64
        "\r\nwaiting:%" PRId64 "\r\n",
        sums.allowed, sums.refused, totals->shadow_refused, sums.errors, sums.waiting);
}

static void tell_weir(struct info_writer *teller)
{
    struct service *service = teller->service;
    const struct snapshot *snapshot = teller->worker->snapshot;
    struct info_totals totals = {0};
    say(teller, "weir_version:%s\r\ntest_clock:%d\r\n", weir_version(), service->options.test_clock);
    say(teller, "memory_budget:%" PRId64 "\r\nmemory_used:%" PRId64 "\r\n", service->memory,
        load_relaxed(&service->memory_used));
    tell_ledger(teller);
    tell_shares(teller);
    tell_mode_of_all(teller);
    tell_reload(teller);
    say(teller, "log_lines_left_out:%" PRId64 "\r\n", weir_log_left_out());
    for (size_t i = 0; i < snapshot->policy_count; i++)
        tell_policy(teller, snapshot->policies[i], &totals);
    tell_totals(teller, &totals);
    teller->keys = totals.keys;
}

static void tell_fleet(struct info_writer *teller)
{
    weir_info_fleet(teller->worker, teller->user, teller->out);
}

/* ---- which of them ---------------------------------------------------------------------------- */

struct info_section {
    const char *name, *title;
    bool usual; /* without asking for it */
    void (*tell)(struct info_writer *teller);
};

static const struct info_section sections[] = {
    {"server", "Server", true, tell_server},
    {"clients", "Clients", true, tell_clients},
    {"memory", "Memory", true, tell_memory},
    {"persistence", "Persistence", true, tell_persistence},
    {"stats", "Stats", true, tell_stats},
    {"replication", "Replication", true, tell_replication},
    {"cpu", "CPU", true, tell_cpu},
    {"modules", "Modules", true, tell_modules},
    {"commandstats", "Commandstats", false, tell_commands},
    {"errorstats", "Errorstats", true, tell_errors},
    {"cluster", "Cluster", true, tell_cluster},
    {"weir", "Weir", true, tell_weir},
    {"fleet", "Fleet", true, tell_fleet},
    {"keyspace", "Keyspace", true, tell_keyspace},
};

static bool is_section_wanted(const struct info_section *section, const struct slice *words, size_t count)
{
    const struct call call = {.args = words, .count = count};
    if (count == 0)
        return section->usual;
    for (size_t i = 0; i < count; i++)
        if (weir_call_word(&call, i, section->name) || weir_call_word(&call, i, "all") ||
            weir_call_word(&call, i, "everything") || (section->usual && weir_call_word(&call, i, "default")))
            return true;
    return false;
}

void weir_info_write(struct worker *worker, const struct user *user, const struct slice *words, size_t count,
                     struct buffer *out)
{
    struct info_writer teller = {
        .worker = worker, .service = worker->service, .user = user, .out = out, .keys = -1};
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        if (!is_section_wanted(&sections[i], words, count))
            continue;
        say(&teller, "%s# %s\r\n", buffer_len(out) > 0 ? "\r\n" : "", sections[i].title);
        sections[i].tell(&teller);
    }
}
