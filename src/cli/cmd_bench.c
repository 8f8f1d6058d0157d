/* SPDX-License-Identifier: MIT */
/*
 * weir bench: measures on this machine, in one run, what the documentation claims.
 */
#include <stdio.h>
#include <string.h>

#include "bench/bench.h"
#include "cli/args.h"
#include "cli/cli.h"
#include "weir.h"

static const char help[] =
    "usage: weir bench core [--json] [--time TIME]\n"
    "Measures speed on this machine, beside a baseline measured in the same run.\n"
    "\n"
    "  core           a pure decision of each algorithm, beside an empty call and one CAS\n"
    "\n"
    "      --time TIME    how long each figure is measured, 1ms to 1m (200ms)\n"
    "      --json         one JSON document on standard output\n"
    "  -h, --help\n"
    "\n"
    "Example\n"
    "  weir bench core --time 1s\n";

static bool check_operands(char **argv, int count)
{
    if (count == 0) {
        fputs("weir bench: measure what? For example: weir bench core\n", stderr);
        return false;
    }
    bool known = strcmp(argv[1], "core") == 0;
    if (known && count == 1)
        return true;
    args_complain("bench", "unknown word", argv[known ? 2 : 1]);
    fputs("; write: weir bench core\n", stderr);
    return false;
}

int cmd_bench(int argc, char **argv)
{
    bool json = false, wants_help = false;
    const char *time = NULL;
    int64_t time_ns = 200 * WEIR_MS;
    const struct args_option options[] = {
        {.name = "json", .flag = &json},
        {.name = "time", .value = &time},
        {.name = "help", .letter = 'h', .flag = &wants_help},
    };
    int operands = args_read(argc, argv, options, sizeof options / sizeof options[0]);
    if (operands < 0)
        return EXIT_ERROR;
    if (wants_help)
        return fputs(help, stdout), EXIT_OK;
    if (time && !args_time("bench", "time", time, &time_ns))
        return EXIT_ERROR;
    if (!check_operands(argv, operands))
        return EXIT_ERROR;
    if (time_ns < WEIR_MS || time_ns > 60 * WEIR_SEC) {
        args_complain("bench", "--time takes 1ms to 1m, not", time);
        fputc('\n', stderr);
        return EXIT_ERROR;
    }
    return bench_core(&(struct bench_options){json, (double)time_ns * 1e-9});
}
