/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE

#include "server/connection.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "server/input.h"
#include "server/output.h"
#include "server/waiting.h"

static void on_socket_ready(void *arg, unsigned events);

bool weir_connection_is_unauthenticated(const struct connection *connection)
{
    return connection->awaits_proxy || connection->handshaking ||
           (!connection->session.logged_in &&
            (connection->session.must_log_in ||
             atomic_load_explicit(&connection->io_thread->comes_as, memory_order_relaxed) ==
                 CLIENT_UNAUTHENTICATED));
}

/* Each counts once, from its arrival until it logs in or is gone; a RESET makes it one again. */
static void count_unauthenticated(struct connection *connection)
{
    bool is = !connection->gone && weir_connection_is_unauthenticated(connection);
    if (is == connection->unauthenticated)
        return;
    connection->unauthenticated = is;
    enum client_kind kind = CLIENT_ADMIN; /* needs no place of the others, or has one as a user */
    if (is)
        kind = CLIENT_UNAUTHENTICATED;
    else if (!connection->gone && !connection->session.logged_in)
        kind = (enum client_kind)atomic_load_explicit(&connection->io_thread->comes_as, memory_order_relaxed);
    weir_client_counts_set_kind(connection->io_thread->worker->service->client_counts,
                                &connection->session.client_entry, kind);
}

/* ---- the end ---------------------------------------------------------------------------------- */

static void unlink_from_io_thread(struct connection *connection)
{
    struct io_thread *io_thread = connection->io_thread;
    if (connection->before)
        connection->before->next = connection->next;
    else
        io_thread->connections = connection->next;
    if (connection->next)
        connection->next->before = connection->before;
}

static void close_connection(struct connection *connection)
{
    struct io_thread *io_thread = connection->io_thread;
    io_thread->buffered -= (int64_t)connection->buffered;
    connection->buffered = 0;
    weir_disk_wait_leave(connection);
    weir_timer_free(connection->timer);
    weir_watch_free(connection->watch);
    connection->timer = NULL;
    connection->watch = NULL;
    weir_transport_close(&connection->transport);
    weir_buffer_free(&connection->in);
    weir_buffer_free(&connection->out);
    connection->gone = true;
    count_unauthenticated(connection);
}

static void end_connection_session(struct connection *connection)
{
    struct io_thread *io_thread = connection->io_thread;
    pthread_mutex_lock(&io_thread->mutex);
    io_thread->disk_wait.uncommitted |=
        connection->session.pending != NULL; /* what is given back is a change */
    weir_session_end(&connection->session, io_thread->worker);
    unlink_from_io_thread(connection);
    pthread_mutex_unlock(&io_thread->mutex);
    add_to_counter(&io_thread->worker->connections, -1);
    atomic_fetch_sub(&io_thread->load, 1);
}

void weir_connection_close(struct connection *connection, const char *why)
{
    struct io_thread *io_thread = connection->io_thread;
    if (connection->gone)
        return;
    if (why)
        weir_log(LOG_INFO_LEVEL, "closed", LOG_TEXT("client", connection->session.address),
                 LOG_NUMBER("id", (int64_t)connection->session.id), LOG_TEXT("why", why));
    close_connection(connection);
    ASSERT(!connection->pieces && connection->held_back == 0 && connection->buffered == 0);
    if (connection_works(connection)) /* another thread uses the session: on_work_done frees it */
        return;
    end_connection_session(connection);
    if (!connection->in_again)
        free(connection);
    weir_io_thread_left(io_thread);
}

void weir_connection_free(struct connection *connection)
{
    bool ended = connection->gone && !connection_works(connection);
    close_connection(connection);
    if (!ended)
        end_connection_session(connection);
    free(connection);
}

/* ---- what comes next -------------------------------------------------------------------------- */

/* What to watch for follows from where it stands. */
static bool watch_anew(struct connection *connection)
{
    unsigned events = output_sendable(connection) > 0 ? WATCH_WRITE : 0U;
    if (connection->state == LINGERING) /* what comes is not looked at */
        return weir_watch_for(connection->watch, WATCH_READ);
    if (connection->state == OPEN && pending_waits(connection->session.pending))
        events |= WATCH_GONE;
    else if (!connection->more && !connection->resting && input_may_run(connection))
        events |= WATCH_READ;
    return weir_watch_for(connection->watch, transport_wants(&connection->transport, events));
}

/* To close at once could cost the client the answers that it has not read yet, if there is something in the
 * socket that the server has not read. */
void weir_connection_linger(struct connection *connection)
{
    INVARIANT(41, buffer_len(&connection->out) == 0 && !connection->pieces);
    if (connection->ended || !weir_transport_finish(&connection->transport)) {
        weir_connection_close(connection, NULL);
        return;
    }
    connection->state = LINGERING;
    connection->linger_until_ms = connection_now_ms(connection) + connection->io_thread->timeouts.linger_ms;
    weir_buffer_free(&connection->in);
    if (!watch_anew(connection))
        weir_connection_close(connection, "no memory to watch it");
}

static bool buffers_too_much(struct connection *connection)
{
    struct io_thread *io_thread = connection->io_thread;
    size_t buffered =
        connection->in.size + connection->out.size + connection->piece_count * sizeof(struct piece);
    io_thread->buffered += (int64_t)buffered - (int64_t)connection->buffered;
    connection->buffered = buffered;
    return io_thread->buffered > io_thread->buffered_max && buffered > BUFFERED_FAIR;
}

void weir_connection_follow(struct connection *connection, const struct run_result *result)
{
    connection->answered += (uint32_t)result->done - (result->state == RUN_PENDING && result->done > 0);
    connection->changed |= result->changed;
    connection->io_thread->disk_wait.uncommitted |= result->changed;
    connection->asked_ms = connection_now_ms(connection);
    if (result->state == RUN_CLOSE)
        connection->state = LEAVING;
    ASSERT(result->state == RUN_CLOSE ||
           (result->state == RUN_PENDING) == (connection->session.pending != NULL));
}

void weir_connection_settle(struct connection *connection)
{
    struct io_thread *io_thread = connection->io_thread;
    count_unauthenticated(connection);
    if (connection->session.pending && !weir_waiting_begin(connection))
        connection->state = LEAVING;
    bool whole = !io_thread->out.failed, good = weir_output_send(connection);
    if (!good || connection->in.failed || buffers_too_much(connection)) {
        whole = whole && !connection->out.failed;
        weir_connection_close(connection, good    ? "memory for connections is used up"
                                          : whole ? NULL
                                                  : "more answers than it may have waiting");
        return;
    }
    if (connection->state == LEAVING && output_is_done(connection)) {
        weir_connection_linger(connection);
        return;
    }
    if (input_may_run(connection) && (connection->more || transport_pending(&connection->transport) ||
                                      (io_thread->draining && output_is_done(connection))))
        weir_io_thread_again(io_thread, connection);
    ASSERT(!connection->more || !input_may_run(connection) || connection->in_again); /* it is not forgotten */
    if (!watch_anew(connection))
        weir_connection_close(connection, "no memory to watch it");
}

static void on_socket_ready(void *arg, unsigned events)
{
    struct connection *connection = arg;
    events = transport_ready(&connection->transport, events);
    if (connection->handshaking && connection->state == OPEN)
        weir_io_thread_again(connection->io_thread, connection); /* which sees that there are not too many */
    else if (connection->state == LINGERING)
        weir_input_discard(connection);
    else if (connection->state == OPEN && pending_waits(connection->session.pending) && events & WATCH_GONE)
        weir_connection_close(connection, NULL); /* which gives back what it waited for */
    else if (events & WATCH_WRITE && output_sendable(connection) > 0)
        weir_connection_settle(connection);
    else if (input_may_run(connection) && !connection->in_again && !connection->resting &&
             events & (WATCH_READ | WATCH_GONE) && !(connection->pieces && weir_waiting_rest(connection)))
        weir_input_read(connection);
    else if (!watch_anew(connection))
        weir_connection_close(connection, "no memory to watch it");
}

/* ---- by the I/O thread ------------------------------------------------------------------------ */

void weir_connection_go_on(struct connection *connection)
{
    connection->in_again = false;
    if (connection->gone && !connection_works(connection))
        free(connection);
    else if (connection->gone || !input_may_run(connection))
        return;
    else if (connection->handshaking && connection->io_thread->handshakes++ >= HANDSHAKES_MOST)
        weir_io_thread_again(connection->io_thread, connection);
    else if (connection->more)
        weir_input_run_kept(connection);
    else
        weir_input_read(connection);
}

void weir_connection_rested(struct connection *connection)
{
    connection->resting = false;
    if (!watch_anew(connection))
        weir_connection_close(connection, "no memory to watch it");
    else if (input_may_run(connection) && !connection->in_again)
        weir_input_read(connection);
}

void weir_connection_release(struct connection *connection)
{
    connection->resting = false;
    connection->asked_ms = connection->wrote_ms =
        connection_now_ms(connection); /* the time until now was not its own */
    weir_connection_settle(connection);
}

void weir_connection_drain(struct connection *connection)
{
    connection->spoke = false;
    if (connection->state == OPEN && !connection->session.pending)
        weir_io_thread_again(connection->io_thread, connection);
}

static const char *out_of_patience(const struct connection *connection, int64_t time_ms)
{
    const struct io_timeouts *timeouts = &connection->io_thread->timeouts;
    bool half = buffer_len(&connection->in) > 0 && !connection->more;
    if (output_sendable(connection) > 0)
        return time_ms - connection->wrote_ms > timeouts->stuck_ms ? "does not read its answers" : NULL;
    if (connection->pieces)
        return time_ms - connection->pieces->since_ms > timeouts->stuck_ms &&
                       weir_disk_wait_is_stuck(connection)
                   ? "the disk takes nothing: whether what it asked for is kept is not known"
                   : NULL;
    if (connection->state != OPEN || connection->session.pending)
        return NULL;
    if (half && time_ms - connection->asked_ms > timeouts->stuck_ms)
        return "half a request and no more";
    /* Probes over HTTP need no login, and keep their connection by asking. */
    int64_t since_ms = connection->protocol == PROTOCOL_HTTP ? connection->asked_ms : connection->began_ms;
    if (weir_connection_is_unauthenticated(connection) && time_ms - since_ms > timeouts->login_timeout_ms)
        return connection->awaits_proxy  ? "did not send the header of the PROXY protocol"
               : connection->handshaking ? "did not finish the TLS handshake"
                                         : "did not log in";
    if (timeouts->idle_ms > 0 && time_ms - connection->asked_ms > timeouts->idle_ms)
        return "idle";
    return NULL;
}

/* Has its login ended? A pending request that waits goes with it, but not before answers that wait for the
 * disk: the next watch looks again. */
static bool is_logged_out(const struct connection *connection)
{
    return connection->session.logged_in && !connection->gone && connection->state == OPEN &&
           !connection_works(connection) && !(connection->session.pending && connection->pieces) &&
           weir_session_has_ended(&connection->session, connection->io_thread->worker);
}

/* A client library answers a closed connection by a new login, and NOAUTH by an error each time. */
static void log_out_connection(struct connection *connection)
{
    weir_log(LOG_INFO_LEVEL, "closed", LOG_TEXT("client", connection->session.address),
             LOG_NUMBER("id", (int64_t)connection->session.id), LOG_TEXT("user", connection->session.user),
             LOG_TEXT("why", "its password or rights were changed"));
    if (connection->session.pending) {
        weir_connection_close(connection, NULL);
        return;
    }
    connection->state = LEAVING;
    weir_connection_settle(connection);
}

void weir_connection_log_out(struct connection *connection)
{
    if (is_logged_out(connection))
        log_out_connection(connection);
}

void weir_connection_watch(struct connection *connection, int64_t time_ms)
{
    const char *why = NULL;
    if (connection->gone)
        return;
    if (is_logged_out(connection)) {
        log_out_connection(connection);
        return;
    }
    count_unauthenticated(connection); /* a reload may have changed who is one */
    if (connection->state == LINGERING ? time_ms >= connection->linger_until_ms
                                       : (why = out_of_patience(connection, time_ms)) != NULL)
        weir_connection_close(connection, why);
}

/* ---- the beginning ---------------------------------------------------------------------------- */

/* By its certificate a client is a user without any other login. */
bool weir_connection_handshake(struct connection *connection)
{
    struct io_thread *io_thread = connection->io_thread;
    char subject[TLS_SUBJECT_MAX + 1];
    if (transport_is_handshaking(&connection->transport))
        return true;
    connection->handshaking = false;
    if (!weir_tls_subject(connection->transport.tls, subject))
        return true;
    pthread_mutex_lock(&io_thread->mutex);
    bool good = weir_session_certificate(&connection->session, io_thread->worker, subject);
    pthread_mutex_unlock(&io_thread->mutex);
    if (!good)
        weir_connection_close(connection, NULL);
    return good;
}

/* In its I/O thread. */
static void on_arrival(void *arg)
{
    struct connection *connection = arg;
    struct io_thread *io_thread = connection->io_thread;
    bool good = !connection->handshaking || weir_transport_secure(&connection->transport, io_thread->tls,
                                                                  connection->protocol == PROTOCOL_HTTP);
    connection->watch =
        good ? weir_watch_new(io_thread->loop, connection->transport.fd, on_socket_ready, connection) : NULL;
    pthread_mutex_lock(&io_thread->mutex);
    connection->next = io_thread->connections;
    if (connection->next)
        connection->next->before = connection;
    io_thread->connections = connection;
    pthread_mutex_unlock(&io_thread->mutex);
    add_to_counter(&io_thread->worker->connections, 1);
    connection->began_ms = connection->asked_ms = connection->wrote_ms = connection_now_ms(connection);
    if (!connection->watch || !watch_anew(connection))
        weir_connection_close(connection, "no memory to watch it");
    else if (connection->awaits_proxy && !weir_session_is_of_proxy(&connection->session, io_thread->worker))
        weir_connection_close(connection, "it speaks the PROXY protocol and is not in trusted_proxies:");
    else if (connection->displaced) /* before it was in the list that is looked through for such */
        weir_connection_close(connection, NULL);
    else if (io_thread->draining)
        weir_connection_drain(connection);
}

/* Another one needs its place. By the thread of the door, under the client counts's lock. */
static void displace_client(struct client_entry *client_entry)
{
    struct session *session =
        (struct session *)(void *)((char *)client_entry - offsetof(struct session, client_entry));
    struct connection *connection =
        (struct connection *)(void *)((char *)session - offsetof(struct connection, session));
    connection->displaced = true;
    atomic_fetch_add(&connection->io_thread->worker->service->displaced, 1);
    weir_io_thread_post(connection->io_thread, IO_TASK_KILL);
}

static enum admission admit_connection(struct connection *connection, const char *address)
{
    struct io_thread *io_thread = connection->io_thread;
    struct service *service = io_thread->worker->service;
    /* A load balancer may open any number: each is counted again when its client is known. */
    const struct client_count_limits limits = {
        .most = service->max_clients, .per_address = connection->awaits_proxy ? 0 : service->per_address};
    enum client_kind kind =
        connection->handshaking
            ? CLIENT_UNAUTHENTICATED
            : (enum client_kind)atomic_load_explicit(&io_thread->comes_as, memory_order_relaxed);
    enum admission entry = weir_client_counts_enter(
        service->client_counts, &limits, &connection->session.client_entry, address, kind, displace_client);
    connection->session.must_log_in = entry == ADMISSION_ADMIN_ONLY;
    connection->unauthenticated = connection->session.client_entry.unauthenticated;
    return entry;
}

void weir_connection_come_from(struct connection *connection, const char *address)
{
    struct io_thread *io_thread = connection->io_thread;
    struct service *service = io_thread->worker->service;
    enum admission entry = ADMISSION_FREE;
    if (!weir_session_is_of_proxy(&connection->session, io_thread->worker)) {
        weir_connection_close(connection, "it speaks the PROXY protocol and is not in trusted_proxies:");
        return;
    }
    connection->awaits_proxy = false;
    if (address) {
        weir_client_counts_leave(service->client_counts, &connection->session.client_entry);
        pthread_mutex_lock(&io_thread->mutex); /* others list the sessions */
        (void)snprintf(connection->session.address, sizeof connection->session.address, "%s", address);
        pthread_mutex_unlock(&io_thread->mutex);
        entry = admit_connection(connection, address);
    }
    if (entry == ADMISSION_REFUSED || entry == ADMISSION_ADDRESS_FULL) {
        atomic_fetch_add(&service->rejected, 1);
        weir_connection_close(connection, "as many clients as may be, in all or from its address");
        return;
    }
    weir_connection_settle(connection);
}

enum admission weir_connection_offer(struct io_thread *io_thread, const struct listen_socket *listener,
                                     int fd, const char *address, const char *local)
{
    struct connection *connection = calloc(1, sizeof *connection);
    if (!connection)
        return ADMISSION_REFUSED;
    connection->io_thread = io_thread;
    connection->transport.fd = fd;
    connection->handshaking = listener_is_tls(listener);
    connection->awaits_proxy = listener->proxy_protocol;
    connection->protocol = listener_is_http(listener) ? PROTOCOL_HTTP : PROTOCOL_RESP;
    connection->admin = listener->admin;
    connection->in.most = REQUEST_MAX + 2 * READ_SIZE;
    connection->out.most = OUTPUT_MOST;
    connection->callback = (struct loop_callback){.run = on_arrival, .arg = connection};
    weir_session_begin(&connection->session, io_thread->worker->service, address, local, weir_now());
    if (connection->protocol == PROTOCOL_HTTP)
        connection->session.version = 3; /* replies are made JSON of */
    enum admission entry = admit_connection(connection, address);
    if (entry == ADMISSION_REFUSED || entry == ADMISSION_ADDRESS_FULL) {
        free(connection);
        return entry;
    }
    atomic_fetch_add(&io_thread->load, 1);
    weir_loop_post(io_thread->loop, &connection->callback);
    return entry;
}
