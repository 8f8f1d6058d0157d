/* SPDX-License-Identifier: MIT */
#ifndef WEIR_BENCH_SERVER_H
#define WEIR_BENCH_SERVER_H

#include "bench/server_http.h"

#define SERVER_ROUNDS 3

/* Who answers what. */
enum server_subject { REDIS_INCR, REDIS_LUA, WEIR_TAKE, WEIR_REFUSED, SUBJECTS };
extern const char *const subject_names[SUBJECTS];

enum { PIPELINES = 3, WAYS = 2 }; /* by TCP, by unix socket */
extern const int server_pipelines[PIPELINES];
extern const double server_goals[PIPELINES]; /* CPU of a weir take against that of an INCR, by TCP */

struct server_cell { /* medians over the rounds */
    bool measured;
    double rate, cpu_us, p50_us, p99_us;
};

struct server_latency { /* at a rate that both can bear */
    bool measured;
    struct load_result result;
};

struct server_results {
    bool redis; /* there was one */
    int connections;
    int64_t keys;
    double open_rate;
    struct server_cell cells[WAYS][PIPELINES][SUBJECTS];
    struct server_latency open[SUBJECTS];
    struct http_results http;
    struct server_cell many_keys;            /* WEIR_TAKE with a pipeline of 16 */
    int64_t asked, allowed, refused, errors; /* of weir: what was sent, and what it counted */
    double others;
};

void server_print(const struct server_results *results);
void server_print_json(const struct server_results *results);

#endif
