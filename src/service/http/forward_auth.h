/* SPDX-License-Identifier: MIT */
/*
 * Forward auth: a proxy asks at /auth whether it may pass a request on. The routes of weir.yaml say which
 * policies and which key decide; this file finds them, and the caller takes from them.
 *
 * Guarantee: nothing that a client sends makes it another client, or its request another request. The
 * original request and the client's address are read from headers only if the peer is a trusted proxy; what
 * stands twice and differs is refused.
 */
#ifndef WEIR_SERVICE_HTTP_FORWARD_AUTH_H
#define WEIR_SERVICE_HTTP_FORWARD_AUTH_H

#include "http/request.h"
#include "service/policies/snapshot.h"

/* Who the proxy is. At /auth, Authorization is what the visitor sent to the application. */
#define FORWARD_CREDENTIALS "Weir-Authorization"
#define FORWARD_KEY_MAX     256
#define FORWARD_VALUE_MAX   128 /* bytes of a header, cookie or parameter; longer ones are hashed */
#define FORWARD_REASON_MAX  160
#define FORWARD_HOPS_MAX    32 /* entries of X-Forwarded-For that are looked at, from the right */

enum forward_outcome {
    FORWARD_ALLOW,  /* no route matches, or the key is missing, and the file says allow */
    FORWARD_REFUSE, /* answer `status`, with `reason` */
    FORWARD_TAKE    /* take one unit from each pair, all or none */
};

struct forward_pair {
    struct slice policy, key; /* the policy's name is the snapshot's, the key the decision's */
};

struct forward_decision {
    struct forward_pair pairs[ROUTE_POLICIES_MAX];
    size_t pair_count;
    int status; /* FORWARD_TAKE: of the answer if the take is refused; FORWARD_REFUSE: 403 */
    enum unavailable_rule on_unavailable;
    char reason[FORWARD_REASON_MAX]; /* FORWARD_ALLOW and FORWARD_REFUSE: why, in words */
    char key[FORWARD_KEY_MAX];
    char address[FORWARD_KEY_MAX]; /* for policies that make prefixes of it themselves */
};

/* Decides about a request whose path is /auth, or begins with /auth/. `peer` is the address of the other end
 * of the connection, as listen.c writes it. Inside of a read section. */
enum forward_outcome weir_forward_auth(const struct snapshot *snapshot, const struct http_request *request,
                                       const char *peer, struct forward_decision *decision);

/* Writes the address of the client behind a proxy that trusted_proxies: names, as listen.c does; "": the peer
 * is the client. Proxies that are trusted by default do not count here: any program of this machine could be
 * one, and have as many addresses for wrong passwords as it likes. */
void weir_forward_client(const struct snapshot *snapshot, const struct http_request *request,
                         const char *peer, char address[static IP_TEXT_MAX + 8]);

#endif
