/* SPDX-License-Identifier: MIT */
/*
 * While a server reads its data directory: a thread tells each client that connects LOADING, and closes the
 * connection. Sockets that were handed over (systemd) are left alone: their clients wait in the kernel's
 * queue, as they do through a restart.
 */
#ifndef WEIR_SERVER_LOADING_H
#define WEIR_SERVER_LOADING_H

#include <pthread.h>

#include "server/accept.h"

struct loading {
    const struct acceptor *acceptor;
    pthread_t thread;
    int stop[2]; /* a pipe: its end ends the thread */
    bool runs;
};

/* Begins to listen and to answer. Without a thread or a pipe clients are refused instead, as before. */
void weir_loading_begin(struct loading *loading, struct acceptor *acceptor);
/* Ends the thread; the listeners stay. Also if it never began. */
void weir_loading_end(struct loading *loading);

#endif
