/* SPDX-License-Identifier: MIT */
/*
 * One connection of a client (client.h), in the hands of the client's thread alone. What it tells goes
 * through the functions of struct resp_connection_owner, which may not touch the connection.
 */
#ifndef WEIR_RESP_CLIENT_CONNECTION_H
#define WEIR_RESP_CLIENT_CONNECTION_H

#include "resp_client/client.h"
#include "resp_client/lookup.h"
#include "tls/tls.h"

struct client_request {
    struct client_request *next;
    struct server_host host;
    int64_t deadline_ns;
    size_t answers; /* that are still to come */
    resp_client_answer *answer;
    void *arg;
    uint64_t start; /* where it begins in what the connection has put into `out` so far */
    size_t len;
    char bytes[];
};

/* With one answer to come. NULL: out of memory. */
struct client_request *weir_client_request_new(const struct server_host *host, const char *bytes, size_t len,
                                               int64_t deadline_ns);

/* A list with its end. */
struct client_request_list {
    struct client_request *first, **end;
    size_t count;
};

struct resp_connection_owner {
    char user[128], password[256]; /* "": no login */
    int64_t database, connect_ns, pause_most_ns;
    size_t in_most;   /* bytes of one answer */
    bool needs_resp3; /* a server that does not know HELLO is refused */
    struct wakeup *wakeup;
    struct tls_context *tls; /* or NULL */
    uint64_t random;
    void (*answered)(void *owner, struct client_request *request, const struct resp_value *value, bool asked,
                     const char *why);                                          /* takes the request */
    void (*opened)(void *arg, const struct server_host *host);                  /* or NULL */
    void (*closed)(void *arg, const struct server_host *host, const char *why); /* or NULL */
    void *arg;
};

enum resp_connection_state {
    CONNECTION_IDLE,
    CONNECTION_RESOLVING,
    CONNECTION_CONNECTING,
    CONNECTION_HANDSHAKE,
    CONNECTION_OPEN
};
enum handshake_step { HANDSHAKE_HELLO, HANDSHAKE_AUTH, HANDSHAKE_SELECT };

/* Why a connection is closed, and in which state it was. */
#define RESP_FAILURE_MAX 160
struct resp_failure {
    enum resp_connection_state state;
    int code; /* an errno value; EACCES: the login was refused; EPROTO; 0: the server has closed it */
    char reason[RESP_FAILURE_MAX];
};

struct resp_connection {
    struct resp_connection_owner *owner;
    struct server_host host;
    enum resp_connection_state state;
    enum handshake_step handshake; /* the answer that is awaited */
    int fd;
    struct tls_session *tls; /* or NULL */
    struct lookup *lookup;
    const struct addrinfo *address; /* that is being tried; the ones behind it are next */
    int64_t until_ns;               /* it has to be open */
    int64_t retry_ns, pause_ns;     /* not again before that; the last pause */
    int64_t used_ns;                /* when something was last asked */
    const char *ends;               /* why it is closed as soon as nothing is expected; NULL: it is not */
    struct client_request_list expected; /* put into `out`, in this order */
    struct client_request_list waiting;  /* for the connection to open, or for room */
    struct buffer out, in;
    uint64_t put, written; /* bytes, ever */
    struct resp_failure failure;
};

/* Sets owner->tls as the URL says. false: `err` says which file is wrong. */
bool weir_resp_connection_secure(struct resp_connection_owner *owner, const struct url_tls *tls,
                                 struct weir_error *err);
void weir_resp_connection_init(struct resp_connection *connection, struct resp_connection_owner *owner,
                               const struct server_host *host);
void weir_resp_connection_free(struct resp_connection *connection); /* everything is answered with NULL */
void weir_resp_connection_request(struct resp_connection *connection, struct client_request *request,
                                  int64_t now);
/* Connects and logs in, also if nothing waits for it; a step does so by itself if something does. */
void weir_resp_connection_begin(struct resp_connection *connection, int64_t now);
/* Whatever the time demands: connects, sends, gives up. Gives when it is to be called again. */
int64_t weir_resp_connection_step(struct resp_connection *connection, int64_t now);
/* Sleeps until one of them can be read or written, which is then done; until the wakeup; or that time. */
void weir_resp_connections_poll(struct resp_connection *connections, size_t count, struct wakeup *wakeup,
                                int64_t until_ns);
bool weir_resp_connection_is_idle(
    const struct resp_connection *connection); /* nobody waits for anything on it */

static inline void client_requests_init(struct client_request_list *list)
{
    list->first = NULL;
    list->end = &list->first;
    list->count = 0;
}

static inline void client_requests_add(struct client_request_list *list, struct client_request *request)
{
    request->next = NULL;
    *list->end = request;
    list->end = &request->next;
    list->count++;
}

static inline struct client_request *client_requests_take(struct client_request_list *list)
{
    struct client_request *request = list->first;
    if (!request)
        return NULL;
    list->first = request->next;
    if (!list->first)
        list->end = &list->first;
    list->count--;
    return request;
}

/* All of them, in their order, to be taken out one by one; the list is empty then. */
static inline struct client_request_list client_requests_take_all(struct client_request_list *list)
{
    struct client_request_list all = *list;
    client_requests_init(list);
    return all;
}

static inline bool host_same(const struct server_host *one, const struct server_host *other)
{
    return one->port == other->port && strcmp(one->name, other->name) == 0;
}

#endif
