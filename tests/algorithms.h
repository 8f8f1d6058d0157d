/* SPDX-License-Identifier: MIT */
/*
 * Algorithms for random tests, counted by the names that the library has for them: one that is added is drawn
 * everywhere.
 */
#ifndef WEIR_TESTS_ALGORITHMS_H
#define WEIR_TESTS_ALGORITHMS_H

#include <string.h>

#include "rng.h"
#include "spec/keywords.h"

/* They are 0 to one less than this. */
static inline int32_t algo_count(void)
{
    int32_t count = 0;
    while (strcmp(weir_algo_name(count), "unknown") != 0)
        count++;
    return count;
}

static inline int32_t algo_any(struct rng *rng)
{
    return (int32_t)rng_between(rng, 0, algo_count() - 1);
}

/* Neither unlimited nor blocked. */
static inline int32_t algo_with_rate(struct rng *rng)
{
    int32_t algo;
    do
        algo = algo_any(rng);
    while (algo == WEIR_UNLIMITED || algo == WEIR_BLOCKED);
    return algo;
}

#endif
