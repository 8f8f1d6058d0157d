/* SPDX-License-Identifier: MIT */
/*
 * Whom the takes of weir bench table are for.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/table/table.h"

#define ZIPF     0.99
#define WALK_MIN ((size_t)1 << 14)
#define WALK_MAX ((size_t)1 << 22)

const char *const table_order_names[TABLE_ORDERS] = {"uniform", "zipf 0.99"};

struct table_key table_key_named(uint64_t number)
{
    struct table_key key = {"user"};
    for (int i = TABLE_KEY_LEN - 1; i >= 4; i--, number /= 10)
        key.bytes[i] = (char)('0' + number % 10);
    return key;
}

struct table_key table_key_new(uint64_t number)
{
    struct table_key key = {"new "};
    memcpy(key.bytes + 4, &number, sizeof number);
    return key;
}

/* 0 <= x < 1, the same ones in every run (SplitMix64). */
static double draw_fraction(uint64_t *state)
{
    uint64_t x = *state += UINT64_C(0x9E3779B97F4A7C15);
    x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    return (double)((x ^ x >> 31) >> 11) * 0x1p-53;
}

/* As YCSB draws: "Quickly generating billion-record synthetic databases", Gray et al., 1994. */
struct zipf {
    double keys, zeta, alpha, eta, second;
};

static struct zipf zipf_new(uint64_t keys)
{
    struct zipf zipf = {.keys = (double)keys, .alpha = 1 / (1 - ZIPF), .second = 1 + pow(0.5, ZIPF)};
    for (uint64_t i = 1; i <= keys; i++)
        zipf.zeta += pow((double)i, -ZIPF);
    zipf.eta = (1 - pow(2 / zipf.keys, 1 - ZIPF)) / (1 - zipf.second / zipf.zeta);
    return zipf;
}

/* A rank from 0. */
static uint64_t zipf_rank(const struct zipf *zipf, double x)
{
    if (x * zipf->zeta < 1)
        return 0;
    if (x * zipf->zeta < zipf->second)
        return 1;
    uint64_t rank = (uint64_t)(zipf->keys * pow(zipf->eta * (x - 1) + 1, zipf->alpha));
    return rank < (uint64_t)zipf->keys ? rank : (uint64_t)zipf->keys - 1;
}

/* Long enough that a run seldom comes to its end, short enough to be written in no time. */
static size_t walk_length(uint64_t keys)
{
    size_t count = WALK_MIN;
    while (count < 4 * keys && count < WALK_MAX)
        count *= 2;
    return count;
}

bool table_walk_make(struct table_walk *walk, enum table_order order, uint64_t keys)
{
    uint64_t state = keys + (uint64_t)order;
    struct zipf zipf = {0};
    *walk = (struct table_walk){.count = walk_length(keys)};
    walk->keys = aligned_alloc(_Alignof(struct table_key), walk->count * sizeof *walk->keys);
    if (!walk->keys)
        return false;
    if (order == ORDER_ZIPF)
        zipf = zipf_new(keys);
    for (size_t i = 0; i < walk->count; i++) {
        double x = draw_fraction(&state);
        walk->keys[i] =
            table_key_named(order == ORDER_ZIPF ? zipf_rank(&zipf, x) : (uint64_t)(x * (double)keys));
    }
    return true;
}

void table_walk_free(struct table_walk *walk)
{
    free(walk->keys);
    *walk = (struct table_walk){0};
}
