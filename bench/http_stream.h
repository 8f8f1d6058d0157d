/* SPDX-License-Identifier: MIT */
/*
 * The responses of an HTTP server, as they come in: where each one ends, and its status. Content-Length says
 * how long a body is; a response without it has none.
 */
#ifndef WEIR_BENCH_HTTP_STREAM_H
#define WEIR_BENCH_HTTP_STREAM_H

#include <stdbool.h>
#include <stddef.h>

#define HTTP_STREAM_LINE 64 /* bytes of a line that are looked at */

struct http_stream {
    char line[HTTP_STREAM_LINE];
    size_t line_len, body_left;
    int status;
    bool in_body;
};

/* Reads up to the end of the next response and moves *at there. Returns its status; 0: the bytes ended before
 * it. */
int http_stream_read(struct http_stream *stream, const char **at, const char *end);

#endif
