/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>

#include "bench/store.h"
#include "cli/words.h"

static const char *const endings[2] = {"clean", "kill -9"};

/* ---- goals ---- */

enum { GOALS_MOST = STORE_ORDERS * (STORE_PIPELINES + 2) + 3 };

struct store_goal {
    char name[64];
    const char *unit;
    double value, bound;
    bool at_least, reached;
};

struct store_goals {
    struct store_goal list[GOALS_MOST];
    int count;
};

static struct store_goal *add_store_goal(struct store_goals *goals, double value, double bound, bool at_least,
                                         const char *unit)
{
    struct store_goal *goal = &goals->list[goals->count++];
    *goal = (struct store_goal){.unit = unit, .value = value, .bound = bound, .at_least = at_least};
    goal->reached = at_least ? value >= bound : value <= bound;
    return goal;
}

static double store_ratio(double one, double other)
{
    return other > 0 ? one / other : 0;
}

static double cpu_ratio(const struct store_results *r, int mode, int order, int pipeline)
{
    const struct store_cell *cells = r->cells[mode][order][pipeline];
    return store_ratio(cells[STORE_WEIR].cpu_us, cells[STORE_REDIS].cpu_us);
}

static double rate_ratio(const struct store_results *r, int mode, int order, int pipeline)
{
    const struct store_cell *cells = r->cells[mode][order][pipeline];
    return store_ratio(cells[STORE_WEIR].rate, cells[STORE_REDIS].rate);
}

static void add_beside_redis(struct store_goals *goals, const struct store_results *r, int order)
{
    for (int pipeline = 0; pipeline < STORE_PIPELINES; pipeline++) {
        double value = cpu_ratio(r, MODE_EVERYSEC, order, pipeline);
        struct store_goal *goal = add_store_goal(goals, value, GOAL_EVERYSEC, false, "x");
        snprintf(goal->name, sizeof goal->name, "everysec, %s, pipeline %d: CPU of INCR", store_orders[order],
                 store_pipelines[pipeline]);
    }
    struct store_goal *goal =
        add_store_goal(goals, cpu_ratio(r, MODE_ALWAYS, order, 0), GOAL_ALWAYS_CPU, false, "x");
    snprintf(goal->name, sizeof goal->name, "always, %s, pipeline %d: CPU of INCR", store_orders[order],
             store_pipelines[0]);
    goal = add_store_goal(goals, rate_ratio(r, MODE_ALWAYS, order, GOAL_AT), GOAL_ALWAYS, true, "x");
    snprintf(goal->name, sizeof goal->name, "always, %s, pipeline %d: rate of INCR", store_orders[order],
             store_pipelines[GOAL_AT]);
}

static struct store_goals goals_of(const struct store_results *r)
{
    struct store_goals goals = {.count = 0};
    const struct store_restart *largest = r->restarts[STORE_SIZES - 1];
    for (int order = 0; r->redis && order < STORE_ORDERS; order++)
        add_beside_redis(&goals, r, order);
    double first = 0, all = 0;
    for (int how = 0; how < 2; how++) {
        first = largest[how].first_s > first ? largest[how].first_s : first;
        all = largest[how].all_s > all ? largest[how].all_s : all;
    }
    struct store_goal *goal = add_store_goal(
        &goals, store_ratio(r->beside_images.p9999_us, r->at_rest.p9999_us), GOAL_TAIL, false, "x");
    snprintf(goal->name, sizeof goal->name, "p99.99 beside images, of that without");
    goal = add_store_goal(&goals, first, GOAL_FIRST_S, false, " s");
    snprintf(goal->name, sizeof goal->name, "restart of the most keys: first answer");
    goal = add_store_goal(&goals, all, GOAL_ALL_S, false, " s");
    snprintf(goal->name, sizeof goal->name, "restart of the most keys: all recovered");
    return goals;
}

/* ---- for people ---- */

static void store_print_cell(const struct store_results *r, int mode, int order, int pipeline, int who)
{
    const struct store_cell *cell = &r->cells[mode][order][pipeline][who];
    if (!cell->measured)
        return;
    printf("  %-12s %4d %-11s %8.1f k/s %8.3f us", store_orders[order], store_pipelines[pipeline],
           store_whos[who], cell->rate * 1e-3, cell->cpu_us);
    if (r->redis && who == STORE_WEIR)
        printf(" %5.2fx %5.2fx", rate_ratio(r, mode, order, pipeline), cpu_ratio(r, mode, order, pipeline));
    else
        printf("              ");
    printf(" %8.0f %8.0f %8.1f\n", cell->p50_us, cell->p99_us, cell->written);
}

static void store_print_mode(const struct store_results *r, int mode)
{
    printf("\nfsync %-8s pipeline          requests    CPU each   rate    CPU   p50 us   p99 us   bytes\n"
           "                                                      of INCR                   written\n",
           store_modes[mode]);
    for (int order = 0; order < STORE_ORDERS; order++)
        for (int pipeline = 0; pipeline < STORE_PIPELINES; pipeline++)
            for (int who = 0; who < STORE_WHO; who++)
                store_print_cell(r, mode, order, pipeline, who);
}

static void store_print_tail(const char *name, const struct store_tail *t)
{
    printf("  %-22s %8.0f %8.0f %8.0f %8.0f %8.0f\n", name, t->p50_us, t->p99_us, t->p999_us, t->p9999_us,
           t->max_us);
}

static void store_print_tails(const struct store_results *r)
{
    printf("\neverysec, %.0f takes a second whatever comes back (us from when they were due)\n"
           "                              p50      p99    p99.9   p99.99      max\n",
           r->tail_rate);
    store_print_tail("at rest", &r->at_rest);
    store_print_tail("beside images", &r->beside_images);
    printf("%" PRId64 " images meanwhile\n", r->images);
}

static void print_restarts(const struct store_results *r)
{
    puts("\nrestart with              first answer    all there      image        log");
    for (int i = 0; i < STORE_SIZES; i++) {
        for (int how = 0; how < 2; how++) {
            const struct store_restart *one = &r->restarts[i][how];
            char text[HUMANIZE_MAX];
            printf("  %10s keys, %-8s %8.3f s   %8.3f s %7.1f MB %7.1f MB%s\n", words_number(one->keys, text),
                   endings[how], one->first_s, one->all_s, one->image_mb, one->log_mb,
                   one->missing == 0 ? "" : "  NOT ALL OF THEM");
        }
    }
}

void store_print(const struct store_results *r)
{
    char text[HUMANIZE_MAX];
    struct store_goals goals = goals_of(r);
    bench_print_machine();
    printf("disk       %s%s\n", r->folder.system,
           r->folder.in_memory ? ": in memory, so nothing is learnt about disks; set TMPDIR" : "");
    printf("%s keys, %d connections by TCP, one thread of the server; medians of %d rounds\n",
           words_number(r->keys, text), STORE_CONNECTIONS, STORE_ROUNDS);
    for (int mode = 0; mode < STORE_MODES; mode++)
        store_print_mode(r, mode);
    store_print_tails(r);
    print_restarts(r);
    if (!r->redis)
        puts("\nredis-server is not installed: there is nothing to compare with.");
    puts("\ngoals");
    for (int i = 0; i < goals.count; i++) {
        const struct store_goal *goal = &goals.list[i];
        printf("  %-46s %6.2f%s  at %s %.1f%s  %s\n", goal->name, goal->value, goal->unit,
               goal->at_least ? "least" : "most", goal->bound, goal->unit,
               goal->reached ? "reached" : "missed");
    }
}

/* ---- for programs ---- */

static void store_json_cell(struct json *json, const struct store_results *r, int mode, int order,
                            int pipeline, int who)
{
    const struct store_cell *cell = &r->cells[mode][order][pipeline][who];
    if (!cell->measured)
        return;
    json_open(json, NULL, '{', JSON_FLAT);
    json_text(json, "fsync", store_modes[mode]);
    json_text(json, "keys", store_orders[order]);
    json_number(json, "pipeline", store_pipelines[pipeline]);
    json_text(json, "who", store_whos[who]);
    json_decimal(json, "requests_per_second", cell->rate);
    json_decimal(json, "cpu_us", cell->cpu_us);
    json_decimal(json, "p50_us", cell->p50_us);
    json_decimal(json, "p99_us", cell->p99_us);
    json_decimal(json, "bytes_written", cell->written);
    json_close(json, '}');
}

static void json_tail(struct json *json, const char *name, const struct store_tail *t)
{
    json_open(json, name, '{', JSON_FLAT);
    json_decimal(json, "p50_us", t->p50_us);
    json_decimal(json, "p99_us", t->p99_us);
    json_decimal(json, "p999_us", t->p999_us);
    json_decimal(json, "p9999_us", t->p9999_us);
    json_decimal(json, "max_us", t->max_us);
    json_close(json, '}');
}

static void json_restart(struct json *json, const struct store_restart *restart, int how)
{
    json_open(json, NULL, '{', JSON_FLAT);
    json_number(json, "keys", restart->keys);
    json_text(json, "ended", endings[how]);
    json_number(json, "asked", restart->asked);
    json_number(json, "missing", restart->missing);
    json_decimal(json, "first_answer_s", restart->first_s);
    json_decimal(json, "all_recovered_s", restart->all_s);
    json_decimal(json, "image_mb", restart->image_mb);
    json_decimal(json, "log_mb", restart->log_mb);
    json_close(json, '}');
}

static void store_json_goals(struct json *json, const struct store_results *r)
{
    struct store_goals goals = goals_of(r);
    json_open(json, "goals", '[', JSON_LINES);
    for (int i = 0; i < goals.count; i++) {
        const struct store_goal *goal = &goals.list[i];
        json_open(json, NULL, '{', JSON_FLAT);
        json_text(json, "name", goal->name);
        json_decimal(json, goal->unit[0] == 'x' ? "ratio" : "seconds", goal->value);
        json_decimal(json, goal->at_least ? "at_least" : "at_most", goal->bound);
        json_bool(json, "reached", goal->reached);
        json_close(json, '}');
    }
    json_close(json, ']');
}

void store_print_json(const struct store_results *r)
{
    struct json json = {.file = stdout};
    json_open(&json, NULL, '{', JSON_LINES);
    json_text(&json, "bench", "store");
    bench_json_machine(&json);
    json_text(&json, "disk", r->folder.system);
    json_number(&json, "keys", r->keys);
    json_number(&json, "connections", STORE_CONNECTIONS);
    json_open(&json, "closed", '[', JSON_LINES);
    for (int mode = 0; mode < STORE_MODES; mode++)
        for (int order = 0; order < STORE_ORDERS; order++)
            for (int pipeline = 0; pipeline < STORE_PIPELINES; pipeline++)
                for (int who = 0; who < STORE_WHO; who++)
                    store_json_cell(&json, r, mode, order, pipeline, who);
    json_close(&json, ']');
    json_open(&json, "open", '{', JSON_LINES);
    json_decimal(&json, "rate", r->tail_rate);
    json_number(&json, "images", r->images);
    json_tail(&json, "at_rest", &r->at_rest);
    json_tail(&json, "beside_images", &r->beside_images);
    json_close(&json, '}');
    json_open(&json, "restarts", '[', JSON_LINES);
    for (int i = 0; i < STORE_SIZES; i++)
        for (int how = 0; how < 2; how++)
            json_restart(&json, &r->restarts[i][how], how);
    json_close(&json, ']');
    store_json_goals(&json, r);
    json_close(&json, '}');
}
