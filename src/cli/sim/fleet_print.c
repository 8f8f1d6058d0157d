/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/json.h"
#include "cli/sim/fleet.h"
#include "cli/term.h"
#include "cli/words.h"
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

void sim_fleet_print(const struct sim_fleet *sim, const struct sim_fleet_result *result, const char *limit,
                     const char *repeat, double took_s)
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

void sim_fleet_json(const struct sim_fleet *sim, const struct sim_fleet_result *result, const char *limit,
                    const char *repeat)
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
