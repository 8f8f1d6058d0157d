/* SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>

#include "bench/bench.h"
#include "bench/server.h"
#include "cli/json.h"
#include "cli/words.h"

static const char *const ways[WAYS] = {"TCP", "unix socket"};

static double server_ratio_of(const struct server_results *r, int way, int pipeline, int subject)
{
    const struct server_cell *incr = &r->cells[way][pipeline][REDIS_INCR];
    return incr->cpu_us > 0 ? r->cells[way][pipeline][subject].cpu_us / incr->cpu_us : 0;
}

static void server_print_row(const struct server_results *r, int way, int pipeline, int subject)
{
    const struct server_cell *cell = &r->cells[way][pipeline][subject];
    if (!cell->measured)
        return;
    printf("  %-16s %8.1f k/s %8.3f us", subject_names[subject], cell->rate * 1e-3, cell->cpu_us);
    if (r->redis)
        printf(" %6.2fx", server_ratio_of(r, way, pipeline, subject));
    else
        printf("        ");
    printf(" %9.0f us %9.0f us\n", cell->p50_us, cell->p99_us);
}

static void server_print_closed(const struct server_results *r)
{
    for (int way = 0; way < WAYS; way++) {
        for (int pipeline = 0; pipeline < PIPELINES; pipeline++) {
            printf("\n%s, pipeline %-4d       requests   CPU each  of INCR        p50          p99\n",
                   ways[way], server_pipelines[pipeline]);
            for (int subject = 0; subject < SUBJECTS; subject++)
                server_print_row(r, way, pipeline, subject);
        }
    }
}

static void server_print_open(const struct server_results *r)
{
    printf("\nTCP, %.0f requests a second whatever comes back (us from when they were due)\n"
           "                        p50      p99    p99.9   p99.99      max\n",
           r->open_rate);
    for (int subject = 0; subject < SUBJECTS; subject++) {
        const struct load_result *l = &r->open[subject].result;
        if (r->open[subject].measured)
            printf("  %-16s %8.0f %8.0f %8.0f %8.0f %8.0f\n", subject_names[subject], l->p50_us, l->p99_us,
                   l->p999_us, l->p9999_us, l->max_us);
    }
}

static void server_print_goals(const struct server_results *r)
{
    if (!r->redis) {
        puts("\nredis-server is not installed: there is nothing to compare with.");
        return;
    }
    puts("\ngoals: CPU of a take by TCP against that of an INCR");
    for (int pipeline = 0; pipeline < PIPELINES; pipeline++) {
        double ratio = server_ratio_of(r, 0, pipeline, WEIR_TAKE);
        printf("  pipeline %-4d %5.2fx  at most %.2fx  %s\n", server_pipelines[pipeline], ratio,
               server_goals[pipeline], ratio <= server_goals[pipeline] ? "reached" : "missed");
    }
}

void server_print(const struct server_results *r)
{
    char text[HUMANIZE_MAX];
    bench_print_machine();
    printf("%d connections, one thread of the server; medians of %d rounds\n", r->connections, SERVER_ROUNDS);
    server_print_closed(r);
    printf("\n%s keys, pipeline 16: %.1f k/s, CPU each %.3f us, p99 %.0f us\n", words_number(r->keys, text),
           r->many_keys.rate * 1e-3, r->many_keys.cpu_us, r->many_keys.p99_us);
    server_print_open(r);
    server_print_goals(r);
    http_print(&r->http);
    printf("\n%" PRId64 " asked = %" PRId64 " allowed + %" PRId64 " refused + %" PRId64 " errors\n", r->asked,
           r->allowed, r->refused, r->errors);
}

static void server_json_cell(struct json *json, const struct server_cell *cell)
{
    json_decimal(json, "requests_per_second", cell->rate);
    json_decimal(json, "cpu_us", cell->cpu_us);
    json_decimal(json, "p50_us", cell->p50_us);
    json_decimal(json, "p99_us", cell->p99_us);
}

static void json_closed(struct json *json, const struct server_results *r)
{
    json_open(json, "closed", '[', JSON_LINES);
    for (int way = 0; way < WAYS; way++) {
        for (int pipeline = 0; pipeline < PIPELINES; pipeline++) {
            for (int subject = 0; subject < SUBJECTS; subject++) {
                if (!r->cells[way][pipeline][subject].measured)
                    continue;
                json_open(json, NULL, '{', JSON_FLAT);
                json_text(json, "who", subject_names[subject]);
                json_text(json, "by", ways[way]);
                json_number(json, "pipeline", server_pipelines[pipeline]);
                server_json_cell(json, &r->cells[way][pipeline][subject]);
                json_decimal(json, "of_incr", server_ratio_of(r, way, pipeline, subject));
                json_close(json, '}');
            }
        }
    }
    json_close(json, ']');
}

static void json_latencies(struct json *json, const struct server_results *r)
{
    json_open(json, "open", '[', JSON_LINES);
    for (int subject = 0; subject < SUBJECTS; subject++) {
        const struct load_result *l = &r->open[subject].result;
        if (!r->open[subject].measured)
            continue;
        json_open(json, NULL, '{', JSON_FLAT);
        json_text(json, "who", subject_names[subject]);
        json_decimal(json, "rate", r->open_rate);
        json_decimal(json, "p50_us", l->p50_us);
        json_decimal(json, "p99_us", l->p99_us);
        json_decimal(json, "p999_us", l->p999_us);
        json_decimal(json, "p9999_us", l->p9999_us);
        json_decimal(json, "max_us", l->max_us);
        json_close(json, '}');
    }
    json_close(json, ']');
}

static void server_json_goals(struct json *json, const struct server_results *r)
{
    json_open(json, "goals", '[', JSON_LINES);
    for (int pipeline = 0; r->redis && pipeline < PIPELINES; pipeline++) {
        double ratio = server_ratio_of(r, 0, pipeline, WEIR_TAKE);
        json_open(json, NULL, '{', JSON_FLAT);
        json_number(json, "pipeline", server_pipelines[pipeline]);
        json_decimal(json, "ratio", ratio);
        json_decimal(json, "at_most", server_goals[pipeline]);
        json_bool(json, "reached", ratio <= server_goals[pipeline]);
        json_close(json, '}');
    }
    json_close(json, ']');
}

void server_print_json(const struct server_results *r)
{
    struct json json = {.file = stdout};
    json_open(&json, NULL, '{', JSON_LINES);
    json_text(&json, "bench", "server");
    bench_json_machine(&json);
    json_number(&json, "connections", r->connections);
    json_closed(&json, r);
    json_open(&json, "many_keys", '{', JSON_FLAT);
    json_number(&json, "keys", r->keys);
    server_json_cell(&json, &r->many_keys);
    json_close(&json, '}');
    json_latencies(&json, r);
    server_json_goals(&json, r);
    http_json(&json, &r->http);
    json_open(&json, "counted", '{', JSON_FLAT);
    json_number(&json, "asked", r->asked);
    json_number(&json, "allowed", r->allowed);
    json_number(&json, "refused", r->refused);
    json_number(&json, "errors", r->errors);
    json_close(&json, '}');
    json_close(&json, '}');
}
