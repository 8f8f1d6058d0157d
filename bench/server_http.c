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

static const struct row_kind {
    const char *name;
    enum measured_way by;
} kinds[HTTP_ROWS] = {[ROW_RESP] = {"WEIR.TAKE", WAY_TCP},
                      [ROW_NGINX] = {"nginx return 200", WAY_HTTP},
                      [ROW_REDIS_TLS] = {"redis INCR, TLS", WAY_TLS},
                      [ROW_GET] = {"GET take", WAY_HTTP},
                      [ROW_POST] = {"POST take", WAY_HTTP},
                      [ROW_REFUSED] = {"POST refused", WAY_HTTP},
                      [ROW_BATCH] = {"batch of 100", WAY_HTTP},
                      [ROW_RESP_TLS] = {"WEIR.TAKE, TLS", WAY_TLS},
                      [ROW_HTTPS] = {"POST take, HTTPS", WAY_HTTPS}};

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

static const struct measured_server *server_of(const struct http_servers *servers, enum http_row row)
{
    const struct measured_server *server = row == ROW_NGINX       ? servers->nginx
                                           : row == ROW_REDIS_TLS ? servers->redis
                                                                  : servers->weir;
    return server && server->ports[kinds[row].by] > 0 ? server : NULL;
}

static bool measure_row(struct load_plan plan, enum http_row row, int round, struct http_rounds *rounds,
                        struct http_results *results)
{
    static const char *const take[] = {"WEIR.TAKE", "open", "KEY"}, *const incr[] = {"INCR", "KEY"};
    static char text[TEXT_MAX];
    struct load_result result;
    int decisions = row == ROW_BATCH ? HTTP_BATCH : 1;
    bool is_http = kinds[row].by == WAY_HTTP || kinds[row].by == WAY_HTTPS;
    plan.by = kinds[row].by;
    plan.words = row == ROW_REDIS_TLS ? incr : take;
    plan.count = row == ROW_REDIS_TLS ? 2 : 3;
    if (plan.by != WAY_TLS && plan.by != WAY_HTTPS)
        plan.tls = NULL;
    if (is_http) {
        write_request(row, text);
        plan.http = text;
        plan.count = 0;
    }
    bench_progress(kinds[row].name);
    if (!load_run(&plan, &result))
        return false;
    if (row != ROW_NGINX && row != ROW_REDIS_TLS)
        results->asked += result.replies * decisions + !is_http; /* one to learn what a reply looks like */
    if (result.errors > 0) {
        fprintf(stderr, "weir bench: %s answered %lld requests with an error\n", kinds[row].name,
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

static void keep_rows(const struct http_servers *servers, const struct http_rounds *rounds,
                      struct http_results *results)
{
    for (int row = 0; row < HTTP_ROWS; row++) {
        struct http_cell *cell = &results->cells[row];
        *cell = (struct http_cell){.measured = server_of(servers, (enum http_row)row) != NULL,
                                   .rate = http_median(rounds[row].rate),
                                   .cpu_us = http_median(rounds[row].cpu_us),
                                   .p99_us = http_median(rounds[row].p99_us)};
        for (int base = 0; base < HTTP_BASES; base++)
            cell->ratios[base] = median_ratio(&rounds[row], &rounds[base]);
    }
}

bool http_measure(const struct http_servers *servers, int connections, double seconds,
                  struct http_results *results)
{
    struct http_rounds rounds[HTTP_ROWS] = {0};
    struct weir_error err;
    struct load_plan plan = {.connections = connections, .pipeline = 1, .keys = KEYS, .seconds = seconds};
    plan.tls = weir_tls_client(&(struct tls_files){0}, true, &err);
    bool good = plan.tls != NULL;
    if (!good)
        fprintf(stderr, "weir bench: no TLS: %s\n", err.text);
    for (int round = 0; good && round < HTTP_ROUNDS; round++)
        for (int row = 0; good && row < HTTP_ROWS; row++) {
            plan.server = server_of(servers, (enum http_row)row);
            good = !plan.server || measure_row(plan, (enum http_row)row, round, &rounds[row], results);
        }
    weir_tls_context_free(plan.tls);
    keep_rows(servers, rounds, results);
    return good;
}

/* ---- printing ---- */

void http_print(const struct http_results *results)
{
    printf(
        "\nHTTP and TLS, pipeline 1 decisions   CPU each  of WEIR.TAKE  of nginx  of redis TLS        p99\n");
    for (int row = 0; row < HTTP_ROWS; row++) {
        const struct http_cell *cell = &results->cells[row];
        if (cell->measured)
            printf("  %-16s %9.1f k/s %8.3f us %10.2fx %9.2fx %12.2fx %9.0f us\n", kinds[row].name,
                   cell->rate * 1e-3, cell->cpu_us, cell->ratios[ROW_RESP], cell->ratios[ROW_NGINX],
                   cell->ratios[ROW_REDIS_TLS], cell->p99_us);
    }
    if (!results->cells[ROW_NGINX].measured)
        puts("  nginx is not installed: there is nothing to compare with.");
    puts("\ngoals: CPU of a decision by HTTP");
    for (size_t i = 0; i < GOALS; i++) {
        double ratio = results->cells[goals[i].row].ratios[goals[i].against];
        if (ratio > 0)
            printf("  %-14s %5.2fx of %-18s at most %.2fx  %s\n", kinds[goals[i].row].name, ratio,
                   kinds[goals[i].against].name, goals[i].at_most,
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
        json_text(json, "who", kinds[row].name);
        json_decimal(json, "decisions_per_second", cell->rate);
        json_decimal(json, "cpu_us", cell->cpu_us);
        json_decimal(json, "p99_us", cell->p99_us);
        json_decimal(json, "of_resp", cell->ratios[ROW_RESP]);
        json_decimal(json, "of_nginx", cell->ratios[ROW_NGINX]);
        json_decimal(json, "of_redis_tls", cell->ratios[ROW_REDIS_TLS]);
        json_close(json, '}');
    }
    json_close(json, ']');
    json_open(json, "http_goals", '[', JSON_LINES);
    for (size_t i = 0; i < GOALS; i++) {
        double ratio = results->cells[goals[i].row].ratios[goals[i].against];
        json_open(json, NULL, '{', JSON_FLAT);
        json_text(json, "who", kinds[goals[i].row].name);
        json_text(json, "against", kinds[goals[i].against].name);
        json_decimal(json, "ratio", ratio);
        json_decimal(json, "at_most", goals[i].at_most);
        json_bool(json, "reached", ratio > 0 && ratio <= goals[i].at_most);
        json_close(json, '}');
    }
    json_close(json, ']');
}
