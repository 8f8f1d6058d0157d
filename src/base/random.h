/* SPDX-License-Identifier: MIT */
/*
 * Random numbers that are the same on every machine: integers only, one word of state (SplitMix64). For
 * jitter, tests and simulations; nothing that has to be secret. And the back-off that jitter is for.
 */
#ifndef WEIR_BASE_RANDOM_H
#define WEIR_BASE_RANDOM_H

#include <stdint.h>

#include "base/sat.h"

static inline uint64_t random_mix(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    return x ^ x >> 31;
}

/* A counter with an odd step, scrambled. */
static inline uint64_t random_next(uint64_t *state)
{
    return random_mix(*state += UINT64_C(0x9E3779B97F4A7C15));
}

/* 0..below - 1; 0 if below is not above 0. */
static inline int64_t random_below(uint64_t *state, int64_t below)
{
    uint64_t x = random_next(state);
    return below > 0 ? (int64_t)(x % (uint64_t)below) : 0;
}

/* Doubles *backoff_ns within its bounds and returns how long to wait: between half of it and all of it, so
 * that those who failed together do not come back together. */
static inline int64_t random_backoff(uint64_t *state, int64_t *backoff_ns, int64_t least_ns, int64_t most_ns)
{
    *backoff_ns = clamp64(sat_mul(*backoff_ns, 2), least_ns, most_ns);
    return *backoff_ns / 2 + random_below(state, *backoff_ns / 2 + 1);
}

#endif
