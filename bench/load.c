/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE

#include "bench/load.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/sat.h"
#include "bench/bench.h"
#include "bench/http_stream.h"
#include "resp/reply.h"
#include "weir.h"

#define KEY_DIGITS (sizeof LOAD_KEY - 1)
#define DUE_MAX    4096 /* pipelines of a connection that wait for their answer; a power of 2 */
#define STEPS      32   /* of the histogram for each doubling */
#define DOUBLINGS  40
#define DRAIN_NS   (5 * WEIR_SEC) /* for what is still on its way at the end */

struct load_histogram {
    int64_t counts[DOUBLINGS * STEPS];
    int64_t all, largest_ns;
};

struct load_connection {
    int fd;
    struct tls_session *tls; /* or NULL */
    size_t out_at, out_end;  /* of `bytes`: what is left to send */
    int64_t due[DUE_MAX];    /* of each pipeline that is on its way, oldest first */
    uint32_t first, pending; /* in `due` */
    int replies;             /* of the oldest one, so far */
    int lines;               /* of the reply that is coming in */
    bool within;             /* a line whose end has not come in */
    struct http_stream http; /* the same of responses */
    bool writing;
};

struct load_driver {
    const struct load_plan *plan;
    struct load_result *result;
    struct load_histogram histogram;
    struct load_connection *conns;
    char *bytes; /* of one pipeline: every wire sends a copy of it, with other keys */
    size_t len;
    size_t *keys_at; /* of each key in them */
    size_t key_count;
    size_t request_len;
    int reply_lines;       /* of one reply */
    uint64_t random, next; /* keys are drawn, or come in turn */
    int64_t asked;
    int epoll;
};

/* ---- latencies ---- */

static size_t latency_bucket_of(int64_t ns)
{
    uint64_t value = (uint64_t)(ns < STEPS ? STEPS : ns);
    int doubling = 63 - __builtin_clzll(value);
    size_t step = (size_t)((value >> (doubling - 5)) & (STEPS - 1));
    size_t bucket = (size_t)(doubling - 5) * STEPS + step;
    return bucket < DOUBLINGS * STEPS ? bucket : DOUBLINGS * STEPS - 1;
}

static double bucket_us(size_t bucket)
{
    return (double)((STEPS + bucket % STEPS) << (bucket / STEPS)) * 1e-3;
}

static void note_latency(struct load_histogram *histogram, int64_t ns, int64_t times)
{
    histogram->counts[latency_bucket_of(ns)] += times;
    histogram->all += times;
    histogram->largest_ns = max64(histogram->largest_ns, ns);
}

static double percentile_us(const struct load_histogram *histogram, double part)
{
    int64_t wanted = (int64_t)((double)histogram->all * part), seen = 0;
    for (size_t i = 0; i < DOUBLINGS * STEPS; i++) {
        seen += histogram->counts[i];
        if (seen > wanted)
            return bucket_us(i);
    }
    return (double)histogram->largest_ns * 1e-3;
}

/* ---- requests ---- */

static uint64_t draw_load_random(struct load_driver *load)
{
    if (load->plan->in_turn)
        return load->next++;
    load->random ^= load->random << 13;
    load->random ^= load->random >> 7;
    load->random ^= load->random << 17;
    return load->random;
}

static void write_key(char *at, int64_t key)
{
    for (size_t i = KEY_DIGITS; i > 0; i--, key /= 10)
        at[i - 1] = (char)('0' + key % 10);
}

static bool find_keys(struct load_driver *load)
{
    const char *at = load->bytes, *end = at + load->len;
    load->keys_at = calloc(load->len / KEY_DIGITS + 1, sizeof *load->keys_at);
    while (load->keys_at && (at = memmem(at, (size_t)(end - at), LOAD_KEY, KEY_DIGITS))) {
        load->keys_at[load->key_count++] = (size_t)(at - load->bytes);
        at += KEY_DIGITS;
    }
    return load->keys_at != NULL;
}

/* A pipeline of requests whose keys are all zeros. */
static bool make_requests(struct load_driver *load)
{
    struct buffer out = {0};
    struct slice words[16];
    const struct load_plan *plan = load->plan;
    for (size_t i = 0; i < plan->count; i++) {
        const char *word = strcmp(plan->words[i], "KEY") == 0 ? LOAD_KEY : plan->words[i];
        words[i] = (struct slice){word, strlen(word)};
    }
    for (int i = 0; i < plan->pipeline; i++) {
        if (plan->http)
            buffer_put(&out, plan->http, strlen(plan->http));
        else
            weir_resp_ask(&out, words, plan->count);
    }
    load->bytes = out.bytes;
    load->len = out.end;
    load->request_len = out.end / (size_t)plan->pipeline;
    return !out.failed && find_keys(load);
}

static void draw_keys(struct load_driver *load)
{
    for (size_t i = 0; i < load->key_count; i++)
        write_key(load->bytes + load->keys_at[i],
                  (int64_t)(draw_load_random(load) % (uint64_t)load->plan->keys));
}

/* ---- wires ---- */

static bool watch_connection(struct load_driver *load, struct load_connection *conn, int how)
{
    struct epoll_event event = {.events = EPOLLIN | (conn->writing ? EPOLLOUT : 0), .data.ptr = conn};
    return epoll_ctl(load->epoll, how, conn->fd, &event) == 0;
}

/* What does not fit into the socket waits for its turn; that the keys in it are drawn anew meanwhile does no
 * harm. */
static bool push_pipeline(struct load_driver *load, struct load_connection *conn)
{
    while (conn->out_at < conn->out_end) {
        const char *bytes = load->bytes + conn->out_at;
        size_t len = conn->out_end - conn->out_at;
        ssize_t sent = conn->tls ? weir_tls_send(conn->tls, bytes, len) : write(conn->fd, bytes, len);
        if (sent < 0 && errno != EAGAIN && errno != EINTR)
            return false;
        if (sent < 0)
            break;
        conn->out_at += (size_t)sent;
    }
    bool writing = conn->out_at < conn->out_end;
    if (writing == conn->writing)
        return true;
    conn->writing = writing;
    return watch_connection(load, conn, EPOLL_CTL_MOD);
}

static bool send_pipeline(struct load_driver *load, struct load_connection *conn, int64_t due_ns)
{
    if (conn->writing || conn->pending == DUE_MAX)
        return true; /* the server is so far behind that the load must wait for it, too */
    draw_keys(load);
    load->asked += load->plan->pipeline;
    conn->due[(conn->first + conn->pending++) % DUE_MAX] = due_ns;
    conn->out_at = 0;
    conn->out_end = load->len;
    return push_pipeline(load, conn);
}

static void count_load_reply(struct load_driver *load, struct load_connection *conn, int64_t now_ns)
{
    load->result->replies++;
    if (++conn->replies < load->plan->pipeline || conn->pending == 0)
        return;
    note_latency(&load->histogram, now_ns - conn->due[conn->first], load->plan->pipeline);
    conn->first = (conn->first + 1) % DUE_MAX;
    conn->pending--;
    conn->replies = 0;
}

/* Every reply has the same number of lines: what is asked is always the same. */
static void count_lines(struct load_driver *load, struct load_connection *conn, const char *bytes, size_t len)
{
    int64_t now_ns = weir_now();
    const char *end = bytes + len, *line = bytes;
    while (line < end) {
        if (conn->lines == 0 && !conn->within && *line == '-') {
            load->result->errors++;
            conn->lines = load->reply_lines - 1; /* an error is one line */
        }
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        conn->within = !newline;
        if (!newline)
            break;
        line = newline + 1;
        if (++conn->lines == load->reply_lines) {
            conn->lines = 0;
            count_load_reply(load, conn, now_ns);
        }
    }
}

static void count_responses(struct load_driver *load, struct load_connection *conn, const char *bytes,
                            size_t len)
{
    int64_t now_ns = weir_now();
    const char *end = bytes + len;
    while (bytes < end) {
        int status = http_stream_read(&conn->http, &bytes, end);
        if (status == 0)
            return;
        load->result->errors += status != 200 && status != 429;
        count_load_reply(load, conn, now_ns);
    }
}

static bool pull_replies(struct load_driver *load, struct load_connection *conn)
{
    static char bytes[256 * 1024];
    ssize_t got =
        conn->tls ? weir_tls_recv(conn->tls, bytes, sizeof bytes) : read(conn->fd, bytes, sizeof bytes);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return true;
    if (got <= 0)
        return false;
    if (load->plan->http)
        count_responses(load, conn, bytes, (size_t)got);
    else
        count_lines(load, conn, bytes, (size_t)got);
    return !conn->tls || !weir_tls_pending(conn->tls) || pull_replies(load, conn);
}

/* ---- running ---- */

/* How many lines a reply has: asked once, before. */
static bool learn_reply(struct load_driver *load)
{
    char bytes[4096];
    struct resp_value *value = NULL;
    size_t have = 0, used = 0;
    int fd = measured_connect(load->plan->server, load->plan->tls ? WAY_TCP : load->plan->by);
    draw_keys(load);
    load->next = 0;
    bool sent = fd >= 0 && write(fd, load->bytes, load->request_len) == (ssize_t)load->request_len;
    while (sent && !value && have < sizeof bytes) {
        ssize_t got = read(fd, bytes + have, sizeof bytes - have);
        if (got <= 0)
            break;
        have += (size_t)got;
        (void)weir_resp_parse(bytes, have, &value, &used);
    }
    if (fd >= 0)
        close(fd);
    for (size_t i = 0; i < used; i++)
        load->reply_lines += bytes[i] == '\n';
    if (value && value->type == RESP_ERROR)
        fprintf(stderr, "weir bench: %s says: %.*s\n", load->plan->server->name, (int)value->text.len,
                value->text.bytes);
    bool good = value && value->type != RESP_ERROR;
    weir_resp_value_free(value);
    return good;
}

/* The handshake is no part of what is measured. */
static bool shake_hands(struct load_driver *load, struct load_connection *conn)
{
    char byte;
    int64_t end = weir_now() + DRAIN_NS;
    conn->tls = weir_tls_connect(load->plan->tls, conn->fd, "localhost");
    while (conn->tls && weir_tls_is_handshaking(conn->tls) && weir_now() < end) {
        struct pollfd ready = {.fd = conn->fd, .events = POLLIN};
        if (weir_tls_recv(conn->tls, &byte, 1) == 0 || (errno != EAGAIN && errno != EINTR))
            return false;
        if (weir_tls_is_handshaking(conn->tls))
            (void)poll(&ready, 1, 100);
    }
    return conn->tls && !weir_tls_is_handshaking(conn->tls);
}

static bool open_connections(struct load_driver *load)
{
    load->epoll = epoll_create1(EPOLL_CLOEXEC);
    load->conns = calloc((size_t)load->plan->connections, sizeof *load->conns);
    if (load->epoll < 0 || !load->conns)
        return false;
    for (int i = 0; i < load->plan->connections; i++)
        load->conns[i].fd = -1;
    for (int i = 0; i < load->plan->connections; i++) {
        struct load_connection *conn = &load->conns[i];
        conn->fd = measured_connect(load->plan->server, load->plan->by);
        if (conn->fd < 0 || fcntl(conn->fd, F_SETFL, O_NONBLOCK) != 0 ||
            (load->plan->tls && !shake_hands(load, conn)) || !watch_connection(load, conn, EPOLL_CTL_ADD))
            return false;
    }
    return true;
}

static void close_connections(struct load_driver *load)
{
    for (int i = 0; load->conns && i < load->plan->connections; i++) {
        weir_tls_session_free(load->conns[i].tls);
        if (load->conns[i].fd >= 0)
            close(load->conns[i].fd);
    }
    if (load->epoll >= 0)
        close(load->epoll);
    free(load->conns);
    free(load->bytes);
    free(load->keys_at);
}

static bool handle_events(struct load_driver *load, int timeout_ms)
{
    struct epoll_event events[64];
    int count = epoll_wait(load->epoll, events, 64, timeout_ms);
    for (int i = 0; i < count; i++) {
        struct load_connection *conn = events[i].data.ptr;
        if ((events[i].events & EPOLLOUT) && !push_pipeline(load, conn))
            return false;
        if ((events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) && !pull_replies(load, conn))
            return false;
    }
    return true;
}

static bool is_enough(const struct load_driver *load)
{
    return load->plan->requests > 0 && load->asked >= load->plan->requests;
}

static bool send_closed(struct load_driver *load, int64_t now_ns)
{
    for (int i = 0; i < load->plan->connections && !is_enough(load); i++)
        if (load->conns[i].pending == 0 && !send_pipeline(load, &load->conns[i], now_ns))
            return false;
    return true;
}

static bool is_drained(const struct load_driver *load)
{
    for (int i = 0; i < load->plan->connections; i++)
        if (load->conns[i].pending > 0)
            return false;
    return true;
}

/* Sends until the time is over, then waits for what is on its way. */
static bool drive_load(struct load_driver *load)
{
    const struct load_plan *plan = load->plan;
    int64_t start = weir_now(), end = start + (int64_t)(plan->seconds * 1e9), now;
    double gap_ns = plan->rate > 0 ? 1e9 * plan->pipeline / plan->rate : 0, due = (double)start;
    uint64_t next = 0;
    while ((now = weir_now()) < end && !is_enough(load)) {
        if (gap_ns == 0 && !send_closed(load, now))
            return false;
        for (; gap_ns > 0 && due <= (double)now; due += gap_ns)
            if (!send_pipeline(load, &load->conns[next++ % (uint64_t)plan->connections], (int64_t)due))
                return false;
        if (!handle_events(load, gap_ns > 0 ? 0 : 1))
            return false;
    }
    load->result->seconds = (double)(weir_now() - start) * 1e-9;
    while (!is_drained(load) && weir_now() < end + DRAIN_NS)
        if (!handle_events(load, 1))
            return false;
    return is_drained(load);
}

bool load_run(const struct load_plan *plan, struct load_result *result)
{
    struct load_driver *load = calloc(1, sizeof *load);
    if (!load)
        return false;
    *result = (struct load_result){0};
    load->plan = plan;
    load->result = result;
    load->random = 88172645463325252U;
    load->epoll = -1;
    bench_pin(LOAD_CPU);
    bool good = make_requests(load) && (plan->http || learn_reply(load)) && open_connections(load);
    double cpu = measured_cpu(plan->server), written = measured_written(plan->server);
    good = good && drive_load(load);
    result->server_cpu_s = measured_cpu(plan->server) - cpu;
    result->written = measured_written(plan->server) - written;
    if (!good)
        fprintf(stderr, "weir bench: the connection to %s broke\n", plan->server->name);
    result->p50_us = percentile_us(&load->histogram, 0.5);
    result->p99_us = percentile_us(&load->histogram, 0.99);
    result->p999_us = percentile_us(&load->histogram, 0.999);
    result->p9999_us = percentile_us(&load->histogram, 0.9999);
    result->max_us = (double)load->histogram.largest_ns * 1e-3;
    close_connections(load);
    free(load);
    return good;
}
