/* SPDX-License-Identifier: MIT */
/*
 * weir quota show, list, watch.
 */
#define _POSIX_C_SOURCE 200809L
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/commands/quota.h"
#include "cli/commands/quota_print.h"
#include "cli/json.h"
#include "cli/term.h"
#include "cli/words.h"

#define EVERY_MS 1000     /* watch */
#define LONG_NS  WEIR_SEC /* for an answer */

/* ---- asking ---- */

int quota_fail(const char *text)
{
    fputs("weir quota: ", stderr);
    term_put(stderr, text, strlen(text));
    fputc('\n', stderr);
    return EXIT_ERROR;
}

int quota_refuse(const char *name, const char *text)
{
    fputs("weir quota: ", stderr);
    term_put(stderr, name, strlen(name));
    fprintf(stderr, "%s\n", text);
    return EXIT_REFUSED;
}

int quota_say_none(const struct quota_job *job)
{
    char text[FLEET_URL_MAX + 120];
    bool tier = strcmp(job->url.scheme, "weir") == 0;
    (void)snprintf(text, sizeof text, ": no such name at %s; %s, list shows them", job->url.shown,
                   tier ? "a policy of that name with fleet: in the weir.yaml of that server makes one"
                        : "weir quota create makes one");
    return quota_refuse(job->name, text);
}

/* Of a pool that nobody has asked yet, what is to hold is all there is. */
static bool ask_quota_pool(const struct quota_job *job, const struct quota_ask *ask,
                           struct quota_answer *answer, struct weir_error *err)
{
    memset(answer, 0, sizeof *answer);
    if (!weir_quota_ask(job->options->url, ask, answer, err))
        return false;
    if (answer->epoch == 0) {
        answer->terms = answer->next;
        answer->terms.chunk = answer->next.base;
    }
    return true;
}

bool quota_tell(const struct quota_job *job, const struct quota_ask *ask, struct quota_answer *answer)
{
    struct weir_error err;
    if (ask_quota_pool(job, ask, answer, &err))
        return true;
    (void)quota_fail(err.text);
    return false;
}

bool quota_look(const struct quota_job *job, struct quota_answer *answer)
{
    return quota_tell(job, &(struct quota_ask){.op = QUOTA_SHOW, .name = job->name}, answer);
}

/* ---- show, list ---- */

int quota_show(const struct quota_job *job)
{
    struct quota_answer answer;
    if (!quota_look(job, &answer))
        return EXIT_ERROR;
    if (!answer.found)
        return quota_say_none(job);
    if (job->options->json)
        quota_print_json(job->name, &answer, JSON_LINES);
    else
        quota_print_show(job->name, &answer);
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

int quota_list(const struct quota_job *job)
{
    struct quota_answer answer;
    struct json json = {.file = stdout};
    struct quota_names names = {0};
    bool good = quota_tell(job, &(struct quota_ask){.op = QUOTA_LIST, .each = add_quota_name, .arg = &names},
                           &answer);
    if (names.count > 0)
        qsort(names.all, names.count, sizeof names.all[0], by_letters);
    if (job->options->json)
        json_open(&json, NULL, '[', JSON_LINES);
    print_quota_names(&names, job->options->json ? &json : NULL);
    if (job->options->json)
        json_close(&json, ']');
    else if (good && names.count == 0)
        printf("nothing is shared at %s yet; %s makes something\n", job->url.shown,
               strcmp(job->url.scheme, "weir") == 0 ? "a policy with fleet: in the weir.yaml of that server"
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
static bool poll_quota(const struct quota_job *job, struct quota_answer *answer)
{
    if (!ask_quota_pool(job, &(struct quota_ask){.op = QUOTA_SHOW, .name = job->name}, answer, NULL))
        return false;
    fputs("weir quota: the coordinator is back\n", stderr);
    return true;
}

static bool print_quota_line(const struct quota_job *job, const struct quota_answer *answer)
{
    if (job->options->json)
        quota_print_json(job->name, answer, JSON_FLAT);
    else
        quota_print_line(answer);
    return fflush(stdout) == 0;
}

/* An answer may be waited for so long that whoever watches would think that all is well. */
static bool poll_quota_timed(const struct quota_job *job, struct quota_answer *answer)
{
    char span[HUMANIZE_MAX], text[HUMANIZE_MAX + 80];
    int64_t from_ns = weir_now();
    if (!quota_look(job, answer))
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
int quota_watch(const struct quota_job *job)
{
    struct quota_answer seen, answer;
    bool there = quota_look(job, &answer);
    if (!there || !answer.found)
        return there ? quota_say_none(job) : EXIT_ERROR;
    bool good = print_quota_line(job, &answer);
    for (int64_t lines = 1; good && lines < job->count;) {
        seen = there ? answer : seen;
        (void)poll(NULL, 0, EVERY_MS);
        there = there ? poll_quota_timed(job, &answer) : poll_quota(job, &answer);
        if (there && quota_changed(&answer, &seen)) {
            good = print_quota_line(job, &answer);
            lines++;
        }
    }
    return good ? EXIT_OK : EXIT_ERROR;
}
