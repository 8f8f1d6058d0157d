/* SPDX-License-Identifier: MIT */
/*
 * Nearly every request is an array whose bytes have all come. read_plain takes such words, and only those
 * about which there is no doubt; whatever is cut, long or wrong is left to the careful functions, which judge
 * each byte by what comes before it alone. So it does not matter where the bytes were cut.
 */
#include "resp/read.h"

#include <stdio.h>

#include "base/text.h"

#define INVALID INT64_MIN /* as a number: there is none in the line */

struct request_parse {
    struct resp_reader *reader;
    const struct resp_limits *limits;
    char *bytes;
    size_t len;
    struct slice *args;
    struct resp_request_info *got;
};

__attribute__((cold)) static enum resp_status bad(struct request_parse *in, const char *why)
{
    (void)snprintf(in->got->why, sizeof in->got->why, "Protocol error: %s", why);
    *in->reader = (struct resp_reader){0};
    return RESP_BAD;
}

static enum resp_status skip_empty_request(struct request_parse *in, size_t used)
{
    in->got->used = used;
    *in->reader = (struct resp_reader){0};
    return RESP_NOTHING;
}

static struct slice as_offset(size_t at, size_t len)
{
    return (struct slice){(const char *)(uintptr_t)at, len};
}

static enum resp_status complete_request(struct request_parse *in)
{
    for (size_t i = 0; i < in->reader->words; i++)
        in->args[i].bytes = in->bytes + (uintptr_t)in->args[i].bytes;
    in->got->used = in->reader->at;
    in->got->words = in->reader->words;
    *in->reader = (struct resp_reader){0};
    return RESP_REQUEST;
}

/* ---- lines ------------------------------------------------------------------------------------ */

/* REQUEST: the line at reader->at is all there, and *end is where its \n is. */
static enum resp_status find_line_end(struct request_parse *in, const char *too_big, size_t *end)
{
    struct resp_reader *reader = in->reader;
    size_t most = reader->at + RESP_LINE_MAX + 1;
    if (in->limits->all < most) {
        most = in->limits->all;
        too_big = "request too large";
    }
    size_t from = reader->at + reader->seen, to = in->len < most ? in->len : most;
    const char *found = from < to ? memchr(in->bytes + from, '\n', to - from) : NULL;
    if (found) {
        *end = (size_t)(found - in->bytes);
        reader->seen = 0;
        return RESP_REQUEST;
    }
    if (in->len >= most)
        return bad(in, too_big);
    reader->seen = in->len - reader->at;
    return RESP_MORE;
}

static int64_t number_in(const char *at, const char *end)
{
    bool negative = at < end && *at == '-';
    int64_t number = 0;
    at += negative;
    if (at == end || end - at > 18 || (*at == '0' && (negative || end - at > 1)))
        return INVALID;
    for (; at < end; at++) {
        if (*at < '0' || *at > '9')
            return INVALID;
        number = number * 10 + (*at - '0');
    }
    return negative ? -number : number;
}

/* No word of a request lies behind limits->all. */
static const char *end_of(const struct request_parse *in)
{
    return in->bytes + (in->len < in->limits->all ? in->len : in->limits->all);
}

/* What follows "<mark><number>\r\n" if that is all there and short; NULL: it takes a closer look. */
static inline const char *plain_header(const char *at, const char *end, char mark, size_t *number)
{
    if (end - at < 4 || at[0] != mark || at[1] == '0')
        return NULL;
    const char *digit = at + 1, *stop = end - at > 10 ? at + 8 : end - 2;
    size_t value = 0;
    for (; digit < stop && (unsigned char)(*digit - '0') < 10; digit++)
        value = value * 10 + (unsigned char)(*digit - '0');
    *number = value;
    return value > 0 && digit[0] == '\r' && digit[1] == '\n' ? digit + 2 : NULL;
}

/* REQUEST: the header at reader->at is all there; *number is what it announces, reader->at what follows it.
 */
static enum resp_status read_header(struct request_parse *in, const char *too_big, int64_t *number)
{
    size_t end = 0, plain;
    const char *header = in->bytes + in->reader->at;
    const char *behind = plain_header(header, end_of(in), *header, &plain);
    if (behind) {
        *number = (int64_t)plain;
        in->reader->at = (size_t)(behind - in->bytes);
        in->reader->seen = 0;
        return RESP_REQUEST;
    }
    enum resp_status got = find_line_end(in, too_big, &end);
    if (got != RESP_REQUEST)
        return got;
    const char *first = header + 1, *last = in->bytes + end;
    *number = last > first && last[-1] == '\r' ? number_in(first, last - 1) : INVALID;
    in->reader->at = end + 1;
    return RESP_REQUEST;
}

/* ---- arrays ----------------------------------------------------------------------------------- */

static enum resp_status read_array_count(struct request_parse *in)
{
    int64_t count;
    enum resp_status got = read_header(in, "too big mbulk count string", &count);
    if (got != RESP_REQUEST)
        return got;
    if (count == INVALID || count > INT32_MAX)
        return bad(in, "invalid multibulk length");
    if (count <= 0)
        return skip_empty_request(in, in->reader->at);
    if ((uint64_t)count > in->limits->args)
        return bad(in, in->limits->unauthenticated ? "unauthenticated multibulk length"
                                                   : "invalid multibulk length");
    in->reader->expected = count;
    in->reader->bulk = -1;
    return RESP_REQUEST;
}

__attribute__((cold)) static enum resp_status bad_mark(struct request_parse *in, char mark)
{
    char why[32];
    (void)snprintf(why, sizeof why, "expected '$', got '%c'", mark >= ' ' && mark <= '~' ? mark : '?');
    return bad(in, why);
}

static enum resp_status read_bulk_header(struct request_parse *in)
{
    struct resp_reader *reader = in->reader;
    int64_t bulk;
    if (in->len == reader->at)
        return RESP_MORE;
    if (in->bytes[reader->at] != '$')
        return bad_mark(in, in->bytes[reader->at]);
    enum resp_status got = read_header(in, "too big bulk count string", &bulk);
    if (got != RESP_REQUEST)
        return got;
    if (bulk < 0 || bulk > INT32_MAX)
        return bad(in, "invalid bulk length");
    if ((uint64_t)bulk > in->limits->bulk)
        return bad(in, in->limits->unauthenticated ? "unauthenticated bulk length" : "invalid bulk length");
    if (reader->at + (size_t)bulk + 2 > in->limits->all)
        return bad(in, "request too large");
    reader->bulk = bulk;
    return RESP_REQUEST;
}

static enum resp_status read_bulk_word(struct request_parse *in)
{
    struct resp_reader *reader = in->reader;
    enum resp_status got = reader->bulk < 0 ? read_bulk_header(in) : RESP_REQUEST;
    if (got != RESP_REQUEST)
        return got;
    size_t bulk = (size_t)reader->bulk, end = reader->at + bulk;
    if (in->len < end + 2)
        return RESP_MORE;
    if (in->bytes[end] != '\r' || in->bytes[end + 1] != '\n')
        return bad(in, "expected CRLF after a bulk string");
    in->args[reader->words++] = as_offset(reader->at, bulk);
    reader->at = end + 2;
    reader->bulk = -1;
    return RESP_REQUEST;
}

static void read_plain_words(struct request_parse *in)
{
    size_t most = in->limits->bulk;
    const char *at = in->bytes + in->reader->at, *end = end_of(in);
    size_t words = in->reader->words, expected = (size_t)in->reader->expected;
    while (words < expected) {
        size_t bulk;
        const char *word = plain_header(at, end, '$', &bulk);
        if (!word || bulk > most || (size_t)(end - word) < bulk + 2 || word[bulk] != '\r' ||
            word[bulk + 1] != '\n')
            break;
        in->args[words++] = as_offset((size_t)(word - in->bytes), bulk);
        at = word + bulk + 2;
        in->reader->seen = 0;
    }
    in->reader->words = words;
    in->reader->at = (size_t)(at - in->bytes);
}

static enum resp_status read_array(struct request_parse *in)
{
    struct resp_reader *reader = in->reader;
    if (reader->bulk < 0)
        read_plain_words(in);
    while (reader->words < (size_t)reader->expected) {
        enum resp_status got = read_bulk_word(in);
        if (got != RESP_REQUEST)
            return got;
    }
    return complete_request(in);
}

/* ---- a line as a person types it ---------------------------------------------------------------- */

static bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Reads what stands behind a backslash between double quotes: *at is there, and one byte at least. */
static char unescape_byte(const char **at, const char *end)
{
    static const char names[] = "nrtba", meant[] = "\n\r\t\b\a";
    const char *from = *at;
    if (*from == 'x' && end - from > 2 && weir_text_hex(from[1]) >= 0 && weir_text_hex(from[2]) >= 0) {
        *at = from + 3;
        return (char)(weir_text_hex(from[1]) << 4 | weir_text_hex(from[2]));
    }
    const char *name = memchr(names, *from, sizeof names - 1);
    *at = from + 1;
    return name ? meant[name - names] : *from;
}

/* Resolves what is between quotes; *at is behind the first one. NULL: there is no second one, or something
 * other than a blank follows it. Else the end of what was written to `to`. */
static char *unquote_word(const char **at, const char *end, char *to)
{
    const char *from = *at;
    char quote = from[-1];
    while (from < end && *from != quote) {
        if (*from != '\\' || end - from < 2) {
            *to++ = *from++;
        } else if (quote == '"') {
            from++;
            *to++ = unescape_byte(&from, end);
        } else {
            from += from[1] == '\'';
            *to++ = *from++;
        }
    }
    *at = from + 1;
    return from < end && (from + 1 == end || is_blank(from[1])) ? to : NULL;
}

/* Words are written over where they stood: without quotes and backslashes they are shorter. NULL: unbalanced
 * quotes. Else the end of the word. */
static char *read_typed(const char **at, const char *end, char *to)
{
    while (to && *at < end && !is_blank(**at)) {
        char c = *(*at)++;
        if (c == '"' || c == '\'')
            to = unquote_word(at, end, to);
        else
            *to++ = c;
    }
    return to;
}

static enum resp_status read_inline_request(struct request_parse *in)
{
    size_t stop = 0;
    enum resp_status got = find_line_end(in, "too big inline request", &stop);
    if (got != RESP_REQUEST)
        return got;
    const char *at = in->bytes, *end = in->bytes + stop;
    for (;;) {
        while (at < end && is_blank(*at))
            at++;
        if (at == end)
            break;
        char *word = in->bytes + (at - in->bytes), *word_end = read_typed(&at, end, word);
        if (!word_end)
            return bad(in, "unbalanced quotes in request");
        size_t len = (size_t)(word_end - word);
        if (in->reader->words == in->limits->args || len > in->limits->bulk)
            return bad(in, "too big inline request");
        in->args[in->reader->words++] = as_offset((size_t)(word - in->bytes), len);
    }
    in->reader->at = stop + 1;
    return in->reader->words > 0 ? complete_request(in) : skip_empty_request(in, stop + 1);
}

/* ---- all of it ---------------------------------------------------------------------------------- */

enum resp_status weir_resp_read(struct resp_reader *reader, const struct resp_limits *limits, char *bytes,
                                size_t len, struct slice *args, struct resp_request_info *got)
{
    struct request_parse in = {reader, limits, bytes, len, args, got};
    if (reader->expected == 0) {
        if (len == 0)
            return RESP_MORE;
        if (bytes[0] != '*')
            return read_inline_request(&in);
        enum resp_status count = read_array_count(&in);
        if (count != RESP_REQUEST)
            return count;
    }
    return read_array(&in);
}
