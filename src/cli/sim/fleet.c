/* SPDX-License-Identifier: MIT */
/*
 * weir sim fleet: many nodes that share one limit, with faults, in virtual time.
 */

#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/args.h"
#include "cli/cli.h"
#include "cli/json.h"
#include "cli/sim/fleet.h"
#include "cli/term.h"
#include "cli/words.h"
#include "fleet/member.h"
#include "fleet/options.h"
#include "sim/fleet.h"
#include "weir.h"

/* What a ZooKeeper server keeps in memory for a znode and for a watch, roughly. */
#define ZNODE_BYTES 400
#define WATCH_BYTES 150

static double ratio_or_zero(int64_t part, int64_t whole)
{
    return whole > 0 ? (double)part / (double)whole : 0;
}

static void print_fleet_row(const char *name, const char *value)
{
    printf("  %-24s %s\n", name, value);
}

/* ---- the parts of the table ---- */

static void print_head(const struct sim_fleet *sim, const struct sim_fleet_result *result, const char *limit)
{
    char nodes[HUMANIZE_MAX], users[HUMANIZE_MAX], events[HUMANIZE_MAX], windows[HUMANIZE_MAX];
    printf("%s, %s nodes", limit, words_number(sim->nodes, nodes));
    if (sim->users > 1)
        printf(", %s users, of whom %s asked", words_number(sim->users, users),
               words_number(result->pools, windows));
    printf(", %s", weir_sim_coordinator_name(sim->coordinator));
    if (sim->tiers > 1)
        printf(", %d tiers", sim->tiers);
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

static void print_use(const struct sim_fleet *sim, const struct sim_fleet_result *result)
{
    char text[256], a[HUMANIZE_MAX], b[HUMANIZE_MAX];
    (void)snprintf(text, sizeof text, "%.2f %% of what could pass: asked for, up to each total",
                   100 * result->use);
    print_fleet_row("use of the total", text);
    (void)snprintf(text, sizeof text, "%s of %s units", words_number(result->passed, a),
                   words_number(result->asked, b));
    print_fleet_row("passed", text);
    if (result->worst_percent > 0) {
        bool bucket = sim->terms.kind == LEASE_BUCKET;
        (void)snprintf(text, sizeof text, "%.2f %% of %s was spent", result->worst_percent,
                       bucket ? "the burst" : "its total");
        print_fleet_row(bucket ? "fullest moment" : "fullest window", text);
    }
    if (result->bound > 0)
        print_fleet_row("stated on top, at most", words_number(result->bound, a));
}

static void print_cost(const struct sim_fleet *sim, const struct sim_fleet_result *result)
{
    char text[256], a[HUMANIZE_MAX], b[HUMANIZE_MAX];
    double elapsed = (double)sim->windows * (double)sim->terms.window_ns / 1e9;
    (void)snprintf(text, sizeof text, "%s for %s chunks: %.3f each, %.1f a second",
                   words_number(result->writes, a), words_number(result->chunks, b),
                   ratio_or_zero(result->writes, result->chunks),
                   elapsed > 0 ? (double)result->writes / elapsed : 0);
    print_fleet_row("coordinator writes", text);
    (void)snprintf(text, sizeof text, "%s for a million decisions",
                   words_number((int64_t)(1e6 * ratio_or_zero(result->writes, result->decisions)), a));
    print_fleet_row("", text);
    if (sim->coordinator == SIM_ZOOKEEPER && sim->users > 1) {
        int64_t heap = result->znodes * ZNODE_BYTES + result->watches * WATCH_BYTES;
        (void)snprintf(text, sizeof text, "%s, and %s watches: about %.1f MB of heap",
                       words_number(result->znodes, a), words_number(result->watches, b), (double)heap / 1e6);
        print_fleet_row("znodes", text);
    }
    if (sim->users > 1) {
        (void)snprintf(text, sizeof text, "%s bytes for each user it serves, %s in all",
                       words_number(result->state_bytes, a), words_number(result->members, b));
        print_fleet_row("state of a node", text);
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
static void sim_fleet_print(const struct sim_fleet *sim, const struct sim_fleet_result *result,
                            const char *limit, const char *repeat, double took_s)
{
    print_head(sim, result, limit);
    print_use(sim, result);
    print_plot(result);
    print_cost(sim, result);
    print_faults(result);
    print_fleet_verdict(result);
    printf("seed %" PRIu64 ", %016" PRIx64 ", %.1f s: %s\n", sim->seed, result->fingerprint, took_s, repeat);
}

/* ---- JSON ---- */

static void json_counts(struct json *json, const char *name, const int64_t *counts, const char *(*word)(int))
{
    json_open(json, name, '{', JSON_LINES);
    for (int i = 0; word(i); i++)
        json_number(json, word(i), counts[i]);
    json_close(json, '}');
}

static void sim_fleet_json(const struct sim_fleet *sim, const struct sim_fleet_result *result,
                           const char *limit, const char *repeat)
{
    struct json json = {.file = stdout};
    char fingerprint[20];
    (void)snprintf(fingerprint, sizeof fingerprint, "%016" PRIx64, result->fingerprint);
    json_open(&json, NULL, '{', JSON_LINES);
    json_text(&json, "limit", limit);
    json_text(&json, "coordinator", weir_sim_coordinator_name(sim->coordinator));
    json_number(&json, "nodes", sim->nodes);
    json_number(&json, "users", sim->users);
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
    json_number(&json, "seed", (int64_t)sim->seed);
    json_text(&json, "repeat", repeat);
    json_close(&json, '}');
}

#define COMMAND "sim fleet"

static const char help[] =
    "usage: weir sim fleet [OPTION]...\n"
    "Many nodes share one limit, and everything breaks: nodes that run what real ones run,\n"
    "a coordinator, a network and faults, in virtual time. Nothing is slept.\n"
    "\n"
    "      --nodes N           nodes that share it (4)\n"
    "      --users U           limits, one for each user (1)\n"
    "      --windows W         windows of each user (200; with many users 10)\n"
    "      --limit LIMIT       what is shared: a quota or a bucket ('100k/m algo=quota')\n"
    "      --base N            units of a chunk, roughly (total / (100 * nodes))\n"
    "      --coordinator WHICH zookeeper, redis or weir (zookeeper)\n"
    "      --tiers N           2: nodes ask weir servers, which ask the coordinator (1)\n"
    "      --faults LIST       all, none, or some of: loss, delay, duplicate, reorder, crash,\n"
    "                          pause, partition, expiry, clocks, failover, operator, leave\n"
    "                          (all). Beside these split, two masters of a Redis: all,split\n"
    "      --failover HOW      what a Redis that takes over may do: floor or trust (floor)\n"
    "      --on-loss WHAT      refuse, or share (refuse)\n"
    "      --load X            units asked for, as a multiple of the total (1.5)\n"
    "      --sparse X          share of the users that ask in a window (1)\n"
    "      --seed S            another history (1)\n"
    "      --json              one JSON document on standard output\n"
    "  -h, --help              this text\n"
    "\n"
    "Exit status: 0, 1 if anything was over its limit, 2 if something cannot be read.\n"
    "\n"
    "Examples\n"
    "  weir sim fleet --nodes 50\n"
    "  weir sim fleet --limit '10k/s burst=20k' --coordinator redis --seed 7\n"
    "  weir sim fleet --nodes 100 --tiers 2 --faults crash,partition,pause\n"
    "  weir sim fleet --nodes 10000 --users 1M --sparse 0.001\n";

struct sim_fleet_options {
    bool json, help;
    const char *nodes, *users, *windows, *limit, *base, *coordinator, *tiers, *faults, *failover, *on_loss;
    const char *load, *sparse, *seed;
};

/* ---- reading ---- */

static bool unknown_fleet_word(const char *option, const char *word, size_t len, const char *near)
{
    fprintf(stderr, "weir " COMMAND ": --%s does not know '", option);
    term_put(stderr, word, len);
    if (near)
        fprintf(stderr, "'; did you mean %s?\n", near);
    else
        fputs("'; weir sim fleet --help lists them\n", stderr);
    return false;
}

/* The number of `word` among names[0], names[1], ... */
static bool read_fleet_word(const char *option, const char *word, const char *(*name)(int), int32_t *number)
{
    struct nearest near = weir_nearest(word, strlen(word));
    for (*number = 0; name(*number); ++*number) {
        if (strcmp(name(*number), word) == 0)
            return true;
        (void)weir_nearest_try(&near, name(*number));
    }
    return unknown_fleet_word(option, word, strlen(word), near.found);
}

static bool read_fault(const char *word, size_t len, uint32_t *faults)
{
    struct nearest near = weir_nearest(word, len);
    if (len == strlen("all") && memcmp(word, "all", len) == 0) {
        *faults |= SIM_ALL;
        return true;
    }
    for (int bit = 0; weir_sim_fault_name(bit); bit++) {
        const char *name = weir_sim_fault_name(bit);
        if (strlen(name) == len && memcmp(name, word, len) == 0) {
            *faults |= 1U << bit;
            return true;
        }
        (void)weir_nearest_try(&near, name);
    }
    return unknown_fleet_word("faults", word, len, near.found);
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

static bool read_sim_decimal(const char *option, const char *text, double *number)
{
    char *end;
    errno = 0;
    *number = strtod(text, &end);
    if (end != text && *end == '\0' && errno == 0 && *number == *number)
        return true;
    fprintf(stderr, "weir " COMMAND ": --%s takes a number such as 1.5, not '", option);
    term_put(stderr, text, strlen(text));
    fputs("'\n", stderr);
    return false;
}

static bool read_seed(const char *text, uint64_t *seed)
{
    char *end;
    errno = 0;
    *seed = strtoull(text, &end, 0);
    if (end != text && *end == '\0' && errno == 0 && text[0] != '-')
        return true;
    fputs("weir " COMMAND ": --seed takes a whole number such as 7, not '", stderr);
    term_put(stderr, text, strlen(text));
    fputs("'\n", stderr);
    return false;
}

static const char *loss_name(int number)
{
    return number == LEASE_LOSS_REFUSE ? "refuse" : number == LEASE_LOSS_SHARE ? "share" : NULL;
}

static const char *failover_name(int number)
{
    return number == 0 ? "floor" : number == 1 ? "trust" : NULL;
}

static bool read_fleet_limit(const char *text, struct sim_fleet *sim)
{
    struct weir_fleet_options options = {
        .size = sizeof options, .base = sim->terms.base, .nodes = sim->nodes};
    struct weir_error err;
    int64_t base = sim->terms.base;
    if (!weir_fleet_terms(text, &options, &sim->terms, &err)) {
        fputs("weir " COMMAND ": ", stderr);
        term_lines(stderr, err.text, strlen(err.text));
        return false;
    }
    sim->terms.base = base; /* each user's own, unless it was said */
    sim->terms.chunk = 0;
    return true;
}

static bool read_fleet_counts(const struct sim_fleet_options *options, struct sim_fleet *sim)
{
    int64_t tiers = sim->tiers;
    if ((options->nodes && !args_count(COMMAND, "nodes", options->nodes, &sim->nodes)) ||
        (options->users && !args_count(COMMAND, "users", options->users, &sim->users)))
        return false;
    sim->windows = sim->users > 1 ? 10 : 200;
    bool good = (!options->windows || args_count(COMMAND, "windows", options->windows, &sim->windows)) &&
                (!options->base || args_count(COMMAND, "base", options->base, &sim->terms.base)) &&
                (!options->tiers || args_count(COMMAND, "tiers", options->tiers, &tiers));
    sim->tiers = tiers > 1000 ? 1000 : (int32_t)tiers;
    return good;
}

/* What would be passed over in silence. */
static const char *without_effect(const struct sim_fleet *sim)
{
    if (sim->coordinator == SIM_REDIS)
        return NULL;
    return sim->faults & SIM_SPLIT ? "--faults split, two masters, needs --coordinator redis"
           : sim->trust            ? "--failover trust needs --coordinator redis"
                                   : NULL;
}

static bool read_fleet_options(const struct sim_fleet_options *options, const char *limit,
                               struct sim_fleet *sim)
{
    int32_t trust = 0;
    char why[200];
    if (!read_fleet_counts(options, sim) ||
        (options->coordinator && !read_fleet_word("coordinator", options->coordinator,
                                                  weir_sim_coordinator_name, &sim->coordinator)) ||
        (options->faults && !read_faults(options->faults, &sim->faults)) ||
        (options->failover && !read_fleet_word("failover", options->failover, failover_name, &trust)) ||
        (options->on_loss &&
         !read_fleet_word("on-loss", options->on_loss, loss_name, &sim->options.on_loss)) ||
        (options->load && !read_sim_decimal("load", options->load, &sim->load)) ||
        (options->sparse && !read_sim_decimal("sparse", options->sparse, &sim->sparse)) ||
        (options->seed && !read_seed(options->seed, &sim->seed)) || !read_fleet_limit(limit, sim))
        return false;
    sim->trust = trust != 0;
    const char *idle = without_effect(sim);
    if (!idle && weir_sim_fleet_check(sim, why, sizeof why))
        return true;
    fprintf(stderr, "weir " COMMAND ": %s\n", idle ? idle : why);
    return false;
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
static void write_repeat(char *text, size_t size, int count, char *const *words, const struct sim_fleet *sim,
                         bool seeded)
{
    size_t at = (size_t)snprintf(text, size, "weir sim fleet");
    for (int i = 0; i < count && at < size; i++) {
        bool plain =
            strspn(words[i], "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=,./") ==
            strlen(words[i]);
        at += (size_t)snprintf(text + at, size - at, plain ? " %s" : " '%s'", words[i]);
    }
    if (!seeded && at < size)
        (void)snprintf(text + at, size - at, " --seed %" PRIu64, sim->seed);
}

static int simulate_fleet(const struct sim_fleet *sim, const char *limit, const char *repeat, bool json)
{
    struct sim_fleet_result *result = malloc(sizeof *result);
    bool person = isatty(STDERR_FILENO) && !json;
    double began = seconds_since_boot(), shown = began;
    if (!result || !weir_sim_fleet_run(sim, person ? show_progress : NULL, &shown, result)) {
        fputs("weir " COMMAND ": out of memory; simulate fewer nodes\n", stderr);
        free(result);
        return EXIT_ERROR;
    }
    if (person)
        fputs("\r      \r", stderr);
    if (json)
        sim_fleet_json(sim, result, limit, repeat);
    else
        sim_fleet_print(sim, result, limit, repeat, seconds_since_boot() - began);
    int status = result->over > 0 ? EXIT_REFUSED : EXIT_OK;
    free(result);
    return status;
}

int sim_fleet(int argc, char **argv)
{
    struct sim_fleet_options options = {0};
    const struct args_option table[] = {
        {"nodes", 0, NULL, &options.nodes},       {"users", 0, NULL, &options.users},
        {"windows", 0, NULL, &options.windows},   {"limit", 0, NULL, &options.limit},
        {"base", 0, NULL, &options.base},         {"coordinator", 0, NULL, &options.coordinator},
        {"tiers", 0, NULL, &options.tiers},       {"faults", 0, NULL, &options.faults},
        {"failover", 0, NULL, &options.failover}, {"on-loss", 0, NULL, &options.on_loss},
        {"load", 0, NULL, &options.load},         {"sparse", 0, NULL, &options.sparse},
        {"seed", 0, NULL, &options.seed},         {"json", 0, &options.json, NULL},
        {"help", 'h', &options.help, NULL},
    };
    struct sim_fleet sim = {.seed = 1, .nodes = 4, .users = 1, .tiers = 1, .load = 1.5, .sparse = 1};
    char repeat[1024], *words[64];
    int said = argc - 1 < 64 ? argc - 1 : 64;
    static char name[] = COMMAND;
    sim.faults = SIM_ALL;
    argv[0] = name;
    memcpy(words, argv + 1, (size_t)said * sizeof *words);
    int count = args_read(argc, argv, table, sizeof table / sizeof table[0]);
    if (count < 0)
        return EXIT_ERROR;
    if (options.help) {
        fputs(help, stdout);
        return EXIT_OK;
    }
    if (count > 0) {
        fputs("weir " COMMAND ": the limit stands behind --limit, as in --limit '100k/m algo=quota'\n",
              stderr);
        return EXIT_ERROR;
    }
    const char *limit = options.limit ? options.limit : "100k/m algo=quota";
    if (!read_fleet_options(&options, limit, &sim))
        return EXIT_ERROR;
    write_repeat(repeat, sizeof repeat, said, words, &sim, options.seed != NULL);
    return simulate_fleet(&sim, limit, repeat, options.json);
}
