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
    CHECK(memcmp(story->bytes, text, len) == 0);
    if (story->parsed == HTTP_WHOLE)
        weir_http_join_chunks(&story->request);
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

/* ---- vectors -------------------------------------------------------------------------------------- */

static void check_whole(const char *text, const char *want)
{
    struct parse_story story = parse_with(&limits, text, strlen(text));
    const struct http_request *request = &story.request;
    char got[512];
    if (story.parsed == HTTP_WHOLE)
        (void)snprintf(got, sizeof got, "%.*s %.*s%s%.*s%s%.*s%s%s %zu=%.*s +%zu",
                       (int)request->method_name.len, request->method_name.bytes, (int)request->path.len,
                       request->path.bytes, request->query.bytes ? "?" : "", (int)request->query.len,
                       request->query.bytes ? request->query.bytes : "", request->host.bytes ? " @" : "",
                       (int)request->host.len, request->host.bytes ? request->host.bytes : "",
                       request->is_1_0 ? " 1.0" : "", request->keep_alive ? "" : " close", request->body.len,
                       (int)request->body.len, request->body.bytes, strlen(text) - story.result.used);
    else
        (void)snprintf(got, sizeof got, "%d: %d %s", story.parsed, story.result.status,
                       story.result.why ? story.result.why : "");
    CHECK_STR(got, want);
    story_free(&story);
}

/* Refused with that status and a reason that contains `why`. */
static void check_bad_bytes(const struct http_limits *with, const char *text, size_t len, int status,
                            const char *why)
{
    struct parse_story story = parse_with(with, text, len);
    bool right = story.parsed == HTTP_BAD && story.result.status == status && strstr(story.result.why, why);
    if (!CHECK(right))
        printf("# %.*s\n# %d: %d %s, not %d %s\n", (int)len, text, story.parsed, story.result.status,
               story.parsed == HTTP_BAD ? story.result.why : "", status, why);
    story_free(&story);
}

static void check_bad(const char *text, int status, const char *why)
{
    check_bad_bytes(&limits, text, strlen(text), status, why);
}

#define HOST "Host: a\r\n"

TEST(a_request_line_is_method_space_target_space_version)
{
    check_whole("GET / HTTP/1.1\r\n" HOST "\r\n", "GET / @a 0= +0");
    check_whole("POST /a?b?c HTTP/1.1\r\n" HOST "\r\n", "POST /a?b?c @a 0= +0");
    check_whole("DELETE /? HTTP/1.1\r\n" HOST "\r\n", "DELETE /? @a 0= +0");
    check_whole("M-SEARCH /%00\"<>{}|\\^` HTTP/1.1\r\n" HOST "\r\n", "M-SEARCH /%00\"<>{}|\\^` @a 0= +0");
    check_whole("GET / HTTP/1.0\r\n\r\n", "GET / 1.0 close 0= +0");
    check_bad("GET  / HTTP/1.1\r\n" HOST "\r\n", 400, "target");
    check_bad(" GET / HTTP/1.1\r\n" HOST "\r\n", 400, "method");
    check_bad("GET\t/ HTTP/1.1\r\n" HOST "\r\n", 400, "method");
    check_bad("G(T / HTTP/1.1\r\n" HOST "\r\n", 400, "method");
    check_bad("\n", 400, "method");
    check_bad("\x16\x03\x01", 400, "method"); /* TLS */
    check_bad("ABCDEFGHIJKLMNOPQRSTUVWXY", 501, "method");
    check_bad("GET /  HTTP/1.1\r\n" HOST "\r\n", 400, "HTTP/1.1");
    check_bad("GET /\r\n" HOST "\r\n", 400, "target");
    check_bad("GET / \r\n" HOST "\r\n", 400, "HTTP/1.1");
    check_bad("GET / HTTP/1.1 \r\n" HOST "\r\n", 400, "CRLF");
    check_bad("GET / HTTP/1.1\n" HOST "\r\n", 400, "CRLF");
    check_bad("GET / HTTP/1.1\r" HOST "\r\n", 400, "CRLF");
    check_bad("GET / HTTP/1.10\r\n" HOST "\r\n", 400, "CRLF");
    check_bad("GET / http/1.1\r\n" HOST "\r\n", 400, "HTTP/1.1");
    check_bad("GET / HTTP/1,1\r\n" HOST "\r\n", 400, "HTTP/1.1");
    check_bad("GET / HTTP/1.:\r\n" HOST "\r\n", 400, "HTTP/1.1");
    check_bad("GET / HTTP/1./\r\n" HOST "\r\n", 400, "HTTP/1.1");
}

TEST(only_two_versions_and_no_tunnels_are_known)
{
    check_bad("GET / HTTP/1.2\r\n", 505, "HTTP/1.0");
    check_bad("GET / HTTP/0.1\r\n", 505, "HTTP/1.0");
    check_bad("GET / HTTP/2.0\r\n", 505, "HTTP/1.0");
    check_bad("GET / HTTP/0.0\r\n", 505, "HTTP/1.0");
    check_bad("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, "HTTP/2");
    check_bad("CONNECT a:1 HTTP/1.1\r\n" HOST "\r\n", 501, "CONNECT");
}

TEST(a_target_has_visible_ascii_and_a_form_that_is_known)
{
    check_bad("GET /\x01 HTTP/1.1\r\n" HOST "\r\n", 400, "target");
    check_bad("GET /\x7F HTTP/1.1\r\n" HOST "\r\n", 400, "target");
    check_bad("GET /\x80 HTTP/1.1\r\n" HOST "\r\n", 400, "target");
    check_bad("GET /12345678\xC3\xA4\x31 HTTP/1.1\r\n" HOST "\r\n", 400, "target");
    check_bad("GET /a#b HTTP/1.1\r\n" HOST "\r\n", 400, "target");
    check_bad("GET /1234567890#b HTTP/1.1\r\n" HOST "\r\n", 400, "target");
    check_bad("GET a HTTP/1.1\r\n" HOST "\r\n", 400, "target");
    check_bad("GET * HTTP/1.1\r\n" HOST "\r\n", 400, "OPTIONS");
    check_bad("OPTIONS ** HTTP/1.1\r\n" HOST "\r\n", 400, "OPTIONS");
    check_whole("OPTIONS * HTTP/1.1\r\n" HOST "\r\n", "OPTIONS * @a 0= +0");
    check_bad_bytes(&limits, "GET /\0 HTTP/1.1\r\n", 18, 400, "target");
}

TEST(an_absolute_target_names_the_same_host_as_host)
{
    check_whole("GET http://a/x?y HTTP/1.1\r\n" HOST "\r\n", "GET /x?y @a 0= +0");
    check_whole("GET HTTPS://A HTTP/1.1\r\n" HOST "\r\n", "GET / @A 0= +0");
    check_whole("GET http://a?x HTTP/1.1\r\n" HOST "\r\n", "GET /?x @a 0= +0");
    check_whole("GET http://[::1]:80/ HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", "GET / @[::1] 0= +0");
    check_whole("GET http://a:5/ HTTP/1.0\r\n\r\n", "GET / @a 1.0 close 0= +0");
    check_bad("GET http://a/ HTTP/1.1\r\n\r\n", 400, "Host");
    check_bad("GET http://b/ HTTP/1.1\r\n" HOST "\r\n", 400, "same");
    check_bad("GET http://a:80/ HTTP/1.1\r\n" HOST "\r\n", 400, "same");
    check_bad("GET http://aa/ HTTP/1.1\r\n" HOST "\r\n", 400, "same");
    check_bad("GET http://a/ HTTP/1.1\r\nHost:\r\n\r\n", 400, "same");
    check_bad("GET http://u@a/ HTTP/1.1\r\n" HOST "\r\n", 400, "host");
    check_bad("GET http:///x HTTP/1.1\r\n" HOST "\r\n", 400, "host");
    check_bad("GET http:// HTTP/1.1\r\n" HOST "\r\n", 400, "http://");
    check_bad("GET ftp://a/ HTTP/1.1\r\n" HOST "\r\n", 400, "http://");
}

TEST(host_is_there_once_and_is_a_host)
{
    check_whole("GET / HTTP/1.1\r\nhOST:a-b.c_d~9:65535\r\n\r\n", "GET / @a-b.c_d~9 0= +0");
    check_whole("GET / HTTP/1.1\r\nHost: a:\r\n\r\n", "GET / @a 0= +0");
    check_whole("GET / HTTP/1.1\r\nHost:\r\n\r\n", "GET / @ 0= +0");
    check_whole("GET / HTTP/1.0\r\nHost: [2001:db8::1.2.3.4]\r\n\r\n",
                "GET / @[2001:db8::1.2.3.4] 1.0 close 0= +0");
    check_bad("GET / HTTP/1.1\r\n\r\n", 400, "missing");
    check_bad("GET / HTTP/1.1\r\nHosts: a\r\n\r\n", 400, "missing");
    check_bad("GET / HTTP/1.1\r\n" HOST HOST "\r\n", 400, "more than one Host");
    check_bad("GET / HTTP/1.0\r\n" HOST "X: y\r\n" HOST "\r\n", 400, "more than one Host");
    for (size_t i = 0; i < 14; i++) {
        static const char *const hosts[] = {"a b",  "a,b", "a/b",     "u@a", "a:b",   "a:123456", ":80",
                                            "[::1", "[]",  "[::1]80", "[g]", "a:1:2", "\xC3\xA4", "a\tb"};
        char text[64];
        (void)snprintf(text, sizeof text, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", hosts[i]);
        check_bad(text, 400, "Host must be");
    }
}

TEST(a_field_is_a_token_a_colon_and_a_value)
{
    const char *text = "GET / HTTP/1.1\r\n" HOST
                       "x!#$%&'*+-.^_`|~9: \t a\t\"\xFF b \t\r\nE:\r\nF: \t\r\nx: 2\r\nX:3\r\n\r\n";
    struct parse_story story = parse_with(&limits, text, strlen(text));
    CHECK_EQ(story.parsed, HTTP_WHOLE);
    CHECK_EQ(story.request.header_count, 6);
    check_slice(story.request.headers[1].name, "x!#$%&'*+-.^_`|~9");
    check_slice(story.request.headers[1].value, "a\t\"\xFF b");
    check_slice(*weir_http_header(&story.request, "e"), "");
    check_slice(*weir_http_header(&story.request, "f"), "");
    check_slice(*weir_http_header(&story.request, "X"), "2");
    CHECK_EQ(weir_http_header_count(&story.request, "X"), 2);
    CHECK_EQ(weir_http_header_count(&story.request, "Y"), 0);
    story_free(&story);
    check_bad("GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400, "right after it");
    check_bad("GET / HTTP/1.1\r\nHost\t: a\r\n\r\n", 400, "right after it");
    check_bad("GET / HTTP/1.1\r\n: a\r\n\r\n", 400, "name");
    check_bad("GET / HTTP/1.1\r\nH\xC3\xB6st: a\r\n\r\n", 400, "name");
    check_bad("GET / HTTP/1.1\r\nHo(st: a\r\n\r\n", 400, "name");
    check_bad("GET / HTTP/1.1\r\nHost\r\n\r\n", 400, "name");
    check_bad("GET / HTTP/1.1\r\n" HOST " X: y\r\n\r\n", 400, "folded");
    check_bad("GET / HTTP/1.1\r\nX: y\r\n\tz\r\n" HOST "\r\n", 400, "folded");
    check_bad("GET / HTTP/1.1\r\n \r\n" HOST "\r\n", 400, "folded");
}

/* Each control character at each place of a long value: the quick way looks at eight at a time. */
TEST(a_value_has_no_control_character_but_tab)
{
    for (int byte = 0; byte < 256; byte++)
        for (size_t at = 0; at < 20; at++) {
            char text[] = "GET / HTTP/1.1\r\nHost: a\r\nX: 01234567890123456789\r\n\r\n";
            text[28 + at] = (char)byte;
            struct parse_story story;
            story_parse(&story, &limits, text, sizeof text - 1);
            bool fine = (byte >= ' ' && byte != 0x7F) || byte == '\t';
            CHECK_EQ(story.parsed, fine ? HTTP_WHOLE : HTTP_BAD);
            if (fine && byte != ' ' && byte != '\t')
                CHECK(story.request.headers[1].value.len == 20);
            story_free(&story);
        }
    check_bad("GET / HTTP/1.1\r\n" HOST "X: a\nb: c\r\n\r\n", 400, "control");
    check_bad("GET / HTTP/1.1\r\n" HOST "X: a\rb: c\r\n\r\n", 400, "control");
    check_bad("GET / HTTP/1.1\r\n" HOST "X: a\r\r\n\r\n", 400, "control");
    check_bad("GET / HTTP/1.1\r\n" HOST "X: a\n\nY: b\r\n\r\n", 400, "control");
    check_bad("GET / HTTP/1.1\r\n" HOST "X: a\x01\n\r\n", 400, "control");
    check_bad("GET / HTTP/1.1\r\n" HOST "\n", 400, "name");
    check_bad("GET / HTTP/1.1\r\n" HOST "\rX", 400, "CR");
}

TEST(every_byte_of_a_target_is_judged_at_every_place)
{
    for (int byte = 0; byte < 256; byte++)
        for (size_t at = 0; at < 20; at++) {
            char text[] = "GET /01234567890123456789 HTTP/1.1\r\nHost: a\r\n\r\n";
            text[5 + at] = (char)byte;
            struct parse_story story;
            story_parse(&story, &limits, text, sizeof text - 1);
            bool fine = byte > ' ' && byte < 0x7F && byte != '#';
            CHECK_EQ(story.parsed, fine ? HTTP_WHOLE : HTTP_BAD);
            story_free(&story);
        }
}

/* ---- framing -------------------------------------------------------------------------------------- */

#define POST "POST / HTTP/1.1\r\n" HOST

TEST(a_sized_body_is_as_long_as_content_length_says)
{
    check_whole(POST "Content-Length: 5\r\n\r\nhelloGET", "POST / @a 5=hello +3");
    check_whole(POST "content-LENGTH:\t005 \r\n\r\nhello", "POST / @a 5=hello +0");
    check_whole(POST "Content-Length: 0\r\n\r\nhello", "POST / @a 0= +5");
    check_whole(POST "\r\nhello", "POST / @a 0= +5");
    check_whole("GET / HTTP/1.0\r\nContent-Length: 1\r\n\r\nab", "GET / 1.0 close 1=a +1");
    check_whole(
        POST "Content-Length: 100\r\n\r\n"
             "01234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234"
             "56789.",
        "POST / @a 100="
        "0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789"
        " +1");
    check_bad(POST "Content-Length: 101\r\n\r\n", 413, "too large");
    check_bad(POST "Content-Length: 18446744073709551615\r\n\r\n", 413, "too large");
    check_bad(POST "Content-Length: 18446744073709551621\r\n\r\nhello", 413,
              "too large"); /* 5, were it cut */
    check_bad(POST "Content-Length: 99999999999999999999999999999999999999\r\n\r\n", 413, "too large");
}

TEST(a_length_that_two_readers_may_read_differently_is_refused)
{
    for (size_t i = 0; i < 14; i++) {
        static const char *const lengths[] = {"",    "+5",  "-5",    "0x5", "5,",   "5, 5", "5,5",
                                              "5 5", "5.0", "5\"\"", "1e1", "\xB2", ";5",   "5;"};
        char text[128];
        (void)snprintf(text, sizeof text, POST "Content-Length: %s\r\n\r\nhellohello", lengths[i]);
        check_bad(text, 400, "one number");
    }
    check_bad(POST "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", 400,
              "more than one Content-Length");
    check_bad(POST "Content-Length: 5\r\ncontent-length: 6\r\n\r\nhello", 400,
              "more than one Content-Length");
    check_bad(POST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, "both");
    check_bad(POST "Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n0\r\n\r\n", 400, "both");
    check_bad("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, "HTTP/1.0");
    check_bad(POST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400,
              "more than one");
    for (size_t i = 0; i < 9; i++) {
        static const char *const codings[] = {"",         "identity", "gzip, chunked", "chunked, chunked",
                                              "xchunked", "chunked,", "chunked;x",     "\"chunked\"",
                                              "chunke"};
        char text[128];
        (void)snprintf(text, sizeof text, POST "Transfer-Encoding: %s\r\n\r\n0\r\n\r\n", codings[i]);
        check_bad(text, 501, "chunked");
    }
}

#define CHUNKED "POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"

TEST(chunks_are_put_together)
{
    check_whole(CHUNKED "0\r\n\r\nGET", "POST / @a 0= +3");
    check_whole(CHUNKED "5\r\nhello\r\n0\r\n\r\n", "POST / @a 5=hello +0");
    check_whole(CHUNKED "1\r\na\r\n00000002\r\n\r\n\r\n0A\r\n0123456789\r\n000\r\n\r\nG",
                "POST / @a 13=a\r\n0123456789 +1");
    check_whole("POST / HTTP/1.1\r\n" HOST
                "transfer-ENCODING:\tChunkeD \r\n\r\nb\r\nhello world\r\n0\r\n\r\n",
                "POST / @a 11=hello world +0");
    check_bad(CHUNKED "\r\n", 400, "hexadecimal");
    check_bad(CHUNKED "g\r\n", 400, "hexadecimal");
    check_bad(CHUNKED "-1\r\n", 400, "hexadecimal");
    check_bad(CHUNKED " 1\r\n", 400, "hexadecimal");
    check_bad(CHUNKED "0x1\r\n", 400, "CRLF");
    check_bad(CHUNKED "1 \r\n", 400, "CRLF");
    check_bad(CHUNKED "1;a=b\r\n", 400, "extension");
    check_bad(CHUNKED "1\na\r\n", 400, "CRLF");
    check_bad(CHUNKED "1\r\r\na\r\n", 400, "CRLF");
    check_bad(CHUNKED "000000001\r\n", 400, "8 hex");
    check_bad(CHUNKED "100000000\r\n", 400, "8 hex");
    check_bad(CHUNKED "FFFFFFFF\r\n", 413, "too large");
    check_bad(CHUNKED "65\r\n", 413, "too large");
    check_bad(CHUNKED "5\r\nhello\r\n60\r\n", 413, "too large");
    check_bad(CHUNKED "5\r\nhelloo\r\n", 400, "as long as");
    check_bad(CHUNKED "5\r\nhello\n0\r\n\r\n", 400, "as long as");
    check_bad(CHUNKED "5\r\nhello\r0\r\n\r\n", 400, "as long as");
}

TEST(trailers_are_read_and_ignored_but_say_nothing_about_framing)
{
    check_whole(CHUNKED "1\r\na\r\n0\r\nX: y\r\nDigest:z\r\n\r\nG", "POST / @a 1=a +1");
    check_bad(CHUNKED "0\r\nX : y\r\n\r\n", 400, "right after it");
    check_bad(CHUNKED "0\r\n X: y\r\n\r\n", 400, "folded");
    check_bad(CHUNKED "0\r\nX: y\n\r\n", 400, "control");
    check_bad(CHUNKED "0\r\n\n", 400, "name");
    for (size_t i = 0; i < 5; i++) {
        static const char *const names[] = {"Host", "content-length", "Transfer-Encoding", "CONNECTION",
                                            "Expect"};
        char text[160];
        (void)snprintf(text, sizeof text, CHUNKED "0\r\n%s: 1\r\n\r\n", names[i]);
        check_bad(text, 400, "trailer");
    }
}

TEST(chunks_are_joined_when_the_caller_says_so)
{
    struct http_request request;
    struct http_parse_result result;
    char bytes[] = CHUNKED "2\r\nab\r\n2\r\ncd\r\n0\r\n\r\nnext";
    for (size_t len = 0; len < sizeof bytes - 5; len++) {
        CHECK_EQ(weir_http_parse(&limits, bytes, len, &request, &result), HTTP_MORE);
        CHECK_EQ(result.has_head, len >= strlen(CHUNKED));
    }
    for (int again = 0; again < 2; again++) { /* nothing has been changed: it may be read twice */
        CHECK_EQ(weir_http_parse(&limits, bytes, sizeof bytes - 1, &request, &result), HTTP_WHOLE);
        CHECK(request.is_chunked);
    }
    weir_http_join_chunks(&request);
    weir_http_join_chunks(&request);
    check_slice(request.body, "abcd");
    CHECK(!request.is_chunked);
    CHECK_STR(bytes + result.used, "next");
}

/* ---- the connection ------------------------------------------------------------------------------- */

TEST(connection_says_whether_it_goes_on)
{
    check_whole(POST "Connection: close\r\n\r\n", "POST / @a close 0= +0");
    check_whole(POST "Connection: x , ,\tCLOSE\t,\r\n\r\n", "POST / @a close 0= +0");
    check_whole(POST "Connection: closed, keep-alive\r\n\r\n", "POST / @a 0= +0");
    check_whole(POST "Connection: keep-alive\r\nconnection: close\r\n\r\n", "POST / @a close 0= +0");
    check_whole(POST "Connection: close\r\nconnection: keep-alive\r\n\r\n", "POST / @a close 0= +0");
    check_whole(POST "Connection:\r\n\r\n", "POST / @a 0= +0");
    check_whole(POST "Connection: upgrade\r\nUpgrade: h2c\r\n\r\n", "POST / @a 0= +0");
    check_whole("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", "GET / 1.0 0= +0");
    check_whole("GET / HTTP/1.0\r\n\r\n", "GET / 1.0 close 0= +0");
    check_bad(POST "Connection: a b\r\n\r\n", 400, "Connection");
    check_bad(POST "Connection: close;\r\n\r\n", 400, "Connection");
    check_bad(POST "Connection: \"close\"\r\n\r\n", 400, "Connection");
}

TEST(a_client_that_expects_100_continue_is_told_so_until_its_body_comes)
{
    struct http_request request;
    struct http_parse_result result;
    char bytes[] = POST "Expect: 100-Continue\r\nContent-Length: 5\r\n\r\nhello";
    size_t head = strlen(bytes) - 5;
    CHECK_EQ(weir_http_parse(&limits, bytes, head - 1, &request, &result), HTTP_MORE);
    CHECK(!result.has_head && !result.wants_continue && result.need == head);
    CHECK_EQ(weir_http_parse(&limits, bytes, head, &request, &result), HTTP_MORE);
    CHECK(result.has_head && result.wants_continue && result.need == head + 5);
    CHECK_EQ(request.method, HTTP_POST);
    CHECK_EQ(weir_http_parse(&limits, bytes, head + 1, &request, &result), HTTP_MORE);
    CHECK(result.has_head && !result.wants_continue && result.need == head + 5);
    CHECK_EQ(weir_http_parse(&limits, bytes, head + 5, &request, &result), HTTP_WHOLE);
    CHECK(!result.has_head && !result.wants_continue);

    char plain[] = POST "Content-Length: 5\r\n\r\n";
    CHECK_EQ(weir_http_parse(&limits, plain, strlen(plain), &request, &result), HTTP_MORE);
    CHECK(result.has_head && !result.wants_continue);
    char old[] = "POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n";
    CHECK_EQ(weir_http_parse(&limits, old, strlen(old), &request, &result), HTTP_MORE);
    CHECK(result.has_head && !result.wants_continue);
    check_bad(POST "Expect: 200-ok\r\n\r\n", 417, "100-continue");
    check_bad(POST "Expect:\r\n\r\n", 417, "100-continue");
}

TEST(a_few_empty_lines_may_come_first)
{
    check_whole("\r\n\r\n\r\n\r\nGET / HTTP/1.1\r\n" HOST "\r\n", "GET / @a 0= +0");
    check_bad("\r\n\r\n\r\n\r\n\r\n", 400, "empty lines");
    check_bad("\r\r\n", 400, "CR");
}

/* ---- limits --------------------------------------------------------------------------------------- */

/* `count` times `unit` between `front` and `back`. */
static char *repeat(const char *front, const char *unit, size_t count, const char *back)
{
    size_t unit_len = strlen(unit), front_len = strlen(front);
    char *text = malloc(front_len + count * unit_len + strlen(back) + 1);
    if (!text)
        abort();
    memcpy(text, front, front_len);
    for (size_t i = 0; i < count; i++)
        memcpy(text + front_len + i * unit_len, unit, unit_len);
    memcpy(text + front_len + count * unit_len, back, strlen(back) + 1);
    return text;
}

/* Whole with one unit less, refused with `count`. */
static void check_limit(const struct http_limits *with, const char *front, const char *unit, size_t count,
                        const char *back, int status)
{
    struct parse_story story;
    char *text = repeat(front, unit, count - 1, back);
    story_parse(&story, with, text, strlen(text));
    CHECK_EQ(story.parsed, HTTP_WHOLE);
    CHECK_EQ(story.result.used, strlen(text));
    story_free(&story);
    free(text);
    text = repeat(front, unit, count, back);
    story_parse(&story, with, text, strlen(text));
    CHECK_EQ(story.parsed, HTTP_BAD);
    CHECK_EQ(story.result.status, status);
    story_free(&story);
    free(text);
}

TEST(everything_has_a_limit)
{
    static const struct http_limits wide = {.head = 20000, .body = 5000};
    check_limit(&wide, "GET /", "a", HTTP_TARGET_MAX, " HTTP/1.1\r\n" HOST "\r\n", 414);
    check_limit(&wide, "GET / HTTP/1.1\r\n" HOST, "X: y\r\n", HTTP_HEADERS_MAX, "\r\n", 431);
    check_limit(&wide, CHUNKED, "1\r\na\r\n", HTTP_CHUNKS_MAX + 1, "0\r\n\r\n", 413);
    check_limit(&wide, CHUNKED "0\r\n", "X: y\r\n", HTTP_HEADERS_MAX + 1, "\r\n", 431);
    size_t rest = limits.head - strlen("GET / HTTP/1.1\r\n" HOST "X: \r\n\r\n");
    check_limit(&limits, "GET / HTTP/1.1\r\n" HOST "X: ", "y", rest + 1, "\r\n\r\n", 431);
    check_limit(&limits, CHUNKED "0\r\nX: ", "y", limits.head - 6, "\r\n\r\n", 431);
    char *text = repeat("GET /", "a", limits.head, "");
    check_bad(text, 414, "too long"); /* the head is full before the target is */
    free(text);
    text = repeat("GET / HTTP/1.1\r\nX", "a", limits.head, "");
    check_bad(text, 431, "too large");
    free(text);
}

TEST(a_body_that_comes_byte_by_byte_is_looked_at_a_few_times)
{
    static const struct http_limits wide = {.head = 1000, .body = 100000};
    char *text = repeat(POST "Content-Length: 90000\r\n\r\n", "a", 90000, "");
    size_t len = strlen(text), need = 0, looks = 0;
    struct http_request request;
    struct http_parse_result result;
    enum http_parsed parsed = HTTP_MORE;
    for (size_t at = strlen(text) - 90000; at <= len; at++)
        if (at >= need) {
            parsed = weir_http_parse(&wide, text, at, &request, &result);
            need = result.need;
            looks++;
        }
    CHECK_EQ(parsed, HTTP_WHOLE);
    CHECK_EQ(looks, 2);
    free(text);
}
