/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE

#include "server/input.h"

#include <errno.h>
#include <sys/socket.h>

#include "base/assert.h"
#include "base/text.h"
#include "server/proxy_protocol.h"
#include "service/health.h"
#include "service/http/http.h"
#include "service/run.h"

#define LINGER_READ 65536

/* ---- batches ---------------------------------------------------------------------------------- */

enum batch_end {
    BATCH_FULL,   /* there may be more in the bytes */
    BATCH_MORE,   /* the rest is no whole request */
    BATCH_BAD,    /* got.why is what the client is told before it is closed */
    BATCH_FOREIGN /* it is no client of ours, and is closed without a word */
};

struct request_batch {
    struct resp_request requests[BATCH];
    size_t ends[BATCH]; /* where each one's bytes end */
    size_t count;
    size_t end; /* where the bytes end that are done with */
    enum batch_end why;
    struct resp_request_info got;
};

static bool is_request_word(struct slice name, const char *word, size_t len)
{
    return name.len == len && weir_text_same(name.bytes, len, word);
}

/* A browser that was lured to this port sends these. */
static bool is_foreign_protocol(struct slice name)
{
    return is_request_word(name, "post", 4) || is_request_word(name, "host:", 5);
}

/*
 * Reads as many requests as there are, up to BATCH. `args` has room for BATCH_WORDS + ARGS_MAX words. An
 * unauthenticated client has not logged in, and must.
 *
 * What a later request may be can depend on what an earlier one does: an unauthenticated client's come one by
 * one, and none follows a RESET. A typed line is changed as it is read, and could not be read again: so it
 * comes alone.
 */
static void read_batch(struct request_batch *batch, struct slice *args, bool unauthenticated, char *bytes,
                       size_t len)
{
    const struct resp_limits limits = {.args = unauthenticated ? UNAUTHENTICATED_ARGS : ARGS_MAX,
                                       .bulk = unauthenticated ? UNAUTHENTICATED_BULK : BULK_MAX,
                                       .all = REQUEST_MAX,
                                       .unauthenticated = unauthenticated};
    const struct slice *room_end = args + BATCH_WORDS;
    batch->count = 0;
    batch->end = 0;
    batch->why = BATCH_FULL;
    while (batch->count < BATCH && args < room_end) {
        struct resp_reader reader = {0};
        bool typed = batch->end < len && bytes[batch->end] != '*';
        if (typed && batch->count > 0)
            return;
        enum resp_status got =
            weir_resp_read(&reader, &limits, bytes + batch->end, len - batch->end, args, &batch->got);
        if (got == RESP_MORE || got == RESP_BAD) {
            batch->why = got == RESP_MORE ? BATCH_MORE : BATCH_BAD;
            return;
        }
        batch->end += batch->got.used;
        if (got == RESP_NOTHING)
            continue;
        if (is_foreign_protocol(args[0])) {
            batch->why = BATCH_FOREIGN;
            return;
        }
        batch->requests[batch->count] = (struct resp_request){args, batch->got.words};
        batch->ends[batch->count++] = batch->end;
        INVARIANT(36, batch->count == 1 || (!typed && !unauthenticated));
        if (typed || unauthenticated || is_request_word(args[0], "reset", 5))
            return;
        args += batch->got.words;
    }
}

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

/* ---- HTTP --------------------------------------------------------------------------------------- */

/* It asks before it sends a body. Told once: with a byte of the body it waits no more. */
static void answer_continue(struct connection *connection)
{
    static const char answer[] = "HTTP/1.1 100 Continue\r\n\r\n";
    buffer_put(&connection->io_thread->out, answer, sizeof answer - 1);
}

/* Runs the first request in the bytes; returns as run_batch does. What is too short to be one is not looked
 * at again before there is more of it. */
static size_t run_http_request(struct connection *connection, char *bytes, size_t len, enum batch_end *why)
{
    struct io_thread *io_thread = connection->io_thread;
    const struct http_limits limits = {
        .head = HTTP_HEAD_MAX,
        .body = weir_connection_is_unauthenticated(connection) ? UNAUTHENTICATED_BODY : REQUEST_MAX};
    struct http_request request;
    struct http_parse_result parsed;
    *why = BATCH_MORE;
    if (len < connection->need)
        return 0;
    switch (weir_http_parse(&limits, bytes, len, &request, &parsed)) {
    case HTTP_MORE:
        connection->need = parsed.need;
        if (parsed.wants_continue)
            answer_continue(connection);
        return 0;
    case HTTP_BAD:
        weir_http_refuse(io_thread->worker, parsed.status,
                         parsed.status == 413
                             ? "the body is too large: at most 1 MiB, 128 KiB before the login, "
                               "in at most 1024 chunks"
                             : parsed.why,
                         &io_thread->out);
        connection->state = LEAVING;
        return len;
    case HTTP_WHOLE:
        break;
    }
    struct run_result result =
        weir_http_run(io_thread->worker, &connection->session, &request, connection->admin, &io_thread->out);
    weir_connection_follow(connection, &result);
    *why = BATCH_FULL;
    if (result.done == 0) /* its credentials are being checked: it is run again then */
        return 0;
    connection->need = 0;
    return parsed.used;
}

/* ---- slices ------------------------------------------------------------------------------------- */

static size_t run_resp_batch(struct connection *connection, char *bytes, size_t len, enum batch_end *why)
{
    struct request_batch batch;
    read_batch(&batch, connection->io_thread->args, weir_connection_is_unauthenticated(connection), bytes,
               len);
    size_t ran = run_batch(connection, &batch);
    *why = batch.why;
    ASSERT(ran <= batch.end);
    ASSERT(!may_run_more(connection) || ran == batch.end); /* whole requests are not forgotten */
    return ran;
}

/* Runs a slice of what was read; returns how many bytes are done with. */
static size_t run_slice(struct connection *connection, char *bytes, size_t len)
{
    struct io_thread *io_thread = connection->io_thread;
    bool is_http = connection->protocol == PROTOCOL_HTTP;
    enum batch_end why;
    size_t used = 0, room = output_room(connection);
    int64_t until_ns = weir_now() + SLICE_NS;
    INVARIANT(36, may_run_more(connection) && buffer_len(&connection->out) <= OUTPUT_PAUSE);
    ASSERT(!io_thread->draining || !connection->pieces);
    ASSERT(connection->answered == 0 && buffer_len(&io_thread->out) == 0);
    health_beat(io_thread->worker, weir_loop_now_ms(io_thread->loop));
    pthread_mutex_lock(&io_thread->mutex);
    do
        used += is_http ? run_http_request(connection, bytes + used, len - used, &why)
                        : run_resp_batch(connection, bytes + used, len - used, &why);
    while (used < len && may_run_more(connection) && why == BATCH_FULL &&
           connection->answered + BATCH <= room &&
           buffer_len(&io_thread->out) + buffer_len(&connection->out) <= OUTPUT_PAUSE &&
           !io_thread->out.failed && weir_now() < until_ns);
    pthread_mutex_unlock(&io_thread->mutex);
    INVARIANT(36, connection->answered <= room);
    connection->more = used < len && (!may_run_more(connection) || why == BATCH_FULL);
    ASSERT(used <= len);
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
    ssize_t got = transport_recv(&connection->transport, bytes, READ_SIZE);
    int fault = errno;
    if (connection->handshaking && !weir_connection_handshake(connection))
        return false;
    if (got > 0) {
        add_to_counter(&connection->io_thread->worker->input_bytes, got);
        connection->spoke = true;
        *len = (size_t)got;
        return true;
    }
    if (got == 0) {
        end_of_input(connection);
    } else if (fault != EAGAIN && fault != EINTR) {
        weir_connection_close(connection, fault == EPROTO && connection->transport.tls
                                              ? weir_tls_fault(connection->transport.tls)
                                              : NULL);
    } else if (connection->io_thread->draining && output_is_done(connection)) {
        if (connection->spoke)
            weir_connection_linger(connection);
        else
            weir_connection_close(connection, NULL);
    } else if (connection->transport.tls) {
        weir_connection_settle(connection); /* it may wait for something else now */
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

/* Not a byte behind the header is read: TLS may follow. */
static void read_proxy_header(struct connection *connection)
{
    char address[LISTEN_ADDRESS_MAX];
    struct buffer *in = &connection->in;
    size_t need;
    enum proxy_parsed parsed;
    while ((parsed = weir_proxy_read(buffer_bytes(in), buffer_len(in), &need, address)) == PROXY_MORE) {
        size_t missing = need - buffer_len(in);
        char *room = weir_buffer_room(in, missing);
        ssize_t got = room ? recv(connection->transport.fd, room, missing, 0) : 0;
        if (got > 0) {
            buffer_wrote(in, (size_t)got);
        } else if (got < 0 && (errno == EAGAIN || errno == EINTR) && !connection->io_thread->draining) {
            return;
        } else {
            weir_connection_close(connection, NULL);
            return;
        }
    }
    weir_buffer_free(in);
    if (parsed == PROXY_BAD)
        weir_connection_close(connection,
                              "it did not begin with the header of the PROXY protocol, version 2");
    else
        weir_connection_come_from(connection, parsed == PROXY_ADDRESS ? address : NULL);
}

void weir_input_read(struct connection *connection)
{
    if (connection->awaits_proxy) {
        read_proxy_header(connection);
        return;
    }
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
    ASSERT(connection->in.failed || buffer_len(&connection->in) == kept + got - used);
    weir_connection_settle(connection);
}

void weir_input_discard(struct connection *connection)
{
    ssize_t got = recv(connection->transport.fd, connection->io_thread->read_bytes, LINGER_READ, 0);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
        weir_connection_close(connection, NULL);
}
