/* SPDX-License-Identifier: MIT */
/*
 * weir spec: what a limit lets pass, in plain words, as JSON, or as a picture.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/caret.h"
#include "cli/chart.h"
#include "cli/commands.h"
#include "cli/commands/spec_print.h"
#include "cli/explain.h"
#include "cli/plot.h"
#include "cli/term.h"

static bool json_wanted, chart;
static const char *plot;

/* ---- reading ---- */

/* From the first to the last text that cannot be read. */
struct unread_limits {
    int first, last;
    bool no_rates; /* each looks like a part of the limit before it */
};

static struct unread_limits find_unread(char **texts, int count)
{
    struct unread_limits unread = {.first = count, .no_rates = true};
    for (int i = 0; i < count; i++) {
        struct weir_spec specs[WEIR_LIMITS_MAX];
        struct weir_error err;
        if (weir_spec_parse(texts[i], specs, WEIR_LIMITS_MAX, &err) > 0)
            continue;
        if (unread.first == count) {
            unread.first = i;
            unread.no_rates = i > 0 && isalpha((unsigned char)texts[i][0]);
        }
        unread.no_rates &= !strchr(texts[i], '/');
        unread.last = i;
    }
    return unread;
}

/* Quotes were forgotten if the texts, from the one before the first that cannot be read, make a limit. */
static bool hint_quotes(char **texts, int count, struct unread_limits unread)
{
    for (int from = unread.first > 0 ? unread.first - 1 : 0; from <= unread.first; from++)
        for (int to = unread.last; to < count; to++)
            if (caret_hint_quotes("spec", texts + from, to - from + 1))
                return true;
    return false;
}

static void policies_free(struct weir_policy **policies, int count)
{
    for (int i = 0; i < count; i++)
        weir_policy_free(policies[i]);
    free(policies);
}

/* All of them, or NULL after a complaint about each that cannot be read. */
static struct weir_policy **policies_read(char **texts, int count)
{
    struct unread_limits unread = find_unread(texts, count);
    if (unread.first < count && hint_quotes(texts, count, unread))
        return NULL;
    struct weir_policy **policies = calloc((size_t)count, sizeof *policies);
    if (!policies)
        return args_fail("spec", "out of memory"), NULL;
    bool good = true;
    for (int i = 0; i < count; i++) {
        policies[i] = caret_read_policy("spec", texts[i]);
        good &= policies[i] != NULL;
    }
    if (good)
        return policies;
    if (unread.first < count && unread.no_rates) {
        fputs("weir spec: if this is one limit, quote it: weir spec '", stderr);
        for (int i = unread.first - 1; i <= unread.last; i++)
            term_print(stderr, "%s%s", texts[i], i < unread.last ? " " : "'\n");
    }
    policies_free(policies, count);
    return NULL;
}

/* ---- pictures ---- */

typedef bool figure_maker(const struct limit *limit, struct figure *figure);
static figure_maker *const figure_makers[] = {figure_curve, figure_time};
#define MAKERS (sizeof figure_makers / sizeof figure_makers[0])

static void spec_print_charts(const struct limit *limit)
{
    struct figure *figure = malloc(sizeof *figure);
    if (!figure)
        return;
    for (size_t i = 0; i < MAKERS; i++)
        if (figure_makers[i](limit, figure)) {
            putchar('\n');
            chart_print(stdout, figure);
        }
    free(figure);
}

/* Draws every figure there is; with file NULL only counts them. */
static size_t plot_policies(FILE *file, struct weir_policy **policies, int count, struct figure *figure)
{
    char heading[EXPLAIN_TEXT_MAX];
    size_t drawn = 0;
    for (int i = 0; i < count; i++)
        for (size_t j = 0; j < policies[i]->count; j++)
            for (size_t k = 0; k < MAKERS; k++) {
                const struct limit *limit = &policies[i]->limits[j];
                if (!figure_makers[k](limit, figure))
                    continue;
                if (file)
                    plot_figure(file, drawn, explain_text(&limit->spec, heading), figure);
                drawn++;
            }
    return drawn;
}

static int write_plot(const char *path, struct weir_policy **policies, int count)
{
    struct figure *figure = malloc(sizeof *figure);
    size_t figures = figure ? plot_policies(NULL, policies, count, figure) : 0;
    if (figures == 0) {
        free(figure);
        return args_fail("spec", "there is nothing to draw: what always or never passes has no picture");
    }
    bool standard = strcmp(path, "-") == 0;
    FILE *file = standard ? stdout : fopen(path, "w");
    bool good = file != NULL;
    if (good) {
        plot_open(file, figures);
        plot_policies(file, policies, count, figure);
        plot_close(file);
        good = standard || !ferror(file);
        if (!standard && fclose(file) != 0)
            good = false;
    }
    free(figure);
    return good ? EXIT_OK : args_fail("spec", "cannot write %s: %s", path, strerror(errno));
}

/* ---- words ---- */

static void spec_print_words(struct weir_policy **policies, int count)
{
    for (int i = 0; i < count; i++) {
        const struct weir_policy *policy = policies[i];
        for (size_t j = 0; j < policy->count; j++) {
            if (i > 0 || j > 0)
                putchar('\n');
            spec_print_limit(policy, j);
            if (chart)
                spec_print_charts(&policy->limits[j]);
        }
        if (policy->count > 1) {
            putchar('\n');
            spec_print_together(policy);
        }
    }
}

static void spec_print_json_document(struct weir_policy **policies, int count)
{
    struct json json = {.file = stdout};
    json_open(&json, NULL, '{', JSON_LINES);
    json_open(&json, "policies", '[', JSON_LINES);
    for (int i = 0; i < count; i++)
        spec_print_json(&json, policies[i]);
    json_close(&json, ']');
    json_close(&json, '}');
}

static int run_spec(const struct cli_command *command, int count, char **argv)
{
    bool plot_alone = plot && strcmp(plot, "-") == 0;
    if (json_wanted + chart + plot_alone > 1)
        return args_fail(command->name, "--json, --chart and --plot - all want standard output; choose one");
    struct weir_policy **policies = policies_read(argv + 1, count);
    if (!policies)
        return EXIT_ERROR;
    int status = plot ? write_plot(plot, policies, count) : EXIT_OK;
    if (status == EXIT_OK && json_wanted)
        spec_print_json_document(policies, count);
    else if (status == EXIT_OK && !plot_alone)
        spec_print_words(policies, count);
    policies_free(policies, count);
    return status;
}

static const struct args_option options[] = {
    OPT_FLAG("chart", 0, &chart,
             "draw it: what is left over time and, for algo=warmup, what a unit costs against the units "
             "saved"),
    OPT_TEXT("plot", 0, &plot, "FILE", "the same pictures as SVG; - is standard output"),
    OPT_FLAG("json", 0, &json_wanted, "one JSON document on standard output"),
};

const struct cli_command command_spec = {
    .name = "spec",
    .usage = "[OPTION]... LIMITS...\n"
             "Say in plain words what a limit lets pass.\n",
    ARGS_OPTIONS(options),
    .more = "LIMITS is one limit, or several with commas between them that must all agree.\n"
            "Quote it: it often has spaces. Exit status: 0, or 2 if a limit cannot be read.\n"
            "\n"
            "Examples\n"
            "  weir spec '100/s burst=20'\n"
            "  weir spec '100/s burst=200, 10k/h, 200k/d'\n"
            "  weir spec --chart '1/s algo=warmup warmup=5s'\n"
            "  weir spec --plot warmup.svg '1/s algo=warmup warmup=5s'\n"
            "  weir spec --json 5/m | jq '.policies[0].limits[0].most.minute'\n",
    .least = 1,
    .most = -1,
    .few = "which limit? For example: weir spec '100/s burst=20'",
    .run = run_spec,
};
