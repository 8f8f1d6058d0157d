/* SPDX-License-Identifier: MIT */
#ifndef WEIR_CORE_STATE_H
#define WEIR_CORE_STATE_H

#include <stdint.h>

/* A state begins with the time of the latest promise that is outstanding (0: none) and the number of that
 * promise, in two parts: an age, which ends when promises made so far cannot be taken back any more, and a
 * count within it. The words of each limit's algorithm follow, at limit->offset. */
enum { STATE_PROMISED, STATE_GENERATION, STATE_HEADER };

#define STATE_AGE (INT64_C(1) << 24) /* of the number; an age that has more promises than that ends early */

/* The first number of the next age. */
static inline int64_t state_next_age(int64_t number)
{
    return (number / STATE_AGE + 1) * STATE_AGE;
}

#endif
