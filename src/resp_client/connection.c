/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "resp_client/connection.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/random.h"
#include "base/sat.h"
#include "base/secret.h"
#include "os/clock_kernel.h"

#define READ_SIZE      16384
#define BUFFER_KEPT    65536
#define PAUSE_LEAST_NS (10 * WEIR_MS)
#define ROUND_NS       WEIR_SEC /* the longest sleep: poll's clock stands still while the machine is suspended */

struct client_request *weir_client_request_new(const struct server_host *host, const char *bytes, size_t len,
                                               int64_t deadline_ns)
{
    struct client_request *request = malloc(sizeof *request + len);
    if (!request)
        return NULL;
    *request = (struct client_request){.host = *host, .deadline_ns = deadline_ns, .answers = 1, .len = len};
    memcpy(request->bytes, bytes, len);
    return request;
}

void weir_resp_connection_init(struct resp_connection *connection, struct resp_connection_owner *owner,
                               const struct server_host *host)
{
    *connection = (struct resp_connection){.owner = owner, .host = *host, .fd = -1};
    client_requests_init(&connection->expected);
    client_requests_init(&connection->waiting);
    connection->in.most = owner->in_most;
}

bool weir_resp_connection_secure(struct resp_connection_owner *owner, const struct url_tls *tls,
                                 struct weir_error *err)
{
    if (!tls || !tls->on)
        return true;
    struct tls_files files = {.cert = tls->cert[0] ? tls->cert : NULL,
                              .key = tls->key[0] ? tls->key : NULL,
                              .ca = tls->cacert[0] ? tls->cacert : NULL};
    owner->tls = weir_tls_client(&files, tls->insecure, err);
    return owner->tls != NULL;
}

bool weir_resp_connection_is_idle(const struct resp_connection *connection)
{
    return connection->expected.count + connection->waiting.count == 0;
}

/* ---- the end of a connection ------------------------------------------------------------------ */

static void fail_requests(struct resp_connection *connection, struct client_request_list *list,
                          const char *why)
{
    struct client_request_list all = client_requests_take_all(list);
    for (struct client_request *request; (request = client_requests_take(&all));)
        connection->owner->answered(connection->owner, request, NULL,
                                    list == &connection->expected && request->start < connection->written,
                                    why);
}

static void close_resp_connection(struct resp_connection *connection)
{
    weir_tls_session_free(connection->tls);
    connection->tls = NULL;
    if (connection->fd >= 0)
        (void)close(connection->fd);
    connection->fd = -1;
    connection->address = NULL;
    connection->ends = NULL;
    weir_lookup_drop(connection->lookup);
    connection->lookup = NULL;
    if (connection->out.bytes)
        weir_secret_wipe(connection->out.bytes, connection->out.size); /* it may have the password */
    weir_buffer_free(&connection->out);
    weir_buffer_free(&connection->in);
    connection->state = CONNECTION_IDLE;
}

/* Closed: everything is answered with NULL, and nothing is tried again before a pause, which grows until a
 * connection has opened. */
static void resp_connection_fail(struct resp_connection *connection, int64_t now, int code,
                                 const char *reason)
{
    char why[RESP_CLIENT_WHY_MAX];
    bool six = strchr(connection->host.name, ':') != NULL;
    connection->failure = (struct resp_failure){.state = connection->state, .code = code};
    (void)snprintf(connection->failure.reason, sizeof connection->failure.reason, "%s", reason);
    (void)snprintf(why, sizeof why, "%s%.84s%s:%d: %.64s", six ? "[" : "", connection->host.name,
                   six ? "]" : "", connection->host.port, reason);
    close_resp_connection(connection);
    connection->retry_ns = now + random_backoff(&connection->owner->random, &connection->pause_ns,
                                                PAUSE_LEAST_NS, connection->owner->pause_most_ns);
    struct client_request_list waiting = client_requests_take_all(&connection->waiting);
    fail_requests(connection, &connection->expected, why);
    fail_requests(connection, &waiting, why);
    if (connection->owner->closed)
        connection->owner->closed(connection->owner->arg, &connection->host, why);
}

/* an errno value */
static void resp_connection_fault(struct resp_connection *connection, int64_t now, int error)
{
    char reason[RESP_FAILURE_MAX];
    if (connection->tls && error == EPROTO) {
        (void)snprintf(reason, sizeof reason, "TLS: %.150s", weir_tls_fault(connection->tls));
        resp_connection_fail(connection, now, EKEYREJECTED, reason);
        return;
    }
    char said[ERROR_REASON_MAX];
    resp_connection_fail(connection, now, error, weir_error_reason(said, error));
}

void weir_resp_connection_free(struct resp_connection *connection)
{
    close_resp_connection(connection);
    fail_requests(connection, &connection->expected, "the connection is being closed");
    fail_requests(connection, &connection->waiting, "the connection is being closed");
}

/*
 * How a connection comes to be open: a name is resolved, its addresses are tried, the server is greeted.
 */

/* ---- greeting --------------------------------------------------------------------------------- */

static void send_handshake(struct resp_connection *connection, const char *const *words, size_t count)
{
    struct slice slices[8];
    size_t before = buffer_len(&connection->out);
    for (size_t i = 0; i < count; i++)
        slices[i] = (struct slice){words[i], strlen(words[i])};
    weir_resp_ask(&connection->out, slices, count);
    connection->put += buffer_len(&connection->out) - before;
}

static void begin_handshake(struct resp_connection *connection, enum handshake_step handshake)
{
    const struct resp_connection_owner *owner = connection->owner;
    const char *user = owner->user[0] ? owner->user : "default";
    char number[24];
    connection->handshake = handshake;
    if (handshake == HANDSHAKE_HELLO) {
        send_handshake(connection, (const char *[]){"HELLO", "3", "AUTH", user, owner->password},
                       owner->password[0] ? 5 : 2);
    } else if (handshake == HANDSHAKE_AUTH) {
        const char *words[] = {"AUTH", user, owner->password};
        if (!owner->user[0])
            words[1] = owner->password; /* servers without users know no other form */
        send_handshake(connection, words, owner->user[0] ? 3 : 2);
    } else {
        (void)snprintf(number, sizeof number, "%lld", (long long)owner->database);
        send_handshake(connection, (const char *[]){"SELECT", number}, 2);
    }
}

static void open_connection(struct resp_connection *connection)
{
    if (connection->out.bytes)
        weir_secret_wipe(connection->out.bytes,
                         connection->out.size); /* nothing is in it but what was sent */
    connection->state = CONNECTION_OPEN;
    connection->pause_ns = 0;
    if (connection->owner->opened)
        connection->owner->opened(connection->owner->arg, &connection->host);
}

/* CONNECTION_HANDSHAKE */
static void resp_connection_handshake_reply(struct resp_connection *connection, int64_t now,
                                            const struct resp_value *value)
{
    char reason[RESP_FAILURE_MAX];
    bool error = value->type == RESP_ERROR;
    bool old = error && !connection->owner->needs_resp3 && connection->handshake == HANDSHAKE_HELLO &&
               value->text.len >= 4 &&
               (memcmp(value->text.bytes, "ERR ", 4) == 0 || memcmp(value->text.bytes, "NOPR", 4) == 0);
    if (error && !old) {
        (void)snprintf(reason, sizeof reason, "%.*s", (int)min64((int64_t)value->text.len, sizeof reason - 1),
                       value->text.bytes);
        resp_connection_fail(connection, now, EACCES, reason);
    } else if (old && connection->owner->password[0]) {
        begin_handshake(connection, HANDSHAKE_AUTH);
    } else if (connection->handshake != HANDSHAKE_SELECT && connection->owner->database != 0) {
        begin_handshake(connection, HANDSHAKE_SELECT);
    } else {
        open_connection(connection);
    }
}

/* ---- connecting ------------------------------------------------------------------------------- */

static void connection_established(struct resp_connection *connection, int64_t now)
{
    int one = 1;
    (void)setsockopt(connection->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    (void)setsockopt(connection->fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
    connection->state = CONNECTION_HANDSHAKE;
    if (connection->owner->tls && connection->host.name[0] != '/') {
        connection->tls = weir_tls_connect(connection->owner->tls, connection->fd, connection->host.name);
        if (!connection->tls) {
            resp_connection_fault(connection, now, ENOMEM);
            return;
        }
    }
    begin_handshake(connection, HANDSHAKE_HELLO);
}

/* Tries connection->address and those behind it. */
static void connect_next_address(struct resp_connection *connection, int64_t now, int error)
{
    for (; connection->address; connection->address = connection->address->ai_next) {
        const struct addrinfo *address = connection->address;
        connection->fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (connection->fd < 0) {
            error = errno;
            continue;
        }
        if (connect(connection->fd, address->ai_addr, address->ai_addrlen) == 0) {
            connection_established(connection, now);
            return;
        }
        error = errno;
        if (error == EINPROGRESS) {
            connection->state = CONNECTION_CONNECTING;
            return;
        }
        (void)close(connection->fd);
        connection->fd = -1;
        if (error ==
            EAGAIN) { /* of a unix socket: too many wait there already, and nothing tells when fewer */
            connection->state = CONNECTION_RESOLVING;
            connection->retry_ns = now + PAUSE_LEAST_NS;
            return;
        }
    }
    resp_connection_fault(connection, now, error);
}

/* CONNECTION_CONNECTING: it is, or is not */
static void resp_connection_connected(struct resp_connection *connection, int64_t now)
{
    int error = 0;
    socklen_t size = sizeof error;
    if (getsockopt(connection->fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
        error = errno;
    if (error == 0) {
        connection_established(connection, now);
        return;
    }
    (void)close(connection->fd);
    connection->fd = -1;
    connection->address = connection->address->ai_next;
    connect_next_address(connection, now, error);
}

void weir_resp_connection_begin(struct resp_connection *connection, int64_t now)
{
    connection->until_ns = now + connection->owner->connect_ns;
    connection->put = connection->written = 0;
    connection->lookup = weir_lookup_begin(&connection->host, connection->owner->wakeup);
    connection->state = CONNECTION_RESOLVING;
    if (!connection->lookup)
        resp_connection_fail(connection, now, EAGAIN, "too many names are being looked up");
}

/* CONNECTION_RESOLVING: perhaps the name is known now */
static void resp_connection_resolved(struct resp_connection *connection, int64_t now)
{
    const char *why;
    if (now < connection->retry_ns || !weir_lookup_done(connection->lookup, &connection->address, &why))
        return;
    if (connection->address)
        connect_next_address(connection, now, 0);
    else
        resp_connection_fail(connection, now, EHOSTUNREACH, why);
}

/* ---- what goes out ---------------------------------------------------------------------------- */

void weir_resp_connection_request(struct resp_connection *connection, struct client_request *request,
                                  int64_t now)
{
    connection->used_ns = now;
    client_requests_add(&connection->waiting, request);
}

static void append_output(struct resp_connection *connection, const char *bytes, size_t len)
{
    buffer_put(&connection->out, bytes, len);
    connection->put += len;
}

/* As much of what waits as there is room for. */
static void append_waiting_requests(struct resp_connection *connection)
{
    struct client_request *request;
    while ((request = connection->waiting.first) &&
           (buffer_len(&connection->out) == 0 ||
            buffer_len(&connection->out) + request->len <= RESP_CLIENT_OUT_MAX)) {
        (void)client_requests_take(&connection->waiting);
        request->start = connection->put;
        append_output(connection, request->bytes, request->len);
        client_requests_add(&connection->expected, request);
    }
}

static ssize_t connection_send(struct resp_connection *connection)
{
    const char *bytes = buffer_bytes(&connection->out);
    size_t len = buffer_len(&connection->out);
    return connection->tls ? weir_tls_send(connection->tls, bytes, len)
                           : send(connection->fd, bytes, len, MSG_NOSIGNAL);
}

static void flush_connection(struct resp_connection *connection, int64_t now)
{
    if (connection->state == CONNECTION_OPEN && !connection->ends)
        append_waiting_requests(connection);
    if (connection->out.failed) {
        resp_connection_fault(connection, now, ENOMEM);
        return;
    }
    while (connection->state >= CONNECTION_HANDSHAKE && buffer_len(&connection->out) > 0) {
        ssize_t sent = connection_send(connection);
        if (sent >= 0) {
            connection->written += (uint64_t)sent;
            weir_buffer_drop(&connection->out, (size_t)sent, BUFFER_KEPT);
        } else if (errno == EAGAIN) {
            return;
        } else if (errno != EINTR) {
            resp_connection_fault(connection, now, errno);
        }
    }
}

/* ---- what comes in ---------------------------------------------------------------------------- */

static void answer_first_request(struct resp_connection *connection, int64_t now,
                                 const struct resp_value *value)
{
    if (value->type == RESP_PUSH)
        return; /* no answer */
    if (connection->state == CONNECTION_HANDSHAKE) {
        resp_connection_handshake_reply(connection, now, value);
    } else if (!connection->expected.first || connection->expected.first->start >= connection->written) {
        resp_connection_fail(connection, now, EPROTO, "it answers what nobody has asked");
    } else if (--connection->expected.first->answers == 0) {
        connection->owner->answered(connection->owner, client_requests_take(&connection->expected), value,
                                    true, "");
    }
}

static void read_replies(struct resp_connection *connection, int64_t now)
{
    while (connection->fd >= 0 && buffer_len(&connection->in) > 0) {
        struct resp_value *value;
        size_t used;
        enum resp_parsed parsed =
            weir_resp_parse(buffer_bytes(&connection->in), buffer_len(&connection->in), &value, &used);
        if (parsed == RESP_INCOMPLETE)
            return;
        if (parsed != RESP_PARSED) {
            resp_connection_fail(connection, now, parsed == RESP_BROKEN ? EPROTO : ENOMEM,
                                 parsed == RESP_BROKEN ? "it does not speak the Redis protocol"
                                                       : "out of memory");
            return;
        }
        struct buffer bytes =
            connection->in; /* `fail` may free the connection's own while the tree points into it */
        connection->in = (struct buffer){.most = connection->owner->in_most};
        answer_first_request(connection, now, value);
        weir_resp_value_free(value);
        weir_buffer_free(&connection->in);
        connection->in = bytes;
        if (connection->fd < 0)
            weir_buffer_free(&connection->in);
        else
            weir_buffer_drop(&connection->in, used, BUFFER_KEPT);
    }
}

/* An answer is parsed from its beginning each time: so it should have grown by half since the last time, or
 * there is nothing more to read at present, and it may be whole. What has come is read before the end is. */
static void receive_replies(struct resp_connection *connection, int64_t now)
{
    size_t had = buffer_len(&connection->in);
    ssize_t got;
    do {
        char *room = weir_buffer_room(&connection->in, READ_SIZE);
        if (!room) {
            resp_connection_fail(connection, now, EMSGSIZE, "its answer is too long");
            return;
        }
        got = connection->tls ? weir_tls_recv(connection->tls, room, READ_SIZE)
                              : recv(connection->fd, room, READ_SIZE, 0);
        if (got > 0)
            buffer_wrote(&connection->in, (size_t)got);
    } while (got > 0 && buffer_len(&connection->in) - had < had / 2);
    int error = got < 0 ? errno : 0;
    read_replies(connection, now);
    if (connection->fd < 0 || got > 0 || error == EAGAIN || error == EINTR)
        return;
    if (got == 0)
        resp_connection_fail(connection, now, 0, "it closed the connection");
    else
        resp_connection_fault(connection, now, error);
}

/* ---- time ------------------------------------------------------------------------------------- */

/* What waits and was not put into `out` yet may be given up without harm. */
static int64_t drop_late_requests(struct resp_connection *connection, int64_t now)
{
    int64_t next = INT64_MAX;
    struct client_request_list all = client_requests_take_all(&connection->waiting);
    for (struct client_request *request; (request = client_requests_take(&all));) {
        if (request->deadline_ns <= now) {
            connection->owner->answered(connection->owner, request, NULL, false,
                                        "it could not be asked in time");
        } else {
            next = min64(next, request->deadline_ns);
            client_requests_add(&connection->waiting, request);
        }
    }
    return next;
}

static int64_t earliest_deadline(const struct client_request_list *list)
{
    int64_t at = INT64_MAX;
    for (const struct client_request *request = list->first; request; request = request->next)
        at = min64(at, request->deadline_ns);
    return at;
}

int64_t weir_resp_connection_step(struct resp_connection *connection, int64_t now)
{
    if (earliest_deadline(&connection->expected) <= now)
        resp_connection_fail(connection, now, ETIMEDOUT, "it does not answer");
    if (connection->ends && !connection->expected.first)
        resp_connection_fail(connection, now, ECANCELED, connection->ends);
    int64_t next = drop_late_requests(connection, now);
    if (connection->state == CONNECTION_IDLE && connection->waiting.first && now >= connection->retry_ns)
        weir_resp_connection_begin(connection, now);
    if (connection->state == CONNECTION_RESOLVING)
        resp_connection_resolved(connection, now);
    if (connection->state != CONNECTION_IDLE && connection->state != CONNECTION_OPEN &&
        now >= connection->until_ns)
        resp_connection_fail(connection, now, ETIMEDOUT, "it cannot be reached in time");
    flush_connection(connection, now);
    if (connection->state == CONNECTION_IDLE)
        return connection->waiting.first ? min64(next, connection->retry_ns) : next;
    if (connection->state == CONNECTION_RESOLVING && connection->retry_ns > now)
        next = min64(next, connection->retry_ns);
    if (connection->state != CONNECTION_OPEN)
        return min64(next, connection->until_ns);
    return min64(next, earliest_deadline(&connection->expected));
}

/* What poll is to look for; 0: nothing. */
static short connection_events(const struct resp_connection *connection)
{
    if (connection->state == CONNECTION_CONNECTING)
        return POLLOUT;
    if (connection->state < CONNECTION_HANDSHAKE)
        return 0;
    bool sends = connection->out.end > connection->out.start;
    if (connection->tls)
        sends = (sends && !weir_tls_send_wants_read(connection->tls)) ||
                weir_tls_recv_wants_write(connection->tls);
    return (short)(POLLIN | (sends ? POLLOUT : 0));
}

/* May something be read, although poll does not say so? */
static bool connection_can_read(const struct resp_connection *connection)
{
    return connection->tls &&
           (weir_tls_pending(connection->tls) || weir_tls_recv_wants_write(connection->tls));
}

void weir_resp_connections_poll(struct resp_connection *connections, size_t count, struct wakeup *wakeup,
                                int64_t until_ns)
{
    struct pollfd files[RESP_CLIENT_CONNECTIONS_MAX + 1];
    bool pending = false;
    files[0] = (struct pollfd){.fd = weir_wakeup_fd(wakeup), .events = POLLIN};
    for (size_t i = 0; i < count; i++) {
        pending |= connections[i].tls && weir_tls_pending(connections[i].tls);
        short events = connection_events(&connections[i]);
        files[i + 1] = (struct pollfd){.fd = events ? connections[i].fd : -1, .events = events};
    }
    int64_t now = weir_clock_kernel(),
            wait = until_ns <= now || pending ? 0 : min64(until_ns - now, ROUND_NS);
    int ready = poll(files, (nfds_t)count + 1, (int)((wait + WEIR_MS - 1) / WEIR_MS));
    if (ready < 0 || (ready == 0 && !pending))
        return;
    now = weir_clock_kernel();
    if (files[0].revents)
        weir_wakeup_clear(wakeup);
    for (size_t i = 0; i < count; i++) {
        if (connections[i].state == CONNECTION_CONNECTING && files[i + 1].revents)
            resp_connection_connected(&connections[i], now);
        else if (connections[i].state >= CONNECTION_HANDSHAKE &&
                 (files[i + 1].revents & ~POLLOUT || connection_can_read(&connections[i])))
            receive_replies(&connections[i], now);
    }
}
