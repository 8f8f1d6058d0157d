/* SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L
#include "cli/commands/quota_print.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/sat.h"
#include "cli/term.h"
#include "cli/words.h"
#include "os/boot.h"

#define COLUMN 12 /* of what stands behind a title */

/* What a coordinator could not read has no window. */
static bool is_read(const struct lease_terms *terms)
{
    return terms->window_ns > 0;
}

const char *quota_limit(const struct lease_terms *terms, char text[static QUOTA_LIMIT_MAX])
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

void quota_print_plan(const struct fleet_plan *plan)
{
    char nodes[HUMANIZE_MAX], line[PLAN_TEXT_MAX + 2 * HUMANIZE_MAX];
    int width = term_width(stdout);
    (void)snprintf(line, sizeof line, "%s node%s: %s", words_number(plan->nodes, nodes),
                   plan->nodes == 1 ? "" : "s", plan->cost);
    fputs("  ", stdout);
    term_wrap(stdout, line, 2, 2, width);
    fputs("  ", stdout);
    term_wrap(stdout, plan->lost, 2, 2, width);
}

void quota_print_note(const struct quota_answer *answer)
{
    if (!answer->note[0])
        return;
    printf("  %-*s", COLUMN, "note");
    term_put(stdout, answer->note, strlen(answer->note));
    fputc('\n', stdout);
}

/* ---- show ---- */

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
    char limit[QUOTA_LIMIT_MAX], base[HUMANIZE_MAX];
    if (!same_terms(&answer->next, &answer->terms))
        printf("  %-*s%s, base %s: from the next %s on\n", COLUMN, "next", quota_limit(&answer->next, limit),
               words_number(answer->next.base, base),
               answer->terms.kind == LEASE_BUCKET ? "epoch" : "window");
}

void quota_print_show(const char *name, const struct quota_answer *answer)
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

/* ---- JSON ---- */

static void put_terms(struct json *json, const struct lease_terms *terms)
{
    json_text(json, "kind", terms->kind == LEASE_BUCKET ? "bucket" : "quota");
    json_number(json, "total", terms->total);
    json_number(json, "window_ms", terms->window_ns / WEIR_MS);
    if (terms->kind == LEASE_BUCKET)
        json_number(json, "burst", terms->burst);
    json_number(json, "base", terms->base);
}

void quota_print_json(const char *name, const struct quota_answer *answer, enum json_layout layout)
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

/* ---- watch ---- */

bool quota_changed(const struct quota_answer *now, const struct quota_answer *before)
{
    return now->found != before->found || now->epoch != before->epoch || now->used != before->used ||
           now->returned != before->returned || now->left != before->left ||
           now->terms.chunk != before->terms.chunk || !same_terms(&now->terms, &before->terms) ||
           !same_terms(&now->next, &before->next) || strcmp(now->note, before->note) != 0;
}

void quota_print_line(const struct quota_answer *answer)
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
