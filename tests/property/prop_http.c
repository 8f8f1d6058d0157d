/* SPDX-License-Identifier: MIT */
/*
 * HTTP requests in random pipelines, valid and broken, under random limits. Laws:
 *
 *   1. What was written is read: method, target, fields and body of valid requests, in order.
 *   2. The same bytes give the same requests and the same refusal however they are cut: nowhere, once at
 * every point, at random points.
 *   3. Of broken ones, too, each request that is accepted ends where a slow model sees its end
 * (http_story.h).
 *   4. A limit refuses; it never moves the end of a request.
 */
#include "check.h"
#include "http/request.h"
#include "http_story.h"

static const struct http_limits roomy = {.head = 4096, .body = 4096};

struct pipeline {
    struct buffer bytes;
    struct buffer told; /* what the parser must make of it, as a story tells it */
};

static void pipeline_free(struct pipeline *pipeline)
{
    weir_buffer_free(&pipeline->bytes);
    weir_buffer_free(&pipeline->told);
}

/* ---- what is sent --------------------------------------------------------------------------------- */

static const char *pick(struct rng *rng, const char *const *list, size_t count)
{
    return list[rng_between(rng, 0, (int64_t)count - 1)];
}
#define PICK(RNG, ...)                                                                                       \
    pick((RNG), (const char *const[]){__VA_ARGS__},                                                          \
         sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

static void tell(struct buffer *told, const char *text, size_t len)
{
    weir_buffer_print(told, " %zu=", len);
    buffer_put(told, text, len);
}

struct field {
    const char *name, *value;
};

static void add_chunks(struct buffer *bytes, struct rng *rng, const char *body, size_t len)
{
    while (len > 0) {
        size_t size = (size_t)rng_between(rng, 1, (int64_t)len);
        weir_buffer_print(bytes, rng_between(rng, 0, 1) ? "%zx\r\n" : "%05zX\r\n", size);
        buffer_put(bytes, body, size);
        buffer_put(bytes, "\r\n", 2);
        body += size;
        len -= size;
    }
    const char *last = PICK(rng, "0\r\n", "000\r\n"),
               *trailers = PICK(rng, "", "", "X: y\r\n", "a:\r\nb:\r\n");
    weir_buffer_print(bytes, "%s%s\r\n", last, trailers);
}

/* Bytes that mean something to a parser, a request among them. */
static size_t draw_body(struct rng *rng, char *body, size_t room)
{
    size_t len = 0, most = (size_t)rng_magnitude(rng, (int64_t)room);
    while (len < most) {
        const char *part =
            PICK(rng, "GET / HTTP/1.1\r\nHost: b\r\n\r\n", "0\r\n\r\n", "5\r\n", "hello", "\r\n", "\n", "{}");
        size_t part_len = strlen(part) < most - len ? strlen(part) : most - len;
        memcpy(body + len, part, part_len);
        len += part_len;
    }
    return len;
}

static void add_field(struct field *list, size_t *count, const char *name, const char *value)
{
    list[(*count)++] = (struct field){name, value};
}

/* In any order: as they are sent, with white space around their values, and as they are read. */
static void put_fields(struct pipeline *pipeline, struct rng *rng, struct field *list, size_t count)
{
    for (size_t left = count; left > 0; left--) {
        size_t next = (size_t)rng_between(rng, 0, (int64_t)left - 1);
        struct field field = list[next];
        const char *before = PICK(rng, "", " ", "\t", " \t "), *after = PICK(rng, "", "", " ", "\t ");
        list[next] = list[left - 1];
        weir_buffer_print(&pipeline->bytes, "%s:%s%s%s\r\n", field.name, before, field.value, after);
        tell(&pipeline->told, field.name, strlen(field.name));
        tell(&pipeline->told, field.value, strlen(field.value));
    }
    buffer_put(&pipeline->bytes, "\r\n", 2);
}

struct request_draw {
    const char *method, *path, *query, *host;
    char body[200], length[24];
    size_t body_len;
    bool old, sized, absolute;
};

/* One draw after the other: a seed is the same for every compiler. */
static void draw_request(struct request_draw *draw, struct rng *rng)
{
    draw->method = PICK(rng, "GET", "POST", "PUT", "X");
    draw->path = PICK(rng, "/", "/v1/take", "/a%2Fb/c:d", "//");
    draw->query = PICK(rng, "", "n=3", "a?b", "0123456789");
    draw->host = PICK(rng, "a", "localhost", "[::1]");
    draw->body_len = draw_body(rng, draw->body, sizeof draw->body);
    (void)snprintf(draw->length, sizeof draw->length, rng_between(rng, 0, 3) ? "%zu" : "%05zu",
                   draw->body_len);
    draw->old = rng_between(rng, 0, 4) == 0;
    draw->sized = draw->old || rng_between(rng, 0, 1);
    draw->absolute = rng_between(rng, 0, 3) == 0;
}

static void add_head(struct pipeline *fields, const struct request_draw *draw, struct rng *rng)
{
    struct field list[8];
    size_t count = 0;
    for (int64_t i = rng_between(rng, 0, 3); i > 0; i--) {
        const char *name =
            PICK(rng, "Accept", "X-Long-Name-Of-A-Field", "!", "Date", "User-Agent", "Accept-Charset");
        add_field(list, &count, name, PICK(rng, "", "a", "0123456789 \"\xFF\t~"));
    }
    add_field(list, &count, rng_between(rng, 0, 1) ? "Host" : "host", draw->host);
    if (draw->old || rng_between(rng, 0, 3) == 0)
        add_field(list, &count, "CONNECTion", PICK(rng, "keep-alive", "x ,Keep-Alive"));
    if (!draw->sized)
        add_field(list, &count, "transfer-Encoding", PICK(rng, "chunked", "CHUNKED"));
    else if (draw->body_len > 0 || rng_between(rng, 0, 1))
        add_field(list, &count, "Content-lengTH", draw->length);
    put_fields(fields, rng, list, count);
}

static void add_request(struct pipeline *pipeline, struct rng *rng)
{
    struct pipeline fields = {{0}, {0}};
    struct request_draw draw;
    struct buffer *bytes = &pipeline->bytes, *told = &pipeline->told;
    size_t start = buffer_len(bytes);
    draw_request(&draw, rng);
    weir_buffer_print(bytes, "%s%s %s%s%s%s%s HTTP/1.%d\r\n", PICK(rng, "", "", "", "\r\n"), draw.method,
                      draw.absolute ? "http://" : "", draw.absolute ? draw.host : "", draw.path,
                      draw.query[0] ? "?" : "", draw.query, !draw.old);
    add_head(&fields, &draw, rng);
    buffer_put(bytes, buffer_bytes(&fields.bytes), buffer_len(&fields.bytes));
    if (draw.sized)
        buffer_put(bytes, draw.body, draw.body_len);
    else
        add_chunks(bytes, rng, draw.body, draw.body_len);

    weir_buffer_print(told, "request in %zu%s:", buffer_len(bytes) - start, draw.old ? " 1.0" : "");
    const char *parts[] = {draw.method, draw.path, draw.query, draw.host};
    for (size_t i = 0; i < 4; i++)
        tell(told, parts[i], strlen(parts[i]));
    tell(told, draw.body, draw.body_len);
    buffer_put(told, buffer_bytes(&fields.told), buffer_len(&fields.told));
    buffer_put(told, "\n", 1);
    pipeline_free(&fields);
}

/* One to three small changes: a byte, a piece that is gone, a piece more. */
static void spoil(struct pipeline *pipeline, struct rng *rng)
{
    for (int64_t i = rng_between(rng, 1, 3); i > 0; i--) {
        struct buffer changed = {0};
        size_t len = buffer_len(&pipeline->bytes), at = (size_t)rng_between(rng, 0, (int64_t)len);
        size_t skip = (size_t)rng_between(rng, 0, len - at < 3 ? (int64_t)(len - at) : 3);
        const char *more = PICK(rng, "", "", "\r", "\n", "\r\n", " ", "\t", ":", ",", ";", "0", "5", "a",
                                "\xFF", "\x01", "#", "\r\n\r\n", "\r\n ", "Content-Length: 5\r\n",
                                "Transfer-Encoding: chunked\r\n", "Host: b\r\n", "Content-Length: 5, 5\r\n",
                                "Transfer-Encoding: gzip\r\n", "Connection: close\r\n", "1.0");
        buffer_put(&changed, buffer_bytes(&pipeline->bytes), at);
        buffer_put(&changed, more, strlen(more));
        buffer_put(&changed, buffer_bytes(&pipeline->bytes) + at + skip, len - at - skip);
        weir_buffer_free(&pipeline->bytes);
        pipeline->bytes = changed;
    }
}

/* ---- what is read --------------------------------------------------------------------------------- */

static void read_whole(struct http_story *story, const struct http_limits *limits, struct pipeline *pipeline)
{
    size_t len = buffer_len(&pipeline->bytes);
    http_story_begin(story, limits);
    http_story_arrive(story, buffer_bytes(&pipeline->bytes), len);
    http_story_end(story, len);
}

/* Arrivals end at `first`, and then after steps that are drawn; `first` of SIZE_MAX: from the beginning. */
static bool same_in_pieces(const struct http_story *want, struct pipeline *pipeline, size_t first,
                           struct rng *rng)
{
    size_t len = buffer_len(&pipeline->bytes);
    struct http_story story;
    http_story_begin(&story, want->limits);
    for (size_t end = first == SIZE_MAX ? 0 : first; end < len && !story.ended;
         end += (size_t)rng_magnitude(rng, 64)) {
        http_story_arrive(&story, buffer_bytes(&pipeline->bytes), end);
        if (first != SIZE_MAX)
            break;
    }
    http_story_arrive(&story, buffer_bytes(&pipeline->bytes), len);
    http_story_end(&story, len);
    bool same = CHECK_STR(story.text.bytes, want->text.bytes);
    http_story_free(&story);
    return same;
}

static void check_cuts(const struct http_story *want, struct pipeline *pipeline, struct rng *rng)
{
    for (size_t first = 0; first < buffer_len(&pipeline->bytes); first++)
        if (!same_in_pieces(want, pipeline, first, rng))
            return;
    for (int i = 0; i < 3; i++)
        if (!same_in_pieces(want, pipeline, SIZE_MAX, rng))
            return;
}

TEST(what_was_written_is_read_however_it_is_cut)
{
    struct rng rng = rng_new(1);
    for (int64_t round = check_env("WEIR_PROVE_DECISIONS", 20000) / 60; round > 0 && check.faults == 0;
         round--) {
        struct pipeline pipeline = {{0}, {0}};
        struct http_story story;
        for (int64_t i = rng_between(&rng, 1, 3); i > 0; i--)
            add_request(&pipeline, &rng);
        buffer_put(&pipeline.told, "0 left\n", sizeof "0 left\n");
        read_whole(&story, &roomy, &pipeline);
        CHECK_STR(story.text.bytes, pipeline.told.bytes);
        check_cuts(&story, &pipeline, &rng);
        http_story_free(&story);
        pipeline_free(&pipeline);
    }
}

/* That each end is the model's is checked by the story. */
TEST(broken_pipelines_are_read_alike_however_they_are_cut)
{
    struct rng rng = rng_new(2);
    size_t refused = 0, accepted = 0;
    for (int64_t round = check_env("WEIR_PROVE_DECISIONS", 20000) / 30; round > 0 && check.faults == 0;
         round--) {
        struct pipeline pipeline = {{0}, {0}};
        struct http_story story;
        struct http_limits limits = roomy;
        if (rng_between(&rng, 0, 3) == 0)
            limits.head = 100;
        if (rng_between(&rng, 0, 3) == 0)
            limits.body = 20;
        for (int64_t i = rng_between(&rng, 1, 2); i > 0; i--)
            add_request(&pipeline, &rng);
        spoil(&pipeline, &rng);
        read_whole(&story, &limits, &pipeline);
        refused += strstr(story.text.bytes, "bad: ") != NULL;
        accepted += strstr(story.text.bytes, "request in") != NULL;
        check_cuts(&story, &pipeline, &rng);
        http_story_free(&story);
        pipeline_free(&pipeline);
    }
    CHECK(refused > 0 && accepted > 0); /* else nothing was looked at */
}

TEST(a_limit_refuses_and_moves_no_end)
{
    struct rng rng = rng_new(3);
    for (int round = 0; round < 300 && check.faults == 0; round++) {
        struct pipeline pipeline = {{0}, {0}};
        struct http_story free_story, story;
        for (int64_t i = rng_between(&rng, 1, 3); i > 0; i--)
            add_request(&pipeline, &rng);
        read_whole(&free_story, &roomy, &pipeline);
        for (int i = 0; i < 20; i++) {
            struct http_limits limits;
            limits.head = (size_t)rng_between(&rng, 1, 300);
            limits.body = (size_t)rng_between(&rng, 0, 200);
            read_whole(&story, &limits, &pipeline);
            const char *bad = strstr(story.text.bytes, "bad: ");
            size_t same = bad ? (size_t)(bad - story.text.bytes) : strlen(story.text.bytes);
            CHECK(strncmp(story.text.bytes, free_story.text.bytes, same) == 0);
            CHECK(!bad || strncmp(bad, "bad: 413", 8) == 0 || strncmp(bad, "bad: 414", 8) == 0 ||
                  strncmp(bad, "bad: 431", 8) == 0);
            http_story_free(&story);
        }
        http_story_free(&free_story);
        pipeline_free(&pipeline);
    }
}
