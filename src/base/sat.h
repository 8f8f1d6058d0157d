/* SPDX-License-Identifier: MIT */
/*
 * Integer arithmetic that never overflows: what does not fit saturates, and every division says how it
 * rounds. Libc only; any thread.
 */
#ifndef WEIR_BASE_SAT_H
#define WEIR_BASE_SAT_H

#include <stdint.h>

__extension__ typedef __int128 weir_i128;
__extension__ typedef unsigned __int128 weir_u128;

static inline int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static inline int64_t clamp64(int64_t x, int64_t low, int64_t high)
{
    return x < low ? low : x > high ? high : x;
}

static inline int64_t sat_add(int64_t a, int64_t b)
{
    int64_t sum;
    if (__builtin_add_overflow(a, b, &sum))
        return a < 0 ? INT64_MIN : INT64_MAX;
    return sum;
}

static inline int64_t sat_sub(int64_t a, int64_t b)
{
    int64_t difference;
    if (__builtin_sub_overflow(a, b, &difference))
        return a < 0 ? INT64_MIN : INT64_MAX;
    return difference;
}

static inline int64_t sat_mul(int64_t a, int64_t b)
{
    int64_t product;
    if (__builtin_mul_overflow(a, b, &product))
        return (a < 0) == (b < 0) ? INT64_MAX : INT64_MIN;
    return product;
}

static inline int64_t sat_i128(weir_i128 x)
{
    return x > INT64_MAX ? INT64_MAX : x < INT64_MIN ? INT64_MIN : (int64_t)x;
}

/* a * b / 2^64, rounded down or up. */
static inline uint64_t mulhi(uint64_t a, uint64_t b)
{
    return (uint64_t)(((weir_u128)a * b) >> 64);
}

static inline uint64_t mulhi_up(uint64_t a, uint64_t b)
{
    return (uint64_t)(((weir_u128)a * b + UINT64_MAX) >> 64);
}

/* a / b rounded up; a >= 0, b > 0. */
static inline int64_t div_up(int64_t a, int64_t b)
{
    return a / b + (a % b != 0);
}

/* (a * b + c) / d, rounded down; a, b, c >= 0, d > 0. Most products fit, and then one division is enough. */
static inline int64_t mul_add_div(int64_t a, int64_t b, int64_t c, int64_t d, int64_t *remainder)
{
    int64_t sum;
    if (!__builtin_mul_overflow(a, b, &sum) && !__builtin_add_overflow(sum, c, &sum)) {
        *remainder = sum % d;
        return sum / d;
    }
    weir_i128 wide = (weir_i128)a * b + c;
    *remainder = (int64_t)(wide % d);
    return sat_i128(wide / d);
}

/* a * b / c, rounded down or up; a, b >= 0, c > 0. */
static inline int64_t mul_div(int64_t a, int64_t b, int64_t c)
{
    int64_t remainder;
    return mul_add_div(a, b, 0, c, &remainder);
}

static inline int64_t mul_div_up(int64_t a, int64_t b, int64_t c)
{
    int64_t remainder;
    return mul_add_div(a, b, c - 1, c, &remainder);
}

#endif
