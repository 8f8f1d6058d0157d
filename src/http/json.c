/* SPDX-License-Identifier: MIT */
#include "http/json.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/text.h"

static const char replacement[] = "\xEF\xBF\xBD"; /* U+FFFD */

/* ---- reading ---------------------------------------------------------------------------------- */

void weir_json_begin(struct json_reader *reader, char *text, size_t len)
{
    reader->start = reader->at = text;
    reader->end = len > 0 ? text + len : text;
    reader->depth = 0;
    reader->first = false;
    reader->why[0] = '\0';
}

bool weir_json_fail(struct json_reader *reader, const char *format, ...)
{
    if (reader->why[0])
        return false;
    char text[2 * sizeof reader->why], place[32];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    (void)snprintf(place, sizeof place, " at byte %zu", (size_t)(reader->at - reader->start) + 1);
    size_t len = weir_text_cut(text, strlen(text), sizeof reader->why - 1 - strlen(place));
    (void)snprintf(reader->why, sizeof reader->why, "%.*s%s", (int)len, text, place);
    return false;
}

static void skip_blanks(struct json_reader *reader)
{
    while (reader->at < reader->end &&
           (*reader->at == ' ' || *reader->at == '\n' || *reader->at == '\r' || *reader->at == '\t'))
        reader->at++;
}

enum json_type weir_json_next(struct json_reader *reader)
{
    skip_blanks(reader);
    if (reader->why[0] || reader->at == reader->end)
        return JSON_NONE;
    switch (*reader->at) {
    case '{':
        return JSON_OBJECT;
    case '[':
        return JSON_ARRAY;
    case '"':
        return JSON_STRING;
    case 't':
        return JSON_TRUE;
    case 'f':
        return JSON_FALSE;
    case 'n':
        return JSON_NULL;
    default:
        return *reader->at == '-' || (*reader->at >= '0' && *reader->at <= '9') ? JSON_NUMBER : JSON_NONE;
    }
}

/* Complains unless a value of that type comes next. */
static bool expect_type(struct json_reader *reader, enum json_type type)
{
    static const char *const names[] = {"a value",  "an object",     "an array",      "a string",
                                        "a number", "true or false", "true or false", "null"};
    enum json_type next = weir_json_next(reader);
    if (next == type)
        return true;
    if (next != JSON_NONE)
        return weir_json_fail(reader, "expected %s, found %s", names[type], names[next]);
    return weir_json_fail(
        reader, reader->at == reader->end ? "expected %s, but the JSON ends" : "expected %s", names[type]);
}

static bool read_mark(struct json_reader *reader, char mark)
{
    skip_blanks(reader);
    if (reader->why[0] || reader->at == reader->end || *reader->at != mark)
        return false;
    reader->at++;
    return true;
}

bool weir_json_enter(struct json_reader *reader, char bracket)
{
    if (!expect_type(reader, bracket == '{' ? JSON_OBJECT : JSON_ARRAY))
        return false;
    if (reader->depth == JSON_DEPTH_MAX)
        return weir_json_fail(reader, "nested deeper than %d levels", JSON_DEPTH_MAX);
    reader->at++;
    reader->depth++;
    reader->first = true;
    return true;
}

/* Something follows in the object or array at hand; false: it has ended, or is wrong. */
static bool read_comma_or(struct json_reader *reader, char bracket)
{
    bool first = reader->first;
    reader->first = false;
    if (read_mark(reader, bracket)) {
        reader->depth--;
        return false;
    }
    return first ? reader->why[0] == '\0'
                 : read_mark(reader, ',') || weir_json_fail(reader, "expected ',' or '%c'", bracket);
}

bool weir_json_member(struct json_reader *reader, struct slice *name)
{
    if (!read_comma_or(reader, '}'))
        return false;
    if (weir_json_next(reader) != JSON_STRING)
        return weir_json_fail(reader, "expected the name of a member, in double quotes");
    return weir_json_string(reader, name) &&
           (read_mark(reader, ':') || weir_json_fail(reader, "expected ':'"));
}

bool weir_json_element(struct json_reader *reader)
{
    return read_comma_or(reader, ']');
}

static bool read_hex4(struct json_reader *reader, uint32_t *code)
{
    uint64_t number;
    if (reader->end - reader->at < 6 || reader->at[0] != '\\' || reader->at[1] != 'u' ||
        !weir_text_hex_number(reader->at + 2, 4, &number))
        return false;
    reader->at += 6;
    *code = (uint32_t)number;
    return true;
}

/* As UTF-8; `code` is no surrogate. */
static char *put_code(char *out, uint32_t code)
{
    static const unsigned char first[] = {0, 0xC0, 0xE0, 0xF0};
    int more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    *out++ = (char)(first[more] | code >> (6 * more));
    while (more-- > 0)
        *out++ = (char)(0x80 | (code >> (6 * more) & 0x3F));
    return out;
}

static bool read_code(struct json_reader *reader, char **out)
{
    uint32_t code, low;
    if (!read_hex4(reader, &code))
        return weir_json_fail(
            reader, "no such escape: allowed are \\\" \\\\ \\/ \\b \\f \\n \\r \\t and \\u with 4 digits");
    if (code >= 0xD800 && code < 0xE000) {
        if (code >= 0xDC00 || !read_hex4(reader, &low) || low < 0xDC00 || low >= 0xE000)
            return weir_json_fail(reader, "half of a surrogate pair");
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    *out = put_code(*out, code);
    return true;
}

/* Reads the escape at reader->at and writes what it stands for, which is never longer. */
static bool read_escape(struct json_reader *reader, char **out)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char *found = reader->end - reader->at >= 2 ? memchr(from, reader->at[1], sizeof from - 1) : NULL;
    if (!found)
        return read_code(reader, out);
    *(*out)++ = to[found - from];
    reader->at += 2;
    return true;
}

static bool is_plain(char byte)
{
    return (unsigned char)(byte - ' ') < 0x60 && byte != '"' && byte != '\\';
}

/* How many bytes of characters that stand for themselves in a string there are. */
static size_t plain_len(const char *bytes, size_t len)
{
    for (size_t i = 0, step;; i += step) {
        while (i < len && is_plain(bytes[i]))
            i++;
        uint32_t code;
        step = i < len && (unsigned char)bytes[i] >= 0x80 ? weir_utf8_read(bytes + i, len - i, &code) : 0;
        if (step == 0)
            return i;
    }
}

bool weir_json_string(struct json_reader *reader, struct slice *text)
{
    if (!expect_type(reader, JSON_STRING))
        return false;
    char *start = ++reader->at, *out = start;
    for (;;) {
        size_t len = plain_len(reader->at, (size_t)(reader->end - reader->at));
        if (out != reader->at)
            memmove(out, reader->at, len);
        out += len;
        reader->at += len;
        if (reader->at == reader->end)
            return weir_json_fail(reader, "a string has no end");
        if (*reader->at == '"')
            break;
        if ((unsigned char)*reader->at >= 0x80)
            return weir_json_fail(reader, "a string must be UTF-8");
        if (*reader->at != '\\')
            return weir_json_fail(reader, "a control character in a string must be written as \\u00%02x",
                                  (unsigned char)*reader->at);
        if (!read_escape(reader, &out))
            return false;
    }
    reader->at++;
    *text = (struct slice){start, (size_t)(out - start)};
    return true;
}

static size_t skip_digits(struct json_reader *reader)
{
    const char *start = reader->at;
    while (reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9')
        reader->at++;
    return (size_t)(reader->at - start);
}

static bool skip_one_of(struct json_reader *reader, const char *bytes)
{
    if (reader->at == reader->end || !memchr(bytes, *reader->at, strlen(bytes)))
        return false;
    reader->at++;
    return true;
}

struct json_number {
    bool negative, whole; /* whole: without fraction and exponent */
    struct slice digits;  /* in front of those */
};

static bool read_number(struct json_reader *reader, struct json_number *number)
{
    if (!expect_type(reader, JSON_NUMBER))
        return false;
    number->negative = skip_one_of(reader, "-");
    number->digits.bytes = reader->at;
    number->digits.len = skip_digits(reader);
    if (number->digits.len > 1 && number->digits.bytes[0] == '0')
        return weir_json_fail(reader, "a number must not start with 0");
    bool digits = number->digits.len > 0;
    bool fraction = digits && skip_one_of(reader, ".");
    digits = digits && (!fraction || skip_digits(reader) > 0);
    bool exponent = digits && skip_one_of(reader, "eE");
    if (exponent) {
        (void)skip_one_of(reader, "+-");
        digits = skip_digits(reader) > 0;
    }
    number->whole = !fraction && !exponent;
    return digits || weir_json_fail(reader, "expected a digit");
}

bool weir_json_integer(struct json_reader *reader, int64_t *number)
{
    struct json_number read;
    if (!read_number(reader, &read))
        return false;
    if (!read.whole)
        return weir_json_fail(reader, "expected a whole number, without fraction and exponent");
    int64_t value = 0;
    for (size_t i = 0; i < read.digits.len && value <= JSON_INTEGER_MAX; i++)
        value = value * 10 + (read.digits.bytes[i] - '0');
    if (value > JSON_INTEGER_MAX)
        return weir_json_fail(reader, "a number must be between -9007199254740991 and 9007199254740991");
    *number = read.negative ? -value : value;
    return true;
}

static bool skip_word(struct json_reader *reader, const char *word)
{
    size_t len = strlen(word);
    if ((size_t)(reader->end - reader->at) < len || memcmp(reader->at, word, len) != 0)
        return weir_json_fail(reader, "expected %s", word);
    reader->at += len;
    return true;
}

bool weir_json_literal(struct json_reader *reader, bool *value)
{
    *value = weir_json_next(reader) == JSON_TRUE;
    return *value ? skip_word(reader, "true") : expect_type(reader, JSON_FALSE) && skip_word(reader, "false");
}

bool weir_json_skip(struct json_reader *reader)
{
    struct slice text;
    struct json_number number;
    bool flag;
    switch (weir_json_next(reader)) {
    case JSON_OBJECT:
        (void)weir_json_enter(reader, '{');
        while (weir_json_member(reader, &text) && weir_json_skip(reader))
            ;
        break;
    case JSON_ARRAY:
        (void)weir_json_enter(reader, '[');
        while (weir_json_element(reader) && weir_json_skip(reader))
            ;
        break;
    case JSON_STRING:
        return weir_json_string(reader, &text);
    case JSON_NUMBER:
        return read_number(reader, &number);
    case JSON_TRUE:
    case JSON_FALSE:
        return weir_json_literal(reader, &flag);
    case JSON_NULL:
        return skip_word(reader, "null");
    case JSON_NONE:
        return weir_json_fail(reader, "expected a value");
    }
    return reader->why[0] == '\0';
}

bool weir_json_end(struct json_reader *reader)
{
    skip_blanks(reader);
    if (reader->at < reader->end)
        return weir_json_fail(reader, "there is more after the end of the JSON value");
    return reader->why[0] == '\0';
}

/* ---- writing ---------------------------------------------------------------------------------- */

static void put_escaped(struct buffer *out, char byte)
{
    static const char from[] = "\"\\\b\f\n\r\t", to[] = "\"\\bfnrt";
    const char *found = memchr(from, byte, sizeof from - 1);
    if (found)
        buffer_put(out, (const char[]){'\\', to[found - from]}, 2);
    else
        weir_buffer_print(out, "\\u%04x", (unsigned char)byte);
}

void weir_json_put_string(struct buffer *out, const char *bytes, size_t len)
{
    buffer_put(out, "\"", 1);
    for (size_t i = 0; i < len; i++) {
        size_t plain = plain_len(bytes + i, len - i);
        buffer_put(out, bytes + i, plain);
        i += plain;
        if (i < len && (unsigned char)bytes[i] >= 0x80)
            buffer_put(out, replacement, sizeof replacement - 1);
        else if (i < len)
            put_escaped(out, bytes[i]);
    }
    buffer_put(out, "\"", 1);
}

bool weir_json_is_utf8(const char *bytes, size_t len)
{
    for (size_t i = 0, step; i < len; i += step) {
        uint32_t code;
        step = weir_utf8_read(bytes + i, len - i, &code);
        if (step == 0)
            return false;
    }
    return true;
}

/* ---- base64 ----------------------------------------------------------------------------------- */

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static int base64_digit(char byte)
{
    if (byte >= 'A' && byte <= 'Z')
        return byte - 'A';
    if (byte >= 'a' && byte <= 'z')
        return byte - 'a' + 26;
    if (byte >= '0' && byte <= '9')
        return byte - '0' + 52;
    return byte == '+' || byte == '-' ? 62 : byte == '/' || byte == '_' ? 63 : -1;
}

size_t weir_base64_decode(struct slice text, char *bytes)
{
    size_t len = 0, digits = text.len;
    while (digits > 0 && text.bytes[digits - 1] == '=')
        digits--;
    if (digits % 4 == 1 || (digits < text.len && (text.len % 4 != 0 || text.len - digits > 2)))
        return SIZE_MAX;
    uint32_t bits = 0;
    for (size_t i = 0; i < digits; i++) {
        int digit = base64_digit(text.bytes[i]);
        if (digit < 0)
            return SIZE_MAX;
        bits = (bits << 6 | (uint32_t)digit) & 0xFFF;
        if (i % 4 != 0)
            bytes[len++] = (char)(bits >> (6 - 2 * (i % 4)));
    }
    /* Bits behind the last byte must be 0: one text for each value. */
    if (digits % 4 != 0 && (bits & (digits % 4 == 2 ? 0xF : 0x3)) != 0)
        return SIZE_MAX;
    return len;
}

void weir_base64_put(struct buffer *out, const char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i += 3) {
        size_t count = len - i < 3 ? len - i : 3;
        uint32_t bits = 0;
        for (size_t j = 0; j < 3; j++)
            bits = bits << 8 | (j < count ? (unsigned char)bytes[i + j] : 0);
        char quad[4];
        for (size_t j = 0; j < 4; j++)
            quad[j] = j <= count ? alphabet[bits >> (18 - 6 * j) & 63] : '=';
        buffer_put(out, quad, sizeof quad);
    }
}
