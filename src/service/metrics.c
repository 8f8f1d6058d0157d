/* SPDX-License-Identifier: MIT */
/*
 * Samples of a metric have to stand together, so policies are gone through once for each metric that they
 * have: all of it takes time in proportion to the text. What takes long to find out is asked for once.
 */
#include "service/metrics.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/assert.h"
#include "service/commands/info.h"
#include "service/health.h"
#include "service/leases/lease_text.h"
#include "service/log.h"
#include "service/process_stat.h"
#include "table/table.h"

#define LABELS_MAX 3

enum metric_type { GAUGE, COUNTER, HISTOGRAM, INFO };

struct metrics {
    struct worker *worker;
    struct service *service;
    const struct user *user;
    bool openmetrics;
    struct buffer *out;
    const char *name, *suffix;              /* of the metric that is being written */
    const char *labels[LABELS_MAX * 2 + 1]; /* of the next sample: name, value ... NULL */
    size_t offset;                          /* see put_policy_sum */
};

/* ---- the format ---- */

static void put_text(struct metrics *to, const char *text)
{
    buffer_put(to->out, text, strlen(text));
}

/* Names of metrics end with their unit. */
static bool has_unit(const char *name, const char *unit)
{
    size_t len = strlen(name), part = strlen(unit);
    return len > part && strcmp(name + len - part, unit) == 0 && name[len - part - 1] == '_';
}

static const char *unit_of(const char *name)
{
    static const char *const units[] = {"seconds", "bytes"};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (has_unit(name, units[i]))
            return units[i];
    return NULL;
}

/* Begins a metric. OpenMetrics names the family, the older format the samples: counters end in _total. */
static void begin_metric(struct metrics *to, enum metric_type type, const char *name, const char *help)
{
    static const char *const types[] = {"gauge", "counter", "histogram", "info"};
    static const char *const suffixes[] = {"", "_total", "", "_info"};
    const char *shown = suffixes[type], *word = types[type], *unit = unit_of(name);
    to->name = name;
    to->suffix = suffixes[type];
    to->labels[0] = NULL;
    if (to->openmetrics)
        shown = "";
    else if (type == INFO)
        word = types[GAUGE];
    weir_buffer_print(to->out, "# HELP %s%s %s\n# TYPE %s%s %s\n", name, shown, help, name, shown, word);
    if (to->openmetrics && unit)
        weir_buffer_print(to->out, "# UNIT %s %s\n", name, unit);
}

/* Of the next samples. */
#define LABEL(TO, ...) set_labels((TO), (const char *const[]){__VA_ARGS__, NULL})
static void set_labels(struct metrics *to, const char *const *labels)
{
    size_t count = 0;
    while (labels[count]) {
        ASSERT(count < LABELS_MAX * 2);
        to->labels[count] = labels[count];
        count++;
    }
    to->labels[count] = NULL;
}

static void put_label(struct metrics *to, const char *name, const char *value)
{
    struct buffer *out = to->out;
    put_text(to, name);
    buffer_put(out, "=\"", 2);
    for (; *value; value++)
        if (*value == '\n')
            buffer_put(out, "\\n", 2);
        else if (*value == '"' || *value == '\\')
            weir_buffer_print(out, "\\%c", *value);
        else
            buffer_put(out, value, 1);
    buffer_put(out, "\"", 1);
}

/* All but its value. */
static void begin_sample(struct metrics *to, const char *suffix)
{
    put_text(to, to->name);
    put_text(to, suffix);
    for (size_t i = 0; to->labels[i]; i += 2) {
        buffer_put(to->out, i == 0 ? "{" : ",", 1);
        put_label(to, to->labels[i], to->labels[i + 1]);
    }
    if (to->labels[0])
        buffer_put(to->out, "}", 1);
}

static void put_number(struct metrics *to, int64_t number)
{
    begin_sample(to, to->suffix);
    weir_buffer_print(to->out, " %" PRId64 "\n", number);
}

static void end_seconds(struct metrics *to, int64_t time_ns)
{
    uint64_t size = time_ns < 0 ? 0 - (uint64_t)time_ns : (uint64_t)time_ns;
    weir_buffer_print(to->out, " %s%" PRIu64 ".%09" PRIu64 "\n", time_ns < 0 ? "-" : "", size / WEIR_SEC,
                      size % WEIR_SEC);
}

static void put_seconds(struct metrics *to, int64_t time_ns)
{
    begin_sample(to, to->suffix);
    end_seconds(to, time_ns);
}

/* Metrics of one sample. */
static void put_gauge(struct metrics *to, const char *name, const char *help, int64_t number)
{
    begin_metric(to, GAUGE, name, help);
    put_number(to, number);
}

static void put_counter(struct metrics *to, const char *name, const char *help, int64_t number)
{
    begin_metric(to, COUNTER, name, help);
    put_number(to, number);
}

static void put_time(struct metrics *to, const char *name, const char *help, int64_t time_ns)
{
    begin_metric(to, GAUGE, name, help);
    put_seconds(to, time_ns);
}

/* ---- sums of workers ---- */

static int64_t loaded(const _Atomic int64_t *number)
{
    return atomic_load_explicit(number, memory_order_relaxed);
}

/* Behind the workers of the I/O threads stands the job thread's. `offset`: of a counter in its worker. */
static int64_t sum_of_workers(const struct service *service, size_t offset)
{
    int64_t sum = 0;
    for (uint32_t i = 0; i <= service->options.workers; i++) {
        const char *worker = (const char *)&service->workers[i];
        sum = sat_add(sum, loaded((const _Atomic int64_t *)(const void *)(worker + offset)));
    }
    return sum;
}

#define SUM_OF(TO, FIELD) sum_of_workers((TO)->service, offsetof(struct worker, FIELD))

/* The histogram at that offset of each worker, with the labels that are set; cumulative, as scraped. */
static void put_histogram(struct metrics *to, size_t offset, const struct histogram_bound *bounds)
{
    size_t last = 0, counts = offset + offsetof(struct histogram, counts);
    int64_t count = 0;
    while (to->labels[last])
        last += 2;
    to->labels[last] = "le";
    to->labels[last + 2] = NULL;
    for (size_t i = 0; i <= HISTOGRAM_BOUNDS; i++) {
        count = sat_add(count, sum_of_workers(to->service, counts + i * sizeof(int64_t)));
        to->labels[last + 1] = i < HISTOGRAM_BOUNDS ? bounds[i].text : "+Inf";
        begin_sample(to, "_bucket");
        weir_buffer_print(to->out, " %" PRId64 "\n", count);
    }
    to->labels[last] = NULL;
    begin_sample(to, "_sum");
    end_seconds(to, sum_of_workers(to->service, offset + offsetof(struct histogram, sum_ns)));
    begin_sample(to, "_count");
    weir_buffer_print(to->out, " %" PRId64 "\n", count);
}

/* ---- policies ---- */

static const char *const protocols[PROTOCOLS] = {[PROTOCOL_RESP] = "resp", [PROTOCOL_HTTP] = "http"};
static const char *const results[RESULTS] = {
    [RESULT_ALLOWED] = "allowed",
    [RESULT_REFUSED] = "refused",
    [RESULT_SHADOW_REFUSED] = "shadow_refused",
    [RESULT_UNAVAILABLE] = "unavailable",
};

/* Calls `put` for all policies that the user may see. */
static void each_policy(struct metrics *to, void (*put)(struct metrics *, const struct policy *))
{
    const struct snapshot *snapshot = to->worker->snapshot;
    for (size_t i = 0; i < snapshot->policy_count && !to->out->failed; i++) {
        const struct policy *policy = snapshot->policies[i];
        struct slice name = {policy->name, strlen(policy->name)};
        if (!to->user || weir_user_may_policy(to->user, name)) {
            LABEL(to, "policy", policy->name);
            put(to, policy);
        }
    }
}

static void put_decisions(struct metrics *to, const struct policy *policy)
{
    struct policy_sums sums;
    weir_counters_sum(policy->counters, &sums);
    for (int protocol = 0; protocol < PROTOCOLS; protocol++)
        for (int result = 0; result < RESULTS; result++) {
            LABEL(to, "policy", policy->name, "protocol", protocols[protocol], "result", results[result]);
            put_number(to, sums.decisions[protocol][result]);
        }
}

/* Limits that share a counter are seen when one of them has refused. */
static void put_refused(struct metrics *to, const struct policy *policy)
{
    const struct limit_counters *limits = policy->limit_counters;
    for (size_t i = 0; i < limits->count; i++) {
        int64_t refused = weir_limit_counter_sum(limits->of[i], policy->counters->workers);
        LABEL(to, "policy", policy->name, "limit", limits->of[i]->label);
        if (i > 0 || refused > 0)
            put_number(to, refused);
    }
}

/* to->offset: of the number in struct policy_sums. */
static void put_policy_sum(struct metrics *to, const struct policy *policy)
{
    struct policy_sums sums;
    weir_counters_sum(policy->counters, &sums);
    put_number(to, *(const int64_t *)(const void *)((const char *)&sums + to->offset));
}

static void put_policy_sums(struct metrics *to, const char *name, const char *help, size_t offset)
{
    to->offset = offset;
    begin_metric(to, COUNTER, name, help);
    each_policy(to, put_policy_sum);
}

static void put_keys(struct metrics *to, const struct policy *policy)
{
    struct policy_room room;
    weir_policy_room(policy, to->worker->now_ns, &room);
    put_number(to, room.keys);
}

static int64_t capacity_of(const struct policy_table *ptable)
{
    return ptable ? (int64_t)atom_load(&ptable->table->region->header->capacity, memory_order_relaxed) : 0;
}

static void put_capacity(struct metrics *to, const struct policy *policy)
{
    int64_t capacity = capacity_of(policy->main);
    for (size_t i = 0; i < policy->prefix_count; i++)
        capacity = sat_add(capacity, capacity_of(policy->prefixes[i].ptable));
    put_number(to, capacity);
}

static void put_table_bytes(struct metrics *to, const struct policy *policy)
{
    struct policy_table *ptables[POLICY_TABLES_MAX];
    size_t count = weir_policy_tables(policy, ptables);
    int64_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes = sat_add(bytes, loaded(&ptables[i]->bytes));
    put_number(to, bytes);
}

static void put_client_limits(struct metrics *to)
{
    begin_metric(to, COUNTER, "weir_client_limit_decisions", "Decisions by limits that came with the call.");
    for (int protocol = 0; protocol < PROTOCOLS; protocol++)
        for (int allowed = 1; allowed >= 0; allowed--) {
            LABEL(to, "protocol", protocols[protocol], "result",
                  results[allowed ? RESULT_ALLOWED : RESULT_REFUSED]);
            put_number(to, SUM_OF(to, client_limits[protocol][allowed]));
        }
}

static void put_decision_time(struct metrics *to)
{
    begin_metric(to, HISTOGRAM, "weir_decision_duration_seconds",
                 "Time to decide a request; those of a pipeline count as their mean.");
    for (int protocol = 0; protocol < PROTOCOLS; protocol++) {
        LABEL(to, "protocol", protocols[protocol]);
        put_histogram(to, offsetof(struct worker, decision_time[protocol]), weir_decision_bounds);
    }
}

static void put_policies(struct metrics *to)
{
    begin_metric(to, COUNTER, "weir_decisions", "Decisions by policy, protocol and result.");
    each_policy(to, put_decisions);
    begin_metric(to, COUNTER, "weir_refused", "Refusals by the limit that refused.");
    each_policy(to, put_refused);
    put_policy_sums(to, "weir_units", "Units of requests that were allowed.",
                    offsetof(struct policy_sums, units));
    put_policy_sums(to, "weir_candidate_refused", "Requests that the candidate limits refuse.",
                    offsetof(struct policy_sums, candidate_refused));
    put_policy_sums(to, "weir_policy_errors", "Requests that name the policy and failed.",
                    offsetof(struct policy_sums, errors));
    put_client_limits(to);
    put_decision_time(to);
}

/* ---- memory ---- */

static void put_growth(struct metrics *to)
{
    struct growth *growth = &to->service->growth;
    pthread_mutex_lock(&growth->mutex); /* held for a moment only, by any thread */
    uint64_t rounds = growth->rounds, grown = growth->grown;
    pthread_mutex_unlock(&growth->mutex);
    put_counter(to, "weir_growth_rounds", "Rounds of the growth thread through all tables.", (int64_t)rounds);
    put_counter(to, "weir_growth_grown", "Times that a table was given more room.", (int64_t)grown);
}

static void put_keys_and_room(struct metrics *to)
{
    const struct policy_table *client_keys = to->service->client_keys;
    struct weir_table_info info;
    weir_table_stat_at(client_keys->table, to->worker->now_ns, &info);
    begin_metric(to, GAUGE, "weir_keys", "Keys in use; of large tables an estimate.");
    each_policy(to, put_keys);
    begin_metric(to, GAUGE, "weir_keys_capacity", "Keys that there is room for; tables grow.");
    each_policy(to, put_capacity);
    begin_metric(to, GAUGE, "weir_table_bytes", "Memory of the tables of a policy.");
    each_policy(to, put_table_bytes);
    put_gauge(to, "weir_client_keys", "Keys in use whose limits came with the call.", info.keys);
    put_gauge(to, "weir_client_keys_capacity", "Keys with limits of the call that there is room for.",
              info.capacity);
    put_growth(to);
    put_gauge(to, "weir_memory_used_bytes", "Memory in use that counts toward the budget.",
              loaded(&to->service->memory_used));
    put_gauge(to, "weir_memory_limit_bytes", "The budget of memory, as configured.", to->service->memory);
}

#define RECORD_STORES 3
static const char *const stores[SHARE_STORES] = {[SHARE_REQUESTS] = "request_ids",
                                                 [SHARE_RESERVATIONS] = "reservations",
                                                 [SHARE_SMYTE] = "rl",
                                                 [SHARE_CLIENT_KEYS] = "client_keys"};

static void put_record_numbers(struct metrics *to, const int64_t numbers[RECORD_STORES])
{
    for (int i = 0; i < RECORD_STORES; i++) {
        LABEL(to, "store", stores[i]);
        put_number(to, numbers[i]);
    }
}

static void put_records(struct metrics *to)
{
    const struct service *service = to->service;
    struct records *const records[RECORD_STORES] = {service->ledger.requests, service->ledger.reservations,
                                                    service->smyte};
    int64_t used[RECORD_STORES], capacity[RECORD_STORES], refused[RECORD_STORES];
    for (int i = 0; i < RECORD_STORES; i++) {
        struct records_stat stat;
        weir_records_stat(records[i], &stat);
        used[i] = stat.used;
        capacity[i] = stat.room;
        refused[i] = stat.refused;
    }
    begin_metric(to, GAUGE, "weir_records", "Request ids, reservations and keys of RL.* in use.");
    put_record_numbers(to, used);
    begin_metric(to, GAUGE, "weir_records_capacity",
                 "Request ids, reservations and keys of RL.* that there is room for.");
    put_record_numbers(to, capacity);
    begin_metric(to, COUNTER, "weir_records_refused",
                 "Request ids, reservations and keys of RL.* that found no room.");
    put_record_numbers(to, refused);
    begin_metric(to, COUNTER, "weir_share_refused",
                 "Entries that were refused because their user holds its fair share.");
    for (int i = 0; i < SHARE_STORES; i++) {
        struct share_stat stat;
        weir_share_stat(service->shares[i], &stat);
        LABEL(to, "store", stores[i]);
        put_number(to, stat.refused);
    }
}

/* ---- the store ---- */

static void put_store_log(struct metrics *to, const struct store_state *state)
{
    put_gauge(to, "weir_store_healthy", "1: what is decided can be recorded.", !state->ill);
    put_gauge(to, "weir_store_slow", "1: the disk is behind, and answers wait.", state->slow);
    put_counter(to, "weir_store_failures", "Writes and syncs that failed.", state->faults);
    put_gauge(to, "weir_store_log_bytes", "The log behind the last image.", (int64_t)state->log_bytes);
    put_counter(to, "weir_store_appends", "Writes to the log.", state->appends);
    put_counter(to, "weir_store_records", "Records written to the log.", state->records);
    put_counter(to, "weir_store_fsyncs", "Syncs of the log.", state->syncs);
    put_time(to, "weir_store_last_fsync_seconds", "Time that the last sync took.", state->sync_ns_last);
    put_time(to, "weir_store_unsynced_seconds", "Age of the oldest change that is not synced.",
             state->unsynced_ns);
}

static void put_store_images(struct metrics *to, const struct store_state *state)
{
    put_counter(to, "weir_store_images", "Images written.", state->images);
    put_counter(to, "weir_store_image_failures", "Images that could not be written.", state->image_failures);
    put_gauge(to, "weir_store_image_bytes", "Size of the last image.", (int64_t)state->image_bytes);
    if (state->image_time_ns > 0)
        put_time(to, "weir_store_last_image_timestamp_seconds", "When the last image was written.",
                 service_wall_ns(to->service, state->image_time_ns));
}

static void put_store(struct metrics *to)
{
    struct store_state state;
    if (!to->service->store)
        return;
    weir_store_state(to->service->store, &state);
    put_store_log(to, &state);
    put_store_images(to, &state);
    begin_metric(to, HISTOGRAM, "weir_store_wait_seconds",
                 "Time that answers wait until what they tell of is recorded.");
    put_histogram(to, offsetof(struct worker, store_wait), weir_store_wait_bounds);
}

/* ---- fleets ---- */

struct fleet_policy {
    const struct policy *policy;
    struct lease_sum sum;
};

struct fleet_metric {
    enum metric_type type;
    const char *name, *help;
    size_t offset; /* of an int64_t in struct lease_sum */
    bool of_root;  /* also of policies whose units this server lends */
};

#define FLEET(FIELD) offsetof(struct lease_sum, FIELD)
static const struct fleet_metric fleet_metrics[] = {
    {GAUGE, "weir_fleet_members", "Pools that this server is a member of; of a root, that it lends to.",
     FLEET(pools), true},
    {GAUGE, "weir_fleet_members_connected", "Members that are connected to their coordinator.",
     FLEET(connected), false},
    {GAUGE, "weir_fleet_members_lost", "Members that have lost their coordinator.", FLEET(lost), false},
    {GAUGE, "weir_fleet_members_exhausted", "Members whose window is used up.", FLEET(exhausted), false},
    {GAUGE, "weir_fleet_balance_units", "Leased units that may be spent here.", FLEET(held), false},
    {GAUGE, "weir_fleet_coordinator_reachable", "1: all members are connected to their coordinator.",
     FLEET(reachable), false},
    /* Members of a policy with a pool for each key come and go, and what they counted with them. */
    {COUNTER, "weir_fleet_orders", "Requests to the coordinator.", FLEET(orders), false},
    {COUNTER, "weir_fleet_order_writes", "Requests to the coordinator that wrote.", FLEET(writes), false},
    {COUNTER, "weir_fleet_order_failures", "Requests to the coordinator without an answer.", FLEET(failures),
     false},
    {COUNTER, "weir_fleet_leased_units", "Units that were leased.", FLEET(taken), false},
    {COUNTER, "weir_fleet_spent_units", "Leased units that were spent.", FLEET(spent), false},
    {COUNTER, "weir_fleet_returned_units", "Leased units that were handed back.", FLEET(returned), false},
    {COUNTER, "weir_fleet_dropped_units", "Leased units that ended with their window.", FLEET(dropped),
     false},
};

static bool is_metric_of(const struct fleet_metric *metric, const struct fleet_pools *pools)
{
    return pools->local ? metric->of_root : metric->type != COUNTER || !pools->each;
}

static void put_fleet_metrics(struct metrics *to, const struct fleet_policy *fleet, size_t count)
{
    for (size_t i = 0; i < sizeof fleet_metrics / sizeof *fleet_metrics; i++) {
        const struct fleet_metric *metric = &fleet_metrics[i];
        begin_metric(to, metric->type, metric->name, metric->help);
        for (size_t at = 0; at < count; at++) {
            const char *sum = (const char *)&fleet[at].sum;
            LABEL(to, "policy", fleet[at].policy->name);
            if (is_metric_of(metric, fleet[at].policy->pools))
                put_number(to, *(const int64_t *)(const void *)(sum + metric->offset));
        }
    }
}

static bool may_see_fleet(const struct metrics *to, const struct policy *policy)
{
    struct slice name = {policy->name, strlen(policy->name)};
    return policy->pools && (!to->user || weir_user_may_policy(to->user, name));
}

static void put_fleets(struct metrics *to)
{
    const struct snapshot *snapshot = to->worker->snapshot;
    size_t count = 0, at = 0;
    for (size_t i = 0; i < snapshot->policy_count; i++)
        count += may_see_fleet(to, snapshot->policies[i]);
    if (count == 0)
        return;
    struct fleet_policy *fleet = calloc(count, sizeof *fleet);
    if (!fleet) {
        to->out->failed = true;
        return;
    }
    for (size_t i = 0; i < snapshot->policy_count; i++)
        if (may_see_fleet(to, snapshot->policies[i])) {
            fleet[at].policy = snapshot->policies[i];
            weir_lease_sum(fleet[at].policy, to->worker->now_ns, &fleet[at].sum);
            at++;
        }
    put_fleet_metrics(to, fleet, count);
    free(fleet);
}

/* ---- the server ---- */

static void put_connections(struct metrics *to)
{
    struct service *service = to->service;
    put_gauge(to, "weir_connections", "Connections that are open.", SUM_OF(to, connections));
    put_gauge(to, "weir_connections_limit", "Connections that there may be.", service->max_clients);
    put_counter(to, "weir_connections_accepted", "Connections that were ever opened.",
                (int64_t)atomic_load_explicit(&service->sessions, memory_order_relaxed));
    put_counter(to, "weir_connections_rejected", "Connections above the limit.", loaded(&service->rejected));
    put_counter(to, "weir_connections_displaced",
                "Connections without a login that were closed for another one.", loaded(&service->displaced));
    put_counter(to, "weir_login_failures", "Logins that failed or were blocked.",
                weir_login_failures_refused(service->login_failures));
    put_gauge(to, "weir_waiting_requests", "Requests that wait for units.", SUM_OF(to, waiting));
    put_counter(to, "weir_network_input_bytes", "Bytes received from clients.", SUM_OF(to, input_bytes));
    put_counter(to, "weir_network_output_bytes", "Bytes sent to clients.", SUM_OF(to, output_bytes));
}

static void put_reloads(struct metrics *to)
{
    const struct service *service = to->service;
    begin_metric(to, COUNTER, "weir_config_reloads", "Reloads of the configuration.");
    LABEL(to, "result", "success");
    put_number(to, loaded(&service->reloads));
    LABEL(to, "result", "failure");
    put_number(to, loaded(&service->reload_failures));
    put_time(to, "weir_config_last_reload_timestamp_seconds", "When the configuration in force was read.",
             sat_mul(to->worker->snapshot->loaded_ms, WEIR_MS));
}

static void put_server(struct metrics *to)
{
    const struct service *service = to->service;
    struct buffer reasons = {.most = 256};
    int64_t expires_ms = loaded(&service->tls_expires_ms);
    begin_metric(to, INFO, "weir_build", "The version of weir.");
    LABEL(to, "version", weir_version());
    put_number(to, 1);
    put_gauge(to, "weir_ready", "1: the server is ready, as /readyz says.",
              weir_health_ready(service, &reasons));
    weir_buffer_free(&reasons);
    put_time(to, "weir_uptime_seconds", "Time since the start.", to->worker->now_ns - service->started_ns);
    put_gauge(to, "weir_io_threads", "Threads that serve connections.", service->options.workers);
    put_gauge(to, "weir_policies", "Policies in force.", (int64_t)to->worker->snapshot->policy_count);
    put_counter(to, "weir_commands", "Requests that were answered.", SUM_OF(to, commands));
    put_counter(to, "weir_command_errors", "Requests that were answered with an error.", SUM_OF(to, errors));
    put_connections(to);
    put_reloads(to);
    put_counter(to, "weir_log_lines_dropped", "Log lines left out because there were too many.",
                weir_log_left_out());
    if (expires_ms != 0)
        put_time(to, "weir_tls_certificate_expiry_timestamp_seconds",
                 "When the first certificate in use expires.", sat_mul(expires_ms, WEIR_MS));
}

/* Names that all clients of Prometheus use. */
static void put_process(struct metrics *to)
{
    struct process_stat stat;
    weir_process_stat(&stat);
    begin_metric(to, COUNTER, "process_cpu_seconds", "Processor time.");
    put_seconds(to, stat.cpu_ns);
    put_time(to, "process_start_time_seconds", "When the process started, since 1970.",
             sat_mul(to->service->started_ms, WEIR_MS));
    put_gauge(to, "process_resident_memory_bytes", "Resident memory.", stat.resident_bytes);
    put_gauge(to, "process_virtual_memory_bytes", "Virtual memory.", stat.virtual_bytes);
    put_gauge(to, "process_open_fds", "Open file descriptors.", stat.open_files);
    put_gauge(to, "process_max_fds", "File descriptors that there may be.", stat.most_files);
    put_gauge(to, "process_threads", "Threads.", stat.threads);
}

void weir_metrics_write(struct worker *worker, const struct user *user, bool openmetrics, struct buffer *out)
{
    struct metrics metrics = {
        .worker = worker, .service = worker->service, .user = user, .openmetrics = openmetrics, .out = out};
    ASSERT(worker->snapshot != NULL);
    put_policies(&metrics);
    put_keys_and_room(&metrics);
    put_records(&metrics);
    put_store(&metrics);
    put_fleets(&metrics);
    put_server(&metrics);
    put_process(&metrics);
    if (openmetrics)
        put_text(&metrics, "# EOF\n");
}
