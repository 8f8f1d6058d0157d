/* SPDX-License-Identifier: MIT */
/*
 * Where clients come in: TCP addresses, a unix socket, sockets that somebody else has opened.
 */
#ifndef WEIR_SERVER_LISTEN_H
#define WEIR_SERVER_LISTEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/config.h"

#define LISTEN_MAX         32
#define LISTEN_ADDRESS_MAX 64 /* bytes of a client's address as text */

struct listen_socket {
    int fd;
    enum listener_kind kind;
    bool is_unix, inherited, loopback;
    bool admin;          /* administrative routes are served here */
    bool proxy_protocol; /* a header says whose each connection is */
    int port;            /* TCP */
    char text[128];      /* "127.0.0.1:9049", "unix:/run/weir.sock" */
    char path[108];      /* unix: to be removed at the end, if it is ours */
    uint64_t inode;      /* of that file */
};

struct inherited_socket {
    int fd;
    enum listener_kind kind; /* LISTENER_KINDS: not said */
};

static inline bool listener_is_tls(const struct listen_socket *listener)
{
    return listener->kind == LISTEN_RESP_TLS || listener->kind == LISTEN_HTTPS;
}

static inline bool listener_is_http(const struct listen_socket *listener)
{
    return listener->kind == LISTEN_HTTP || listener->kind == LISTEN_HTTPS || listener->kind == LISTEN_ADMIN;
}

/* "host:port", "[::1]:port", ":port" (all addresses), port 0: any. Every address of the name is taken; gives
 * how many, 0 on an error that says what to do ("... is in use; is another weir running? ..."). Nobody can
 * connect before weir_listen_start. */
size_t weir_listen_tcp(enum listener_kind kind, const char *address, struct listen_socket *listeners,
                       size_t room, struct weir_error *err);
/* A file that nobody listens on any more is replaced; so it listens at once, lest another one does. */
bool weir_listen_unix(const char *path, struct listen_socket *listener, struct weir_error *err);
/* One that is listening already. LISTENER_KINDS: it is not said what for, which is RESP. */
bool weir_listen_inherited(int fd, enum listener_kind kind, struct listen_socket *listener,
                           struct weir_error *err);
/* Lets clients connect; those that listen already are left alone. */
bool weir_listen_start(struct listen_socket *listener, struct weir_error *err);
void weir_listen_end(struct listen_socket *listener);

/* A connection, or -1: none now. Non-blocking, close-on-exec, without Nagle's delay, kept alive. `address`
 * and `local` have LISTEN_ADDRESS_MAX bytes. *busy: there are no more descriptors to be had. */
int weir_listen_accept(const struct listen_socket *listener, char *address, char *local, bool *busy);

#endif
