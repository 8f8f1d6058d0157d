/* SPDX-License-Identifier: MIT */
/*
 * weir sim: a limit decides about a list of arrivals, in virtual time.
 */
#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/caret.h"
#include "cli/commands.h"
#include "cli/explain.h"
#include "cli/json.h"
#include "cli/term.h"
#include "cli/words.h"
#include "core/limit.h"
#include "sim/arrivals.h"

static bool json_wanted, summary;
static const char *arrivals_text, *timeout_text;
static int64_t units = 1, until_ns = WEIR_FOREVER;

/* What has been asked and answered. */
struct sim_sums {
    int64_t arrivals, arrivals_allowed;
    int64_t units, units_allowed;
    int64_t longest_wait_ns;
    int64_t clock_steps; /* times at which the clock stepped back */
};

/* How the lines of one simulation look. */
struct sim_table {
    const struct weir_policy *policy;
    bool waits, behind, several; /* columns that not every policy needs */
    int decimals, time_width;    /* of the times, in seconds */
    int n_width, verdict_width;
};

#define REMAINING_WIDTH 11
#define TIME_WIDTH      12

/* Time in seconds with all its digits. */
static int format_seconds(const struct sim_table *table, int64_t time_ns, char *text)
{
    int64_t power = 1;
    for (int i = table->decimals; i < 9; i++)
        power *= 10;
    long long whole = (long long)(time_ns / WEIR_SEC), part = (long long)(time_ns % WEIR_SEC / power);
    if (table->decimals == 0)
        return snprintf(text, HUMANIZE_MAX, "%lld s", whole);
    return snprintf(text, HUMANIZE_MAX, "%lld.%0*lld s", whole, table->decimals, part);
}

/* The digits behind the point that `time_ns` needs: 0, 3, 6 or 9. */
static int decimals_of(int64_t time_ns)
{
    return time_ns % WEIR_SEC == 0 ? 0 : time_ns % WEIR_MS == 0 ? 3 : time_ns % 1000 == 0 ? 6 : 9;
}

static void sim_table_init(struct sim_table *table, const struct weir_policy *policy,
                           const struct arrivals *arrivals, bool waits)
{
    char text[HUMANIZE_MAX];
    *table = (struct sim_table){.policy = policy, .waits = waits, .several = policy->count > 1};
    int64_t latest = 0, most = 1;
    for (size_t i = 0; i < policy->count; i++)
        table->behind |= policy->limits[i].spec.algo == WEIR_HYBRID;
    for (size_t i = 0; i < arrivals->count; i++) {
        const struct arrivals_item *item = &arrivals->items[i];
        int from = decimals_of(item->from_ns), step = item->count > 1 ? decimals_of(item->step_ns) : 0;
        table->decimals = from > table->decimals ? from : table->decimals;
        table->decimals = step > table->decimals ? step : table->decimals;
        latest = max64(latest, item->from_ns + (item->count - 1) * item->step_ns);
        most = max64(most, item->n);
    }
    table->time_width = (int)max64(format_seconds(table, latest, text), 8);
    table->n_width = (int)max64((int64_t)strlen(words_number(most, text)), 5);
    table->verdict_width = waits ? 24 : 9;
}

static void put_right(const char *text, int width)
{
    printf("%*s%s", width - term_columns(text, strlen(text)), "", text);
}

static void sim_table_head(const struct sim_table *table)
{
    fputs(term_colour(stdout, TERM_DIM), stdout);
    put_right("time", table->time_width);
    put_right("n", table->n_width + 2);
    printf("  %-*s", table->verdict_width, "verdict");
    put_right("remaining", REMAINING_WIDTH);
    put_right("retry after", TIME_WIDTH + 2);
    if (table->behind)
        put_right("behind", TIME_WIDTH + 2);
    if (table->several)
        fputs("  decided by", stdout);
    puts(term_colour(stdout, TERM_PLAIN));
}

static void put_verdict(const struct sim_table *table, const struct weir_verdict *verdict)
{
    char text[HUMANIZE_MAX + 32], time[HUMANIZE_MAX];
    if (!verdict->allowed)
        snprintf(text, sizeof text, "refused%s", verdict->reason == WEIR_FULL ? ", full" : "");
    else if (verdict->wait_ns > 0)
        snprintf(text, sizeof text, "allowed after %s", words_duration_up(verdict->wait_ns, time));
    else
        snprintf(text, sizeof text, "allowed");
    int pad = table->verdict_width - term_columns(text, strlen(text));
    printf("  %s%s%s%*s", term_colour(stdout, verdict->allowed ? TERM_GOOD : TERM_BAD), text,
           term_colour(stdout, TERM_PLAIN), pad > 0 ? pad : 0, "");
}

static const char *retry_text(const struct weir_verdict *verdict, char *text)
{
    if (verdict->allowed)
        return "";
    if (verdict->retry_after_ns == WEIR_FOREVER)
        return "never";
    return words_duration_up(verdict->retry_after_ns, text);
}

static void sim_table_row(const struct sim_table *table, int64_t now, int64_t n,
                          const struct weir_verdict *verdict)
{
    char text[EXPLAIN_TEXT_MAX];
    format_seconds(table, now, text);
    put_right(text, table->time_width);
    put_right(words_number(n, text), table->n_width + 2);
    put_verdict(table, verdict);
    put_right(verdict->remaining == INT64_MAX ? "no bound" : words_number(verdict->remaining, text),
              REMAINING_WIDTH);
    const char *retry = retry_text(verdict, text);
    if (*retry || table->behind || table->several)
        put_right(retry, TIME_WIDTH + 2);
    if (table->behind)
        put_right(words_duration(verdict->behind_ns, text), TIME_WIDTH + 2);
    if (table->several)
        printf("  %s", explain_label(&table->policy->limits[verdict->limit], text));
    putchar('\n');
}

static void sim_table_step(const struct sim_table *table, int64_t before, int64_t now)
{
    char from[HUMANIZE_MAX], to[HUMANIZE_MAX];
    format_seconds(table, before, from);
    format_seconds(table, now, to);
    printf("the clock steps back from %s to %s\n", from, to);
}

static void sim_table_sums(const struct sim_table *table, const struct sim_sums *sums)
{
    char a[HUMANIZE_MAX], b[HUMANIZE_MAX], c[HUMANIZE_MAX], d[HUMANIZE_MAX], e[HUMANIZE_MAX];
    printf("allowed %s of %s units (%s of %s arrivals), refused %s", words_number(sums->units_allowed, a),
           words_number(sums->units, b), words_number(sums->arrivals_allowed, c),
           words_number(sums->arrivals, d), words_number(sums->units - sums->units_allowed, e));
    if (table->waits)
        printf(", longest wait %s",
               sums->longest_wait_ns == 0 ? "0" : words_duration_up(sums->longest_wait_ns, a));
    if (sums->clock_steps > 0)
        printf("; the clock stepped back %s time%s", words_number(sums->clock_steps, a),
               sums->clock_steps == 1 ? "" : "s");
    putchar('\n');
}

/* ---- JSON ---- */

static void sim_json_row(struct json *json, int64_t now, int64_t n, const struct weir_verdict *verdict)
{
    json_open(json, NULL, '{', JSON_FLAT);
    json_number(json, "time_ns", now);
    json_number(json, "n", n);
    json_bool(json, "allowed", verdict->allowed);
    json_text(json, "reason", weir_reason_name(verdict->reason));
    json_bound(json, "remaining", verdict->remaining);
    json_bound(json, "retry_after_ns", verdict->retry_after_ns);
    json_bound(json, "reset_after_ns", verdict->reset_after_ns);
    json_number(json, "wait_ns", verdict->wait_ns);
    json_number(json, "behind_ns", verdict->behind_ns);
    json_number(json, "limit", verdict->limit);
    json_close(json, '}');
}

static void sim_json_sums(struct json *json, const struct sim_sums *sums)
{
    json_open(json, "summary", '{', JSON_LINES);
    json_number(json, "arrivals", sums->arrivals);
    json_number(json, "arrivals_allowed", sums->arrivals_allowed);
    json_number(json, "units", sums->units);
    json_number(json, "units_allowed", sums->units_allowed);
    json_number(json, "units_refused", sums->units - sums->units_allowed);
    json_number(json, "longest_wait_ns", sums->longest_wait_ns);
    json_number(json, "clock_steps", sums->clock_steps);
    json_close(json, '}');
}

/* ---- the simulation ---- */

struct sim_run {
    struct weir_policy *policy;
    struct arrivals arrivals;
    int64_t timeout_ns;
    void *state;
};

/* ---- reading ---- */

/* `name` is where the line comes from; NULL: the command line, where no number helps. */
static bool read_arrivals_line(struct arrivals *arrivals, const char *line, const char *name, int64_t number)
{
    struct arrivals_fault fault;
    if (arrivals_read(arrivals, line, &fault))
        return true;
    if (name)
        fprintf(stderr, "weir sim: %s, line %lld:\n", name, (long long)number);
    caret_print(line, fault.column, fault.text);
    return false;
}

static bool read_arrivals_list(struct arrivals *arrivals, const char *list)
{
    char *copy = strdup(list), *next = copy;
    bool good = copy != NULL;
    if (!good)
        args_fail("sim", "out of memory");
    while (good && next) {
        char *line = next;
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        good = read_arrivals_line(arrivals, line, NULL, 0);
    }
    free(copy);
    return good;
}

static bool read_arrivals_input(struct arrivals *arrivals)
{
    static const char name[] = "standard input";
    char *line = NULL;
    size_t size = 0;
    int64_t number = 0;
    bool good = true;
    if (isatty(STDIN_FILENO))
        fputs("weir sim: reading arrivals, such as 200ms, one a line; Ctrl-D ends\n", stderr);
    while (good && getline(&line, &size, stdin) >= 0) {
        line[strcspn(line, "\n")] = '\0';
        good = read_arrivals_line(arrivals, line, name, ++number);
    }
    if (good && ferror(stdin))
        good = args_fail("sim", "cannot read %s: %s", name, strerror(errno)) == EXIT_OK;
    free(line);
    return good;
}

static bool read_arrivals(struct arrivals *arrivals)
{
    bool given = arrivals_text && strcmp(arrivals_text, "-") != 0;
    if (!(given ? read_arrivals_list(arrivals, arrivals_text) : read_arrivals_input(arrivals)))
        return false;
    return arrivals->total > 0 || (args_fail("sim", "no arrivals%s; write some, such as --arrivals 0,0,200ms",
                                             until_ns != WEIR_FOREVER ? " until then" : ""),
                                   false);
}

/* How long callers wait if the command line does not say. */
static int64_t default_timeout(const struct weir_policy *policy)
{
    int64_t timeout_ns = WEIR_FOREVER;
    bool given = false, queue = false;
    for (size_t i = 0; i < policy->count; i++) {
        const struct weir_spec *spec = &policy->limits[i].spec;
        if (spec->timeout_ns > 0) {
            timeout_ns = min64(timeout_ns, spec->timeout_ns);
            given = true;
        }
        queue |= spec->algo == WEIR_LEAKY_BUCKET;
    }
    return given || queue ? timeout_ns : 0;
}

static bool read_sim_options(struct sim_run *sim)
{
    const struct args_option timeout = OPT_TIME("timeout", &sim->timeout_ns, "TIME", NULL);
    bool forever = timeout_text && strcmp(timeout_text, "forever") == 0;
    sim->timeout_ns = forever ? WEIR_FOREVER : default_timeout(sim->policy);
    if (!forever && !args_read_option("sim", &timeout, timeout_text))
        return false;
    arrivals_init(&sim->arrivals, units, until_ns);
    return read_arrivals(&sim->arrivals);
}

/* ---- running ---- */

/* Where the answers go; either may be NULL. */
struct sim_output {
    const struct sim_table *table;
    struct json *json;
};

static void sums_add(struct sim_sums *sums, int64_t n, const struct weir_verdict *verdict)
{
    sums->arrivals++;
    sums->arrivals_allowed += verdict->allowed;
    sums->units = sat_add(sums->units, n);
    if (verdict->allowed)
        sums->units_allowed = sat_add(sums->units_allowed, n);
    sums->longest_wait_ns = max64(sums->longest_wait_ns, verdict->wait_ns);
}

static void sim_ask(struct sim_run *sim, int64_t now, int64_t n, const struct sim_output *output,
                    struct sim_sums *sums)
{
    struct weir_reservation reservations[WEIR_LIMITS_MAX];
    struct weir_verdict verdict;
    weir_state_reserve(sim->policy, sim->state, now, n, sim->timeout_ns, reservations, &verdict);
    sums_add(sums, n, &verdict);
    if (output->table)
        sim_table_row(output->table, now, n, &verdict);
    if (output->json)
        sim_json_row(output->json, now, n, &verdict);
}

static struct sim_sums run_sim(struct sim_run *sim, const struct sim_output *output)
{
    struct sim_sums sums = {0};
    int64_t before = 0;
    weir_state_init(sim->policy, sim->state, 0);
    for (size_t i = 0; i < sim->arrivals.count; i++) {
        const struct arrivals_item *item = &sim->arrivals.items[i];
        for (int64_t j = 0; j < item->count && !ferror(stdout); j++) {
            int64_t now = item->from_ns + j * item->step_ns;
            if (now < before) {
                sums.clock_steps++;
                if (output->table)
                    sim_table_step(output->table, before, now);
            }
            before = now;
            sim_ask(sim, now, item->n, output, &sums);
        }
    }
    return sums;
}

static void run_sim_table(struct sim_run *sim)
{
    struct sim_table table;
    sim_table_init(&table, sim->policy, &sim->arrivals, sim->timeout_ns > 0);
    if (!summary)
        sim_table_head(&table);
    struct sim_output output = {.table = summary ? NULL : &table};
    struct sim_sums sums = run_sim(sim, &output);
    sim_table_sums(&table, &sums);
}

static void run_sim_json(struct sim_run *sim)
{
    struct json json = {.file = stdout};
    char text[EXPLAIN_TEXT_MAX];
    struct sim_output output = {.json = summary ? NULL : &json};
    json_open(&json, NULL, '{', JSON_LINES);
    json_bound(&json, "timeout_ns", sim->timeout_ns);
    json_open(&json, "limits", '[', JSON_FLAT);
    for (size_t i = 0; i < sim->policy->count; i++)
        json_text(&json, NULL, explain_text(&sim->policy->limits[i].spec, text));
    json_close(&json, ']');
    if (!summary)
        json_open(&json, "arrivals", '[', JSON_LINES);
    struct sim_sums sums = run_sim(sim, &output);
    if (!summary)
        json_close(&json, ']');
    sim_json_sums(&json, &sums);
    json_close(&json, '}');
}

static int simulate_limits(const char *text)
{
    struct sim_run sim = {.policy = caret_read_policy("sim", text)};
    int status = EXIT_ERROR;
    if (sim.policy && read_sim_options(&sim)) {
        sim.state = malloc(weir_policy_state_size(sim.policy));
        status = sim.state ? EXIT_OK : args_fail("sim", "out of memory");
    }
    if (status == EXIT_OK)
        (json_wanted ? run_sim_json : run_sim_table)(&sim);
    free(sim.state);
    arrivals_fini(&sim.arrivals);
    weir_policy_free(sim.policy);
    return status;
}

static int run_sim_command(const struct cli_command *command, int count, char **argv)
{
    if (count == 1)
        return simulate_limits(argv[1]);
    if (caret_hint_quotes(command->name, argv + 1, count))
        return EXIT_ERROR;
    return args_fail(command->name, "one LIMITS only; several have commas between them: '5/s, 100/m'");
}

static const struct args_option options[] = {
    OPT_TEXT("arrivals", 0, &arrivals_text, "LIST",
             "when somebody asks; without it, or with -, standard input is read, with # for comments"),
    {.name = "n",
     .letter = 'n',
     .type = ARGS_COUNT,
     .number = &units,
     .argument = "N",
     .help = "units asked for where LIST does not say, such as 2k (1)"},
    OPT_TEXT("timeout", 0, &timeout_text, "TIME",
             "let callers wait this long, or forever; without it, the timeout= of the limits, else nobody "
             "waits (but leaky-bucket queues)"),
    OPT_TIME("until", &until_ns, "TIME", "leave out what comes later"),
    OPT_FLAG("summary", 0, &summary, "only the last line"),
    OPT_FLAG("json", 0, &json_wanted, "one JSON document on standard output"),
};

const struct cli_command command_sim = {
    .name = "sim",
    .usage = "[OPTION]... LIMITS [--arrivals LIST]\n"
             "       weir sim fleet [OPTION]...      many nodes that share a limit: weir sim fleet -h\n"
             "Watch a limit decide in virtual time: nothing is slept, the clock is in the list.\n",
    ARGS_OPTIONS(options),
    .more = "LIST has commas or line breaks between its items:\n"
            "  200ms                asks at 200 ms for one unit\n"
            "  1s*5                 asks at 1 s for 5 units\n"
            "  0..10s/100ms         asks every 100 ms from 0 to 10 s\n"
            "  0../1s*20            asks every second for 20 units, as long as --until says\n"
            "A time that is earlier than the one before is a clock that steps back.\n"
            "\n"
            "Exit status: 0, or 2 if something cannot be read.\n"
            "\n"
            "Examples\n"
            "  weir sim '5/s burst=2' --arrivals 0,0,0,200ms,1s\n"
            "  weir sim '10/s algo=leaky-bucket queue=3' --arrivals 0,0,0,0,0,0\n"
            "  weir sim '100/s burst=20, 2k/m' --arrivals 0..60s/5ms --summary\n"
            "  echo '0..2s/100ms*3' | weir sim 5/s --timeout 500ms\n",
    .least = 1,
    .most = -1,
    .few = "which limit? For example: weir sim 5/s --arrivals 0..2s/100ms",
    .run = run_sim_command,
};
