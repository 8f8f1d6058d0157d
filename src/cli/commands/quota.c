/* SPDX-License-Identifier: MIT */
/*
 * weir quota: totals of a fleet, where a coordinator keeps them: create, show, list, set, watch, delete.
 */
#define _POSIX_C_SOURCE 200809L

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/sat.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/json.h"
#include "cli/term.h"
#include "cli/words.h"
#include "fleet/coordinator.h"
#include "fleet/member.h"
#include "fleet/options.h"
#include "fleet/plan.h"
#include "os/boot.h"
#include "phrasebook/phrasebook.h"

#define QUOTA_TEXT_MAX 512 /* bytes of a limit's text */

static const char *coordinator;
static int64_t nodes, base, lines = INT64_MAX;
static bool yes, json_wanted;

/* What is asked of which pool. */
static struct {
    const char *name; /* or NULL */
    char limit[QUOTA_TEXT_MAX];
    struct server_url url;
    struct weir_fleet_options fleet; /* of the URL and of the command line */
} job;

#define EVERY_MS 1000     /* watch */
#define LONG_NS  WEIR_SEC /* for an answer */

/* What there is does not fit what is asked. */
#define quota_refuse(...) (args_fail("quota", __VA_ARGS__), EXIT_REFUSED)

/* ---- printing ---- */

#define QUOTA_LIMIT_MAX 200
#define COLUMN          12 /* of what stands behind a title */

/* What a coordinator could not read has no window. */
static bool is_read(const struct lease_terms *terms)
{
    return terms->window_ns > 0;
}

/* "50 000 000 a minute", "10 000 a second, burst 20 000" */
static const char *quota_limit(const struct lease_terms *terms, char text[static QUOTA_LIMIT_MAX])
{
    char total[HUMANIZE_MAX], burst[HUMANIZE_MAX], window[PLAN_WINDOW_MAX];
    if (!is_read(terms)) {
        (void)snprintf(text, QUOTA_LIMIT_MAX, "a limit that cannot be read");
        return text;
    }
    (void)words_number(terms->total, total);
    (void)weir_fleet_plan_window(terms->window_ns, window);
    if (terms->kind == LEASE_BUCKET)
        (void)snprintf(text, QUOTA_LIMIT_MAX, "%s %s, burst %s", total, window,
                       words_number(terms->burst, burst));
    else
        (void)snprintf(text, QUOTA_LIMIT_MAX, "%s %s", total, window);
    return text;
}

static void quota_print_plan(const struct fleet_plan *plan)
{
    char number[HUMANIZE_MAX], line[PLAN_TEXT_MAX + 2 * HUMANIZE_MAX];
    int width = term_width(stdout);
    (void)snprintf(line, sizeof line, "%s node%s: %s", words_number(plan->nodes, number),
                   plan->nodes == 1 ? "" : "s", plan->cost);
    fputs("  ", stdout);
    term_wrap(stdout, line, 2, 2, width);
    fputs("  ", stdout);
    term_wrap(stdout, plan->lost, 2, 2, width);
}

static void quota_print_note(const struct quota_answer *answer)
{
    if (!answer->note[0])
        return;
    term_print(stdout, "  %-*s%s\n", COLUMN, "note", answer->note);
}

static void print_window(const struct quota_answer *answer)
{
    char age[HUMANIZE_MAX], end[HUMANIZE_MAX];
    int64_t left = answer->terms.window_ns - answer->age_ns;
    if (answer->terms.kind == LEASE_BUCKET)
        return;
    printf("  %-*s", COLUMN, "window");
    if (answer->age_ns < 0)
        puts("its age is not known");
    else if (left > 0)
        printf("began %s ago, ends in %s by the coordinator's clock\n", words_duration(answer->age_ns, age),
               words_duration_up(left, end));
    else
        printf("over for %s; the next one begins when somebody asks for units\n", words_duration(-left, end));
}

/* Whoever asks when nothing is left has asked as well: there may be more of those than chunks. */
static void print_chunks(const struct quota_answer *answer)
{
    char number[3][HUMANIZE_MAX];
    const struct lease_terms *terms = &answer->terms;
    int64_t there = sat_add(div_up(terms->total, max64(terms->chunk, 1)), answer->returned);
    int64_t vain = terms->kind == LEASE_QUOTA ? max64(sat_sub(answer->used, there), 0) : 0;
    printf("  %-*s%s asked for, ", COLUMN, "chunks", words_number(answer->used, number[0]));
    if (vain > 0)
        printf("%s of them when none was left, ", words_number(vain, number[1]));
    printf("%s returned\n", words_number(answer->returned, number[2]));
}

static bool same_terms(const struct lease_terms *a, const struct lease_terms *b)
{
    return a->kind == b->kind && a->total == b->total && a->window_ns == b->window_ns &&
           a->burst == b->burst && a->base == b->base;
}

static void print_next(const struct quota_answer *answer)
{
    char limit[QUOTA_LIMIT_MAX], chunk[HUMANIZE_MAX];
    if (!same_terms(&answer->next, &answer->terms))
        printf("  %-*s%s, base %s: from the next %s on\n", COLUMN, "next", quota_limit(&answer->next, limit),
               words_number(answer->next.base, chunk),
               answer->terms.kind == LEASE_BUCKET ? "epoch" : "window");
}

static void quota_print_show(const char *name, const struct quota_answer *answer)
{
    char limit[QUOTA_LIMIT_MAX], number[HUMANIZE_MAX], other[HUMANIZE_MAX];
    term_put(stdout, name, strlen(name));
    if (answer->epoch == 0 && !is_read(&answer->next)) {
        printf(": %s\n", answer->note[0] ? answer->note : quota_limit(&answer->next, limit));
        return;
    }
    if (answer->epoch == 0) {
        printf(": %s; nobody has asked for units yet\n", quota_limit(&answer->next, limit));
        quota_print_note(answer);
        return;
    }
    printf(
        ": %s of %s left\n", words_number(answer->left, number),
        words_number(answer->terms.kind == LEASE_BUCKET ? answer->terms.burst : answer->terms.total, other));
    printf("  %-*s%s\n", COLUMN, "limit", quota_limit(&answer->terms, limit));
    printf("  %-*s%s (base %s)\n", COLUMN, "chunk", words_number(answer->terms.chunk, number),
           words_number(answer->terms.base, other));
    print_chunks(answer);
    print_window(answer);
    printf("  %-*s%" PRIu64 "\n", COLUMN, "epoch", answer->epoch);
    print_next(answer);
    quota_print_note(answer);
}

static void put_terms(struct json *json, const struct lease_terms *terms)
{
    json_text(json, "kind", terms->kind == LEASE_BUCKET ? "bucket" : "quota");
    json_number(json, "total", terms->total);
    json_number(json, "window_ms", terms->window_ns / WEIR_MS);
    if (terms->kind == LEASE_BUCKET)
        json_number(json, "burst", terms->burst);
    json_number(json, "base", terms->base);
}

static void quota_print_json(const char *name, const struct quota_answer *answer, enum json_layout layout)
{
    struct json json = {.file = stdout};
    char epoch[24];
    json_open(&json, NULL, '{', layout);
    json_text(&json, "name", name);
    put_terms(&json, &answer->terms);
    json_number(&json, "chunk", answer->terms.chunk);
    (void)snprintf(epoch, sizeof epoch, "%" PRIu64, answer->epoch); /* more digits than a double has */
    json_text(&json, "epoch", epoch);
    json_number(&json, "used", answer->used);
    json_number(&json, "returned", answer->returned);
    json_number(&json, "left", answer->left);
    if (answer->age_ns >= 0)
        json_number(&json, "age_ms", answer->age_ns / WEIR_MS);
    if (answer->age_ns >= 0 && answer->terms.kind == LEASE_QUOTA)
        json_number(&json, "ends_in_ms", div_up(max64(answer->terms.window_ns - answer->age_ns, 0), WEIR_MS));
    json_open(&json, "next", '{', JSON_FLAT);
    put_terms(&json, &answer->next);
    json_close(&json, '}');
    if (answer->note[0])
        json_text(&json, "note", answer->note);
    json_close(&json, '}');
}

/* Does `now` show another pool than `before`, or another state of it? Its age alone is none. */
static bool quota_changed(const struct quota_answer *now, const struct quota_answer *before)
{
    return now->found != before->found || now->epoch != before->epoch || now->used != before->used ||
           now->returned != before->returned || now->left != before->left ||
           now->terms.chunk != before->terms.chunk || !same_terms(&now->terms, &before->terms) ||
           !same_terms(&now->next, &before->next) || strcmp(now->note, before->note) != 0;
}

static void quota_print_line(const struct quota_answer *answer)
{
    char number[4][HUMANIZE_MAX], clock[16] = "";
    time_t seconds = (time_t)(weir_boot.wall() / WEIR_SEC);
    struct tm date;
    if (gmtime_r(&seconds, &date))
        (void)strftime(clock, sizeof clock, "%H:%M:%SZ", &date);
    if (!answer->found) {
        printf("%-10s gone\n", clock);
        return;
    }
    if (answer->epoch == 0 && !is_read(&answer->terms)) {
        printf("%-10s %s\n", clock, answer->note);
        return;
    }
    printf("%-10s epoch %" PRIu64 ", %s of %s left, %s chunks asked for, %s returned\n", clock, answer->epoch,
           words_number(answer->left, number[0]),
           words_number(answer->terms.kind == LEASE_BUCKET ? answer->terms.burst : answer->terms.total,
                        number[1]),
           words_number(answer->used, number[2]), words_number(answer->returned, number[3]));
}

/* ---- reading ---- */

static bool read_quota_url(void)
{
    struct weir_error err;
    if (!coordinator)
        coordinator = getenv("WEIR_COORDINATOR");
    if (!coordinator || !coordinator[0])
        return args_fail(
                   "quota",
                   "where is the coordinator? Add -c zookeeper://zk1,zk2,zk3/weir or -c redis://host, or set "
                   "WEIR_COORDINATOR"),
               false;
    if (!weir_url_read(&job.url, coordinator, &err) || !weir_coordinator_kind(&job.url, &err))
        return args_fail("quota", "%s", err.text), false;
    if (strcmp(job.url.scheme, "local") == 0)
        return args_fail("quota", "local: is inside of each process: there is nothing to look at from here"),
               false;
    return weir_fleet_options_read(&job.fleet, &job.url, &err) || (args_fail("quota", "%s", err.text), false);
}

/* NAME LIMIT..., of which the shell may have made several words. */
static bool read_quota_job(int count, char **argv)
{
    struct weir_error err;
    struct text text;
    job.name = count > 0 ? argv[1] : NULL;
    weir_text_init(&text, job.limit, sizeof job.limit);
    for (int i = 2; i <= count; i++)
        weir_text_print(&text, "%s%s", i > 2 ? " " : "", argv[i]);
    if (text.len >= sizeof job.limit)
        return args_fail("quota", "the limit is too long"), false;
    if (!read_quota_url())
        return false;
    if (job.name && !weir_fleet_name_check(job.name, &err))
        return args_fail("quota", "%s", err.text), false;
    job.fleet.nodes = nodes ? nodes : job.fleet.nodes;
    job.fleet.base = base ? base : job.fleet.base;
    return true;
}

/* ---- asking ---- */

static int quota_say_none(void)
{
    bool tier = strcmp(job.url.scheme, "weir") == 0;
    return quota_refuse("%s: no such name at %s; %s, list shows them", job.name, job.url.shown,
                        tier ? "a policy of that name with fleet: in the weir.yaml of that server makes one"
                             : "weir quota create makes one");
}

/* Of a pool that nobody has asked yet, what is to hold is all there is. */
static bool ask_quota_pool(const struct quota_ask *ask, struct quota_answer *answer, struct weir_error *err)
{
    memset(answer, 0, sizeof *answer);
    if (!weir_quota_ask(coordinator, ask, answer, err))
        return false;
    if (answer->epoch == 0) {
        answer->terms = answer->next;
        answer->terms.chunk = answer->next.base;
    }
    return true;
}

static bool quota_tell(const struct quota_ask *ask, struct quota_answer *answer)
{
    struct weir_error err;
    if (ask_quota_pool(ask, answer, &err))
        return true;
    (void)args_fail("quota", "%s", err.text);
    return false;
}

static bool quota_look(struct quota_answer *answer)
{
    return quota_tell(&(struct quota_ask){.op = QUOTA_SHOW, .name = job.name}, answer);
}

/* ---- show, list ---- */

static int quota_show(const struct cli_command *command, int count, char **argv)
{
    struct quota_answer answer;
    (void)command;
    if (!read_quota_job(count, argv))
        return EXIT_ERROR;
    if (!quota_look(&answer))
        return EXIT_ERROR;
    if (!answer.found)
        return quota_say_none();
    if (json_wanted)
        quota_print_json(job.name, &answer, JSON_LINES);
    else
        quota_print_show(job.name, &answer);
    return EXIT_OK;
}

struct quota_names {
    char **all;
    size_t count, room;
    bool full; /* there was no memory for more */
};

static void add_quota_name(void *arg, const char *name)
{
    struct quota_names *names = arg;
    if (names->count == names->room) {
        size_t room = 2 * names->room + 64;
        char **more = realloc(names->all, room * sizeof *more);
        names->full = names->full || !more;
        if (!more)
            return;
        names->all = more;
        names->room = room;
    }
    char *copy = strdup(name);
    names->full = names->full || !copy;
    if (copy)
        names->all[names->count++] = copy;
}

static int by_letters(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void print_quota_names(const struct quota_names *names, struct json *json)
{
    for (size_t i = 0; i < names->count; i++)
        if (json)
            json_text(json, NULL, names->all[i]);
        else
            term_print(stdout, "%s\n", names->all[i]);
}

static int quota_list(const struct cli_command *command, int count, char **argv)
{
    struct quota_answer answer;
    struct json json = {.file = stdout};
    struct quota_names names = {0};
    (void)command;
    if (!read_quota_job(count, argv))
        return EXIT_ERROR;
    bool good =
        quota_tell(&(struct quota_ask){.op = QUOTA_LIST, .each = add_quota_name, .arg = &names}, &answer);
    if (names.count > 0)
        qsort(names.all, names.count, sizeof names.all[0], by_letters);
    if (json_wanted)
        json_open(&json, NULL, '[', JSON_LINES);
    print_quota_names(&names, json_wanted ? &json : NULL);
    if (json_wanted)
        json_close(&json, ']');
    else if (good && names.count == 0)
        printf("nothing is shared at %s yet; %s makes something\n", job.url.shown,
               strcmp(job.url.scheme, "weir") == 0 ? "a policy with fleet: in the weir.yaml of that server"
                                                   : "weir quota create NAME LIMIT");
    if (names.full)
        good = args_fail("quota", "out of memory: names are missing") == EXIT_OK;
    for (size_t i = 0; i < names.count; i++)
        free(names.all[i]);
    free(names.all);
    return good ? EXIT_OK : EXIT_ERROR;
}

/* ---- watch ---- */

/* The same without a word: a coordinator that has gone is told once. */
static bool poll_quota(struct quota_answer *answer)
{
    if (!ask_quota_pool(&(struct quota_ask){.op = QUOTA_SHOW, .name = job.name}, answer, NULL))
        return false;
    args_fail("quota", "the coordinator is back");
    return true;
}

static bool print_quota_line(const struct quota_answer *answer)
{
    if (json_wanted)
        quota_print_json(job.name, answer, JSON_FLAT);
    else
        quota_print_line(answer);
    return fflush(stdout) == 0;
}

/* An answer may be waited for so long that whoever watches would think that all is well. */
static bool poll_quota_timed(struct quota_answer *answer)
{
    char span[HUMANIZE_MAX];
    int64_t from_ns = weir_now();
    if (!quota_look(answer))
        return false;
    int64_t took_ns = weir_now() - from_ns;
    if (took_ns < LONG_NS)
        return true;
    args_fail("quota", "the coordinator gave no answer for %s; it does again", words_duration(took_ns, span));
    return true;
}

/* A line when something has changed, at most one a second. A coordinator that goes is waited for. */
static int quota_watch(const struct cli_command *command, int count, char **argv)
{
    struct quota_answer seen, answer;
    (void)command;
    if (!read_quota_job(count, argv))
        return EXIT_ERROR;
    bool there = quota_look(&answer);
    if (!there || !answer.found)
        return there ? quota_say_none() : EXIT_ERROR;
    bool good = print_quota_line(&answer);
    for (int64_t shown = 1; good && shown < lines;) {
        seen = there ? answer : seen;
        (void)poll(NULL, 0, EVERY_MS);
        there = there ? poll_quota_timed(&answer) : poll_quota(&answer);
        if (there && quota_changed(&answer, &seen)) {
            good = print_quota_line(&answer);
            shown++;
        }
    }
    return good ? EXIT_OK : EXIT_ERROR;
}

/* ---- limits ---- */

#define WHOLE_MAX (QUOTA_TEXT_MAX + 16)

/* Here a plain rate is a total for each window: the command says quota. Elsewhere that has to be written. */
static const char *whole_limit(char text[static WHOLE_MAX])
{
    size_t len = strlen(job.limit);
    bool plain = !weir_text_contains(job.limit, len, "algo", 4) &&
                 !weir_text_contains(job.limit, len, "burst", 5) && !memchr(job.limit, ',', len);
    (void)snprintf(text, WHOLE_MAX, "%s%s", job.limit, plain ? " algo=quota" : "");
    return text;
}

static bool read_quota_terms(struct lease_terms *terms)
{
    struct weir_error err;
    char text[WHOLE_MAX];
    (void)whole_limit(text);
    if (weir_fleet_terms(text, &job.fleet, terms, &err))
        return true;
    if (err.column > 0) /* shown as it was typed */
        (void)weir_fleet_terms(job.limit, &job.fleet, terms, &err);
    weir_phrasebook_explain(job.limit, &err);
    (void)args_fail("quota", "%s", err.text);
    return false;
}

/* ---- create, set ---- */

static int report_existing_quota(const struct quota_answer *answer, const struct lease_terms *terms)
{
    char limit[QUOTA_LIMIT_MAX], chunk[HUMANIZE_MAX];
    struct lease_terms wanted = *terms;
    if (!base && !nodes)
        wanted.base = answer->next.base;
    (void)quota_limit(&answer->next, limit);
    (void)words_number(answer->next.base, chunk);
    if (!same_terms(&answer->next, &wanted))
        return quota_refuse("%s is there already: %s, base %s; weir quota set changes it", job.name, limit,
                            chunk);
    printf("%s is there already: %s, base %s\n", job.name, limit, chunk);
    quota_print_note(answer);
    return EXIT_OK;
}

static int quota_create(const struct cli_command *command, int count, char **argv)
{
    struct lease_terms terms;
    struct quota_answer answer;
    struct fleet_plan plan;
    char limit[QUOTA_LIMIT_MAX], whole[WHOLE_MAX];
    (void)command;
    if (!read_quota_job(count, argv))
        return EXIT_ERROR;
    if (!read_quota_terms(&terms))
        return EXIT_ERROR;
    weir_fleet_plan_at(&plan, &terms, &job.url, &job.fleet);
    if (!plan.works)
        return args_fail("quota", "%s", plan.why);
    if (!quota_tell(&(struct quota_ask){.op = QUOTA_CREATE, .name = job.name, .terms = terms}, &answer))
        return EXIT_ERROR;
    if (answer.found)
        return report_existing_quota(&answer, &terms);
    term_print(stdout, "%s: %s, kept by %s\n", job.name, quota_limit(&terms, limit), job.url.shown);
    printf("  a %s: programs join it with the limit \"%s\"\n",
           terms.kind == LEASE_BUCKET ? "bucket" : "quota", whole_limit(whole));
    quota_print_plan(&plan);
    quota_print_note(&answer);
    return EXIT_OK;
}

/* What is to hold, and what of it is said anew (`said`: what stays is 0). */
static bool merge_quota_terms(const struct lease_terms *now, struct lease_terms *whole,
                              struct lease_terms *said)
{
    char why[200];
    *whole = *now;
    if (job.limit[0] && !read_quota_terms(whole))
        return false;
    *said = *whole;
    if (whole->kind != now->kind) {
        (void)args_fail(
            "quota", now->kind == LEASE_BUCKET
                         ? "a bucket stays one, as in 10k/s burst=20k; for a quota, delete it and create it"
                         : "a quota stays one, as in 50M/m; for a bucket, delete it and create it");
        return false;
    }
    if (!job.limit[0])
        said->total = said->window_ns = said->burst = 0;
    bool sized = base || nodes;
    if (!sized)
        whole->base = now->base;
    else if (base || !job.limit[0])
        whole->base = base;
    whole->chunk = 0;
    if (!weir_terms_complete(whole, job.fleet.nodes, why, sizeof why))
        return args_fail("quota", "%s", why), false;
    said->base = sized ? whole->base : 0;
    said->chunk = 0;
    return true;
}

static int quota_set(const struct cli_command *command, int count, char **argv)
{
    struct quota_answer answer;
    struct lease_terms whole, said;
    struct fleet_plan plan;
    char limit[QUOTA_LIMIT_MAX], chunk[HUMANIZE_MAX];
    (void)command;
    if (!read_quota_job(count, argv))
        return EXIT_ERROR;
    if (!job.limit[0] && !base && !nodes)
        return args_fail("quota", "set what? For example: weir quota set egress 60M/m, or --base 1000");
    if (!quota_look(&answer))
        return EXIT_ERROR;
    if (!answer.found)
        return quota_say_none();
    if (!merge_quota_terms(&answer.next, &whole, &said))
        return EXIT_ERROR;
    weir_fleet_plan_at(&plan, &whole, &job.url, &job.fleet);
    if (!plan.works)
        return args_fail("quota", "%s", plan.why);
    if (!quota_tell(&(struct quota_ask){.op = QUOTA_SET, .name = job.name, .terms = said}, &answer))
        return EXIT_ERROR;
    printf("%s: %s, base %s, from the next %s on\n", job.name, quota_limit(&whole, limit),
           words_number(whole.base, chunk), whole.kind == LEASE_BUCKET ? "epoch" : "window");
    if (nodes)
        quota_print_plan(&plan);
    return EXIT_OK;
}

/* ---- delete ---- */

static int quota_delete(const struct cli_command *command, int count, char **argv)
{
    struct quota_answer answer;
    char limit[QUOTA_LIMIT_MAX];
    (void)command;
    if (!read_quota_job(count, argv))
        return EXIT_ERROR;
    if (!yes) {
        if (!quota_look(&answer))
            return EXIT_ERROR;
        if (!answer.found)
            return quota_say_none();
        return args_fail("quota",
                         "%s: %s; machines that use it make it anew, with what they were told, and nothing "
                         "passes for a window then. Is it meant? Then add --yes",
                         job.name, quota_limit(&answer.next, limit));
    }
    if (!quota_tell(&(struct quota_ask){.op = QUOTA_DELETE, .name = job.name}, &answer))
        return EXIT_ERROR;
    if (!answer.found)
        return quota_say_none();
    printf("%s is gone\n", job.name);
    return EXIT_OK;
}

static const struct args_verb verbs[] = {
    {"create", NULL, 2, -1, "create NAME LIMIT, as in: weir quota create egress 50M/m", "nodes|base",
     quota_create},
    {"show", NULL, 1, 1, "show NAME", "json", quota_show},
    {"list", NULL, 0, 0, "list", "json", quota_list},
    {"set", NULL, 1, -1, "set NAME [LIMIT] [--nodes N] [--base N]", "nodes|base", quota_set},
    {"watch", NULL, 1, 1, "watch NAME", "count|json", quota_watch},
    {"delete", NULL, 1, 1, "delete NAME --yes", "yes", quota_delete},
};

static const struct args_option options[] = {
    OPT_TEXT("coordinator", 'c', &coordinator, "URL",
             "zookeeper://host,host/path, redis://host[/db], redis+cluster://host,host or weir://host "
             "(default: WEIR_COORDINATOR in the environment)"),
    OPT_COUNT("nodes", &nodes, "N", "create, set: so many machines use it, as far as is known"),
    OPT_COUNT("base", &base, "N",
              "create, set: units of a chunk; a hundredth of the total for each machine, if you do not say "
              "it"),
    OPT_COUNT("count", &lines, "N", "watch: so many lines, then end"),
    OPT_FLAG("yes", 0, &yes, "delete: it is meant"),
    OPT_FLAG("json", 0, &json_wanted, "show, list, watch: JSON on standard output"),
};

const struct cli_command command_quota = {
    .name = "quota",
    .usage = "create NAME LIMIT [--nodes N] [--base N]\n"
             "       weir quota show | watch | delete NAME\n"
             "       weir quota set NAME [LIMIT] [--nodes N] [--base N]\n"
             "       weir quota list\n"
             "Totals that many machines share, kept by a coordinator.\n",
    ARGS_OPTIONS(options),
    .more = "A LIMIT is a total for each window, 50M/m, or a bucket of the whole fleet, 10k/s\n"
            "burst=20k. create prints what it costs, and refuses what cannot work. A change holds\n"
            "from the next window on, on every machine. Exit status: 0; 1 if there is no such name,\n"
            "or another one of it already; 2 on an error.\n"
            "\n"
            "Examples\n"
            "  weir quota create egress 50M/m --nodes 500 -c zookeeper://zk1,zk2,zk3/weir\n"
            "  export WEIR_COORDINATOR=redis://127.0.0.1\n"
            "  weir quota set egress 60M/m\n"
            "  weir quota show egress --json | jq .left\n",
    .least = 1,
    ARGS_VERBS(verbs),
};
