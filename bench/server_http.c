/* SPDX-License-Identifier: MIT */
#include "bench/server_http.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"

#define KEYS      100000
#define TEXT_MAX  8192
#define HEAD_ROOM 256

/* What clients send with every request. */
#define FIELDS "Host: 127.0.0.1\r\nUser-Agent: weir-bench\r\nAccept: */*\r\n"

static const char *const names[HTTP_ROWS] = {"WEIR.TAKE", "nginx return 200", "GET take",
                                             "POST take", "POST refused",     "batch of 100"};

static const struct http_goal {
    enum http_row row, against;
    double at_most;
} goals[] = {{ROW_GET, ROW_RESP, 1.25},
             {ROW_POST, ROW_RESP, 1.25},
             {ROW_GET, ROW_NGINX, 1.2},
             {ROW_POST, ROW_NGINX, 1.2},
             {ROW_BATCH, ROW_RESP, 0.15}};
#define GOALS (sizeof goals / sizeof *goals)

/* ---- requests ---- */

static void write_post(char text[static TEXT_MAX], const char *path, const char *body)
{
    snprintf(text, TEXT_MAX,
             "POST %s HTTP/1.1\r\n" FIELDS "Content-Type: application/json\r\n"
             "Content-Length: %zu\r\n\r\n%s",
             path, strlen(body), body);
}

static void write_batch(char text[static TEXT_MAX])
{
    char body[TEXT_MAX - HEAD_ROOM];
    size_t len = (size_t)snprintf(body, sizeof body, "{\"requests\":[");
    for (int i = 0; i < HTTP_BATCH; i++)
        len += (size_t)snprintf(body + len, sizeof body - len,
                                "%s{\"op\":\"take\",\"policy\":\"open\",\"key\":\"" LOAD_KEY "\"}",
                                i > 0 ? "," : "");
    snprintf(body + len, sizeof body - len, "]}");
    write_post(text, "/v1/batch", body);
}

static void write_request(enum http_row row, char text[static TEXT_MAX])
{
    if (row == ROW_BATCH)
        write_batch(text);
    else if (row == ROW_POST || row == ROW_REFUSED)
        write_post(text, "/v1/take",
                   row == ROW_POST ? "{\"policy\":\"open\",\"key\":\"" LOAD_KEY "\"}"
                                   : "{\"policy\":\"shut\",\"key\":\"" LOAD_KEY "\"}");
    else
        snprintf(text, TEXT_MAX, "GET /v1/take/open/" LOAD_KEY " HTTP/1.1\r\n" FIELDS "\r\n");
}

/* ---- measuring ---- */

struct http_rounds {
    double rate[HTTP_ROUNDS], cpu_us[HTTP_ROUNDS], p99_us[HTTP_ROUNDS];
};

static bool measure_row(struct load_plan plan, enum http_row row, int round, struct http_rounds *rounds,
                        struct http_results *results)
{
    static char text[TEXT_MAX];
    struct load_result result;
    int decisions = row == ROW_BATCH ? HTTP_BATCH : 1;
    if (row != ROW_RESP) {
        write_request(row, text);
        plan.http = text;
        plan.by = WAY_HTTP;
    }
    bench_progress(names[row]);
    if (!load_run(&plan, &result))
        return false;
    if (row != ROW_NGINX)
        results->asked += result.replies * decisions + (row == ROW_RESP); /* one to learn what a reply is */
    if (result.errors > 0) {
        fprintf(stderr, "weir bench: %s answered %lld requests with an error\n", names[row],
                (long long)result.errors);
        return false;
    }
    rounds->rate[round] = (double)result.replies * decisions / result.seconds;
    rounds->cpu_us[round] = load_cpu_us(&result) / decisions;
    rounds->p99_us[round] = result.p99_us;
    return true;
}

static double http_median(const double *values)
{
    double sorted[HTTP_ROUNDS];
    memcpy(sorted, values, sizeof sorted);
    qsort(sorted, HTTP_ROUNDS, sizeof *sorted, bench_by_value);
    return sorted[HTTP_ROUNDS / 2];
}

static double median_ratio(const struct http_rounds *rounds, const struct http_rounds *base)
{
    double ratios[HTTP_ROUNDS];
    for (int i = 0; i < HTTP_ROUNDS; i++)
        ratios[i] = base->cpu_us[i] > 0 ? rounds->cpu_us[i] / base->cpu_us[i] : 0;
    return http_median(ratios);
}

bool http_measure(const struct measured_server *weir, const struct measured_server *nginx, int connections,
                  double seconds, struct http_results *results)
{
    static const char *const take[] = {"WEIR.TAKE", "open", "KEY"};
    struct http_rounds rounds[HTTP_ROWS] = {0};
    struct load_plan plan = {.words = take,
                             .count = 3,
                             .connections = connections,
                             .pipeline = 1,
                             .keys = KEYS,
                             .seconds = seconds};
    for (int round = 0; round < HTTP_ROUNDS; round++)
        for (int row = 0; row < HTTP_ROWS; row++) {
            plan.server = row == ROW_NGINX ? nginx : weir;
            if (plan.server && !measure_row(plan, (enum http_row)row, round, &rounds[row], results))
                return false;
        }
    for (int row = 0; row < HTTP_ROWS; row++)
        results->cells[row] = (struct http_cell){.measured = row != ROW_NGINX || nginx,
                                                 .rate = http_median(rounds[row].rate),
                                                 .cpu_us = http_median(rounds[row].cpu_us),
                                                 .p99_us = http_median(rounds[row].p99_us),
                                                 .ratios = {median_ratio(&rounds[row], &rounds[ROW_RESP]),
                                                            median_ratio(&rounds[row], &rounds[ROW_NGINX])}};
    return true;
}

/* ---- printing ---- */

void http_print(const struct http_results *results)
{
    printf("\nHTTP, pipeline 1         decisions   CPU each  of WEIR.TAKE  of nginx        p99\n");
    for (int row = 0; row < HTTP_ROWS; row++) {
        const struct http_cell *cell = &results->cells[row];
        if (cell->measured)
            printf("  %-16s %9.1f k/s %8.3f us %10.2fx %9.2fx %9.0f us\n", names[row], cell->rate * 1e-3,
                   cell->cpu_us, cell->ratios[ROW_RESP], cell->ratios[ROW_NGINX], cell->p99_us);
    }
    if (!results->cells[ROW_NGINX].measured)
        puts("  nginx is not installed: there is nothing to compare with.");
    puts("\ngoals: CPU of a decision by HTTP");
    for (size_t i = 0; i < GOALS; i++) {
        double ratio = results->cells[goals[i].row].ratios[goals[i].against];
        if (ratio > 0)
            printf("  %-14s %5.2fx of %-18s at most %.2fx  %s\n", names[goals[i].row], ratio,
                   names[goals[i].against], goals[i].at_most,
                   ratio <= goals[i].at_most ? "reached" : "missed");
    }
}

void http_json(struct json *json, const struct http_results *results)
{
    json_open(json, "http", '[', JSON_LINES);
    for (int row = 0; row < HTTP_ROWS; row++) {
        const struct http_cell *cell = &results->cells[row];
        if (!cell->measured)
            continue;
        json_open(json, NULL, '{', JSON_FLAT);
        json_text(json, "who", names[row]);
        json_decimal(json, "decisions_per_second", cell->rate);
        json_decimal(json, "cpu_us", cell->cpu_us);
        json_decimal(json, "p99_us", cell->p99_us);
        json_decimal(json, "of_resp", cell->ratios[ROW_RESP]);
        json_decimal(json, "of_nginx", cell->ratios[ROW_NGINX]);
        json_close(json, '}');
    }
    json_close(json, ']');
    json_open(json, "http_goals", '[', JSON_LINES);
    for (size_t i = 0; i < GOALS; i++) {
        double ratio = results->cells[goals[i].row].ratios[goals[i].against];
        json_open(json, NULL, '{', JSON_FLAT);
        json_text(json, "who", names[goals[i].row]);
        json_text(json, "against", names[goals[i].against]);
        json_decimal(json, "ratio", ratio);
        json_decimal(json, "at_most", goals[i].at_most);
        json_bool(json, "reached", ratio > 0 && ratio <= goals[i].at_most);
        json_close(json, '}');
    }
    json_close(json, ']');
}
