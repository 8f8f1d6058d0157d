/* SPDX-License-Identifier: MIT */
/*
 * Bytes that grow at the end and go at the front. Never larger than its `most`; what does not fit sets
 * `failed`, once and for all, and nothing more is written: so a writer looks once, at the end.
 */
#ifndef WEIR_BASE_BUFFER_H
#define WEIR_BASE_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct buffer {
    char *bytes;
    size_t start, end; /* what is in it: bytes[start] ... bytes[end - 1] */
    size_t size;       /* of the memory */
    size_t most;       /* 0: no bound */
    bool failed;       /* out of memory, or above `most` */
};

/* Some bytes that belong to somebody else. */
struct slice {
    const char *bytes;
    size_t len;
};

void weir_buffer_free(struct buffer *buffer); /* may be used again, as if new; `most` stays */

/* Room for `len` bytes at the end, or NULL. What is written there counts after buffer_wrote. */
char *weir_buffer_room(struct buffer *buffer, size_t len);
/* As printf, at the end. */
__attribute__((format(printf, 2, 3))) void weir_buffer_print(struct buffer *buffer, const char *format, ...);
void weir_buffer_put_slowly(struct buffer *buffer, const char *bytes, size_t len);
/* Removes bytes at the front; an empty buffer of more than `keep` bytes gives its memory back. */
void weir_buffer_drop(struct buffer *buffer, size_t len, size_t keep);

static inline void buffer_wrote(struct buffer *buffer, size_t len)
{
    buffer->end += len;
}

static inline size_t buffer_len(const struct buffer *buffer)
{
    return buffer->end - buffer->start;
}

static inline char *buffer_bytes(struct buffer *buffer)
{
    return buffer->start > 0 ? buffer->bytes + buffer->start
                             : buffer->bytes; /* NULL + 0 is no pointer in C */
}

static inline void buffer_put(struct buffer *buffer, const char *bytes, size_t len)
{
    if (__builtin_expect(buffer->size - buffer->end < len || buffer->failed, 0)) {
        weir_buffer_put_slowly(buffer, bytes, len);
    } else if (len > 0) {
        memcpy(buffer->bytes + buffer->end, bytes, len);
        buffer->end += len;
    }
}

static inline bool slice_is(struct slice slice, const char *word)
{
    return slice.len == strlen(word) && (slice.len == 0 || memcmp(slice.bytes, word, slice.len) == 0);
}

#endif
