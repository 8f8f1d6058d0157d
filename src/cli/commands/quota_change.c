/* SPDX-License-Identifier: MIT */
/*
 * weir quota create, set, delete.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/commands/quota.h"
#include "cli/commands/quota_print.h"
#include "cli/term.h"
#include "cli/words.h"

/* ---- limits ---- */

#define WHOLE_MAX (QUOTA_TEXT_MAX + 16)

/* Here a plain rate is a total for each window: the command says quota. Elsewhere that has to be written. */
static const char *whole_limit(const struct quota_job *job, char text[static WHOLE_MAX])
{
    size_t len = strlen(job->limit);
    bool plain = !weir_text_contains(job->limit, len, "algo", 4) &&
                 !weir_text_contains(job->limit, len, "burst", 5) && !memchr(job->limit, ',', len);
    (void)snprintf(text, WHOLE_MAX, "%s%s", job->limit, plain ? " algo=quota" : "");
    return text;
}

static bool read_quota_terms(const struct quota_job *job, struct lease_terms *terms)
{
    struct weir_error err;
    char text[WHOLE_MAX];
    (void)whole_limit(job, text);
    if (weir_fleet_terms(text, &job->fleet, terms, &err))
        return true;
    if (err.column > 0) /* shown as it was typed */
        (void)weir_fleet_terms(job->limit, &job->fleet, terms, &err);
    (void)quota_fail(err.text);
    return false;
}

static void plan_of_quota(const struct quota_job *job, const struct lease_terms *terms,
                          struct fleet_plan *plan)
{
    const struct fleet_plan_input question = {.terms = *terms,
                                              .nodes = job->fleet.nodes,
                                              .scheme = job->url.scheme,
                                              .writes = weir_fleet_plan_writes(job->url.query),
                                              .share = job->fleet.on_loss == WEIR_FLEET_SHARE,
                                              .trust = strstr(job->url.query, "failover=trust") != NULL,
                                              .optimistic = job->fleet.optimistic};
    weir_fleet_plan_make(plan, &question);
}

/* ---- create, set ---- */

static bool same_limit(const struct lease_terms *a, const struct lease_terms *b)
{
    return a->kind == b->kind && a->total == b->total && a->window_ns == b->window_ns && a->burst == b->burst;
}

static int report_existing_quota(const struct quota_job *job, const struct quota_answer *answer,
                                 const struct lease_terms *terms)
{
    char limit[QUOTA_LIMIT_MAX], base[HUMANIZE_MAX], text[QUOTA_LIMIT_MAX + 200];
    bool same = same_limit(&answer->next, terms) &&
                (answer->next.base == terms->base || (!job->options->base && !job->options->nodes));
    (void)snprintf(text, sizeof text, " is there already: %s, base %s%s", quota_limit(&answer->next, limit),
                   words_number(answer->next.base, base), same ? "" : "; weir quota set changes it");
    if (!same)
        return quota_refuse(job->name, text);
    printf("%s%s\n", job->name, text);
    quota_print_note(answer);
    return EXIT_OK;
}

int quota_create(const struct quota_job *job)
{
    struct lease_terms terms;
    struct quota_answer answer;
    struct fleet_plan plan;
    char limit[QUOTA_LIMIT_MAX], whole[WHOLE_MAX];
    if (!read_quota_terms(job, &terms))
        return EXIT_ERROR;
    plan_of_quota(job, &terms, &plan);
    if (!plan.works)
        return quota_fail(plan.why);
    if (!quota_tell(job, &(struct quota_ask){.op = QUOTA_CREATE, .name = job->name, .terms = terms}, &answer))
        return EXIT_ERROR;
    if (answer.found)
        return report_existing_quota(job, &answer, &terms);
    printf("%s: %s, kept by ", job->name, quota_limit(&terms, limit));
    term_put(stdout, job->url.shown, strlen(job->url.shown));
    fputc('\n', stdout);
    printf("  a %s: programs join it with the limit \"%s\"\n",
           terms.kind == LEASE_BUCKET ? "bucket" : "quota", whole_limit(job, whole));
    quota_print_plan(&plan);
    quota_print_note(&answer);
    return EXIT_OK;
}

/* What is to hold, and what of it is said anew (`said`: what stays is 0). */
static bool merge_quota_terms(const struct quota_job *job, const struct lease_terms *now,
                              struct lease_terms *whole, struct lease_terms *said)
{
    struct weir_error err;
    char why[200];
    *whole = *now;
    if (job->limit[0] && !read_quota_terms(job, whole))
        return false;
    *said = *whole;
    if (whole->kind != now->kind) {
        weir_error_set(&err, EINVAL,
                       now->kind == LEASE_BUCKET
                           ? "a bucket stays one, as in 10k/s burst=20k; for a quota, delete it and create it"
                           : "a quota stays one, as in 50M/m; for a bucket, delete it and create it");
        return quota_fail(err.text), false;
    }
    if (!job->limit[0])
        said->total = said->window_ns = said->burst = 0;
    bool sized = job->options->base || job->options->nodes;
    if (!sized)
        whole->base = now->base;
    else if (job->options->base || !job->limit[0])
        whole->base = job->options->base ? job->fleet.base : 0;
    whole->chunk = 0;
    if (!weir_terms_complete(whole, job->fleet.nodes, why, sizeof why))
        return quota_fail(why), false;
    said->base = sized ? whole->base : 0;
    said->chunk = 0;
    return true;
}

int quota_set(const struct quota_job *job)
{
    struct quota_answer answer;
    struct lease_terms whole, said;
    struct fleet_plan plan;
    char limit[QUOTA_LIMIT_MAX], base[HUMANIZE_MAX];
    if (!job->limit[0] && !job->options->base && !job->options->nodes)
        return quota_fail("set what? For example: weir quota set egress 60M/m, or --base 1000");
    if (!quota_look(job, &answer))
        return EXIT_ERROR;
    if (!answer.found)
        return quota_say_none(job);
    if (!merge_quota_terms(job, &answer.next, &whole, &said))
        return EXIT_ERROR;
    plan_of_quota(job, &whole, &plan);
    if (!plan.works)
        return quota_fail(plan.why);
    if (!quota_tell(job, &(struct quota_ask){.op = QUOTA_SET, .name = job->name, .terms = said}, &answer))
        return EXIT_ERROR;
    printf("%s: %s, base %s, from the next %s on\n", job->name, quota_limit(&whole, limit),
           words_number(whole.base, base), whole.kind == LEASE_BUCKET ? "epoch" : "window");
    if (job->options->nodes)
        quota_print_plan(&plan);
    return EXIT_OK;
}

/* ---- delete ---- */

int quota_delete(const struct quota_job *job)
{
    struct quota_answer answer;
    char limit[QUOTA_LIMIT_MAX], text[QUOTA_LIMIT_MAX + 200];
    if (!job->options->yes) {
        if (!quota_look(job, &answer))
            return EXIT_ERROR;
        if (!answer.found)
            return quota_say_none(job);
        (void)snprintf(
            text, sizeof text,
            ": %s; machines that use it make it anew, with what they were told, and nothing passes "
            "for a window then. Is it meant? Then add --yes",
            quota_limit(&answer.next, limit));
        (void)quota_refuse(job->name, text);
        return EXIT_ERROR;
    }
    if (!quota_tell(job, &(struct quota_ask){.op = QUOTA_DELETE, .name = job->name}, &answer))
        return EXIT_ERROR;
    if (!answer.found)
        return quota_say_none(job);
    printf("%s is gone\n", job->name);
    return EXIT_OK;
}
