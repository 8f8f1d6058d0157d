/* SPDX-License-Identifier: MIT */
/*
 * weir stat: a line a second about what a server does.
 */
#define _POSIX_C_SOURCE 200809L
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/sat.h"
#include "cli/ask.h"
#include "cli/commands.h"
#include "cli/words.h"

#define LINES_PER_HEADER 20

static int64_t every_ns = WEIR_SEC, lines = INT64_MAX;

/* What INFO says, in the order of the columns. */
enum stat_metric { ALLOWED, REFUSED, SHADOW, ERRORS, KEYS, MEMORY, CLIENTS, UPTIME, FIGURES };
static const char *const names[FIGURES] = {
    "allowed", "refused",     "shadow_refused",    "errors",
    "keys",    "memory_used", "connected_clients", "uptime_in_seconds"};
struct stat_sample {
    int64_t is[FIGURES];
    int64_t now_ns;
};

static int64_t read_stat_metric(const struct resp_value *info, const char *name)
{
    char digits[32] = "";
    struct slice text = ask_info(info, name);
    if (text.len < sizeof digits)
        memcpy(digits, text.bytes, text.len);
    return strtoll(digits, NULL, 10);
}

static bool take_stat_sample(struct cli_client *client, struct stat_sample *sample)
{
    const struct resp_value *info = ask_words("stat", client, "INFO", "everything", NULL);
    if (!info)
        return false;
    sample->now_ns = weir_now();
    for (int i = 0; i < FIGURES; i++)
        sample->is[i] = read_stat_metric(info, names[i]);
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

static int run_stat(const struct cli_command *command, int count, char **argv)
{
    struct cli_client *client = ask_open(command->name, ask_options.server, false);
    struct stat_sample samples[2];
    bool good = client != NULL;
    (void)count;
    (void)argv;
    for (int64_t i = 0; good && i < lines; i++) {
        if (i > 0)
            (void)poll(NULL, 0, (int)div_up(every_ns, WEIR_MS));
        good = take_stat_sample(client, &samples[i % 2]);
        if (!good)
            break;
        const struct stat_sample *before = i > 0 ? &samples[(i + 1) % 2] : NULL;
        if (!ask_options.json && i % LINES_PER_HEADER == 0)
            printf("%12s %12s %12s %10s %14s %12s %9s\n", "allowed/s", "refused/s", "shadow/s", "errors",
                   "keys", "memory", "clients");
        if (ask_options.json)
            print_stat_json(&samples[i % 2], before);
        else
            print_stat_line(&samples[i % 2], before);
        good = fflush(stdout) == 0;
    }
    client_close(client);
    return good ? EXIT_OK : EXIT_ERROR;
}

static const struct args_option options[] = {
    OPT_RANGE("every", ARGS_TIME, &every_ns, WEIR_MS, 86400 * WEIR_SEC, "1ms to 1d", "TIME",
              "another pause between lines, such as 5s"),
    OPT_COUNT("count", &lines, "N", "so many lines, then end"),
    ASK_SERVER,
    OPT_FLAG("json", 0, &ask_options.json, "each line is a JSON document"),
};

const struct cli_command command_stat = {
    .name = "stat",
    .usage = "[OPTION]...\n"
             "One line a second: what a server allows and refuses, and what it has in memory.\n",
    ARGS_OPTIONS(options),
    .more = "The first line has the averages since the server started. Exit status: 0, or 2 on an\n"
            "error.\n"
            "\n"
            "Examples\n"
            "  weir stat\n"
            "  weir stat --every 10s --count 6 --json\n",
    .many = "; this is about the whole server, weir policy show about a policy",
    .run = run_stat,
};
