/* SPDX-License-Identifier: MIT */
/*
 * How a connection comes to be open: a name is resolved, its addresses are tried, the server is greeted.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/sat.h"
#include "base/secret.h"
#include "fleet/resp_client/connection.h"

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
    connection->owner->opened(connection->owner, &connection->host);
}

void weir_resp_connection_handshake_reply(struct resp_connection *connection, int64_t now,
                                          const struct resp_value *value)
{
    char reason[80]; /* the longest that is common: of a wrong password, 61 */
    bool error = value->type == RESP_ERROR;
    bool old = error && connection->handshake == HANDSHAKE_HELLO && value->text.len >= 4 &&
               (memcmp(value->text.bytes, "ERR ", 4) == 0 || memcmp(value->text.bytes, "NOPR", 4) == 0);
    if (error && !old) {
        (void)snprintf(reason, sizeof reason, "%.*s", (int)min64((int64_t)value->text.len, 64),
                       value->text.bytes);
        weir_resp_connection_fail(connection, now, reason);
    } else if (old && connection->owner->password[0]) {
        begin_handshake(connection, HANDSHAKE_AUTH);
    } else if (connection->handshake != HANDSHAKE_SELECT && connection->owner->database != 0) {
        begin_handshake(connection, HANDSHAKE_SELECT);
    } else {
        open_connection(connection);
    }
}

/* ---- connecting ------------------------------------------------------------------------------- */

static void connection_established(struct resp_connection *connection)
{
    int one = 1;
    (void)setsockopt(connection->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    (void)setsockopt(connection->fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
    connection->state = CONNECTION_HANDSHAKE;
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
            connection_established(connection);
            return;
        }
        error = errno;
        if (error == EINPROGRESS) {
            connection->state = CONNECTION_CONNECTING;
            return;
        }
        (void)close(connection->fd);
        connection->fd = -1;
    }
    weir_resp_connection_fault(connection, now, error);
}

void weir_resp_connection_connected(struct resp_connection *connection, int64_t now)
{
    int error = 0;
    socklen_t size = sizeof error;
    if (getsockopt(connection->fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
        error = errno;
    if (error == 0) {
        connection_established(connection);
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
        weir_resp_connection_fail(connection, now, "too many names are being looked up");
}

void weir_resp_connection_resolved(struct resp_connection *connection, int64_t now)
{
    const char *why;
    if (!weir_lookup_done(connection->lookup, &connection->address, &why))
        return;
    if (connection->address)
        connect_next_address(connection, now, 0);
    else
        weir_resp_connection_fail(connection, now, why);
}
