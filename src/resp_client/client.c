/* SPDX-License-Identifier: MIT */
/*
 * The client's thread. Others only put requests into its inbox and wake it; connections are the thread's own.
 */
#define _GNU_SOURCE
#include "resp_client/client.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/sat.h"
#include "base/secret.h"
#include "os/clock.h"
#include "os/clock_kernel.h"
#include "os/futex.h"
#include "os/thread.h"
#include "resp_client/connection.h"

#define CONNECT_NS    (2 * WEIR_SEC)
#define PAUSE_MOST_NS WEIR_SEC

struct resp_client {
    struct resp_connection_owner owner;         /* first: connections know nothing else of it */
    int64_t (*tick)(void *arg, int64_t now_ns); /* with owner.arg */
    pthread_t thread;
    pthread_mutex_t lock; /* of what follows */
    struct client_request_list inbox;
    size_t on_the_way;
    bool stop, stopped;
    /* The thread's: */
    struct resp_connection connections[RESP_CLIENT_CONNECTIONS_MAX];
    size_t connection_count;
};

int64_t weir_resp_client_now(void)
{
    return weir_clock_kernel();
}

/* ---- what connections tell -------------------------------------------------------------------------- */

static void request_answered(void *owner, struct client_request *request, const struct resp_value *value,
                             bool asked, const char *why)
{
    struct resp_client *client = owner;
    (void)pthread_mutex_lock(&client->lock);
    client->on_the_way--;
    (void)pthread_mutex_unlock(&client->lock);
    request->answer(request->arg, value, asked, why);
    free(request);
}

/* ---- the thread ------------------------------------------------------------------------------- */

/* The connection of a host; a new one, if need be in place of the one that was idle for the longest time. */
static struct resp_connection *connection_of(struct resp_client *client, const struct server_host *host)
{
    struct resp_connection *oldest = NULL;
    for (size_t i = 0; i < client->connection_count; i++) {
        struct resp_connection *connection = &client->connections[i];
        if (host_same(&connection->host, host))
            return connection;
        if (weir_resp_connection_is_idle(connection) && (!oldest || connection->used_ns < oldest->used_ns))
            oldest = connection;
    }
    if (client->connection_count < RESP_CLIENT_CONNECTIONS_MAX) {
        oldest = &client->connections[client->connection_count++];
    } else if (oldest) {
        bool was_open = oldest->state == CONNECTION_OPEN;
        weir_resp_connection_free(oldest);
        if (was_open && client->owner.closed)
            client->owner.closed(client->owner.arg, &oldest->host, "it gives way to another server");
    }
    if (oldest)
        weir_resp_connection_init(oldest, &client->owner, host);
    return oldest;
}

static void start_queued_requests(struct resp_client *client, int64_t now)
{
    (void)pthread_mutex_lock(&client->lock);
    struct client_request_list all = client_requests_take_all(&client->inbox);
    (void)pthread_mutex_unlock(&client->lock);
    for (struct client_request *request; (request = client_requests_take(&all));) {
        struct resp_connection *connection = connection_of(client, &request->host);
        if (connection)
            weir_resp_connection_request(connection, request, now);
        else
            request_answered(client, request, NULL, false, "too many servers are being asked at once");
    }
}

static bool must_stop(struct resp_client *client)
{
    (void)pthread_mutex_lock(&client->lock);
    bool stop = client->stop;
    (void)pthread_mutex_unlock(&client->lock);
    return stop;
}

/* What answers ask meanwhile is answered, too. */
static void fail_all_requests(struct resp_client *client)
{
    (void)pthread_mutex_lock(&client->lock);
    client->stopped = true;
    (void)pthread_mutex_unlock(&client->lock);
    for (size_t i = 0; i < client->connection_count; i++)
        weir_resp_connection_free(&client->connections[i]);
    for (struct client_request *request; (request = client_requests_take(&client->inbox));)
        request_answered(client, request, NULL, false, "the connection is being closed");
}

static void *run_client_thread(void *arg)
{
    struct resp_client *client = arg;
    while (!must_stop(client)) {
        int64_t now = weir_resp_client_now(), until = INT64_MAX;
        start_queued_requests(client, now);
        for (size_t i = 0; i < client->connection_count; i++)
            until = min64(until, weir_resp_connection_step(&client->connections[i], now));
        if (client->tick)
            until = min64(until, client->tick(client->owner.arg, now));
        weir_resp_connections_poll(client->connections, client->connection_count, client->owner.wakeup,
                                   until);
    }
    fail_all_requests(client);
    return NULL;
}

/* ---- for everybody ---------------------------------------------------------------------------- */

static void copy_client_options(struct resp_client *client, const struct resp_client_options *options)
{
    struct resp_connection_owner *owner = &client->owner;
    client->tick = options->tick;
    (void)snprintf(owner->user, sizeof owner->user, "%s", options->user ? options->user : "");
    (void)snprintf(owner->password, sizeof owner->password, "%s", options->password ? options->password : "");
    owner->database = options->database;
    owner->connect_ns = options->connect_ns > 0 ? options->connect_ns : CONNECT_NS;
    owner->pause_most_ns = options->pause_most_ns > 0 ? options->pause_most_ns : PAUSE_MOST_NS;
    owner->in_most = RESP_CLIENT_IN_MAX;
    owner->random = (uint64_t)weir_resp_client_now() ^ (uint64_t)(uintptr_t)client;
    owner->answered = request_answered;
    owner->opened = options->opened;
    owner->closed = options->closed;
    owner->arg = options->arg;
}

struct resp_client *weir_resp_client_start(const struct resp_client_options *options, struct weir_error *err)
{
    struct resp_client *client = calloc(1, sizeof *client);
    struct wakeup *wakeup = client ? weir_wakeup_new() : NULL;
    if (!wakeup) {
        free(client);
        (void)weir_error_complain_as(err, EMFILE, "out of memory or files");
        return NULL;
    }
    copy_client_options(client, options);
    client->owner.wakeup = wakeup;
    if (!weir_resp_connection_secure(&client->owner, options->tls, err)) {
        weir_wakeup_unref(wakeup);
        free(client);
        return NULL;
    }
    client_requests_init(&client->inbox);
    (void)pthread_mutex_init(&client->lock, NULL);
    if (weir_thread_start(&client->thread, run_client_thread, client))
        return client;
    (void)pthread_mutex_destroy(&client->lock);
    weir_wakeup_unref(wakeup);
    weir_tls_context_free(client->owner.tls);
    free(client);
    (void)weir_error_complain_as(err, EAGAIN, "no thread is to be had");
    return NULL;
}

void weir_resp_client_stop(struct resp_client *client)
{
    (void)pthread_mutex_lock(&client->lock);
    client->stop = true;
    (void)pthread_mutex_unlock(&client->lock);
    weir_wakeup_signal(client->owner.wakeup);
    (void)pthread_join(client->thread, NULL);
    (void)pthread_mutex_destroy(&client->lock);
    weir_wakeup_unref(client->owner.wakeup);
    weir_tls_context_free(client->owner.tls);
    weir_secret_wipe(client, sizeof *client);
    free(client);
}

void weir_resp_client_close_host(struct resp_client *client, const struct server_host *host, const char *why)
{
    for (size_t i = 0; i < client->connection_count; i++)
        if (client->connections[i].state == CONNECTION_OPEN && host_same(&client->connections[i].host, host))
            client->connections[i].ends = why;
}

void weir_resp_client_wake(struct resp_client *client)
{
    weir_wakeup_signal(client->owner.wakeup);
}

void weir_resp_client_send(struct resp_client *client, const struct server_host *host, const char *bytes,
                           size_t len, size_t answers, int64_t deadline_ns, resp_client_answer *answer,
                           void *arg)
{
    struct client_request *request =
        len <= RESP_CLIENT_OUT_MAX ? weir_client_request_new(host, bytes, len, deadline_ns) : NULL;
    const char *why = request ? NULL : "out of memory";
    if (request) {
        request->answers = answers;
        request->answer = answer;
        request->arg = arg;
        (void)pthread_mutex_lock(&client->lock);
        if (client->stopped)
            why = "the connection is being closed";
        else if (client->on_the_way >= RESP_CLIENT_REQUESTS_MAX)
            why = "too much is being asked at once";
        if (!why) {
            client->on_the_way++;
            client_requests_add(&client->inbox, request);
        }
        (void)pthread_mutex_unlock(&client->lock);
    }
    if (!why) {
        weir_wakeup_signal(client->owner.wakeup);
        return;
    }
    free(request);
    answer(arg, NULL, false, why);
}

void weir_resp_client_request(struct resp_client *client, const struct server_host *host,
                              const struct slice *words, size_t count, int64_t deadline_ns,
                              resp_client_answer *answer, void *arg)
{
    struct buffer bytes = {.most = RESP_CLIENT_OUT_MAX};
    weir_resp_ask(&bytes, words, count);
    if (bytes.failed)
        answer(arg, NULL, false, "out of memory, or too long a question");
    else
        weir_resp_client_send(client, host, buffer_bytes(&bytes), buffer_len(&bytes), 1, deadline_ns, answer,
                              arg);
    weir_buffer_free(&bytes);
}

/* ---- waiting ---- */

struct client_wait {
    resp_client_answer *answer;
    void *arg;
    _Atomic uint32_t over;
};

static void end_client_wait(void *arg, const struct resp_value *value, bool asked, const char *why)
{
    struct client_wait *wait = arg;
    wait->answer(wait->arg, value, asked, why);
    atomic_store(&wait->over, 1);
    weir_futex_wake(&wait->over, 1); /* it may be gone by now: then nobody sleeps there */
}

void weir_resp_client_wait(struct resp_client *client, const struct server_host *host,
                           const struct slice *words, size_t count, int64_t deadline_ns,
                           resp_client_answer *answer, void *arg)
{
    struct client_wait wait = {.answer = answer, .arg = arg};
    weir_resp_client_request(client, host, words, count, deadline_ns, end_client_wait, &wait);
    while (!atomic_load(&wait.over))
        weir_futex_wait(&wait.over, 0, 0);
}
