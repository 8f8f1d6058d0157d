/* SPDX-License-Identifier: MIT */
/*
 * How large a wide table is. A run is 7/10 full when it has its share of the keys. They spread over the
 * stripes as dice fall: a share of 196 keys or more leaves room for six standard deviations. And no key comes
 * near the end of its home's reach: of 10^7 keys the farthest lives about 150 places away.
 */
#include "table/wide.h"

#define STRIPES_MAX 1024
#define SHARE_LEAST 196 /* keys of a stripe, if there are several */
#define KEYS_MAX    (UINT64_C(1) << 48)

/* Slots that a stripe needs for its share of the keys. */
static uint64_t run_for(size_t keys, uint64_t stripes)
{
    uint64_t most = keys < KEYS_MAX ? keys : KEYS_MAX;
    uint64_t share = most / stripes + (most % stripes != 0);
    return share + share * 3 / 7 + 1;
}

/* Slots of about whole cache lines become that. */
static uint64_t slot_size_for(size_t words, size_t key_max)
{
    uint64_t size = sizeof(struct wide_slot) + 8 * ((uint64_t)words + wide_key_words(key_max));
    uint64_t whole = (size + 63) / 64 * 64;
    return (whole - size) * 4 <= size ? whole : size;
}

void weir_wide_shape(struct region_shape *shape, size_t keys, size_t words, size_t key_max)
{
    shape->kind = REGION_WIDE;
    shape->capacity = keys;
    shape->line_slots = 1;
    shape->slot_size = slot_size_for(words, key_max);
    shape->stripes = 1;
    while (shape->stripes < STRIPES_MAX && keys / (2 * shape->stripes) >= SHARE_LEAST)
        shape->stripes *= 2;
    shape->lines = shape->stripes * (run_for(keys, shape->stripes) + WIDE_SPARE);
}

uint64_t weir_wide_lines(const struct region_shape *shape, size_t keys)
{
    return shape->stripes * run_for(keys, shape->stripes);
}

bool weir_wide_shape_fits(const struct region_shape *shape, uint64_t words)
{
    uint64_t stripes = shape->stripes;
    return shape->kind == REGION_WIDE && shape->line_slots == 1 && stripes > 0 && stripes <= STRIPES_MAX &&
           (stripes & (stripes - 1)) == 0 && shape->lines % stripes == 0 &&
           shape->lines / stripes > WIDE_SPARE && shape->slot_size % 8 == 0 && words >= STATE_HEADER &&
           shape->slot_size >= sizeof(struct wide_slot) &&
           words <= (shape->slot_size - sizeof(struct wide_slot)) / 8;
}
