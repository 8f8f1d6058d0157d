/* SPDX-License-Identifier: MIT */
/*
 * HTTP/1.1 requests (RFC 9112): bytes in, the parts of one request out. Sans-IO: it reads what is there and
 * says whether more is needed; nothing is kept between calls.
 *
 * Guarantee: if a request is accepted, every other reader that follows RFC 9112 sees the same end of it. What
 * two readers could understand differently is refused (request smuggling): two lengths, a length that is no
 * number, a transfer coding other than one `chunked`, chunk extensions, trailers about framing, folded lines,
 * a bare CR or LF, white space around a name, two Host fields, an absolute target that names another host
 * than Host. script/http-differential holds it against Node's parser.
 */
#ifndef WEIR_HTTP_REQUEST_H
#define WEIR_HTTP_REQUEST_H

#include <stdint.h>

#include "base/buffer.h"

#define HTTP_HEADERS_MAX 64
#define HTTP_TARGET_MAX  8192
#define HTTP_CHUNKS_MAX  1024 /* of a body: they are looked at again whenever more has arrived */

enum http_method {
    HTTP_GET = 1,
    HTTP_HEAD = 2,
    HTTP_POST = 4,
    HTTP_PUT = 8,
    HTTP_DELETE = 16,
    HTTP_PATCH = 32,
    HTTP_OPTIONS = 64,
    HTTP_OTHER = 128 /* any other token */
};

struct http_header {
    struct slice name;  /* as it was sent: compare by weir_text_same */
    struct slice value; /* without the white space around it */
};

struct http_request {
    enum http_method method;
    struct slice method_name;
    struct slice path, query; /* of the target, not decoded; query without '?', bytes NULL: there is none */
    struct slice host;        /* without a port: "localhost", "[::1]"; bytes NULL: there is none (HTTP/1.0) */
    struct slice body;
    bool is_chunked; /* the body still is in chunks: weir_http_join_chunks */
    bool keep_alive; /* the client wants to go on */
    bool is_1_0;
    size_t header_count;
    struct http_header headers[HTTP_HEADERS_MAX];
};

struct http_limits {
    size_t head; /* bytes of the request line and the header fields together */
    size_t body; /* bytes of the body */
};

enum http_parsed {
    HTTP_WHOLE, /* there is one, `used` bytes long */
    HTTP_MORE,  /* what is there is right so far; at most limits->head + a bounded rest of it is looked at */
    HTTP_BAD    /* `status` and `why` are to be answered, and the connection closed */
};

struct http_parse_result {
    size_t used;
    size_t need;         /* HTTP_MORE: with fewer bytes than these it would be HTTP_MORE again */
    int status;          /* HTTP_BAD: 400, 413, 414, 417, 431, 501 or 505 */
    const char *why;     /* HTTP_BAD: static, says what is wrong and what is allowed */
    bool has_head;       /* HTTP_MORE: the head is whole, and `request` has all but the body */
    bool wants_continue; /* HTTP_MORE: the client waits for "100 Continue" before it sends the body */
};

/* Reads the first request in `bytes`, which it does not change: the same bytes may be read again. Empty lines
 * in front of a request are part of it.
 *
 * Nothing is kept between calls, so a request that arrives in pieces is read again from its start. That is
 * bounded: a caller that waits for `need` bytes reads a head at most once per byte of it (limits->head), a
 * sized body once, and chunks a few times each (HTTP_CHUNKS_MAX), of which only the sizes are looked at. */
enum http_parsed weir_http_parse(const struct http_limits *limits, const char *bytes, size_t len,
                                 struct http_request *request, struct http_parse_result *result);

/* Moves the chunks of the body together, in the bytes that the request was read from. They are no request any
 * more then: call it when the request will not be read again. */
void weir_http_join_chunks(struct http_request *request);

/* The value of the field of that name, whatever the case; NULL: there is none. The first, if there are
 * several; weir_http_header_count says how many there are. */
const struct slice *weir_http_header(const struct http_request *request, const char *name);
size_t weir_http_header_count(const struct http_request *request, const char *name);

#endif
