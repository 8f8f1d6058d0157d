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

static inline unsigned decimal_digits(uint64_t number)
{
    static const uint64_t powers[] = {0,
                                      UINT64_C(10),
                                      UINT64_C(100),
                                      UINT64_C(1000),
                                      UINT64_C(10000),
                                      UINT64_C(100000),
                                      UINT64_C(1000000),
                                      UINT64_C(10000000),
                                      UINT64_C(100000000),
                                      UINT64_C(1000000000),
                                      UINT64_C(10000000000),
                                      UINT64_C(100000000000),
                                      UINT64_C(1000000000000),
                                      UINT64_C(10000000000000),
                                      UINT64_C(100000000000000),
                                      UINT64_C(1000000000000000),
                                      UINT64_C(10000000000000000),
                                      UINT64_C(100000000000000000),
                                      UINT64_C(1000000000000000000),
                                      UINT64_C(10000000000000000000)};
    unsigned bits = 64 - (unsigned)__builtin_clzll(number | 1);
    unsigned count = bits * 1233 >> 12; /* log10 of 2 is 1233 / 4096, nearly; one too few for some */
    return count + (number >= powers[count]);
}

/* Two digits at a time, from the last on: a decision has a dozen numbers. */
static inline char *put_decimal(char *at, int64_t number)
{
    static const char pairs[] =
        "00010203040506070809101112131415161718192021222324252627282930313233343536373839"
        "40414243444546474849505152535455565758596061626364656667686970717273747576777879"
        "8081828384858687888990919293949596979899";
    uint64_t rest = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    if (number < 0)
        *at++ = '-';
    char *end = at + decimal_digits(rest), *last = end;
    for (; rest >= 10; rest /= 100)
        memcpy(last -= 2, pairs + rest % 100 * 2, 2);
    if (last > at)
        *at = (char)('0' + rest);
    return end;
}

#endif
