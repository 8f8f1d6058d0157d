/* SPDX-License-Identifier: MIT */
/*
 * A connection: its life, its bounds of time and memory, and what it does next.
 *
 *   input.h      bytes in, requests in batches, run
 *   output.h     answers out, in their order
 *   disk_wait.h  answers that wait for the store
 *   waiting.h    a pending request: its timer, or the thread that works on it
 *
 * After each step of these weir_connection_settle sends what may be sent and decides what comes next.
 */
#ifndef WEIR_SERVER_CONNECTION_H
#define WEIR_SERVER_CONNECTION_H

#include "server/io_thread.h"
#include "server/listen.h"
#include "server/transport.h"
#include "service/pending.h"

#define LOGIN_TIMEOUT_MS 10000
#define STUCK_MS         30000
#define LINGER_MS        1000
#define BUFFERED_MAX     (INT64_C(256) << 20) /* bytes that all connections hold: then those with much go */
#define BUFFERED_FAIR    (32 * 1024)          /* that is, more than this */

enum connection_state {
    OPEN,     /* asks and is answered; perhaps a request of it is pending */
    LEAVING,  /* what waits is written, then it is closed */
    LINGERING /* all was written; what it still sends is thrown away, so that it can read the rest */
};

struct connection {
    struct io_thread *io_thread;
    struct connection *next, *before; /* in the I/O thread's list */
    struct connection *next_again;
    struct watch *watch;
    struct timer *timer;           /* of a pending request, or of its rest */
    struct loop_callback callback; /* its arrival in the I/O thread; the work on its pending request */
    struct buffer in;              /* what was read and not run yet */
    struct buffer out;             /* what was answered and not written yet */
    /* What was answered since the last weir_connection_settle, in the I/O thread's buffer: how many, and must
     * they wait for the disk? */
    uint32_t answered;
    bool changed;
    struct piece *pieces, *last_piece; /* of disk_wait.c: the end of `out` that must not be written yet, */
    uint32_t piece_count, held_answers;
    size_t held_back; /* so many bytes */
    struct transport transport;
    enum connection_state state;
    enum protocol protocol; /* of its listener, as what follows */
    bool admin;             /* administrative routes are served */
    size_t need;            /* HTTP: so many bytes of the next request must be there; 0: any */
    bool handshaking;       /* of TLS: it is nobody yet */
    bool awaits_proxy;      /* the header of the PROXY protocol comes first */
    bool more;              /* `in` has not been looked at since the last request was run */
    bool in_again;          /* is in the list io_thread->again */
    bool gone;              /* to be freed when that list, or the thread that works for it, is done with it */
    bool posted;            /* its pending request is on its way to another thread, or back */
    bool resting;           /* it is not read for a moment: see weir_waiting_rest */
    bool spoke;             /* since the I/O thread began to drain */
    bool ended;             /* it will say nothing more */
    bool unauthenticated;   /* is counted as one */
    size_t buffered;        /* bytes of its buffers, as last counted in io_thread->buffered */
    int64_t began_ms, asked_ms, wrote_ms, linger_until_ms;
    struct session session;
    _Atomic bool killed; /* by another thread; apart from what this one uses all the time */
    _Atomic bool displaced;
};

/* Takes over the file and sends it to its I/O thread, if there is room; by any thread. */
enum admission weir_connection_offer(struct io_thread *io_thread, const struct listen_socket *listener,
                                     int fd, const char *address, const char *local);

/* ---- by the I/O thread itself ---- */

/* Perhaps its handshake is over: then it may have logged in by a certificate. false: it is closed. */
bool weir_connection_handshake(struct connection *connection);
/* Has it not logged in, and must? */
bool weir_connection_is_unauthenticated(const struct connection *connection);
/* The header of the PROXY protocol is there: `address` is the client's, NULL: the peer is the client. */
void weir_connection_come_from(struct connection *connection, const char *address);
/* Follows what running its requests has led to. */
void weir_connection_follow(struct connection *connection, const struct run_result *result);
/* Sends what was answered and decides what comes next. The connection may be gone afterwards. */
void weir_connection_settle(struct connection *connection);
void weir_connection_go_on(struct connection *connection); /* what it has left from its last slice */
/* Its rest is over. */
void weir_connection_rested(struct connection *connection);
/* Answers that waited for the disk may be sent. */
void weir_connection_release(struct connection *connection);
void weir_connection_drain(struct connection *connection);
/* Everything was written that ever will be: closes it when the client has read it. */
void weir_connection_linger(struct connection *connection);
/* Closes it if its login has ended, after what it was answered. */
void weir_connection_log_out(struct connection *connection);
/* The same, or if it has used up its patience. */
void weir_connection_watch(struct connection *connection, int64_t now_ms);
/* Closes it as soon as that is possible. `why` is for the log; NULL: nothing worth a line. */
void weir_connection_close(struct connection *connection, const char *why);
/* When no thread runs any more: frees it, its pending request, too. */
void weir_connection_free(struct connection *connection);

static inline int64_t connection_now_ms(const struct connection *connection)
{
    return weir_loop_now_ms(connection->io_thread->loop);
}

/* Does another thread work on its pending request? Then its session must stay. */
static inline bool connection_works(const struct connection *connection)
{
    return connection->session.pending && !pending_waits(connection->session.pending);
}

/* Counters that one thread writes and others read. */
static inline void add_to_counter(_Atomic int64_t *counter, int64_t by)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + by,
                          memory_order_relaxed);
}

#endif
