/* SPDX-License-Identifier: MIT */
/*
 * The reports of weir bench table: its rows, memory, latencies, and the goals of the design.
 */
#include <stdio.h>
#include <string.h>

#include "bench/table/table.h"
#include "os/clock.h"

#define NAME_WIDTH 31
#define BEST_RULE                                                                                            \
    "the fastest of the runs whose threads had 0.9 of the processors they can use; without such a run, "     \
    "the one that had the most, and then share is below 0.9"
#define TAIL_RULE "percentiles of the round with the lowest p99.99; max of all rounds"
#define KEY_RULE  "12 bytes, hashed whole: \"user\" and 8 digits; new keys: \"new \" and a number of 8 bytes"

/* 10M, 100k, 1234. */
static const char *short_count(int64_t count, char text[static 24])
{
    const char *unit = count % 1000000 == 0 ? "M" : count % 1000 == 0 ? "k" : "";
    int64_t by = *unit == 'M' ? 1000000 : *unit == 'k' ? 1000 : 1;
    snprintf(text, 24, "%lld%s", (long long)(count / by), unit);
    return text;
}

static size_t last_size(const struct table_report *report)
{
    return report->sizes - 1;
}

/* Of the rows that are measured in uniform order. */
static const struct bench_cell *table_find_cell(const struct table_report *report, const char *name,
                                                int threads)
{
    for (size_t row = 0; row < table_row_count; row++)
        if (table_rows[row].order == ORDER_UNIFORM && strcmp(table_rows[row].name, name) == 0)
            return &report->cells[last_size(report)][row][threads - 1];
    return NULL;
}

static double table_ratio_of(const struct table_report *report, const char *name, const char *against,
                             int threads)
{
    return table_find_cell(report, name, threads)->best_ns /
           table_find_cell(report, against, threads)->best_ns;
}

static double bytes_per_key(const struct table_memory *memory)
{
    return (double)memory->stat.bytes / (double)memory->stat.capacity;
}

/* ---- goals ---- */

#define GOAL_KEYS 10000000 /* they are stated for a table of so many */

/* What the design promises, with the largest number of keys. */
enum { GOALS = 6 };

struct table_goal {
    const char *name, *against, *unit; /* unit: of `value`; "": it is a ratio */
    int threads;
    double value, at_most;
    bool sure;
};

static struct table_goal goal_of_time(const struct table_report *report, const char *name,
                                      const char *against, int threads, double at_most)
{
    return (struct table_goal){name,
                               against,
                               "",
                               threads,
                               table_ratio_of(report, name, against, threads),
                               at_most,
                               table_find_cell(report, name, threads)->share >= SHARE_MIN &&
                                   table_find_cell(report, against, threads)->share >= SHARE_MIN};
}

static struct table_goal goal_of_tail(const struct table_report *report, const char *name,
                                      enum table_beside beside)
{
    const struct table_tail *tail = &report->tails[beside], *rest = &report->tails[BESIDE_NOTHING];
    return (struct table_goal){name,
                               "the same at rest",
                               "",
                               1,
                               rest->p9999 ? (double)tail->p9999 / (double)rest->p9999 : 0,
                               3,
                               tail->others <= BENCH_OTHERS_MAX && rest->others <= BENCH_OTHERS_MAX};
}

static void goals_find(const struct table_report *report, struct table_goal goals[static GOALS])
{
    goals[0] = goal_of_time(report, "take", "bare exchange", 1, 1.2);
    goals[1] = goal_of_time(report, "take", "bare exchange", 2, 1.2);
    goals[2] = goal_of_time(report, "take_each of 32", "take", 1, 0.4);
    goals[3] = (struct table_goal){
        "memory of a key", "", " bytes", 1, bytes_per_key(&report->memory[last_size(report)]), 24, true};
    goals[4] = goal_of_tail(report, "p99.99 during a sweep", BESIDE_SWEEP);
    goals[5] = goal_of_tail(report, "p99.99 during a live change", BESIDE_CHANGE);
}

/* ---- text ---- */

/* Gives true if the figure is unsure. */
static bool table_print_cell(const struct bench_cell *cell)
{
    bool unsure = cell->share < SHARE_MIN;
    printf(" %8.2f%c", cell->best_ns, unsure ? '~' : ' ');
    return unsure;
}

static bool table_print_rows(const struct table_report *report, size_t first, size_t end, size_t team)
{
    bool unsure = false;
    for (size_t row = first; row < end; row++) {
        printf("  %-*s", NAME_WIDTH, table_rows[row].name);
        for (size_t size = 0; size < report->sizes; size++)
            unsure |= table_print_cell(&report->cells[size][row][team]);
        putchar('\n');
    }
    return unsure;
}

/* Rows of one order stand together in table_rows; new keys come after them, and then the others. */
static bool print_sizes(const struct table_report *report)
{
    bool unsure = false;
    char text[80];
    snprintf(text, sizeof text, "ns a decision, best of %d; keys:", BENCH_RUNS);
    printf("%-*s", NAME_WIDTH + 2, text);
    for (size_t size = 0; size < report->sizes; size++)
        printf("%s %8s", size ? " " : "", short_count(report->keys[size], text));
    putchar('\n');
    for (size_t team = 0; team < TABLE_TEAMS; team++)
        for (size_t row = 0, end; row < table_row_count && !table_rows[row].largest; row = end) {
            for (end = row; end < table_row_count && !table_rows[end].largest &&
                            table_rows[end].order == table_rows[row].order &&
                            (table_rows[end].store == STORE_NEW) == (table_rows[row].store == STORE_NEW);)
                end++;
            printf("%s, %zu thread%s\n",
                   table_rows[row].store == STORE_NEW ? "every key once"
                                                      : table_order_names[table_rows[row].order],
                   team + 1, team ? "s" : "");
            unsure |= table_print_rows(report, row, end, team);
        }
    return unsure;
}

static bool print_largest(const struct table_report *report)
{
    bool unsure = false;
    char count[24], text[80];
    snprintf(text, sizeof text,
             "%s keys, uniform; threads:", short_count(report->keys[last_size(report)], count));
    printf("%-*s %8d  %8d\n", NAME_WIDTH + 2, text, 1, 2);
    for (size_t row = 0; row < table_row_count; row++) {
        if (!table_rows[row].largest)
            continue;
        printf("  %-*s", NAME_WIDTH, table_rows[row].name);
        for (size_t team = 0; team < TABLE_TEAMS; team++)
            unsure |= table_print_cell(&report->cells[last_size(report)][row][team]);
        putchar('\n');
    }
    return unsure;
}

static void print_memory_of(const char *limits, const struct table_memory *memory)
{
    char text[24];
    printf("  %-*s %8s %8.2f %8.2f %8.2f %8.1f\n", NAME_WIDTH - 7, limits, short_count(memory->keys, text),
           (double)memory->stat.bytes / 0x1p20, bytes_per_key(memory), (double)memory->resident / 0x1p20,
           memory->fill_ns);
    if (memory->stat.shared + memory->stat.refused > 0)
        printf("    %lld keys found no room\n", (long long)(memory->stat.shared + memory->stat.refused));
}

static void table_print_memory(const struct table_report *report)
{
    printf("%-*s %8s %8s %8s %8s %8s\n", NAME_WIDTH - 5, "memory", "keys", "MiB", "B a key", "MiB used",
           "ns, fill");
    for (size_t size = 0; size < report->sizes; size++)
        print_memory_of(TABLE_LIMITS, &report->memory[size]);
    print_memory_of(TABLE_LIMITS_THREE, &report->three);
    printf("Used is what the process grew by. %s\n\n", report->memory[last_size(report)].stat.huge_pages
                                                           ? "Huge pages were asked for."
                                                           : "There are no huge pages.");
}

static void table_print_tails(const struct table_report *report)
{
    static const char *const names[TABLE_BESIDES] = {"at rest", "beside takes of another thread",
                                                     "during weir_table_sweep", "during weir_table_set"};
    char count[24], text[80];
    int64_t keys = report->keys[last_size(report)];
    bool unsure = false;
    snprintf(text, sizeof text, "ns of a take, %s keys", short_count(keys, count));
    printf("%-*s %8s %8s %8s %8s %9s\n", NAME_WIDTH + 2, text, "p50", "p99", "p99.9", "p99.99", "max");
    for (size_t i = 0; i < TABLE_BESIDES; i++) {
        const struct table_tail *tail = &report->tails[i];
        unsure |= tail->others > BENCH_OTHERS_MAX;
        printf("  %-*s %8lld %8lld %8lld %8lld %9lld%s\n", NAME_WIDTH, names[i], (long long)tail->p50,
               (long long)tail->p99, (long long)tail->p999, (long long)tail->p9999, (long long)tail->max,
               tail->others > BENCH_OTHERS_MAX ? "~" : "");
    }
    printf("A reading of the clock included. Percentiles of the best of %d rounds, max of all.\n",
           BENCH_RUNS);
    printf("live change of %s keys under load: %.1f ms, %.1f M keys/s (median %.1f ms)%s\n", count,
           report->changes.best_ms, (double)keys / report->changes.best_ms * 1e-3, report->changes.median_ms,
           report->tails[BESIDE_CHANGE].others > BENCH_OTHERS_MAX ? "~" : "");
    puts(unsure ? "~ others had more than a tenth of the processors\n" : "");
}

static void table_print_goals(const struct table_report *report)
{
    struct table_goal goals[GOALS];
    char count[24], text[80];
    goals_find(report, goals);
    snprintf(text, sizeof text, "against the goals of the design, %s keys",
             short_count(report->keys[last_size(report)], count));
    printf("%-*s %9s  %s\n", NAME_WIDTH + 19, text, "measured", "goal");
    for (size_t i = 0; i < GOALS; i++) {
        const struct table_goal *goal = &goals[i];
        bool ratio = *goal->unit == '\0';
        snprintf(text, sizeof text, "%s%s%s%s", goal->name, goal->threads == 2 ? ", 2 threads" : "",
                 ratio ? ", to " : "", goal->against);
        printf("  %-*s %8.2f%s%c at most %.*f%s  %s\n", NAME_WIDTH + 17, text, goal->value, ratio ? "x" : " ",
               goal->sure ? ' ' : '~', ratio ? 1 : 0, goal->at_most, ratio ? "x" : goal->unit,
               report->keys[last_size(report)] != GOAL_KEYS ? "for 10M keys"
               : !goal->sure                                ? "unsure"
               : goal->value <= goal->at_most               ? "reached"
                                                            : "missed");
    }
    printf("  %-*s %8.2fx\n", NAME_WIDTH + 17, "who takes most is counted: take, to take, no_top",
           table_ratio_of(report, "take", "take, no_top", 1));
}

void table_print_text(const struct table_report *report)
{
    bench_print_machine();
    printf("clock      %s\nkeys       %s\n\n", weir_clock_name(), KEY_RULE);
    bool unsure = print_sizes(report);
    putchar('\n');
    unsure |= print_largest(report);
    puts("Processor time of all threads / processors they can use / decisions. A bare exchange is the\n"
         "same hash of the same key, the same clock and one CAS64 at a hashed place in as many bytes as the\n"
         "slots of the table have, in the same kind of pages, and compares nothing. Everything is called\n"
         "through a pointer. All takes pass except the refused ones. Keys are all in the table already,\n"
         "except new ones, which take the places of those that can be forgotten.");
    puts(unsure ? "~ other work took more than a tenth of the processors: no measure of threads at once\n"
                : "");
    table_print_memory(report);
    table_print_tails(report);
    table_print_goals(report);
}

/* ---- json ---- */

static void table_json_cell(struct json *json, const struct table_report *report, size_t size, size_t row,
                            int team)
{
    const struct bench_cell *cell = &report->cells[size][row][team];
    json_open(json, NULL, '{', JSON_FLAT);
    json_text(json, "name", table_rows[row].name);
    json_text(json, "order",
              table_rows[row].store == STORE_NEW ? "once" : table_order_names[table_rows[row].order]);
    json_number(json, "keys", report->keys[size]);
    json_number(json, "threads", team + 1);
    json_decimal(json, "best", cell->best_ns);
    json_decimal(json, "median", cell->median_ns);
    json_decimal(json, "share", cell->share);
    json_decimal(json, "allowed", cell->allowed);
    json_close(json, '}');
}

static void table_json_cells(struct json *json, const struct table_report *report)
{
    json_open(json, "operations", '[', JSON_LINES);
    for (size_t size = 0; size < report->sizes; size++)
        for (size_t row = 0; row < table_row_count; row++)
            for (int team = 0; team < TABLE_TEAMS; team++)
                if (!table_rows[row].largest || size == last_size(report))
                    table_json_cell(json, report, size, row, team);
    json_close(json, ']');
}

static void json_memory_of(struct json *json, const char *limits, const struct table_memory *memory)
{
    json_open(json, NULL, '{', JSON_FLAT);
    json_text(json, "limits", limits);
    json_number(json, "keys", memory->keys);
    json_number(json, "capacity", memory->stat.capacity);
    json_number(json, "slots", memory->stat.slots);
    json_number(json, "bytes", memory->stat.bytes);
    json_decimal(json, "bytes_per_key", bytes_per_key(memory));
    json_number(json, "resident", memory->resident);
    json_number(json, "without_room", memory->stat.shared + memory->stat.refused);
    json_bool(json, "huge_pages", memory->stat.huge_pages);
    json_decimal(json, "fill_ns", memory->fill_ns);
    json_close(json, '}');
}

static void json_memory(struct json *json, const struct table_report *report)
{
    json_open(json, "memory", '[', JSON_LINES);
    for (size_t size = 0; size < report->sizes; size++)
        json_memory_of(json, TABLE_LIMITS, &report->memory[size]);
    json_memory_of(json, TABLE_LIMITS_THREE, &report->three);
    json_close(json, ']');
}

static void json_tails(struct json *json, const struct table_report *report)
{
    json_text(json, "tails_rule", TAIL_RULE);
    json_open(json, "tails", '[', JSON_LINES);
    for (size_t i = 0; i < TABLE_BESIDES; i++) {
        const struct table_tail *tail = &report->tails[i];
        json_open(json, NULL, '{', JSON_FLAT);
        json_text(json, "beside", table_beside_names[i]);
        json_number(json, "count", tail->count);
        json_number(json, "p50", tail->p50);
        json_number(json, "p99", tail->p99);
        json_number(json, "p99.9", tail->p999);
        json_number(json, "p99.99", tail->p9999);
        json_number(json, "max", tail->max);
        json_decimal(json, "others", tail->others);
        json_close(json, '}');
    }
    json_close(json, ']');
    json_open(json, "live_change", '{', JSON_FLAT);
    json_number(json, "keys", report->keys[last_size(report)]);
    json_decimal(json, "best_ms", report->changes.best_ms);
    json_decimal(json, "median_ms", report->changes.median_ms);
    json_close(json, '}');
}

static void table_json_goals(struct json *json, const struct table_report *report)
{
    struct table_goal goals[GOALS];
    goals_find(report, goals);
    json_decimal(json, "top_ratio", table_ratio_of(report, "take", "take, no_top", 1));
    json_open(json, "goals", '[', JSON_LINES);
    for (size_t i = 0; i < GOALS; i++) {
        bool ratio = *goals[i].unit == '\0';
        json_open(json, NULL, '{', JSON_FLAT);
        json_text(json, "name", goals[i].name);
        if (ratio)
            json_text(json, "against", goals[i].against);
        json_number(json, "threads", goals[i].threads);
        json_decimal(json, ratio ? "ratio" : "bytes", goals[i].value);
        json_decimal(json, "at_most", goals[i].at_most);
        json_bool(json, "reached", goals[i].value <= goals[i].at_most);
        json_bool(json, "sure", goals[i].sure);
        json_close(json, '}');
    }
    json_close(json, ']');
}

void table_print_json(const struct table_report *report)
{
    struct json json = {.file = stdout};
    json_open(&json, NULL, '{', JSON_LINES);
    json_text(&json, "bench", "table");
    bench_json_machine(&json);
    json_text(&json, "clock", weir_clock_name());
    json_text(&json, "unit", "ns");
    json_text(&json, "best", BEST_RULE);
    json_text(&json, "key", KEY_RULE);
    table_json_cells(&json, report);
    json_memory(&json, report);
    json_tails(&json, report);
    table_json_goals(&json, report);
    json_close(&json, '}');
}
