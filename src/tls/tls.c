/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE

#include "tls/tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"

/* Of TLS 1.2: keys that are forgotten afterwards, and ciphers that check what they decrypt. Those of 1.3 all
 * do. */
#define CIPHERS_12     "ECDHE+AESGCM:ECDHE+CHACHA20"
#define CHAIN_MAX      (32 * 1024) /* bytes of a client's certificates */
#define DEPTH_MAX      8
#define RECORDS_MOST   64 /* read in one go: they may be tiny, or have no data at all */
#define FAULT_MAX      120
#define SESSION_SECOND 7200 /* how long a session can be resumed */

struct tls_context {
    SSL_CTX *ctx;
};

struct tls_session {
    SSL *ssl;
    int fd;
    bool http;    /* agrees upon HTTP/1.1 */
    bool drained; /* the socket had less to read than there was room for */
    bool blocked; /* the socket had nothing to read, or took nothing, at the last try */
    bool pending, recv_wants_write, send_wants_read;
    bool unsent; /* a record was made and is not sent yet */
    bool shaken; /* the handshake is over; a key may be exchanged again later, which is no other one */
    bool failed, finished;
    char fault[FAULT_MAX];
};

/* ---- the socket ------------------------------------------------------------------------------- */

/* Instead of OpenSSL's own, which would raise SIGPIPE in programs of others. */

static struct tls_session *bio_session(BIO *bio)
{
    return BIO_get_data(bio);
}

static int socket_read(BIO *bio, char *bytes, int size)
{
    struct tls_session *session = bio_session(bio);
    ssize_t got;
    do
        got = recv(session->fd, bytes, (size_t)size, 0);
    while (got < 0 && errno == EINTR);
    BIO_clear_retry_flags(bio);
    session->drained = got < size;
    if (got < 0 && errno == EAGAIN) {
        BIO_set_retry_read(bio);
        session->blocked = true;
    }
    if (got == 0)
        BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
    return (int)got;
}

static int socket_write(BIO *bio, const char *bytes, int len)
{
    struct tls_session *session = bio_session(bio);
    ssize_t sent;
    do
        sent = send(session->fd, bytes, (size_t)len, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    BIO_clear_retry_flags(bio);
    if (sent < 0 && errno == EAGAIN) {
        BIO_set_retry_write(bio);
        session->blocked = true;
    }
    return (int)sent;
}

static long socket_control(BIO *bio, int command, long number, void *arg)
{
    (void)number, (void)arg;
    if (command == BIO_CTRL_EOF)
        return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0;
    return command == BIO_CTRL_FLUSH;
}

static BIO_METHOD *socket_method;
static pthread_once_t socket_method_once = PTHREAD_ONCE_INIT;

static void make_socket_method(void)
{
    BIO_METHOD *method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "weir socket");
    if (method && BIO_meth_set_read(method, socket_read) && BIO_meth_set_write(method, socket_write) &&
        BIO_meth_set_ctrl(method, socket_control))
        socket_method = method;
    else
        BIO_meth_free(method);
}

/* ---- contexts --------------------------------------------------------------------------------- */

/* What OpenSSL said last. */
static const char *openssl_reason(void)
{
    unsigned long error = ERR_peek_last_error();
    const char *reason = ERR_reason_error_string(error);
    if (ERR_SYSTEM_ERROR(error))
        return strerror((int)ERR_GET_REASON(error));
    return reason ? reason : "out of memory";
}

/* A private key with a passphrase is refused: OpenSSL would ask for it on the terminal. */
static int no_passphrase(char *text, int size, int writing, void *arg)
{
    (void)text, (void)size, (void)writing, (void)arg;
    return -1;
}

/* Looks at a file before OpenSSL does, whose messages do not name it. */
static bool check_file(const char *what, const char *path, bool secret, struct weir_error *err)
{
    struct stat about;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    bool good = fd >= 0 && fstat(fd, &about) == 0;
    int fault = errno;
    if (fd >= 0)
        (void)close(fd);
    if (!good)
        return weir_error_complain_as(err, fault, "tls: %s %.200s cannot be read: %s", what, path,
                                      strerror(fault));
    if (!S_ISREG(about.st_mode))
        return weir_error_complain(err, "tls: %s %.200s is no plain file", what, path);
    if (secret && about.st_mode & S_IWOTH)
        return weir_error_complain(
            err, "tls: %s %.200s can be written by every user of this machine; chmod 600 it", what, path);
    return true;
}

static bool load_certificate(SSL_CTX *ctx, const struct tls_files *files, struct weir_error *err)
{
    if (!files->cert || !files->key)
        return weir_error_complain(err,
                                   "tls: a certificate and its private key belong together; %s is missing",
                                   files->cert ? "key" : "cert");
    if (!check_file("cert", files->cert, false, err) || !check_file("key", files->key, true, err))
        return false;
    if (SSL_CTX_use_certificate_chain_file(ctx, files->cert) != 1)
        return weir_error_complain(err, "tls: cert %.200s is no certificate in PEM: %s", files->cert,
                                   openssl_reason());
    ERR_clear_error();
    if (SSL_CTX_use_PrivateKey_file(ctx, files->key, SSL_FILETYPE_PEM) != 1) {
        bool other = ERR_GET_REASON(ERR_peek_last_error()) == X509_R_KEY_VALUES_MISMATCH;
        return weir_error_complain(err,
                                   other
                                       ? "tls: key %.200s does not belong to the certificate: %s"
                                       : "tls: key %.200s is no private key in PEM without a passphrase: %s",
                                   files->key, openssl_reason());
    }
    return SSL_CTX_check_private_key(ctx) == 1 ||
           weir_error_complain(err, "tls: key %.200s does not belong to the certificate", files->key);
}

static bool load_ca(SSL_CTX *ctx, const char *path, struct weir_error *err)
{
    return check_file("ca", path, false, err) &&
           (SSL_CTX_load_verify_file(ctx, path) == 1 ||
            weir_error_complain(err, "tls: ca %.200s has no certificate in PEM: %s", path, openssl_reason()));
}

/* HTTP/2 is not spoken: a client that wants nothing else is refused. */
static int choose_alpn(SSL *ssl, const unsigned char **out, unsigned char *len, const unsigned char *in,
                       unsigned in_len, void *arg)
{
    static const unsigned char http[] = "\x08http/1.1";
    const struct tls_session *session = SSL_get_app_data(ssl);
    unsigned char *chosen;
    (void)arg;
    if (!session->http)
        return SSL_TLSEXT_ERR_NOACK;
    if (SSL_select_next_proto(&chosen, len, http, sizeof http - 1, in, in_len) != OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

static struct tls_context *make_context(const SSL_METHOD *method, struct weir_error *err)
{
    struct tls_context *context = calloc(1, sizeof *context);
    SSL_CTX *ctx = context ? SSL_CTX_new(method) : NULL;
    (void)pthread_once(&socket_method_once, make_socket_method);
    if (!ctx || !socket_method || SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) != 1 ||
        SSL_CTX_set_cipher_list(ctx, CIPHERS_12) != 1) {
        SSL_CTX_free(ctx);
        free(context);
        (void)weir_error_complain_as(err, ENOMEM, "tls: %s", openssl_reason());
        return NULL;
    }
    context->ctx = ctx;
    /* An end without close_notify is an end: both protocols know where a message ends. */
    (void)SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                       SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_PRIORITIZE_CHACHA |
                                       SSL_OP_IGNORE_UNEXPECTED_EOF);
    (void)SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                    SSL_MODE_RELEASE_BUFFERS | SSL_MODE_NO_AUTO_CHAIN);
    (void)SSL_CTX_clear_mode(ctx,
                             SSL_MODE_AUTO_RETRY); /* a flood of records without data would keep the thread */
    SSL_CTX_set_read_ahead(ctx, 1);
    SSL_CTX_set_verify_depth(ctx, DEPTH_MAX);
    SSL_CTX_set_default_passwd_cb(ctx, no_passphrase);
    return context;
}

/* Sessions are resumed by tickets, whose key lives as long as the context: a reload that trusts another CA
 * must not let in who was trusted before. */
static bool set_resumption(SSL_CTX *ctx, bool ask)
{
    static const unsigned char name[] = "weir";
    (void)SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    (void)SSL_CTX_set_timeout(ctx, SESSION_SECOND);
    (void)SSL_CTX_set_num_tickets(ctx, 1);
    return !ask || SSL_CTX_set_session_id_context(ctx, name, sizeof name - 1) == 1;
}

static bool ask_for_certificates(SSL_CTX *ctx, const char *ca, enum tls_clients clients,
                                 struct weir_error *err)
{
    if (!ca)
        return weir_error_complain(err,
                                   "tls: clients: %s needs ca, the file of those who sign their certificates",
                                   clients == TLS_CLIENTS_OPTIONAL ? "optional" : "required");
    if (!load_ca(ctx, ca, err))
        return false;
    STACK_OF(X509_NAME) *names = SSL_load_client_CA_file(ca);
    if (names)
        SSL_CTX_set_client_CA_list(ctx, names);
    SSL_CTX_set_verify(
        ctx, SSL_VERIFY_PEER | (clients == TLS_CLIENTS_REQUIRED ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0), NULL);
    SSL_CTX_set_max_cert_list(ctx, CHAIN_MAX);
    return true;
}

struct tls_context *weir_tls_server(const struct tls_files *files, enum tls_clients clients,
                                    struct weir_error *err)
{
    ERR_clear_error();
    struct tls_context *context = make_context(TLS_server_method(), err);
    if (!context)
        return NULL;
    bool ask = clients == TLS_CLIENTS_OPTIONAL || clients == TLS_CLIENTS_REQUIRED;
    SSL_CTX_set_alpn_select_cb(context->ctx, choose_alpn, NULL);
    if (set_resumption(context->ctx, ask) && load_certificate(context->ctx, files, err) &&
        (!ask || ask_for_certificates(context->ctx, files->ca, clients, err)))
        return context;
    weir_tls_context_free(context);
    return NULL;
}

struct tls_context *weir_tls_client(const struct tls_files *files, bool insecure, struct weir_error *err)
{
    ERR_clear_error();
    struct tls_context *context = make_context(TLS_client_method(), err);
    if (!context)
        return NULL;
    SSL_CTX_set_verify(context->ctx, insecure ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, NULL);
    (void)SSL_CTX_set_session_cache_mode(context->ctx, SSL_SESS_CACHE_OFF);
    bool good = files->ca ? load_ca(context->ctx, files->ca, err)
                          : SSL_CTX_set_default_verify_paths(context->ctx) == 1 ||
                                weir_error_complain(err, "tls: the CAs of this system cannot be read");
    if (good && (!(files->cert || files->key) || load_certificate(context->ctx, files, err)))
        return context;
    weir_tls_context_free(context);
    return NULL;
}

void weir_tls_context_free(struct tls_context *context)
{
    if (!context)
        return;
    SSL_CTX_free(context->ctx);
    free(context);
}

int64_t weir_tls_expires_ms(const struct tls_context *context)
{
    const X509 *cert = SSL_CTX_get0_certificate(context->ctx);
    struct tm end;
    if (!cert || ASN1_TIME_to_tm(X509_get0_notAfter(cert), &end) != 1)
        return 0;
    return (int64_t)timegm(&end) * 1000;
}

/* ---- sessions --------------------------------------------------------------------------------- */

static struct tls_session *make_session(struct tls_context *context, int fd)
{
    struct tls_session *session = calloc(1, sizeof *session);
    SSL *ssl = session ? SSL_new(context->ctx) : NULL;
    BIO *bio = ssl ? BIO_new(socket_method) : NULL;
    if (!bio) {
        SSL_free(ssl);
        free(session);
        ERR_clear_error();
        return NULL;
    }
    session->ssl = ssl;
    session->fd = fd;
    BIO_set_data(bio, session);
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl, bio, bio);
    (void)SSL_set_app_data(ssl, session);
    return session;
}

struct tls_session *weir_tls_accept(struct tls_context *context, int fd, bool http)
{
    struct tls_session *session = make_session(context, fd);
    if (!session)
        return NULL;
    session->http = http;
    SSL_set_accept_state(session->ssl);
    return session;
}

/* An address is no name: it has a field of its own in the certificate, and is not told to the server. */
static bool expect_host(SSL *ssl, const char *host)
{
    unsigned char address[sizeof(struct in6_addr)];
    if (inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1)
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1;
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return SSL_set1_host(ssl, host) == 1 && /* the macro for this casts a const away */
           SSL_ctrl(ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name, (void *)(uintptr_t)host) ==
               1;
}

struct tls_session *weir_tls_connect(struct tls_context *context, int fd, const char *host)
{
    struct tls_session *session = make_session(context, fd);
    if (session && !expect_host(session->ssl, host)) {
        weir_tls_session_free(session);
        return NULL;
    }
    if (session)
        SSL_set_connect_state(session->ssl);
    return session;
}

void weir_tls_finish(struct tls_session *session)
{
    bool may = session->shaken && !session->failed && !session->unsent && !session->finished;
    session->finished = true;
    if (may)
        (void)SSL_shutdown(session->ssl);
    ERR_clear_error();
}

void weir_tls_session_free(struct tls_session *session)
{
    if (!session)
        return;
    weir_tls_finish(session);
    SSL_free(session->ssl);
    free(session);
}

/* ---- reading and writing ---------------------------------------------------------------------- */

static void keep_fault(struct tls_session *session)
{
    long verified = SSL_get_verify_result(session->ssl);
    bool whose = ERR_GET_REASON(ERR_peek_last_error()) == SSL_R_CERTIFICATE_VERIFY_FAILED;
    const char *why =
        whose && verified != X509_V_OK ? X509_verify_cert_error_string(verified) : openssl_reason();
    size_t len = strnlen(why, FAULT_MAX - 1);
    memcpy(session->fault, why, len);
    session->fault[len] = '\0';
}

/* What a call that did not succeed comes to: 0: it has ended; -1: errno says why, EAGAIN: not now. */
static ssize_t settle_error(struct tls_session *session, int error)
{
    int fault = errno;
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) {
        errno = EAGAIN;
        return -1;
    }
    if (error == SSL_ERROR_ZERO_RETURN)
        return 0;
    session->failed = true;
    if (error == SSL_ERROR_SSL)
        keep_fault(session);
    errno = error == SSL_ERROR_SSL ? EPROTO : fault != 0 && fault != EAGAIN ? fault : ECONNRESET;
    ERR_clear_error();
    return -1;
}

ssize_t weir_tls_recv(struct tls_session *session, char *bytes, size_t size)
{
    size_t got = 0, some = 0;
    session->pending = session->recv_wants_write = false;
    for (int records = 0; got < size && records < RECORDS_MOST; records++) {
        session->blocked = false;
        ERR_clear_error();
        errno = 0;
        if (SSL_read_ex(session->ssl, bytes + got, size - got, &some) == 1) {
            got += some;
            session->shaken = true;
            if (session->drained && !SSL_has_pending(session->ssl))
                return (ssize_t)got; /* what comes now, the socket tells */
            continue;
        }
        int error = SSL_get_error(session->ssl, 0);
        session->shaken |= SSL_is_init_finished(session->ssl);
        if (error == SSL_ERROR_WANT_READ && !session->blocked)
            continue; /* it was a record without data */
        bool later = error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE;
        session->recv_wants_write = error == SSL_ERROR_WANT_WRITE;
        if (got == 0)
            return settle_error(session, error);
        session->pending = !later; /* what has come counts; the end is found again */
        return (ssize_t)got;
    }
    session->pending = true;
    errno = EAGAIN;
    return got > 0 ? (ssize_t)got : -1;
}

ssize_t weir_tls_send(struct tls_session *session, const char *bytes, size_t len)
{
    size_t sent = 0, some = 0;
    session->send_wants_read = false;
    while (sent < len) {
        ERR_clear_error();
        errno = 0;
        if (SSL_write_ex(session->ssl, bytes + sent, len - sent, &some) == 1) {
            sent += some;
            session->unsent = false;
            session->shaken = true;
            continue;
        }
        int error = SSL_get_error(session->ssl, 0);
        session->shaken |= SSL_is_init_finished(session->ssl);
        session->unsent = session->shaken;
        session->send_wants_read = error == SSL_ERROR_WANT_READ;
        if (sent > 0 && (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE))
            break;
        ssize_t result = settle_error(session, error);
        if (result == 0)
            errno = EPIPE;
        return -1;
    }
    return (ssize_t)sent;
}

const char *weir_tls_fault(const struct tls_session *session)
{
    return session->fault;
}

bool weir_tls_is_handshaking(const struct tls_session *session)
{
    return !session->shaken;
}

bool weir_tls_pending(const struct tls_session *session)
{
    return session->pending;
}

bool weir_tls_recv_wants_write(const struct tls_session *session)
{
    return session->recv_wants_write;
}

bool weir_tls_send_wants_read(const struct tls_session *session)
{
    return session->send_wants_read;
}

bool weir_tls_subject(const struct tls_session *session, char subject[static TLS_SUBJECT_MAX + 1])
{
    X509 *cert = SSL_get0_peer_certificate(session->ssl);
    BIO *text = cert && SSL_get_verify_result(session->ssl) == X509_V_OK ? BIO_new(BIO_s_mem()) : NULL;
    int len = 0;
    if (text && X509_NAME_print_ex(text, X509_get_subject_name(cert), 0, XN_FLAG_RFC2253) >= 0) {
        len = BIO_read(text, subject, TLS_SUBJECT_MAX + 1);
        len = len > TLS_SUBJECT_MAX ? 0 : len;
    }
    BIO_free(text);
    ERR_clear_error();
    subject[len > 0 ? len : 0] = '\0';
    return len > 0;
}
