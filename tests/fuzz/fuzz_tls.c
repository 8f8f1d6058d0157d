/* SPDX-License-Identifier: MIT */
/*
 * Hostile bytes for the server's side of TLS, through the transport of a connection.
 *
 *   byte 0     bit 0: who sends; bits 1-7: the length of the pieces
 *   0          the rest is sent as it is: nobody finishes a handshake by chance, so nothing may come out
 *   1          a real client sends a text, and between the two stands somebody who changes its bytes: 4 bytes
 * for each change, where (2), what, and by which value. What comes out must be the beginning of the text; all
 * of it, if nothing was changed
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

#include "must.h"
#include "server/transport.h"
#include "unit/server/tls_kit.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define TEXT_LEN 20000 /* more than a record */
#define ROUNDS   2000
#define EDIT     4 /* bytes of a change */

enum edit { EDIT_FLIP, EDIT_DROP, EDIT_DOUBLE, EDIT_END, EDITS };

static struct transport_tls holder;
static struct tls_context *client_context;
static char text[TEXT_LEN];

static void begin_once(void)
{
    static struct tls_kit kit;
    struct weir_error err;
    if (client_context)
        return;
    MUST(tls_kit_make(&kit, folder_new()));
    struct tls_files files = {.cert = kit.cert, .key = kit.key}, trust = {.ca = kit.cert};
    struct tls_context *context = weir_tls_server(&files, TLS_CLIENTS_NONE, &err);
    client_context = weir_tls_client(&trust, false, &err);
    MUST(context && client_context);
    weir_transport_tls_begin(&holder);
    weir_transport_tls_set(&holder, context);
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)(i * 7 + i / 251);
}

/* ---- the server ---- */

struct reader {
    struct transport transport;
    size_t got;
    bool ended;
};

/* Reads until it would have to wait. Who is told to wait must have read all there is: nobody would wake him.
 */
static void read_all(struct reader *reader)
{
    static char bytes[TEXT_LEN + 1];
    char byte;
    for (int i = 0; i < ROUNDS && !reader->ended; i++) {
        ssize_t got = transport_recv(&reader->transport, bytes, sizeof bytes);
        MUST(got <= (ssize_t)sizeof bytes);
        if (got > 0) {
            MUST((size_t)got <= TEXT_LEN - reader->got &&
                 memcmp(bytes, text + reader->got, (size_t)got) == 0);
            reader->got += (size_t)got;
            continue;
        }
        reader->ended = got == 0 || errno != EAGAIN;
        if (!reader->ended && !transport_pending(&reader->transport)) {
            bool writes = transport_wants(&reader->transport, WATCH_READ) == WATCH_WRITE;
            MUST(writes || (recv(reader->transport.fd, &byte, 1, MSG_PEEK) < 0 && errno == EAGAIN));
            return;
        }
    }
    MUST(reader->ended); /* no byte keeps it busy for ever */
    ssize_t again = transport_recv(&reader->transport, bytes, sizeof bytes);
    MUST(again == 0 || (again < 0 && errno != EAGAIN)); /* the end is the end */
}

/* Makes a server at one end; returns the other. */
static int begin_reader(struct reader *reader)
{
    int pair[2], room = 1 << 18;
    MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
    (void)setsockopt(pair[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    *reader = (struct reader){.transport.fd = pair[0]};
    MUST(weir_transport_secure(&reader->transport, &holder, true));
    return pair[1];
}

static void end_reader(struct reader *reader, int fd)
{
    (void)shutdown(fd, SHUT_WR);
    read_all(reader);
    MUST(reader->ended);
    weir_transport_close(&reader->transport);
    (void)close(fd);
}

/* ---- bytes as they are ---- */

static void send_raw(const uint8_t *data, size_t size, size_t piece)
{
    struct reader reader;
    int fd = begin_reader(&reader);
    for (size_t at = 0; at < size && !reader.ended; at += piece) {
        size_t len = piece < size - at ? piece : size - at;
        if (send(fd, data + at, len, MSG_NOSIGNAL) < 0)
            break;
        read_all(&reader);
    }
    end_reader(&reader, fd);
    MUST(reader.got == 0);
}

/* ---- somebody in between ---- */

struct relay {
    const uint8_t *edits;
    size_t edit_bytes;
    size_t at; /* bytes of the client that have passed */
    bool cut;
};

/* What comes of a byte: appended to `out`, which has room for 2. */
static size_t relay_byte(struct relay *relay, char byte, char *out)
{
    size_t len = 1;
    out[0] = out[1] = byte;
    for (size_t i = 0; i + EDIT <= relay->edit_bytes; i += EDIT) {
        const uint8_t *edit = relay->edits + i;
        if ((size_t)(edit[0] << 8 | edit[1]) != relay->at)
            continue;
        if (edit[2] % EDITS == EDIT_FLIP)
            out[0] = (char)(out[0] ^ (edit[3] | 1));
        else if (edit[2] % EDITS == EDIT_DROP)
            len = 0;
        else if (edit[2] % EDITS == EDIT_DOUBLE)
            len = 2;
        else
            relay->cut = true;
    }
    relay->at++;
    return relay->cut ? 0 : len;
}

static void pass_on(struct relay *relay, struct reader *reader, int from, int to, size_t piece)
{
    char bytes[4096], out[2 * sizeof bytes];
    ssize_t got;
    while (!reader->ended && (got = recv(from, bytes, piece < sizeof bytes ? piece : sizeof bytes, 0)) > 0) {
        size_t len = 0;
        for (ssize_t i = 0; i < got; i++)
            len += relay_byte(relay, bytes[i], out + len);
        if (len > 0)
            MUST(send(to, out, len, MSG_NOSIGNAL) == (ssize_t)len);
        read_all(reader);
    }
}

static void pass_back(int from, int to)
{
    char bytes[4096];
    ssize_t got;
    while ((got = recv(from, bytes, sizeof bytes, 0)) > 0)
        (void)!send(to, bytes, (size_t)got, MSG_NOSIGNAL);
}

static void send_changed(struct relay *relay, size_t piece)
{
    struct reader reader;
    int fd = begin_reader(&reader), pair[2];
    char byte;
    MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
    struct tls_session *client = weir_tls_connect(client_context, pair[0], "localhost");
    MUST(client);
    size_t sent = 0;
    for (int i = 0; i < 50 && !reader.ended && !relay->cut && reader.got < TEXT_LEN; i++) {
        ssize_t some = sent < TEXT_LEN ? weir_tls_send(client, text + sent, TEXT_LEN - sent) : 0;
        sent += some > 0 ? (size_t)some : 0;
        pass_on(relay, &reader, pair[1], fd, piece);
        pass_back(fd, pair[1]);
        (void)!weir_tls_recv(client, &byte, 1);
    }
    end_reader(&reader, fd);
    MUST(relay->edit_bytes >= EDIT || reader.got == TEXT_LEN);
    weir_tls_session_free(client);
    (void)close(pair[0]);
    (void)close(pair[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    begin_once();
    size_t piece = data[0] >> 1 ? data[0] >> 1 : 4096;
    if (data[0] & 1)
        send_changed(&(struct relay){.edits = data + 1, .edit_bytes = size - 1}, piece * 8);
    else
        send_raw(data + 1, size - 1, piece);
    return 0;
}
