/* SPDX-License-Identifier: MIT */
/*
 * Dice that prefer numbers which break things: edges, ones, and every order of magnitude.
 */
#ifndef WEIR_TESTS_PROPERTY_DICE_H
#define WEIR_TESTS_PROPERTY_DICE_H

#include <stdbool.h>
#include <stdint.h>

#include "rng.h"

struct dice {
    struct rng rng;
};

/* A stream of its own for every pair of numbers. */
static inline struct dice dice_new(uint64_t seed, uint64_t stream)
{
    return (struct dice){{seed * UINT64_C(0xA0761D6478BD642F) ^ (stream + 1) * UINT64_C(0xE7037ED1A0B428DB)}};
}

/* low..high, both included. */
static inline int64_t dice_between(struct dice *dice, int64_t low, int64_t high)
{
    return rng_between(&dice->rng, low, high);
}

/* 1..high, every magnitude as likely as any other. */
static inline int64_t dice_magnitude(struct dice *dice, int64_t high)
{
    int64_t x = (int64_t)(rng_next(&dice->rng) >> 1 >> dice_between(dice, 0, 62));
    return x < 1 ? 1 : x <= high ? x : dice_between(dice, 1, high);
}

/* True in `percent` of 100. */
static inline bool dice_chance(struct dice *dice, int percent)
{
    return dice_between(dice, 1, 100) <= percent;
}

#define DICE_PICK(DICE, ARRAY)                                                                               \
    ((ARRAY)[dice_between((DICE), 0, (int64_t)(sizeof(ARRAY) / sizeof *(ARRAY)) - 1)])

#endif
