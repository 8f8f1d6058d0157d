/* SPDX-License-Identifier: MIT */
/*
 * Answers that wait for the store. Durability tickets belong to bytes: of what a connection is to be sent,
 * each piece that tells of a change waits for its own ticket. It waits first for the rest of the loop's
 * round; then all that the I/O thread has changed in this round goes to the log with one commit, and each
 * piece of the round gets its ticket. Pieces are released in that order, when the store says so. What is
 * answered behind a piece that waits becomes part of it, or is a later piece: so answers keep their order.
 * The connection itself goes on being read and run, within the bounds of output.h.
 *
 * Law: nothing that was answered after a change goes to the socket before weir_store_ticket_status has said
 * STORE_GO for a ticket that was drawn after that change; and no answer overtakes another one of its
 * connection.
 */
#ifndef WEIR_SERVER_DISK_WAIT_H
#define WEIR_SERVER_DISK_WAIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/store.h"

struct connection;
struct io_thread;

/* Bytes of a connection's output that wait for the same ticket. */
struct piece {
    struct piece *next, *before; /* of the I/O thread */
    struct piece *later;         /* the next one of the connection */
    struct connection *connection;
    size_t len;       /* 0: of a client that wants no answers; its connection is not closed before either */
    uint32_t answers; /* that are in it */
    bool committed;   /* it has a ticket; false: it waits for the end of the round */
    uint64_t ticket;
    int64_t since_ms; /* of the loop's clock */
    int64_t since_ns; /* the same, finer: weir_monotonic_ns */
};

struct disk_wait {              /* of an I/O thread */
    struct store *store;        /* NULL: nothing waits for the disk, ever */
    struct piece *first, *last; /* of all connections, in the order of their tickets */
    struct piece *round;        /* the first one without a ticket: those behind it have none either */
    bool uncommitted;           /* this thread has changed something since its last commit */
    _Atomic bool expects;       /* to be told when the store has moved */
};

/* When the I/O thread is made: everything is in memory alone if `store` is NULL. */
void weir_disk_wait_begin(struct io_thread *io_thread, struct store *store);
/* Any thread: the store has moved. */
void weir_disk_wait_moved(struct io_thread *io_thread);

/* ---- by the I/O thread itself ---- */

/* Holds back the last `len` bytes of the connection's output, which are `answers` answers. With `changed`
 * they wait for what this thread has changed by now, else for what is before them: there is a piece then.
 * false: out of memory. */
bool weir_disk_wait_hold(struct connection *connection, size_t len, uint32_t answers, bool changed);
/* It is closed: nothing waits for it any more. */
void weir_disk_wait_leave(struct connection *connection);
/* Releases the pieces whose tickets are good. */
void weir_disk_wait_release(struct io_thread *io_thread);
/* The disk takes nothing, so that its first ticket may wait for long. */
bool weir_disk_wait_is_stuck(const struct connection *connection);
/* When its thread has ended, and its connections with it: what they gave back goes to the log. */
void weir_disk_wait_end(struct io_thread *io_thread);

#endif
