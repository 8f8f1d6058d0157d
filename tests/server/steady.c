/* SPDX-License-Identifier: MIT */
/*
 * A client that keeps asking at the same rate, whatever happens to the server, and tells how long it waited
 * for its answers. Latencies count from the moment a request was due, so that a server that stalls cannot
 * hide it.
 *
 *     steady ADDRESS POLICY KEYS RATE PIPELINE CONNECTIONS
 *
 * ADDRESS is a port of 127.0.0.1, or a socket's path; with http: in front it speaks HTTP, else the Redis
 * protocol.
 *
 * It does what standard input says, a line each, and answers each with a line of JSON:
 *
 *     fill COUNT      takes a unit of keys 0 to COUNT - 1, as fast as it can
 *     run SECONDS     takes a unit of a key drawn by lot at the rate
 */
#define _GNU_SOURCE

#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <unistd.h>

#include "rng.h"
#include "weir.h"

#define WIRES_MAX    256
#define PIPELINE_MAX 1000
#define REQUEST_MOST 160
#define ON_THE_WAY   65536 /* pipelines of a connection that wait for their answer; a power of 2 */
#define FILL_AHEAD   4     /* of them while filling */
#define REPLY_LINES  21    /* of a verdict in version 2 of the protocol */
#define ALLOWED_LINE 3     /* which of them says whether it was allowed, from 0 */
#define STATUS_AT    9     /* in the first line of a response */
#define BODY         (-1)  /* the line of a response after the empty one: it is in words */
#define SHORT        16
#define PATIENCE_NS  (30 * WEIR_SEC)

struct wire {
    int fd;
    int64_t *due; /* of the pipelines on their way */
    uint32_t first, pending;
    int64_t replies;  /* of the first of them */
    int line;         /* of the reply that comes in */
    bool within;      /* its line has begun */
    char kept[SHORT]; /* a short line comes whole: one of them says whether it was allowed */
    size_t kept_len;
};

struct steady {
    struct wire wires[WIRES_MAX];
    const char *policy;
    int64_t keys, pipeline, wire_count;
    bool http;
    double rate;
    int epoll, timer;
    struct rng rng;
    char out[PIPELINE_MAX * REQUEST_MOST];
    int64_t *latencies;
    size_t count, room;
    int64_t answered, allowed, errors;
};

static _Noreturn void fail(const char *what)
{
    fprintf(stderr, "steady: %s: %s\n", what, errno ? strerror(errno) : "no");
    exit(2);
}

/* ---- connections ---- */

static int connect_to(const char *address)
{
    struct sockaddr_in tcp = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    bool by_path = strchr(address, '/') != NULL;
    int one = 1, fd = socket(by_path ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    snprintf(local.sun_path, sizeof local.sun_path, "%s", address);
    tcp.sin_port = htons((uint16_t)strtoul(address, NULL, 10));
    const struct sockaddr *to = by_path ? (const void *)&local : (const void *)&tcp;
    if (fd < 0 || connect(fd, to, by_path ? sizeof local : sizeof tcp) != 0)
        fail(address);
    if (!by_path)
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

static void watch(const struct steady *steady, int fd, void *what)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = what};
    if (epoll_ctl(steady->epoll, EPOLL_CTL_ADD, fd, &event) != 0)
        fail("epoll");
}

static void open_wires(struct steady *steady, const char *address)
{
    steady->epoll = epoll_create1(EPOLL_CLOEXEC);
    steady->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    watch(steady, steady->timer, NULL);
    for (int64_t i = 0; i < steady->wire_count; i++) {
        struct wire *wire = &steady->wires[i];
        wire->fd = connect_to(address);
        wire->due = calloc(ON_THE_WAY, sizeof *wire->due);
        if (!wire->due)
            fail("memory");
        watch(steady, wire->fd, wire);
    }
}

/* ---- in ---- */

static void note(struct steady *steady, int64_t latency_ns)
{
    if (steady->count == steady->room) {
        steady->room = steady->room ? steady->room * 2 : 1 << 16;
        steady->latencies = realloc(steady->latencies, steady->room * sizeof *steady->latencies);
        if (!steady->latencies)
            fail("memory");
    }
    steady->latencies[steady->count++] = latency_ns;
}

static void end_reply(struct steady *steady, struct wire *wire, int64_t now_ns)
{
    steady->answered++;
    wire->line = 0;
    if (wire->pending == 0)
        fail("more replies than requests");
    note(steady, now_ns - wire->due[wire->first]);
    if (++wire->replies < steady->pipeline)
        return;
    wire->replies = 0;
    wire->first = (wire->first + 1) % ON_THE_WAY;
    wire->pending--;
}

/* `line` is the beginning of one, or what follows of it. Gives where the next one begins; NULL: not here. */
static const char *read_line(struct steady *steady, struct wire *wire, const char *line, const char *end,
                             int64_t now_ns)
{
    if (!wire->within && wire->line == 0 && *line == '-') {
        steady->errors++;
        wire->line = REPLY_LINES - 1; /* an error has one line */
    }
    const char *newline = memchr(line, '\n', (size_t)(end - line));
    if (wire->line == ALLOWED_LINE && newline && newline - line >= 2 && newline[-2] == '1')
        steady->allowed++;
    wire->within = !newline;
    if (!newline)
        return NULL;
    if (++wire->line == REPLY_LINES)
        end_reply(steady, wire, now_ns);
    return newline + 1;
}

/* The same of a response. */
static const char *read_http_line(struct steady *steady, struct wire *wire, const char *line, const char *end,
                                  int64_t now_ns)
{
    const char *newline = memchr(line, '\n', (size_t)(end - line));
    bool begins = !wire->within;
    if (begins && wire->line == 0) { /* a status line that is not whole was kept: see SHORT */
        steady->allowed += memcmp(line + STATUS_AT, "200", 3) == 0;
        steady->errors += memcmp(line + STATUS_AT, "200", 3) != 0 && memcmp(line + STATUS_AT, "429", 3) != 0;
    }
    wire->within = !newline;
    if (!newline)
        return NULL;
    if (wire->line == BODY)
        end_reply(steady, wire, now_ns);
    else
        wire->line = begins && newline - line == 1 ? BODY : wire->line + 1;
    return newline + 1;
}

/* Gives true if the line goes on in what is still to come, and is short so far. */
static bool keep(struct wire *wire, const char *line, size_t len)
{
    if (wire->within || len >= SHORT || memchr(line, '\n', len))
        return false;
    memcpy(wire->kept, line, len);
    wire->kept_len = len;
    return true;
}

static void receive(struct steady *steady, struct wire *wire)
{
    static char bytes[1 << 18];
    size_t have = wire->kept_len;
    memcpy(bytes, wire->kept, have);
    ssize_t got = recv(wire->fd, bytes + have, sizeof bytes - have, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0)
        fail("the server closed the connection");
    const char *line = bytes, *end = bytes + have + got;
    int64_t now_ns = weir_now();
    wire->kept_len = 0;
    while (line && line < end && !keep(wire, line, (size_t)(end - line)))
        line = steady->http ? read_http_line(steady, wire, line, end, now_ns)
                            : read_line(steady, wire, line, end, now_ns);
}

static void handle_events(struct steady *steady, int timeout_ms)
{
    struct epoll_event events[64];
    int count = epoll_wait(steady->epoll, events, 64, timeout_ms);
    for (int i = 0; i < count; i++) {
        uint64_t times;
        if (events[i].data.ptr)
            receive(steady, events[i].data.ptr);
        else
            (void)!read(steady->timer, &times, sizeof times);
    }
}

/* ---- out ---- */

static size_t write_request(const struct steady *steady, char *at, int64_t key)
{
    if (steady->http)
        return (size_t)snprintf(at, REQUEST_MOST,
                                "GET /v1/take/%s/%012" PRId64
                                " HTTP/1.1\r\nHost: localhost\r\nAccept: text/plain\r\n\r\n",
                                steady->policy, key);
    return (size_t)snprintf(at, REQUEST_MOST,
                            "*3\r\n$9\r\nWEIR.TAKE\r\n$%zu\r\n%s\r\n$12\r\n%012" PRId64 "\r\n",
                            strlen(steady->policy), steady->policy, key);
}

/* While the socket takes no more, answers are read. */
static void send_pipeline(struct steady *steady, struct wire *wire, size_t len, int64_t due_ns)
{
    size_t done = 0;
    while (wire->pending == ON_THE_WAY)
        handle_events(steady, 1);
    wire->due[(wire->first + wire->pending++) % ON_THE_WAY] = due_ns;
    while (done < len) {
        ssize_t sent = send(wire->fd, steady->out + done, len - done, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno != EAGAIN && errno != EINTR)
            fail("send");
        if (sent < 0)
            handle_events(steady, 1);
        else
            done += (size_t)sent;
    }
}

static void ask_by_lot(struct steady *steady, struct wire *wire, int64_t due_ns)
{
    size_t len = 0;
    for (int64_t i = 0; i < steady->pipeline; i++)
        len += write_request(steady, steady->out + len, rng_between(&steady->rng, 0, steady->keys - 1));
    send_pipeline(steady, wire, len, due_ns);
}

static void drain(struct steady *steady)
{
    int64_t until_ns = weir_now() + PATIENCE_NS;
    for (int64_t i = 0; i < steady->wire_count; i++)
        while (steady->wires[i].pending > 0) {
            if (weir_now() > until_ns) {
                errno = 0;
                fail("not all was answered");
            }
            handle_events(steady, 100);
        }
}

static void wait_until(struct steady *steady, int64_t due_ns)
{
    int64_t now_ns = weir_now();
    if (due_ns <= now_ns) {
        handle_events(steady, 0);
        return;
    }
    struct itimerspec when = {.it_value = {(due_ns - now_ns) / WEIR_SEC, (due_ns - now_ns) % WEIR_SEC}};
    (void)timerfd_settime(steady->timer, 0, &when, NULL);
    handle_events(steady, -1);
}

/* ---- what it is told ---- */

static int in_order(const void *one, const void *other)
{
    int64_t a = *(const int64_t *)one, b = *(const int64_t *)other;
    return (a > b) - (a < b);
}

static double percentile_us(const struct steady *steady, double part)
{
    size_t at = (size_t)((double)steady->count * part);
    if (steady->count == 0)
        return 0;
    return (double)steady->latencies[at < steady->count ? at : steady->count - 1] * 1e-3;
}

static void report(struct steady *steady, double seconds)
{
    if (steady->count > 0)
        qsort(steady->latencies, steady->count, sizeof *steady->latencies, in_order);
    printf("{\"answered\": %" PRId64 ", \"allowed\": %" PRId64 ", \"errors\": %" PRId64
           ", \"seconds\": %.3f, ",
           steady->answered, steady->allowed, steady->errors, seconds);
    printf("\"p50_us\": %.1f, \"p99_us\": %.1f, \"p999_us\": %.1f, \"p9999_us\": %.1f, \"max_us\": %.1f}\n",
           percentile_us(steady, 0.5), percentile_us(steady, 0.99), percentile_us(steady, 0.999),
           percentile_us(steady, 0.9999), percentile_us(steady, 1));
    fflush(stdout);
    steady->count = 0;
    steady->answered = steady->allowed = steady->errors = 0;
}

static void fill(struct steady *steady, int64_t count)
{
    int64_t start_ns = weir_now(), key = 0;
    count -= count % steady->pipeline; /* whole pipelines */
    while (key < count) {
        for (int64_t i = 0; i < steady->wire_count && key < count; i++) {
            size_t len = 0;
            if (steady->wires[i].pending >= FILL_AHEAD)
                continue;
            for (int64_t k = 0; k < steady->pipeline; k++)
                len += write_request(steady, steady->out + len, key++);
            send_pipeline(steady, &steady->wires[i], len, start_ns);
        }
        handle_events(steady, 1);
        steady->count = 0;
    }
    drain(steady);
    steady->count = 0;
    report(steady, (double)(weir_now() - start_ns) * 1e-9);
}

static void run(struct steady *steady, double seconds)
{
    double gap_ns = 1e9 * (double)steady->pipeline / steady->rate;
    int64_t start_ns = weir_now(), end_ns = start_ns + (int64_t)(seconds * 1e9);
    double due = (double)start_ns;
    for (int64_t next = 0; due < (double)end_ns;) {
        int64_t now_ns = weir_now();
        for (; due <= (double)now_ns && due < (double)end_ns; due += gap_ns)
            ask_by_lot(steady, &steady->wires[next++ % steady->wire_count], (int64_t)due);
        wait_until(steady, (int64_t)due + 1);
    }
    drain(steady);
    report(steady, (double)(weir_now() - start_ns) * 1e-9);
}

static int64_t number(const char *text, int64_t most)
{
    char *end;
    long long value = strtoll(text, &end, 10);
    if (*end || value < 1 || value > most) {
        fprintf(stderr, "steady: a number from 1 to %" PRId64 ", not '%s'\n", most, text);
        exit(2);
    }
    return value;
}

int main(int argc, char **argv)
{
    static struct steady steady;
    char line[128];
    if (argc != 7) {
        fputs("usage: steady ADDRESS POLICY KEYS RATE PIPELINE CONNECTIONS\n", stderr);
        return 2;
    }
    steady.policy = argv[2];
    steady.keys = number(argv[3], 1000000000);
    steady.rate = (double)number(argv[4], 100000000);
    steady.pipeline = number(argv[5], PIPELINE_MAX);
    steady.wire_count = number(argv[6], WIRES_MAX);
    steady.rng.state = 1;
    (void)prctl(PR_SET_TIMERSLACK, 1UL);
    steady.http = strncmp(argv[1], "http:", 5) == 0;
    open_wires(&steady, argv[1] + (steady.http ? 5 : 0));
    while (fgets(line, sizeof line, stdin)) {
        double value = 0;
        if (sscanf(line, "fill %lf", &value) == 1)
            fill(&steady, (int64_t)value);
        else if (sscanf(line, "run %lf", &value) == 1)
            run(&steady, value);
        else
            fail(line);
    }
    return 0;
}
