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
#include "cli/commands.h"
#include "cli/explain.h"
#include "cli/json.h"
#include "cli/picture.h"
#include "cli/term.h"
#include "cli/words.h"
#include "core/limit.h"
#include "spec/keywords.h"

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

#define VALUE_COLUMN 21
#define OWNER_COLUMN 40

/* Spaces up to `target`, but at least two between columns. */
static int pad_to(int column, int target)
{
    int spaces = target - column;
    spaces = spaces < 2 && column >= target - 1 ? 2 : spaces;
    printf("%*s", spaces, "");
    return column + spaces;
}

static int spec_put_cell(const char *text)
{
    fputs(text, stdout);
    return term_columns(text, strlen(text));
}

static void spec_put_row(const char *label, const char *value)
{
    int column = 2 + (fputs("  ", stdout), spec_put_cell(label));
    column = pad_to(column, VALUE_COLUMN);
    term_wrap(stdout, value, column, VALUE_COLUMN, term_width(stdout));
}

static void spec_put_head(const char *text, const char *right)
{
    fputs(term_colour(stdout, TERM_BOLD), stdout);
    int column = spec_put_cell(text);
    fputs(term_colour(stdout, TERM_PLAIN), stdout);
    pad_to(column, VALUE_COLUMN);
    puts(right);
}

static void spec_print_limit(const struct weir_policy *policy, size_t index)
{
    const struct limit *limit = &policy->limits[index];
    char text[EXPLAIN_TEXT_MAX], defaults[EXPLAIN_TEXT_MAX];
    struct explain explain;
    explain_limit(policy, index, &explain);
    spec_put_head(explain_text(&limit->spec, text), explain_defaults(limit, defaults));
    for (size_t i = 0; i < explain.row_count; i++)
        spec_put_row(explain.rows[i].label, explain.rows[i].value);
    if (policy->count > 1) /* what one limit does not do, another may be there for */
        return;
    for (size_t i = 0; i < explain.note_count; i++) {
        fputs("note: ", stdout);
        term_wrap(stdout, explain.notes[i], 6, 0, term_width(stdout));
    }
}

/* ---- several limits ---- */

struct policy_bound {
    int64_t most;
    size_t limit; /* whose bound it is */
};

/* The tightest bound for a span; -1: for an instant. */
static struct policy_bound bound_of(const struct weir_policy *policy, int64_t span_ns)
{
    struct policy_bound least = {WEIR_FOREVER, 0};
    for (size_t i = 0; i < policy->count; i++) {
        const struct limit *limit = &policy->limits[i];
        int64_t most = span_ns < 0 ? explain_at_once(limit) : limit->algorithm->most(limit, span_ns);
        if (most < least.most)
            least = (struct policy_bound){most, i};
    }
    return least;
}

static void put_bound(const struct weir_policy *policy, const char *label, const char *words, int64_t span_ns)
{
    struct policy_bound bound = bound_of(policy, span_ns);
    char owner[EXPLAIN_TEXT_MAX], number[HUMANIZE_MAX], value[HUMANIZE_MAX + 16];
    printf("  %-*s", VALUE_COLUMN - 2, label);
    if (bound.most == WEIR_FOREVER) {
        puts("no bound");
        return;
    }
    snprintf(value, sizeof value, "%s%s", words, words_number(bound.most, number));
    pad_to(VALUE_COLUMN + spec_put_cell(value), OWNER_COLUMN);
    printf("%s\n", explain_label(&policy->limits[bound.limit], owner));
}

/* Whether a second token bucket is looser in every respect, so that it can never be the one to refuse. Equal
 * ones: only the later counts as looser. */
static bool never_decides(const struct weir_policy *policy, size_t loose, size_t tight)
{
    const struct weir_spec *a = &policy->limits[loose].spec, *b = &policy->limits[tight].spec;
    if (a->algo != WEIR_TOKEN_BUCKET || b->algo != WEIR_TOKEN_BUCKET || loose == tight)
        return false;
    weir_i128 rate_a = (weir_i128)a->count * b->period_ns, rate_b = (weir_i128)b->count * a->period_ns;
    bool same = rate_a == rate_b && a->burst == b->burst && a->initial == b->initial;
    return rate_a >= rate_b && a->burst >= b->burst && a->initial >= b->initial && (!same || loose > tight);
}

static void put_idle_notes(const struct weir_policy *policy)
{
    char idle[EXPLAIN_TEXT_MAX], busy[EXPLAIN_TEXT_MAX], text[2 * EXPLAIN_TEXT_MAX + 128];
    for (size_t i = 0; i < policy->count; i++)
        for (size_t j = 0; j < policy->count; j++)
            if (never_decides(policy, i, j)) {
                snprintf(text, sizeof text,
                         "%s never decides: %s lets pass no more at once and no more later",
                         explain_label(&policy->limits[i], idle), explain_label(&policy->limits[j], busy));
                fputs("note: ", stdout);
                term_wrap(stdout, text, 6, 0, term_width(stdout));
                break;
            }
}

static void spec_print_together(const struct weir_policy *policy)
{
    char label[HUMANIZE_MAX];
    spec_put_head("all together", "each must agree; the one named here decides");
    put_bound(policy, "at once", "", -1);
    for (size_t i = 0; i < explain_span_count; i++) {
        snprintf(label, sizeof label, "in any %s", explain_spans[i].name);
        put_bound(policy, label, "at most ", explain_spans[i].span_ns);
    }
    put_idle_notes(policy);
}

/* ---- JSON ---- */

static void json_bounds(struct json *json, const struct limit *limit)
{
    json_open(json, "most", '{', JSON_FLAT);
    for (size_t i = 0; i < explain_span_count; i++)
        json_bound(json, explain_spans[i].name, limit->algorithm->most(limit, explain_spans[i].span_ns));
    json_close(json, '}');
}

static double curve_ns(const struct limit *limit, double price)
{
    return price / limit->u.warmup.unit * (double)limit->spec.period_ns / (double)limit->spec.count;
}

/* What only one algorithm has. */
static void json_own(struct json *json, const struct limit *limit)
{
    const struct weir_spec *spec = &limit->spec;
    switch ((enum weir_algo)spec->algo) {
    case WEIR_TOKEN_BUCKET:
    case WEIR_STEP:
        json_number(json, "burst", spec->burst);
        json_number(json, "initial", spec->initial);
        break;
    case WEIR_SMOOTH:
        json_decimal(json, "burst", (double)limit->full / (double)limit->ticks.unit);
        json_number(json, "initial", spec->initial);
        break;
    case WEIR_WARMUP:
        json_number(json, "warmup_ns", spec->warmup_ns);
        json_decimal(json, "cold", (double)spec->cold_ppm / 1e6);
        json_text(json, "shape", spec->shape == WEIR_SHAPE_BELOW ? "below" : "above");
        json_decimal(json, "threshold", limit->u.warmup.threshold);
        json_decimal(json, "full", limit->u.warmup.most);
        json_decimal(json, "stable_ns", curve_ns(limit, limit->u.warmup.unit));
        json_decimal(json, "edge_ns", curve_ns(limit, limit->u.warmup.edge));
        break;
    case WEIR_HYBRID:
        json_decimal(json, "ratio", (double)spec->ratio_ppm / 1e6);
        json_number(json, "pool_ns", spec->pool_ns);
        break;
    case WEIR_LEAKY_BUCKET:
        json_number(json, "queue", spec->queue);
        json_bound(json, "age_ns", spec->age_ns > 0 ? spec->age_ns : WEIR_FOREVER);
        break;
    default:
        break;
    }
}

static void json_limit(struct json *json, const struct limit *limit)
{
    const struct weir_spec *spec = &limit->spec;
    char text[EXPLAIN_TEXT_MAX];
    json_open(json, NULL, '{', JSON_LINES);
    json_text(json, "text", explain_text(spec, text));
    json_text(json, "algo", weir_algo_name(spec->algo));
    if (spec->name[0])
        json_text(json, "name", spec->name);
    if (spec->algo != WEIR_UNLIMITED && spec->algo != WEIR_BLOCKED) {
        json_number(json, "count", spec->count);
        json_number(json, "period_ns", spec->period_ns);
        json_number(json, "interval_ns", explain_interval_ns(limit));
        json_number(json, "rest_ns", explain_rest_ns(limit));
    }
    json_own(json, limit);
    if (spec->timeout_ns > 0)
        json_number(json, "timeout_ns", spec->timeout_ns);
    json_bound(json, "at_once", explain_at_once(limit));
    json_bounds(json, limit);
    json_close(json, '}');
}

static void json_together(struct json *json, const struct weir_policy *policy)
{
    json_open(json, "together", '{', JSON_LINES);
    for (size_t i = 0; i <= explain_span_count; i++) {
        struct policy_bound bound = bound_of(policy, i == 0 ? -1 : explain_spans[i - 1].span_ns);
        json_open(json, i == 0 ? "at_once" : explain_spans[i - 1].name, '{', JSON_FLAT);
        json_bound(json, "most", bound.most);
        json_bound(json, "limit", bound.most == WEIR_FOREVER ? WEIR_FOREVER : (int64_t)bound.limit);
        json_close(json, '}');
    }
    json_close(json, '}');
}

static void spec_print_json(struct json *json, const struct weir_policy *policy)
{
    json_open(json, NULL, '{', JSON_LINES);
    json_open(json, "limits", '[', JSON_LINES);
    for (size_t i = 0; i < policy->count; i++)
        json_limit(json, &policy->limits[i]);
    json_close(json, ']');
    json_together(json, policy);
    json_close(json, '}');
}

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
