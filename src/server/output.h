/* SPDX-License-Identifier: MIT */
/*
 * The output of a connection: a queue of bytes. Answers are collected in the I/O thread's own memory and
 * written once at the end of a slice; they are kept with the connection only if the socket does not take them
 * all, or if they, or others before them, wait for the disk (disk_wait.h).
 *
 * What waits is bounded: above OUTPUT_PAUSE bytes that are not written, or OUTPUT_ANSWERS answers that wait
 * for the disk, no more requests of the connection are read or run.
 */
#ifndef WEIR_SERVER_OUTPUT_H
#define WEIR_SERVER_OUTPUT_H

#include "server/connection.h"

#define OUTPUT_PAUSE   (256 * 1024)
#define OUTPUT_ANSWERS 1024
#define OUTPUT_MOST    (8 << 20) /* of one answer and what waits before it: then the connection is closed */

/* Bytes that wait for the socket alone. */
static inline size_t output_sendable(const struct connection *connection)
{
    return buffer_len(&connection->out) - connection->held_back;
}

/* Was everything written that was answered, and is durable what it told of? */
static inline bool output_is_done(const struct connection *connection)
{
    return buffer_len(&connection->out) == 0 && !connection->pieces;
}

/* Requests that may be run now. While the I/O thread drains, none until the disk has taken what was before.
 */
static inline size_t output_room(const struct connection *connection)
{
    if (buffer_len(&connection->out) > OUTPUT_PAUSE ||
        (connection->io_thread->draining && connection->pieces))
        return 0;
    return OUTPUT_ANSWERS - connection->held_answers;
}

/* Writes what may be written of what was answered, before and just now; the rest is kept. false: the socket
 * is broken, or more waits than may. */
bool weir_output_send(struct connection *connection);

#endif
