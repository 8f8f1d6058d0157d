/* SPDX-License-Identifier: MIT */
#ifndef WEIR_SERVER_LISTEN_H
#define WEIR_SERVER_LISTEN_H

#include <stdbool.h>
#include <stddef.h>

#include "weir.h"

#define LISTEN_MAX 16

struct listener {
    int fd;
    bool is_unix, inherited, loopback;
    char text[128]; /* "127.0.0.1:9049", "unix:/run/weir.sock" */
    char path[108]; /* unix: to be removed at the end, if it is ours */
};

/* "host:port", "[::1]:port", ":port" (all addresses), port 0: any. Every address of the name is listened on;
 * gives how many, 0 on an error that says what to do ("... is in use; is another weir running? ..."). */
size_t weir_listen_tcp(const char *address, struct listener *listeners, size_t room, struct weir_error *err);
/* A file that nobody listens on any more is replaced. */
bool weir_listen_unix(const char *path, struct listener *listener, struct weir_error *err);
/* One that is listening already. */
bool weir_listen_inherited(int fd, struct listener *listener, struct weir_error *err);
void weir_listen_end(struct listener *listener);

/* A connection, or -1: none now. Non-blocking, close-on-exec, without Nagle's delay, kept alive. `address`
 * and `local` have 64 bytes. *busy: there are no more descriptors to be had. */
int weir_listen_accept(const struct listener *listener, char *address, char *local, bool *busy);

#endif
