/* SPDX-License-Identifier: MIT */
/*
 * warmup (Guava's warming-up limiter): as smooth, but a saved unit has a price that depends on how many
 * are saved. The price of a unit, against the number saved:
 *
 *     above: edge = cold * unit        below: edge = unit / cold
 *     ^            / edge              ^
 *     |           /                    |
 *     |          / slope               |__________
 *     |_________/  unit                |          \  unit
 *     |                                |           \ edge
 *     +--------+---+---> saved         +--------+---+---> saved
 *         threshold most                   threshold most
 *
 * threshold = warmup/2 in units of the stable rate; `most` is chosen so that going from `most` down to the
 * threshold takes the time `warmup`. The area under the curve is the time a take costs, and the next
 * caller waits for it. The caller's own function may take the place of the curve.
 *
 * Law: above: a saved unit costs no less than a fresh one, so in every interval [x, y]
 *     admitted - n_last - given back <= R * (y - x + 1 ns) / W
 * below: the same plus what a full store saves: (most - threshold) * (1 - 1/cold) / 2. For this a unit of
 * idle time may save one unit, no more (Guava's faster saving would exceed the rate in the long run).
 * own: as the function says.
 *
 * Two words: the tick of the next start, and the saved units as a double; costs round up, and what is given
 * back rounds down.
 */
#include <string.h>

#include "base/assert.h"
#include "core/limit.h"

struct warmup_store {
    int64_t next;
    double saved;
};

static struct warmup_store warmup_load(const int64_t *state)
{
    struct warmup_store store = {.next = state[AT_NEXT]};
    memcpy(&store.saved, &state[AT_SAVED], sizeof store.saved);
    return store;
}

static void warmup_save(int64_t *state, struct warmup_store store)
{
    state[AT_NEXT] = store.next;
    memcpy(&state[AT_SAVED], &store.saved, sizeof store.saved);
}

/* Idle time becomes saved units. */
static struct warmup_store warmup_store_at(const struct limit *limit, struct warmup_store store, int64_t v)
{
    if (v > store.next) {
        double saved = store.saved + (double)(v - store.next) * limit->u.warmup.cooling;
        store.saved = saved < limit->u.warmup.most ? saved : limit->u.warmup.most;
        store.next = v;
    }
    ASSERT(store.saved >= 0 && store.saved <= limit->u.warmup.most * (1 + 0x1p-40) && store.next >= v);
    return store;
}

/* The price in the middle of the steep part, times its width; the rest is flat. Written so that little has to
 * wait for `saved`, which has just been computed. */
static inline double warmup_curve(const struct limit *limit, double saved, double n)
{
    double unit = limit->u.warmup.unit, slope = limit->u.warmup.slope, threshold = limit->u.warmup.threshold;
    double above = saved - threshold;
    if (above >= n)
        return unit * n + slope * n * (saved - (threshold + n / 2));
    return unit * n + (above > 0 ? above * slope * (above / 2) : 0);
}

/* Ticks that `n` of `saved` units cost. */
static inline double warmup_cost_saved(const struct limit *limit, double saved, double n)
{
    if (limit->spec.shape != WEIR_SHAPE_OWN)
        return warmup_curve(limit, saved, n);
    double ticks_per_ns = (double)limit->ticks.whole + (double)limit->ticks.frac * 0x1p-64;
    double cost = limit->spec.own(limit->spec.own_arg, saved, n) * ticks_per_ns;
    return cost >= 0 ? cost : limit->u.warmup.unit * n; /* NaN is not >= 0 */
}

static int64_t warmup_round_up(double x)
{
    if (x >= (double)TICKS_SPAN_MAX)
        return TICKS_SPAN_MAX;
    int64_t whole = (int64_t)x, up = whole + ((double)whole < x);
    ASSERT((double)up >= x && (double)up <= x + 1);
    return up;
}

static size_t warmup_words(const struct limit *limit)
{
    (void)limit;
    return WARMUP_WORDS;
}

static void warmup_init(const struct limit *limit, int64_t *state, int64_t now)
{
    warmup_save(state, (struct warmup_store){ticks_at(&limit->ticks, now), limit->u.warmup.most});
}

static bool warmup_is_too_dear(const struct limit *limit, int64_t n)
{
    return (double)n * limit->u.warmup.dearest > (double)TICKS_SPAN_MAX;
}

static int64_t warmup_due(const struct limit *limit, const int64_t *state, int64_t now, int64_t n)
{
    if (warmup_is_too_dear(limit, n))
        return WEIR_FOREVER;
    return state[AT_NEXT] <= ticks_at(&limit->ticks, now) ? now : ticks_time(&limit->ticks, state[AT_NEXT]);
}

static inline uint64_t warmup_enter_at(const struct limit *limit, int64_t *state, int64_t v, int64_t n)
{
    struct warmup_store store = warmup_store_at(limit, warmup_load(state), v);
    int64_t cost;
    if (store.saved <= 0) {
        cost = sat_mul(n, limit->ticks.unit); /* whole units stay exact */
    } else {
        double units = (double)n, saved = store.saved < units ? store.saved : units, price;
        if (store.saved >= units)
            price = warmup_cost_saved(limit, store.saved, units);
        else
            price = warmup_cost_saved(limit, store.saved, saved) + (units - saved) * limit->u.warmup.unit;
        cost = warmup_round_up(price);
        if (limit->spec.shape == WEIR_SHAPE_ABOVE) /* rounding makes no saved unit cheaper than a fresh one */
            cost = max64(cost, sat_mul(n, limit->ticks.unit));
        store.saved -= saved;
    }
    store.next = sat_add(store.next, cost);
    warmup_save(state, store);
    return (uint64_t)store.next;
}

static uint64_t warmup_enter(const struct limit *limit, int64_t *state, int64_t now, int64_t n)
{
    return warmup_enter_at(limit, state, ticks_at(&limit->ticks, now), n);
}

static uint64_t warmup_promise(const struct limit *limit, int64_t *state, int64_t due_ns, int64_t n)
{
    return warmup_enter_at(limit, state, ticks_of_promise(&limit->ticks, due_ns), n);
}

static bool warmup_take(const struct limit *limit, int64_t *state, int64_t now, int64_t n)
{
    int64_t v = ticks_at(&limit->ticks, now);
    if (state[AT_NEXT] > v || warmup_is_too_dear(limit, n))
        return false;
    (void)warmup_enter_at(limit, state, v, n);
    return true;
}

/* Only the last one can be undone. What it took from the store is not known any more: the store is filled
 * up where that costs the caller (above), and left as it is where it would favour him. */
static bool warmup_cancel(const struct limit *limit, int64_t *state, const struct weir_reservation *r,
                          int64_t promised)
{
    (void)promised;
    struct warmup_store store = warmup_load(state);
    if (store.next != (int64_t)r->ticket)
        return false;
    store.next = ticks_at(&limit->ticks, r->due_ns);
    if (limit->spec.shape == WEIR_SHAPE_ABOVE) {
        double saved = store.saved + (double)r->n;
        store.saved = saved < limit->u.warmup.most ? saved : limit->u.warmup.most;
    }
    warmup_save(state, store);
    return true;
}

/* The least that `n` units can have cost. Exact, rounded down: a double may round in favour of the caller. */
static weir_i128 warmup_least_cost(const struct limit *limit, int64_t n)
{
    weir_i128 cost = (weir_i128)n * limit->ticks.unit, cold = limit->spec.cold_ppm;
    if (limit->spec.shape != WEIR_SHAPE_BELOW)
        return cost;
    return cost / cold * 1000000 + cost % cold * 1000000 / cold; /* in two parts: the product may not fit */
}

/* Given units count at the lowest price there is; the caller's own function has none. */
static void warmup_give(const struct limit *limit, int64_t *state, int64_t now, int64_t n)
{
    int64_t v = ticks_at(&limit->ticks, now);
    if (limit->spec.shape == WEIR_SHAPE_OWN || state[AT_NEXT] <= v || state[AT_NEXT] == INT64_MAX)
        return;
    weir_i128 back = warmup_least_cost(limit, n);
    state[AT_NEXT] = back < state[AT_NEXT] - v ? state[AT_NEXT] - (int64_t)back : v;
}

static void warmup_charge(const struct limit *limit, int64_t *state, int64_t now, int64_t n)
{
    (void)warmup_enter(limit, state, now, n);
}

/* Saved units are an advantage only below the stable line. */
static void warmup_drain(const struct limit *limit, int64_t *state, int64_t now)
{
    struct warmup_store store = warmup_store_at(limit, warmup_load(state), ticks_at(&limit->ticks, now));
    if (limit->spec.shape != WEIR_SHAPE_ABOVE)
        store.saved = 0;
    warmup_save(state, store);
}

/* Above, saved units keep their share of the maximum: what was cold stays cold. Elsewhere they stay what they
 * are; but below, those beyond the threshold, which are cheap, have to be saved anew: with changes that go to
 * and fro one could spend them twice. */
static double warmup_saved_after(const struct limit *limit, double saved, const struct limit *next)
{
    if (next->spec.shape == WEIR_SHAPE_ABOVE)
        return saved * (next->u.warmup.most / limit->u.warmup.most);
    double warmup_most =
        next->spec.shape == WEIR_SHAPE_BELOW ? next->u.warmup.threshold : next->u.warmup.most;
    return saved < warmup_most ? saved : warmup_most;
}

/* The time of the next start stays. */
static void warmup_change(const struct limit *limit, const int64_t *from, const struct limit *next,
                          int64_t *to, int64_t now)
{
    struct warmup_store store = warmup_store_at(limit, warmup_load(from), ticks_at(&limit->ticks, now));
    int64_t start = max64(now, ticks_time(&limit->ticks, store.next));
    store.next = start > max64(now, next->ticks.time_max) ? INT64_MAX : ticks_at(&next->ticks, start);
    store.saved = warmup_saved_after(limit, store.saved, next);
    warmup_save(to, store);
}

static int64_t warmup_remaining(const struct limit *limit, const int64_t *state, int64_t now)
{
    struct warmup_store store = warmup_load(state);
    int64_t v = ticks_at(&limit->ticks, now);
    return store.next > v ? 0 : (int64_t)warmup_store_at(limit, store, v).saved;
}

static int64_t warmup_fresh(const struct limit *limit, const int64_t *state, int64_t now)
{
    struct warmup_store store = warmup_load(state);
    int64_t idle = warmup_round_up((limit->u.warmup.most - store.saved) * limit->u.warmup.cool);
    return max64(now, ticks_time(&limit->ticks, sat_add(store.next, idle)));
}

static int64_t warmup_debt(const struct limit *limit, const int64_t *state, int64_t now)
{
    return limit_units_up(limit, sat_sub(state[AT_NEXT], ticks_at(&limit->ticks, now)));
}

/* Are so many idle ticks enough to be as cold as a fresh store, to the last bit? */
static bool warmup_is_cold(const struct limit *limit, double saved, int64_t idle)
{
    double most = limit->u.warmup.most;
    return idle == 0 ? saved == most : saved + (double)idle * limit->u.warmup.cooling >= most;
}

static int64_t warmup_idle(const struct limit *limit, const int64_t *state)
{
    struct warmup_store store = warmup_load(state);
    int64_t low = 0, high = sat_sub(INT64_MAX, store.next);
    if (!warmup_is_cold(limit, store.saved, high))
        return WEIR_FOREVER;
    while (low < high) { /* a division would be off by its rounding */
        int64_t middle = low + (high - low) / 2;
        if (warmup_is_cold(limit, store.saved, middle))
            high = middle;
        else
            low = middle + 1;
    }
    int64_t cold = ticks_time(&limit->ticks, store.next + low);
    return max64(cold, warmup_fresh(limit, state, 0)); /* which verdicts go by, rounded up */
}

/* A live change may round the store up, by far less than this. */
static bool warmup_valid(const struct limit *limit, const int64_t *state)
{
    struct warmup_store store = warmup_load(state);
    return store.next >= 0 && store.saved >= 0 && store.saved <= limit->u.warmup.most * (1 + 0x1p-40);
}

static int64_t warmup_most(const struct limit *limit, int64_t span_ns)
{
    int64_t time = weir_ticks_between_promises(&limit->ticks, span_ns);
    int64_t earned = sat_add(time / limit->ticks.unit, 1);
    if (limit->spec.shape == WEIR_SHAPE_ABOVE)
        return earned;
    double store = limit->u.warmup.most - limit->u.warmup.threshold;
    if (limit->spec.shape == WEIR_SHAPE_BELOW)
        return sat_add(earned,
                       warmup_round_up(store * (1 - limit->u.warmup.edge / limit->u.warmup.unit) / 2));
    double idle = (double)time / limit->u.warmup.cool;
    return sat_add(earned, warmup_round_up(limit->u.warmup.most + idle)); /* at worst saved units are free */
}

const struct algorithm weir_warmup = {
    .words = warmup_words,
    .init = warmup_init,
    .due = warmup_due,
    .enter = warmup_enter,
    .promise = warmup_promise,
    .take = warmup_take,
    .cancel = warmup_cancel,
    .give = warmup_give,
    .charge = warmup_charge,
    .drain = warmup_drain,
    .change = warmup_change,
    .remaining = warmup_remaining,
    .debt = warmup_debt,
    .fresh = warmup_fresh,
    .idle = warmup_idle,
    .valid = warmup_valid,
    .most = warmup_most,
};
