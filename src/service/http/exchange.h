/* SPDX-License-Identifier: MIT */
/*
 * An HTTP request while it is being run: what its response depends on beside the answer. HTTP is a front end
 * of the commands: a request becomes the words of one (words.h), runs as every other request does, and only
 * its reply is written differently (encode.h, response.h). Plain data, so a pending request keeps a copy.
 */
#ifndef WEIR_SERVICE_HTTP_EXCHANGE_H
#define WEIR_SERVICE_HTTP_EXCHANGE_H

#include <stdbool.h>
#include <stdint.h>

#include "config/http_rules.h"

struct endpoint;

#define EXCHANGE_CORS_MAX 384

/* What the reply of the command becomes. */
enum exchange_kind {
    EXCHANGE_RESPONSE,   /* a response of its own */
    EXCHANGE_ELEMENT,    /* an element of a batch */
    EXCHANGE_LOGIN,      /* nothing, if the login was right: the request that needs it is run next */
    EXCHANGE_AUTH_LOGIN, /* the same for a proxy, whose visitors must not be asked for a password */
    EXCHANGE_AUTH,       /* forward authentication: an empty response, which a proxy understands */
    EXCHANGE_THROTTLE,   /* as throttlecrab answers */
    EXCHANGE_METRICS,    /* for Prometheus */
    EXCHANGE_OPENMETRICS
};

struct http_exchange {
    const struct endpoint *endpoint; /* static; NULL: none */
    enum exchange_kind kind;
    enum rate_headers headers;
    bool headers_asked; /* by the request: whatever the policy has */
    int16_t refusal_status;
    uint8_t jitter;      /* percent that Retry-After may be longer */
    uint8_t unavailable; /* enum unavailable_rule: what EXCHANGE_AUTH answers if nothing was decided */
    bool text;           /* in words, for people */
    bool no_body;        /* HEAD */
    bool is_1_0;
    bool logged_in;               /* else what is not permitted may be after a login */
    bool closes;                  /* the connection, after it */
    uint64_t credential;          /* EXCHANGE_LOGIN: what it was tried with */
    char client[IP_TEXT_MAX + 8]; /* of a login behind a proxy: the client's address; "": the peer's */
    char cors[EXCHANGE_CORS_MAX]; /* fields of the head for a page of another site, or "" */
};

#endif
