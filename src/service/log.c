/* SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L

#include "service/log.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "config/timestamp.h"
#include "os/boot.h"
#include "os/clock.h"
#include "os/clock_kernel.h"
#include "weir.h"

#define LINE_MAX_BYTES  4000 /* a line goes out by one write; pipes keep that much in one piece */
#define VALUE_MAX_BYTES 512  /* of a text, before it is quoted */
#define LOG_LIMIT       "20/s burst=100"
#define LEVELS          4

static const char *const level_names[LEVELS] = {"debug", "info", "warn", "error"};
static const char level_numbers[LEVELS] = {'7', '6', '4', '3'}; /* of syslog */

/* The only state of the process in this folder: everybody has one standard error. */
static struct {
    pthread_mutex_t writing;
    struct weir_limiter *limiters[LEVELS]; /* NULL: not started, nothing is said */
    enum log_format format;
    enum log_level least;
    bool journal;
    _Atomic int64_t left_out;   /* all of them. Memory order: relaxed, a count */
    _Atomic int64_t to_be_told; /* the same since a line told of them. Relaxed: each is told once */
} state = {.writing = PTHREAD_MUTEX_INITIALIZER};

bool weir_log_start(enum log_format format, enum log_level least, bool journal)
{
    weir_log_end();
    state.format = format;
    state.least = least;
    state.journal = journal;
    for (int i = 0; i < LEVELS; i++) {
        state.limiters[i] = weir_limiter_new(LOG_LIMIT, NULL);
        if (!state.limiters[i]) {
            weir_log_end();
            return false;
        }
    }
    return true;
}

void weir_log_end(void)
{
    for (int i = 0; i < LEVELS; i++) {
        if (state.limiters[i])
            weir_limiter_free(state.limiters[i]);
        state.limiters[i] = NULL;
    }
    atomic_store_explicit(&state.left_out, 0, memory_order_relaxed);
    atomic_store_explicit(&state.to_be_told, 0, memory_order_relaxed);
}

int64_t weir_log_left_out(void)
{
    return atomic_load_explicit(&state.left_out, memory_order_relaxed);
}

static void leave_out(void)
{
    atomic_fetch_add_explicit(&state.left_out, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&state.to_be_told, 1, memory_order_relaxed);
}

/* ---- values ---- */

/* One character that cannot stand as it is, in either format. Bytes that are no UTF-8 show what they were in
 * logfmt; JSON has no way to say it. */
static void put_escaped(struct text *line, const char *at, size_t step, uint32_t code)
{
    if (step == 0 && state.format == LOG_LOGFMT)
        weir_text_print(line, "\\x%02x", (unsigned)(unsigned char)*at);
    else if (step == 0)
        weir_text_print(line, "\\ufffd");
    else if (code == '"' || code == '\\')
        weir_text_print(line, "\\%c", *at);
    else if (code == '\n')
        weir_text_print(line, "\\n");
    else if (code > 0xFFFF)
        weir_text_print(line, "\\u%04x\\u%04x", 0xD800u + ((code - 0x10000u) >> 10),
                        0xDC00u + ((code - 0x10000u) & 0x3FFu));
    else
        weir_text_print(line, "\\u%04x", (unsigned)code);
}

static void put_quoted_value(struct text *line, const char *text, size_t len)
{
    uint32_t code = 0;
    weir_text_put(line, "\"", 1);
    for (size_t i = 0, step; i < len; i += step ? step : 1) {
        step = weir_utf8_read(text + i, len - i, &code);
        if (step > 0 && weir_utf8_printable(code) && code != '"' && code != '\\')
            weir_text_put(line, text + i, step);
        else
            put_escaped(line, text + i, step, code);
    }
    weir_text_put(line, "\"", 1);
}

static bool is_bare_value(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (text[i] <= ' ' || text[i] > '~' || strchr("\"\\=", text[i])) /* also what is no ASCII */
            return false;
    return len > 0;
}

static void put_field_text(struct text *line, const char *text)
{
    size_t len = strnlen(text, VALUE_MAX_BYTES + 1);
    if (len > VALUE_MAX_BYTES)
        len = weir_text_cut(text, len, VALUE_MAX_BYTES);
    if (state.format == LOG_LOGFMT && is_bare_value(text, len))
        weir_text_put(line, text, len);
    else
        put_quoted_value(line, text, len);
}

/* ---- lines ---- */

static void put_field_name(struct text *line, const char *name)
{
    if (state.format == LOG_JSON)
        weir_text_print(line, "%s\"%s\":", line->len > 0 ? "," : "", name);
    else
        weir_text_print(line, "%s%s=", line->len > 0 ? " " : "", name);
}

static void put_field(struct text *line, const struct log_field *field)
{
    put_field_name(line, field->name);
    if (field->text)
        put_field_text(line, field->text);
    else
        weir_text_print(line, "%" PRId64, field->number);
}

/* A field is there as a whole or not at all. */
static bool add_field(struct text *line, const struct log_field *field)
{
    size_t before = line->len;
    put_field(line, field);
    if (line->len < line->size)
        return true;
    line->len = before;
    line->bytes[before] = '\0';
    return false;
}

/* Standard error may be a pipe that nobody reads from: then a line is lost, not a thread. A pipe that has
 * room at all has room for a line, as long as nobody else writes between the look and the line. */
static void write_line(const char *line, size_t len)
{
    struct pollfd file = {.fd = STDERR_FILENO, .events = POLLOUT};
    ssize_t done = -1;
    (void)pthread_mutex_lock(&state.writing);
    while (poll(&file, 1, 0) == 1 && (file.revents & POLLOUT)) {
        done = write(STDERR_FILENO, line, len);
        if (done >= 0 || errno != EINTR)
            break;
    }
    (void)pthread_mutex_unlock(&state.writing);
    if (done < 0)
        leave_out();
}

/* What stands in front of the caller's fields. */
static void put_front(struct text *line, int64_t wall_ns, enum log_level level, const char *event)
{
    char moment[TIMESTAMP_MAX];
    weir_timestamp_write(wall_ns / WEIR_MS, moment);
    put_field(line, &LOG_TEXT("time", moment));
    put_field(line, &LOG_TEXT("level", level_names[level]));
    put_field(line, &LOG_TEXT("event", event));
    int64_t left_out = atomic_exchange_explicit(&state.to_be_told, 0, memory_order_relaxed);
    if (left_out > 0)
        put_field(line, &LOG_NUMBER("left_out", left_out));
}

static void write_event(int64_t wall_ns, enum log_level level, const char *event,
                        const struct log_field *fields, int count)
{
    char body[LINE_MAX_BYTES], line[LINE_MAX_BYTES + 16];
    struct text text, whole;
    bool json = state.format == LOG_JSON;
    weir_text_init(&text, body, sizeof body);
    put_front(&text, wall_ns, level, event);
    for (int i = 0; i < count; i++)
        if (!add_field(&text, &fields[i]))
            break;
    weir_text_init(&whole, line, sizeof line);
    if (state.journal)
        weir_text_print(&whole, "<%c>", level_numbers[level]);
    weir_text_print(&whole, json ? "{%s}\n" : "%s\n", body);
    write_line(line, whole.len);
}

static bool is_on(enum log_level level)
{
    return state.limiters[level] && level >= state.least;
}

void weir_log_write_at(int64_t now_ns, int64_t wall_ns, enum log_level level, const char *event,
                       const struct log_field *fields, int count)
{
    if (!is_on(level))
        return;
    if (weir_limiter_take_at(state.limiters[level], now_ns, 1, NULL))
        write_event(wall_ns, level, event, fields, count);
    else
        leave_out();
}

void weir_log_write(enum log_level level, const char *event, const struct log_field *fields, int count)
{
    if (is_on(level)) /* the kernel's clock: tests may have set the other */
        weir_log_write_at(weir_clock_kernel(), weir_boot.wall(), level, event, fields, count);
}

void weir_log_change_write(enum log_level level, const char *event, const struct log_field *fields, int count)
{
    if (is_on(level))
        write_event(weir_boot.wall(), level, event, fields, count);
}
