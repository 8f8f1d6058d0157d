/* SPDX-License-Identifier: MIT */
/*
 * Random numbers that can be repeated: the same start, the same numbers, on every machine.
 */
#ifndef WEIR_TESTS_RNG_H
#define WEIR_TESTS_RNG_H

#include <stdint.h>

struct rng {
    uint64_t state;
};

/* A counter with an odd step, scrambled until every bit depends on every other (SplitMix64). */
static inline uint64_t rng_next(struct rng *rng)
{
    uint64_t x = rng->state += UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    return x ^ x >> 31;
}

/* low..high, both included; slightly uneven when the range is no power of two. */
static inline int64_t rng_between(struct rng *rng, int64_t low, int64_t high)
{
    uint64_t span = (uint64_t)high - (uint64_t)low + 1;
    uint64_t x = rng_next(rng);
    return (int64_t)((uint64_t)low + (span ? x % span : x));
}

/* 0..high with every magnitude as likely as any other: finds what only tiny or huge numbers break. */
static inline int64_t rng_magnitude(struct rng *rng, int64_t high)
{
    uint64_t bits = rng_next(rng) >> 1; /* one draw after the other: a seed is the same for every compiler */
    int64_t x = (int64_t)(bits >> rng_between(rng, 0, 62));
    return x <= high ? x : rng_between(rng, 0, high);
}

#endif
