/* SPDX-License-Identifier: MIT */
/*
 * weir sim fleet: many nodes that share one limit, with faults, in virtual time.
 */

#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/commands.h"
#include "cli/json.h"
#include "cli/term.h"
#include "cli/words.h"
#include "fleet/member.h"
#include "fleet/options.h"
#include "sim/fleet.h"
#include "weir.h"

/* What a ZooKeeper server keeps in memory for a znode and for a watch, roughly. */
#define ZNODE_BYTES 400
#define WATCH_BYTES 150

static struct sim_fleet sim = {
    .seed = 1, .nodes = 4, .users = 1, .load = 1.5, .sparse = 1, .faults = SIM_ALL};
static int64_t tiers = 1;
static int coordinator, failover, on_loss;
static bool json_wanted;
static const char *limit = "100k/m algo=quota", *fault_list, *seed;

static double ratio_or_zero(int64_t part, int64_t whole)
{
    return whole > 0 ? (double)part / (double)whole : 0;
}

__attribute__((format(printf, 2, 3))) static void print_fleet_row(const char *name, const char *format, ...)
{
    va_list list;
    printf("  %-24s ", name);
    va_start(list, format);
    vprintf(format, list);
    va_end(list);
    putchar('\n');
}

/* ---- the parts of the table ---- */

static void print_head(const struct sim_fleet_result *result)
{
    char nodes[HUMANIZE_MAX], users[HUMANIZE_MAX], events[HUMANIZE_MAX], windows[HUMANIZE_MAX];
    printf("%s, %s nodes", limit, words_number(sim.nodes, nodes));
    if (sim.users > 1)
        printf(", %s users, of whom %s asked", words_number(sim.users, users),
               words_number(result->pools, windows));
    printf(", %s", weir_sim_coordinator_name(sim.coordinator));
    if (sim.tiers > 1)
        printf(", %d tiers", sim.tiers);
    printf("\n%s windows judged, %s events (%.0f a window)\n", words_number(result->windows, windows),
           words_number(result->events, events), ratio_or_zero(result->events, result->windows));
}

/* How much of each window's total was spent, ten levels high. */
static void print_plot(const struct sim_fleet_result *result)
{
    static const char *const utf8[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    static const char ascii[] = " .:-=+*#@";
    int columns = term_width(stdout) - 28;
    if (result->plotted < 2)
        return;
    printf("  %-24s ", "use of each window");
    for (int64_t i = 0; i < result->plotted && i < columns; i++) {
        int level = (int)(result->plot[i] * 8 + 0.5);
        level = level < 0 ? 0 : level > 8 ? 8 : level;
        if (term_utf8())
            fputs(utf8[level], stdout);
        else
            putchar(ascii[level]);
    }
    putchar('\n');
}

static void print_use(const struct sim_fleet_result *result)
{
    char a[HUMANIZE_MAX], b[HUMANIZE_MAX];
    print_fleet_row("use of the total", "%.2f %% of what could pass: asked for, up to each total",
                    100 * result->use);
    print_fleet_row("passed", "%s of %s units", words_number(result->passed, a),
                    words_number(result->asked, b));
    if (result->worst_percent > 0) {
        bool bucket = sim.terms.kind == LEASE_BUCKET;
        print_fleet_row(bucket ? "fullest moment" : "fullest window", "%.2f %% of %s was spent",
                        result->worst_percent, bucket ? "the burst" : "its total");
    }
    if (result->bound > 0)
        print_fleet_row("stated on top, at most", "%s", words_number(result->bound, a));
}

static void print_cost(const struct sim_fleet_result *result)
{
    char a[HUMANIZE_MAX], b[HUMANIZE_MAX];
    double elapsed = (double)sim.windows * (double)sim.terms.window_ns / 1e9;
    print_fleet_row("coordinator writes", "%s for %s chunks: %.3f each, %.1f a second",
                    words_number(result->writes, a), words_number(result->chunks, b),
                    ratio_or_zero(result->writes, result->chunks),
                    elapsed > 0 ? (double)result->writes / elapsed : 0);
    print_fleet_row("", "%s for a million decisions",
                    words_number((int64_t)(1e6 * ratio_or_zero(result->writes, result->decisions)), a));
    if (sim.coordinator == SIM_ZOOKEEPER && sim.users > 1) {
        int64_t heap = result->znodes * ZNODE_BYTES + result->watches * WATCH_BYTES;
        print_fleet_row("znodes", "%s, and %s watches: about %.1f MB of heap",
                        words_number(result->znodes, a), words_number(result->watches, b),
                        (double)heap / 1e6);
    }
    if (sim.users > 1) {
        print_fleet_row("state of a node", "%s bytes for each user it serves, %s in all",
                        words_number(result->state_bytes, a), words_number(result->members, b));
    }
}

static void print_faults(const struct sim_fleet_result *result)
{
    char text[512] = "";
    size_t at = 0;
    for (int bit = 0; weir_sim_fault_name(bit) && at < sizeof text - 40; bit++)
        if (result->faults[bit] > 0)
            at += (size_t)snprintf(text + at, sizeof text - at, "%s%s %" PRId64, at ? ", " : "",
                                   weir_sim_fault_name(bit), result->faults[bit]);
    printf("  %-24s ", "faults");
    term_wrap(stdout, at ? text : "none", 27, 27, term_width(stdout));
}

static void print_fleet_verdict(const struct sim_fleet_result *result)
{
    char a[HUMANIZE_MAX], b[HUMANIZE_MAX];
    bool good = result->over == 0;
    printf("%s%s of %s windows over%s\n", term_colour(stdout, good ? TERM_GOOD : TERM_BAD),
           words_number(result->over, a), words_number(result->windows, b), term_colour(stdout, TERM_PLAIN));
    if (good)
        return;
    for (int law = 0; law < SIM_LAWS; law++)
        if (result->broken[law] > 0)
            printf("  %-24s %" PRId64 " times\n", weir_sim_law_name(law), result->broken[law]);
    printf("first: %s\n", result->first);
}

/* `repeat`: the command that repeats it; `took_s`: real seconds. */
static void sim_fleet_print(const struct sim_fleet_result *result, const char *repeat, double took_s)
{
    print_head(result);
    print_use(result);
    print_plot(result);
    print_cost(result);
    print_faults(result);
    print_fleet_verdict(result);
    printf("seed %" PRIu64 ", %016" PRIx64 ", %.1f s: %s\n", sim.seed, result->fingerprint, took_s, repeat);
}

/* ---- JSON ---- */

static void json_counts(struct json *json, const char *name, const int64_t *counts, const char *(*word)(int))
{
    json_open(json, name, '{', JSON_LINES);
    for (int i = 0; word(i); i++)
        json_number(json, word(i), counts[i]);
    json_close(json, '}');
}

static void sim_fleet_json(const struct sim_fleet_result *result, const char *repeat)
{
    struct json json = {.file = stdout};
    char fingerprint[20];
    (void)snprintf(fingerprint, sizeof fingerprint, "%016" PRIx64, result->fingerprint);
    json_open(&json, NULL, '{', JSON_LINES);
    json_text(&json, "limit", limit);
    json_text(&json, "coordinator", weir_sim_coordinator_name(sim.coordinator));
    json_number(&json, "nodes", sim.nodes);
    json_number(&json, "users", sim.users);
    json_number(&json, "windows", result->windows);
    json_number(&json, "events", result->events);
    json_number(&json, "asked", result->asked);
    json_number(&json, "passed", result->passed);
    json_decimal(&json, "use", result->use);
    json_decimal(&json, "worst_percent", result->worst_percent);
    json_number(&json, "stated", result->bound);
    json_number(&json, "decisions", result->decisions);
    json_number(&json, "orders", result->orders);
    json_number(&json, "writes", result->writes);
    json_number(&json, "chunks", result->chunks);
    json_number(&json, "turns", result->turns);
    json_number(&json, "pools", result->pools);
    json_number(&json, "members", result->members);
    json_number(&json, "znodes", result->znodes);
    json_number(&json, "watches", result->watches);
    json_number(&json, "state_bytes", result->state_bytes);
    json_counts(&json, "faults", result->faults, weir_sim_fault_name);
    json_counts(&json, "broken", result->broken, weir_sim_law_name);
    json_number(&json, "over", result->over);
    json_text(&json, "first", result->first);
    json_text(&json, "fingerprint", fingerprint);
    json_number(&json, "seed", (int64_t)sim.seed);
    json_text(&json, "repeat", repeat);
    json_close(&json, '}');
}

/* ---- reading ---- */

static bool read_fault(const char *word, size_t len, uint32_t *bits)
{
    struct nearest near = weir_nearest(word, len);
    if (len == strlen("all") && memcmp(word, "all", len) == 0) {
        *bits |= SIM_ALL;
        return true;
    }
    for (int bit = 0; weir_sim_fault_name(bit); bit++) {
        const char *name = weir_sim_fault_name(bit);
        if (strlen(name) == len && memcmp(name, word, len) == 0) {
            *bits |= 1U << bit;
            return true;
        }
        (void)weir_nearest_try(&near, name);
    }
    args_fail(command_sim_fleet.name, "--faults does not know '%.*s'; %s%s%s", (int)len, word,
              near.found ? "did you mean " : "weir sim fleet --help lists them", near.found ? near.found : "",
              near.found ? "?" : "");
    return false;
}

static bool read_faults(const char *list, uint32_t *faults)
{
    *faults = 0;
    if (strcmp(list, "none") == 0)
        return true;
    while (*list) {
        size_t len = strcspn(list, ",");
        if (!read_fault(list, len, faults))
            return false;
        list += len + (list[len] == ',');
    }
    return true;
}

static bool read_seed(const char *text, uint64_t *number)
{
    char *end;
    errno = 0;
    *number = strtoull(text, &end, 0);
    return (end != text && *end == '\0' && errno == 0 && text[0] != '-') ||
           (args_fail(command_sim_fleet.name, "--seed takes a whole number such as 7, not '%s'", text),
            false);
}

static bool read_fleet_limit(void)
{
    struct weir_fleet_options fleet = {.size = sizeof fleet, .base = sim.terms.base, .nodes = sim.nodes};
    struct weir_error err;
    int64_t base = sim.terms.base;
    if (!weir_fleet_terms(limit, &fleet, &sim.terms, &err))
        return args_fail(command_sim_fleet.name, "%s", err.text), false;
    sim.terms.base = base; /* each user's own, unless it was said */
    sim.terms.chunk = 0;
    return true;
}

/* What would be passed over in silence. */
static const char *without_effect(void)
{
    if (sim.coordinator == SIM_REDIS)
        return NULL;
    return sim.faults & SIM_SPLIT ? "--faults split, two masters, needs --coordinator redis"
           : sim.trust            ? "--failover trust needs --coordinator redis"
                                  : NULL;
}

static bool read_fleet_options(void)
{
    char why[200];
    sim.tiers = (int32_t)min64(tiers, 1000);
    sim.coordinator = coordinator;
    sim.trust = failover != 0;
    sim.options.on_loss = on_loss == 0 ? LEASE_LOSS_REFUSE : LEASE_LOSS_SHARE;
    if (sim.windows == 0)
        sim.windows = sim.users > 1 ? 10 : 200;
    if ((fault_list && !read_faults(fault_list, &sim.faults)) || (seed && !read_seed(seed, &sim.seed)) ||
        !read_fleet_limit())
        return false;
    const char *idle = without_effect();
    if (!idle && weir_sim_fleet_check(&sim, why, sizeof why))
        return true;
    return args_fail(command_sim_fleet.name, "%s", idle ? idle : why), false;
}

/* ---- running ---- */

static double seconds_since_boot(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void show_progress(void *arg, int64_t done, int64_t all)
{
    double *shown = arg, now = seconds_since_boot();
    if (now - *shown < 0.2)
        return;
    *shown = now;
    fprintf(stderr, "\r%d %% ", (int)(100 * (double)done / (double)all));
}

/* Everything that was said, and the seed that was not. */
static void write_repeat(char *text, size_t size, char *const *words)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=,./";
    struct text repeat;
    weir_text_init(&repeat, text, size);
    weir_text_print(&repeat, "weir sim fleet");
    for (; *words; words++)
        weir_text_print(&repeat, (*words)[strspn(*words, plain)] ? " '%s'" : " %s", *words);
    if (!seed)
        weir_text_print(&repeat, " --seed %" PRIu64, sim.seed);
}

static int simulate_fleet(const char *repeat)
{
    struct sim_fleet_result *result = malloc(sizeof *result);
    bool person = isatty(STDERR_FILENO) && !json_wanted;
    double began = seconds_since_boot(), shown = began;
    int status = EXIT_ERROR;
    if (result && weir_sim_fleet_run(&sim, person ? show_progress : NULL, &shown, result)) {
        if (person)
            fputs("\r      \r", stderr);
        if (json_wanted)
            sim_fleet_json(result, repeat);
        else
            sim_fleet_print(result, repeat, seconds_since_boot() - began);
        status = result->over > 0 ? EXIT_REFUSED : EXIT_OK;
    } else {
        (void)args_fail(command_sim_fleet.name, "out of memory; simulate fewer nodes");
    }
    free(result);
    return status;
}

static int run_sim_fleet(const struct cli_command *command, int count, char **argv)
{
    char repeat[1024];
    (void)command;
    (void)count;
    if (!read_fleet_options())
        return EXIT_ERROR;
    write_repeat(repeat, sizeof repeat, argv + 1); /* there are no operands, so the words are as they were */
    return simulate_fleet(repeat);
}

static const struct args_option options[] = {
    OPT_COUNT("nodes", &sim.nodes, "N", "nodes that share it (4)"),
    OPT_COUNT("users", &sim.users, "U", "limits, one for each user (1)"),
    OPT_COUNT("windows", &sim.windows, "W", "windows of each user (200; with many users 10)"),
    OPT_TEXT("limit", 0, &limit, "LIMIT", "what is shared: a quota or a bucket ('100k/m algo=quota')"),
    OPT_COUNT("base", &sim.terms.base, "N", "units of a chunk, roughly (total / (100 * nodes))"),
    OPT_WORD("coordinator", &coordinator, "zookeeper|redis|weir", "WHICH",
             "zookeeper, redis or weir (zookeeper)"),
    OPT_COUNT("tiers", &tiers, "N", "2: nodes ask weir servers, which ask the coordinator (1)"),
    OPT_TEXT(
        "faults", 0, &fault_list, "LIST",
        "all, none, or some of: loss, delay, duplicate, reorder, crash, pause, partition, expiry, "
        "clocks, failover, operator, leave (all). Beside these split, two masters of a Redis: all,split"),
    OPT_WORD("failover", &failover, "floor|trust", "HOW",
             "what a Redis that takes over may do: floor or trust (floor)"),
    OPT_WORD("on-loss", &on_loss, "refuse|share", "WHAT", "refuse, or share (refuse)"),
    OPT_DECIMAL("load", &sim.load, "X", "units asked for, as a multiple of the total (1.5)"),
    OPT_DECIMAL("sparse", &sim.sparse, "X", "share of the users that ask in a window (1)"),
    OPT_TEXT("seed", 0, &seed, "S", "another history (1)"),
    OPT_FLAG("json", 0, &json_wanted, "one JSON document on standard output"),
};

const struct cli_command command_sim_fleet = {
    .name = "sim fleet",
    .usage = "[OPTION]...\n"
             "Many nodes share one limit, and everything breaks: nodes that run what real ones run,\n"
             "a coordinator, a network and faults, in virtual time. Nothing is slept.\n",
    ARGS_OPTIONS(options),
    .more = "Exit status: 0, 1 if anything was over its limit, 2 if something cannot be read.\n"
            "\n"
            "Examples\n"
            "  weir sim fleet --nodes 50\n"
            "  weir sim fleet --limit '10k/s burst=20k' --coordinator redis --seed 7\n"
            "  weir sim fleet --nodes 100 --tiers 2 --faults crash,partition,pause\n"
            "  weir sim fleet --nodes 10000 --users 1M --sparse 0.001\n",
    .many = "the limit stands behind --limit, as in --limit '100k/m algo=quota'",
    .run = run_sim_fleet,
};
