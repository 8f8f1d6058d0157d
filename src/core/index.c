/* SPDX-License-Identifier: MIT */
#include "core/index.h"

size_t weir_index_words(const struct limit *limit)
{
    (void)limit;
    return 1;
}

void weir_index_init(const struct limit *limit, int64_t *state, int64_t now)
{
    state[0] = ticks_at(&limit->ticks, now) - limit->initial * limit->ticks.unit;
}

uint64_t weir_index_promise(const struct limit *limit, int64_t *state, int64_t due, int64_t n)
{
    state[0] = index_after(limit, state[0], ticks_of_promise(&limit->ticks, due), n);
    return (uint64_t)state[0];
}

void weir_index_give(const struct limit *limit, int64_t *state, int64_t now, int64_t n)
{
    int64_t v = ticks_at(&limit->ticks, now);
    if (state[0] == INDEX_NEVER)
        return;
    int64_t index = sat_sub(index_at(limit, state[0], v), sat_mul(n, limit->ticks.unit));
    state[0] = index_at(limit, index, v);
}

void weir_index_charge(const struct limit *limit, int64_t *state, int64_t now, int64_t n)
{
    state[0] = index_after(limit, state[0], ticks_at(&limit->ticks, now), n);
}

void weir_index_drain(const struct limit *limit, int64_t *state, int64_t now)
{
    state[0] = max64(state[0], ticks_at(&limit->ticks, now));
}

/* Units are kept, not time: a level (or a debt) of so many units stays that many. */
void weir_index_change(const struct limit *limit, const int64_t *from, const struct limit *next, int64_t *to,
                       int64_t now)
{
    int64_t v = ticks_at(&limit->ticks, now), v_next = ticks_at(&next->ticks, now);
    int64_t level = sat_sub(v, index_at(limit, from[0], v));
    if (from[0] == INDEX_NEVER)
        to[0] = INDEX_NEVER;
    else if (level >= 0)
        to[0] = v_next - min64(mul_div(level, next->ticks.unit, limit->ticks.unit), next->full);
    else
        to[0] = sat_add(v_next, mul_div_up(sat_sub(0, level), next->ticks.unit, limit->ticks.unit));
}

int64_t weir_index_remaining(const struct limit *limit, const int64_t *state, int64_t now)
{
    int64_t v = ticks_at(&limit->ticks, now);
    return max64(v - index_at(limit, state[0], v), 0) / limit->ticks.unit;
}

int64_t weir_index_fresh(const struct limit *limit, const int64_t *state, int64_t now)
{
    return max64(now, ticks_time(&limit->ticks, sat_add(state[0], limit->full)));
}

int64_t weir_index_debt(const struct limit *limit, const int64_t *state, int64_t now)
{
    return limit_units_up(limit, sat_sub(state[0], ticks_at(&limit->ticks, now)));
}

/* The start of time, with a full bucket. Debts have no end. */
bool weir_index_valid(const struct limit *limit, const int64_t *state)
{
    return state[0] >= -(limit->full + limit->ticks.unit);
}
