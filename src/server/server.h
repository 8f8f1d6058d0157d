/* SPDX-License-Identifier: MIT */
/*
 * The server: listeners, event loops and connections around a service. It knows no limits.
 *
 * The first loop accepts and hands each connection to the loop that has the fewest; a connection stays
 * where it is. The job thread does what may take long, and ticks.
 */
#ifndef WEIR_SERVER_SERVER_H
#define WEIR_SERVER_SERVER_H

#include "server/listen.h"
#include "service/service.h"

#define SERVER_THREADS_MAX 64

struct server;

struct server_options {
    const struct config *config;        /* with what the command line said already in it */
    struct service_options service;     /* `workers` is set by the server */
    struct inherited_socket *inherited; /* listening already (systemd): instead of what `config` says */
    int inherited_count;
    /* How long things may take, in milliseconds, for tests; 0: as connection.h has it. */
    int64_t stuck_ms, login_timeout_ms, drain_ms;
    void (*ready)(void *arg, struct server *server); /* all listen; before the first connection */
    void *arg;
};

/* Everything is made and listens, nothing runs yet. NULL: an error, which says what to do. */
struct server *weir_server_new(const struct server_options *options, struct weir_error *err);
/* Serves until SIGTERM or SIGINT; then no more are accepted, those who are being answered get their answer,
 * and it returns the exit status. SIGHUP reloads. */
int weir_server_run(struct server *server);
void weir_server_free(struct server *server); /* NULL is fine */

struct service *weir_server_service(struct server *server);
/* Where it listens: "resp 127.0.0.1:9049", one line each. */
const char *weir_server_listens(const struct server *server);
int weir_server_threads(const struct server *server);

#endif
