/* SPDX-License-Identifier: MIT */
/*
 * Text put together in memory whose bound the caller knows: each function returns the place behind what it
 * has written. For what is written a million times a second; elsewhere printf is good enough.
 */
#ifndef WEIR_BASE_PUT_H
#define WEIR_BASE_PUT_H

#include <stdint.h>
#include <string.h>

#define PUT_DECIMAL_MAX 20 /* bytes */

static inline char *put_bytes(char *at, const char *bytes, size_t len)
{
    memcpy(at, bytes, len);
    return at + len;
}

#define PUT(PLACE, LITERAL) put_bytes((PLACE), (LITERAL), sizeof(LITERAL) - 1)

static inline char *put_decimal(char *at, int64_t number)
{
    char digits[PUT_DECIMAL_MAX];
    size_t count = 0;
    uint64_t rest = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    if (number < 0)
        *at++ = '-';
    do
        digits[count++] = (char)('0' + rest % 10);
    while ((rest /= 10) > 0);
    while (count > 0)
        *at++ = digits[--count];
    return at;
}

#endif
