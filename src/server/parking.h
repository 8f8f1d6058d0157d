/* SPDX-License-Identifier: MIT */
/*
 * Answers that wait for the store. Whoever has changed something is not answered at the end of its slice but
 * parked: first for the rest of the loop's round; then all that the lane has changed in this round goes to
 * the log in one piece, and each is released when the store says that it is safe, in the order of parking. A
 * connection that is parked is not read and nothing of it is run: so answers keep their order, and those that
 * wait are no more than one slice's.
 *
 * Law: nothing that was answered after a change goes to the socket before weir_store_may has said STORE_GO
 * for a ticket that was drawn after that change; and no answer overtakes another one of its connection.
 */
#ifndef WEIR_SERVER_PARKING_H
#define WEIR_SERVER_PARKING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "store/store.h"

struct connection;
struct lane;

enum park {
    PARK_NONE,
    PARK_ROUND, /* until what this round has changed is in the log */
    PARK_STORE  /* until its ticket is good */
};

struct park_list {
    struct connection *first, *last;
};

struct parking {                     /* of a lane */
    struct store *store;             /* NULL: nobody is parked, ever */
    struct park_list round, waiting; /* `waiting`: in the order of their tickets */
    uint64_t seen;                   /* changes of this thread, as of the last look */
    uint64_t logged;                 /* and of the last commit */
    _Atomic bool expects;            /* to be told when the store has moved */
};

/* When the lane is made: everything is in memory alone if `store` is NULL. false: out of memory. */
bool weir_parking_begin(struct lane *lane, struct store *store);
/* Any thread: the store has moved. */
void weir_parking_moved(struct lane *lane);

/* ---- by the lane's own thread ---- */

/* Has anything changed since this was last asked, or was an answer repeated that may not be safe yet? */
bool weir_parking_changed(struct lane *lane);
/* Parks it until what it has changed by now is safe. */
void weir_parking_put(struct connection *connection);
/* It is closed: nobody waits for it any more. */
void weir_parking_leave(struct connection *connection);
/* Releases those whose tickets are good. */
void weir_parking_look(struct lane *lane);
/* The disk takes nothing, so that its ticket may wait for long. */
bool weir_parking_is_sick(const struct connection *connection);
/* When its thread has ended, and its connections with it: what they gave back goes to the log. */
void weir_parking_end(struct lane *lane);

#endif
