/* SPDX-License-Identifier: MIT */
/*
 * What the server says about itself: a line for each event, as logfmt or JSON, on standard error. Lines have
 * a limiter of their own for each level, so that no client can fill a disk; what was left out is counted and
 * said. Lines about changes by an operator (an audit log) are not limited. Any thread.
 *
 *     time=2026-11-15T16:50:00.123Z level=info event=listening on=127.0.0.1:9049
 */
#ifndef WEIR_SERVICE_LOG_H
#define WEIR_SERVICE_LOG_H

#include <stdbool.h>
#include <stdint.h>

enum log_level { LOG_DEBUG_LEVEL, LOG_INFO_LEVEL, LOG_WARN_LEVEL, LOG_ERROR_LEVEL };
enum log_format { LOG_LOGFMT, LOG_JSON };

/* Before any thread starts. `journal`: the level in front of each line as systemd reads it (<6>). */
bool weir_log_start(enum log_format format, enum log_level least, bool journal);
void weir_log_end(void);

/* A field of a line. Never a password, never a whole key unless `event` is about that key. */
struct log_field {
    const char *name;
    const char *text; /* NULL: number */
    int64_t number;
};
#define LOG_TEXT(name, text)     ((struct log_field){name, text, 0})
#define LOG_NUMBER(name, number) ((struct log_field){name, NULL, number})

void weir_log_write(enum log_level level, const char *event, const struct log_field *fields, int count);
/* The same with time as arguments: of weir_now, for the limiter, and since 1970. */
void weir_log_write_at(int64_t now_ns, int64_t wall_ns, enum log_level level, const char *event,
                       const struct log_field *fields, int count);
/* The same for what an operator has changed: the limiter does not count it, so it is never left out. */
void weir_log_change_write(enum log_level level, const char *event, const struct log_field *fields,
                           int count);
#define weir_log_change(level, event, ...)                                                                   \
    weir_log_change_write(level, event, (struct log_field[]){__VA_ARGS__},                                   \
                          (int)(sizeof((struct log_field[]){__VA_ARGS__}) / sizeof(struct log_field)))
/* weir_log(LOG_INFO_LEVEL, "reloaded", LOG_NUMBER("policies", 5)); at least one field. */
#define weir_log(level, event, ...)                                                                          \
    weir_log_write(level, event, (struct log_field[]){__VA_ARGS__},                                          \
                   (int)(sizeof((struct log_field[]){__VA_ARGS__}) / sizeof(struct log_field)))

int64_t weir_log_left_out(void); /* lines, so far */

#endif
