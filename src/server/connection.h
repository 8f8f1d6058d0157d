/* SPDX-License-Identifier: MIT */
/*
 * A connection: bytes in, requests, answers, bytes out. What it may use is bounded: input, output, words,
 * time. A pipeline that was read in one go is run in pieces of BATCH requests and answered with one write;
 * after SLICE requests the others get their turn.
 */
#ifndef WEIR_SERVER_CONNECTION_H
#define WEIR_SERVER_CONNECTION_H

#include "server/loop.h"
#include "service/service.h"

#define BATCH         32
#define SLICE         1024
#define READ_SIZE     (64 * 1024)  /* read at once, into the loop's own memory */
#define OUTPUT_PAUSE  (256 * 1024) /* not written yet: no more is read or run until the client reads */
#define OUTPUT_MOST   (8 << 20)    /* of one answer and what waits before it: then it is closed */
#define ARGS_MAX      1024
#define BULK_MAX      (64 * 1024)
#define REQUEST_MAX   (1 << 20)
#define STRANGER_ARGS 10
#define STRANGER_BULK 16384
#define STRANGER_MS   10000 /* to log in */
#define STUCK_MS                                                                                             \
    30000 /* a client that reads nothing of what waits for it, or sends half a request and no more */

/* A thread of the server. */
struct lane {
    struct server *server;
    struct loop *loop;
    struct worker *worker;
    pthread_t thread;
    struct connection *connections; /* a list of all of them */
    struct connection *again;       /* those that have requests left from their last slice */
    struct timer *again_timer, *watch_timer;
    char *read_bytes;   /* READ_SIZE, of whoever reads just now */
    struct slice *args; /* BATCH * ARGS_MAX words is too many: BATCH + ARGS_MAX; see connection.c */
    struct buffer out;  /* answers of whoever is being run, before they are written */
};

struct connection;

/* Takes over the file. NULL: out of memory, and it was closed. */
struct connection *weir_connection_new(struct lane *lane, int fd, const char *address, const char *local);
/* Closes it as soon as that is possible. */
void weir_connection_close(struct connection *connection, const char *why);

#endif
