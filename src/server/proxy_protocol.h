/* SPDX-License-Identifier: MIT */
/*
 * The PROXY protocol, version 2: the few bytes that a load balancer sends in front of a connection to say
 * whose it is. Sans-IO. Nothing is read behind the header, since TLS may follow.
 */
#ifndef WEIR_SERVER_PROXY_PROTOCOL_H
#define WEIR_SERVER_PROXY_PROTOCOL_H

#include "server/listen.h"

#define PROXY_HEADER_MAX 536 /* bytes that are accepted, with what is said beside the addresses */

enum proxy_parsed {
    PROXY_MORE,    /* *need bytes are needed in all */
    PROXY_BAD,     /* it is no such header, or too long */
    PROXY_ADDRESS, /* `address` is the client's, as listen.c writes it */
    PROXY_LOCAL    /* the balancer's own connection, or one without an address: the peer counts */
};

/* Reads a header from its first `len` bytes, no more of them than it said it needs. */
enum proxy_parsed weir_proxy_read(const char *bytes, size_t len, size_t *need,
                                  char address[static LISTEN_ADDRESS_MAX]);

#endif
