/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE

#include "server/output.h"

#include <errno.h>
#include <sys/socket.h>

#include "base/assert.h"

/* Returns the number of bytes that the socket took; -1: it is broken. */
static ssize_t write_some(struct connection *connection, const char *bytes, size_t len)
{
    ssize_t sent;
    do
        sent = transport_send(&connection->transport, bytes, len);
    while (sent < 0 && errno == EINTR);
    if (sent < 0)
        return errno == EAGAIN ? 0 : -1;
    if (sent > 0) {
        add_to_counter(&connection->io_thread->worker->output_bytes, sent);
        connection->wrote_ms = connection_now_ms(connection);
    }
    return sent;
}

/* New answers stay behind those that wait; if they must wait for the disk themselves, as a piece. */
static bool queue_answers(struct connection *connection, bool changed)
{
    struct buffer *fresh = &connection->io_thread->out;
    size_t len = buffer_len(fresh);
#if WEIR_ASSERTIONS
    size_t sendable = output_sendable(connection) + (changed || connection->pieces ? 0 : len);
#endif
    if (buffer_len(&connection->out) == 0)
        connection->wrote_ms = connection_now_ms(connection);
    buffer_put(&connection->out, buffer_bytes(fresh), len);
    weir_buffer_drop(fresh, len, OUTPUT_PAUSE);
    if (connection->out.failed)
        return false;
    bool good = (!changed && !connection->pieces) ||
                weir_disk_wait_hold(connection, len, connection->answered, changed);
#if WEIR_ASSERTIONS
    INVARIANT(41, !good || output_sendable(connection) == sendable);
#endif
    return good;
}

static bool write_queue(struct connection *connection)
{
    size_t len = output_sendable(connection);
    ssize_t sent = len > 0 ? write_some(connection, buffer_bytes(&connection->out), len) : 0;
    if (sent < 0)
        return false;
    weir_buffer_drop(&connection->out, (size_t)sent, 0);
    INVARIANT(41, connection->held_back <= buffer_len(&connection->out));
    return true;
}

/* Nothing waits: answers go from the I/O thread's memory to the socket. */
static bool write_answers(struct connection *connection)
{
    struct buffer *fresh = &connection->io_thread->out;
    size_t len = buffer_len(fresh);
    INVARIANT(41, buffer_len(&connection->out) == 0 && !connection->pieces);
    ssize_t sent = len > 0 ? write_some(connection, buffer_bytes(fresh), len) : 0;
    if (sent < 0)
        return false;
    weir_buffer_drop(fresh, (size_t)sent, OUTPUT_PAUSE);
    return (size_t)sent == len || queue_answers(connection, false);
}

bool weir_output_send(struct connection *connection)
{
    struct buffer *fresh = &connection->io_thread->out;
    bool changed = connection->changed && connection->io_thread->disk_wait.store;
    bool waits = changed || !output_is_done(connection), good = !fresh->failed;
    if (good && !waits)
        good = write_answers(connection);
    else if (good)
        good = ((buffer_len(fresh) == 0 && !changed) || queue_answers(connection, changed)) &&
               write_queue(connection);
    connection->changed = false;
    connection->answered = 0;
    if (!good) /* the I/O thread's buffer is the next one's */
        weir_buffer_free(fresh);
    ASSERT(buffer_len(fresh) == 0 && !fresh->failed);
    INVARIANT(41, !good || !changed || connection->pieces);
    return good;
}
