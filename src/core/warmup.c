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
 * Two words: the tick of the next start, and the saved units as a double; costs round up.
 */
#include <string.h>

#include "core/limit.h"

enum { NEXT, SAVED, WORDS };

struct store {
    int64_t next;
    double saved;
};

static struct store load(const int64_t *state)
{
    struct store store = {.next = state[NEXT]};
    memcpy(&store.saved, &state[SAVED], sizeof store.saved);
    return store;
}

static void save(int64_t *state, struct store store)
{
    state[NEXT] = store.next;
    memcpy(&state[SAVED], &store.saved, sizeof store.saved);
}

/* Idle time becomes saved units. */
static struct store store_at(const struct limit *limit, struct store store, int64_t v)
{
    if (v > store.next) {
        double saved = store.saved + (double)(v - store.next) * limit->u.warmup.cooling;
        store.saved = saved < limit->u.warmup.most ? saved : limit->u.warmup.most;
        store.next = v;
    }
    return store;
}

/* The price in the middle of the steep part, times its width; the rest is flat. Written so that little has to
 * wait for `saved`, which has just been computed. */
static inline double curve(const struct limit *limit, double saved, double n)
{
    double unit = limit->u.warmup.unit, slope = limit->u.warmup.slope, threshold = limit->u.warmup.threshold;
    double above = saved - threshold;
    if (above >= n)
        return unit * n + slope * n * (saved - (threshold + n / 2));
    return unit * n + (above > 0 ? above * slope * (above / 2) : 0);
}

/* Ticks that `n` of `saved` units cost. */
static inline double cost_saved(const struct limit *limit, double saved, double n)
{
    if (limit->spec.shape != WEIR_SHAPE_OWN)
        return curve(limit, saved, n);
    double ticks_per_ns = (double)limit->ticks.whole + (double)limit->ticks.frac * 0x1p-64;
    double cost = limit->spec.own(limit->spec.own_arg, saved, n) * ticks_per_ns;
    return cost >= 0 ? cost : limit->u.warmup.unit * n; /* NaN is not >= 0 */
}

static int64_t round_up(double x)
{
    if (x >= (double)TICKS_SPAN_MAX)
        return TICKS_SPAN_MAX;
    int64_t whole = (int64_t)x;
    return whole + ((double)whole < x);
}

static size_t words(const struct limit *limit)
{
    (void)limit;
    return WORDS;
}

static void init(const struct limit *limit, int64_t *state, int64_t now)
{
    save(state, (struct store){ticks_at(&limit->ticks, now), limit->u.warmup.most});
}

static bool is_too_dear(const struct limit *limit, int64_t n)
{
    return (double)n * limit->u.warmup.dearest > (double)TICKS_SPAN_MAX;
}

static int64_t due(const struct limit *limit, const int64_t *state, int64_t now, int64_t n)
{
    if (is_too_dear(limit, n))
        return WEIR_FOREVER;
    return state[NEXT] <= ticks_at(&limit->ticks, now) ? now : ticks_time(&limit->ticks, state[NEXT]);
}

static inline uint64_t enter_at(const struct limit *limit, int64_t *state, int64_t v, int64_t n)
{
    struct store store = store_at(limit, load(state), v);
    int64_t cost;
    if (store.saved <= 0) {
        cost = sat_mul(n, limit->ticks.unit); /* whole units stay exact */
    } else {
        double units = (double)n, saved = store.saved < units ? store.saved : units, price;
        if (store.saved >= units)
            price = cost_saved(limit, store.saved, units);
        else
            price = cost_saved(limit, store.saved, saved) + (units - saved) * limit->u.warmup.unit;
        cost = round_up(price);
        if (limit->spec.shape == WEIR_SHAPE_ABOVE) /* rounding makes no saved unit cheaper than a fresh one */
            cost = max64(cost, sat_mul(n, limit->ticks.unit));
        store.saved -= saved;
    }
    store.next = sat_add(store.next, cost);
    save(state, store);
    return (uint64_t)store.next;
}

static uint64_t enter(const struct limit *limit, int64_t *state, int64_t now, int64_t n)
{
    return enter_at(limit, state, ticks_at(&limit->ticks, now), n);
}

static uint64_t promise(const struct limit *limit, int64_t *state, int64_t due_ns, int64_t n)
{
    return enter_at(limit, state, ticks_of_promise(&limit->ticks, due_ns), n);
}

static bool take(const struct limit *limit, int64_t *state, int64_t now, int64_t n)
{
    int64_t v = ticks_at(&limit->ticks, now);
    if (state[NEXT] > v || is_too_dear(limit, n))
        return false;
    (void)enter_at(limit, state, v, n);
    return true;
}

/* Only the last one can be undone. What it took from the store is not known any more: the store is filled
 * up where that costs the caller (above), and left as it is where it would favour him. */
static bool cancel(const struct limit *limit, int64_t *state, const struct weir_reservation *r,
                   int64_t promised)
{
    (void)promised;
    struct store store = load(state);
    if (store.next != (int64_t)r->ticket)
        return false;
    store.next = ticks_at(&limit->ticks, r->due_ns);
    if (limit->spec.shape == WEIR_SHAPE_ABOVE) {
        double saved = store.saved + (double)r->n;
        store.saved = saved < limit->u.warmup.most ? saved : limit->u.warmup.most;
    }
    save(state, store);
    return true;
}

/* Given units count at the lowest price there is; the caller's own function has none. */
static void give(const struct limit *limit, int64_t *state, int64_t now, int64_t n)
{
    double cheapest =
        limit->u.warmup.edge < limit->u.warmup.unit ? limit->u.warmup.edge : limit->u.warmup.unit;
    int64_t v = ticks_at(&limit->ticks, now);
    if (limit->spec.shape == WEIR_SHAPE_OWN || state[NEXT] <= v || state[NEXT] == INT64_MAX)
        return;
    double back = (double)n * cheapest;
    state[NEXT] = back < (double)(state[NEXT] - v) ? state[NEXT] - (int64_t)back : v;
}

static void charge(const struct limit *limit, int64_t *state, int64_t now, int64_t n)
{
    (void)enter(limit, state, now, n);
}

/* Saved units are an advantage only below the stable line. */
static void drain(const struct limit *limit, int64_t *state, int64_t now)
{
    struct store store = store_at(limit, load(state), ticks_at(&limit->ticks, now));
    if (limit->spec.shape != WEIR_SHAPE_ABOVE)
        store.saved = 0;
    save(state, store);
}

/* Above, saved units keep their share of the maximum: what was cold stays cold. Elsewhere they stay what they
 * are; but below, those beyond the threshold, which are cheap, have to be saved anew: with changes that go to
 * and fro one could spend them twice. */
static double saved_after(const struct limit *limit, double saved, const struct limit *next)
{
    if (next->spec.shape == WEIR_SHAPE_ABOVE)
        return saved * (next->u.warmup.most / limit->u.warmup.most);
    double most = next->spec.shape == WEIR_SHAPE_BELOW ? next->u.warmup.threshold : next->u.warmup.most;
    return saved < most ? saved : most;
}

/* The time of the next start stays. */
static void change(const struct limit *limit, const int64_t *from, const struct limit *next, int64_t *to,
                   int64_t now)
{
    struct store store = store_at(limit, load(from), ticks_at(&limit->ticks, now));
    int64_t start = max64(now, ticks_time(&limit->ticks, store.next));
    store.next = start > max64(now, next->ticks.time_max) ? INT64_MAX : ticks_at(&next->ticks, start);
    store.saved = saved_after(limit, store.saved, next);
    save(to, store);
}

static int64_t remaining(const struct limit *limit, const int64_t *state, int64_t now)
{
    struct store store = load(state);
    int64_t v = ticks_at(&limit->ticks, now);
    return store.next > v ? 0 : (int64_t)store_at(limit, store, v).saved;
}

static int64_t fresh(const struct limit *limit, const int64_t *state, int64_t now)
{
    struct store store = load(state);
    int64_t idle = round_up((limit->u.warmup.most - store.saved) * limit->u.warmup.cool);
    return max64(now, ticks_time(&limit->ticks, sat_add(store.next, idle)));
}

static int64_t most(const struct limit *limit, int64_t span_ns)
{
    int64_t time = weir_ticks_between_promises(&limit->ticks, span_ns);
    int64_t earned = sat_add(time / limit->ticks.unit, 1);
    if (limit->spec.shape == WEIR_SHAPE_ABOVE)
        return earned;
    double store = limit->u.warmup.most - limit->u.warmup.threshold;
    if (limit->spec.shape == WEIR_SHAPE_BELOW)
        return sat_add(earned, round_up(store * (1 - limit->u.warmup.edge / limit->u.warmup.unit) / 2));
    double idle = (double)time / limit->u.warmup.cool;
    return sat_add(earned, round_up(limit->u.warmup.most + idle)); /* at worst saved units are free */
}

const struct algorithm weir_warmup = {
    .words = words,
    .init = init,
    .due = due,
    .enter = enter,
    .promise = promise,
    .take = take,
    .cancel = cancel,
    .give = give,
    .charge = charge,
    .drain = drain,
    .change = change,
    .remaining = remaining,
    .fresh = fresh,
    .most = most,
};
