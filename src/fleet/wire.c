/* SPDX-License-Identifier: MIT */
/*
 * The wire's thread. Others only put questions into its inbox and ring; lines are the thread's own.
 */
#define _GNU_SOURCE
#include "fleet/wire.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/sat.h"
#include "base/secret.h"
#include "fleet/wire_line.h"
#include "os/clock.h"
#include "os/thread.h"

#define CONNECT_NS    (2 * WEIR_SEC)
#define PAUSE_MOST_NS WEIR_SEC
#define ROUND_NS      WEIR_SEC /* the longest sleep: poll's clock stands still while the machine is suspended */

struct wire {
    struct line_owner owner; /* first: lines know nothing else of it */
    struct wire_options told;
    pthread_t thread;
    pthread_mutex_t lock; /* of what follows */
    struct questions inbox;
    size_t on_the_way;
    bool stop, stopped;
    /* The thread's: */
    struct line lines[WIRE_LINES_MAX];
    size_t line_count;
};

int64_t weir_wire_now(void)
{
    return weir_clock_kernel();
}

/* ---- what lines tell -------------------------------------------------------------------------- */

static void answered(void *owner, struct question *question, const struct resp_value *value, bool asked,
                     const char *why)
{
    struct wire *wire = owner;
    (void)pthread_mutex_lock(&wire->lock);
    wire->on_the_way--;
    (void)pthread_mutex_unlock(&wire->lock);
    question->answer(question->arg, value, asked, why);
    free(question);
}

static void opened(void *owner, const struct fleet_host *host)
{
    struct wire *wire = owner;
    if (wire->told.opened)
        wire->told.opened(wire->told.arg, host);
}

static void closed(void *owner, const struct fleet_host *host, const char *why)
{
    struct wire *wire = owner;
    if (wire->told.closed)
        wire->told.closed(wire->told.arg, host, why);
}

static void pushed(void *owner, const struct fleet_host *host, const struct resp_value *value)
{
    struct wire *wire = owner;
    if (wire->told.pushed)
        wire->told.pushed(wire->told.arg, host, value);
}

/* ---- the thread ------------------------------------------------------------------------------- */

/* The line of a host; a new one, if need be in place of the one that was idle for the longest time. */
static struct line *line_of(struct wire *wire, const struct fleet_host *host)
{
    struct line *oldest = NULL;
    for (size_t i = 0; i < wire->line_count; i++) {
        struct line *line = &wire->lines[i];
        if (host_same(&line->host, host))
            return line;
        if (weir_line_is_idle(line) && (!oldest || line->used_ns < oldest->used_ns))
            oldest = line;
    }
    if (wire->line_count < WIRE_LINES_MAX) {
        oldest = &wire->lines[wire->line_count++];
    } else if (oldest) {
        bool was_open = oldest->state == LINE_OPEN;
        weir_line_free(oldest);
        if (was_open)
            closed(wire, &oldest->host, "it gives way to another server");
    }
    if (oldest)
        weir_line_init(oldest, &wire->owner, host);
    return oldest;
}

static void empty_inbox(struct wire *wire, int64_t now)
{
    (void)pthread_mutex_lock(&wire->lock);
    struct questions all = wire->inbox;
    if (!all.first)
        all.end = &all.first;
    questions_init(&wire->inbox);
    (void)pthread_mutex_unlock(&wire->lock);
    for (struct question *question; (question = questions_take(&all));) {
        struct line *line = line_of(wire, &question->host);
        if (line)
            weir_line_ask(line, question, now);
        else
            answered(wire, question, NULL, false, "too many servers are being asked at once");
    }
}

static void sleep_until(struct wire *wire, int64_t until)
{
    struct pollfd files[WIRE_LINES_MAX + 1];
    files[0] = (struct pollfd){.fd = weir_bell_fd(wire->owner.bell), .events = POLLIN};
    size_t count = wire->line_count;
    for (size_t i = 0; i < count; i++) {
        short events = weir_line_events(&wire->lines[i]);
        files[i + 1] = (struct pollfd){.fd = events ? wire->lines[i].fd : -1, .events = events};
    }
    int64_t now = weir_wire_now();
    int64_t wait = until <= now ? 0 : min64(until - now, ROUND_NS);
    if (poll(files, (nfds_t)count + 1, (int)((wait + WEIR_MS - 1) / WEIR_MS)) <= 0)
        return;
    now = weir_wire_now();
    if (files[0].revents)
        weir_bell_hush(wire->owner.bell);
    for (size_t i = 0; i < count; i++)
        if (files[i + 1].revents & (files[i + 1].events | POLLERR | POLLHUP | POLLNVAL) & ~POLLOUT ||
            (files[i + 1].revents && wire->lines[i].state == LINE_CONNECTING))
            weir_line_ready(&wire->lines[i], now);
}

static bool must_stop(struct wire *wire)
{
    (void)pthread_mutex_lock(&wire->lock);
    bool stop = wire->stop;
    (void)pthread_mutex_unlock(&wire->lock);
    return stop;
}

/* What answers ask meanwhile is answered, too. */
static void answer_all(struct wire *wire)
{
    (void)pthread_mutex_lock(&wire->lock);
    wire->stopped = true;
    (void)pthread_mutex_unlock(&wire->lock);
    for (size_t i = 0; i < wire->line_count; i++)
        weir_line_free(&wire->lines[i]);
    for (struct question *question; (question = questions_take(&wire->inbox));)
        answered(wire, question, NULL, false, "the connection is being closed");
}

static void *run(void *arg)
{
    struct wire *wire = arg;
    while (!must_stop(wire)) {
        int64_t now = weir_wire_now(), until = INT64_MAX;
        empty_inbox(wire, now);
        for (size_t i = 0; i < wire->line_count; i++)
            until = min64(until, weir_line_step(&wire->lines[i], now));
        if (wire->told.tick)
            until = min64(until, wire->told.tick(wire->told.arg, now));
        sleep_until(wire, until);
    }
    answer_all(wire);
    return NULL;
}

/* ---- for everybody ---------------------------------------------------------------------------- */

static void copy_options(struct wire *wire, const struct wire_options *options)
{
    struct line_owner *owner = &wire->owner;
    wire->told = *options;
    wire->told.user = wire->told.password = NULL;
    (void)snprintf(owner->user, sizeof owner->user, "%s", options->user ? options->user : "");
    (void)snprintf(owner->password, sizeof owner->password, "%s", options->password ? options->password : "");
    owner->database = options->database;
    owner->connect_ns = options->connect_ns > 0 ? options->connect_ns : CONNECT_NS;
    owner->pause_most_ns = options->pause_most_ns > 0 ? options->pause_most_ns : PAUSE_MOST_NS;
    owner->random = (uint64_t)weir_wire_now() ^ (uint64_t)(uintptr_t)wire;
    if (owner->random == 0)
        owner->random = 1; /* the generator stays at 0 */
    owner->answered = answered;
    owner->opened = opened;
    owner->closed = closed;
    owner->pushed = pushed;
}

struct wire *weir_wire_start(const struct wire_options *options, struct weir_error *err)
{
    struct wire *wire = calloc(1, sizeof *wire);
    struct bell *bell = wire ? weir_bell_new() : NULL;
    if (!bell) {
        free(wire);
        (void)weir_error_complain_as(err, EMFILE, "out of memory or files");
        return NULL;
    }
    copy_options(wire, options);
    wire->owner.bell = bell;
    questions_init(&wire->inbox);
    (void)pthread_mutex_init(&wire->lock, NULL);
    if (weir_thread_start(&wire->thread, run, wire))
        return wire;
    (void)pthread_mutex_destroy(&wire->lock);
    weir_bell_drop(bell);
    free(wire);
    (void)weir_error_complain_as(err, EAGAIN, "no thread is to be had");
    return NULL;
}

void weir_wire_stop(struct wire *wire)
{
    (void)pthread_mutex_lock(&wire->lock);
    wire->stop = true;
    (void)pthread_mutex_unlock(&wire->lock);
    weir_bell_ring(wire->owner.bell);
    (void)pthread_join(wire->thread, NULL);
    (void)pthread_mutex_destroy(&wire->lock);
    weir_bell_drop(wire->owner.bell);
    weir_secret_wipe(wire, sizeof *wire);
    free(wire);
}

void weir_wire_hang_up(struct wire *wire, const struct fleet_host *host, const char *why)
{
    for (size_t i = 0; i < wire->line_count; i++)
        if (wire->lines[i].state == LINE_OPEN && host_same(&wire->lines[i].host, host))
            wire->lines[i].ends = why;
}

void weir_wire_wake(struct wire *wire)
{
    weir_bell_ring(wire->owner.bell);
}

static struct question *new_question(const struct fleet_host *host, const char *bytes, size_t len,
                                     size_t answers, int64_t deadline_ns, wire_answer *answer, void *arg)
{
    struct question *question = malloc(sizeof *question + len);
    if (!question)
        return NULL;
    *question = (struct question){.host = *host,
                                  .deadline_ns = deadline_ns,
                                  .answers = answers,
                                  .answer = answer,
                                  .arg = arg,
                                  .len = len};
    memcpy(question->bytes, bytes, len);
    return question;
}

void weir_wire_send(struct wire *wire, const struct fleet_host *host, const char *bytes, size_t len,
                    size_t answers, int64_t deadline_ns, wire_answer *answer, void *arg)
{
    struct question *question =
        len <= WIRE_OUT_MAX ? new_question(host, bytes, len, answers, deadline_ns, answer, arg) : NULL;
    const char *why = question ? NULL : "out of memory";
    if (question) {
        (void)pthread_mutex_lock(&wire->lock);
        if (wire->stopped)
            why = "the connection is being closed";
        else if (wire->on_the_way >= WIRE_QUESTIONS_MAX)
            why = "too much is being asked at once";
        if (!why) {
            wire->on_the_way++;
            questions_add(&wire->inbox, question);
        }
        (void)pthread_mutex_unlock(&wire->lock);
    }
    if (!why) {
        weir_bell_ring(wire->owner.bell);
        return;
    }
    free(question);
    answer(arg, NULL, false, why);
}

void weir_wire_ask(struct wire *wire, const struct fleet_host *host, const struct slice *words, size_t count,
                   int64_t deadline_ns, wire_answer *answer, void *arg)
{
    struct buffer bytes = {.most = WIRE_OUT_MAX};
    weir_resp_ask(&bytes, words, count);
    if (bytes.failed)
        answer(arg, NULL, false, "out of memory, or too long a question");
    else
        weir_wire_send(wire, host, buffer_bytes(&bytes), buffer_len(&bytes), 1, deadline_ns, answer, arg);
    weir_buffer_free(&bytes);
}
