/* SPDX-License-Identifier: MIT */
/*
 * Load for a server: one thread, any number of connections, each with a pipeline of requests.
 *
 * Closed: a connection sends its next pipeline when the last one is answered. Open: requests are due at a
 * rate, whatever the server does, and a latency counts from the moment a request was due, so that a server
 * that stalls cannot hide it.
 */
#ifndef WEIR_BENCH_LOAD_H
#define WEIR_BENCH_LOAD_H

#include <stdint.h>

#include "bench/servers.h"
#include "tls/tls.h"

#define LOAD_CONNECTIONS_MAX 1024
#define LOAD_PIPELINE_MAX    1000
#define LOAD_KEY             "000000000000"

struct load_plan {
    const struct measured_server *server;
    enum measured_way by;
    struct tls_context *tls;  /* the load's side, if it goes by WAY_TLS or WAY_HTTPS */
    const char *const *words; /* of a request; the word "KEY" stands for one of the keys */
    size_t count;
    const char *http; /* or a whole request by HTTP, in which each LOAD_KEY stands for one of the keys */
    int connections, pipeline;
    int64_t keys;     /* how many there are; drawn evenly */
    bool in_turn;     /* or one after the other */
    double rate;      /* requests a second; 0: closed */
    double seconds;   /* at most */
    int64_t requests; /* at least so many, and then no more; 0: as many as there is time for */
};

struct load_result {
    int64_t replies, errors; /* error replies are replies, too */
    double seconds, server_cpu_s;
    double written; /* bytes, by the server, to disks */
    double p50_us, p99_us, p999_us, p9999_us, max_us;
};

/* false: it has said why. Can be called by one thread at a time. */
bool load_run(const struct load_plan *plan, struct load_result *result);

static inline double load_cpu_us(const struct load_result *result)
{
    return result->replies > 0 ? result->server_cpu_s * 1e6 / (double)result->replies : 0;
}

#endif
