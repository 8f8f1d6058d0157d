/* SPDX-License-Identifier: MIT */
/*
 * The one-word state that token-bucket, interval, leaky-bucket and smooth share: an index into the
 * limit's own time. The level of the bucket at tick v is v - index, never above `full`; below zero it
 * is a debt. Taking moves the index forward, and nothing moves it back but a give or a cancel.
 */
#ifndef WEIR_CORE_INDEX_H
#define WEIR_CORE_INDEX_H

#include "core/limit.h"

/* A debt beyond all time. How far beyond is not known, so nothing can repay it. */
#define INDEX_NEVER INT64_MAX

/* The index as of tick v: what a full bucket could not hold is gone. */
static inline int64_t index_at(const struct limit *limit, int64_t index, int64_t v)
{
    return max64(index, v - limit->full);
}

/* The index after n units more. */
static inline int64_t index_after(const struct limit *limit, int64_t index, int64_t v, int64_t n)
{
    return sat_add(index_at(limit, index, v), sat_mul(n, limit->ticks.unit));
}

size_t weir_index_words(const struct limit *limit);
void weir_index_init(const struct limit *limit, int64_t *state, int64_t now);
uint64_t weir_index_promise(const struct limit *limit, int64_t *state, int64_t due, int64_t n);
void weir_index_give(const struct limit *limit, int64_t *state, int64_t now, int64_t n);
void weir_index_charge(const struct limit *limit, int64_t *state, int64_t now, int64_t n);
void weir_index_drain(const struct limit *limit, int64_t *state, int64_t now);
void weir_index_change(const struct limit *limit, const int64_t *from, const struct limit *next, int64_t *to,
                       int64_t now);
int64_t weir_index_remaining(const struct limit *limit, const int64_t *state, int64_t now);
int64_t weir_index_debt(const struct limit *limit, const int64_t *state, int64_t now);
int64_t weir_index_fresh(const struct limit *limit, const int64_t *state, int64_t now);
bool weir_index_valid(const struct limit *limit, const int64_t *state);

#endif
