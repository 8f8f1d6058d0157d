/* SPDX-License-Identifier: MIT */
/*
 * Replies of the Redis protocol, in version 2 or 3. What version 2 has no type for is written as clients of
 * version 2 expect it: a map as a flat array, a truth value as 1 or 0, a verbatim text as a bulk string, a
 * push as an array.
 */
#ifndef WEIR_RESP_WRITE_H
#define WEIR_RESP_WRITE_H

#include <stdint.h>

#include "base/buffer.h"

struct reply {
    struct buffer *out;
    int version; /* 2 or 3 */
};

void weir_reply_simple(struct reply *reply, const char *text);
/* "ERR no policy ...": the code word first. Line breaks become spaces, other control characters '?'. */
__attribute__((format(printf, 2, 3))) void weir_reply_error(struct reply *reply, const char *format, ...);
void weir_reply_integer(struct reply *reply, int64_t number);
void weir_reply_bulk(struct reply *reply, const char *bytes, size_t len);
void weir_reply_text(struct reply *reply, const char *text); /* a bulk string */
__attribute__((format(printf, 2, 3))) void weir_reply_print(struct reply *reply, const char *format, ...);
void weir_reply_verbatim(struct reply *reply, const char *text, size_t len); /* of kind txt */
void weir_reply_null(struct reply *reply);
void weir_reply_null_array(struct reply *reply);
void weir_reply_bool(struct reply *reply, bool value);
void weir_reply_double(struct reply *reply, double value);
/* What follows are so many elements; of a map so many pairs. */
void weir_reply_array(struct reply *reply, size_t count);
void weir_reply_map(struct reply *reply, size_t pairs);
void weir_reply_set(struct reply *reply, size_t count);
void weir_reply_push(struct reply *reply, size_t count);
/* An element of a map: its name, and a number, or a text, which NULL makes null. */
void weir_reply_field(struct reply *reply, const char *name, int64_t number);
void weir_reply_text_field(struct reply *reply, const char *name, const char *text);

#endif
