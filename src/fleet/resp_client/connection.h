/* SPDX-License-Identifier: MIT */
/*
 * One connection of a client (client.h), in the hands of the client's thread alone. What it tells goes
 * through the functions of struct resp_connection_owner, which may not touch the connection.
 */
#ifndef WEIR_FLEET_RESP_CLIENT_CONNECTION_H
#define WEIR_FLEET_RESP_CLIENT_CONNECTION_H

#include "fleet/resp_client/client.h"
#include "fleet/resp_client/lookup.h"

struct client_request {
    struct client_request *next;
    struct fleet_host host;
    int64_t deadline_ns;
    size_t answers; /* that are still to come */
    resp_client_answer *answer;
    void *arg;
    uint64_t start; /* where it begins in what the connection has put into `out` so far */
    size_t len;
    char bytes[];
};

/* A list with its end. */
struct client_request_list {
    struct client_request *first, **end;
    size_t count;
};

struct resp_connection_owner {
    char user[128], password[256]; /* "": no login */
    int64_t database, connect_ns, pause_most_ns;
    struct wakeup *wakeup;
    uint64_t random;
    void (*answered)(void *owner, struct client_request *request, const struct resp_value *value, bool asked,
                     const char *why); /* takes the request */
    void (*opened)(void *owner, const struct fleet_host *host);
    void (*closed)(void *owner, const struct fleet_host *host, const char *why);
    void (*pushed)(void *owner, const struct fleet_host *host, const struct resp_value *value);
};

enum resp_connection_state {
    CONNECTION_IDLE,
    CONNECTION_RESOLVING,
    CONNECTION_CONNECTING,
    CONNECTION_HANDSHAKE,
    CONNECTION_OPEN
};
enum handshake_step { HANDSHAKE_HELLO, HANDSHAKE_AUTH, HANDSHAKE_SELECT };

struct resp_connection {
    struct resp_connection_owner *owner;
    struct fleet_host host;
    enum resp_connection_state state;
    enum handshake_step handshake; /* the answer that is awaited */
    int fd;
    struct lookup *lookup;
    const struct addrinfo *address; /* that is being tried; the ones behind it are next */
    int64_t until_ns;               /* it has to be open */
    int64_t retry_ns, pause_ns;     /* not again before that */
    int64_t used_ns;                /* when something was last asked */
    const char *ends;               /* why it is closed as soon as nothing is expected; NULL: it is not */
    struct client_request_list expected; /* put into `out`, in this order */
    struct client_request_list waiting;  /* for the connection to open, or for room */
    struct buffer out, in;
    uint64_t put, written; /* bytes, ever */
};

void weir_resp_connection_init(struct resp_connection *connection, struct resp_connection_owner *owner,
                               const struct fleet_host *host);
void weir_resp_connection_free(struct resp_connection *connection); /* everything is answered with NULL */
void weir_resp_connection_request(struct resp_connection *connection, struct client_request *request,
                                  int64_t now);
/* Whatever the time demands: connects, sends, gives up. Gives when it is to be called again. */
int64_t weir_resp_connection_step(struct resp_connection *connection, int64_t now);
/* What poll is to look for; 0: nothing. */
short weir_resp_connection_events(const struct resp_connection *connection);
void weir_resp_connection_ready(struct resp_connection *connection, int64_t now);
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

static inline bool host_same(const struct fleet_host *one, const struct fleet_host *other)
{
    return one->port == other->port && strcmp(one->name, other->name) == 0;
}

#endif
