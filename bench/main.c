/* SPDX-License-Identifier: MIT */
/*
 * weir-bench, which `weir bench` runs: measures on this machine, in one run, what the documentation claims.
 */
#include <stdio.h>
#include <string.h>

#include "bench/bench.h"
#include "cli/args.h"
#include "cli/program.h"
#include "cli/term.h"
#include "weir.h"

#define MILLION 1000000

static const struct bench_command {
    const char *name;
    int (*run)(const struct bench_options *options);
    int64_t time_ns, time_most_s;
    int64_t keys, keys_most; /* 0: it has none */
} benches[] = {
    {"core", bench_core, 200 * WEIR_MS, 60, 0, 0},
    {"fleet", bench_fleet, 150 * WEIR_MS, 60, 0, 0},
    {"limiter", bench_limiter, 150 * WEIR_MS, 60, 0, 0},
    {"server", bench_server, 300 * WEIR_MS, 60, MILLION, BENCH_KEYS_MAX},
    {"store", bench_store, 300 * WEIR_MS, 5, MILLION, 5 * MILLION},
    {"table", bench_table, 150 * WEIR_MS, 60, 10 * MILLION, BENCH_KEYS_MAX},
    {"wait", bench_wait, WEIR_SEC, 60, 0, 0},
};
#define BENCHES (sizeof benches / sizeof benches[0])

static bool json;
static const char *time_text, *keys_text;

static const struct bench_command *find_bench(const char *word)
{
    for (size_t i = 0; i < BENCHES; i++)
        if (strcmp(word, benches[i].name) == 0)
            return &benches[i];
    args_fail("bench", "unknown word '%s'; write core, fleet, limiter, server, store, table or wait", word);
    return NULL;
}

/* What is allowed depends on what is measured. */
static bool read_bench_options(const struct bench_command *bench, int64_t *time_ns, int64_t *keys)
{
    char most[32];
    *time_ns = bench->time_ns;
    *keys = bench->keys;
    if (keys_text && bench->keys == 0)
        return args_fail("bench", "--keys belongs to server, store and table, not to %s", bench->name), false;
    snprintf(most, sizeof most, "1k to %dM", (int)(bench->keys_most / MILLION));
    const struct args_option bounds[] = {
        OPT_RANGE("time", ARGS_TIME, time_ns, WEIR_MS, bench->time_most_s * WEIR_SEC,
                  bench->time_most_s < 60 ? "1ms to 5s" : "1ms to 1m", "TIME", NULL),
        OPT_RANGE("keys", ARGS_COUNT, keys, BENCH_KEYS_MIN, bench->keys_most, most, "KEYS", NULL),
    };
    return args_read_option("bench", &bounds[0], time_text) &&
           args_read_option("bench", &bounds[1], keys_text);
}

static int run_bench(const struct cli_command *command, int count, char **argv)
{
    int64_t time_ns, keys;
    const struct bench_command *bench = find_bench(argv[1]);
    if (!bench)
        return EXIT_ERROR;
    if (count > 1)
        return args_fail(command->name, "unknown word '%s'; write: weir bench %s", argv[2], bench->name);
    if (!read_bench_options(bench, &time_ns, &keys))
        return EXIT_ERROR;
    return bench->run(&(struct bench_options){json, (double)time_ns * 1e-9, keys});
}

static const struct args_option options[] = {
    OPT_TEXT("time", 0, &time_text, "TIME",
             "how long each figure is measured (200ms; fleet, limiter, table: 150ms; server, store: 300ms), "
             "or one of the 36 steps of wait (1s); from 1ms to 1m (store: 5s)"),
    OPT_TEXT("keys", 0, &keys_text, "KEYS",
             "table: the most keys (10M); server: the many keys of one row (1M); store: how many (1M), and "
             "restarts with a tenth and ten times that; from 1k to 100M (store: 5M)"),
    OPT_FLAG("json", 0, &json, "one JSON document on standard output"),
};

static const struct cli_command command_bench = {
    .name = "bench", /* what messages call it: weir bench */
    .usage = "WHAT [--json] [--time TIME] [--keys KEYS]\n"
             "Measures on this machine, beside baselines measured in the same run.\n"
             "\n"
             "  core           a pure decision of each algorithm, beside an empty call and one CAS\n"
             "  fleet          a take from the limiter of a fleet, beside a plain one\n"
             "  limiter        a decision of a limiter that 1 to 64 threads share, beside bare\n"
             "                 exchanges and buckets behind a mutex\n"
             "  server         a decision over TCP and a unix socket, in pipelines of 1, 16 and 100:\n"
             "                 processor time of the server, rates, latencies; beside redis-server;\n"
             "                 and by HTTP, beside nginx, and with TLS\n"
             "  store          the same with a data directory, for each --fsync; beside redis-server\n"
             "                 with an append-only file; latencies during images; restarts\n"
             "  table          a decision about one of 1000 to 10 million keys, alone and in\n"
             "                 batches, beside a bare exchange; memory; latencies\n"
             "  wait           how late threads go on that wait for their turn, beside\n"
             "                 clock_nanosleep, and how exactly they keep the rate\n",
    ARGS_OPTIONS(options),
    .more = "Examples\n"
            "  weir bench core --time 1s\n"
            "  weir bench limiter --json | jq .goals\n"
            "  weir bench table --keys 1M\n",
    .least = 1,
    .most = -1,
    .few = "measure what? For example: weir bench core",
    .run = run_bench,
};

int main(int argc, char **argv)
{
    program_hold_files();
    term_init();
    int status = args_run(&command_bench, argc, argv);
    return program_flush("weir bench") ? status : EXIT_ERROR;
}
