/* SPDX-License-Identifier: MIT */
/*
 * TLS over a pair of sockets whose buffers are small: what goes in comes out, however the bytes are cut.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>

#include "check.h"
#include "rng.h"
#include "server/transport.h"
#include "unit/server/tls_kit.h"

static struct {
    struct tls_kit kit;
    struct transport_tls holder;
    struct tls_context *client;
    struct transport server;
    struct tls_session *peer;
    int fd; /* of the peer */
} here;

static size_t draw_below(struct rng *rng, size_t limit)
{
    return (size_t)(rng_next(rng) % limit);
}

static bool begin_contexts(enum tls_clients clients)
{
    struct weir_error err = {0};
    if (!CHECK(tls_kit_make(&here.kit, folder_new())))
        return false;
    struct tls_files files = {here.kit.cert, here.kit.key, here.kit.cert};
    struct tls_files trust = {.ca = here.kit.cert};
    struct tls_context *context = weir_tls_server(&files, clients, &err);
    here.client = weir_tls_client(clients == TLS_CLIENTS_NONE ? &trust : &files, false, &err);
    weir_transport_tls_begin(&here.holder);
    weir_transport_tls_set(&here.holder, context);
    if (!CHECK(context && here.client)) {
        printf("# %s\n", err.text);
        return false;
    }
    return true;
}

static bool begin_pair(const char *host)
{
    int pair[2], size = 24000; /* one record of the largest kind, and part of another */
    if (!CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0))
        return false;
    for (int i = 0; i < 2; i++)
        CHECK_EQ(setsockopt(pair[i], SOL_SOCKET, SO_SNDBUF, &size, sizeof size), 0);
    here.server = (struct transport){.fd = pair[0]};
    here.fd = pair[1];
    here.peer = weir_tls_connect(here.client, here.fd, host);
    return CHECK(weir_transport_secure(&here.server, &here.holder, true)) && CHECK(here.peer != NULL);
}

static void end_pair(void)
{
    weir_transport_close(&here.server);
    CHECK(here.server.fd == -1 && !here.server.tls);
    weir_tls_session_free(here.peer);
    close(here.fd);
}

static void end_contexts(void)
{
    weir_tls_context_free(here.client);
    weir_transport_tls_end(&here.holder);
}

/* Both go on until neither has anything to say; returns what the server's last recv said. */
static ssize_t shake_hands(void)
{
    char byte;
    ssize_t got = -1;
    for (int i = 0; i < 100 && (transport_is_handshaking(&here.server) || weir_tls_is_handshaking(here.peer));
         i++) {
        (void)weir_tls_recv(here.peer, &byte, 1);
        errno = 0;
        got = transport_recv(&here.server, &byte, 1);
        if (got == 0 || (got < 0 && errno != EAGAIN))
            return got;
    }
    return got;
}

TEST(what_goes_in_comes_out_however_it_is_cut)
{
    enum { ALL = 1 << 20 };
    struct rng rng = rng_new(1);
    char *text = malloc(ALL), *back = malloc(ALL), moved[40000];
    if (!begin_contexts(TLS_CLIENTS_NONE) || !CHECK(text && back))
        return;
    for (int i = 0; i < ALL; i++)
        text[i] = (char)rng_next(&rng);
    for (int round = 0; round < 4; round++) {
        size_t sent = 0, got = 0, tried = 0;
        int partial = 0, later = 0;
        if (!begin_pair("localhost"))
            return;
        (void)shake_hands();
        CHECK(!transport_is_handshaking(&here.server) && !weir_tls_is_handshaking(here.peer));
        for (int step = 0; got < ALL && step < 1000000; step++) {
            if (sent < ALL && draw_below(&rng, 3) > 0) {
                /* From another place each time; what was not taken comes again, perhaps with more behind it.
                 */
                size_t len = tried > 0 ? tried : 1 + draw_below(&rng, sizeof moved - 1);
                len += tried > 0 && len < sizeof moved / 2 ? draw_below(&rng, sizeof moved / 2) : 0;
                len = len < ALL - sent ? len : ALL - sent;
                memcpy(moved, text + sent, len);
                ssize_t some = transport_send(&here.server, moved, len);
                memset(moved, 0, sizeof moved);
                CHECK(some > 0 || errno == EAGAIN);
                later += some < 0;
                partial += some > 0 && (size_t)some < len;
                sent += some > 0 ? (size_t)some : 0;
                tried = len - (some > 0 ? (size_t)some : 0);
                CHECK(tried == 0 || transport_wants(&here.server, WATCH_WRITE) == WATCH_WRITE);
            } else {
                ssize_t some =
                    weir_tls_recv(here.peer, back + got, 1 + draw_below(&rng, 50000) % (ALL - got));
                CHECK(some > 0 || errno == EAGAIN);
                got += some > 0 ? (size_t)some : 0;
            }
        }
        CHECK(got == ALL && memcmp(text, back, ALL) == 0);
        CHECK(partial > 0 && later > 0);
        end_pair();
    }
    end_contexts();
    free(text);
    free(back);
}

TEST(what_is_left_of_a_record_is_told)
{
    char bytes[2000];
    int size = 1 << 18;
    if (!begin_contexts(TLS_CLIENTS_NONE) || !begin_pair("localhost"))
        return;
    (void)shake_hands();
    CHECK_EQ(setsockopt(here.fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size), 0);
    CHECK(!transport_pending(&here.server));
    memset(bytes, 'x', sizeof bytes);
    CHECK_EQ(weir_tls_send(here.peer, bytes, 1000), 1000);
    CHECK_EQ(transport_recv(&here.server, bytes, 400), 400);
    CHECK(transport_pending(&here.server)); /* the socket is empty */
    CHECK_EQ(transport_recv(&here.server, bytes, sizeof bytes), 600);
    CHECK(!transport_pending(&here.server));
    CHECK(transport_recv(&here.server, bytes, sizeof bytes) == -1 && errno == EAGAIN);
    for (int i = 0; i < 100; i++) /* tiny records: some at a time */
        CHECK_EQ(weir_tls_send(here.peer, "y", 1), 1);
    ssize_t got = transport_recv(&here.server, bytes, sizeof bytes);
    CHECK(got > 0 && got < 100 && transport_pending(&here.server));
    CHECK_EQ(got + transport_recv(&here.server, bytes, sizeof bytes), 100);
    end_pair();
    end_contexts();
}

/* While the socket takes nothing, it is not asked whether there is something to read: that would be told for
 * ever. */
TEST(a_handshake_that_cannot_be_written_waits_for_that)
{
    char bytes[4096] = {0};
    if (!begin_contexts(TLS_CLIENTS_NONE) || !begin_pair("localhost"))
        return;
    CHECK(weir_tls_recv(here.peer, bytes, 1) == -1 && errno == EAGAIN); /* which says hello */
    while (send(here.server.fd, bytes, sizeof bytes, 0) > 0)
        ;
    CHECK_EQ(transport_wants(&here.server, WATCH_READ), WATCH_READ);
    CHECK(transport_recv(&here.server, bytes, sizeof bytes) == -1 && errno == EAGAIN);
    CHECK_EQ(transport_wants(&here.server, WATCH_READ | WATCH_GONE), WATCH_WRITE | WATCH_GONE);
    CHECK_EQ(transport_ready(&here.server, WATCH_WRITE), WATCH_READ | WATCH_WRITE);
    CHECK(!transport_pending(&here.server) && transport_is_handshaking(&here.server));
    while (recv(here.fd, bytes, sizeof bytes, 0) > 0)
        ;
    (void)shake_hands();
    CHECK(!transport_is_handshaking(&here.server));
    CHECK_EQ(transport_wants(&here.server, WATCH_READ), WATCH_READ);
    end_pair();
    end_contexts();
}

TEST(a_goodbye_is_the_end_and_so_is_none)
{
    char bytes[100];
    if (!begin_contexts(TLS_CLIENTS_NONE))
        return;
    for (int polite = 0; polite < 2; polite++) {
        if (!begin_pair("localhost"))
            return;
        (void)shake_hands();
        CHECK_EQ(weir_tls_send(here.peer, "last", 4), 4);
        if (polite)
            weir_tls_finish(here.peer);
        else
            CHECK_EQ(shutdown(here.fd, SHUT_WR), 0);
        CHECK_EQ(transport_recv(&here.server, bytes, sizeof bytes), 4);
        CHECK_EQ(transport_pending(&here.server),
                 polite); /* nobody else tells of a goodbye that was read along */
        CHECK_EQ(transport_recv(&here.server, bytes, sizeof bytes), 0);
        CHECK_EQ(transport_send(&here.server, "answer", 6), 6); /* it may still be answered */
        CHECK(weir_transport_finish(&here.server));
        CHECK_EQ(weir_tls_recv(here.peer, bytes, sizeof bytes), 6);
        CHECK_EQ(weir_tls_recv(here.peer, bytes, sizeof bytes), 0);
        end_pair();
    }
    end_contexts();
}

TEST(what_is_no_tls_is_a_fault_that_is_named)
{
    char bytes[100];
    if (!begin_contexts(TLS_CLIENTS_NONE) || !begin_pair("localhost"))
        return;
    CHECK_EQ(send(here.fd, "PING\r\nPING\r\n", 12, 0), 12);
    CHECK(transport_recv(&here.server, bytes, sizeof bytes) == -1 && errno == EPROTO);
    CHECK_STR(weir_tls_fault(here.server.tls), "wrong version number");
    CHECK(transport_recv(&here.server, bytes, sizeof bytes) == -1 && errno != EAGAIN);
    end_pair();
    end_contexts();
}

TEST(a_client_believes_the_name_it_asked_for_alone)
{
    static const struct {
        const char *host;
        bool good;
    } hosts[] = {{"localhost", true},  {"127.0.0.1", true},  {"::1", true},
                 {"elsewhere", false}, {"127.0.0.2", false}, {"local", false}};
    char byte;
    if (!begin_contexts(TLS_CLIENTS_NONE))
        return;
    for (size_t i = 0; i < sizeof hosts / sizeof hosts[0]; i++) {
        if (!begin_pair(hosts[i].host))
            return;
        (void)shake_hands();
        bool good = !weir_tls_is_handshaking(here.peer) && weir_tls_recv(here.peer, &byte, 1) == -1 &&
                    errno == EAGAIN;
        if (!CHECK_EQ(good, hosts[i].good))
            printf("# %s: %s\n", hosts[i].host, weir_tls_fault(here.peer));
        if (!hosts[i].good)
            CHECK(strstr(weir_tls_fault(here.peer), "mismatch") != NULL);
        end_pair();
    }
    end_contexts();
}

TEST(a_client_certificate_names_its_owner)
{
    char subject[TLS_SUBJECT_MAX + 1];
    for (int clients = TLS_CLIENTS_NONE; clients <= TLS_CLIENTS_REQUIRED; clients++) {
        if (!begin_contexts((enum tls_clients)clients) || !begin_pair("localhost"))
            return;
        (void)shake_hands();
        bool shown = weir_tls_subject(here.server.tls, subject);
        CHECK_EQ(shown, clients != TLS_CLIENTS_NONE);
        CHECK_STR(subject, shown ? "CN=localhost" : "");
        end_pair();
        end_contexts();
    }
}

TEST(when_a_certificate_expires_is_known)
{
    if (!begin_contexts(TLS_CLIENTS_NONE))
        return;
    CHECK_EQ(weir_tls_expires_ms(here.holder.context), TLS_KIT_EXPIRES_MS);
    CHECK_EQ(weir_tls_expires_ms(here.client), 0); /* it has none */
    end_contexts();
}

TEST(a_context_goes_when_its_last_session_does)
{
    if (!begin_contexts(TLS_CLIENTS_NONE) || !begin_pair("localhost"))
        return;
    weir_transport_tls_set(&here.holder, NULL); /* a reload in the middle of a handshake */
    (void)shake_hands();
    CHECK(!weir_tls_is_handshaking(here.peer));
    struct transport other = {.fd = -1};
    CHECK(!weir_transport_secure(&other, &here.holder, false)); /* there is no certificate any more */
    end_pair();
    end_contexts();
}

TEST(a_plain_transport_is_the_socket)
{
    int pair[2];
    char bytes[10];
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    struct transport one = {.fd = pair[0]}, other = {.fd = pair[1]};
    CHECK(!transport_pending(&one) && !transport_is_handshaking(&one));
    CHECK_EQ(transport_wants(&one, WATCH_READ | WATCH_GONE), WATCH_READ | WATCH_GONE);
    CHECK_EQ(transport_ready(&one, WATCH_WRITE), WATCH_WRITE);
    CHECK_EQ(transport_send(&one, "hello", 5), 5);
    CHECK(weir_transport_finish(&one));
    CHECK_EQ(transport_recv(&other, bytes, sizeof bytes), 5);
    CHECK_EQ(transport_recv(&other, bytes, sizeof bytes), 0);
    weir_transport_close(&one);
    weir_transport_close(&other);
    CHECK(fcntl(pair[0], F_GETFD) < 0 && fcntl(pair[1], F_GETFD) < 0);
}
