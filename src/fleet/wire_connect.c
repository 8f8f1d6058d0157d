/* SPDX-License-Identifier: MIT */
/*
 * How a line comes to be open: a name is resolved, its addresses are tried, the server is greeted.
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
#include "fleet/wire_line.h"

/* ---- greeting --------------------------------------------------------------------------------- */

static void say(struct line *line, const char *const *words, size_t count)
{
    struct slice slices[8];
    size_t before = buffer_len(&line->out);
    for (size_t i = 0; i < count; i++)
        slices[i] = (struct slice){words[i], strlen(words[i])};
    weir_resp_ask(&line->out, slices, count);
    line->put += buffer_len(&line->out) - before;
}

static void greet(struct line *line, enum line_greeting greeting)
{
    const struct line_owner *owner = line->owner;
    const char *user = owner->user[0] ? owner->user : "default";
    char number[24];
    line->greeting = greeting;
    if (greeting == GREET_HELLO) {
        say(line, (const char *[]){"HELLO", "3", "AUTH", user, owner->password}, owner->password[0] ? 5 : 2);
    } else if (greeting == GREET_AUTH) {
        const char *words[] = {"AUTH", user, owner->password};
        if (!owner->user[0])
            words[1] = owner->password; /* servers without users know no other form */
        say(line, words, owner->user[0] ? 3 : 2);
    } else {
        (void)snprintf(number, sizeof number, "%lld", (long long)owner->database);
        say(line, (const char *[]){"SELECT", number}, 2);
    }
}

static void open_line(struct line *line)
{
    if (line->out.bytes)
        weir_secret_wipe(line->out.bytes, line->out.size); /* nothing is in it but what was sent */
    line->state = LINE_OPEN;
    line->pause_ns = 0;
    line->owner->opened(line->owner, &line->host);
}

void weir_line_greeted(struct line *line, int64_t now, const struct resp_value *value)
{
    char reason[80]; /* the longest that is common: of a wrong password, 61 */
    bool error = value->type == RESP_ERROR;
    bool old = error && line->greeting == GREET_HELLO && value->text.len >= 4 &&
               (memcmp(value->text.bytes, "ERR ", 4) == 0 || memcmp(value->text.bytes, "NOPR", 4) == 0);
    if (error && !old) {
        (void)snprintf(reason, sizeof reason, "%.*s", (int)min64((int64_t)value->text.len, 64),
                       value->text.bytes);
        weir_line_fail(line, now, reason);
    } else if (old && line->owner->password[0]) {
        greet(line, GREET_AUTH);
    } else if (line->greeting != GREET_SELECT && line->owner->database != 0) {
        greet(line, GREET_SELECT);
    } else {
        open_line(line);
    }
}

/* ---- connecting ------------------------------------------------------------------------------- */

static void connected(struct line *line)
{
    int one = 1;
    (void)setsockopt(line->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    (void)setsockopt(line->fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
    line->state = LINE_GREETING;
    greet(line, GREET_HELLO);
}

/* Tries line->address and those behind it. */
static void connect_next(struct line *line, int64_t now, int error)
{
    for (; line->address; line->address = line->address->ai_next) {
        const struct addrinfo *address = line->address;
        line->fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (line->fd < 0) {
            error = errno;
            continue;
        }
        if (connect(line->fd, address->ai_addr, address->ai_addrlen) == 0) {
            connected(line);
            return;
        }
        error = errno;
        if (error == EINPROGRESS) {
            line->state = LINE_CONNECTING;
            return;
        }
        (void)close(line->fd);
        line->fd = -1;
    }
    weir_line_fault(line, now, error);
}

void weir_line_connected(struct line *line, int64_t now)
{
    int error = 0;
    socklen_t size = sizeof error;
    if (getsockopt(line->fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
        error = errno;
    if (error == 0) {
        connected(line);
        return;
    }
    (void)close(line->fd);
    line->fd = -1;
    line->address = line->address->ai_next;
    connect_next(line, now, error);
}

void weir_line_begin(struct line *line, int64_t now)
{
    line->until_ns = now + line->owner->connect_ns;
    line->put = line->written = 0;
    line->lookup = weir_lookup_begin(&line->host, line->owner->bell);
    line->state = LINE_NAMING;
    if (!line->lookup)
        weir_line_fail(line, now, "too many names are being looked up");
}

void weir_line_named(struct line *line, int64_t now)
{
    const char *why;
    if (!weir_lookup_done(line->lookup, &line->address, &why))
        return;
    if (line->address)
        connect_next(line, now, 0);
    else
        weir_line_fail(line, now, why);
}
