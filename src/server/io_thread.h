/* SPDX-License-Identifier: MIT */
/*
 * An I/O thread: a thread of the server with its loop, its worker and its connections. A connection stays in
 * its I/O thread; other threads only leave tasks.
 */
#ifndef WEIR_SERVER_IO_THREAD_H
#define WEIR_SERVER_IO_THREAD_H

#include "server/disk_wait.h"
#include "server/loop.h"
#include "service/service.h"

/* How long things may take; all in milliseconds of a clock that never stands still. */
struct io_timeouts {
    int64_t stuck_ms; /* half a request and no more, or nothing read of what waits: then it is closed */
    int64_t login_timeout_ms; /* to log in */
    int64_t idle_ms;          /* without a word; 0: for ever */
    int64_t linger_ms;        /* for the client to read the last answer */
};

enum io_task {
    IO_TASK_LOOK = 1,   /* the clock was moved, or a fleet: those who wait look again */
    IO_TASK_KILL = 2,   /* close those that are marked */
    IO_TASK_DRAIN = 4,  /* answer what has come, then close; io_thread->drained is run when nobody is left */
    IO_TASK_END = 8,    /* close all, and stop the loop */
    IO_TASK_STORE = 16, /* the store has moved: those who wait for the disk look again */
    IO_TASK_USERS = 32  /* logins may have ended */
};

struct connection;
struct transport_tls;

struct io_thread {
    struct loop *loop;
    struct loop *jobs;   /* where long work is done */
    struct loop *logins; /* where passwords are checked; NULL: there, too */
    struct worker *worker;
    struct io_timeouts timeouts;
    pthread_t thread;
    /* Held while sessions or the list change: so who has it may look at them. The asking thread itself lets
     * go of its own I/O thread's before it looks at others'. */
    pthread_mutex_t mutex;
    struct connection *connections;
    struct connection *again, **again_end; /* those that go on in the next round */
    struct timer *watch_timer;
    struct loop_callback again_callback, tasks_callback;
    _Atomic unsigned tasks;
    _Atomic int64_t load;       /* connections, and those on their way here */
    void (*drained)(void *arg); /* called once, by the I/O thread */
    void *drained_arg;
    bool draining, drain_told;
    /* What a client is that comes in, as enum client_kind. Memory order: relaxed, a hint. */
    _Atomic int comes_as;
    char *read_bytes;   /* of whoever reads just now */
    struct slice *args; /* words of the requests that are run just now */
    struct buffer out;  /* answers of whoever is run just now, before they are written */
    int64_t buffered;   /* bytes of buffers of all connections */
    int64_t buffered_max;
    struct disk_wait disk_wait;
    struct transport_tls *tls; /* of those that come by TLS */
    int handshakes; /* steps of handshakes in this round: one may cost more than a thousand takes */
};

#define HANDSHAKES_MOST 4

/* Everything but the thread. false: out of memory or descriptors; weir_io_thread_end anyway. */
bool weir_io_thread_begin(struct io_thread *io_thread, struct worker *worker, struct loop *jobs,
                          const struct io_timeouts *timeouts);
/* After its thread and the job thread have ended: its connections end, and what that changes is logged. */
void weir_io_thread_clear(struct io_thread *io_thread);
void weir_io_thread_end(struct io_thread *io_thread);

/* Any thread. */
void weir_io_thread_post(struct io_thread *io_thread, unsigned tasks);

/* CLIENT LIST and CLIENT KILL, of one I/O thread: by any thread that holds no I/O thread. */
void weir_io_thread_list(struct io_thread *io_thread, int64_t now_ns, struct buffer *out);
int64_t weir_io_thread_kill(struct io_thread *io_thread, const struct session *asking,
                            const struct client_kill *kill);

/* By connections: one of them has gone. */
void weir_io_thread_left(struct io_thread *io_thread);
/* And: runs `connection` again in the next round of the loop. */
void weir_io_thread_again(struct io_thread *io_thread, struct connection *connection);

#endif
