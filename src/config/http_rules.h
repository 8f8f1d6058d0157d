/* SPDX-License-Identifier: MIT */
/*
 * What weir.yaml says of requests over HTTP: routes of forward auth, which proxies are believed, which names
 * and origins browsers may use, which headers answers have. Immutable once read, and shared by references:
 * the configuration has one, and so has every snapshot in which it is in force.
 */
#ifndef WEIR_CONFIG_HTTP_RULES_H
#define WEIR_CONFIG_HTTP_RULES_H

#include <stdatomic.h>

#include "base/address.h"
#include "config/config.h"

#define ROUTES_MAX         256
#define ROUTE_POLICIES_MAX 8 /* as many as one take may have */
#define ROUTE_KEYS_MAX     8
#define ROUTE_METHODS_MAX  16
#define PROXIES_MAX        256
#define ROUTE_NAME_MAX     64 /* bytes of a header's, cookie's or query parameter's name */

enum route_key_kind { ROUTE_HEADER, ROUTE_COOKIE, ROUTE_QUERY, ROUTE_BEARER, ROUTE_ADDRESS };

/* Where a key may come from: "header:x-api-key", "bearer", "address/56". */
struct route_key {
    enum route_key_kind kind;
    const char *text; /* as the file has it; a header's name in lower case */
    const char *name; /* header, cookie, query: in `text` */
    int bits;         /* address: of an IPv6 address; 0: ipv6_prefix */
};

enum route_answer { ROUTE_ALLOW, ROUTE_REFUSE };
enum unavailable_rule { UNAVAILABLE_ERROR, UNAVAILABLE_ALLOW, UNAVAILABLE_REFUSE };

struct http_route {
    char *host, *path;        /* patterns of path.h; NULL: any */
    struct text_list methods; /* none: any. GET is HEAD, too */
    struct text_list policies;
    struct text_list key_texts;
    struct route_key keys[ROUTE_KEYS_MAX]; /* what those say; the first that is present counts */
    size_t key_count;                      /* at least 1 */
    int64_t on_missing_key;                /* enum route_answer */
    int64_t on_unavailable;                /* enum unavailable_rule */
    int64_t status;                        /* of a refusal: 0: 429, 1: 403, 2: 503 */
    struct config_place place;
};

/* The headers that say what is left of a limit. */
enum rate_headers {
    RATE_HEADERS_IETF,
    RATE_HEADERS_IETF_06,
    RATE_HEADERS_X,
    RATE_HEADERS_X_EPOCH,
    RATE_HEADERS_NONE
};

struct http_rules {
    atomic_uint references;
    struct http_route *routes;
    size_t route_count;
    int64_t routes_default;              /* enum route_answer: of a request that no route matches */
    int64_t ipv6_prefix;                 /* bits; 0: 64 */
    struct text_list proxies;            /* as the file has them; none: loopback addresses and unix sockets */
    struct ip_range ranges[PROXIES_MAX]; /* of them that are addresses */
    size_t range_count;
    bool trusts_unix;
    struct text_list hosts; /* names by which browsers may call the server, beside localhost and addresses */
    struct text_list origins; /* of pages that may call it from other sites */
    int64_t headers;          /* enum rate_headers */
    int64_t retry_jitter;     /* percent that Retry-After is lengthened by at most, by chance */
};

#define IPV6_PREFIX 64

struct http_rules *weir_http_rules_new(void);                     /* what stands without a file; or NULL */
struct http_rules *weir_http_rules_ref(struct http_rules *rules); /* NULL: nothing, as the next */
void weir_http_rules_drop(struct http_rules *rules);

/* Is the client at that address, as listen.c writes it, a proxy whose headers are believed? */
bool weir_proxy_is_trusted(const struct http_rules *rules, const char *peer);
bool weir_ip_is_trusted(const struct http_rules *rules, const struct ip *ip);

#endif
