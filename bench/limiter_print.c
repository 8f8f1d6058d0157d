/* SPDX-License-Identifier: MIT */
/*
 * The reports of weir bench limiter: its rows, its failed exchanges, and the goals of the design.
 */
#include <stdio.h>
#include <string.h>

#include "bench/limiter.h"
#include "os/clock.h"

#define NAME_WIDTH 34
#define BEST_RULE                                                                                            \
    "the fastest of the runs whose threads had 0.9 of the processors they can use; without such a run, "     \
    "the one that had the most, and then share is below 0.9"

/* ---- goals ---- */

/* A ratio that the design promises: at most so many times the time of `against`; or, where that is the row
 * itself, at least so many times the operations that one thread makes. */
static const struct limiter_goal {
    const char *name, *against;
    int threads;
    double ratio;
} goals[] = {
    {"take_at", "CAS64", 1, 2.5},
    {"take", "rdtsc + CAS64", 1, 1.2},
    {"take", "rdtsc + CAS64", 2, 1.2},
    {"take", "rdtsc + CAS64", 64, 1.2},
    {"take, refused", "rdtsc + load", 1, 1.3},
    {"take, handle", "rdtsc + CAS64", 1, 0.3},
    {"take, handle", "take, handle", 2, 1.9},
    {"take, warmup", "rdtsc + CAS128", 1, 1.3},
};
#define GOALS (sizeof goals / sizeof goals[0])

struct limiter_goal_result {
    double ratio;
    bool at_least, reached, sure;
};

static const struct bench_cell *limiter_find_cell(const struct bench_cell *cells, const char *name,
                                                  int threads)
{
    for (size_t row = 0; row < row_count; row++)
        for (size_t i = 0; i < ROW_THREADS; i++)
            if (!rows[row].counted && strcmp(rows[row].name, name) == 0 && row_threads[i] == threads)
                return &cells[row * ROW_THREADS + i];
    return NULL;
}

/* false: there is no such baseline on this machine. */
static bool limiter_goal_reached(const struct limiter_goal *goal, const struct bench_cell *cells,
                                 struct limiter_goal_result *outcome)
{
    bool scales = strcmp(goal->name, goal->against) == 0;
    const struct bench_cell *cell = limiter_find_cell(cells, goal->name, goal->threads);
    const struct bench_cell *other = limiter_find_cell(cells, goal->against, scales ? 1 : goal->threads);
    if (!cell || !other)
        return false;
    double ratio = scales ? other->best_ns / cell->best_ns : cell->best_ns / other->best_ns;
    *outcome = (struct limiter_goal_result){.ratio = ratio,
                                            .at_least = scales,
                                            .reached = scales ? ratio >= goal->ratio : ratio <= goal->ratio,
                                            .sure = cell->share >= SHARE_MIN && other->share >= SHARE_MIN};
    return true;
}

/* ---- text ---- */

static void limiter_print_heading(const char *text)
{
    printf("%-*s", NAME_WIDTH + 2, text);
    for (size_t i = 0; i < ROW_THREADS; i++)
        printf(" %9d", row_threads[i]);
    putchar('\n');
}

/* Gives true if a figure is unsure. */
static bool limiter_print_row(const struct limiter_row *row, const struct bench_cell *cells)
{
    bool unsure = false;
    printf("  %-*s", NAME_WIDTH, row->name);
    for (size_t i = 0; i < ROW_THREADS; i++) {
        bool mark = !row->counted && cells[i].share < SHARE_MIN;
        printf(" %8.2f%c", row->counted ? cells[i].failures : cells[i].best_ns, mark ? '~' : ' ');
        unsure |= mark;
    }
    putchar('\n');
    return unsure;
}

static void limiter_print_rows(const struct bench_cell *cells, bool counted)
{
    bool unsure = false;
    for (size_t row = 0; row < row_count; row++) {
        if (rows[row].counted != counted)
            continue;
        if (rows[row].group)
            printf("%s\n", rows[row].group);
        unsure |= limiter_print_row(&rows[row], &cells[row * ROW_THREADS]);
    }
    if (unsure)
        puts("~ other work took more than a tenth of the processors: no measure of threads at once");
}

static void limiter_print_goals(const struct bench_cell *cells)
{
    printf("%-*s %9s %16s\n", NAME_WIDTH + 12, "against the goals of the design", "measured", "goal");
    for (size_t i = 0; i < GOALS; i++) {
        struct limiter_goal_result outcome;
        char text[80];
        if (!limiter_goal_reached(&goals[i], cells, &outcome))
            continue;
        const char *threads = goals[i].threads == 1 ? "thread" : "threads";
        if (outcome.at_least)
            snprintf(text, sizeof text, "%s: operations, %d threads to 1", goals[i].name, goals[i].threads);
        else
            snprintf(text, sizeof text, "%s, %d %s, to %s", goals[i].name, goals[i].threads, threads,
                     goals[i].against);
        printf("  %-*s %8.2fx%c %8s %.1fx  %s\n", NAME_WIDTH + 10, text, outcome.ratio,
               outcome.sure ? ' ' : '~', outcome.at_least ? "at least" : "at most", goals[i].ratio,
               !outcome.sure     ? "unsure"
               : outcome.reached ? "reached"
                                 : "missed");
    }
}

void limiter_print_text(const struct bench_cell *cells)
{
    char heading[80];
    bench_print_machine();
    printf("clock      %s\n\n", weir_clock_name());
    snprintf(heading, sizeof heading, "ns an operation, best of %d; threads:", BENCH_RUNS);
    limiter_print_heading(heading);
    limiter_print_rows(cells, false);
    puts("Processor time of all threads / processors they can use / operations: on a quiet machine\n"
         "the time on the wall from one operation to the next. Everything is called through a pointer\n"
         "from one loop. CAS64 reads a word and replaces it; with a time, by max(word + 1, time).\n"
         "CAS128 does that to one word of two, load compares and writes nothing. A mutex bucket adds\n"
         "what has come since, and takes.\n"
         "All takes pass except the refused ones, which write nothing. A handle has 1 000 units.\n");
    limiter_print_heading("failed exchanges an operation");
    limiter_print_rows(cells, true);
    puts("Counted apart, with the same loops compiled around an exchange that counts.\n");
    limiter_print_goals(cells);
}

/* ---- json ---- */

static void limiter_json_cell(struct json *json, const struct limiter_row *row, size_t i,
                              const struct bench_cell *cell)
{
    json_open(json, NULL, '{', JSON_FLAT);
    json_text(json, "name", row->name);
    json_number(json, "threads", row_threads[i]);
    if (row->counted) {
        json_decimal(json, "failures", cell->failures);
    } else {
        json_decimal(json, "best", cell->best_ns);
        json_decimal(json, "median", cell->median_ns);
        json_decimal(json, "share", cell->share);
        json_decimal(json, "allowed", cell->allowed);
    }
    json_close(json, '}');
}

static void limiter_json_cells(struct json *json, const char *name, const struct bench_cell *cells,
                               bool counted)
{
    json_open(json, name, '[', JSON_LINES);
    for (size_t row = 0; row < row_count; row++)
        for (size_t i = 0; i < ROW_THREADS; i++)
            if (rows[row].counted == counted)
                limiter_json_cell(json, &rows[row], i, &cells[row * ROW_THREADS + i]);
    json_close(json, ']');
}

static void limiter_json_goals(struct json *json, const struct bench_cell *cells)
{
    json_open(json, "goals", '[', JSON_LINES);
    for (size_t i = 0; i < GOALS; i++) {
        struct limiter_goal_result outcome;
        if (!limiter_goal_reached(&goals[i], cells, &outcome))
            continue;
        json_open(json, NULL, '{', JSON_FLAT);
        json_text(json, "name", goals[i].name);
        json_text(json, "against", goals[i].against);
        json_number(json, "threads", goals[i].threads);
        json_decimal(json, "ratio", outcome.ratio);
        json_decimal(json, outcome.at_least ? "at_least" : "at_most", goals[i].ratio);
        json_bool(json, "reached", outcome.reached);
        json_bool(json, "sure", outcome.sure);
        json_close(json, '}');
    }
    json_close(json, ']');
}

void limiter_print_json(const struct bench_cell *cells)
{
    struct json json = {.file = stdout};
    json_open(&json, NULL, '{', JSON_LINES);
    json_text(&json, "bench", "limiter");
    bench_json_machine(&json);
    json_text(&json, "clock", weir_clock_name());
    json_text(&json, "unit", "ns");
    json_text(&json, "best", BEST_RULE);
    limiter_json_cells(&json, "operations", cells, false);
    limiter_json_cells(&json, "failed_exchanges", cells, true);
    limiter_json_goals(&json, cells);
    json_close(&json, '}');
}
