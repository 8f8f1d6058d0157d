/* SPDX-License-Identifier: MIT */
/*
 * weir quota: totals of a fleet, where a coordinator keeps them: create, show, list, set, watch, delete.
 */
#define _POSIX_C_SOURCE 200809L

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "cli/commands.h"
#include "cli/commands/quota_print.h"
#include "cli/json.h"
#include "cli/term.h"
#include "cli/words.h"
#include "fleet/member.h"
#include "fleet/options.h"
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

/* "weir quota: TEXT" on standard error; gives EXIT_ERROR. */
static int quota_fail(const char *text)
{
    return args_fail("quota", text);
}

/* "weir quota: NAME" and the text behind it; gives EXIT_REFUSED. */
static int quota_refuse(const char *name, const char *text)
{
    fputs("weir quota: ", stderr);
    term_put(stderr, name, strlen(name));
    fprintf(stderr, "%s\n", text);
    return EXIT_REFUSED;
}

/* ---- reading ---- */

static bool read_quota_url(void)
{
    struct weir_error err;
    if (!coordinator)
        coordinator = getenv("WEIR_COORDINATOR");
    if (!coordinator || !coordinator[0])
        return quota_fail(
                   "where is the coordinator? Add -c zookeeper://zk1,zk2,zk3/weir or -c redis://host, or set "
                   "WEIR_COORDINATOR"),
               false;
    if (!weir_url_read(&job.url, coordinator, &err) || !weir_coordinator_kind(&job.url, &err))
        return quota_fail(err.text), false;
    if (strcmp(job.url.scheme, "local") == 0)
        return quota_fail("local: is inside of each process: there is nothing to look at from here"), false;
    return weir_fleet_options_read(&job.fleet, &job.url, &err) || (quota_fail(err.text), false);
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
        return quota_fail("the limit is too long"), false;
    if (!read_quota_url())
        return false;
    if (job.name && !weir_fleet_name_check(job.name, &err))
        return quota_fail(err.text), false;
    job.fleet.nodes = nodes ? nodes : job.fleet.nodes;
    job.fleet.base = base ? base : job.fleet.base;
    return true;
}

/* ---- asking ---- */

static int quota_say_none(void)
{
    char text[URL_TEXT_MAX + 120];
    bool tier = strcmp(job.url.scheme, "weir") == 0;
    (void)snprintf(text, sizeof text, ": no such name at %s; %s, list shows them", job.url.shown,
                   tier ? "a policy of that name with fleet: in the weir.yaml of that server makes one"
                        : "weir quota create makes one");
    return quota_refuse(job.name, text);
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
    (void)quota_fail(err.text);
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
        if (json) {
            json_text(json, NULL, names->all[i]);
        } else {
            term_put(stdout, names->all[i], strlen(names->all[i]));
            fputc('\n', stdout);
        }
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
        good = quota_fail("out of memory: names are missing") == EXIT_OK;
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
    fputs("weir quota: the coordinator is back\n", stderr);
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
    char span[HUMANIZE_MAX], text[HUMANIZE_MAX + 80];
    int64_t from_ns = weir_now();
    if (!quota_look(answer))
        return false;
    int64_t took_ns = weir_now() - from_ns;
    if (took_ns < LONG_NS)
        return true;
    (void)snprintf(text, sizeof text, "the coordinator gave no answer for %s; it does again",
                   words_duration(took_ns, span));
    (void)quota_fail(text);
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
    (void)quota_fail(err.text);
    return false;
}

static void plan_of_quota(const struct lease_terms *terms, struct fleet_plan *plan)
{
    const struct fleet_plan_input question = {.terms = *terms,
                                              .nodes = job.fleet.nodes,
                                              .scheme = job.url.scheme,
                                              .writes = weir_fleet_plan_writes(job.url.query),
                                              .share = job.fleet.on_loss == WEIR_FLEET_SHARE,
                                              .trust = strstr(job.url.query, "failover=trust") != NULL};
    weir_fleet_plan_make(plan, &question);
}

/* ---- create, set ---- */

static bool same_limit(const struct lease_terms *a, const struct lease_terms *b)
{
    return a->kind == b->kind && a->total == b->total && a->window_ns == b->window_ns && a->burst == b->burst;
}

static int report_existing_quota(const struct quota_answer *answer, const struct lease_terms *terms)
{
    char limit[QUOTA_LIMIT_MAX], chunk[HUMANIZE_MAX], text[QUOTA_LIMIT_MAX + 200];
    bool same = same_limit(&answer->next, terms) && (answer->next.base == terms->base || (!base && !nodes));
    (void)snprintf(text, sizeof text, " is there already: %s, base %s%s", quota_limit(&answer->next, limit),
                   words_number(answer->next.base, chunk), same ? "" : "; weir quota set changes it");
    if (!same)
        return quota_refuse(job.name, text);
    printf("%s%s\n", job.name, text);
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
    plan_of_quota(&terms, &plan);
    if (!plan.works)
        return quota_fail(plan.why);
    if (!quota_tell(&(struct quota_ask){.op = QUOTA_CREATE, .name = job.name, .terms = terms}, &answer))
        return EXIT_ERROR;
    if (answer.found)
        return report_existing_quota(&answer, &terms);
    printf("%s: %s, kept by ", job.name, quota_limit(&terms, limit));
    term_put(stdout, job.url.shown, strlen(job.url.shown));
    fputc('\n', stdout);
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
        (void)quota_fail(
            now->kind == LEASE_BUCKET
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
        return quota_fail(why), false;
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
        return quota_fail("set what? For example: weir quota set egress 60M/m, or --base 1000");
    if (!quota_look(&answer))
        return EXIT_ERROR;
    if (!answer.found)
        return quota_say_none();
    if (!merge_quota_terms(&answer.next, &whole, &said))
        return EXIT_ERROR;
    plan_of_quota(&whole, &plan);
    if (!plan.works)
        return quota_fail(plan.why);
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
    char limit[QUOTA_LIMIT_MAX], text[QUOTA_LIMIT_MAX + 200];
    (void)command;
    if (!read_quota_job(count, argv))
        return EXIT_ERROR;
    if (!yes) {
        if (!quota_look(&answer))
            return EXIT_ERROR;
        if (!answer.found)
            return quota_say_none();
        (void)snprintf(
            text, sizeof text,
            ": %s; machines that use it make it anew, with what they were told, and nothing passes "
            "for a window then. Is it meant? Then add --yes",
            quota_limit(&answer.next, limit));
        (void)quota_refuse(job.name, text);
        return EXIT_ERROR;
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
