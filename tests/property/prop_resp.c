/* SPDX-License-Identifier: MIT */
/*
 * Requests in random pipelines, valid and broken, under random limits. Laws:
 *
 *   1. What was written is read: the words of valid requests, in order.
 *   2. The same bytes give the same requests, words and error however they are cut: nowhere, once at every
 *      point, at random points, after every byte.
 */
#include "check.h"
#include "resp/read.h"
#include "resp/reply.h"
#include "resp_story.h"

static const struct resp_limits roomy = {.args = 64, .bulk = 4096, .all = 1 << 20};

struct pipeline {
    struct buffer bytes;
    struct buffer told; /* what a reader must make of it, as a story tells it */
};

__attribute__((format(printf, 2, 3))) static void print(struct buffer *buffer, const char *format, ...)
{
    char line[128];
    va_list values;
    va_start(values, format);
    int len = vsnprintf(line, sizeof line, format, values);
    va_end(values);
    buffer_put(buffer, line, (size_t)len);
}

/* ---- what is sent --------------------------------------------------------------------------------- */

/* Bytes that mean something to a reader are as likely as all others together. */
static char draw_byte(struct rng *rng)
{
    static const char special[] = "*$\r\n\"'\\ -0129x\t";
    if (rng_between(rng, 0, 1))
        return special[rng_between(rng, 0, (int64_t)sizeof special - 2)];
    return (char)rng_next(rng);
}

static void add_array(struct pipeline *pipeline, struct rng *rng)
{
    struct slice words[6];
    char bytes[6][120];
    size_t count = (size_t)rng_between(rng, 1, 6), start = buffer_len(&pipeline->bytes);
    for (size_t i = 0; i < count; i++) {
        words[i] = (struct slice){bytes[i], (size_t)rng_magnitude(rng, (int64_t)sizeof bytes[i])};
        for (size_t at = 0; at < words[i].len; at++)
            bytes[i][at] = draw_byte(rng);
    }
    weir_resp_ask(&pipeline->bytes, words, count);
    print(&pipeline->told, "request in %zu:", buffer_len(&pipeline->bytes) - start);
    for (size_t i = 0; i < count; i++) {
        print(&pipeline->told, " %zu=", words[i].len);
        buffer_put(&pipeline->told, words[i].bytes, words[i].len);
    }
    print(&pipeline->told, "\n");
}

/* A byte as it may stand between double quotes. */
static void add_quoted_byte(struct buffer *bytes, struct rng *rng, char byte)
{
    static const char meant[] = "\n\r\t\b\a\\\"", names[] = "nrtba\\\"";
    const char *name = memchr(meant, byte, sizeof meant - 1);
    if (name && rng_between(rng, 0, 3))
        print(bytes, "\\%c", names[name - meant]);
    else if (name || rng_between(rng, 0, 3) == 0)
        print(bytes, rng_between(rng, 0, 1) ? "\\x%02x" : "\\x%02X", (unsigned)(unsigned char)byte);
    else
        buffer_put(bytes, &byte, 1);
}

/* A word of a line: bare if that can be, else in either kind of quotes. */
static void add_line_word(struct pipeline *pipeline, struct rng *rng)
{
    struct buffer *bytes = &pipeline->bytes;
    size_t len = (size_t)rng_between(rng, 0, 20);
    int64_t form = len == 0 ? rng_between(rng, 1, 2) : rng_between(rng, 0, 2);
    print(&pipeline->told, " %zu=", len);
    print(bytes, "%s", form == 0 ? "" : form == 1 ? "\"" : "'");
    for (size_t i = 0; i < len; i++) {
        char byte = form == 1 ? draw_byte(rng) : (char)rng_between(rng, 'a', 'z');
        if (form == 2 && rng_between(rng, 0, 3) == 0)
            byte = "' \"\t"[rng_between(rng, 0, 3)];
        buffer_put(&pipeline->told, &byte, 1);
        if (form == 1)
            add_quoted_byte(bytes, rng, byte);
        else
            print(bytes, "%s%c", byte == '\'' ? "\\" : "", byte);
    }
    print(bytes, "%s", form == 0 ? "" : form == 1 ? "\"" : "'");
}

static void add_line(struct pipeline *pipeline, struct rng *rng)
{
    size_t start = buffer_len(&pipeline->bytes);
    int64_t count = rng_between(rng, 1, 5);
    struct pipeline line = {{0}, {0}};
    for (int64_t i = 0; i < count; i++) {
        print(&line.bytes, "%s",
              i == 0 && rng_between(rng, 0, 3) ? ""
              : rng_between(rng, 0, 1)         ? " "
                                               : " \t ");
        add_line_word(&line, rng);
    }
    print(&line.bytes, "%s", rng_between(rng, 0, 1) ? "\n" : "\r\n");
    buffer_put(&pipeline->bytes, buffer_bytes(&line.bytes), buffer_len(&line.bytes));
    print(&pipeline->told, "request in %zu:", buffer_len(&pipeline->bytes) - start);
    buffer_put(&pipeline->told, buffer_bytes(&line.told), buffer_len(&line.told));
    print(&pipeline->told, "\n");
    weir_buffer_free(&line.bytes);
    weir_buffer_free(&line.told);
}

static void add_nothing(struct pipeline *pipeline, struct rng *rng)
{
    static const char *const forms[] = {"\r\n", "\n", "*0\r\n", "*-1\r\n", "*-77\r\n", "  \t\r\n"};
    const char *form = forms[rng_between(rng, 0, 5)];
    print(&pipeline->bytes, "%s", form);
    print(&pipeline->told, "nothing in %zu\n", strlen(form));
}

static void add_valid(struct pipeline *pipeline, struct rng *rng)
{
    int64_t kind = rng_between(rng, 0, 9);
    if (kind < 6)
        add_array(pipeline, rng);
    else if (kind < 9)
        add_line(pipeline, rng);
    else
        add_nothing(pipeline, rng);
}

static void add_broken(struct pipeline *pipeline, struct rng *rng)
{
    static const char *const forms[] = {
        "*x\r\n",
        "*1\n",
        "*1\r\nPING\r\n",
        "*2\r\n$-1\r\n",
        "*1\r\n$3\r\nabcd\r\n",
        "*1000000\r\n",
        "*1\r\n$99999999\r\n",
        "\"open\r\n",
        "*1\r\n$01\r\n",
        "*1\r\n$\r\n",
        "a \"b\"c\n",
        "*-0\r\n",
        "*99999999999999999999\r\n",
    };
    print(&pipeline->bytes, "%s", forms[rng_between(rng, 0, (int64_t)(sizeof forms / sizeof forms[0]) - 1)]);
}

static void spoil(struct pipeline *pipeline, struct rng *rng)
{
    size_t len = buffer_len(&pipeline->bytes);
    for (int64_t i = rng_between(rng, 1, 3); i > 0 && len > 0; i--)
        buffer_bytes(&pipeline->bytes)[rng_between(rng, 0, (int64_t)len - 1)] = draw_byte(rng);
}

static void pipeline_free(struct pipeline *pipeline)
{
    weir_buffer_free(&pipeline->bytes);
    weir_buffer_free(&pipeline->told);
}

/* ---- what is read --------------------------------------------------------------------------------- */

static bool same_text(const struct buffer *one, const struct buffer *other)
{
    return one->end == other->end && memcmp(one->bytes, other->bytes, one->end) == 0;
}

static void whole(struct story *story, const struct resp_limits *limits, struct pipeline *pipeline)
{
    size_t len = buffer_len(&pipeline->bytes);
    story_begin(story, limits);
    story_arrive(story, buffer_bytes(&pipeline->bytes), len);
    story_end(story, len);
}

/* Arrivals end at `first`, and then every `step` bytes; a step of 0 is drawn anew each time. */
static bool same_in_pieces(const struct story *want, struct pipeline *pipeline, size_t first, size_t step,
                           struct rng *rng)
{
    size_t len = buffer_len(&pipeline->bytes);
    struct story story;
    story_begin(&story, want->limits);
    for (size_t end = first; end < len && !story.ended;) {
        story_arrive(&story, buffer_bytes(&pipeline->bytes), end);
        end += step > 0 ? step : (size_t)rng_magnitude(rng, 64);
    }
    if (!story.ended)
        story_arrive(&story, buffer_bytes(&pipeline->bytes), len);
    story_end(&story, len);
    bool same = CHECK(same_text(&story.text, &want->text));
    if (!same)
        printf("# first %zu, step %zu, of %zu bytes\n# want %s# got  %s", first, step, len, want->text.bytes,
               story.text.bytes);
    story_free(&story);
    return same;
}

static bool same_in_all_pieces(const struct story *want, struct pipeline *pipeline, struct rng *rng)
{
    size_t len = buffer_len(&pipeline->bytes);
    for (size_t cut = 0; cut < len; cut++)
        if (!same_in_pieces(want, pipeline, cut, len, rng))
            return false;
    for (int i = 0; i < 5; i++)
        if (!same_in_pieces(want, pipeline, (size_t)rng_magnitude(rng, 64), 0, rng))
            return false;
    return same_in_pieces(want, pipeline, 1, 1, rng);
}

TEST(what_was_written_is_read_however_it_is_cut)
{
    struct rng rng = rng_new(1);
    for (int64_t rounds = check_env("WEIR_RESP_ROUNDS", 200); rounds > 0; rounds--) {
        struct pipeline pipeline = {{0}, {0}};
        struct story story;
        for (int64_t i = rng_between(&rng, 1, 6); i > 0; i--)
            add_valid(&pipeline, &rng);
        print(&pipeline.told, "0 left\n");
        buffer_put(&pipeline.told, "", 1);
        whole(&story, &roomy, &pipeline);
        bool good = CHECK(same_text(&story.text, &pipeline.told));
        if (!good)
            printf("# want %s# got  %s", pipeline.told.bytes, story.text.bytes);
        good = good && same_in_all_pieces(&story, &pipeline, &rng);
        story_free(&story);
        pipeline_free(&pipeline);
        if (!good)
            return;
    }
}

static struct resp_limits draw_limits(struct rng *rng)
{
    struct resp_limits limits = roomy;
    limits.unauthenticated = rng_between(rng, 0, 1);
    if (rng_between(rng, 0, 2) == 0)
        limits.args = (size_t)rng_between(rng, 0, 6);
    if (rng_between(rng, 0, 2) == 0)
        limits.bulk = (size_t)rng_magnitude(rng, 120);
    if (rng_between(rng, 0, 2) == 0)
        limits.all = (size_t)rng_magnitude(rng, 300);
    return limits;
}

TEST(broken_requests_are_broken_however_they_are_cut)
{
    struct rng rng = rng_new(2);
    int64_t bad = 0, rounds = check_env("WEIR_RESP_ROUNDS", 200);
    for (int64_t round = 0; round < rounds; round++) {
        struct pipeline pipeline = {{0}, {0}};
        struct resp_limits limits = draw_limits(&rng);
        struct story story;
        for (int64_t i = rng_between(&rng, 0, 4); i > 0; i--)
            add_valid(&pipeline, &rng);
        if (rng_between(&rng, 0, 1))
            add_broken(&pipeline, &rng);
        add_valid(&pipeline, &rng);
        if (rng_between(&rng, 0, 1))
            spoil(&pipeline, &rng);
        whole(&story, &limits, &pipeline);
        bad += story.ended;
        bool good = same_in_all_pieces(&story, &pipeline, &rng);
        story_free(&story);
        pipeline_free(&pipeline);
        if (!good)
            return;
    }
    CHECK(bad > rounds / 4 && bad < rounds); /* or the test does not look at what it says */
}
