/* SPDX-License-Identifier: MIT */
/*
 * A server in this process, on a unix socket, with a clock that stands still, and clients of it. Nothing is
 * slept through: a client waits for bytes, or for the end of them.
 */
#ifndef WEIR_TESTS_SOCKET_KIT_H
#define WEIR_TESTS_SOCKET_KIT_H

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "check.h"
#include "server/connection.h"
#include "server/server.h"

#define PATIENCE_MS 20000 /* of the client, with a machine that has other work */

/* ---- a server ------------------------------------------------------------------------------------- */

static struct {
    struct config *config;
    struct server *server;
    pthread_t thread;
    char path[64], folder[32];
} here;

/* What a server of tests is made with. */
struct here_options {
    const char *yaml;
    int64_t max_clients, stuck_ms; /* 0: as usual */
    int threads;                   /* 0: 2 */
};

static inline void complain(void *arg, const struct config_complaint *complaint)
{
    (void)arg;
    char text[COMPLAINT_TEXT_MAX];
    printf("# %s\n", weir_complaint_text(complaint, true, text));
}

static inline void *serve(void *arg)
{
    (void)arg;
    return (void *)(intptr_t)weir_server_run(here.server);
}

static inline bool server_begin_with(const struct here_options *wanted)
{
    const char *text = wanted->yaml;
    struct weir_error err = {0};
    (void)snprintf(here.folder, sizeof here.folder, "/tmp/weir-prop-XXXXXX");
    if (!CHECK(mkdtemp(here.folder) != NULL))
        return false;
    (void)snprintf(here.path, sizeof here.path, "%s/s", here.folder);
    here.config = weir_config_parse("weir.yaml", text, strlen(text), complain, NULL);
    if (!CHECK(here.config != NULL))
        return false;
    here.config->listen[LISTEN_RESP] = strdup("none");
    here.config->listen[LISTEN_HTTP] = strdup("none");
    here.config->listen[LISTEN_UNIX] = strdup(here.path);
    here.config->threads = wanted->threads > 0 ? wanted->threads : 2;
    here.config->max_clients = wanted->max_clients;
    struct server_options options = {
        .config = here.config, .service = {.test_clock = true}, .stuck_ms = wanted->stuck_ms};
    here.server = weir_server_new(&options, &err);
    if (!here.server)
        printf("# %s\n", err.text);
    return CHECK(here.server != NULL) && CHECK(pthread_create(&here.thread, NULL, serve, NULL) == 0);
}

static inline bool server_begin(const char *yaml, int64_t max_clients, int64_t stuck_ms)
{
    return server_begin_with(
        &(struct here_options){.yaml = yaml, .max_clients = max_clients, .stuck_ms = stuck_ms});
}

static inline void server_join(void)
{
    void *status = NULL;
    CHECK(pthread_join(here.thread, &status) == 0);
    CHECK_EQ((intptr_t)status, 0);
    weir_server_free(here.server);
    weir_config_free(here.config);
    rmdir(here.folder);
    weir_clock_set(-1);
}

static inline void server_end(void)
{
    kill(getpid(), SIGTERM);
    server_join();
}

static inline int64_t sum_of(size_t field)
{
    struct service *service = weir_server_service(here.server);
    int64_t sum = 0;
    for (uint32_t i = 0; i <= service->options.workers; i++)
        sum += *(_Atomic int64_t *)(void *)((char *)&service->workers[i] + field);
    return sum;
}

/* ---- a client ------------------------------------------------------------------------------------- */

struct client {
    int fd;
    struct buffer got;
    size_t sip; /* bytes that it reads at once, at most; 0: as many as come */
    bool ended;
};

static inline struct client client_new(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct client client = {.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    memcpy(address.sun_path, here.path, sizeof here.path);
    CHECK(connect(client.fd, (struct sockaddr *)&address, sizeof address) == 0);
    return client;
}

static inline void client_free(struct client *client)
{
    close(client->fd);
    weir_buffer_free(&client->got);
}

/* Reads what is there, or waits for it. */
static inline void client_read(struct client *client, int timeout_ms)
{
    struct pollfd poll_for = {.fd = client->fd, .events = POLLIN};
    char bytes[65536];
    if (client->ended || poll(&poll_for, 1, timeout_ms) <= 0)
        return;
    ssize_t got = recv(client->fd, bytes, client->sip > 0 ? client->sip : sizeof bytes, 0);
    if (got > 0)
        buffer_put(&client->got, bytes, (size_t)got);
    else
        client->ended = true;
}

/* Sends while it reads: both sides may have much to say. */
static inline void client_send(struct client *client, const char *bytes, size_t len)
{
    while (len > 0 && !client->ended) {
        ssize_t sent = send(client->fd, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent > 0) {
            bytes += sent;
            len -= (size_t)sent;
        } else if (errno != EAGAIN) {
            return; /* it was closed, and what it was told can still be read */
        } else {
            client_read(client, 1);
        }
    }
}

static inline bool client_wait(struct client *client, size_t len)
{
    while (buffer_len(&client->got) < len && !client->ended) {
        size_t before = buffer_len(&client->got);
        client_read(client, PATIENCE_MS);
        if (buffer_len(&client->got) == before && !client->ended)
            return CHECK(false); /* nothing comes */
    }
    return buffer_len(&client->got) >= len;
}

static inline void client_say(struct client *client, const char *text)
{
    client_send(client, text, strlen(text));
}

/* The answer that comes next is this, to the byte. */
static inline void client_hears(struct client *client, const char *text)
{
    char heard[512] = "";
    size_t len = strlen(text);
    if (client_wait(client, len))
        (void)snprintf(heard, sizeof heard, "%.*s", (int)len, buffer_bytes(&client->got));
    else
        (void)snprintf(heard, sizeof heard, "%.*s", (int)buffer_len(&client->got),
                       buffer_bytes(&client->got));
    CHECK_STR(heard, text);
    weir_buffer_drop(&client->got, len < buffer_len(&client->got) ? len : buffer_len(&client->got), 0);
}

/* Some of an answer, which ends with this field. */
static inline void client_hears_last(struct client *client, const char *name, int64_t value)
{
    char end[64];
    const char *found = NULL;
    (void)snprintf(end, sizeof end, "%s\r\n:%lld\r\n", name, (long long)value);
    while (!found) {
        size_t len = buffer_len(&client->got);
        found = len > 0 ? memmem(buffer_bytes(&client->got), len, end, strlen(end)) : NULL;
        if (found)
            break;
        client_read(client, PATIENCE_MS);
        if (!CHECK(buffer_len(&client->got) > len))
            return;
    }
    weir_buffer_drop(&client->got, (size_t)(found - buffer_bytes(&client->got)) + strlen(end), 0);
}

static inline void client_hears_the_end(struct client *client)
{
    while (!client->ended && buffer_len(&client->got) == 0) {
        client_read(client, PATIENCE_MS);
        if (!CHECK(client->ended || buffer_len(&client->got) > 0))
            return;
    }
    CHECK_EQ(buffer_len(&client->got), 0);
}

#endif
