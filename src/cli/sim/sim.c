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

#include "cli/args.h"
#include "cli/caret.h"
#include "cli/cli.h"
#include "cli/commands/spec_print.h"
#include "cli/quotes.h"
#include "cli/sim/fleet.h"
#include "cli/sim/print.h"
#include "sim/arrivals.h"

static const char help[] =
    "usage: weir sim [OPTION]... LIMITS [--arrivals LIST]\n"
    "       weir sim fleet [OPTION]...      many nodes that share a limit: weir sim fleet -h\n"
    "Watch a limit decide in virtual time: nothing is slept, the clock is in the list.\n"
    "\n"
    "      --arrivals LIST  when somebody asks; without it, or with -, standard input\n"
    "                       is read, with # for comments\n"
    "  -n N                 units asked for where LIST does not say, such as 2k (1)\n"
    "      --timeout TIME   let callers wait this long, or forever; without it, the\n"
    "                       timeout= of the limits, else nobody waits (but\n"
    "                       leaky-bucket queues)\n"
    "      --until TIME     leave out what comes later\n"
    "      --summary        only the last line\n"
    "      --json           one JSON document on standard output\n"
    "  -h, --help           this text\n"
    "\n"
    "LIST has commas or line breaks between its items:\n"
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
    "  echo '0..2s/100ms*3' | weir sim 5/s --timeout 500ms\n";

struct sim_options {
    bool json, summary, help;
    const char *arrivals, *n, *timeout, *until;
};

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
        fputs("weir sim: out of memory\n", stderr);
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
    if (good && ferror(stdin)) {
        fprintf(stderr, "weir sim: cannot read %s: %s\n", name, strerror(errno));
        good = false;
    }
    free(line);
    return good;
}

static bool read_arrivals(const struct sim_options *options, struct arrivals *arrivals)
{
    bool given = options->arrivals && strcmp(options->arrivals, "-") != 0;
    if (!(given ? read_arrivals_list(arrivals, options->arrivals) : read_arrivals_input(arrivals)))
        return false;
    if (arrivals->total > 0)
        return true;
    fprintf(stderr, "weir sim: no arrivals%s; write some, such as --arrivals 0,0,200ms\n",
            options->until ? " until then" : "");
    return false;
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

static bool read_sim_options(const struct sim_options *options, struct sim_run *sim)
{
    int64_t n = 1, until_ns = WEIR_FOREVER;
    if (options->n && !args_count("sim", "n", options->n, &n))
        return false;
    if (options->until && !args_time("sim", "until", options->until, &until_ns))
        return false;
    sim->timeout_ns = default_timeout(sim->policy);
    if (options->timeout && strcmp(options->timeout, "forever") == 0)
        sim->timeout_ns = WEIR_FOREVER;
    else if (options->timeout && !args_time("sim", "timeout", options->timeout, &sim->timeout_ns))
        return false;
    arrivals_init(&sim->arrivals, n, until_ns);
    return read_arrivals(options, &sim->arrivals);
}

static struct weir_policy *read_sim_policy(const char *text)
{
    struct weir_spec specs[WEIR_LIMITS_MAX];
    struct weir_error err;
    size_t count = caret_read_limits(text, specs, WEIR_LIMITS_MAX);
    if (count == 0)
        return NULL;
    struct weir_policy *policy = weir_policy_from(specs, count, &err);
    if (!policy)
        fprintf(stderr, "weir sim: %s\n", err.text);
    return policy;
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

static void run_sim_table(struct sim_run *sim, bool summary)
{
    struct sim_table table;
    sim_table_init(&table, sim->policy, &sim->arrivals, sim->timeout_ns > 0);
    if (!summary)
        sim_table_head(&table);
    struct sim_output output = {.table = summary ? NULL : &table};
    struct sim_sums sums = run_sim(sim, &output);
    sim_table_sums(&table, &sums);
}

static void run_sim_json(struct sim_run *sim, bool summary)
{
    struct json json = {.file = stdout};
    struct sim_output output = {.json = summary ? NULL : &json};
    json_open(&json, NULL, '{', JSON_LINES);
    json_bound(&json, "timeout_ns", sim->timeout_ns);
    spec_print_json_texts(&json, sim->policy);
    if (!summary)
        json_open(&json, "arrivals", '[', JSON_LINES);
    struct sim_sums sums = run_sim(sim, &output);
    if (!summary)
        json_close(&json, ']');
    sim_json_sums(&json, &sums);
    json_close(&json, '}');
}

static int simulate_limits(const char *text, const struct sim_options *options)
{
    struct sim_run sim = {.policy = read_sim_policy(text)};
    int status = EXIT_ERROR;
    if (sim.policy && read_sim_options(options, &sim)) {
        sim.state = malloc(weir_policy_state_size(sim.policy));
        if (!sim.state) {
            fputs("weir sim: out of memory\n", stderr);
        } else {
            (options->json ? run_sim_json : run_sim_table)(&sim, options->summary);
            status = EXIT_OK;
        }
    }
    free(sim.state);
    arrivals_fini(&sim.arrivals);
    weir_policy_free(sim.policy);
    return status;
}

int cmd_sim(int argc, char **argv)
{
    struct sim_options options = {0};
    if (argc > 1 && strcmp(argv[1], "fleet") == 0)
        return sim_fleet(argc - 1, argv + 1);
    const struct args_option table[] = {
        {"arrivals", 0, NULL, &options.arrivals}, {"n", 'n', NULL, &options.n},
        {"timeout", 0, NULL, &options.timeout},   {"until", 0, NULL, &options.until},
        {"summary", 0, &options.summary, NULL},   {"json", 0, &options.json, NULL},
        {"help", 'h', &options.help, NULL},
    };
    int count = args_read(argc, argv, table, sizeof table / sizeof table[0]);
    if (count < 0)
        return EXIT_ERROR;
    if (options.help) {
        fputs(help, stdout);
        return EXIT_OK;
    }
    if (count == 0) {
        fputs("weir sim: which limit? For example: weir sim 5/s --arrivals 0..2s/100ms\n", stderr);
        return EXIT_ERROR;
    }
    if (count > 1) {
        if (!quotes_hint("sim", argv + 1, count))
            fputs("weir sim: one LIMITS only; several have commas between them: '5/s, 100/m'\n", stderr);
        return EXIT_ERROR;
    }
    return simulate_limits(argv[1], &options);
}
