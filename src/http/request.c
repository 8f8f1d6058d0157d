/* SPDX-License-Identifier: MIT */
/*
 * Every function judges a byte by the bytes before it alone, and stops at the first byte that is wrong or
 * missing. So it does not matter where the bytes were cut: a request that is refused after some of its bytes
 * is refused the same way with all of them.
 */
#include "http/request.h"

#include "base/assert.h"
#include "base/text.h"

#define METHOD_MAX       24 /* bytes: the longest registered one has 17 */
#define EMPTY_LINES_MAX  4  /* in front of a request: some old clients end a body with one */
#define CHUNK_DIGITS_MAX 8

/* What a byte may be part of. */
enum { TOKEN = 1, TARGET = 2, VALUE = 4, HOST = 8 };

/* clang-format off */
static const unsigned char kinds[256] = {
    0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, /* 0x00 */
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, /* 0x10 */
    4, 7, 6, 5, 7, 7, 7, 7, 6, 6, 7, 7, 6, 15, 15, 6, /* 0x20 */
    15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 6, 6, 6, 6, 6, 6, /* 0x30 */
    6, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, /* 0x40 */
    15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 6, 6, 6, 7, 15, /* 0x50 */
    7, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, /* 0x60 */
    15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 6, 7, 6, 15, 0, /* 0x70 */
    4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4,
    4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4,
    4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4,
    4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4,
};
/* clang-format on */

/* How the body is framed, and what else the fields say about the message. */
struct http_framing {
    struct slice authority, host; /* of an absolute target; as Host says it, with the port */
    size_t length;                /* as Content-Length says it */
    bool has_host, has_length, is_chunked, expects_continue;
    bool close, keep;
};

struct http_parse {
    const struct http_limits *limits;
    const char *bytes, *at, *end;
    bool full; /* `end` is a limit: there will be no more */
    struct http_request *request;
    struct http_parse_result *result;
    struct http_framing framing;
};

__attribute__((cold)) static enum http_parsed refuse(struct http_parse *in, int status, const char *why)
{
    in->result->status = status;
    in->result->why = why;
    return HTTP_BAD;
}

/* The bytes ended before the part of the request that is being read. */
static enum http_parsed starve(struct http_parse *in)
{
    return in->full ? refuse(in, 431, "the request line and the header fields are too large") : HTTP_MORE;
}

/* ---- bytes ------------------------------------------------------------------------------------ */

static bool is_kind(char byte, unsigned kind)
{
    return kinds[(unsigned char)byte] & kind;
}

static const char *skip_kind(const char *at, const char *end, unsigned kind)
{
    for (; end - at >= 4; at += 4) { /* by hand: header names are most of the bytes that come here */
        if (!is_kind(at[0], kind))
            return at;
        if (!is_kind(at[1], kind))
            return at + 1;
        if (!is_kind(at[2], kind))
            return at + 2;
        if (!is_kind(at[3], kind))
            return at + 3;
    }
    while (at < end && is_kind(*at, kind))
        at++;
    return at;
}

static bool is_blank(char byte)
{
    return byte == ' ' || byte == '\t';
}

#define EVERY_BYTE(BYTE) (UINT64_MAX / 255 * (BYTE))

/* The high bits of those of eight bytes that are below `least`, or DEL. A borrow may add bytes behind the
 * first one, so that only the first one counts. */
static uint64_t find_low(uint64_t word, uint64_t least)
{
    uint64_t del = word ^ EVERY_BYTE(0x7F);
    return (((word - least) & ~word) | ((del - EVERY_BYTE(1)) & ~del)) & EVERY_BYTE(0x80);
}

/* The first byte is the lowest, whatever the machine. */
static uint64_t load_eight(const char *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    return word;
}

/* As skip_kind for VALUE, eight bytes at a time. */
static const char *skip_value(const char *at, const char *end)
{
    while (end - at >= 8) {
        uint64_t low = find_low(load_eight(at), EVERY_BYTE(' '));
        at += low == 0 ? 8 : __builtin_ctzll(low) / 8;
        if (low != 0 && *at != '\t')
            return at;
        at += low != 0;
    }
    return skip_kind(at, end, VALUE);
}

/* As skip_kind for TARGET. */
static const char *skip_target(const char *at, const char *end)
{
    while (end - at >= 8) {
        uint64_t word = load_eight(at), mark = word ^ EVERY_BYTE('#');
        uint64_t stop = find_low(word, EVERY_BYTE('!')) |
                        ((mark - EVERY_BYTE(1)) & ~mark & EVERY_BYTE(0x80)) | (word & EVERY_BYTE(0x80));
        if (stop != 0)
            return at + __builtin_ctzll(stop) / 8;
        at += 8;
    }
    return skip_kind(at, end, TARGET);
}

/* `word` has lower-case letters and '-' alone, and so has the name, being a token, if they are equal. */
static bool name_is(struct slice name, const char *word)
{
    for (size_t i = 0; i < name.len; i++)
        if ((name.bytes[i] | 0x20) != word[i])
            return false;
    return true;
}

static bool same_text(struct slice a, struct slice b)
{
    return a.len == b.len && weir_text_contains(a.bytes, a.len, b.bytes, b.len);
}

static enum http_parsed read_crlf(struct http_parse *in, const char *why)
{
    for (size_t i = 0; i < 2; i++, in->at++) {
        if (in->at == in->end)
            return starve(in);
        if (*in->at != "\r\n"[i])
            return refuse(in, 400, why);
    }
    return HTTP_WHOLE;
}

/* ---- the request line ------------------------------------------------------------------------- */

static enum http_parsed skip_empty_lines(struct http_parse *in)
{
    for (int lines = 0; in->at < in->end && *in->at == '\r'; lines++) {
        if (lines == EMPTY_LINES_MAX)
            return refuse(in, 400, "there are too many empty lines in front of the request");
        enum http_parsed parsed = read_crlf(in, "a CR is not followed by an LF");
        if (parsed != HTTP_WHOLE)
            return parsed;
    }
    return HTTP_WHOLE;
}

static enum http_method find_method(struct slice name)
{
    static const struct {
        const char *name;
        enum http_method method;
    } methods[] = {{"GET", HTTP_GET},        {"POST", HTTP_POST},     {"HEAD", HTTP_HEAD},
                   {"PUT", HTTP_PUT},        {"DELETE", HTTP_DELETE}, {"PATCH", HTTP_PATCH},
                   {"OPTIONS", HTTP_OPTIONS}};
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++)
        if (slice_is(name, methods[i].name))
            return methods[i].method;
    return HTTP_OTHER;
}

static enum http_parsed read_method(struct http_parse *in)
{
    const char *start = in->at;
    in->at = skip_kind(start, in->end, TOKEN);
    struct slice name = {start, (size_t)(in->at - start)};
    if (name.len > METHOD_MAX)
        return refuse(in, 501, "the method is unknown");
    if (in->at == in->end)
        return starve(in);
    if (name.len == 0 || *in->at != ' ')
        return refuse(in, 400, "the request must start with a method, one space and the target");
    if (slice_is(name, "CONNECT"))
        return refuse(in, 501, "CONNECT is not supported: this server is no proxy");
    if (slice_is(name, "PRI")) /* reserved: it opens HTTP/2 */
        return refuse(in, 505, "HTTP/2 is not supported here: use HTTP/1.1");
    in->at++;
    in->request->method_name = name;
    in->request->method = find_method(name);
    return HTTP_WHOLE;
}

static enum http_parsed read_target(struct http_parse *in, struct slice *target)
{
    const char *start = in->at;
    in->at = skip_target(start, in->end);
    *target = (struct slice){start, (size_t)(in->at - start)};
    if (target->len > HTTP_TARGET_MAX || (in->at == in->end && in->full))
        return refuse(in, 414, "the request target is too long");
    if (in->at == in->end)
        return HTTP_MORE;
    if (target->len == 0 || *in->at != ' ')
        return refuse(in, 400,
                      "the target must be visible ASCII without '#', followed by one space and HTTP/1.1; "
                      "percent-encode other bytes");
    in->at++;
    return HTTP_WHOLE;
}

static enum http_parsed read_version(struct http_parse *in)
{
    static const char form[] = "HTTP/1.1";
    bool known = true;
    in->request->is_1_0 = false;
    if (in->end - in->at >= 10 && memcmp(in->at, "HTTP/1.1\r\n", 10) == 0) {
        in->at += 10;
        return HTTP_WHOLE;
    }
    for (size_t i = 0; i < sizeof form - 1; i++, in->at++) {
        if (in->at == in->end)
            return starve(in);
        bool digit = form[i] == '1';
        if (digit ? *in->at < '0' || *in->at > '9' : *in->at != form[i])
            return refuse(in, 400, "the request line must end with HTTP/1.1 or HTTP/1.0");
        if (i == 7)
            in->request->is_1_0 = *in->at == '0';
        known = known && (!digit || *in->at == '1' || (i == 7 && *in->at == '0'));
    }
    if (!known)
        return refuse(in, 505, "the version must be HTTP/1.1 or HTTP/1.0");
    return read_crlf(in, "the request line must end with CRLF right after the version");
}

/* Takes the scheme and the authority off an absolute target. */
static bool take_authority(struct slice *target, struct slice *authority)
{
    static const struct slice schemes[] = {{"http://", 7}, {"https://", 8}};
    for (size_t i = 0; i < 2; i++) {
        size_t len = schemes[i].len;
        if (target->len <= len || !same_text((struct slice){target->bytes, len}, schemes[i]))
            continue;
        size_t end = len;
        while (end < target->len && target->bytes[end] != '/' && target->bytes[end] != '?')
            end++;
        *authority = (struct slice){target->bytes + len, end - len};
        *target = (struct slice){target->bytes + end, target->len - end};
        return true;
    }
    return false;
}

static enum http_parsed split_target(struct http_parse *in, struct slice target)
{
    struct http_request *request = in->request;
    request->query = (struct slice){NULL, 0};
    if (target.bytes[0] != '/') {
        bool asterisk = slice_is(target, "*") && request->method == HTTP_OPTIONS;
        if (!asterisk && !take_authority(&target, &in->framing.authority))
            return refuse(in, 400, "the target must start with '/' or http://; '*' is for OPTIONS alone");
    }
    const char *mark = target.len > 0 ? memchr(target.bytes, '?', target.len) : NULL;
    request->path = (struct slice){target.bytes, mark ? (size_t)(mark - target.bytes) : target.len};
    if (mark)
        request->query = (struct slice){mark + 1, target.len - request->path.len - 1};
    if (request->path.len == 0)
        request->path = (struct slice){"/", 1};
    return HTTP_WHOLE;
}

static enum http_parsed read_request_line(struct http_parse *in)
{
    struct slice target;
    enum http_parsed parsed = skip_empty_lines(in);
    if (parsed == HTTP_WHOLE)
        parsed = read_method(in);
    if (parsed == HTTP_WHOLE)
        parsed = read_target(in, &target);
    if (parsed == HTTP_WHOLE)
        parsed = read_version(in);
    return parsed == HTTP_WHOLE ? split_target(in, target) : parsed;
}

/* ---- header fields ---------------------------------------------------------------------------- */

/* "[::1]:9050" → "[::1]". Letters, digits and - . _ ~ alone: what else RFC 3986 lets be a name, none has. */
static bool split_host(struct slice text, struct slice *host)
{
    const char *at = text.bytes, *end = at + text.len;
    if (at < end && *at == '[') {
        for (at++; at < end && (weir_text_hex(*at) >= 0 || *at == ':' || *at == '.');)
            at++;
        if (at == end || *at++ != ']' || at - text.bytes == 2)
            return false;
    } else {
        at = skip_kind(at, end, HOST);
    }
    *host = (struct slice){text.bytes, (size_t)(at - text.bytes)};
    if (at == end)
        return true;
    if (host->len == 0 || *at++ != ':' || end - at > 5)
        return false;
    while (at < end && *at >= '0' && *at <= '9')
        at++;
    return at == end;
}

static enum http_parsed note_host(struct http_parse *in, struct slice value)
{
    if (in->framing.has_host)
        return refuse(in, 400, "there is more than one Host field");
    if (!split_host(value, &in->request->host))
        return refuse(in, 400, "Host must be a name or an address, and perhaps ':' and a port");
    in->framing.has_host = true;
    in->framing.host = value;
    return HTTP_WHOLE;
}

static enum http_parsed note_length(struct http_parse *in, struct slice value)
{
    size_t length = 0;
    if (in->framing.has_length)
        return refuse(in, 400, "there is more than one Content-Length field");
    for (size_t i = 0; i < value.len; i++) {
        if (value.bytes[i] < '0' || value.bytes[i] > '9')
            return refuse(in, 400, "Content-Length must be one number, written in digits");
        size_t digit = (size_t)(value.bytes[i] - '0');
        length = length > (SIZE_MAX - digit) / 10 ? SIZE_MAX : length * 10 + digit;
    }
    if (value.len == 0)
        return refuse(in, 400, "Content-Length must be one number, written in digits");
    in->framing.has_length = true;
    in->framing.length = length;
    return HTTP_WHOLE;
}

static enum http_parsed note_coding(struct http_parse *in, struct slice value)
{
    if (in->framing.is_chunked)
        return refuse(in, 400, "there is more than one Transfer-Encoding field");
    if (!weir_text_same(value.bytes, value.len, "chunked"))
        return refuse(in, 501, "Transfer-Encoding must be chunked, and nothing else");
    in->framing.is_chunked = true;
    return HTTP_WHOLE;
}

static enum http_parsed note_connection(struct http_parse *in, struct slice value)
{
    const char *at = value.bytes, *end = at + value.len;
    for (;;) {
        while (at < end && (is_blank(*at) || *at == ','))
            at++;
        if (at == end)
            return HTTP_WHOLE;
        const char *start = at;
        at = skip_kind(at, end, TOKEN);
        size_t len = (size_t)(at - start);
        while (at < end && is_blank(*at))
            at++;
        if (len == 0 || (at < end && *at != ','))
            return refuse(in, 400,
                          "Connection must be a list of words with commas between them: close, keep-alive");
        in->framing.close = in->framing.close || weir_text_same(start, len, "close");
        in->framing.keep = in->framing.keep || weir_text_same(start, len, "keep-alive");
    }
}

static enum http_parsed note_expect(struct http_parse *in, struct slice value)
{
    if (!weir_text_same(value.bytes, value.len, "100-continue"))
        return refuse(in, 417, "Expect must be 100-continue");
    in->framing.expects_continue = true;
    return HTTP_WHOLE;
}

typedef enum http_parsed (*note_function)(struct http_parse *in, struct slice value);

/* What to do with a field that says how the message is framed, or what becomes of the connection; else NULL.
 */
static note_function find_note(struct slice name)
{
    switch (name.len) {
    case 4:
        return name_is(name, "host") ? note_host : NULL;
    case 6:
        return name_is(name, "expect") ? note_expect : NULL;
    case 10:
        return name_is(name, "connection") ? note_connection : NULL;
    case 14:
        return name_is(name, "content-length") ? note_length : NULL;
    case 17:
        return name_is(name, "transfer-encoding") ? note_coding : NULL;
    default:
        return NULL;
    }
}

static enum http_parsed read_field(struct http_parse *in, struct http_header *field)
{
    const char *start = in->at;
    in->at = skip_kind(start, in->end, TOKEN);
    field->name = (struct slice){start, (size_t)(in->at - start)};
    if (in->at == in->end)
        return starve(in);
    if (field->name.len == 0 && is_blank(*in->at))
        return refuse(in, 400, "a header field must be one line: folded lines are not allowed");
    if (field->name.len == 0 || *in->at != ':')
        return refuse(in, 400, "a header field must be a name, ':' right after it, and a value");
    for (start = in->at + 1; start < in->end && is_blank(*start);)
        start++;
    in->at = skip_value(start, in->end);
    const char *last = in->at;
    while (last > start && is_blank(last[-1]))
        last--;
    field->value = (struct slice){start, (size_t)(last - start)};
    return read_crlf(in, "a header value must have no control characters, and end with CRLF");
}

static enum http_parsed read_fields(struct http_parse *in, bool trailers)
{
    struct http_header ignored;
    for (size_t count = 0;; count++) {
        if (in->at == in->end)
            return starve(in);
        if (*in->at == '\r')
            return read_crlf(in, "a CR is not followed by an LF");
        if (count == HTTP_HEADERS_MAX)
            return refuse(in, 431, "there are more than 64 header fields");
        struct http_header *field = trailers ? &ignored : &in->request->headers[count];
        enum http_parsed parsed = read_field(in, field);
        if (parsed != HTTP_WHOLE)
            return parsed;
        in->request->header_count += !trailers;
        note_function note = find_note(field->name);
        if (note && trailers)
            return refuse(in, 400, "a trailer must not be about framing or the connection");
        if (note && (parsed = note(in, field->value)) != HTTP_WHOLE)
            return parsed;
    }
}

/* What the fields say together. */
static enum http_parsed check_head(struct http_parse *in)
{
    const struct http_framing *framing = &in->framing;
    struct http_request *request = in->request;
    struct slice host;
    if (!framing->has_host && !request->is_1_0)
        return refuse(in, 400, "Host is missing");
    if (framing->authority.bytes) {
        if (!split_host(framing->authority, &host) || host.len == 0)
            return refuse(in, 400, "the target must name a host, and perhaps ':' and a port");
        if (framing->has_host && !same_text(framing->authority, framing->host))
            return refuse(in, 400, "Host must be the same as the host in the target");
        request->host = host;
    }
    if (framing->is_chunked && framing->has_length)
        return refuse(in, 400, "Content-Length and Transfer-Encoding must not both be there");
    if (framing->is_chunked && request->is_1_0)
        return refuse(in, 400, "HTTP/1.0 has no Transfer-Encoding: send Content-Length");
    if (framing->length > in->limits->body)
        return refuse(in, 413, "the body is too large");
    request->keep_alive = !framing->close && (framing->keep || !request->is_1_0);
    return HTTP_WHOLE;
}

/* ---- the body --------------------------------------------------------------------------------- */

/* `rest`: how much of the body may still come. */
static enum http_parsed read_chunk_size(struct http_parse *in, size_t rest, size_t *size)
{
    const char *start = in->at;
    int digit;
    for (*size = 0; in->at < in->end && (digit = weir_text_hex(*in->at)) >= 0; in->at++) {
        if (in->at - start == CHUNK_DIGITS_MAX)
            return refuse(in, 400, "the size of a chunk must have at most 8 hexadecimal digits");
        *size = *size << 4 | (size_t)digit;
    }
    if (in->at == in->end)
        return HTTP_MORE;
    if (in->at == start)
        return refuse(in, 400, "a chunk must start with its size in hexadecimal digits");
    if (*size > rest)
        return refuse(in, 413, "the body is too large");
    return read_crlf(in, "the size of a chunk must end with CRLF: chunk extensions are not supported");
}

static enum http_parsed read_trailers(struct http_parse *in)
{
    in->full = (size_t)(in->end - in->at) >= in->limits->head;
    if (in->full)
        in->end = in->at + in->limits->head;
    return read_fields(in, true);
}

static enum http_parsed read_chunks(struct http_parse *in)
{
    size_t len = 0;
    for (size_t count = 0; count <= HTTP_CHUNKS_MAX; count++) {
        size_t size;
        enum http_parsed parsed = read_chunk_size(in, in->limits->body - len, &size);
        if (parsed != HTTP_WHOLE)
            return parsed;
        if (size == 0)
            return read_trailers(in);
        if ((size_t)(in->end - in->at) < size) {
            in->result->need = (size_t)(in->at - in->bytes) + size + 1;
            return HTTP_MORE;
        }
        len += size;
        in->at += size;
        parsed = read_crlf(in, "a chunk is not as long as its size says");
        if (parsed != HTTP_WHOLE)
            return parsed;
    }
    return refuse(in, 413, "the body has more than 1024 chunks: send larger ones, or Content-Length");
}

static enum http_parsed read_body(struct http_parse *in)
{
    const char *start = in->at;
    if (in->framing.is_chunked) {
        enum http_parsed parsed = read_chunks(in);
        if (parsed != HTTP_WHOLE)
            return parsed;
    } else if ((size_t)(in->end - in->at) < in->framing.length) {
        in->result->need = (size_t)(in->at - in->bytes) + in->framing.length;
        return HTTP_MORE;
    } else {
        in->at += in->framing.length;
    }
    in->request->body = (struct slice){start, (size_t)(in->at - start)};
    in->request->is_chunked = in->framing.is_chunked;
    return HTTP_WHOLE;
}

void weir_http_join_chunks(struct http_request *request)
{
    if (!request->is_chunked)
        return;
    char *start = (char *)(uintptr_t)request->body.bytes, *into = start; /* the caller's, who said so */
    const char *at = start;
    for (;;) {
        size_t size = 0;
        for (int digit; (digit = weir_text_hex(*at)) >= 0; at++)
            size = size << 4 | (size_t)digit;
        at += 2;
        ASSERT(size <= request->body.len - (size_t)(at - start));
        if (size == 0)
            break;
        memmove(into, at, size);
        into += size;
        at += size + 2;
    }
    request->body.len = (size_t)(into - start);
    request->is_chunked = false;
}

enum http_parsed weir_http_parse(const struct http_limits *limits, const char *bytes, size_t len,
                                 struct http_request *request, struct http_parse_result *result)
{
    struct http_parse in = {
        .limits = limits, .bytes = bytes, .at = bytes, .request = request, .result = result};
    *result = (struct http_parse_result){.need = len + 1};
    request->host = request->body = (struct slice){NULL, 0};
    request->header_count = 0;
    request->is_chunked = false;
    in.full = len >= limits->head;
    in.end = len > 0 ? bytes + (in.full ? limits->head : len) : bytes;

    enum http_parsed parsed = read_request_line(&in);
    if (parsed == HTTP_WHOLE)
        parsed = read_fields(&in, false);
    if (parsed == HTTP_WHOLE)
        parsed = check_head(&in);
    if (parsed != HTTP_WHOLE)
        return parsed;

    const char *body = in.at;
    in.end = bytes + len;
    in.full = false;
    parsed = read_body(&in);
    result->has_head = parsed == HTTP_MORE;
    result->wants_continue =
        parsed == HTTP_MORE && in.framing.expects_continue && !request->is_1_0 && body == in.end;
    result->used = parsed == HTTP_WHOLE ? (size_t)(in.at - bytes) : 0;
    ASSERT(result->used <= len && (parsed != HTTP_MORE || result->need > len));
    return parsed;
}

/* ---- looking at a request --------------------------------------------------------------------- */

const struct slice *weir_http_header(const struct http_request *request, const char *name)
{
    size_t len = strlen(name);
    for (size_t i = 0; i < request->header_count; i++) {
        struct slice other = request->headers[i].name;
        if (other.len == len && weir_text_same_letters(other.bytes, name, len))
            return &request->headers[i].value;
    }
    return NULL;
}

size_t weir_http_header_count(const struct http_request *request, const char *name)
{
    size_t count = 0;
    for (size_t i = 0; i < request->header_count; i++)
        count += weir_text_same(request->headers[i].name.bytes, request->headers[i].name.len, name);
    return count;
}
