/* SPDX-License-Identifier: MIT */
/*
 * What a reader makes of bytes that arrive in pieces, as text: a line for each request, with the length and
 * the bytes of its words; "nothing"; "bad: why"; and at the end how many bytes wait for more. Two ways of
 * cutting the same bytes must give the same story.
 *
 * Each arrival lies in memory of its own, as large as what is there and no larger: so a sanitizer sees what
 * is read behind it, and whoever keeps a pointer where he needs an offset.
 */
#ifndef WEIR_TESTS_RESP_STORY_H
#define WEIR_TESTS_RESP_STORY_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "resp/read.h"

struct story {
    const struct resp_limits *limits;
    struct resp_reader reader;
    struct slice *args;
    struct buffer text;
    size_t start; /* bytes that have been used up */
    bool ended;   /* by something bad */
};

static inline void story_begin(struct story *story, const struct resp_limits *limits)
{
    *story = (struct story){.limits = limits, .args = malloc((limits->args + 1) * sizeof(struct slice))};
    if (!story->args)
        abort();
}

static inline void story_free(struct story *story)
{
    free(story->args);
    weir_buffer_free(&story->text);
}

__attribute__((format(printf, 2, 3))) static inline void story_say(struct story *story, const char *format,
                                                                   ...)
{
    char line[160];
    va_list values;
    va_start(values, format);
    int len = vsnprintf(line, sizeof line, format, values);
    va_end(values);
    buffer_put(&story->text, line, (size_t)len);
}

static inline void story_tell(struct story *story, enum resp_status got,
                              const struct resp_request_info *request)
{
    if (got == RESP_BAD) {
        story_say(story, "bad: %s\n", request->why);
        story->ended = true;
    } else if (got == RESP_NOTHING) {
        story_say(story, "nothing in %zu\n", request->used);
    } else {
        story_say(story, "request in %zu:", request->used);
        for (size_t i = 0; i < request->words; i++) {
            story_say(story, " %zu=", story->args[i].len);
            buffer_put(&story->text, story->args[i].bytes, story->args[i].len);
        }
        buffer_put(&story->text, "\n", 1);
    }
}

/* The bytes before `end` are there now. */
static inline void story_arrive(struct story *story, const char *bytes, size_t end)
{
    size_t len = end - story->start, at = 0;
    char *there = malloc(len > 0 ? len : 1);
    enum resp_status got = RESP_REQUEST;
    if (!there)
        abort();
    if (len > 0)
        memcpy(there, bytes + story->start, len);
    while (!story->ended && got != RESP_MORE) {
        struct resp_request_info request = {.used = 0};
        got = weir_resp_read(&story->reader, story->limits, there + at, len - at, story->args, &request);
        if (got != RESP_MORE)
            story_tell(story, got, &request);
        at += request.used;
    }
    story->start += at;
    free(there);
}

static inline void story_end(struct story *story, size_t len)
{
    if (!story->ended)
        story_say(story, "%zu left\n", len - story->start);
    buffer_put(&story->text, "", 1);
    if (story->text.failed)
        abort();
}

#endif
