/* SPDX-License-Identifier: MIT */
/*
 * weir stat: a line a second about what a server does.
 */
#define _POSIX_C_SOURCE 200809L
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/sat.h"
#include "cli/args.h"
#include "cli/ask.h"
#include "cli/cli.h"
#include "cli/words.h"

#define LINES_PER_HEADER 20

static const char help[] =
    "usage: weir stat [OPTION]...\n"
    "One line a second: what a server allows and refuses, and what it has in memory.\n"
    "\n"
    "      --every TIME     another pause between lines, such as 5s\n"
    "      --count N        so many lines, then end\n"
    "  -s, --server URL     redis://[user:password@]host:port or unix:///path\n"
    "                       (default: WEIR_URL, else redis://127.0.0.1:9049)\n"
    "      --json           each line is a JSON document\n"
    "  -h, --help           this text\n"
    "\n"
    "The first line has the averages since the server started. Exit status: 0, or 2 on an\n"
    "error.\n"
    "\n"
    "Examples\n"
    "  weir stat\n"
    "  weir stat --every 10s --count 6 --json\n";

struct stat_options {
    struct ask_options common;
    const char *every, *count;
};

/* What INFO says, in the order of the columns. */
enum stat_metric { ALLOWED, REFUSED, SHADOW, ERRORS, KEYS, MEMORY, CLIENTS, UPTIME, FIGURES };
static const char *const names[FIGURES] = {
    "allowed", "refused",     "shadow_refused",    "errors",
    "keys",    "memory_used", "connected_clients", "uptime_in_seconds"};
struct stat_sample {
    int64_t is[FIGURES];
    int64_t now_ns;
};

static int64_t read_stat_metric(struct slice info, const char *name)
{
    char digits[32] = "";
    struct slice text = ask_info(info, name);
    if (text.len < sizeof digits)
        memcpy(digits, text.bytes, text.len);
    return strtoll(digits, NULL, 10);
}

static bool take_stat_sample(struct cli_client *client, struct stat_sample *sample)
{
    static const char *const words[] = {"INFO", "everything"};
    const struct resp_value *info = client_tell("stat", client, words, 2);
    if (!info)
        return false;
    sample->now_ns = weir_now();
    for (int i = 0; i < FIGURES; i++)
        sample->is[i] = read_stat_metric(info->text, names[i]);
    return true;
}

/* In a second, since the sample before or since the start. */
static int64_t stat_rate(const struct stat_sample *now, const struct stat_sample *before,
                         enum stat_metric figure)
{
    int64_t time_ns = before ? now->now_ns - before->now_ns : sat_mul(max64(now->is[UPTIME], 1), WEIR_SEC);
    int64_t more = now->is[figure] - (before ? before->is[figure] : 0);
    return more > 0 ? mul_div(more, WEIR_SEC, max64(time_ns, WEIR_MS)) : 0;
}

static void format_stat_memory(int64_t bytes, char *text, size_t size)
{
    (void)snprintf(text, size, "%.1f MiB", (double)bytes / (1 << 20));
}

static void print_stat_line(const struct stat_sample *now, const struct stat_sample *before)
{
    char text[6][HUMANIZE_MAX], memory[HUMANIZE_MAX];
    format_stat_memory(now->is[MEMORY], memory, sizeof memory);
    printf("%12s %12s %12s %10s %14s %12s %9s\n", words_number(stat_rate(now, before, ALLOWED), text[0]),
           words_number(stat_rate(now, before, REFUSED), text[1]),
           words_number(stat_rate(now, before, SHADOW), text[2]), words_number(now->is[ERRORS], text[3]),
           words_number(now->is[KEYS], text[4]), memory, words_number(now->is[CLIENTS], text[5]));
}

static void print_stat_json(const struct stat_sample *now, const struct stat_sample *before)
{
    struct json json = {.file = stdout};
    json_open(&json, NULL, '{', JSON_FLAT);
    json_number(&json, "allowed_per_second", stat_rate(now, before, ALLOWED));
    json_number(&json, "refused_per_second", stat_rate(now, before, REFUSED));
    json_number(&json, "shadow_refused_per_second", stat_rate(now, before, SHADOW));
    json_number(&json, "allowed", now->is[ALLOWED]);
    json_number(&json, "refused", now->is[REFUSED]);
    json_number(&json, "shadow_refused", now->is[SHADOW]);
    json_number(&json, "errors", now->is[ERRORS]);
    json_number(&json, "keys", now->is[KEYS]);
    json_number(&json, "memory_used", now->is[MEMORY]);
    json_number(&json, "clients", now->is[CLIENTS]);
    json_close(&json, '}');
}

static int watch_stat(const struct stat_options *options, int64_t every_ns, int64_t count)
{
    struct cli_client *client = client_start("stat", options->common.server);
    struct stat_sample samples[2];
    bool good = client != NULL;
    for (int64_t i = 0; good && i < count; i++) {
        if (i > 0)
            (void)poll(NULL, 0, (int)div_up(every_ns, WEIR_MS));
        good = take_stat_sample(client, &samples[i % 2]);
        if (!good)
            break;
        const struct stat_sample *before = i > 0 ? &samples[(i + 1) % 2] : NULL;
        if (!options->common.json && i % LINES_PER_HEADER == 0)
            printf("%12s %12s %12s %10s %14s %12s %9s\n", "allowed/s", "refused/s", "shadow/s", "errors",
                   "keys", "memory", "clients");
        if (options->common.json)
            print_stat_json(&samples[i % 2], before);
        else
            print_stat_line(&samples[i % 2], before);
        good = fflush(stdout) == 0;
    }
    client_close(client);
    return good ? EXIT_OK : EXIT_ERROR;
}

int cmd_stat(int argc, char **argv)
{
    struct stat_options options = {0};
    const struct args_option table[] = {
        ASK_OPTIONS(options.common),
        {"every", 0, NULL, &options.every},
        {"count", 0, NULL, &options.count},
    };
    int operands = args_read(argc, argv, table, sizeof table / sizeof table[0]);
    int64_t every_ns = WEIR_SEC, count = INT64_MAX;
    if (operands < 0)
        return EXIT_ERROR;
    if (options.common.help) {
        fputs(help, stdout);
        return EXIT_OK;
    }
    if (operands > 0) {
        args_complain("stat", "it is about the whole server: what is", argv[1]);
        fputs("? Of a policy tells weir policy show\n", stderr);
        return EXIT_ERROR;
    }
    if ((options.every && !args_time("stat", "every", options.every, &every_ns)) ||
        (options.count && !args_count("stat", "count", options.count, &count)))
        return EXIT_ERROR;
    if (every_ns < WEIR_MS || every_ns > 86400 * WEIR_SEC) {
        fputs("weir stat: --every takes 1ms to 1d\n", stderr);
        return EXIT_ERROR;
    }
    return watch_stat(&options, every_ns, count);
}
