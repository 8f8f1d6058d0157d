/* SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

#define DOTS     "..."
#define DOTS_LEN (sizeof DOTS - 1)

const char *weir_version(void)
{
    return WEIR_VERSION;
}

const char *weir_reason_name(int32_t reason)
{
    static const char *const names[] = {
        [WEIR_OK] = "ok",           [WEIR_LATER] = "later",   [WEIR_NEVER] = "never",
        [WEIR_FULL] = "full",       [WEIR_LOST] = "lost",     [WEIR_CANCELED] = "canceled",
        [WEIR_INVALID] = "invalid", [WEIR_SHARED] = "shared",
    };
    return reason >= 0 && reason <= WEIR_SHARED ? names[reason] : "unknown";
}

void weir_error_clear(struct weir_error *err)
{
    if (err)
        memset(err, 0, sizeof *err);
}

void weir_error_set(struct weir_error *err, int32_t code, const char *message)
{
    if (!err)
        return;
    weir_error_clear(err);
    err->code = code;
    memcpy(err->text, message, weir_text_cut(message, strlen(message), sizeof err->text - 1));
}

bool weir_error_complain(struct weir_error *err, const char *format, ...)
{
    char text[sizeof err->text];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    weir_error_set(err, EINVAL, text);
    return false;
}

bool weir_error_complain_as(struct weir_error *err, int code, const char *format, ...)
{
    char text[sizeof err->text];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    weir_error_set(err, code, text);
    return false;
}

const char *weir_error_reason(char reason[ERROR_REASON_MAX], int error)
{
    if (strerror_r(error, reason, ERROR_REASON_MAX) != 0)
        (void)snprintf(reason, ERROR_REASON_MAX, "error %d", error);
    return reason;
}

bool weir_error_fault(struct weir_error *err, int error, const char *format, ...)
{
    char text[sizeof err->text], reason[ERROR_REASON_MAX];
    va_list args;
    va_start(args, format);
    size_t len = (size_t)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (len < sizeof text)
        (void)snprintf(text + len, sizeof text - len, ": %s", weir_error_reason(reason, error));
    weir_error_set(err, error, text);
    return false;
}

/* White space becomes a blank: a line stays a line, and columns stay where they are. */
static void error_put_visible(struct text *line, const char *bytes, size_t len)
{
    uint32_t code = 0;
    for (size_t i = 0, step; i < len; i += step ? step : 1) {
        step = weir_utf8_read(bytes + i, len - i, &code);
        if (step && strchr("\t\n\v\f\r", bytes[i]))
            weir_text_put(line, " ", 1);
        else if (step && weir_utf8_printable(code))
            weir_text_put(line, bytes + i, step);
        else
            weir_text_put(line, "?", 1);
    }
}

/* Shows the end of a text that is too long, or the part around `place` if that lies before it. */
static void error_put_excerpt(struct text *line, const char *text, size_t len, size_t place, size_t room)
{
    if (len <= room) {
        error_put_visible(line, text, len);
        return;
    }
    size_t start = len - (room - DOTS_LEN), end = len;
    if (place < start) {
        start = place > room / 2 ? place - room / 2 : 0;
        end = start + weir_text_cut(text + start, len - start, room - 2 * DOTS_LEN);
    }
    while (start > 0 && start < end && ((unsigned char)text[start] & 0xC0) == 0x80)
        start++;
    if (start > 0)
        weir_text_put(line, DOTS, DOTS_LEN);
    error_put_visible(line, text + start, end - start);
    if (end < len)
        weir_text_put(line, DOTS, DOTS_LEN);
}

void weir_error_at(struct weir_error *err, int32_t code, const char *text, size_t len, int32_t column,
                   const char *message)
{
    if (!err)
        return;
    char where[32];
    struct text position;
    weir_text_init(&position, where, sizeof where);
    if (column > 0)
        weir_text_print(&position, ": column %d: ", (int)column);
    else
        weir_text_print(&position, ": ");

    size_t message_len = weir_text_cut(message, strlen(message), 200);
    size_t room = sizeof err->text - 1 - position.len - message_len;
    struct text line;
    weir_error_clear(err);
    err->code = code;
    err->column = column;
    weir_text_init(&line, err->text, sizeof err->text);
    error_put_excerpt(&line, text, len, weir_text_offset(text, len, column > 0 ? (size_t)column : 1), room);
    weir_text_put(&line, where, position.len);
    weir_text_put(&line, message, message_len);
}
