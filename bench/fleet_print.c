/* SPDX-License-Identifier: MIT */
/*
 * The reports of weir bench fleet.
 */
#include <stdio.h>

#include "bench/fleet.h"
#include "os/clock.h"

#define NAME_WIDTH 34
#define BEST_RULE                                                                                            \
    "the fastest of the runs whose threads had 0.9 of the processors they can use; without such a run, "     \
    "the one that had the most, and then share is below 0.9"

/* The plain row that this one stands beside. */
static size_t plain_of(size_t row)
{
    while (fleet_rows[row].kind != FLEET_PLAIN)
        row--;
    return row;
}

static double fleet_ratio(const struct bench_cell *cells, size_t row, size_t threads)
{
    return cells[row * FLEET_THREADS + threads].best_ns /
           cells[plain_of(row) * FLEET_THREADS + threads].best_ns;
}

/* ---- text ---- */

static void fleet_print_heading(const char *text)
{
    printf("%-*s", NAME_WIDTH + 2, text);
    for (size_t i = 0; i < FLEET_THREADS; i++)
        printf(" %9d", fleet_threads[i]);
    putchar('\n');
}

static void fleet_print_times(const struct bench_cell *cells)
{
    bool unsure = false;
    for (size_t row = 0; row < fleet_row_count; row++) {
        printf("  %-*s", NAME_WIDTH, fleet_rows[row].name);
        for (size_t i = 0; i < FLEET_THREADS; i++) {
            const struct bench_cell *cell = &cells[row * FLEET_THREADS + i];
            bool mark = cell->share < SHARE_MIN;
            printf(" %8.2f%c", cell->best_ns, mark ? '~' : ' ');
            unsure |= mark;
        }
        putchar('\n');
    }
    if (unsure)
        puts("~ other work took more than a tenth of the processors: no measure of threads at once");
}

static void fleet_print_ratios(const struct bench_cell *cells)
{
    for (size_t row = 0; row < fleet_row_count; row++) {
        const struct fleet_row *r = &fleet_rows[row];
        if (r->kind == FLEET_PLAIN)
            continue;
        printf("  %-*s", NAME_WIDTH, r->name);
        for (size_t i = 0; i < FLEET_THREADS; i++)
            printf(" %8.2fx", fleet_ratio(cells, row, i));
        if (r->goal > 0)
            printf("   1 thread: at most %.1fx, %s", r->goal,
                   fleet_ratio(cells, row, 0) <= r->goal ? "reached" : "missed");
        putchar('\n');
    }
}

void fleet_print_text(const struct bench_cell *cells)
{
    char heading[80];
    bench_print_machine();
    printf("clock      %s\n\n", weir_clock_name());
    snprintf(heading, sizeof heading, "ns a take, best of %d; threads:", BENCH_RUNS);
    fleet_print_heading(heading);
    fleet_print_times(cells);
    puts("Processor time of all threads / processors they can use / takes: on a quiet machine the\n"
         "time on the wall from one take to the next. All are called through a pointer from one loop.\n"
         "A thread keeps the lease balance full and gives it a new deadline every 100 ms.\n");
    fleet_print_heading("to the plain limiter");
    fleet_print_ratios(cells);
}

/* ---- json ---- */

static void fleet_json_row(struct json *json, const struct bench_cell *cells, size_t row, size_t i)
{
    const struct bench_cell *cell = &cells[row * FLEET_THREADS + i];
    json_open(json, NULL, '{', JSON_FLAT);
    json_text(json, "name", fleet_rows[row].name);
    json_number(json, "threads", fleet_threads[i]);
    json_decimal(json, "best", cell->best_ns);
    json_decimal(json, "median", cell->median_ns);
    json_decimal(json, "share", cell->share);
    json_decimal(json, "allowed", cell->allowed);
    json_decimal(json, "to_plain", fleet_ratio(cells, row, i));
    json_close(json, '}');
}

static void fleet_json_goals(struct json *json, const struct bench_cell *cells)
{
    json_open(json, "goals", '[', JSON_LINES);
    for (size_t row = 0; row < fleet_row_count; row++) {
        if (fleet_rows[row].goal <= 0)
            continue;
        json_open(json, NULL, '{', JSON_FLAT);
        json_text(json, "name", fleet_rows[row].name);
        json_text(json, "against", fleet_rows[plain_of(row)].name);
        json_number(json, "threads", 1);
        json_decimal(json, "measured", fleet_ratio(cells, row, 0));
        json_decimal(json, "at_most", fleet_rows[row].goal);
        json_bool(json, "reached", fleet_ratio(cells, row, 0) <= fleet_rows[row].goal);
        json_close(json, '}');
    }
    json_close(json, ']');
}

void fleet_print_json(const struct bench_cell *cells)
{
    struct json json = {.file = stdout};
    json_open(&json, NULL, '{', JSON_LINES);
    json_text(&json, "bench", "fleet");
    bench_json_machine(&json);
    json_text(&json, "clock", weir_clock_name());
    json_text(&json, "unit", "ns");
    json_text(&json, "best", BEST_RULE);
    json_open(&json, "operations", '[', JSON_LINES);
    for (size_t row = 0; row < fleet_row_count; row++)
        for (size_t i = 0; i < FLEET_THREADS; i++)
            fleet_json_row(&json, cells, row, i);
    json_close(&json, ']');
    fleet_json_goals(&json, cells);
    json_close(&json, '}');
}
