/* SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L
#include "resp_client/blocking.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/secret.h"
#include "os/clock_kernel.h"

#define ANSWER_MAX (64 << 20) /* bytes */

struct resp_blocking_client {
    struct resp_connection_owner owner; /* first: the connection knows nothing else of it */
    struct resp_connection connection;
    bool answered; /* the question that was asked last */
    struct resp_value *value;
    struct buffer bytes; /* of it */
};

static void forget_answer(struct resp_blocking_client *client)
{
    weir_resp_value_free(client->value);
    client->value = NULL;
    weir_buffer_free(&client->bytes);
    client->answered = false;
}

static void note_no_memory(struct resp_blocking_client *client)
{
    client->connection.failure =
        (struct resp_failure){.state = CONNECTION_OPEN, .code = ENOMEM, .reason = "out of memory"};
}

/* ---- what the connection tells ---- */

static void blocking_answered(void *owner, struct client_request *request, const struct resp_value *value,
                              bool asked, const char *why)
{
    struct resp_blocking_client *client = owner;
    (void)asked, (void)why; /* the connection keeps its failure */
    client->answered = true;
    client->value = value ? weir_resp_value_copy(value, &client->bytes) : NULL;
    if (value && !client->value)
        note_no_memory(client);
    free(request);
}

/* ---- asking ---- */

struct resp_blocking_client *weir_resp_blocking_new(const struct server_url *url, int64_t connect_ns,
                                                    struct weir_error *err)
{
    struct resp_blocking_client *client = calloc(1, sizeof *client);
    struct wakeup *wakeup = client ? weir_wakeup_new() : NULL;
    if (!wakeup) {
        free(client);
        (void)weir_error_complain_as(err, ENOMEM, "out of memory or files");
        return NULL;
    }
    client->owner = (struct resp_connection_owner){.connect_ns = connect_ns,
                                                   .pause_most_ns = connect_ns,
                                                   .in_most = ANSWER_MAX,
                                                   .needs_resp3 = true,
                                                   .wakeup = wakeup,
                                                   .answered = blocking_answered};
    (void)snprintf(client->owner.user, sizeof client->owner.user, "%s", url->user);
    (void)snprintf(client->owner.password, sizeof client->owner.password, "%s", url->password);
    weir_resp_connection_init(&client->connection, &client->owner, &url->hosts[0]);
    if (weir_resp_connection_secure(&client->owner, &url->tls, err))
        return client;
    weir_resp_blocking_free(client);
    return NULL;
}

void weir_resp_blocking_free(struct resp_blocking_client *client)
{
    if (!client)
        return;
    weir_resp_connection_free(&client->connection);
    forget_answer(client);
    weir_wakeup_unref(client->owner.wakeup);
    weir_tls_context_free(client->owner.tls);
    weir_secret_wipe(&client->owner, sizeof client->owner);
    free(client);
}

/* What is due, then waits for the socket. */
static void run_round(struct resp_blocking_client *client)
{
    int64_t until_ns = weir_resp_connection_step(&client->connection, weir_clock_kernel());
    if (!client->answered && client->connection.state != CONNECTION_IDLE)
        weir_resp_connections_poll(&client->connection, 1, client->owner.wakeup, until_ns);
}

bool weir_resp_blocking_connect(struct resp_blocking_client *client)
{
    weir_resp_connection_begin(&client->connection, weir_clock_kernel());
    while (client->connection.state != CONNECTION_IDLE && client->connection.state != CONNECTION_OPEN)
        run_round(client);
    return client->connection.state == CONNECTION_OPEN;
}

const struct resp_value *weir_resp_blocking_ask(struct resp_blocking_client *client,
                                                const struct slice *words, size_t count, int64_t deadline_ns)
{
    struct buffer bytes = {0};
    forget_answer(client);
    if (client->connection.state != CONNECTION_OPEN) /* it stays lost: what was asked on it may count */
        return NULL;
    weir_resp_ask(&bytes, words, count);
    struct client_request *request =
        bytes.failed ? NULL
                     : weir_client_request_new(&client->connection.host, buffer_bytes(&bytes),
                                               buffer_len(&bytes), deadline_ns);
    weir_buffer_free(&bytes);
    if (!request) {
        note_no_memory(client);
        return NULL;
    }
    weir_resp_connection_request(&client->connection, request, weir_clock_kernel());
    while (!client->answered)
        run_round(client);
    return client->value;
}

const struct resp_failure *weir_resp_blocking_failure(const struct resp_blocking_client *client)
{
    return &client->connection.failure;
}
