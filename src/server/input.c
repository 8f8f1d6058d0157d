/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE

#include "server/input.h"

#include <errno.h>
#include <sys/socket.h>

#include "base/assert.h"
#include "service/run.h"

#define LINGER_READ 65536

/* ---- running ---------------------------------------------------------------------------------- */

static bool may_run_more(const struct connection *connection)
{
    return connection->state == OPEN && !connection->session.pending;
}

/* Returns where the bytes end that are done with. */
static size_t run_batch(struct connection *connection, const struct request_batch *batch)
{
    struct io_thread *io_thread = connection->io_thread;
    if (batch->count > 0) {
        struct run_result result = weir_service_run(io_thread->worker, &connection->session, batch->requests,
                                                    batch->count, &io_thread->out);
        weir_connection_follow(connection, &result);
        if (result.done < batch->count)
            return result.done > 0 ? batch->ends[result.done - 1] : 0;
    }
    if (!may_run_more(connection) || batch->why == BATCH_FULL || batch->why == BATCH_MORE)
        return batch->end;
    connection->state = LEAVING;
    if (batch->why == BATCH_BAD) {
        struct reply reply = {&io_thread->out, connection->session.version};
        weir_reply_error(&reply, "ERR %s", batch->got.why);
    }
    return batch->end;
}

/* Runs a slice of what was read; returns how many bytes are done with. */
static size_t run_slice(struct connection *connection, char *bytes, size_t len)
{
    struct io_thread *io_thread = connection->io_thread;
    struct request_batch batch;
    size_t used = 0, room = output_room(connection);
    int64_t until_ns = weir_now() + SLICE_NS;
    pthread_mutex_lock(&io_thread->mutex);
    do {
        weir_batch_read(&batch, io_thread->args, weir_connection_is_unauthenticated(connection), bytes + used,
                        len - used);
        used += run_batch(connection, &batch);
    } while (may_run_more(connection) && batch.why == BATCH_FULL && connection->answered + BATCH <= room &&
             buffer_len(&io_thread->out) + buffer_len(&connection->out) <= OUTPUT_PAUSE &&
             !io_thread->out.failed && weir_now() < until_ns);
    pthread_mutex_unlock(&io_thread->mutex);
    INVARIANT(36, connection->answered <= room);
    connection->more = used < len && (!may_run_more(connection) || batch.why == BATCH_FULL);
    return used;
}

/* ---- reading ---------------------------------------------------------------------------------- */

/* It will say nothing more; what it has asked is still answered. */
static void end_of_input(struct connection *connection)
{
    connection->ended = true;
    if (output_is_done(connection)) {
        weir_connection_close(connection, NULL);
        return;
    }
    connection->state = LEAVING;
    weir_connection_settle(connection);
}

/* false: nothing was read, and it has been seen to. */
static bool receive_bytes(struct connection *connection, char *bytes, size_t *len)
{
    ssize_t got = recv(connection->fd, bytes, READ_SIZE, 0);
    if (got > 0) {
        add_to_counter(&connection->io_thread->worker->input_bytes, got);
        connection->spoke = true;
        *len = (size_t)got;
        return true;
    }
    if (got == 0) {
        end_of_input(connection);
    } else if (errno != EAGAIN && errno != EINTR) {
        weir_connection_close(connection, NULL);
    } else if (connection->io_thread->draining && output_is_done(connection)) {
        if (connection->spoke)
            weir_connection_linger(connection);
        else
            weir_connection_close(connection, NULL);
    }
    return false;
}

void weir_input_run_kept(struct connection *connection)
{
    size_t used = run_slice(connection, buffer_bytes(&connection->in), buffer_len(&connection->in));
    weir_buffer_drop(&connection->in, used, 0);
    weir_connection_settle(connection);
}

/* Much of a request is here already: what comes is put behind it. */
static void read_behind(struct connection *connection)
{
    size_t got;
    char *bytes = connection->io_thread->read_bytes;
    if (!receive_bytes(connection, bytes, &got))
        return;
    buffer_put(&connection->in, bytes, got);
    weir_input_run_kept(connection);
}

void weir_input_read(struct connection *connection)
{
    size_t kept = buffer_len(&connection->in), got;
    if (kept > HEADROOM) {
        read_behind(connection);
        return;
    }
    char *bytes = connection->io_thread->read_bytes + HEADROOM;
    if (!receive_bytes(connection, bytes, &got))
        return;
    if (kept > 0) {
        bytes -= kept;
        memcpy(bytes, buffer_bytes(&connection->in), kept);
        weir_buffer_drop(&connection->in, kept, HEADROOM);
    } else {
        connection->asked_ms = connection_now_ms(connection);
    }
    size_t used = run_slice(connection, bytes, kept + got);
    if (used < kept + got)
        buffer_put(&connection->in, bytes + used, kept + got - used);
    else if (connection->in.bytes)
        weir_buffer_free(&connection->in);
    weir_connection_settle(connection);
}

void weir_input_discard(struct connection *connection)
{
    ssize_t got = recv(connection->fd, connection->io_thread->read_bytes, LINGER_READ, 0);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
        weir_connection_close(connection, NULL);
}
