/* SPDX-License-Identifier: MIT */
/*
 * weir bench server: what a decision over a socket costs, beside redis-server doing less (INCR) and the same
 * (a script) in the same run. Both have one thread and a processor of their own; the load has the other one.
 * What counts is the server's processor time for a request: on few processors the load is what limits the
 * rate.
 */
#include "bench/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/bench.h"
#include "cli/args.h"
#include "weir.h"

#define CONNECTIONS   50
#define FEW_KEYS      100000
#define OPEN_RATE     20000.0
#define OPEN_PARTS    5 /* times as long as a closed run: the tail needs many */
#define OF_MANY       16
#define WARM_S        0.1
#define REDIS_COMMAND "redis-server"
#define OPEN_LIMIT    "10k/d" /* nothing is refused, and no key is forgotten before it is asked for again */

const char *const subject_names[SUBJECTS] = {"redis INCR", "redis Lua GCRA", "weir take", "weir refused"};
const int server_pipelines[PIPELINES] = {1, 16, 100};
const double server_goals[PIPELINES] = {0.95, 0.65, 0.5};

/* A token bucket as people write it for Redis: one key with the time at which it is full again. */
static const char script[] = "local now = redis.call('TIME')\n"
                             "now = now[1] * 1000000 + now[2]\n"
                             "local full = tonumber(redis.call('GET', KEYS[1]) or now)\n"
                             "if full < now then full = now end\n"
                             "local after = full + tonumber(ARGV[1])\n"
                             "local wait = after - now - tonumber(ARGV[2])\n"
                             "if wait > 0 then return {0, wait} end\n"
                             "redis.call('SET', KEYS[1], after, 'PX', math.ceil((after - now) / 1000))\n"
                             "return {1, 0}\n";

struct bench_run {
    const struct bench_options *options;
    struct measured_server weir, redis, nginx;
    char sha[64];
    struct server_results *results;
};

static struct load_plan server_plan_of(struct bench_run *run, enum server_subject subject,
                                       const char *words[static 8])
{
    struct load_plan plan = {.words = words, .connections = CONNECTIONS, .keys = FEW_KEYS};
    plan.server = subject == REDIS_INCR || subject == REDIS_LUA ? &run->redis : &run->weir;
    switch (subject) {
    case REDIS_INCR:
        memcpy(words, (const char *[]){"INCR", "KEY"}, 2 * sizeof *words);
        plan.count = 2;
        break;
    case REDIS_LUA: /* 1000 in a millisecond, so that nothing is refused */
        memcpy(words, (const char *[]){"EVALSHA", run->sha, "1", "KEY", "1", "1000"}, 6 * sizeof *words);
        plan.count = 6;
        break;
    default:
        memcpy(words, (const char *[]){"WEIR.TAKE", subject == WEIR_TAKE ? "open" : "shut", "KEY"},
               3 * sizeof *words);
        plan.count = 3;
        break;
    }
    return plan;
}

static bool run_plan(struct bench_run *run, const struct load_plan *plan, struct load_result *result)
{
    bool good = load_run(plan, result);
    if (plan->server == &run->weir)
        run->results->asked += result->replies + 1; /* one was asked to learn what a reply looks like */
    if (good && result->errors > 0)
        fprintf(stderr, "weir bench: %s answered %lld requests with an error\n", plan->server->name,
                (long long)result->errors);
    return good && result->errors == 0;
}

static int compare_server_values(const void *one, const void *other)
{
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

static double server_median(double *values)
{
    qsort(values, SERVER_ROUNDS, sizeof *values, compare_server_values);
    return values[SERVER_ROUNDS / 2];
}

struct server_rounds {
    double rate[SERVER_ROUNDS], cpu_us[SERVER_ROUNDS], p50_us[SERVER_ROUNDS], p99_us[SERVER_ROUNDS];
};

static void keep_server_round(struct server_rounds *rounds, int round, const struct load_result *result)
{
    rounds->rate[round] = (double)result->replies / result->seconds;
    rounds->cpu_us[round] = load_cpu_us(result);
    rounds->p50_us[round] = result->p50_us;
    rounds->p99_us[round] = result->p99_us;
}

static struct server_cell server_cell_of(struct server_rounds *rounds)
{
    return (struct server_cell){true, server_median(rounds->rate), server_median(rounds->cpu_us),
                                server_median(rounds->p50_us), server_median(rounds->p99_us)};
}

/* All subjects in turn, and that several times, so that a busy moment of the machine hits all of them. */
static bool measure_server_pipeline(struct bench_run *run, int way, int pipeline)
{
    struct server_rounds rounds[SUBJECTS] = {0};
    int first = run->results->redis ? 0 : WEIR_TAKE;
    for (int round = 0; round < SERVER_ROUNDS; round++) {
        for (int subject = first; subject < SUBJECTS; subject++) {
            const char *words[8];
            char what[80];
            struct load_result result;
            struct load_plan plan = server_plan_of(run, (enum server_subject)subject, words);
            plan.by = way == 1 ? WAY_UNIX : WAY_TCP;
            plan.pipeline = server_pipelines[pipeline];
            plan.seconds = run->options->seconds;
            snprintf(what, sizeof what, "%s by %s, pipeline %d", subject_names[subject],
                     way == 1 ? "unix socket" : "TCP", plan.pipeline);
            bench_progress(what);
            if (!run_plan(run, &plan, &result))
                return false;
            keep_server_round(&rounds[subject], round, &result);
        }
    }
    for (int subject = first; subject < SUBJECTS; subject++)
        run->results->cells[way][pipeline][subject] = server_cell_of(&rounds[subject]);
    return true;
}

static bool measure_open(struct bench_run *run)
{
    for (int subject = run->results->redis ? 0 : WEIR_TAKE; subject < SUBJECTS; subject++) {
        const char *words[8];
        struct load_plan plan = server_plan_of(run, (enum server_subject)subject, words);
        plan.pipeline = 1;
        plan.rate = OPEN_RATE;
        plan.seconds = OPEN_PARTS * run->options->seconds;
        bench_progress(subject_names[subject]);
        run->results->open[subject].measured = true;
        if (!run_plan(run, &plan, &run->results->open[subject].result))
            return false;
    }
    return true;
}

static bool measure_many_keys(struct bench_run *run)
{
    struct server_rounds rounds;
    const char *words[8];
    struct load_plan plan = server_plan_of(run, WEIR_TAKE, words);
    words[1] = "many";
    plan.pipeline = OF_MANY;
    plan.keys = run->options->keys;
    plan.seconds = run->options->seconds;
    bench_progress("many keys");
    for (int round = 0; round < SERVER_ROUNDS; round++) {
        struct load_result result;
        if (!run_plan(run, &plan, &result))
            return false;
        keep_server_round(&rounds, round, &result);
    }
    run->results->many_keys = server_cell_of(&rounds);
    return true;
}

/* A field of INFO. */
static int64_t info_number(const char *info, const char *name)
{
    const char *at = strstr(info, name);
    return at ? strtoll(at + strlen(name), NULL, 10) : -1;
}

static bool server_count_failures(struct bench_run *run)
{
    static char info[65536];
    struct server_results *r = run->results;
    if (!measured_ask(&run->weir, (const char *[]){"INFO", "weir"}, 2, info, sizeof info))
        return false;
    r->allowed = info_number(info, "\nallowed:");
    r->refused = info_number(info, "\nrefused:");
    r->errors = info_number(info, "\nerrors:");
    return true;
}

static bool set_up(struct bench_run *run)
{
    char reply[256];
    run->weir.serves_http = true;
    run->weir.serves_tls = run->redis.serves_tls = measured_can_tls();
    run->results->redis =
        access("/usr/bin/" REDIS_COMMAND, X_OK) == 0 && measured_start_redis(&run->redis, NULL);
    if (run->results->redis &&
        !measured_ask(&run->redis, (const char *[]){"SCRIPT", "LOAD", script}, 3, run->sha, sizeof run->sha))
        return false;
    if (access(NGINX_COMMAND, X_OK) == 0 && !measured_start_nginx(&run->nginx))
        return false;
    return measured_start_weir(&run->weir, NULL) &&
           measured_ask(&run->weir, (const char *[]){"WEIR.POLICY", "SET", "open", OPEN_LIMIT}, 4, reply,
                        sizeof reply) &&
           measured_ask(&run->weir, (const char *[]){"WEIR.POLICY", "SET", "many", OPEN_LIMIT}, 4, reply,
                        sizeof reply) &&
           measured_ask(&run->weir, (const char *[]){"WEIR.POLICY", "SET", "shut", "1/d"}, 4, reply,
                        sizeof reply);
}

/* The first requests of a key are dearer than the others: tables grow, and `shut` has to be used up. */
static bool warm_up(struct bench_run *run)
{
    for (int subject = run->results->redis ? 0 : WEIR_TAKE; subject < SUBJECTS; subject++) {
        const char *words[8];
        struct load_result result;
        struct load_plan plan = server_plan_of(run, (enum server_subject)subject, words);
        plan.pipeline = 100;
        plan.seconds = WARM_S + run->options->seconds;
        bench_progress("warming up");
        if (!run_plan(run, &plan, &result))
            return false;
    }
    return true;
}

static bool measure_server(struct bench_run *run)
{
    if (!set_up(run) || !warm_up(run))
        return false;
    for (int way = 0; way < WAYS; way++)
        for (int pipeline = 0; pipeline < PIPELINES; pipeline++)
            if (!measure_server_pipeline(run, way, pipeline))
                return false;
    const struct http_servers servers = {.weir = &run->weir,
                                         .nginx = run->nginx.pid > 0 ? &run->nginx : NULL,
                                         .redis = run->results->redis ? &run->redis : NULL};
    return http_measure(&servers, CONNECTIONS, run->options->seconds, &run->results->http) &&
           measure_open(run) && measure_many_keys(run) && server_count_failures(run);
}

int bench_server(const struct bench_options *options)
{
    static struct server_results results;
    struct bench_run run = {.options = options, .results = &results};
    results.connections = CONNECTIONS;
    results.keys = options->keys;
    results.open_rate = OPEN_RATE;
    bool good = measure_server(&run);
    bench_progress(NULL);
    if (run.redis.pid > 0)
        measured_stop(&run.redis);
    if (run.nginx.pid > 0)
        measured_stop(&run.nginx);
    if (run.weir.pid > 0)
        measured_stop(&run.weir);
    results.asked += results.http.asked;
    if (!good)
        return EXIT_ERROR;
    if (options->json)
        server_print_json(&results);
    else
        server_print(&results);
    if (results.asked == results.allowed + results.refused + results.errors)
        return EXIT_OK;
    fputs("weir bench: the server has not counted what it was asked\n", stderr);
    return EXIT_ERROR;
}
