/* SPDX-License-Identifier: MIT */
/*
 * A connection: bytes in, requests, answers, bytes out. What it may use is bounded: input, output, words,
 * time. A pipeline that was read in one go is run in pieces of BATCH requests and answered with one write;
 * after SLICE requests, or a millisecond, the others get their turn. With a store, answers to what has
 * changed something wait until that is safe (disk_wait.h).
 */
#ifndef WEIR_SERVER_CONNECTION_H
#define WEIR_SERVER_CONNECTION_H

#include "server/batch.h"
#include "server/io_thread.h"

#define SLICE            1024
#define SLICE_NS         WEIR_MS      /* a slice ends then, too: some requests take much longer than others */
#define READ_SIZE        (64 * 1024)  /* read at once, into the I/O thread's own memory */
#define HEADROOM         4096         /* before that: for what was kept of the last time */
#define OUTPUT_PAUSE     (256 * 1024) /* not written yet: no more is run until the client reads */
#define OUTPUT_MOST      (8 << 20)    /* of one answer and what waits before it: then it is closed */
#define LOGIN_TIMEOUT_MS 10000
#define STUCK_MS         30000
#define LINGER_MS        1000
#define BUFFERED_MAX     (INT64_C(256) << 20) /* bytes that all connections hold: then those who hold much go */
#define BUFFERED_FAIR    (32 * 1024)          /* that is, more than this */

enum connection_state {
    READING,  /* asks and is answered */
    WAITING,  /* for its WEIR.ACQUIRE, or for units of a fleet */
    WORKING,  /* the job thread does what it asked for */
    LEAVING,  /* what waits is written, then it is closed */
    LINGERING /* all was written; what it still sends is thrown away, so that it can read the rest */
};

/* Fields that io_thread.c reads; connection.c alone changes them. */
struct connection {
    struct io_thread *io_thread;
    struct connection *next, *before; /* in the I/O thread's list */
    struct connection *next_again;
    struct connection *disk_wait_next, *disk_wait_before;
    enum disk_wait_stage
        disk_wait_stage; /* of disk_wait.c; while it waits for the disk, nothing of it is read or run */
    uint64_t ticket;     /* DISK_WAIT_STORE: what has to be good */
    struct watch *watch;
    struct timer *timer;           /* while it waits */
    struct loop_callback callback; /* its arrival in the I/O thread; the end of its background job */
    struct buffer in;              /* what was read and not run yet */
    struct buffer out;             /* what was answered and not written yet */
    size_t held_back;              /* bytes at its end that must not be written yet */
    int fd;
    enum connection_state state;
    bool more;            /* `in` has not been looked at since the last request was run */
    bool changed;         /* what was answered since the last settle_output waits for the disk */
    bool in_again;        /* is in the list io_thread->again */
    bool gone;            /* to be freed by who still needs it: that list, or the end of its background job */
    bool posted;          /* its background job is on its way */
    bool spoke;           /* since the I/O thread began to drain */
    bool ended;           /* it will say nothing more */
    bool unauthenticated; /* is counted as one */
    size_t buffered;      /* bytes of its buffers, as last counted in io_thread->held */
    int64_t began_ms, asked_ms, wrote_ms, linger_until_ms, disk_wait_ms;
    struct session session;
    _Atomic bool killed; /* by another thread; apart from what this one uses all the time */
    _Atomic bool displaced;
};

/* Takes over the file and sends it to its I/O thread, if there is room; by any thread. */
enum admission weir_connection_offer(struct io_thread *io_thread, int fd, const char *address,
                                     const char *local);

/* ---- by the I/O thread itself ---- */

void weir_connection_go_on(struct connection *connection); /* what it has left from its last slice */
void weir_connection_look(struct connection *connection);  /* it waits: is it due by now? */
void weir_connection_release(
    struct connection *connection); /* it has waited for the disk: what it was answered is safe */
void weir_connection_drain(struct connection *connection);
/* Closes it if its login has ended, after what it was answered. */
void weir_connection_log_out(struct connection *connection);
/* The same, or if it has used up its patience. */
void weir_connection_watch(struct connection *connection, int64_t now_ms);
/* Closes it as soon as that is possible. `why` is for the log; NULL: nothing worth a line. */
void weir_connection_close(struct connection *connection, const char *why);
/* When no thread runs any more: frees it, its background job, too. */
void weir_connection_free(struct connection *connection);

#endif
