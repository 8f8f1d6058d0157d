/* SPDX-License-Identifier: MIT */
/*
 * Who sends a request over HTTP, and whether a web page of another site made a browser send it.
 *
 * Without a password on a loopback address every page in a browser of this machine could call the server. So
 * a request that changes something must be JSON, which pages of other sites may not send unasked; and where
 * no login is needed, the request must name a known host (a page could let its own name point here) and come
 * from no other site.
 */
#ifndef WEIR_SERVICE_HTTP_ACCESS_H
#define WEIR_SERVICE_HTTP_ACCESS_H

#include "http/request.h"
#include "service/policies/snapshot.h"

/* ---- credentials ---- */

enum credentials_kind {
    CREDENTIALS_NONE,
    CREDENTIALS_BASIC,  /* name and password */
    CREDENTIALS_BEARER, /* a token: weir_users_by_token finds its user */
    CREDENTIALS_BAD     /* `why` says what is wrong: 401 */
};

struct http_credentials {
    enum credentials_kind kind;
    struct slice name, password; /* basic: in `bytes` */
    struct slice token;          /* bearer: in the request */
    const char *why;
    char bytes[(CONFIG_NAME_MAX + 1 + CONFIG_PASSWORD_MAX) * 4 / 3 + 4];
};

/* Reads the field of that name: Authorization, or FORWARD_CREDENTIALS. */
void weir_http_credentials_read(const struct http_request *request, const char *field,
                                struct http_credentials *credentials);
void weir_http_credentials_wipe(struct http_credentials *credentials);

/* ---- browsers ---- */

struct access_refusal {
    int status; /* 403 or 415 */
    char why[240];
};

/* May the request be run, as far as browsers go? `exempt`: /auth, /metrics and health, where proxies forward
 * what a visitor sent. false: `refusal` says what to answer. */
bool weir_access_check(const struct snapshot *snapshot, const struct http_request *request,
                       bool has_credentials, bool exempt, struct access_refusal *refusal);

/* ---- CORS ---- */

/* Is it a browser's question whether a page may send a request? It has no credentials; the answer is 204 with
 * the headers of weir_access_put_cors. */
bool weir_access_is_preflight(const struct http_request *request);
/* Writes the header lines that let a page of an allowed origin read the answer; of others none but Vary.
 * Without `cors:` none at all. */
void weir_access_put_cors(const struct snapshot *snapshot, const struct http_request *request,
                          struct buffer *out);

#endif
