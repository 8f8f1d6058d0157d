/* SPDX-License-Identifier: MIT */
/*
 * Bytes are read into the lane's own memory and run from there; only what is left of them is kept with the
 * connection. So an idle one has no buffers. Answers are collected in the lane's memory, too, written once at
 * the end of a slice, and kept with the connection only if the socket does not take them all, or if the store
 * has to have something first.
 */
#define _GNU_SOURCE

#include "server/connection.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "service/log.h"

#define LINGER_READ  65536
#define TIMER_MAX_MS INT64_C(3600000) /* a longer wait is looked at in between */

static void on_ready(void *arg, unsigned events);
static void settle(struct connection *connection, struct buffer *out);

/* Counters that one thread writes and others read. */
static void count(_Atomic int64_t *counter, int64_t by)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + by,
                          memory_order_relaxed);
}

static int64_t now_ms(const struct connection *connection)
{
    return weir_loop_now_ms(connection->lane->loop);
}

static bool is_stranger(const struct connection *connection)
{
    return !connection->session.logged_in &&
           (connection->session.must_log_in ||
            atomic_load_explicit(&connection->lane->comes_as, memory_order_relaxed) == ENTER_STRANGER);
}

/* Each counts once, from its arrival until it logs in or is gone; a RESET makes it one again. */
static void count_stranger(struct connection *connection)
{
    bool is = !connection->gone && is_stranger(connection);
    if (is == connection->stranger)
        return;
    connection->stranger = is;
    enum entry_kind kind = ENTER_ADMIN; /* needs no place of the others, or has one as a user */
    if (is)
        kind = ENTER_STRANGER;
    else if (!connection->gone && !connection->session.logged_in)
        kind = (enum entry_kind)atomic_load_explicit(&connection->lane->comes_as, memory_order_relaxed);
    weir_crowd_set_kind(connection->lane->worker->service->crowd, &connection->session.guest, kind);
}

static bool paused(const struct connection *connection)
{
    return buffer_len(&connection->out) > OUTPUT_PAUSE;
}

/* ---- the end ---------------------------------------------------------------------------------- */

static void unlink_from_lane(struct connection *connection)
{
    struct lane *lane = connection->lane;
    if (connection->before)
        connection->before->next = connection->next;
    else
        lane->connections = connection->next;
    if (connection->next)
        connection->next->before = connection->before;
}

static void let_go(struct connection *connection)
{
    struct lane *lane = connection->lane;
    lane->held -= (int64_t)connection->held;
    connection->held = 0;
    weir_parking_leave(connection);
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
    count_stranger(connection);
}

static void end_session(struct connection *connection)
{
    struct lane *lane = connection->lane;
    pthread_mutex_lock(&lane->mutex);
    weir_session_end(&connection->session, lane->worker);
    unlink_from_lane(connection);
    pthread_mutex_unlock(&lane->mutex);
    count(&lane->worker->connections, -1);
    atomic_fetch_sub(&lane->load, 1);
}

void weir_connection_close(struct connection *connection, const char *why)
{
    struct lane *lane = connection->lane;
    if (connection->gone)
        return;
    if (why)
        weir_log(LOG_INFO_LEVEL, "closed", LOG_TEXT("client", connection->session.address),
                 LOG_NUMBER("id", (int64_t)connection->session.id), LOG_TEXT("why", why));
    let_go(connection);
    if (connection->state == WORKING) /* the chore thread uses the session: finish_chore frees it */
        return;
    end_session(connection);
    if (!connection->in_again)
        free(connection);
    weir_lane_left(lane);
}

void weir_connection_free(struct connection *connection)
{
    struct buffer nothing = {.most = OUTPUT_MOST};
    enum run_state state;
    bool ended = connection->gone && connection->state != WORKING;
    if (connection->session.chore)
        weir_chore_finish(NULL, &connection->session, &nothing, &state);
    weir_buffer_free(&nothing);
    let_go(connection);
    if (!ended)
        end_session(connection);
    free(connection);
}

/* ---- output ----------------------------------------------------------------------------------- */

/* Bytes that wait for the socket alone. */
static size_t sendable(const struct connection *connection)
{
    return buffer_len(&connection->out) - connection->held_back;
}

static bool is_parked(const struct connection *connection)
{
    return connection->park != PARK_NONE;
}

/* What to watch for follows from where it stands. */
static bool watch_anew(struct connection *connection)
{
    unsigned events = sendable(connection) > 0 ? WATCH_WRITE : 0U;
    switch (connection->state) {
    case READING:
        if (!connection->more && !connection->ended && !paused(connection) && !is_parked(connection))
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
        count(&connection->lane->worker->output_bytes, sent);
        connection->wrote_ms = now_ms(connection);
    }
    return sent;
}

/* Writes answers; what the socket does not take is kept. false: it is broken. */
static bool deliver(struct connection *connection, struct buffer *out)
{
    if (out->failed)
        return false;
    size_t len = out == &connection->out ? sendable(connection) : buffer_len(out);
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
 * which are new: see hold_back. */
static struct buffer *where_to(struct connection *connection)
{
    struct lane *lane = connection->lane;
    return buffer_len(&connection->out) > 0 && !lane->parking.store ? &connection->out : &lane->out;
}

/* There is a store: new answers, in the lane's buffer, wait for it if something was changed, or if others
 * wait before them. Gives where those are that can be delivered. */
static struct buffer *hold_back(struct connection *connection, struct buffer *out)
{
    size_t len = buffer_len(out);
    if (weir_parking_changed(connection->lane))
        weir_parking_put(connection);
    if (!is_parked(connection) && buffer_len(&connection->out) == 0)
        return out;
    buffer_put(&connection->out, buffer_bytes(out), len);
    if (out->failed)
        connection->out.failed = true;
    if (is_parked(connection) && !connection->out.failed)
        connection->held_back += len;
    if (out->failed)
        weir_buffer_free(out);
    else
        weir_buffer_drop(out, len, OUTPUT_PAUSE);
    return &connection->out;
}

/* Everything was written that ever will be. To close at once could cost the client the answers that it has
 * not read yet, if there is something in the socket that we have not read. */
static void linger(struct connection *connection)
{
    if (connection->ended || shutdown(connection->fd, SHUT_WR) < 0) {
        weir_connection_close(connection, NULL);
        return;
    }
    connection->state = LINGERING;
    connection->linger_until_ms = now_ms(connection) + connection->lane->patience.linger_ms;
    weir_buffer_free(&connection->in);
    if (!watch_anew(connection))
        weir_connection_close(connection, "no memory to watch it");
}

static void discard(struct connection *connection)
{
    ssize_t got = recv(connection->fd, connection->lane->read_bytes, LINGER_READ, 0);
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
    struct lane *lane = connection->lane;
    connection->state = WAITING;
    if (lane->worker->service->options.test_clock)
        return; /* WEIR.CLOCK tells when to look */
    if (!connection->timer)
        connection->timer = weir_timer_new(lane->loop, on_due, connection);
    if (!connection->timer) {
        connection->state = LEAVING;
        return;
    }
    int64_t left_ns = connection->session.due_ns - weir_now();
    int64_t left_ms = left_ns > 0 ? left_ns / WEIR_MS + (left_ns % WEIR_MS > 0) : 0;
    weir_timer_set(connection->timer, left_ms < TIMER_MAX_MS ? left_ms : TIMER_MAX_MS, 0);
}

static void follow(struct connection *connection, enum run_state state)
{
    if (state == RUN_WAITS)
        wait_until_due(connection);
    else if (state == RUN_CHORE)
        connection->state = WORKING;
    else
        connection->state = state == RUN_CLOSE ? LEAVING : READING;
}

/* Runs a batch; gives where the bytes end that are done with. */
static size_t run_batch(struct connection *connection, const struct batch *batch, struct buffer *out)
{
    enum run_state state = RUN_READY;
    size_t ran = batch->count;
    if (batch->count > 0) {
        ran = weir_service_run(connection->lane->worker, &connection->session, batch->requests, batch->count,
                               out, &state);
        follow(connection, state);
        connection->asked_ms = now_ms(connection);
    }
    if (ran < batch->count)
        return ran > 0 ? batch->ends[ran - 1] : 0;
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
    struct batch batch;
    size_t used = 0, requests = 0;
    int64_t until_ns = weir_now() + SLICE_NS;
    pthread_mutex_lock(&connection->lane->mutex);
    do {
        weir_batch_read(&batch, connection->lane->args, is_stranger(connection), bytes + used, len - used);
        used += run_batch(connection, &batch, out);
        requests += batch.count;
    } while (connection->state == READING && batch.why == BATCH_FULL && requests < SLICE &&
             buffer_len(out) <= OUTPUT_PAUSE && !out->failed && weir_now() < until_ns);
    pthread_mutex_unlock(&connection->lane->mutex);
    count_stranger(connection);
    connection->more = used < len && (connection->state != READING || batch.why == BATCH_FULL);
    return used;
}

/* ---- after a slice ---------------------------------------------------------------------------- */

static void finish_chore(void *arg)
{
    struct connection *connection = arg;
    struct lane *lane = connection->lane;
    enum run_state state = RUN_READY;
    struct buffer *out = where_to(connection);
    connection->posted = false;
    if (connection->gone) {
        weir_connection_free(connection);
        weir_lane_left(lane);
        return;
    }
    pthread_mutex_lock(&lane->mutex);
    weir_chore_finish(lane->worker, &connection->session, out, &state);
    pthread_mutex_unlock(&lane->mutex);
    count_stranger(connection);
    follow(connection, state);
    settle(connection, out);
}

/* In the chore thread. */
static void do_chore(void *arg)
{
    struct connection *connection = arg;
    struct loop *home = connection->lane->loop;
    weir_chore_do(connection->session.chore);
    connection->order.run = finish_chore;
    weir_loop_post(home, &connection->order);
}

static void post_chore(struct connection *connection)
{
    connection->posted = true;
    connection->order = (struct order){.run = do_chore, .arg = connection};
    if (weir_chore_is_login(connection->session.chore) && connection->lane->logins)
        weir_loop_post(connection->lane->logins, &connection->order);
    else if (weir_chore_changes(connection->session.chore))
        weir_loop_post_ahead(connection->lane->chores, &connection->order);
    else
        weir_loop_post_in_turn(connection->lane->chores, &connection->order,
                               weir_chore_whose(connection->session.chore));
}

static bool holds_too_much(struct connection *connection)
{
    struct lane *lane = connection->lane;
    size_t held = connection->in.size + connection->out.size;
    lane->held += (int64_t)held - (int64_t)connection->held;
    connection->held = held;
    return lane->held > lane->held_most && held > HELD_FAIR;
}

/* Writes what was answered and decides how to go on. The connection may be gone afterwards. */
static void settle(struct connection *connection, struct buffer *out)
{
    if (connection->state == WORKING && !connection->posted)
        post_chore(connection);
    if (connection->lane->parking.store && out == &connection->lane->out)
        out = hold_back(connection, out);
    bool whole = !out->failed, good = deliver(connection, out);
    if (!good) /* the lane's buffer is the next one's */
        weir_buffer_free(out);
    if (!good || connection->in.failed || holds_too_much(connection)) {
        weir_connection_close(connection, good    ? "memory for connections is used up"
                                          : whole ? NULL
                                                  : "more answers than it may have waiting");
        return;
    }
    if (is_parked(connection) && connection->state == READING)
        return; /* watched as before: hardly anybody says more before he is answered, and then on_ready sees
                 * to it */
    if (connection->state == LEAVING && buffer_len(&connection->out) == 0 && !is_parked(connection)) {
        linger(connection);
        return;
    }
    if (connection->state == READING && !paused(connection)) {
        if (connection->more || (connection->lane->draining && buffer_len(&connection->out) == 0))
            weir_lane_again(connection->lane, connection);
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
    settle(connection, &connection->out);
}

/* false: nothing was read, and it has been seen to. */
static bool receive(struct connection *connection, char *bytes, size_t room, size_t *len)
{
    ssize_t got = recv(connection->fd, bytes, room, 0);
    if (got > 0) {
        count(&connection->lane->worker->input_bytes, got);
        connection->spoke = true;
        *len = (size_t)got;
        return true;
    }
    if (got == 0) {
        end_of_input(connection);
    } else if (errno != EAGAIN && errno != EINTR) {
        weir_connection_close(connection, NULL);
    } else if (connection->lane->draining && buffer_len(&connection->out) == 0) {
        if (connection->spoke)
            linger(connection);
        else
            weir_connection_close(connection, NULL);
    }
    return false;
}

static void run_kept(struct connection *connection)
{
    struct buffer *out = where_to(connection);
    size_t used = run_slice(connection, buffer_bytes(&connection->in), buffer_len(&connection->in), out);
    weir_buffer_drop(&connection->in, used, 0);
    settle(connection, out);
}

/* Much of a request is here already: what comes is put behind it. */
static void read_behind(struct connection *connection)
{
    size_t got;
    char *bytes = connection->lane->read_bytes;
    if (!receive(connection, bytes, READ_SIZE, &got))
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
    char *bytes = connection->lane->read_bytes + HEADROOM;
    if (!receive(connection, bytes, READ_SIZE, &got))
        return;
    if (kept > 0) {
        bytes -= kept;
        memcpy(bytes, buffer_bytes(&connection->in), kept);
        weir_buffer_drop(&connection->in, kept, HEADROOM);
    } else {
        connection->asked_ms = now_ms(connection);
    }
    struct buffer *out = where_to(connection);
    size_t used = run_slice(connection, bytes, kept + got, out);
    if (used < kept + got)
        buffer_put(&connection->in, bytes + used, kept + got - used);
    else if (connection->in.bytes)
        weir_buffer_free(&connection->in);
    settle(connection, out);
}

static void on_ready(void *arg, unsigned events)
{
    struct connection *connection = arg;
    if (connection->state == LINGERING) {
        discard(connection);
    } else if (connection->state == WAITING && events & WATCH_GONE) {
        weir_connection_close(connection, NULL); /* which gives back what it waited for */
    } else if (events & WATCH_WRITE && sendable(connection) > 0) {
        settle(connection, &connection->out);
    } else if (connection->state == READING && !connection->in_again && !is_parked(connection) &&
               events & (WATCH_READ | WATCH_GONE)) {
        read_more(connection);
    } else if (!watch_anew(connection)) {
        weir_connection_close(connection, "no memory to watch it");
    }
}

/* ---- by the lane ------------------------------------------------------------------------------ */

void weir_connection_go_on(struct connection *connection)
{
    connection->in_again = false;
    if (connection->gone && connection->state != WORKING)
        free(connection);
    else if (connection->gone || connection->state != READING || paused(connection) || is_parked(connection))
        return;
    else if (connection->more)
        run_kept(connection);
    else
        read_more(connection);
}

void weir_connection_look(struct connection *connection)
{
    struct lane *lane = connection->lane;
    struct buffer *out = where_to(connection);
    if (connection->state != WAITING)
        return;
    pthread_mutex_lock(&lane->mutex);
    bool due = weir_service_resume(lane->worker, &connection->session, out);
    pthread_mutex_unlock(&lane->mutex);
    if (!due) {
        wait_until_due(connection);
        return;
    }
    connection->state = connection->session.closing ? LEAVING : READING;
    connection->asked_ms = now_ms(connection);
    connection->more = buffer_len(&connection->in) > 0;
    settle(connection, out);
}

void weir_connection_release(struct connection *connection)
{
    connection->held_back = 0;
    connection->asked_ms = connection->wrote_ms = now_ms(connection); /* the time until now was not its own */
    settle(connection, &connection->out);
}

void weir_connection_drain(struct connection *connection)
{
    connection->spoke = false;
    if (connection->state == READING)
        weir_lane_again(connection->lane, connection);
}

static const char *out_of_patience(const struct connection *connection, int64_t time_ms)
{
    const struct patience *patience = &connection->lane->patience;
    bool half = buffer_len(&connection->in) > 0 && !connection->more;
    if (sendable(connection) > 0)
        return time_ms - connection->wrote_ms > patience->stuck_ms ? "does not read its answers" : NULL;
    if (is_parked(connection))
        return time_ms - connection->parked_ms > patience->stuck_ms && weir_parking_is_sick(connection)
                   ? "the disk takes nothing: whether what it asked for is kept is not known"
                   : NULL;
    if (connection->state != READING)
        return NULL;
    if (half && time_ms - connection->asked_ms > patience->stuck_ms)
        return "half a request and no more";
    if (is_stranger(connection) && time_ms - connection->began_ms > patience->stranger_ms)
        return "did not log in";
    if (patience->idle_ms > 0 && time_ms - connection->asked_ms > patience->idle_ms)
        return "idle";
    return NULL;
}

/* Has its login ended? What it still has to be answered comes first: the next watch looks again. */
static bool is_logged_out(const struct connection *connection)
{
    return connection->session.logged_in && !connection->gone && !is_parked(connection) &&
           (connection->state == READING || connection->state == WAITING) &&
           weir_session_has_ended(&connection->session, connection->lane->worker);
}

/* A client library answers a closed connection by a new login, and NOAUTH by an error each time. */
static void log_out(struct connection *connection)
{
    weir_log(LOG_INFO_LEVEL, "closed", LOG_TEXT("client", connection->session.address),
             LOG_NUMBER("id", (int64_t)connection->session.id), LOG_TEXT("user", connection->session.user),
             LOG_TEXT("why", "its password or rights were changed"));
    if (connection->state == WAITING) {
        weir_connection_close(connection, NULL);
        return;
    }
    connection->state = LEAVING;
    settle(connection, &connection->out);
}

void weir_connection_log_out(struct connection *connection)
{
    if (is_logged_out(connection))
        log_out(connection);
}

void weir_connection_watch(struct connection *connection, int64_t time_ms)
{
    const char *why = NULL;
    if (connection->gone)
        return;
    if (is_logged_out(connection)) {
        log_out(connection);
        return;
    }
    count_stranger(connection); /* a reload may have changed who is one */
    if (connection->state == LINGERING ? time_ms >= connection->linger_until_ms
                                       : (why = out_of_patience(connection, time_ms)) != NULL)
        weir_connection_close(connection, why);
}

/* ---- the beginning ---------------------------------------------------------------------------- */

/* In its lane. */
static void arrive(void *arg)
{
    struct connection *connection = arg;
    struct lane *lane = connection->lane;
    connection->watch = weir_watch_new(lane->loop, connection->fd, on_ready, connection);
    pthread_mutex_lock(&lane->mutex);
    connection->next = lane->connections;
    if (connection->next)
        connection->next->before = connection;
    lane->connections = connection;
    pthread_mutex_unlock(&lane->mutex);
    count(&lane->worker->connections, 1);
    connection->began_ms = connection->asked_ms = connection->wrote_ms = now_ms(connection);
    if (!connection->watch || !watch_anew(connection))
        weir_connection_close(connection, "no memory to watch it");
    else if (connection->displaced) /* before it was in the list that is looked through for such */
        weir_connection_close(connection, NULL);
    else if (lane->draining)
        weir_connection_drain(connection);
}

/* Another one needs its place. By the thread of the door, under the crowd's lock. */
static void displace(struct guest *guest)
{
    struct session *session = (struct session *)(void *)((char *)guest - offsetof(struct session, guest));
    struct connection *connection =
        (struct connection *)(void *)((char *)session - offsetof(struct connection, session));
    connection->displaced = true;
    atomic_fetch_add(&connection->lane->worker->service->displaced, 1);
    weir_lane_wish(connection->lane, WISH_KILL);
}

static enum entry enter(struct connection *connection, const char *address)
{
    struct lane *lane = connection->lane;
    struct service *service = lane->worker->service;
    const struct crowd_limits limits = {.most = service->max_clients, .per_address = service->per_address};
    enum entry_kind kind = (enum entry_kind)atomic_load_explicit(&lane->comes_as, memory_order_relaxed);
    enum entry entry =
        weir_crowd_enter(service->crowd, &limits, &connection->session.guest, address, kind, displace);
    connection->session.must_log_in = entry == ENTRY_KEPT;
    connection->stranger = connection->session.guest.stranger;
    return entry;
}

enum entry weir_connection_offer(struct lane *lane, int fd, const char *address, const char *local)
{
    struct connection *connection = calloc(1, sizeof *connection);
    if (!connection)
        return ENTRY_REFUSED;
    connection->lane = lane;
    connection->fd = fd;
    connection->in.most = REQUEST_MAX + 2 * READ_SIZE;
    connection->out.most = OUTPUT_MOST;
    connection->order = (struct order){.run = arrive, .arg = connection};
    weir_session_begin(&connection->session, lane->worker->service, address, local, weir_now());
    enum entry entry = enter(connection, address);
    if (entry == ENTRY_REFUSED || entry == ENTRY_ADDRESS) {
        free(connection);
        return entry;
    }
    atomic_fetch_add(&lane->load, 1);
    weir_loop_post(lane->loop, &connection->order);
    return entry;
}
