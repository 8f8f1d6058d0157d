/* SPDX-License-Identifier: MIT */
/*
 * What tools and clients ask a Redis server about itself. There are no values here: GET finds nothing, and
 * what would change the server says how that is done instead.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "service/commands/call.h"
#include "service/commands/glob.h"
#include "service/commands/info.h"
#include "service/metrics.h"

#define INFO_MOST    (4 << 20) /* bytes */
#define METRICS_MOST (7 << 20) /* the longest labels of all policies fit */
#define LONGEST_WORD 65536     /* what a client may send as one word, once it has logged in */

static void run_server_info(struct call *call)
{
    struct buffer text = {.most = INFO_MOST};
    weir_info_write(call->worker, call->user, call->args + 1, call->count - 1, &text);
    if (text.failed)
        weir_call_error(call, "ERR out of memory, or more than %d bytes; ask for one section", INFO_MOST);
    else
        weir_reply_verbatim(&call->reply, text.bytes ? buffer_bytes(&text) : "", buffer_len(&text));
    weir_buffer_free(&text);
}

/* As HTTP has it at /metrics. */
static void run_metrics(struct call *call)
{
    struct buffer text = {.most = METRICS_MOST};
    bool openmetrics = call->count > 1;
    if (openmetrics && (call->count > 2 || !weir_call_word(call, 1, "openmetrics"))) {
        weir_call_syntax(call, call->count > 2 ? 2 : 1);
        return;
    }
    weir_metrics_write(call->worker, call->user, openmetrics, &text);
    if (text.failed)
        weir_call_error(call, "ERR out of memory, or more than %d bytes of metrics", METRICS_MOST);
    else
        weir_reply_verbatim(&call->reply, buffer_bytes(&text), buffer_len(&text));
    weir_buffer_free(&text);
}

static void run_dbsize(struct call *call)
{
    weir_reply_integer(&call->reply, weir_keys_all(call->worker));
}

static void run_time(struct call *call)
{
    int64_t now_ns = service_wall_ns(call->worker->service, call->worker->now_ns);
    weir_reply_array(&call->reply, 2);
    weir_reply_print(&call->reply, "%" PRId64, now_ns / WEIR_SEC);
    weir_reply_print(&call->reply, "%" PRId64, now_ns % WEIR_SEC / 1000);
}

/* ---- CONFIG ----------------------------------------------------------------------------------- */

struct config_setting {
    const char *name, *value; /* NULL: a number of the service */
    int64_t (*number)(const struct service *service);
};

static int64_t setting_memory(const struct service *service)
{
    return service->memory;
}

static int64_t setting_clients(const struct service *service)
{
    return service->max_clients;
}

static int64_t setting_port(const struct service *service)
{
    return service->tcp_port;
}

static int64_t setting_threads(const struct service *service)
{
    return service->options.workers;
}

static int64_t setting_word(const struct service *service)
{
    (void)service;
    return LONGEST_WORD;
}

/* Nothing that has to do with a password stands here. */
static const struct config_setting settings[] = {
    {"appendonly", "no", NULL},
    {"databases", "16", NULL},
    {"io-threads", NULL, setting_threads},
    {"maxclients", NULL, setting_clients},
    {"maxmemory", NULL, setting_memory},
    {"maxmemory-policy", "noeviction", NULL},
    {"port", NULL, setting_port},
    {"proto-max-bulk-len", NULL, setting_word},
    {"replica-read-only", "yes", NULL},
    {"save", "", NULL},
    {"slave-read-only", "yes", NULL},
    {"timeout", "0", NULL},
};
#define SETTINGS (sizeof settings / sizeof *settings)

static bool is_asked(const struct call *call, const char *name)
{
    for (size_t i = 2; i < call->count; i++)
        if (weir_glob(call->args[i], (struct slice){name, strlen(name)}))
            return true;
    return false;
}

static void run_config_get(struct call *call)
{
    size_t count = 0;
    for (size_t i = 0; i < SETTINGS; i++)
        count += is_asked(call, settings[i].name);
    weir_reply_map(&call->reply, count);
    for (size_t i = 0; i < SETTINGS; i++) {
        if (!is_asked(call, settings[i].name))
            continue;
        weir_reply_text(&call->reply, settings[i].name);
        if (settings[i].value)
            weir_reply_text(&call->reply, settings[i].value);
        else
            weir_reply_print(&call->reply, "%" PRId64, settings[i].number(call->worker->service));
    }
}

static void run_config_set(struct call *call)
{
    weir_call_error(call,
                    "ERR nothing can be set this way; limits are changed by WEIR.POLICY SET, all else in "
                    "weir.yaml (WEIR.RELOAD reads it again)");
}

static void run_config_rewrite(struct call *call)
{
    weir_call_error(call,
                    "ERR weir writes no configuration; weir serve --print-config shows the one in force");
}

static void run_config_resetstat(struct call *call)
{
    weir_call_error(call, "ERR counters only grow here; look at differences");
}

/* ---- keys that do not exist ------------------------------------------------------------------- */

static void run_redis_get(struct call *call)
{
    weir_reply_null(&call->reply);
}

static void run_redis_ttl(struct call *call)
{
    weir_reply_integer(&call->reply, -2);
}

static void run_redis_type(struct call *call)
{
    weir_reply_simple(&call->reply, "none");
}

/* ---- logs that weir does not keep ------------------------------------------------------------- */

static void run_nothing(struct call *call)
{
    weir_reply_array(&call->reply, 0);
}

static void run_zero(struct call *call)
{
    weir_reply_integer(&call->reply, 0);
}

static void run_ok(struct call *call)
{
    weir_reply_simple(&call->reply, "OK");
}

static void run_null(struct call *call)
{
    weir_reply_null(&call->reply);
}

static void run_memory_doctor(struct call *call)
{
    static const char text[] =
        "weir takes its memory within a budget; INFO memory and INFO weir tell how much\n";
    weir_reply_verbatim(&call->reply, text, sizeof text - 1);
}

static void run_shutdown(struct call *call)
{
    weir_call_error(call, "ERR clients cannot stop weir; send SIGTERM to process %ld, or systemctl stop weir",
                    (long)getpid());
}

/* ---- table ------------------------------------------------------------------------------------ */

#define SERVER_PART(NAME, SUMMARY, ARITY, VERB, RUN) COMMAND(NAME, SUMMARY, "server", ARITY, VERB, RUN)

static const struct arg sections_docs[] = {{.name = "section", .flags = ARG_OPTIONAL | ARG_MULTIPLE}, {0}};
static const struct arg metrics_docs[] = {
    {.name = "format", .type = ARG_TOKEN, .token = "OPENMETRICS", .flags = ARG_OPTIONAL}, {0}};
static const struct arg patterns_docs[] = {{.name = "parameter", .flags = ARG_MULTIPLE}, {0}};
static const struct arg pair_parts[] = {{.name = "parameter"}, {.name = "value"}, {0}};
static const struct arg pairs_docs[] = {
    {.name = "data", .type = ARG_BLOCK, .flags = ARG_MULTIPLE, .parts = pair_parts}, {0}};
static const struct arg key_docs[] = {{.name = "key", .type = ARG_KEY}, {0}};
static const struct arg keys_docs[] = {{.name = "key", .type = ARG_KEY, .flags = ARG_MULTIPLE}, {0}};
static const struct arg count_docs[] = {{.name = "count", .type = ARG_INTEGER, .flags = ARG_OPTIONAL}, {0}};
static const struct arg event_docs[] = {{.name = "event"}, {0}};
static const struct arg events_docs[] = {{.name = "event", .flags = ARG_OPTIONAL | ARG_MULTIPLE}, {0}};

static const struct command config_parts[] = {
    {SERVER_PART("get", "Settings by name or pattern", -3, ENGINE_LOOK, run_config_get),
     .docs = patterns_docs, .example = "CONFIG GET save"},
    {SERVER_PART("set", "An error that says how settings are changed", -4, ENGINE_ADMIN, run_config_set),
     .docs = pairs_docs},
    {SERVER_PART("rewrite", "An error: weir writes no configuration", 2, ENGINE_ADMIN, run_config_rewrite)},
    {SERVER_PART("resetstat", "An error: counters only grow", 2, ENGINE_ADMIN, run_config_resetstat)},
    COMMAND_HELP("server", "CONFIG HELP"),
    {0}};

static const struct command latency_parts[] = {
    {SERVER_PART("latest", "Nothing: weir keeps no list of slow moments", 2, ENGINE_LOOK, run_nothing),
     .example = "LATENCY LATEST"},
    {SERVER_PART("history", "Nothing: weir keeps no list of slow moments", 3, ENGINE_LOOK, run_nothing),
     .docs = event_docs, .example = "LATENCY HISTORY command"},
    {SERVER_PART("reset", "0: there is nothing to reset", -2, ENGINE_ADMIN, run_zero), .docs = events_docs,
     .example = "LATENCY RESET"},
    COMMAND_HELP("server", "LATENCY HELP"),
    {0}};

static const struct command slowlog_parts[] = {
    {SERVER_PART("get", "Nothing: weir keeps no list of slow requests", -2, ENGINE_LOOK, run_nothing),
     .docs = count_docs, .example = "SLOWLOG GET"},
    {SERVER_PART("len", "0: weir keeps no list of slow requests", 2, ENGINE_LOOK, run_zero),
     .example = "SLOWLOG LEN"},
    {SERVER_PART("reset", "OK: there is nothing to reset", 2, ENGINE_ADMIN, run_ok),
     .example = "SLOWLOG RESET"},
    COMMAND_HELP("server", "SLOWLOG HELP"),
    {0}};

static const struct command memory_parts[] = {
    {SERVER_PART("usage", "Null: no key has memory of its own", -3, ENGINE_LOOK, run_null), .key_at = 2,
     .docs = key_docs, .example = "MEMORY USAGE user:42"},
    {SERVER_PART("doctor", "Where to look", 2, ENGINE_LOOK, run_memory_doctor), .example = "MEMORY DOCTOR"},
    COMMAND_HELP("server", "MEMORY HELP"),
    {0}};

const struct command weir_commands_info[] = {
    {SERVER_PART("info", "What the server says about itself, in sections of lines", -1, ENGINE_LOOK,
                 run_server_info),
     .flags = CMD_JOB, /* counts keys in all tables */
     .docs = sections_docs, .example = "INFO"},
    {COMMAND("weir.metrics", "Everything that Prometheus scrapes, as text or as OpenMetrics", "weir", -1,
             ENGINE_LOOK, run_metrics),
     .flags = CMD_JOB, /* the same */
     .docs = metrics_docs, .example = "WEIR.METRICS"},
    {SERVER_PART("config", "Commands about settings", -2, ENGINE_CONNECT, NULL), .commands = config_parts},
    {SERVER_PART("dbsize", "How many keys are in use", 1, ENGINE_LOOK, run_dbsize), .flags = CMD_JOB,
     .example = "DBSIZE"},
    {SERVER_PART("time", "The server's clock: seconds since 1970, and microseconds", 1, ENGINE_CONNECT,
                 run_time),
     .example = "TIME"},
    {SERVER_PART("get", "Null: keys have no values here", 2, ENGINE_LOOK, run_redis_get), .key_at = 1,
     .docs = key_docs, .example = "GET user:42"},
    {SERVER_PART("exists", "0: keys have no values here", -2, ENGINE_LOOK, run_zero), .key_at = 1,
     .docs = keys_docs, .example = "EXISTS user:42"},
    {SERVER_PART("ttl", "-2: keys have no values here", 2, ENGINE_LOOK, run_redis_ttl), .key_at = 1,
     .docs = key_docs, .example = "TTL user:42"},
    {SERVER_PART("type", "none: keys have no values here", 2, ENGINE_LOOK, run_redis_type), .key_at = 1,
     .docs = key_docs, .example = "TYPE user:42"},
    {SERVER_PART("latency", "Commands about slow moments, which weir does not keep", -2, ENGINE_CONNECT,
                 NULL),
     .commands = latency_parts},
    {SERVER_PART("slowlog", "Commands about slow requests, which weir does not keep", -2, ENGINE_CONNECT,
                 NULL),
     .commands = slowlog_parts},
    {SERVER_PART("memory", "Commands about memory", -2, ENGINE_CONNECT, NULL), .commands = memory_parts},
    {SERVER_PART("shutdown", "An error that says how weir is stopped", -1, ENGINE_ADMIN, run_shutdown)},
    {0}};
