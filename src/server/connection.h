/* SPDX-License-Identifier: MIT */
/*
 * A connection: bytes in, requests, answers, bytes out. What it may use is bounded: input, output, words,
 * time. A pipeline that was read in one go is run in pieces of BATCH requests and answered with one write;
 * after SLICE requests, or a millisecond, the others get their turn. With a store, answers to what has
 * changed something wait until that is safe (parking.h).
 */
#ifndef WEIR_SERVER_CONNECTION_H
#define WEIR_SERVER_CONNECTION_H

#include "server/batch.h"
#include "server/lane.h"

#define SLICE        1024
#define SLICE_NS     WEIR_MS      /* a slice ends then, too: some requests take much longer than others */
#define READ_SIZE    (64 * 1024)  /* read at once, into the lane's own memory */
#define HEADROOM     4096         /* before that: for what was kept of the last time */
#define OUTPUT_PAUSE (256 * 1024) /* not written yet: no more is run until the client reads */
#define OUTPUT_MOST  (8 << 20)    /* of one answer and what waits before it: then it is closed */
#define STRANGER_MS  10000
#define STUCK_MS     30000
#define LINGER_MS    1000
#define HELD_MOST    (INT64_C(256) << 20) /* bytes that all connections hold: then those who hold much go */
#define HELD_FAIR    (32 * 1024)          /* that is, more than this */

enum connection_state {
    READING,  /* asks and is answered */
    WAITING,  /* for its WEIR.ACQUIRE, or for units of a fleet */
    WORKING,  /* the chore thread does what it asked for */
    LEAVING,  /* what waits is written, then it is closed */
    LINGERING /* all was written; what it still sends is thrown away, so that it can read the rest */
};

/* Fields that lane.c reads; connection.c alone changes them. */
struct connection {
    struct lane *lane;
    struct connection *next, *before; /* in the lane's list */
    struct connection *next_again;
    struct connection *park_next, *park_before;
    enum park park;  /* of parking.c; while it is parked, nothing of it is read or run */
    uint64_t ticket; /* PARK_STORE: what has to be good */
    struct watch *watch;
    struct timer *timer; /* while it waits */
    struct order order;  /* its arrival in the lane; the end of its chore */
    struct buffer in;    /* what was read and not run yet */
    struct buffer out;   /* what was answered and not written yet */
    size_t held_back;    /* bytes at its end that must not be written yet */
    int fd;
    enum connection_state state;
    bool more;     /* `in` has not been looked at since the last request was run */
    bool in_again; /* is in the list lane->again */
    bool gone;     /* to be freed by who still needs it: that list, or the end of its chore */
    bool posted;   /* its chore is on its way */
    bool spoke;    /* since the lane began to drain */
    bool ended;    /* it will say nothing more */
    bool stranger; /* is counted as one */
    size_t held;   /* bytes of its buffers, as last counted in lane->held */
    int64_t began_ms, asked_ms, wrote_ms, linger_until_ms, parked_ms;
    struct session session;
    _Atomic bool killed; /* by another thread; apart from what this one uses all the time */
    _Atomic bool displaced;
};

/* Takes over the file and sends it to its lane, if there is room; by any thread. */
enum entry weir_connection_offer(struct lane *lane, int fd, const char *address, const char *local);

/* ---- by the lane's own thread ---- */

void weir_connection_go_on(struct connection *connection);   /* what it has left from its last slice */
void weir_connection_look(struct connection *connection);    /* it waits: is it due by now? */
void weir_connection_release(struct connection *connection); /* it was parked: what it was answered is safe */
void weir_connection_drain(struct connection *connection);
/* Closes it if its login has ended, after what it was answered. */
void weir_connection_log_out(struct connection *connection);
/* The same, or if it has used up its patience. */
void weir_connection_watch(struct connection *connection, int64_t now_ms);
/* Closes it as soon as that is possible. `why` is for the log; NULL: nothing worth a line. */
void weir_connection_close(struct connection *connection, const char *why);
/* When no thread runs any more: frees it, its chore, too. */
void weir_connection_free(struct connection *connection);

#endif
