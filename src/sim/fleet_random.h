/* SPDX-License-Identifier: MIT */
/*
 * Random numbers that are the same on every machine: integers only.
 */
#ifndef WEIR_SIM_FLEET_RANDOM_H
#define WEIR_SIM_FLEET_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

struct sim_random {
    uint64_t state;
};

static inline uint64_t random_mix(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    return x ^ x >> 31;
}

/* A counter with an odd step, scrambled (SplitMix64). */
static inline uint64_t random_next(struct sim_random *random)
{
    return random_mix(random->state += UINT64_C(0x9E3779B97F4A7C15));
}

/* 0..below - 1; below >= 1. */
static inline int64_t random_below(struct sim_random *random, int64_t below)
{
    return (int64_t)(random_next(random) % (uint64_t)below);
}

/* low..high, both included. */
static inline int64_t random_between(struct sim_random *random, int64_t low, int64_t high)
{
    return low + random_below(random, high - low + 1);
}

/* True once in `times`. */
static inline bool random_once_in(struct sim_random *random, int64_t times)
{
    return random_below(random, times) == 0;
}

/* low..high, every order of magnitude as likely as any other; low >= 1. */
static inline int64_t random_magnitude(struct sim_random *random, int64_t low, int64_t high)
{
    int bits = 0;
    while (bits < 62 && low << (bits + 1) > 0 && low << (bits + 1) <= high)
        bits++;
    int64_t least = low << random_below(random, bits + 1);
    int64_t most = least > high / 2 ? high : 2 * least;
    return random_between(random, least, most);
}

/* About as the gaps between independent arrivals are: -log2 of a random number, its fraction straight, times
 * the mean. */
static inline int64_t random_gap(struct sim_random *random, int64_t mean)
{
    uint64_t x = random_next(random) | 1;
    int zeros = __builtin_clzll(x);
    uint64_t fraction = zeros < 48 ? x << zeros << 1 >> 48 : 0;
    double log2 = (double)zeros + 1.0 - (double)fraction / 65536.0;
    return (int64_t)(log2 * 0.667 * (double)mean) + 1;
}

#endif
