/* SPDX-License-Identifier: MIT */
/*
 * Bytes are read into the I/O thread's own memory and run from there; only what is left of them is kept with
 * the connection. So an idle one has no buffers. Answers are collected in the I/O thread's memory, too,
 * written once at the end of a slice, and kept with the connection only if the socket does not take them all,
 * or if the store has to have something first.
 */
#define _GNU_SOURCE

#include "server/connection.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "service/pending.h"
#include "service/run.h"

#define LINGER_READ  65536
#define TIMER_MAX_MS INT64_C(3600000) /* a longer wait is looked at in between */

static void on_socket_ready(void *arg, unsigned events);
static void settle_output(struct connection *connection, struct buffer *out);

/* Counters that one thread writes and others read. */
static void add_to_counter(_Atomic int64_t *counter, int64_t by)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + by,
                          memory_order_relaxed);
}

static int64_t now_ms(const struct connection *connection)
{
    return weir_loop_now_ms(connection->io_thread->loop);
}

static bool is_unauthenticated(const struct connection *connection)
{
    return !connection->session.logged_in &&
           (connection->session.must_log_in ||
            atomic_load_explicit(&connection->io_thread->comes_as, memory_order_relaxed) ==
                CLIENT_UNAUTHENTICATED);
}

/* Each counts once, from its arrival until it logs in or is gone; a RESET makes it one again. */
static void count_unauthenticated(struct connection *connection)
{
    bool is = !connection->gone && is_unauthenticated(connection);
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

static bool is_output_paused(const struct connection *connection)
{
    return buffer_len(&connection->out) > OUTPUT_PAUSE;
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
    connection->held_back = 0;
    weir_timer_free(connection->timer);
    weir_watch_free(connection->watch);
    connection->timer = NULL;
    connection->watch = NULL;
    if (connection->fd >= 0)
        close(connection->fd);
    connection->fd = -1;
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
    if (connection->state == WORKING) /* the job thread uses the session: on_job_done frees it */
        return;
    end_connection_session(connection);
    if (!connection->in_again)
        free(connection);
    weir_io_thread_left(io_thread);
}

void weir_connection_free(struct connection *connection)
{
    bool ended = connection->gone && connection->state != WORKING;
    close_connection(connection);
    if (!ended)
        end_connection_session(connection);
    free(connection);
}

/* ---- output ----------------------------------------------------------------------------------- */

/* Bytes that wait for the socket alone. */
static size_t sendable_bytes(const struct connection *connection)
{
    return buffer_len(&connection->out) - connection->held_back;
}

static bool waits_for_disk(const struct connection *connection)
{
    return connection->disk_wait_stage != DISK_WAIT_NONE;
}

/* What to watch for follows from where it stands. */
static bool watch_anew(struct connection *connection)
{
    unsigned events = sendable_bytes(connection) > 0 ? WATCH_WRITE : 0U;
    switch (connection->state) {
    case READING:
        if (!connection->more && !connection->ended && !is_output_paused(connection) &&
            !waits_for_disk(connection))
            events |= WATCH_READ;
        break;
    case WAITING:
        events |= WATCH_GONE;
        break;
    case LINGERING:
        events = WATCH_READ;
        break;
    case WORKING:
    case LEAVING:
        break;
    }
    return weir_watch_for(connection->watch, events);
}

/* Gives how many bytes the socket took; -1: it is broken. */
static ssize_t write_some(struct connection *connection, const char *bytes, size_t len)
{
    ssize_t sent;
    do
        sent = send(connection->fd, bytes, len, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    if (sent < 0)
        return errno == EAGAIN ? 0 : -1;
    if (sent > 0) {
        add_to_counter(&connection->io_thread->worker->output_bytes, sent);
        connection->wrote_ms = now_ms(connection);
    }
    return sent;
}

/* Writes answers; what the socket does not take is kept. false: it is broken. */
static bool deliver_output(struct connection *connection, struct buffer *out)
{
    if (out->failed)
        return false;
    size_t len = out == &connection->out ? sendable_bytes(connection) : buffer_len(out);
    if (len == 0)
        return true;
    ssize_t sent = write_some(connection, buffer_bytes(out), len);
    if (sent < 0)
        return false;
    if (out == &connection->out) {
        weir_buffer_drop(out, (size_t)sent, 0);
        return true;
    }
    if ((size_t)sent < len) {
        buffer_put(&connection->out, buffer_bytes(out) + sent, len - (size_t)sent);
        connection->wrote_ms = now_ms(connection);
    }
    weir_buffer_drop(out, len, OUTPUT_PAUSE);
    return !connection->out.failed;
}

/* Where the next answers go: behind those that still wait, if there are any. With a store it has to be known
 * which are new: see hold_back_output. */
static struct buffer *choose_output(struct connection *connection)
{
    struct io_thread *io_thread = connection->io_thread;
    return buffer_len(&connection->out) > 0 && !io_thread->disk_wait.store ? &connection->out
                                                                           : &io_thread->out;
}

/* There is a store: new answers, in the I/O thread's buffer, wait for it if something was changed, or if
 * others wait before them. Gives where those are that can be delivered. */
static struct buffer *hold_back_output(struct connection *connection, struct buffer *out)
{
    size_t len = buffer_len(out);
    if (connection->changed)
        weir_disk_wait_add(connection);
    connection->changed = false;
    if (!waits_for_disk(connection) && buffer_len(&connection->out) == 0)
        return out;
    buffer_put(&connection->out, buffer_bytes(out), len);
    if (out->failed)
        connection->out.failed = true;
    if (waits_for_disk(connection) && !connection->out.failed)
        connection->held_back += len;
    if (out->failed)
        weir_buffer_free(out);
    else
        weir_buffer_drop(out, len, OUTPUT_PAUSE);
    return &connection->out;
}

/* Everything was written that ever will be. To close at once could cost the client the answers that it has
 * not read yet, if there is something in the socket that we have not read. */
static void begin_linger(struct connection *connection)
{
    if (connection->ended || shutdown(connection->fd, SHUT_WR) < 0) {
        weir_connection_close(connection, NULL);
        return;
    }
    connection->state = LINGERING;
    connection->linger_until_ms = now_ms(connection) + connection->io_thread->timeouts.linger_ms;
    weir_buffer_free(&connection->in);
    if (!watch_anew(connection))
        weir_connection_close(connection, "no memory to watch it");
}

static void discard_input(struct connection *connection)
{
    ssize_t got = recv(connection->fd, connection->io_thread->read_bytes, LINGER_READ, 0);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
        weir_connection_close(connection, NULL);
}

/* ---- running ---------------------------------------------------------------------------------- */

static void on_due(void *arg)
{
    weir_connection_look(arg);
}

static void wait_until_due(struct connection *connection)
{
    struct io_thread *io_thread = connection->io_thread;
    connection->state = WAITING;
    if (io_thread->worker->service->options.test_clock)
        return; /* WEIR.CLOCK tells when to look */
    if (!connection->timer)
        connection->timer = weir_timer_new(io_thread->loop, on_due, connection);
    if (!connection->timer) {
        connection->state = LEAVING;
        return;
    }
    int64_t left_ns = connection->session.pending->due_ns - weir_now();
    int64_t left_ms = left_ns > 0 ? left_ns / WEIR_MS + (left_ns % WEIR_MS > 0) : 0;
    weir_timer_set(connection->timer, left_ms < TIMER_MAX_MS ? left_ms : TIMER_MAX_MS, 0);
}

static void follow_run(struct connection *connection, const struct run_result *result)
{
    connection->changed |= result->changed;
    connection->io_thread->disk_wait.uncommitted |= result->changed;
    if (result->state != RUN_PENDING)
        connection->state = result->state == RUN_CLOSE ? LEAVING : READING;
    else if (pending_waits(connection->session.pending))
        wait_until_due(connection);
    else
        connection->state = WORKING;
}

/* Runs a batch; gives where the bytes end that are done with. */
static size_t run_batch(struct connection *connection, const struct request_batch *batch, struct buffer *out)
{
    if (batch->count > 0) {
        struct run_result result = weir_service_run(connection->io_thread->worker, &connection->session,
                                                    batch->requests, batch->count, out);
        follow_run(connection, &result);
        connection->asked_ms = now_ms(connection);
        if (result.done < batch->count)
            return result.done > 0 ? batch->ends[result.done - 1] : 0;
    }
    if (connection->state != READING || batch->why == BATCH_FULL || batch->why == BATCH_MORE)
        return batch->end;
    connection->state = LEAVING;
    if (batch->why == BATCH_BAD) {
        struct reply reply = {out, connection->session.version};
        weir_reply_error(&reply, "ERR %s", batch->got.why);
    }
    return batch->end;
}

/* Runs a slice of what was read, and answers to `out`; gives how many bytes are done with. */
static size_t run_slice(struct connection *connection, char *bytes, size_t len, struct buffer *out)
{
    struct request_batch batch;
    size_t used = 0, requests = 0;
    int64_t until_ns = weir_now() + SLICE_NS;
    pthread_mutex_lock(&connection->io_thread->mutex);
    do {
        weir_batch_read(&batch, connection->io_thread->args, is_unauthenticated(connection), bytes + used,
                        len - used);
        used += run_batch(connection, &batch, out);
        requests += batch.count;
    } while (connection->state == READING && batch.why == BATCH_FULL && requests < SLICE &&
             buffer_len(out) <= OUTPUT_PAUSE && !out->failed && weir_now() < until_ns);
    pthread_mutex_unlock(&connection->io_thread->mutex);
    count_unauthenticated(connection);
    connection->more = used < len && (connection->state != READING || batch.why == BATCH_FULL);
    return used;
}

/* ---- after a slice ---------------------------------------------------------------------------- */

static void on_job_done(void *arg)
{
    struct connection *connection = arg;
    struct io_thread *io_thread = connection->io_thread;
    struct buffer *out = choose_output(connection);
    connection->posted = false;
    if (connection->gone) {
        weir_connection_free(connection);
        weir_io_thread_left(io_thread);
        return;
    }
    pthread_mutex_lock(&io_thread->mutex);
    struct run_result result = weir_service_resume(io_thread->worker, &connection->session, out);
    pthread_mutex_unlock(&io_thread->mutex);
    count_unauthenticated(connection);
    follow_run(connection, &result);
    settle_output(connection, out);
}

/* In the job thread. */
static void do_job(void *arg)
{
    struct connection *connection = arg;
    struct loop *home = connection->io_thread->loop;
    weir_pending_work(connection->io_thread->worker->service, &connection->session);
    connection->callback.run = on_job_done;
    weir_loop_post(home, &connection->callback);
}

static void post_job(struct connection *connection)
{
    const struct pending *pending = connection->session.pending;
    connection->posted = true;
    connection->callback = (struct loop_callback){.run = do_job, .arg = connection};
    if (pending->cause == PENDING_LOGIN && connection->io_thread->logins)
        weir_loop_post(connection->io_thread->logins, &connection->callback);
    else if (weir_pending_changes(pending))
        weir_loop_post_ahead(connection->io_thread->jobs, &connection->callback);
    else
        weir_loop_post_in_turn(connection->io_thread->jobs, &connection->callback,
                               weir_pending_whose(&connection->session));
}

static bool buffers_too_much(struct connection *connection)
{
    struct io_thread *io_thread = connection->io_thread;
    size_t buffered = connection->in.size + connection->out.size;
    io_thread->buffered += (int64_t)buffered - (int64_t)connection->buffered;
    connection->buffered = buffered;
    return io_thread->buffered > io_thread->buffered_max && buffered > BUFFERED_FAIR;
}

/* Writes what was answered and decides how to go on. The connection may be gone afterwards. */
static void settle_output(struct connection *connection, struct buffer *out)
{
    if (connection->state == WORKING && !connection->posted)
        post_job(connection);
    if (connection->io_thread->disk_wait.store && out == &connection->io_thread->out)
        out = hold_back_output(connection, out);
    bool whole = !out->failed, good = deliver_output(connection, out);
    if (!good) /* the I/O thread's buffer is the next one's */
        weir_buffer_free(out);
    if (!good || connection->in.failed || buffers_too_much(connection)) {
        weir_connection_close(connection, good    ? "memory for connections is used up"
                                          : whole ? NULL
                                                  : "more answers than it may have waiting");
        return;
    }
    if (waits_for_disk(connection) && connection->state == READING)
        return; /* watched as before: hardly anybody says more before he is answered, and then on_socket_ready
                 * sees to it */
    if (connection->state == LEAVING && buffer_len(&connection->out) == 0 && !waits_for_disk(connection)) {
        begin_linger(connection);
        return;
    }
    if (connection->state == READING && !is_output_paused(connection)) {
        if (connection->more || (connection->io_thread->draining && buffer_len(&connection->out) == 0))
            weir_io_thread_again(connection->io_thread, connection);
        else if (connection->ended)
            connection->state = LEAVING;
    }
    if (!watch_anew(connection))
        weir_connection_close(connection, "no memory to watch it");
}

/* ---- input ------------------------------------------------------------------------------------ */

/* It will say nothing more; what it has asked is still answered. */
static void end_of_input(struct connection *connection)
{
    connection->ended = true;
    if (buffer_len(&connection->out) == 0) {
        weir_connection_close(connection, NULL);
        return;
    }
    connection->state = LEAVING;
    settle_output(connection, &connection->out);
}

/* false: nothing was read, and it has been seen to. */
static bool receive_bytes(struct connection *connection, char *bytes, size_t room, size_t *len)
{
    ssize_t got = recv(connection->fd, bytes, room, 0);
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
    } else if (connection->io_thread->draining && buffer_len(&connection->out) == 0) {
        if (connection->spoke)
            begin_linger(connection);
        else
            weir_connection_close(connection, NULL);
    }
    return false;
}

static void run_kept(struct connection *connection)
{
    struct buffer *out = choose_output(connection);
    size_t used = run_slice(connection, buffer_bytes(&connection->in), buffer_len(&connection->in), out);
    weir_buffer_drop(&connection->in, used, 0);
    settle_output(connection, out);
}

/* Much of a request is here already: what comes is put behind it. */
static void read_behind(struct connection *connection)
{
    size_t got;
    char *bytes = connection->io_thread->read_bytes;
    if (!receive_bytes(connection, bytes, READ_SIZE, &got))
        return;
    buffer_put(&connection->in, bytes, got);
    run_kept(connection);
}

static void read_more(struct connection *connection)
{
    size_t kept = buffer_len(&connection->in), got;
    if (kept > HEADROOM) {
        read_behind(connection);
        return;
    }
    char *bytes = connection->io_thread->read_bytes + HEADROOM;
    if (!receive_bytes(connection, bytes, READ_SIZE, &got))
        return;
    if (kept > 0) {
        bytes -= kept;
        memcpy(bytes, buffer_bytes(&connection->in), kept);
        weir_buffer_drop(&connection->in, kept, HEADROOM);
    } else {
        connection->asked_ms = now_ms(connection);
    }
    struct buffer *out = choose_output(connection);
    size_t used = run_slice(connection, bytes, kept + got, out);
    if (used < kept + got)
        buffer_put(&connection->in, bytes + used, kept + got - used);
    else if (connection->in.bytes)
        weir_buffer_free(&connection->in);
    settle_output(connection, out);
}

static void on_socket_ready(void *arg, unsigned events)
{
    struct connection *connection = arg;
    if (connection->state == LINGERING) {
        discard_input(connection);
    } else if (connection->state == WAITING && events & WATCH_GONE) {
        weir_connection_close(connection, NULL); /* which gives back what it waited for */
    } else if (events & WATCH_WRITE && sendable_bytes(connection) > 0) {
        settle_output(connection, &connection->out);
    } else if (connection->state == READING && !connection->in_again && !waits_for_disk(connection) &&
               events & (WATCH_READ | WATCH_GONE)) {
        read_more(connection);
    } else if (!watch_anew(connection)) {
        weir_connection_close(connection, "no memory to watch it");
    }
}

/* ---- by the I/O thread ------------------------------------------------------------------------------ */

void weir_connection_go_on(struct connection *connection)
{
    connection->in_again = false;
    if (connection->gone && connection->state != WORKING)
        free(connection);
    else if (connection->gone || connection->state != READING || is_output_paused(connection) ||
             waits_for_disk(connection))
        return;
    else if (connection->more)
        run_kept(connection);
    else
        read_more(connection);
}

void weir_connection_look(struct connection *connection)
{
    struct io_thread *io_thread = connection->io_thread;
    struct buffer *out = choose_output(connection);
    if (connection->state != WAITING)
        return;
    pthread_mutex_lock(&io_thread->mutex);
    struct run_result result = weir_service_resume(io_thread->worker, &connection->session, out);
    pthread_mutex_unlock(&io_thread->mutex);
    follow_run(connection, &result);
    if (connection->state == WAITING)
        return;
    connection->asked_ms = now_ms(connection);
    connection->more = buffer_len(&connection->in) > 0;
    settle_output(connection, out);
}

void weir_connection_release(struct connection *connection)
{
    connection->held_back = 0;
    connection->asked_ms = connection->wrote_ms = now_ms(connection); /* the time until now was not its own */
    settle_output(connection, &connection->out);
}

void weir_connection_drain(struct connection *connection)
{
    connection->spoke = false;
    if (connection->state == READING)
        weir_io_thread_again(connection->io_thread, connection);
}

static const char *out_of_patience(const struct connection *connection, int64_t time_ms)
{
    const struct io_timeouts *timeouts = &connection->io_thread->timeouts;
    bool half = buffer_len(&connection->in) > 0 && !connection->more;
    if (sendable_bytes(connection) > 0)
        return time_ms - connection->wrote_ms > timeouts->stuck_ms ? "does not read its answers" : NULL;
    if (waits_for_disk(connection))
        return time_ms - connection->disk_wait_ms > timeouts->stuck_ms && weir_disk_wait_is_stuck(connection)
                   ? "the disk takes nothing: whether what it asked for is kept is not known"
                   : NULL;
    if (connection->state != READING)
        return NULL;
    if (half && time_ms - connection->asked_ms > timeouts->stuck_ms)
        return "half a request and no more";
    if (is_unauthenticated(connection) && time_ms - connection->began_ms > timeouts->login_timeout_ms)
        return "did not log in";
    if (timeouts->idle_ms > 0 && time_ms - connection->asked_ms > timeouts->idle_ms)
        return "idle";
    return NULL;
}

/* Has its login ended? What it still has to be answered comes first: the next watch looks again. */
static bool is_logged_out(const struct connection *connection)
{
    return connection->session.logged_in && !connection->gone && !waits_for_disk(connection) &&
           (connection->state == READING || connection->state == WAITING) &&
           weir_session_has_ended(&connection->session, connection->io_thread->worker);
}

/* A client library answers a closed connection by a new login, and NOAUTH by an error each time. */
static void log_out_connection(struct connection *connection)
{
    weir_log(LOG_INFO_LEVEL, "closed", LOG_TEXT("client", connection->session.address),
             LOG_NUMBER("id", (int64_t)connection->session.id), LOG_TEXT("user", connection->session.user),
             LOG_TEXT("why", "its password or rights were changed"));
    if (connection->state == WAITING) {
        weir_connection_close(connection, NULL);
        return;
    }
    connection->state = LEAVING;
    settle_output(connection, &connection->out);
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

/* In its I/O thread. */
static void on_arrival(void *arg)
{
    struct connection *connection = arg;
    struct io_thread *io_thread = connection->io_thread;
    connection->watch = weir_watch_new(io_thread->loop, connection->fd, on_socket_ready, connection);
    pthread_mutex_lock(&io_thread->mutex);
    connection->next = io_thread->connections;
    if (connection->next)
        connection->next->before = connection;
    io_thread->connections = connection;
    pthread_mutex_unlock(&io_thread->mutex);
    add_to_counter(&io_thread->worker->connections, 1);
    connection->began_ms = connection->asked_ms = connection->wrote_ms = now_ms(connection);
    if (!connection->watch || !watch_anew(connection))
        weir_connection_close(connection, "no memory to watch it");
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
    const struct client_count_limits limits = {.most = service->max_clients,
                                               .per_address = service->per_address};
    enum client_kind kind =
        (enum client_kind)atomic_load_explicit(&io_thread->comes_as, memory_order_relaxed);
    enum admission entry = weir_client_counts_enter(
        service->client_counts, &limits, &connection->session.client_entry, address, kind, displace_client);
    connection->session.must_log_in = entry == ADMISSION_ADMIN_ONLY;
    connection->unauthenticated = connection->session.client_entry.unauthenticated;
    return entry;
}

enum admission weir_connection_offer(struct io_thread *io_thread, int fd, const char *address,
                                     const char *local)
{
    struct connection *connection = calloc(1, sizeof *connection);
    if (!connection)
        return ADMISSION_REFUSED;
    connection->io_thread = io_thread;
    connection->fd = fd;
    connection->in.most = REQUEST_MAX + 2 * READ_SIZE;
    connection->out.most = OUTPUT_MOST;
    connection->callback = (struct loop_callback){.run = on_arrival, .arg = connection};
    weir_session_begin(&connection->session, io_thread->worker->service, address, local, weir_now());
    enum admission entry = admit_connection(connection, address);
    if (entry == ADMISSION_REFUSED || entry == ADMISSION_ADDRESS_FULL) {
        free(connection);
        return entry;
    }
    atomic_fetch_add(&io_thread->load, 1);
    weir_loop_post(io_thread->loop, &connection->callback);
    return entry;
}
