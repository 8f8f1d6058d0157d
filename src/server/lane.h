/* SPDX-License-Identifier: MIT */
/*
 * A lane: a thread of the server with its loop, its worker and its connections. A connection stays in its
 * lane; other threads only leave wishes.
 */
#ifndef WEIR_SERVER_LANE_H
#define WEIR_SERVER_LANE_H

#include "server/loop.h"
#include "server/parking.h"
#include "service/service.h"

/* How long things may take; all in milliseconds of a clock that never stands still. */
struct patience {
    int64_t stuck_ms;    /* half a request and no more, or nothing read of what waits: then it is closed */
    int64_t stranger_ms; /* to log in */
    int64_t idle_ms;     /* without a word; 0: for ever */
    int64_t linger_ms;   /* for the client to read the last answer */
};

enum lane_wish {
    WISH_LOOK = 1,   /* the clock was moved, or a fleet: those who wait look again */
    WISH_KILL = 2,   /* close those that are marked */
    WISH_DRAIN = 4,  /* answer what has come, then close; lane->drained is run when nobody is left */
    WISH_END = 8,    /* close all, and stop the loop */
    WISH_STORE = 16, /* the store has moved: those who are parked look again */
    WISH_USERS = 32  /* logins may have ended */
};

struct connection;

struct lane {
    struct loop *loop;
    struct loop *chores; /* where long work is done */
    struct loop *logins; /* where passwords are checked; NULL: there, too */
    struct worker *worker;
    struct patience patience;
    pthread_t thread;
    /* Held while sessions or the list change: so who has it may look at them. The asking thread itself lets
     * go of its own lane's before it looks at others'. */
    pthread_mutex_t mutex;
    struct connection *connections;
    struct connection *again, **again_end; /* those that go on in the next round */
    struct timer *watch_timer;
    struct order again_order, wishes_order;
    _Atomic unsigned wishes;
    _Atomic int64_t load;       /* connections, and those on their way here */
    void (*drained)(void *arg); /* called once, by the lane's thread */
    void *drained_arg;
    bool draining, drain_told;
    /* What a client is that comes in, as enum entry_kind. Memory order: relaxed, a hint. */
    _Atomic int comes_as;
    char *read_bytes;   /* of whoever reads just now */
    struct slice *args; /* words of the requests that are run just now */
    struct buffer out;  /* answers of whoever is run just now, before they are written */
    int64_t held;       /* bytes of buffers of all connections */
    int64_t held_most;
    struct parking parking;
};

/* Everything but the thread. false: out of memory or descriptors; weir_lane_end anyway. */
bool weir_lane_begin(struct lane *lane, struct worker *worker, struct loop *chores,
                     const struct patience *patience);
/* After its thread and the chore thread have ended: its connections end, and what that changes is logged. */
void weir_lane_clear(struct lane *lane);
void weir_lane_end(struct lane *lane);

/* Any thread. */
void weir_lane_wish(struct lane *lane, unsigned wishes);

/* CLIENT LIST and CLIENT KILL, of one lane: by any thread that holds no lane. */
void weir_lane_list(struct lane *lane, int64_t now_ns, struct buffer *out);
int64_t weir_lane_kill(struct lane *lane, const struct session *asking, const struct kill *kill);

/* By connections: one of them has gone. */
void weir_lane_left(struct lane *lane);
/* And: runs `connection` again in the next round of the loop. */
void weir_lane_again(struct lane *lane, struct connection *connection);

#endif
