/* SPDX-License-Identifier: MIT */
#include "base/buffer.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define FIRST_SIZE 256 /* most answers are smaller */
#define PRINT_SIZE 512 /* and so is what is printed at once */

void weir_buffer_free(struct buffer *buffer)
{
    free(buffer->bytes);
    *buffer = (struct buffer){.most = buffer->most};
}

/* Twice as much as before, so that a byte is moved a bounded number of times on average; never above `most`.
 */
static size_t buffer_next_size(const struct buffer *buffer, size_t needed)
{
    size_t size = buffer->size < FIRST_SIZE ? FIRST_SIZE : buffer->size;
    while (size < needed)
        size = size > SIZE_MAX / 2 ? needed : size * 2;
    return buffer->most > 0 && size > buffer->most ? buffer->most : size;
}

static bool buffer_move_to(struct buffer *buffer, size_t size)
{
    size_t len = buffer_len(buffer);
    char *bytes = malloc(size);
    if (!bytes)
        return false;
    if (buffer->bytes)
        memcpy(bytes, buffer->bytes + buffer->start, len);
    free(buffer->bytes);
    buffer->bytes = bytes;
    buffer->size = size;
    buffer->start = 0;
    buffer->end = len;
    return true;
}

/* Bytes go to the front only if at least as many have gone there: each is moved for one that was dropped. */
static bool buffer_make_room(struct buffer *buffer, size_t needed)
{
    size_t len = buffer_len(buffer);
    if (!buffer->bytes || needed > buffer->size || buffer->start < len)
        return buffer_move_to(buffer,
                              buffer_next_size(buffer, needed > buffer->size ? needed : buffer->size + 1));
    memmove(buffer->bytes, buffer->bytes + buffer->start, len);
    buffer->start = 0;
    buffer->end = len;
    return true;
}

char *weir_buffer_room(struct buffer *buffer, size_t len)
{
    if (buffer->failed)
        return NULL;
    size_t used = buffer_len(buffer);
    if (len > SIZE_MAX - used || (buffer->most > 0 && used + len > buffer->most)) {
        buffer->failed = true;
        return NULL;
    }
    if ((!buffer->bytes || buffer->size - buffer->end < len) && !buffer_make_room(buffer, used + len)) {
        buffer->failed = true;
        return NULL;
    }
    return buffer->bytes + buffer->end;
}

void weir_buffer_put_slowly(struct buffer *buffer, const char *bytes, size_t len)
{
    char *room = len > 0 ? weir_buffer_room(buffer, len) : NULL;
    if (!room)
        return;
    memcpy(room, bytes, len);
    buffer->end += len;
}

void weir_buffer_print(struct buffer *buffer, const char *format, ...)
{
    char text[PRINT_SIZE];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (len < (int)sizeof text) {
        buffer_put(buffer, text, len > 0 ? (size_t)len : 0);
        return;
    }
    char *room = weir_buffer_room(buffer, (size_t)len + 1); /* with its NUL, which does not count */
    if (!room)
        return;
    va_start(args, format);
    (void)vsnprintf(room, (size_t)len + 1, format, args);
    va_end(args);
    buffer->end += (size_t)len;
}

void weir_buffer_drop(struct buffer *buffer, size_t len, size_t keep)
{
    buffer->start += len < buffer_len(buffer) ? len : buffer_len(buffer);
    if (buffer->start < buffer->end)
        return;
    buffer->start = buffer->end = 0;
    if (buffer->size > keep) {
        free(buffer->bytes);
        buffer->bytes = NULL;
        buffer->size = 0;
    }
}
