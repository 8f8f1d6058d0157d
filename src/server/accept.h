/* SPDX-License-Identifier: MIT */
/*
 * The acceptor: listens, and hands each new connection to the I/O thread that has the fewest.
 */
#ifndef WEIR_SERVER_ACCEPT_H
#define WEIR_SERVER_ACCEPT_H

#include "server/io_thread.h"
#include "server/listen.h"

struct acceptor {
    struct listen_socket listeners[LISTEN_MAX];
    struct watch *watches[LISTEN_MAX];
    struct timer *rest_timer;
    size_t count;
    struct io_thread *io_threads;
    int io_thread_count;
    struct service *service;
    bool tls;  /* there is a certificate */
    int spare; /* a descriptor to be given up when there are no others, so that clients can be told */
};

/* Takes the addresses that the configuration says, or takes over sockets that are there. */
bool weir_acceptor_open(struct acceptor *acceptor, const struct config *config,
                        const struct inherited_socket *inherited, int count, struct weir_error *err);
/* Is every listener for this machine alone? Else *other is one that is not. */
bool weir_acceptor_is_local(const struct acceptor *acceptor, const char **other);
/* Lets them in: by the first I/O thread, to `io_threads`. */
bool weir_acceptor_watch(struct acceptor *acceptor, struct loop *loop, struct weir_error *err);
void weir_acceptor_close(struct acceptor *acceptor); /* nobody comes in any more */

/* Tells a client why it is not let in: `resp` by RESP, 503 by HTTP, nothing by TLS. The socket stays open. */
void weir_acceptor_turn_away(const struct listen_socket *listener, int fd, const char *resp);

#endif
