/* SPDX-License-Identifier: MIT */
#include "model/law.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SCALE LAW_SCALE /* fraction bits of a unit; what does not fit rounds in favour of the law */
#define ONE   LAW_ONE

/* ---- the log ---- */

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static const struct weir_policy *policy_of(const struct law_log *log)
{
    return log->parts[log->part_count - 1].policy;
}

static int32_t algo_of(const struct law_log *log, size_t limit)
{
    const struct weir_policy *policy = policy_of(log);
    return limit < policy->count ? policy->limits[limit].spec.algo : WEIR_UNLIMITED;
}

/* A sliding-log knows no time but that of its entries, and a hybrid none before it is started. */
static void set_clock(struct law_log *log, size_t limit, int64_t now)
{
    bool idle = algo_of(log, limit) == WEIR_SLIDING_LOG ||
                (algo_of(log, limit) == WEIR_HYBRID &&
                 policy_of(log)->limits[limit].spec.verb == WEIR_VERB_CONFIGURE);
    log->clock[limit] = log->local[limit] = idle ? 0 : now;
}

static struct law_part *begin(struct law_log *log, const struct weir_policy *policy, int64_t now)
{
    struct law_part *part = &log->parts[log->part_count++];
    *part = (struct law_part){.policy = policy};
    for (size_t i = 0; i < MODEL_LIMITS; i++)
        part->from[i] = part->until[i] = later(log->clock[i], now);
    return part;
}

void law_start(struct law_log *log, const struct weir_policy *policy, int64_t now)
{
    log->count = log->part_count = 0;
    log->latest = now;
    memset(log->clock, 0, sizeof log->clock);
    (void)begin(log, policy, now);
    for (size_t i = 0; i < MODEL_LIMITS; i++)
        set_clock(log, i, now);
}

void law_touch(struct law_log *log, size_t limit, int64_t now)
{
    if (algo_of(log, limit) == WEIR_SLIDING_LOG)
        return;
    log->clock[limit] = later(log->clock[limit], now);
    log->local[limit] = later(log->local[limit], now);
}

static size_t add(struct law_log *log, int64_t now, int64_t time, int64_t n, bool give)
{
    struct law_event *event = &log->events[log->count];
    *event = (struct law_event){.n = n, .give = give, .part = log->part_count - 1};
    for (size_t i = 0; i < MODEL_LIMITS; i++) {
        if (!give)
            law_touch(log, i, now);
        event->time[i] = later(time, log->clock[i]);
        event->local[i] = later(time, log->local[i]);
    }
    return log->count++;
}

size_t law_admit(struct law_log *log, int64_t now, int64_t due, int64_t n)
{
    log->latest = later(log->latest, due);
    return add(log, now, due, n, false);
}

void law_cancel(struct law_log *log, size_t event)
{
    log->events[event].gone = true;
}

/*
 * A one-word state does not know how far its clock has stepped back. What is given back or changed meanwhile
 * counts from the time that the clock shows; and smooth and warmup pay a debt at the rate at which it was
 * made, but take given units at the new one. Then the law begins anew.
 */
static bool gives_anew(const struct law_log *log, size_t limit, int64_t now)
{
    switch ((enum weir_algo)algo_of(log, limit)) {
    case WEIR_TOKEN_BUCKET:
    case WEIR_INTERVAL:
    case WEIR_LEAKY_BUCKET:
        return now < log->clock[limit];
    case WEIR_SMOOTH:
    case WEIR_WARMUP:
        return now < log->clock[limit] || now < log->parts[log->part_count - 1].until[limit];
    default:
        return false;
    }
}

void law_give(struct law_log *log, int64_t now, int64_t n)
{
    bool anew[MODEL_LIMITS], any = false;
    for (size_t i = 0; i < MODEL_LIMITS; i++)
        any = (anew[i] = gives_anew(log, i, now)) || any;
    struct law_part *part = any ? begin(log, policy_of(log), now) : NULL;
    for (size_t i = 0; i < MODEL_LIMITS && part; i++) {
        part->kept[i] = !anew[i];
        part->counts_on[i] = true;
        if (anew[i] && now < log->clock[i]) /* it is no reading that a state keeps: it makes no clock later */
            set_clock(log, i, now);
    }
    (void)add(log, now, now, n, true);
}

void law_change(struct law_log *log, const struct weir_policy *next, int64_t now, int64_t owed,
                const bool *kept)
{
    struct law_part *part = begin(log, next, now);
    for (size_t i = 0; i < MODEL_LIMITS; i++) {
        part->until[i] = later(later(log->latest, owed), part->from[i]);
        part->kept[i] = kept[i] && now >= log->clock[i];
        part->stays[i] = kept[i] && (now < log->clock[i] || part[-1].stays[i]);
        set_clock(log, i, now);
    }
}

/* What counts, in the order of time. */
struct view {
    struct seen {
        int64_t time, local, n;
        bool give;
        size_t part;
    } events[MODEL_EVENTS];
    size_t count;
};

static void look(const struct law_log *log, size_t limit, struct view *view)
{
    view->count = 0;
    for (size_t i = 0; i < log->count; i++) {
        if (log->events[i].gone)
            continue;
        const struct law_event *e = &log->events[i];
        struct seen event = {e->time[limit], e->local[limit], e->n, e->give, e->part};
        size_t at = view->count++;
        bool sorted = log->parts[e->part].policy->limits[limit].spec.algo == WEIR_SLIDING_LOG;
        for (; !sorted && at > 0 && view->events[at - 1].time > event.time; at--)
            view->events[at] = view->events[at - 1];
        view->events[at] = event;
    }
}

static const struct limit *limit_of(const struct law_log *log, size_t part, size_t limit)
{
    return &log->parts[part].policy->limits[limit];
}

static bool broken(struct law_fault *fault, const struct seen *event, const char *law)
{
    (void)snprintf(fault->text, sizeof fault->text, "%s: broken by %" PRId64 " at %" PRId64, law, event->n,
                   event->time);
    return false;
}

/* ---- buckets: one linear pass covers all intervals ---- */

/* R * span / W in 1/ONE of a unit, rounded up. */
weir_i128 law_earned(const struct limit *limit, int64_t span)
{
    weir_i128 product = (weir_i128)limit->spec.count * span, period = limit->spec.period_ns;
    weir_i128 units = (model_min(product / period, INT64_MAX / 2) << SCALE) +
                      model_div_up((product % period) << SCALE, period);
    if (limit->spec.algo == WEIR_HYBRID)
        units = model_div_up(units * limit->spec.ratio_ppm, 1000000);
    return units;
}

/* What a full store of a warmup below the line saves: (most - threshold) * (1 - 1/cold) / 2. The warm-up
 * rounds up to a whole tick. */
static weir_i128 warmup_store(const struct weir_spec *spec)
{
    if (spec->shape != WEIR_SHAPE_BELOW)
        return 0;
    long double cold = (long double)spec->cold_ppm / 1e6L;
    long double units =
        ((long double)spec->warmup_ns + 1) * (long double)spec->count / (long double)spec->period_ns;
    return (weir_i128)((long double)ONE * (units * (cold - 1) / (cold + 1) * (1 + 0x1p-40L)));
}

weir_i128 law_capacity(const struct limit *limit)
{
    const struct weir_spec *spec = &limit->spec;
    switch ((enum weir_algo)spec->algo) {
    case WEIR_TOKEN_BUCKET:
        return spec->burst * ONE;
    case WEIR_INTERVAL:
        return ONE;
    case WEIR_SMOOTH:
        return spec->burst ? spec->burst * ONE : law_earned(limit, WEIR_SEC);
    case WEIR_WARMUP:
        return warmup_store(spec);
    case WEIR_HYBRID:
        return model_div_up(limit->u.hybrid.over * ONE, limit->ticks.unit);
    default:
        return 0;
    }
}

/* Is the last take of an interval paid for after it? */
bool law_pays_later(const struct limit *limit)
{
    return limit->spec.algo == WEIR_LEAKY_BUCKET || limit->spec.algo == WEIR_SMOOTH ||
           limit->spec.algo == WEIR_WARMUP;
}

/* Parts of one chain, from the first that the limit has gone through without a break. */
struct chain {
    const struct law_log *log;
    size_t limit, first, last;
};

static bool is_in(const struct chain *c, const struct seen *event)
{
    return event->part >= c->first && event->part <= c->last;
}

/* Does the rate of a part count at this time? */
static bool counts_at(const struct chain *c, size_t part, int64_t time)
{
    if (part > c->first && c->log->parts[part].from[c->limit] > time)
        return false;
    if (part == c->last)
        return true;
    const struct law_part *next = &c->log->parts[part + 1];
    return time < next->from[c->limit] || time < next->until[c->limit];
}

/* The first time after `time` at which another rate may count. */
static int64_t next_edge(const struct chain *c, int64_t time, int64_t end)
{
    for (size_t i = c->first; i <= c->last; i++) {
        int64_t from = c->log->parts[i].from[c->limit], until = c->log->parts[i].until[c->limit];
        end = from > time && from < end ? from : end;
        end = until > time && until < end ? until : end;
    }
    return end;
}

static weir_i128 integrate(const struct chain *c, int64_t from, int64_t to)
{
    weir_i128 sum = 0;
    while (from < to) {
        int64_t edge = next_edge(c, from, to);
        weir_i128 most = 0;
        for (size_t i = c->first; i <= c->last; i++)
            if (counts_at(c, i, from))
                most = model_max(most, law_earned(limit_of(c->log, i, c->limit), edge - from));
        sum += most;
        from = edge;
    }
    return sum;
}

/* Max of the bursts; and a nanosecond of grace for every part, for each counts from a tick of its own. */
static weir_i128 chain_capacity(const struct chain *c)
{
    weir_i128 most = 0, grace = 0;
    for (size_t i = c->first; i <= c->last; i++) {
        const struct limit *limit = limit_of(c->log, i, c->limit);
        most = model_max(most, law_capacity(limit));
        grace += law_earned(limit, 1);
    }
    return most + grace;
}

/* Costs of a warmup below the line are doubles: so many roundings of what has been spent. */
static weir_i128 rounding(const struct chain *c, weir_i128 spent)
{
    for (size_t i = c->first; i <= c->last; i++) {
        const struct weir_spec *spec = &limit_of(c->log, i, c->limit)->spec;
        if (spec->algo == WEIR_WARMUP && spec->shape != WEIR_SHAPE_ABOVE)
            return (spent >> 46) + 1;
    }
    return 0;
}

static bool bucket_holds(const struct chain *c, const struct view *view, struct law_fault *fault)
{
    weir_i128 full = chain_capacity(c), level = full, spent = 0;
    int64_t last = INT64_MIN;
    for (size_t i = 0; i < view->count; i++) {
        const struct seen *event = &view->events[i];
        if (!is_in(c, event))
            continue;
        const struct limit *limit = limit_of(c->log, event->part, c->limit);
        if (last != INT64_MIN)
            level = model_min(full, level + integrate(c, last, event->time));
        last = event->time;
        if (event->give) {
            level = model_min(full, level + event->n * ONE);
            continue;
        }
        spent += event->n * ONE;
        if (!law_pays_later(limit))
            level -= event->n * ONE;
        if (level + rounding(c, spent) < 0)
            return broken(fault, event, "admitted - given back <= burst + rate * time");
        if (law_pays_later(limit))
            level -= event->n * ONE;
    }
    return true;
}

/* ---- windows: each part for itself ---- */

static bool fixed_window_holds(const struct chain *c, const struct view *view, struct law_fault *fault)
{
    const struct weir_spec *spec = &limit_of(c->log, c->first, c->limit)->spec;
    weir_i128 used = 0;
    int64_t window = -1;
    for (size_t i = 0; i < view->count; i++) {
        const struct seen *event = &view->events[i];
        if (!is_in(c, event))
            continue;
        if (event->local / spec->period_ns != window)
            used = 0;
        window = event->local / spec->period_ns;
        used = event->give ? model_max(used - event->n, 0) : used + event->n;
        if (used > spec->count)
            return broken(fault, event, "admitted - given back <= count in each window");
    }
    return true;
}

static bool sliding_window_holds(const struct chain *c, const struct view *view, struct law_fault *fault)
{
    const struct weir_spec *spec = &limit_of(c->log, c->first, c->limit)->spec;
    weir_i128 present = 0, previous = 0, period = spec->period_ns;
    int64_t window = -1;
    for (size_t i = 0; i < view->count; i++) {
        const struct seen *event = &view->events[i];
        if (!is_in(c, event))
            continue;
        int64_t now = event->local / spec->period_ns;
        if (now != window) {
            previous = window >= 0 && now == window + 1 ? present : 0;
            present = 0;
        }
        window = now;
        present = event->give ? model_max(present - event->n, 0) : present + event->n;
        weir_i128 left = period - event->local % spec->period_ns;
        if (!event->give && present * period + previous * left > spec->count * period)
            return broken(fault, event, "present + previous * (W - e) / W <= count at every admission");
    }
    return true;
}

/* Every interval [x, x + W) that begins with one of the events. */
static bool sliding_log_holds(const struct chain *c, const struct view *view, struct law_fault *fault)
{
    const struct weir_spec *spec = &limit_of(c->log, c->first, c->limit)->spec;
    for (size_t first = 0; first < view->count; first++) {
        weir_i128 sum = 0;
        for (size_t i = first; i < view->count; i++) {
            const struct seen *event = &view->events[i];
            if (!is_in(c, event) || !is_in(c, &view->events[first]))
                continue;
            if (!event->give && event->local < view->events[first].local) /* the clock went back before it */
                continue;
            if ((weir_i128)event->local - view->events[first].local >= spec->period_ns)
                break;
            sum += event->give ? -event->n : event->n;
            if (sum > spec->count)
                return broken(fault, event, "admitted - given back <= count in any [x, x + W)");
        }
    }
    return true;
}

/* ---- step: every interval, with at most one step more than whole periods in each part ---- */

static weir_i128 stepped(const struct chain *c, int64_t from, int64_t to)
{
    weir_i128 sum = 0;
    for (size_t i = c->first; i <= c->last; i++) {
        const struct weir_spec *spec = &limit_of(c->log, i, c->limit)->spec;
        int64_t begin = i == c->first ? from : c->log->parts[i].from[c->limit];
        int64_t end = i == c->last ? to : c->log->parts[i + 1].until[c->limit];
        begin = begin > from ? begin : from;
        end = end < to ? end : to;
        if (begin <= end)
            sum += ((weir_i128)(end - begin) / spec->period_ns + 1) * spec->count;
    }
    return sum;
}

static bool step_holds(const struct chain *c, const struct view *view, struct law_fault *fault)
{
    weir_i128 burst = 0;
    for (size_t i = c->first; i <= c->last; i++)
        burst = model_max(burst, limit_of(c->log, i, c->limit)->spec.burst);
    for (size_t first = 0; first < view->count; first++) {
        weir_i128 sum = 0;
        if (!is_in(c, &view->events[first]))
            continue;
        for (size_t i = first; i < view->count; i++) {
            const struct seen *event = &view->events[i];
            if (!is_in(c, event))
                continue;
            sum += event->give ? -event->n : event->n;
            if (sum > burst && sum > burst + stepped(c, view->events[first].time, event->time))
                return broken(fault, event, "admitted - given back <= burst + count * (floor(time / W) + 1)");
        }
    }
    return true;
}

/* ---- all ---- */

static bool blocked_holds(const struct chain *c, const struct view *view, struct law_fault *fault)
{
    for (size_t i = 0; i < view->count; i++)
        if (is_in(c, &view->events[i]) && !view->events[i].give)
            return broken(fault, &view->events[i], "nothing passes");
    return true;
}

static int32_t chain_algo(const struct chain *c)
{
    return limit_of(c->log, c->first, c->limit)->spec.algo;
}

/* Laws that begin anew with every change. */
static bool part_holds(const struct chain *c, const struct view *view, struct law_fault *fault)
{
    switch ((enum weir_algo)chain_algo(c)) {
    case WEIR_FIXED_WINDOW:
    case WEIR_QUOTA:
        return fixed_window_holds(c, view, fault);
    case WEIR_SLIDING_WINDOW: /* one that stays where it was before the clock stepped back fades from there */
        return c->log->parts[c->first].stays[c->limit] || sliding_window_holds(c, view, fault);
    case WEIR_SLIDING_LOG:
        return sliding_log_holds(c, view, fault);
    case WEIR_HYBRID: /* tokens are time: a pool keeps its time, not its units */
        return bucket_holds(c, view, fault);
    case WEIR_BLOCKED:
        return blocked_holds(c, view, fault);
    default:
        return true;
    }
}

static bool has_own_shape(const struct chain *c)
{
    for (size_t i = c->first; i <= c->last; i++)
        if (limit_of(c->log, i, c->limit)->spec.shape == WEIR_SHAPE_OWN)
            return true;
    return false;
}

/* Laws that hold across changes. */
static bool chain_holds(const struct chain *c, const struct view *view, struct law_fault *fault)
{
    switch ((enum weir_algo)chain_algo(c)) {
    case WEIR_TOKEN_BUCKET:
    case WEIR_INTERVAL:
    case WEIR_LEAKY_BUCKET:
    case WEIR_SMOOTH:
        return bucket_holds(c, view, fault);
    case WEIR_WARMUP: /* a function of one's own makes its own law */
        return has_own_shape(c) || bucket_holds(c, view, fault);
    case WEIR_STEP:
        return step_holds(c, view, fault);
    default:
        return true;
    }
}

bool law_holds(const struct law_log *log, size_t limit, struct law_fault *fault)
{
    struct view view;
    struct chain chain = {.log = log, .limit = limit}, windows = chain;
    look(log, limit, &view);
    for (size_t part = 0; part < log->part_count; part++) {
        const struct law_part *now = &log->parts[part], *next = part + 1 < log->part_count ? now + 1 : NULL;
        chain.first = now->kept[limit] ? chain.first : part;
        windows.first = now->counts_on[limit] ? windows.first : part;
        chain.last = windows.last = part;
        if (!(next && next->kept[limit]) && !chain_holds(&chain, &view, fault))
            return false;
        if (!(next && next->counts_on[limit]) && !part_holds(&windows, &view, fault))
            return false;
    }
    return true;
}

bool law_most_holds(const struct law_log *log, size_t limit, struct law_fault *fault)
{
    struct view view;
    look(log, limit, &view);
    /* a stretch has both its ends, except that of a sliding-log, [x, x + span) */
    const struct weir_spec *spec = &limit_of(log, 0, limit)->spec;
    for (size_t first = 0; first < view.count; first += 1 + first / 4) {
        int64_t single = 0;
        for (size_t i = first; i < view.count; i++) {
            const struct seen *event = &view.events[i];
            if (event->give || event->n != 1 || log->part_count > 1)
                break;
            int64_t span = event->time - view.events[first].time + (spec->algo == WEIR_SLIDING_LOG);
            if (spec->algo == WEIR_WARMUP && spec->shape != WEIR_SHAPE_ABOVE)
                span += (span >> 46) + 1;
            if (++single > weir_policy_most(log->parts[0].policy, limit, span))
                return broken(fault, event, "weir_policy_most");
        }
    }
    return true;
}
