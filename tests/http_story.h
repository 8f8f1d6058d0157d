/* SPDX-License-Identifier: MIT */
/*
 * What the HTTP parser makes of bytes that arrive in pieces, as text: a line for each request, "bad: status
 * why", and at the end how many bytes wait for more. Two ways of cutting the same bytes must give the same
 * story.
 *
 * Each arrival lies in memory of its own, as large as what is there and no larger: so a sanitizer sees what
 * is read behind it. Each request that is accepted is read again by model_end, slowly and line by line: it
 * must end at the same byte with the same body. A broken promise of request.h aborts.
 */
#ifndef WEIR_TESTS_HTTP_STORY_H
#define WEIR_TESTS_HTTP_STORY_H

#include <stdlib.h>
#include <strings.h>

#include "fuzz/must.h"
#include "http/request.h"

struct http_story {
    const struct http_limits *limits;
    struct buffer text;
    size_t start; /* bytes that have been used up */
    size_t need;  /* what the parser says there must be before it can say anything else */
    bool ended;   /* by something bad, or by a request that is the last one */
};

/* ---- the model ------------------------------------------------------------------------------------ */

struct http_model {
    const char *at, *end;
    struct buffer body;
};

/* The line at model->at without its CRLF. It has no other CR, LF or NUL. */
static inline struct slice model_line(struct http_model *model)
{
    const char *start = model->at;
    for (; model->end - model->at >= 2 && memcmp(model->at, "\r\n", 2) != 0; model->at++)
        MUST(*model->at != '\r' && *model->at != '\n' && *model->at != '\0');
    MUST(model->end - model->at >= 2);
    model->at += 2;
    return (struct slice){start, (size_t)(model->at - 2 - start)};
}

static inline bool line_is_field(struct slice line, const char *name)
{
    return line.len > strlen(name) && line.bytes[strlen(name)] == ':' &&
           strncasecmp(line.bytes, name, strlen(name)) == 0;
}

static inline void model_take(struct http_model *model, size_t len)
{
    MUST((size_t)(model->end - model->at) >= len);
    buffer_put(&model->body, model->at, len);
    model->at += len;
}

static inline void model_chunks(struct http_model *model)
{
    for (;;) {
        char digits[16] = "";
        struct slice line = model_line(model);
        MUST(line.len > 0 && line.len <= 8 && strspn(line.bytes, "0123456789abcdefABCDEF") == line.len);
        memcpy(digits, line.bytes, line.len);
        size_t size = strtoul(digits, NULL, 16);
        if (size == 0)
            break;
        model_take(model, size);
        MUST(model_line(model).len == 0);
    }
    while (model_line(model).len > 0)
        ;
}

/* Where the request at the start of bytes ends; its body is in model->body then. */
static inline size_t model_end(struct http_model *model, const char *bytes, size_t len)
{
    *model = (struct http_model){.at = bytes, .end = bytes + len};
    struct slice line = model_line(model);
    while (line.len == 0)
        line = model_line(model);
    bool old = line.len > 3 && memcmp(line.bytes + line.len - 3, "1.0", 3) == 0;
    size_t hosts = 0, lengths = 0, codings = 0, length = 0;
    for (line = model_line(model); line.len > 0; line = model_line(model)) {
        MUST(line.bytes[0] != ' ' && line.bytes[0] != '\t');
        hosts += line_is_field(line, "host");
        codings += line_is_field(line, "transfer-encoding");
        if (line_is_field(line, "content-length")) {
            lengths++;
            length = strtoul(line.bytes + strlen("content-length:"), NULL, 10);
        }
    }
    MUST(lengths + codings <= 1 && hosts <= 1 && (old ? codings == 0 : hosts == 1));
    if (codings > 0)
        model_chunks(model);
    else
        model_take(model, length);
    return (size_t)(model->at - bytes);
}

/* ---- the story ------------------------------------------------------------------------------------ */

static inline void http_story_begin(struct http_story *story, const struct http_limits *limits)
{
    *story = (struct http_story){.limits = limits};
}

static inline void http_story_free(struct http_story *story)
{
    weir_buffer_free(&story->text);
}

/* Each part lies in the bytes, but for a path that is implied. */
static inline void story_put_slice(struct http_story *story, struct slice part, const char *bytes, size_t len)
{
    uintptr_t from = (uintptr_t)bytes, at = (uintptr_t)part.bytes;
    MUST(part.len == 0 || slice_is(part, "/") || (at >= from && at + part.len <= from + len));
    weir_buffer_print(&story->text, " %zu=", part.len);
    buffer_put(&story->text, part.bytes, part.len);
}

static inline void story_put_request(struct http_story *story, const struct http_request *request,
                                     const char *bytes, size_t used)
{
    weir_buffer_print(&story->text, "request in %zu%s%s:", used, request->is_1_0 ? " 1.0" : "",
                      request->keep_alive ? "" : " close");
    const struct slice parts[] = {request->method_name, request->path, request->query, request->host,
                                  request->body};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        story_put_slice(story, parts[i], bytes, used);
    MUST(request->header_count <= HTTP_HEADERS_MAX && request->body.len <= story->limits->body);
    for (size_t i = 0; i < request->header_count; i++) {
        story_put_slice(story, request->headers[i].name, bytes, used);
        story_put_slice(story, request->headers[i].value, bytes, used);
    }
    buffer_put(&story->text, "\n", 1);
}

/* One look at what is there: `sent` is what arrived, `there` a copy of it. */
static inline enum http_parsed story_look(struct http_story *story, const char *sent, char *there, size_t len)
{
    static struct http_request request;
    struct http_parse_result result;
    enum http_parsed parsed = weir_http_parse(story->limits, there, len, &request, &result);
    MUST(parsed == HTTP_MORE || story->start + len >= story->need);
    MUST(len == 0 || memcmp(sent, there, len) == 0);
    if (parsed == HTTP_MORE) {
        MUST(result.need > len && result.need <= len + story->limits->body + 1);
        MUST(result.has_head || (!result.wants_continue && len < story->limits->head));
        story->need = story->start + result.need;
    } else if (parsed == HTTP_BAD) {
        MUST(result.status >= 400 && result.status <= 505 && result.why);
        weir_buffer_print(&story->text, "bad: %d %s\n", result.status, result.why);
        story->ended = true;
    } else {
        struct http_model model;
        MUST(result.used > 0 && result.used <= len);
        weir_http_join_chunks(&request);
        MUST(memcmp(sent + result.used, there + result.used, len - result.used) == 0);
        MUST(model_end(&model, sent, len) == result.used && model.body.end == request.body.len);
        MUST(request.body.len == 0 || memcmp(model.body.bytes, request.body.bytes, request.body.len) == 0);
        weir_buffer_free(&model.body);
        story_put_request(story, &request, there, result.used);
        story->ended = !request.keep_alive;
        story->start += result.used;
    }
    return parsed;
}

/* The bytes before `end` are there now. */
static inline void http_story_arrive(struct http_story *story, const char *bytes, size_t end)
{
    enum http_parsed parsed = HTTP_WHOLE;
    while (!story->ended && parsed == HTTP_WHOLE) {
        size_t len = end - story->start;
        char *there = malloc(len > 0 ? len : 1);
        MUST(there != NULL);
        if (len > 0)
            memcpy(there, bytes + story->start, len);
        parsed = story_look(story, bytes + story->start, there, len);
        free(there);
    }
}

static inline void http_story_end(struct http_story *story, size_t len)
{
    if (!story->ended)
        weir_buffer_print(&story->text, "%zu left\n", len - story->start);
    buffer_put(&story->text, "", 1);
    MUST(!story->text.failed);
}

#endif
