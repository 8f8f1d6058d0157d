/* SPDX-License-Identifier: MIT */
/*
 * Asking servers that speak the Redis protocol, without waiting: one thread with poll(2) for all connections
 * of a coordinator. A connection is made for a host when something is first asked of it, logs in by itself,
 * and is made anew, after a pause that grows, whenever something waits for it.
 *
 * Law: each request is answered exactly once, by the client's thread, without a lock held: by the server's
 * answer, or by NULL and the truth about whether a byte of it may have left (`asked`). It is answered by its
 * deadline at the latest. An answer that is late closes its connection, and so does anything that is not the
 * protocol: what comes behind it could be taken for the answer to something else.
 *
 * All is bounded: connections, requests of a connection, bytes on the way in both directions, and how long a
 * name may take to be resolved (by a thread of its own, since nothing can interrupt that).
 */
#ifndef WEIR_RESP_CLIENT_CLIENT_H
#define WEIR_RESP_CLIENT_CLIENT_H

#include "resp/reply.h"
#include "resp_client/url.h"

#define RESP_CLIENT_CONNECTIONS_MAX 64
#define RESP_CLIENT_REQUESTS_MAX    4096      /* on the way at once; one more is answered with NULL */
#define RESP_CLIENT_OUT_MAX         (1 << 20) /* bytes of a connection that the server has not taken yet */
#define RESP_CLIENT_IN_MAX          (4 << 20) /* bytes of one answer */
#define RESP_CLIENT_WHY_MAX         160

struct resp_client;

/* value: NULL: no answer will come; `why` says why then, in a line, and `asked` whether the server may have
 * seen the request: false is certain. It is called within weir_resp_client_request, by its caller, if there
 * is no memory, too much is on the way already, or the client stops. */
typedef void resp_client_answer(void *arg, const struct resp_value *value, bool asked, const char *why);

struct resp_client_options {
    const char *user, *password; /* NULL or "": no login */
    const struct url_tls *tls;   /* NULL, or not on: none */
    int64_t database;            /* SELECT; 0: none */
    int64_t connect_ns;          /* for name, connection and login together; 0: 2 s */
    int64_t pause_most_ns;       /* between two tries, which come 10 ms apart at first; 0: 1 s */
    /* What may be NULL, by the client's thread, without a lock held: */
    void (*opened)(void *arg, const struct server_host *host); /* a connection can be used */
    void (*closed)(void *arg, const struct server_host *host,
                   const char *why); /* it was, or could not be made */
    int64_t (*tick)(void *arg,
                    int64_t now_ns); /* after each round; gives the time (weir_resp_client_now) of the next */
    void *arg;
};

/* NULL: `err` says why. `options` is copied, what it points to as well. */
struct resp_client *weir_resp_client_start(const struct resp_client_options *options, struct weir_error *err);
/* Everything on the way is answered with NULL, then nothing is told any more. Not by the client's thread. */
void weir_resp_client_stop(struct resp_client *client);

/* The kernel's time since boot: deadlines are of it. It goes on while a test has set weir_now. */
int64_t weir_resp_client_now(void);

/* By any thread, also within an answer. */
void weir_resp_client_request(struct resp_client *client, const struct server_host *host,
                              const struct slice *words, size_t count, int64_t deadline_ns,
                              resp_client_answer *answer, void *arg);
/* The same for several requests that must not be torn apart (ASKING): bytes as weir_resp_ask makes them, of
 * `answers` requests; the last answer counts. */
void weir_resp_client_send(struct resp_client *client, const struct server_host *host, const char *bytes,
                           size_t len, size_t answers, int64_t deadline_ns, resp_client_answer *answer,
                           void *arg);
/* By the client's thread, within an answer: the connection to that host is closed when all that was asked on
 * it is answered, and nothing more is asked on it. What waits is answered with NULL; the next request makes a
 * new connection, and resolves the name anew. `why` stays. */
void weir_resp_client_close_host(struct resp_client *client, const struct server_host *host, const char *why);
/* Wakes the thread, so that `tick` is called. */
void weir_resp_client_wake(struct resp_client *client);

/* The same, and returns when `answer` has; not by the client's thread. */
void weir_resp_client_wait(struct resp_client *client, const struct server_host *host,
                           const struct slice *words, size_t count, int64_t deadline_ns,
                           resp_client_answer *answer, void *arg);

#endif
