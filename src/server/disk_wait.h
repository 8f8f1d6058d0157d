/* SPDX-License-Identifier: MIT */
/*
 * Answers that wait for the store. Whoever has changed something is not answered at the end of its slice but
 * waits for the disk: first for the rest of the loop's round; then all that the I/O thread has changed in
 * this round goes to the log in one piece, and each is released when the store says that it is safe, in their
 * order. A connection that waits for the disk is not read and nothing of it is run: so answers keep their
 * order, and those that wait are no more than one slice's.
 *
 * Law: nothing that was answered after a change goes to the socket before weir_store_ticket_status has said
 * STORE_GO for a ticket that was drawn after that change; and no answer overtakes another one of its
 * connection.
 */
#ifndef WEIR_SERVER_DISK_WAIT_H
#define WEIR_SERVER_DISK_WAIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "store/store.h"

struct connection;
struct io_thread;

enum disk_wait_stage {
    DISK_WAIT_NONE,
    DISK_WAIT_ROUND, /* until what this round has changed is in the log */
    DISK_WAIT_STORE  /* until its ticket is good */
};

struct disk_wait_list {
    struct connection *first, *last;
};

struct disk_wait {                        /* of an I/O thread */
    struct store *store;                  /* NULL: nobody waits for the disk, ever */
    struct disk_wait_list round, waiting; /* `waiting`: in the order of their tickets */
    bool uncommitted;                     /* this thread has changed something since its last commit */
    _Atomic bool expects;                 /* to be told when the store has moved */
};

/* When the I/O thread is made: everything is in memory alone if `store` is NULL. false: out of memory. */
bool weir_disk_wait_begin(struct io_thread *io_thread, struct store *store);
/* Any thread: the store has moved. */
void weir_disk_wait_moved(struct io_thread *io_thread);

/* ---- by the I/O thread itself ---- */

/* Holds its answers back until what it has changed by now is safe. */
void weir_disk_wait_add(struct connection *connection);
/* It is closed: nobody waits for it any more. */
void weir_disk_wait_leave(struct connection *connection);
/* Releases those whose tickets are good. */
void weir_disk_wait_release(struct io_thread *io_thread);
/* The disk takes nothing, so that its ticket may wait for long. */
bool weir_disk_wait_is_stuck(const struct connection *connection);
/* When its thread has ended, and its connections with it: what they gave back goes to the log. */
void weir_disk_wait_end(struct io_thread *io_thread);

#endif
