/* SPDX-License-Identifier: MIT */
/*
 * weir-bench, which `weir bench` runs: measures on this machine, in one run, what the documentation claims.
 */
#include <stdio.h>
#include <string.h>

#include "bench/bench.h"
#include "cli/args.h"
#include "cli/cli.h"
#include "cli/standard_files.h"
#include "cli/term.h"
#include "weir.h"

static const char help[] =
    "usage: weir bench WHAT [--json] [--time TIME] [--keys KEYS]\n"
    "Measures on this machine, beside baselines measured in the same run.\n"
    "\n"
    "  core           a pure decision of each algorithm, beside an empty call and one CAS\n"
    "  fleet          a take from the limiter of a fleet, beside a plain one\n"
    "  limiter        a decision of a limiter that 1 to 64 threads share, beside bare\n"
    "                 exchanges and buckets behind a mutex\n"
    "  server         a decision over TCP and a unix socket, in pipelines of 1, 16 and 100:\n"
    "                 processor time of the server, rates, latencies; beside redis-server\n"
    "  store          the same with a data directory, for each --fsync; beside redis-server\n"
    "                 with an append-only file; latencies during images; restarts\n"
    "  table          a decision about one of 1000 to 10 million keys, alone and in\n"
    "                 batches, beside a bare exchange; memory; latencies\n"
    "  wait           how late threads go on that wait for their turn, beside\n"
    "                 clock_nanosleep, and how exactly they keep the rate\n"
    "\n"
    "      --time TIME    how long each figure is measured (200ms; fleet, limiter, table:\n"
    "                     150ms; server, store: 300ms),\n"
    "                     or one of the 36 steps of wait (1s); from 1ms to 1m (store: 5s)\n"
    "      --keys KEYS    table: the most keys (10M); server: the many keys of one row (1M);\n"
    "                     store: how many (1M), and restarts with a tenth and ten times that;\n"
    "                     from 1k to 100M (store: 5M)\n"
    "      --json         one JSON document on standard output\n"
    "  -h, --help\n"
    "\n"
    "Examples\n"
    "  weir bench core --time 1s\n"
    "  weir bench limiter --json | jq .goals\n"
    "  weir bench table --keys 1M\n";

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

static const struct bench_command *find_bench(char **argv, int count)
{
    if (count == 0) {
        fputs("weir bench: measure what? For example: weir bench core\n", stderr);
        return NULL;
    }
    for (size_t i = 0; i < BENCHES; i++) {
        if (strcmp(argv[1], benches[i].name) != 0)
            continue;
        if (count == 1)
            return &benches[i];
        args_complain("bench", "unknown word", argv[2]);
        fprintf(stderr, "; write: weir bench %s\n", benches[i].name);
        return NULL;
    }
    args_complain("bench", "unknown word", argv[1]);
    fputs("; write core, fleet, limiter, server, store, table or wait\n", stderr);
    return NULL;
}

static bool read_bench_time(const struct bench_command *bench, const char *time, int64_t *time_ns)
{
    *time_ns = bench->time_ns;
    if (!time)
        return true;
    if (!args_time("bench", "time", time, time_ns))
        return false;
    if (*time_ns >= WEIR_MS && *time_ns <= bench->time_most_s * WEIR_SEC)
        return true;
    args_complain("bench",
                  bench->time_most_s < 60 ? "--time takes 1ms to 5s, not" : "--time takes 1ms to 1m, not",
                  time);
    fputc('\n', stderr);
    return false;
}

static bool read_bench_keys(const struct bench_command *bench, const char *keys, int64_t *count)
{
    char complaint[48];
    *count = bench->keys;
    if (!keys)
        return true;
    if (bench->keys == 0) {
        fprintf(stderr, "weir bench: --keys belongs to server, store and table, not to %s\n", bench->name);
        return false;
    }
    if (!args_count("bench", "keys", keys, count))
        return false;
    if (*count >= BENCH_KEYS_MIN && *count <= bench->keys_most)
        return true;
    snprintf(complaint, sizeof complaint, "--keys takes 1k to %dM, not", (int)(bench->keys_most / MILLION));
    args_complain("bench", complaint, keys);
    fputc('\n', stderr);
    return false;
}

static int run_bench(int argc, char **argv)
{
    bool json = false, wants_help = false;
    const char *time = NULL, *keys = NULL;
    int64_t time_ns, key_count;
    const struct args_option options[] = {
        {.name = "json", .flag = &json},
        {.name = "time", .value = &time},
        {.name = "keys", .value = &keys},
        {.name = "help", .letter = 'h', .flag = &wants_help},
    };
    int operands = args_read(argc, argv, options, sizeof options / sizeof options[0]);
    if (operands < 0)
        return EXIT_ERROR;
    if (wants_help)
        return fputs(help, stdout), EXIT_OK;
    const struct bench_command *bench = find_bench(argv, operands);
    if (!bench || !read_bench_time(bench, time, &time_ns) || !read_bench_keys(bench, keys, &key_count))
        return EXIT_ERROR;
    return bench->run(&(struct bench_options){json, (double)time_ns * 1e-9, key_count});
}

int main(int argc, char **argv)
{
    static char name[] = "bench"; /* what messages call it: weir bench */
    standard_files_hold();
    term_init();
    if (argc > 0)
        argv[0] = name;
    int status = run_bench(argc, argv);
    return standard_files_flush("weir bench") ? status : EXIT_ERROR;
}
