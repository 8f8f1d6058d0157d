/* SPDX-License-Identifier: MIT */
/*
 * TLS 1.2 and 1.3 on sockets that do not block, for both sides. tls.c is the one file that knows OpenSSL.
 *
 * A session reads and writes its socket by itself, with calls that behave as recv(2) and send(2) do. It
 * belongs to one thread at a time; a context may be used by all.
 */
#ifndef WEIR_TLS_TLS_H
#define WEIR_TLS_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "weir.h"

#define TLS_SUBJECT_MAX 255 /* bytes of a client certificate's subject as text */

/* Whether clients show a certificate. */
enum tls_clients { TLS_CLIENTS_NONE = 1, TLS_CLIENTS_OPTIONAL, TLS_CLIENTS_REQUIRED };

struct tls_files { /* PEM; NULL: none */
    const char *cert, *key, *ca;
};

/* ---- contexts: certificates and keys, read once ---- */

struct tls_context;

/* NULL: `err` says which file is wrong, and why. A certificate is needed, and with `clients` a CA. */
struct tls_context *weir_tls_server(const struct tls_files *files, enum tls_clients clients,
                                    struct weir_error *err);
/* The certificate of the server is checked by `ca`, or by the CAs of the system; insecure: not at all. */
struct tls_context *weir_tls_client(const struct tls_files *files, bool insecure, struct weir_error *err);
void weir_tls_context_free(struct tls_context *context); /* its sessions stay; NULL is fine */
/* When its certificate expires: milliseconds since 1970. */
int64_t weir_tls_expires_ms(const struct tls_context *context);

/* ---- sessions ---- */

struct tls_session;

/* NULL: out of memory. The socket stays the caller's. http: by ALPN HTTP/1.1 is agreed upon, or nothing. */
struct tls_session *weir_tls_accept(struct tls_context *context, int fd, bool http);
/* `host` is the name or address that the certificate of the server must have. */
struct tls_session *weir_tls_connect(struct tls_context *context, int fd, const char *host);
/* Says goodbye as far as that is possible without waiting, and frees it. NULL is fine. */
void weir_tls_session_free(struct tls_session *session);
/* Says goodbye alone: nothing more is sent. */
void weir_tls_finish(struct tls_session *session);

/* As recv and send on such a socket; they also go on with the handshake. 0: the other side has ended it. -1
 * and EPROTO: weir_tls_fault says why. What was not sent must be sent again, from its first byte on. */
ssize_t weir_tls_recv(struct tls_session *session, char *bytes, size_t size);
ssize_t weir_tls_send(struct tls_session *session, const char *bytes, size_t len);
const char *weir_tls_fault(const struct tls_session *session);

bool weir_tls_is_handshaking(const struct tls_session *session);
/* There may be more to read although the socket will not say so. */
bool weir_tls_pending(const struct tls_session *session);
/* The last recv cannot go on before the socket can be written; the last send, before it can be read. */
bool weir_tls_recv_wants_write(const struct tls_session *session);
bool weir_tls_send_wants_read(const struct tls_session *session);

/* Who the client is by its certificate, which was checked: the subject as RFC 2253 writes it. false: it has
 * shown none, or the subject is empty or too long. */
bool weir_tls_subject(const struct tls_session *session, char subject[static TLS_SUBJECT_MAX + 1]);

#endif
