/* SPDX-License-Identifier: MIT */
/*
 * Requests, rule by rule. Each one is also cut into two pieces at every place, and given without each number
 * of its last bytes: what is refused is refused alike, and what is whole lacks nothing.
 */
#include "check.h"
#include "http/request.h"

static const struct http_limits limits = {.head = 1024, .body = 100};

struct parse_story {
    enum http_parsed parsed;
    struct http_parse_result result;
    struct http_request request;
    char *bytes; /* of just that length: address sanitizers see what is read behind it */
};

static void story_free(struct parse_story *story)
{
    free(story->bytes);
}

static void story_parse(struct parse_story *story, const struct http_limits *with, const char *text,
                        size_t len)
{
    story->bytes = malloc(len > 0 ? len : 1);
    if (!story->bytes)
        abort();
    memcpy(story->bytes, text, len);
    story->parsed = weir_http_parse(with, story->bytes, len, &story->request, &story->result);
    if (story->parsed != HTTP_WHOLE)
        CHECK(memcmp(story->bytes, text, len) == 0);
}

/* With fewer bytes it is either the same refusal already, or something is missing. */
static void check_prefixes(const struct parse_story *whole, const struct http_limits *with, const char *text,
                           size_t len)
{
    size_t need = 0;
    for (size_t cut = 0; cut < len; cut++) {
        struct parse_story part;
        story_parse(&part, with, text, cut);
        if (whole->parsed == HTTP_BAD && part.parsed == HTTP_BAD) {
            CHECK_EQ(part.result.status, whole->result.status);
            CHECK_STR(part.result.why, whole->result.why);
        } else if (whole->parsed != HTTP_WHOLE || cut < whole->result.used) {
            CHECK_EQ(part.parsed, HTTP_MORE);
        }
        CHECK(cut >= need || part.parsed == HTTP_MORE);
        if (part.parsed == HTTP_MORE)
            need = part.result.need;
        story_free(&part);
    }
}

static struct parse_story parse_with(const struct http_limits *with, const char *text, size_t len)
{
    struct parse_story story;
    story_parse(&story, with, text, len);
    check_prefixes(&story, with, text, len);
    return story;
}

/* Any text in C form, so that a difference can be read. */
static void check_slice(struct slice got, const char *want)
{
    char text[256];
    (void)snprintf(text, sizeof text, "%.*s", (int)got.len, got.bytes);
    CHECK_STR(text, want);
    CHECK_EQ(got.len, strlen(want));
}

TEST(a_get_has_its_parts)
{
    const char *text =
        "GET /v1/take/api/user:42?n=3 HTTP/1.1\r\nHost: localhost:9050\r\nAccept:\t*/* \r\n\r\nrest";
    struct parse_story story = parse_with(&limits, text, strlen(text));
    CHECK_EQ(story.parsed, HTTP_WHOLE);
    CHECK_EQ(story.result.used, strlen(text) - 4);
    CHECK_EQ(story.request.method, HTTP_GET);
    check_slice(story.request.path, "/v1/take/api/user:42");
    check_slice(story.request.query, "n=3");
    check_slice(story.request.host, "localhost");
    CHECK_EQ(story.request.body.len, 0);
    CHECK(story.request.keep_alive && !story.request.is_1_0);
    CHECK_EQ(story.request.header_count, 2);
    check_slice(*weir_http_header(&story.request, "accept"), "*/*");
    CHECK(weir_http_header(&story.request, "accep") == NULL);
    story_free(&story);
}
