/* SPDX-License-Identifier: MIT */
/*
 * Parts of a target: percent-encoding (RFC 3986) and queries. Everything is decoded once.
 */
#ifndef WEIR_HTTP_URI_H
#define WEIR_HTTP_URI_H

#include <stdint.h>

#include "base/buffer.h"

/* Decodes %XX into `bytes`, which has room for text.len bytes; with `plus` a + is a space, as in queries.
 * Returns the length; SIZE_MAX: a % is not followed by two hexadecimal digits. */
size_t weir_uri_decode(struct slice text, bool plus, char *bytes);

/* Takes the next `name=value` from *query, which is then what follows. Not decoded; without '=' the value is
 * empty. false: there is none. */
bool weir_query_next(struct slice *query, struct slice *name, struct slice *value);

#endif
