/* SPDX-License-Identifier: MIT */
/*
 * Each value asks for its room once, and to the byte; then it is written in place.
 */
#include "resp/write.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define NUMBER_MAX 20 /* digits of 2^64 - 1 */

static inline char *room_for(struct buffer *out, size_t len)
{
    if (__builtin_expect(out->size - out->end < len || out->failed, 0))
        return weir_buffer_room(out, len);
    return out->bytes + out->end;
}

/* ---- parts: each gives the place behind what it has written --------------------------------------- */

static inline char *write_crlf(char *to)
{
    to[0] = '\r';
    to[1] = '\n';
    return to + 2;
}

static size_t count_digits(uint64_t number)
{
    size_t digits = 1;
    for (uint64_t bound = 10; digits < NUMBER_MAX && number >= bound; digits++)
        if (__builtin_mul_overflow(bound, 10, &bound))
            return NUMBER_MAX;
    return digits;
}

/* Two digits a division. */
static char *write_digits(char *to, uint64_t number, size_t digits)
{
    static const char pairs[] = "00010203040506070809101112131415161718192021222324"
                                "25262728293031323334353637383940414243444546474849"
                                "50515253545556575859606162636465666768697071727374"
                                "75767778798081828384858687888990919293949596979899";
    char *at = to + digits;
    for (; number >= 10; number /= 100) {
        at -= 2;
        memcpy(at, pairs + 2 * (number % 100), 2);
    }
    if (at > to)
        *to = (char)('0' + number);
    return to + digits;
}

/* Most words are short, and a call costs more than to copy both halves of one, which may overlap. */
static inline char *write_bytes_at(char *to, const char *bytes, size_t len)
{
    uint64_t first, last;
    uint32_t first_half, last_half;
    if (len > 16) {
        memcpy(to, bytes, len);
    } else if (len >= 8) {
        memcpy(&first, bytes, 8);
        memcpy(&last, bytes + len - 8, 8);
        memcpy(to, &first, 8);
        memcpy(to + len - 8, &last, 8);
    } else if (len >= 4) {
        memcpy(&first_half, bytes, 4);
        memcpy(&last_half, bytes + len - 4, 4);
        memcpy(to, &first_half, 4);
        memcpy(to + len - 4, &last_half, 4);
    } else {
        for (size_t i = 0; i < len; i++)
            to[i] = bytes[i];
    }
    return to + len;
}

static char *write_header(char *to, char mark, size_t number, size_t digits)
{
    *to = mark;
    return write_crlf(write_digits(to + 1, number, digits));
}

/* A client takes a line break for the end of the line, and a terminal takes other control characters for
 * orders. */
static void clean_error_text(char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '\r' || c == '\n')
            text[i] = ' ';
        else if (c < ' ' || c == 127)
            text[i] = '?';
    }
}

static void reply_header(struct reply *reply, char mark, size_t number)
{
    size_t digits = count_digits(number);
    char *to = room_for(reply->out, digits + 3);
    if (!to)
        return;
    write_header(to, mark, number, digits);
    buffer_wrote(reply->out, digits + 3);
}

/* ---- values ------------------------------------------------------------------------------------- */

void weir_reply_simple(struct reply *reply, const char *text)
{
    size_t len = strlen(text);
    char *to = room_for(reply->out, len + 3);
    if (!to)
        return;
    *to = '+';
    memcpy(to + 1, text, len);
    clean_error_text(to + 1, len);
    write_crlf(to + 1 + len);
    buffer_wrote(reply->out, len + 3);
}

__attribute__((format(printf, 1, 0))) static size_t printed_len(const char *format, va_list values)
{
    va_list copy;
    va_copy(copy, values);
    int len = vsnprintf(NULL, 0, format, copy);
    va_end(copy);
    return len > 0 ? (size_t)len : 0;
}

void weir_reply_error(struct reply *reply, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    size_t len = printed_len(format, values);
    char *to = room_for(reply->out, len + 3);
    if (to) {
        *to = '-';
        (void)vsnprintf(to + 1, len + 1, format, values);
        clean_error_text(to + 1, len);
        write_crlf(to + 1 + len);
        buffer_wrote(reply->out, len + 3);
    }
    va_end(values);
}

void weir_reply_integer(struct reply *reply, int64_t number)
{
    uint64_t size = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    size_t digits = count_digits(size), sign = number < 0;
    char *to = room_for(reply->out, digits + sign + 3);
    if (!to)
        return;
    to[0] = ':';
    to[1] = '-';
    write_crlf(write_digits(to + 1 + sign, size, digits));
    buffer_wrote(reply->out, digits + sign + 3);
}

void weir_reply_bulk(struct reply *reply, const char *bytes, size_t len)
{
    size_t digits = count_digits(len), all = digits + len + 5;
    char *to = room_for(reply->out, all);
    if (!to)
        return;
    to = write_header(to, '$', len, digits);
    write_crlf(write_bytes_at(to, bytes, len));
    buffer_wrote(reply->out, all);
}

void weir_reply_text(struct reply *reply, const char *text)
{
    weir_reply_bulk(reply, text, strlen(text));
}

void weir_reply_print(struct reply *reply, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    size_t len = printed_len(format, values), digits = count_digits(len);
    char *to = room_for(reply->out, digits + len + 5);
    if (to) {
        to = write_header(to, '$', len, digits);
        (void)vsnprintf(to, len + 1, format, values);
        write_crlf(to + len);
        buffer_wrote(reply->out, digits + len + 5);
    }
    va_end(values);
}

void weir_reply_verbatim(struct reply *reply, const char *text, size_t len)
{
    if (reply->version < 3) {
        weir_reply_bulk(reply, text, len);
        return;
    }
    reply_header(reply, '=', len + 4);
    buffer_put(reply->out, "txt:", 4);
    buffer_put(reply->out, text, len);
    buffer_put(reply->out, "\r\n", 2);
}

void weir_reply_null(struct reply *reply)
{
    if (reply->version < 3)
        buffer_put(reply->out, "$-1\r\n", 5);
    else
        buffer_put(reply->out, "_\r\n", 3);
}

void weir_reply_null_array(struct reply *reply)
{
    if (reply->version < 3)
        buffer_put(reply->out, "*-1\r\n", 5);
    else
        buffer_put(reply->out, "_\r\n", 3);
}

void weir_reply_bool(struct reply *reply, bool value)
{
    if (reply->version < 3)
        buffer_put(reply->out, value ? ":1\r\n" : ":0\r\n", 4);
    else
        buffer_put(reply->out, value ? "#t\r\n" : "#f\r\n", 4);
}

/* As few digits as tell the number from its neighbours. */
static size_t print_double(double value, char text[static 32])
{
    int len = 0;
    if (isnan(value))
        return (size_t)snprintf(text, 32, "nan"); /* whatever its sign */
    for (int digits = 15; digits <= 17; digits++) {
        len = snprintf(text, 32, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    return (size_t)len;
}

void weir_reply_double(struct reply *reply, double value)
{
    char text[32];
    size_t len = print_double(value, text);
    if (reply->version < 3) {
        weir_reply_bulk(reply, text, len);
        return;
    }
    buffer_put(reply->out, ",", 1);
    buffer_put(reply->out, text, len);
    buffer_put(reply->out, "\r\n", 2);
}

/* ---- what holds values ---------------------------------------------------------------------------- */

void weir_reply_array(struct reply *reply, size_t count)
{
    reply_header(reply, '*', count);
}

void weir_reply_map(struct reply *reply, size_t pairs)
{
    if (reply->version < 3)
        reply_header(reply, '*', pairs * 2);
    else
        reply_header(reply, '%', pairs);
}

void weir_reply_set(struct reply *reply, size_t count)
{
    reply_header(reply, reply->version < 3 ? '*' : '~', count);
}

void weir_reply_push(struct reply *reply, size_t count)
{
    reply_header(reply, reply->version < 3 ? '*' : '>', count);
}

void weir_reply_field(struct reply *reply, const char *name, int64_t number)
{
    weir_reply_text(reply, name);
    weir_reply_integer(reply, number);
}

void weir_reply_text_field(struct reply *reply, const char *name, const char *text)
{
    weir_reply_text(reply, name);
    if (text)
        weir_reply_text(reply, text);
    else
        weir_reply_null(reply);
}
