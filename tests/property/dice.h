/* SPDX-License-Identifier: MIT */
/*
 * Dice that prefer numbers which break things: edges, ones, and every order of magnitude.
 */
#ifndef WEIR_TESTS_PROPERTY_DICE_H
#define WEIR_TESTS_PROPERTY_DICE_H

#include <stdbool.h>
#include <stdint.h>

struct dice {
    uint64_t state;
};

/* A stream of its own for every pair of numbers. */
static inline struct dice dice_new(uint64_t seed, uint64_t stream)
{
    return (struct dice){seed * UINT64_C(0xA0761D6478BD642F) ^ (stream + 1) * UINT64_C(0xE7037ED1A0B428DB)};
}

/* A counter with an odd step, scrambled until every bit depends on every other (SplitMix64). */
static inline uint64_t dice_next(struct dice *dice)
{
    uint64_t x = dice->state += UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    return x ^ x >> 31;
}

/* low..high, both included. */
static inline int64_t dice_between(struct dice *dice, int64_t low, int64_t high)
{
    uint64_t span = (uint64_t)high - (uint64_t)low + 1;
    uint64_t x = dice_next(dice);
    return (int64_t)((uint64_t)low + (span ? x % span : x));
}

/* 1..high, every magnitude as likely as any other. */
static inline int64_t dice_magnitude(struct dice *dice, int64_t high)
{
    int64_t x = (int64_t)(dice_next(dice) >> 1 >> dice_between(dice, 0, 62));
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
