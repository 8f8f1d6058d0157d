/* SPDX-License-Identifier: MIT */
/*
 * hybrid (EngineBlock's limiter): time itself is handed out. A token is a tick; an op costs one unit of
 * them. Filling puts the time that has passed into the active pool; what does not fit waits, and waiting
 * tokens move on into the burst pool, in proportion to the time filled: burst / active of it. So callers
 * who are on schedule go at the rate, callers who are behind at up to `ratio` times the rate, and no token
 * is made or lost: what is left in the pools is how far behind schedule the callers are.
 *
 * Law: in every interval [x, y]
 *     admitted - given back <= (active + burst) / unit + ratio * R * (y - x + 1 ns) / W
 * where active and burst are the sizes of the pools, and times count by the latest reading: while a clock
 * that stepped back catches up, nothing is filled, but what is there may be taken. Charged units are taken
 * from the active pool.
 *
 * Callers fill: a take does it with the time since the last fill, a refusal leaves all as it was. The
 * fraction of a token that a short fill moves is carried over, so short fills lose nothing.
 */
#include "base/assert.h"
#include "core/limit.h"

#define NOT_STARTED INT64_C(-1) /* AT_FILLED of pools that were configured but not started */

struct hybrid_pools {
    int64_t active, waiting; /* the active pool holds the burst tokens, too, above its size */
    int64_t last;            /* tick of the last fill */
    int64_t carry;           /* burst tokens owed, in 1 / size of the active pool */
};

static struct hybrid_pools hybrid_load(const int64_t *state)
{
    return (struct hybrid_pools){state[AT_ACTIVE], state[AT_WAITING], state[AT_FILLED], state[AT_CARRY]};
}

static void hybrid_save(int64_t *state, struct hybrid_pools pools)
{
    state[AT_ACTIVE] = pools.active;
    state[AT_WAITING] = pools.waiting;
    state[AT_FILLED] = pools.last;
    state[AT_CARRY] = pools.carry;
}

#if WEIR_ASSERTIONS
/* No token is made or lost, the pools hold what fits, and what moved to the burst pool is its share of the
 * time that was filled. */
static void hybrid_check_fill(const struct limit *limit, struct hybrid_pools before,
                              struct hybrid_pools after)
{
    int64_t size = limit->u.hybrid.active, over = limit->u.hybrid.over, time = after.last - before.last;
    weir_i128 tokens = (weir_i128)before.active + before.waiting + time;
    weir_i128 grown = (weir_i128)after.active - before.active;
    weir_i128 moved = grown - min64(time, max64(sat_sub(size, before.active), 0));
    weir_i128 share = (weir_i128)time * (over - size) + before.carry;
    ASSERT(time >= 0);
    ASSERT(sat_add(before.waiting, time) == INT64_MAX || (weir_i128)after.active + after.waiting == tokens);
    ASSERT(after.active <= max64(over, before.active) && after.waiting >= 0);
    ASSERT(after.carry >= 0 && after.carry < size);
    ASSERT(moved >= 0 && moved <= share / size);
    /* Nothing is owed to a full pool, nor if nobody waits; elsewhere not even a fraction is lost. */
    if (after.active < over && after.waiting > 0)
        ASSERT(moved * size + after.carry == share);
    else
        ASSERT(time == 0 || after.carry == 0);
}
#endif

static struct hybrid_pools hybrid_fill(const struct limit *limit, struct hybrid_pools pools, int64_t v)
{
#if WEIR_ASSERTIONS
    struct hybrid_pools before = pools;
#endif
    int64_t size = limit->u.hybrid.active, over = limit->u.hybrid.over;
    if (pools.last == NOT_STARTED || v <= pools.last)
        return pools;
    int64_t time = v - pools.last;
    int64_t added = min64(time, max64(sat_sub(size, pools.active), 0));
    pools.active += added;
    pools.waiting = sat_add(pools.waiting, time - added);

    int64_t share = mul_add_div(time, over - size, pools.carry, size, &pools.carry);
    int64_t room = min64(sat_sub(over, pools.active), pools.waiting), moved = min64(share, room);
    if (moved == room) /* the pool is full or nobody waits: nothing is owed */
        pools.carry = 0;
    pools.active += moved;
    pools.waiting -= moved;
    pools.last = v;
#if WEIR_ASSERTIONS
    hybrid_check_fill(limit, before, pools);
#endif
    return pools;
}

static struct hybrid_pools hybrid_fill_at(const struct limit *limit, const int64_t *state, int64_t now)
{
    return hybrid_fill(limit, hybrid_load(state), ticks_at(&limit->ticks, now));
}

/* Tokens that a pool cannot hold wait. */
static struct hybrid_pools hybrid_put(const struct limit *limit, struct hybrid_pools pools, int64_t tokens)
{
    int64_t room = sat_sub(limit->u.hybrid.over, pools.active), added = min64(tokens, room);
    if (added == room)
        pools.carry = 0;
    pools.active += added;
    pools.waiting = sat_add(pools.waiting, tokens - added);
    return pools;
}

static int64_t hybrid_behind_ns(const struct limit *limit, struct hybrid_pools pools)
{
    return weir_ticks_to_span(&limit->ticks, max64(sat_add(pools.active, pools.waiting), 0));
}

static size_t hybrid_words(const struct limit *limit)
{
    (void)limit;
    return HYBRID_WORDS;
}

static void hybrid_start(const struct limit *limit, int64_t *state, int64_t now)
{
    state[AT_ACTIVE] = limit->ticks.unit; /* the first op starts at once */
    state[AT_FILLED] = ticks_at(&limit->ticks, now);
}

static void hybrid_init(const struct limit *limit, int64_t *state, int64_t now)
{
    hybrid_save(state, (struct hybrid_pools){.last = NOT_STARTED});
    state[AT_HISTORY] = 0;
    if (limit->spec.verb != WEIR_VERB_CONFIGURE)
        hybrid_start(limit, state, now);
}

static weir_i128 div_up_i128(weir_i128 a, int64_t b)
{
    return a <= 0 ? 0 : (a + b - 1) / b;
}

/*
 * The shortest time to fill after which the active pool holds `cost` tokens, more than it does now. It
 * holds the least of three: all tokens there are, both pools full (which is enough), and the active pool
 * as filled with its share of burst tokens: active + time while there is room, plus (time * burst + carry) /
 * size, rounded down.
 */
static int64_t hybrid_time_to(const struct limit *limit, struct hybrid_pools pools, int64_t cost)
{
    int64_t size = limit->u.hybrid.active, over = limit->u.hybrid.over, room = sat_sub(size, pools.active);
    int64_t need = sat_sub(cost, pools.active), all = sat_sub(need, pools.waiting);
    weir_i128 time = div_up_i128((weir_i128)need * size - pools.carry, over);
    if (time > room) { /* from a full active pool on only the share grows */
        int64_t share = cost - max64(size, pools.active);
        time = div_up_i128((weir_i128)share * size - pools.carry, over - size);
        time = time < room ? room : time;
    }
    return max64(sat_i128(time), all);
}

static int64_t hybrid_due(const struct limit *limit, const int64_t *state, int64_t now, int64_t n)
{
    struct hybrid_pools pools = hybrid_load(state);
    int64_t cost = sat_mul(n, limit->ticks.unit);
    if (cost > limit->u.hybrid.over || pools.last == NOT_STARTED)
        return WEIR_FOREVER;
    int64_t v = ticks_at(&limit->ticks, now);
    if (hybrid_fill(limit, pools, v).active >= cost)
        return now;
    return ticks_time(&limit->ticks, sat_add(pools.last, hybrid_time_to(limit, pools, cost)));
}

static uint64_t hybrid_enter(const struct limit *limit, int64_t *state, int64_t now, int64_t n)
{
    struct hybrid_pools pools = hybrid_fill_at(limit, state, now);
    pools.active -= n * limit->ticks.unit;
    hybrid_save(state, pools);
    return 0;
}

/* At the tick at which there are enough of them: a full pool would keep what comes later waiting. */
static uint64_t hybrid_promise(const struct limit *limit, int64_t *state, int64_t due_ns, int64_t n)
{
    int64_t cost = n * limit->ticks.unit, v = ticks_of_promise(&limit->ticks, due_ns);
    struct hybrid_pools pools = hybrid_load(state);
    if (hybrid_fill(limit, pools, v).active < cost)
        v = sat_add(pools.last, hybrid_time_to(limit, pools, cost));
    pools = hybrid_fill(limit, pools, v);
    pools.active -= cost;
    hybrid_save(state, pools);
    return 0;
}

static bool hybrid_take(const struct limit *limit, int64_t *state, int64_t now, int64_t n)
{
    struct hybrid_pools pools = hybrid_fill_at(limit, state, now);
    int64_t cost = sat_mul(n, limit->ticks.unit);
    if (pools.active < cost || pools.last == NOT_STARTED)
        return false;
    pools.active -= cost;
    hybrid_save(state, pools);
    return true;
}

/* The pools have been filled up to the time of the promise and stay there. */
static bool hybrid_cancel(const struct limit *limit, int64_t *state, const struct weir_reservation *r,
                          int64_t promised)
{
    int64_t tokens = sat_mul(r->n, limit->ticks.unit);
    struct hybrid_pools pools = hybrid_load(state);
    if (promised == r->due_ns)
        pools = hybrid_put(limit, pools, tokens);
    else
        pools.waiting = sat_add(pools.waiting, tokens);
    hybrid_save(state, pools);
    return false;
}

static void hybrid_give(const struct limit *limit, int64_t *state, int64_t now, int64_t n)
{
    hybrid_save(state, hybrid_put(limit, hybrid_fill_at(limit, state, now), sat_mul(n, limit->ticks.unit)));
}

static void hybrid_charge(const struct limit *limit, int64_t *state, int64_t now, int64_t n)
{
    struct hybrid_pools pools = hybrid_fill_at(limit, state, now);
    pools.active = sat_sub(pools.active, sat_mul(n, limit->ticks.unit));
    hybrid_save(state, pools);
}

static void hybrid_drain(const struct limit *limit, int64_t *state, int64_t now)
{
    struct hybrid_pools pools = hybrid_fill_at(limit, state, now);
    pools.active = min64(pools.active, 0);
    hybrid_save(state, pools);
}

static int64_t hybrid_restart(const struct limit *limit, int64_t *state, int64_t now)
{
    struct hybrid_pools pools = hybrid_fill_at(limit, state, now);
    int64_t discarded = hybrid_behind_ns(limit, pools);
    int64_t last = max64(pools.last, ticks_at(&limit->ticks, now));
    hybrid_save(state,
                (struct hybrid_pools){.active = min64(pools.active, 0), .last = last}); /* a debt stays */
    state[AT_HISTORY] = sat_add(state[AT_HISTORY], discarded);
    return discarded;
}

static int64_t hybrid_behind(const struct limit *limit, const int64_t *state, int64_t now)
{
    return hybrid_behind_ns(limit, hybrid_fill_at(limit, state, now));
}

/* The same time in the ticks of another limit; what is owed stays so many units. */
static int64_t hybrid_convert(const struct limit *limit, const struct limit *next, int64_t tokens)
{
    if (tokens < 0)
        return -mul_div_up(sat_sub(0, tokens), next->ticks.unit, limit->ticks.unit);
    return ticks_at(&next->ticks, weir_ticks_to_span(&limit->ticks, tokens));
}

/* Tokens are time: pools keep theirs. Obeys the order that came with the new text. */
static void hybrid_change(const struct limit *limit, const int64_t *from, const struct limit *next,
                          int64_t *to, int64_t now)
{
    struct hybrid_pools pools = hybrid_fill_at(limit, from, now);
    int64_t active = hybrid_convert(limit, next, pools.active);
    struct hybrid_pools converted = {.waiting = hybrid_convert(limit, next, pools.waiting),
                                     .last = NOT_STARTED};
    if (pools.last != NOT_STARTED) /* a clock that stepped back does not fill the same time twice */
        converted.last = ticks_at(&next->ticks, max64(now, ticks_time(&limit->ticks, pools.last)));
    converted.active = min64(active, 0);
    hybrid_save(to, hybrid_put(next, converted, max64(active, 0)));
    to[AT_HISTORY] = from[AT_HISTORY];

    if (next->spec.verb == WEIR_VERB_RESTART)
        (void)hybrid_restart(next, to, now);
    else if (next->spec.verb != WEIR_VERB_CONFIGURE && converted.last == NOT_STARTED)
        hybrid_start(next, to, now);
}

static int64_t hybrid_remaining(const struct limit *limit, const int64_t *state, int64_t now)
{
    struct hybrid_pools pools = hybrid_fill_at(limit, state, now);
    return pools.last == NOT_STARTED ? 0 : max64(pools.active, 0) / limit->ticks.unit;
}

/* The active pool is full again. */
static int64_t hybrid_fresh(const struct limit *limit, const int64_t *state, int64_t now)
{
    struct hybrid_pools pools = hybrid_load(state);
    if (pools.last == NOT_STARTED || pools.active >= limit->u.hybrid.active)
        return now;
    int64_t time = hybrid_time_to(limit, pools, limit->u.hybrid.active);
    return max64(now, ticks_time(&limit->ticks, sat_add(pools.last, time)));
}

static int64_t hybrid_debt(const struct limit *limit, const int64_t *state, int64_t now)
{
    return limit_units_up(limit, sat_sub(0, hybrid_fill_at(limit, state, now).active));
}

/*
 * A fresh hybrid holds one op and no backlog. Once the active pool holds as much, forgetting takes tokens
 * away and makes none: what the pools hold above that, what waits and what is carried. The law counts what
 * the pools hold and what time brings, so it holds. And the fresh one never holds more than the other would
 * have, but for one tick: a full pool drops the fraction of a token that it is owed, one that is not full
 * keeps it. Callers who come back after such a pause are on schedule again. Otherwise no key could ever go,
 * for its backlog grows with every moment that it is away.
 */
static int64_t hybrid_idle(const struct limit *limit, const int64_t *state)
{
    if (state[AT_FILLED] == NOT_STARTED) /* nothing passes */
        return WEIR_FOREVER;
    return hybrid_due(limit, state, ticks_time(&limit->ticks, state[AT_FILLED]), 1);
}

static bool hybrid_valid(const struct limit *limit, const int64_t *state)
{
    bool started = limit->spec.verb != WEIR_VERB_CONFIGURE;
    return state[AT_ACTIVE] <= limit->u.hybrid.over && state[AT_WAITING] >= 0 &&
           is_value_within(state[AT_FILLED], started ? 0 : NOT_STARTED,
                           ticks_at(&limit->ticks, WEIR_TIME_MAX)) &&
           is_value_within(state[AT_CARRY], 0, limit->u.hybrid.active - 1) && state[AT_HISTORY] >= 0;
}

static int64_t hybrid_most(const struct limit *limit, int64_t span_ns)
{
    int64_t passed = weir_ticks_between_promises(&limit->ticks, span_ns);
    int64_t time = mul_div_up(passed, limit->spec.ratio_ppm, 1000000);
    return sat_add(limit->u.hybrid.over, time) / limit->ticks.unit;
}

const struct algorithm weir_hybrid = {
    .words = hybrid_words,
    .init = hybrid_init,
    .due = hybrid_due,
    .enter = hybrid_enter,
    .promise = hybrid_promise,
    .take = hybrid_take,
    .cancel = hybrid_cancel,
    .give = hybrid_give,
    .charge = hybrid_charge,
    .drain = hybrid_drain,
    .change = hybrid_change,
    .remaining = hybrid_remaining,
    .debt = hybrid_debt,
    .fresh = hybrid_fresh,
    .idle = hybrid_idle,
    .valid = hybrid_valid,
    .most = hybrid_most,
    .restart = hybrid_restart,
    .behind = hybrid_behind,
};
