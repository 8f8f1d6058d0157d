/* SPDX-License-Identifier: MIT */
/*
 * JSON (RFC 8259), read piece by piece in the order in which it stands, without a tree; and written.
 *
 * Reading: strict UTF-8, no comments, at most JSON_DEPTH_MAX levels, whole numbers up to 2^53 - 1 either way,
 * as every language reads them exactly. The first mistake ends it: each later call fails, too, and `why` says
 * what was wrong where. Strings are decoded in place, so the text is changed and must be the caller's own.
 */
#ifndef WEIR_HTTP_JSON_H
#define WEIR_HTTP_JSON_H

#include <stdint.h>

#include "base/buffer.h"

#define JSON_DEPTH_MAX   16
#define JSON_INTEGER_MAX ((INT64_C(1) << 53) - 1)

enum json_type {
    JSON_NONE,
    JSON_OBJECT,
    JSON_ARRAY,
    JSON_STRING,
    JSON_NUMBER,
    JSON_TRUE,
    JSON_FALSE,
    JSON_NULL
};

struct json_reader {
    char *start, *at, *end;
    unsigned depth;
    bool first;    /* nothing has been read yet of the object or array at hand */
    char why[112]; /* "": it is right so far */
};

void weir_json_begin(struct json_reader *reader, char *text, size_t len);
/* What comes next; JSON_NONE: nothing that JSON has. Reads nothing but white space. */
enum json_type weir_json_next(struct json_reader *reader);

/* Objects: weir_json_enter(reader, '{'), then weir_json_member until it returns false; arrays: '[' and
 * weir_json_element. After each member or element its value is to be read, or skipped. */
bool weir_json_enter(struct json_reader *reader, char bracket);
bool weir_json_member(struct json_reader *reader, struct slice *name);
bool weir_json_element(struct json_reader *reader);

bool weir_json_string(struct json_reader *reader,
                      struct slice *text);                           /* may have any character, U+0000 too */
bool weir_json_integer(struct json_reader *reader, int64_t *number); /* not 1.0 or 1e3; -0 is 0 */
bool weir_json_literal(struct json_reader *reader, bool *value);     /* true or false */
bool weir_json_skip(struct json_reader *reader); /* a value of any type, checked all the same */
/* Nothing but white space follows, and nothing was wrong. */
bool weir_json_end(struct json_reader *reader);
/* The caller's own complaint, unless there is one: "... at byte 17" is put behind it, and the first byte
 * is 1. Returns false. */
__attribute__((format(printf, 2, 3))) bool weir_json_fail(struct json_reader *reader, const char *format,
                                                          ...);

/* ---- writing ---- */

/* With its quotes. Bytes that are no UTF-8 become U+FFFD: who must not lose them sends base64 beside it. */
void weir_json_put_string(struct buffer *out, const char *bytes, size_t len);
bool weir_json_is_utf8(const char *bytes, size_t len);

/* ---- base64 (RFC 4648) ---- */

/* Either alphabet (+ / or - _), with or without padding; bits behind the last byte must be 0. Returns the
 * length in `bytes`, which has room for text.len bytes; SIZE_MAX: it is none. */
size_t weir_base64_decode(struct slice text, char *bytes);
/* With + / and padding. */
void weir_base64_put(struct buffer *out, const char *bytes, size_t len);

#endif
