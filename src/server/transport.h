/* SPDX-License-Identifier: MIT */
/*
 * What is below a connection: a socket, or TLS on it. A plain one costs nothing but a look at a pointer.
 */
#ifndef WEIR_SERVER_TRANSPORT_H
#define WEIR_SERVER_TRANSPORT_H

#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/loop.h"
#include "tls/tls.h"

/* The certificate that new connections get; it may be replaced at any time. */
struct transport_tls {
    pthread_mutex_t mutex;
    struct tls_context *context; /* NULL: none was configured */
};

struct config;
/* Reads the certificate that `tls:` names; *context is NULL if there is no `tls:`. */
bool weir_transport_certificate(const struct config *config, struct tls_context **context,
                                struct weir_error *err);

void weir_transport_tls_begin(struct transport_tls *tls);
/* Takes over the context; those who have connected keep theirs. */
void weir_transport_tls_set(struct transport_tls *tls, struct tls_context *context);
void weir_transport_tls_end(struct transport_tls *tls);

struct transport {
    int fd;
    struct tls_session *tls; /* NULL: plain */
};

/* Makes it one with TLS. false: out of memory, or there is no certificate. */
bool weir_transport_secure(struct transport *transport, struct transport_tls *tls, bool http);
/* Nothing more will be sent. */
bool weir_transport_finish(struct transport *transport);
void weir_transport_close(struct transport *transport);

/* As recv and send on a socket that does not block. */
static inline ssize_t transport_recv(struct transport *transport, char *bytes, size_t size)
{
    if (__builtin_expect(transport->tls != NULL, 0))
        return weir_tls_recv(transport->tls, bytes, size);
    return recv(transport->fd, bytes, size, 0);
}

static inline ssize_t transport_send(struct transport *transport, const char *bytes, size_t len)
{
    if (__builtin_expect(transport->tls != NULL, 0))
        return weir_tls_send(transport->tls, bytes, len);
    return send(transport->fd, bytes, len, MSG_NOSIGNAL);
}

/* There may be more to read although the socket will not say so. */
static inline bool transport_pending(const struct transport *transport)
{
    return transport->tls && weir_tls_pending(transport->tls);
}

static inline bool transport_is_handshaking(const struct transport *transport)
{
    return transport->tls && weir_tls_is_handshaking(transport->tls);
}

/* What to watch the socket for, so that it can be read or written as `events` says. */
static inline unsigned transport_wants(const struct transport *transport, unsigned events)
{
    if (!transport->tls)
        return events;
    unsigned wants = events & WATCH_GONE;
    if (events & WATCH_READ)
        wants |= weir_tls_recv_wants_write(transport->tls) ? WATCH_WRITE : WATCH_READ;
    if (events & WATCH_WRITE)
        wants |= weir_tls_send_wants_read(transport->tls) ? WATCH_READ : WATCH_WRITE;
    return wants;
}

/* What can be done, after the socket has told of `events`. */
static inline unsigned transport_ready(const struct transport *transport, unsigned events)
{
    if (!transport->tls)
        return events;
    if (events & WATCH_READ && weir_tls_send_wants_read(transport->tls))
        events |= WATCH_WRITE;
    if (events & WATCH_WRITE && weir_tls_recv_wants_write(transport->tls))
        events |= WATCH_READ;
    return events;
}

#endif
