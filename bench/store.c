/* SPDX-License-Identifier: MIT */
/*
 * weir bench store: what it costs that limits survive. A decision in each mode, beside a redis-server that
 * counts (INCR) and appends to its log with the same policy of syncs, on the same file system, in turns. Then
 * what images do to latencies, and how long a restart takes.
 */
#include "bench/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/args.h"
#include "weir.h"

#define REDIS_COMMAND "redis-server"
#define MEMORY_LEAST  64 /* MiB */
#define KEYS_PER_MIB  16000
#define FILL_S        120.0 /* at most */
#define FILL_PIPELINE 100

const struct store_policy store_wide = {"wide", "1M/365d"};
static const struct store_policy hot = {"hot", "1G/30d"};
const char *const store_modes[STORE_MODES] = {"always", "everysec", "never"};
const char *const store_orders[STORE_ORDERS] = {"uniform", "one hot key"};
const char *const store_whos[STORE_WHO] = {"redis INCR", "weir take"};
const int store_pipelines[STORE_PIPELINES] = {1, 16, 100};

/* ---- tools ---- */

static int compare_store_values(const void *one, const void *other)
{
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

double store_median(double values[static STORE_ROUNDS])
{
    qsort(values, STORE_ROUNDS, sizeof *values, compare_store_values);
    return values[STORE_ROUNDS / 2];
}

int64_t store_info(struct store_run *run, const char *name)
{
    static char info[65536];
    char line[64];
    snprintf(line, sizeof line, "\n%s:", name);
    if (!measured_ask(&run->weir, (const char *[]){"INFO"}, 1, info, sizeof info))
        return -1;
    const char *at = strstr(info, line);
    return at ? strtoll(at + strlen(line), NULL, 10) : -1;
}

bool store_load(const struct load_plan *plan, struct load_result *result)
{
    if (!load_run(plan, result))
        return false;
    if (result->errors > 0)
        fprintf(stderr, "weir bench: %s answered %lld requests with an error\n", plan->server->name,
                (long long)result->errors);
    return result->errors == 0;
}

bool store_fill(struct load_plan plan, int64_t keys)
{
    struct load_result result;
    plan.keys = plan.requests = keys;
    plan.in_turn = true;
    plan.pipeline = FILL_PIPELINE;
    plan.seconds = FILL_S;
    if (!store_load(&plan, &result))
        return false;
    if (result.replies >= keys)
        return true;
    fprintf(stderr, "weir bench: %s took too long to take in all keys\n", plan.server->name);
    return false;
}

struct load_plan store_take_plan(struct store_run *run, const struct store_policy *policy,
                                 const char *words[static 3])
{
    memcpy(words, (const char *[]){"WEIR.TAKE", policy->name, "KEY"}, 3 * sizeof *words);
    return (struct load_plan){
        .server = &run->weir, .words = words, .count = 3, .connections = STORE_CONNECTIONS};
}

/* ---- servers ---- */

/* Who has no room is refused, and so is noticed. */
static bool write_config(const struct store_run *run, const struct store_policy *policy, int64_t keys,
                         char path[static FOLDER_MAX])
{
    static const char pattern[] = "policies:\n  - {name: %s, limits: %s, keys: %lld, on_full: refuse}\n";
    folder_path(&run->results->folder, "weir.yaml", path);
    FILE *file = fopen(path, "w");
    bool good = file && fprintf(file, pattern, policy->name, policy->limit, (long long)keys) > 0 &&
                fprintf(file, "  - {name: %s, limits: %s}\n", hot.name, hot.limit) > 0;
    good = file && fclose(file) == 0 && good;
    if (!good)
        perror("weir bench: weir.yaml");
    return good;
}

bool store_make_image(const struct measured_server *weir)
{
    char reply[256];
    return measured_ask(weir, (const char *[]){"WEIR.IMAGE"}, 1, reply, sizeof reply);
}

bool store_start_weir(struct store_run *run, int mode, const struct store_policy *policy, int64_t keys)
{
    char data[FOLDER_MAX], config[FOLDER_MAX], memory[32];
    folder_path(&run->results->folder, "weir", data);
    snprintf(memory, sizeof memory, "%lldMiB", (long long)(MEMORY_LEAST + keys / KEYS_PER_MIB));
    const char *extra[] = {"--config",        config,     "--data", data, "--fsync",
                           store_modes[mode], "--memory", memory,   NULL};
    return write_config(run, policy, keys, config) && measured_start_weir(&run->weir, extra);
}

void store_end_weir(struct store_run *run)
{
    if (run->weir.pid > 0)
        measured_stop(&run->weir);
    folder_clear(&run->results->folder, "weir");
}

/* Its log is not written anew meanwhile, which would be done by another process; weir makes its images. */
static bool start_redis(struct store_run *run, int mode)
{
    const char *policy = mode == MODE_NEVER ? "no" : store_modes[mode];
    const char *extra[] = {"--appendonly",
                           "yes",
                           "--appendfsync",
                           policy,
                           "--auto-aof-rewrite-percentage",
                           "0",
                           "--dir",
                           run->results->folder.path,
                           "--appenddirname",
                           "redis",
                           NULL};
    return measured_start_redis(&run->redis, extra);
}

static void stop_both(struct store_run *run)
{
    store_end_weir(run);
    if (run->redis.pid > 0)
        measured_stop(&run->redis);
    folder_clear(&run->results->folder, "redis");
}

static struct load_plan store_plan_of(struct store_run *run, int who, int order, const char *words[static 3])
{
    struct load_plan plan = store_take_plan(run, order == ORDER_HOT ? &hot : &store_wide, words);
    if (who == STORE_REDIS) {
        memcpy(words, (const char *[]){"INCR", "KEY"}, 2 * sizeof *words);
        plan.count = 2;
        plan.server = &run->redis;
    }
    plan.keys = order == ORDER_HOT ? 1 : run->options->keys;
    return plan;
}

/* ---- what a decision costs ---- */

struct store_rounds {
    double rate[STORE_ROUNDS], cpu_us[STORE_ROUNDS], p50_us[STORE_ROUNDS], p99_us[STORE_ROUNDS];
    double written[STORE_ROUNDS];
};

static void keep_store_round(struct store_rounds *rounds, int round, const struct load_result *result)
{
    rounds->rate[round] = (double)result->replies / result->seconds;
    rounds->cpu_us[round] = load_cpu_us(result);
    rounds->p50_us[round] = result->p50_us;
    rounds->p99_us[round] = result->p99_us;
    rounds->written[round] = result->replies > 0 ? result->written / (double)result->replies : 0;
}

static struct store_cell store_cell_of(struct store_rounds *rounds)
{
    return (struct store_cell){true,
                               store_median(rounds->rate),
                               store_median(rounds->cpu_us),
                               store_median(rounds->p50_us),
                               store_median(rounds->p99_us),
                               store_median(rounds->written)};
}

/* Both in turn, and that several times, so that a busy moment of the machine, or its disk, hits both. */
static bool measure_store_pipeline(struct store_run *run, int mode, int order, int pipeline)
{
    struct store_rounds rounds[STORE_WHO] = {0};
    int first = run->results->redis ? STORE_REDIS : STORE_WEIR;
    for (int round = 0; round < STORE_ROUNDS; round++) {
        for (int who = first; who < STORE_WHO; who++) {
            const char *words[3];
            char what[96];
            struct load_result result;
            struct load_plan plan = store_plan_of(run, who, order, words);
            plan.pipeline = store_pipelines[pipeline];
            plan.seconds = run->options->seconds;
            snprintf(what, sizeof what, "fsync %s, %s, pipeline %d, round %d of %d: %s", store_modes[mode],
                     store_orders[order], plan.pipeline, round + 1, STORE_ROUNDS, store_whos[who]);
            bench_progress(what);
            if (!store_load(&plan, &result))
                return false;
            keep_store_round(&rounds[who], round, &result);
        }
    }
    for (int who = first; who < STORE_WHO; who++)
        run->results->cells[mode][order][pipeline][who] = store_cell_of(&rounds[who]);
    return true;
}

static bool fill_both(struct store_run *run)
{
    const char *words[3];
    bench_progress("every key once");
    return (!run->results->redis ||
            store_fill(store_plan_of(run, STORE_REDIS, ORDER_UNIFORM, words), run->options->keys)) &&
           store_fill(store_plan_of(run, STORE_WEIR, ORDER_UNIFORM, words), run->options->keys);
}

static bool measure_mode(struct store_run *run, int mode)
{
    bool good = (!run->results->redis || start_redis(run, mode)) &&
                store_start_weir(run, mode, &store_wide, run->options->keys) && fill_both(run);
    for (int order = 0; good && order < STORE_ORDERS; order++)
        for (int pipeline = 0; good && pipeline < STORE_PIPELINES; pipeline++)
            good = measure_store_pipeline(run, mode, order, pipeline);
    if (good && store_info(run, "refused") != 0) {
        fputs("weir bench: weir has refused takes that it should have allowed\n", stderr);
        good = false;
    }
    stop_both(run);
    return good;
}

static bool measure_store(struct store_run *run)
{
    run->results->redis = access("/usr/bin/" REDIS_COMMAND, X_OK) == 0;
    for (int mode = 0; mode < STORE_MODES; mode++)
        if (!measure_mode(run, mode))
            return false;
    return store_measure_tail(run) && store_measure_restarts(run);
}

int bench_store(const struct bench_options *options)
{
    static struct store_results results;
    struct store_run run = {.options = options, .results = &results};
    results.keys = options->keys;
    if (!folder_make(&results.folder))
        return EXIT_ERROR;
    bool good = measure_store(&run);
    bench_progress(NULL);
    stop_both(&run);
    folder_remove(&results.folder);
    if (!good)
        return EXIT_ERROR;
    if (options->json)
        store_print_json(&results);
    else
        store_print(&results);
    for (int i = 0; i < STORE_SIZES; i++)
        for (int how = 0; how < 2; how++)
            good = good && results.restarts[i][how].missing == 0;
    if (!good)
        fputs("weir bench: not all that was spent was there again after a restart\n", stderr);
    return good ? EXIT_OK : EXIT_ERROR;
}
