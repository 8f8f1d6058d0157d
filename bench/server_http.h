/* SPDX-License-Identifier: MIT */
/*
 * Rows of weir bench server: decisions by HTTP beside the same by the Redis protocol, and beside an nginx
 * that decides nothing; then both with TLS, beside a redis-server with TLS. Ratios are medians of those of
 * each round, so that a busy moment hits both sides.
 */
#ifndef WEIR_BENCH_SERVER_HTTP_H
#define WEIR_BENCH_SERVER_HTTP_H

#include "bench/load.h"
#include "cli/json.h"

#define HTTP_ROUNDS 7
#define HTTP_BATCH  100 /* decisions of one request */

/* The first three are what the others are compared with. */
enum http_row {
    ROW_RESP,
    ROW_NGINX,
    ROW_REDIS_TLS,
    ROW_GET,
    ROW_POST,
    ROW_REFUSED,
    ROW_BATCH,
    ROW_RESP_TLS,
    ROW_HTTPS,
    HTTP_ROWS
};
#define HTTP_BASES 3

struct http_cell { /* medians over the rounds, of one decision */
    bool measured;
    double rate, cpu_us, p99_us;
    double ratios[HTTP_BASES]; /* of its CPU to theirs; 0: was not measured */
};

struct http_results {
    struct http_cell cells[HTTP_ROWS];
    int64_t asked; /* decisions of weir */
};

/* Those that run, or NULL; those with TLS serve by WAY_TLS, too. weir has the policies `open` and `shut`. */
struct http_servers {
    const struct measured_server *weir, *nginx, *redis;
};

/* Measures each row for `seconds` in each round. false: it has said why. */
bool http_measure(const struct http_servers *servers, int connections, double seconds,
                  struct http_results *results);
void http_print(const struct http_results *results);
void http_json(struct json *json, const struct http_results *results);

#endif
