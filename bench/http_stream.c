/* SPDX-License-Identifier: MIT */
#include "bench/http_stream.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static void read_head_line(struct http_stream *stream)
{
    static const char version[] = "HTTP/1.1 ", length[] = "Content-Length:";
    stream->line[stream->line_len] = '\0';
    if (strncmp(stream->line, version, sizeof version - 1) == 0)
        stream->status = (int)strtol(stream->line + sizeof version - 1, NULL, 10);
    else if (strncasecmp(stream->line, length, sizeof length - 1) == 0)
        stream->body_left = strtoul(stream->line + sizeof length - 1, NULL, 10);
    else if (stream->line[0] == '\r')
        stream->in_body = true;
    stream->line_len = 0;
}

/* Keeps as much of the line as is looked at. */
static const char *read_head(struct http_stream *stream, const char *at, const char *end)
{
    const char *newline = memchr(at, '\n', (size_t)(end - at)), *stop = newline ? newline : end;
    size_t len = (size_t)(stop - at), room = sizeof stream->line - 1 - stream->line_len;
    memcpy(stream->line + stream->line_len, at, len < room ? len : room);
    stream->line_len += len < room ? len : room;
    if (!newline)
        return end;
    read_head_line(stream);
    return newline + 1;
}

int http_stream_read(struct http_stream *stream, const char **at, const char *end)
{
    while (!stream->in_body && *at < end)
        *at = read_head(stream, *at, end);
    if (!stream->in_body)
        return 0;
    size_t here = (size_t)(end - *at), some = here < stream->body_left ? here : stream->body_left;
    *at += some;
    stream->body_left -= some;
    if (stream->body_left > 0)
        return 0;
    stream->in_body = false;
    return stream->status;
}
