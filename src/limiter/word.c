/* SPDX-License-Identifier: MIT */
/*
 * All verbs but the plain take go through the core: a view is a policy of one limit and a state, private to
 * the thread, made of one consistent reading of the word. The core works on it; if the index it leaves is
 * another one, one exchange makes that public.
 */
#define _DEFAULT_SOURCE
#include "limiter/word.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

struct word_view {
    struct weir_policy policy;
    struct limit limit; /* no more of it than the core reads */
    int64_t state[WORD_STATE];
    uint64_t bias;
};

static uint64_t next_random(struct state_word *word)
{
    uint64_t x = word->random += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

bool weir_word_fits(const struct weir_policy *policy)
{
    return policy->count == 1 && policy->words <= WORD_STATE &&
           policy->limits[0].spec.refused == WEIR_REFUSED_IGNORE;
}

void weir_word_init(struct state_word *word)
{
    memset(word, 0, sizeof *word);
    int saved = errno;
    if (getrandom(&word->random, sizeof word->random, GRND_NONBLOCK) < 0)
        word->random = (uint64_t)(uintptr_t)word; /* an old kernel, early in its life */
    errno = saved;
    atom_store(&word->index, WORD_HELD, memory_order_relaxed);
    atom_store(&word->pace.version, PACE_NONE, memory_order_relaxed);
    word->paced = PACE_NONE;
}

void weir_word_hold(struct state_word *word, int64_t *state)
{
    atom_store(&word->pace.version, PACE_NONE, memory_order_relaxed); /* before a thread finds it held */
    uint64_t index = atom_swap(&word->index, WORD_HELD, memory_order_acq_rel);
    atom_fence(memory_order_release); /* whoever reads a figure written from here on finds the word held */
    INVARIANT(2, atom_load(&word->pace.version, memory_order_relaxed) == PACE_NONE);
    INVARIANT(2, atom_load(&word->index, memory_order_relaxed) == WORD_HELD);
    state[STATE_PROMISED] = word_figure(&word->until);
    state[STATE_GENERATION] = word_figure(&word->generation);
    state[STATE_HEADER] = (int64_t)(index - atom_load(&word->bias, memory_order_relaxed));
}

static void write_figure(atom64 *figure, int64_t value)
{
    atom_store(figure, (uint64_t)value, memory_order_relaxed);
}

static void write_figures(struct state_word *word, const struct limit *limit, int64_t timeout_ns)
{
    bool bucket = limit->spec.algo == WEIR_TOKEN_BUCKET || limit->spec.algo == WEIR_INTERVAL;
    write_figure(&word->burst, bucket ? limit->burst : 0);
    write_figure(&word->unit, limit->ticks.unit);
    write_figure(&word->whole, (int64_t)limit->ticks.whole);
    write_figure(&word->frac, (int64_t)limit->ticks.frac);
    write_figure(&word->time_max, limit->ticks.time_max);
    write_figure(&word->full, limit->full);
    write_figure(&word->inverse, (int64_t)limit->ticks.inverse);
    write_figure(&word->algorithm, (int64_t)(intptr_t)limit->algorithm);
    write_figure(&word->algo, limit->spec.algo);
    write_figure(&word->queue, limit->spec.queue);
    write_figure(&word->age_ns, limit->spec.age_ns);
    write_figure(&word->initial, limit->initial);
    write_figure(&word->timeout_ns, timeout_ns);
}

/* No index is below -2^62. The bias puts WORD_HELD into that gap, at a place drawn by lot. */
void weir_word_return(struct state_word *word, const int64_t *state)
{
    uint64_t bias = (UINT64_C(1) << 63) - (next_random(word) >> 2);
    INVARIANT(2, bias != atom_load(&word->bias, memory_order_relaxed));
    INVARIANT(2, atom_load(&word->index, memory_order_relaxed) == WORD_HELD);
    atom_store(&word->bias, bias, memory_order_release);
    write_figure(&word->until, state[STATE_PROMISED]);
    write_figure(&word->generation, state[STATE_GENERATION]);
    INVARIANT(3, word_figure(&word->until) == state[STATE_PROMISED]);
    INVARIANT(2, (uint64_t)state[STATE_HEADER] + bias != WORD_HELD);
    atom_store(&word->index, (uint64_t)state[STATE_HEADER] + bias, memory_order_release);
}

void weir_word_put(struct state_word *word, const struct weir_policy *policy, const int64_t *state)
{
    int64_t words[WORD_STATE] = {0};
    memcpy(words, state, policy->words * sizeof words[0]); /* unlimited and blocked have no index */
    write_figures(word, &policy->limits[0], policy->timeout_ns);
    weir_word_return(word, words);
}

/* ---- pace ---- */

#define PACE_TICK_MAX (INT64_C(1) << 61) /* an index may lag by 2^62: the difference has to fit */

/*
 * With c nanoseconds for a tick of the counter and r ticks for a nanosecond, d ticks of the counter after the
 * anchor the clock tells ns + floor(d * c), which is more than ns - 1 + d * c. So the tick of that time is at
 * least ceil((ns - 1 + d * c) * r), and v(ns - 1) + floor(d * floor(c * r)) is never above it: a pace admits
 * nothing before its time.
 */
#if WEIR_ASSERTIONS
/* docs/internals/limiters.md, 2b: never ahead of the clock, and at most 3 ns behind it. */
static void check_pace(const struct state_word *word, const struct clock_anchor *anchor)
{
    struct ticks ticks = word_ticks(word, false);
    uint64_t start = atom_load(&word->pace.start, memory_order_relaxed);
    uint64_t tick = start - atom_load(&word->bias, memory_order_relaxed);
    uint64_t counts[] = {0, anchor->span / 3, anchor->span - 1};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        int64_t now = anchor->ns + (int64_t)(counts[i] * anchor->rate >> 32);
        uint64_t pace = tick + (counts[i] * atom_load(&word->pace.rate, memory_order_relaxed) >> 32);
        INVARIANT(2, pace <= (uint64_t)ticks_at(&ticks, now));
        INVARIANT(2, pace >= (uint64_t)ticks_at(&ticks, now - 3));
    }
    INVARIANT(4, start - atom_load(&word->pace.empty, memory_order_relaxed) ==
                     atom_load(&word->full, memory_order_relaxed));
}
#endif

static void write_pace(struct state_word *word, const struct clock_anchor *anchor)
{
    struct ticks ticks = word_ticks(word, false);
    struct pace *pace = &word->pace;
    uint64_t start =
        (uint64_t)ticks_at(&ticks, anchor->ns - 1) + atom_load(&word->bias, memory_order_relaxed);
    atom_store(&pace->tsc, anchor->tsc, memory_order_relaxed);
    atom_store(&pace->span, anchor->span, memory_order_relaxed);
    atom_store(&pace->rate, ticks.whole * anchor->rate + mulhi(ticks.frac, anchor->rate),
               memory_order_relaxed);
    atom_store(&pace->start, start, memory_order_relaxed);
    atom_store(&pace->empty, start - atom_load(&word->full, memory_order_relaxed), memory_order_relaxed);
    write_figure(&pace->unit, ticks.unit);
    write_figure(&pace->burst, word_figure(&word->burst));
#if WEIR_ASSERTIONS
    check_pace(word, anchor);
#endif
}

static bool can_follow(const struct state_word *word, const struct clock_anchor *anchor)
{
    struct ticks ticks = word_ticks(word, false);
    return anchor->span != 0 && anchor->ns > 0 && anchor->ns <= ticks.time_max - CLOCK_SPAN_NS &&
           ticks_at(&ticks, anchor->ns + CLOCK_SPAN_NS) < PACE_TICK_MAX && word_figure(&word->burst) != 0 &&
           word_figure(&word->until) == 0 && atom_load(&word->index, memory_order_relaxed) != WORD_HELD;
}

void weir_word_follow(struct state_word *word, const struct clock_anchor *anchor, uint64_t version)
{
    if (version == word->paced || !can_follow(word, anchor))
        return;
    INVARIANT(2, word->paced != version);
    INVARIANT(3, word_figure(&word->until) == 0);
    word->paced = version;
    atom_store(&word->pace.version, PACE_NONE, memory_order_relaxed);
    atom_fence(memory_order_release);
    INVARIANT(2, atom_load(&word->pace.version, memory_order_relaxed) == PACE_NONE);
    write_pace(word, anchor);
    atom_store(&word->pace.version, version, memory_order_release);
}

/* ---- views ---- */

static void word_read_limit(const struct state_word *word, struct limit *limit)
{
    limit->algorithm = (const struct algorithm *)(intptr_t)word_figure(&word->algorithm);
    limit->offset = STATE_HEADER;
    limit->spec.algo = (int32_t)word_figure(&word->algo);
    limit->spec.refused = WEIR_REFUSED_IGNORE;
    limit->spec.queue = word_figure(&word->queue);
    limit->spec.age_ns = word_figure(&word->age_ns);
    limit->ticks = word_ticks(word, true);
    limit->full = word_figure(&word->full);
    limit->initial = word_figure(&word->initial);
    limit->burst = (int64_t)atom_load(&word->burst, memory_order_relaxed);
}

/* false: the word is held, or has changed meanwhile; *seen is what it is now. */
static bool view_read(const struct state_word *word, uint64_t *seen, struct word_view *view)
{
    if (*seen == WORD_HELD)
        return false;
    view->policy = (struct weir_policy){.count = 1,
                                        .words = WORD_STATE,
                                        .timeout_ns = word_figure(&word->timeout_ns),
                                        .limits = &view->limit};
    word_read_limit(word, &view->limit);
    view->bias = atom_load(&word->bias, memory_order_relaxed);
    view->state[STATE_PROMISED] = word_figure(&word->until);
    view->state[STATE_GENERATION] = word_figure(&word->generation);
    view->state[STATE_HEADER] = (int64_t)(*seen - view->bias);
    atom_fence(memory_order_acquire);
    uint64_t again = atom_load(&word->index, memory_order_acquire);
    bool whole = again == *seen;
    *seen = again;
    return whole;
}

/* What a verb does with a view; gives its answer. */
typedef bool verb_fn(struct word_view *view, int64_t now, void *arg);

/* Does `verb` on a view and makes public what it left, or does it again. */
static int word_do(struct state_word *word, int64_t now, verb_fn *verb, void *arg)
{
    struct word_view view;
    uint64_t seen = atom_load(&word->index, memory_order_acquire);
    now = clamp64(now, 0, WEIR_TIME_MAX);
    for (;;) {
        if (!view_read(word, &seen, &view)) {
            if (seen == WORD_HELD)
                return WORD_ASK;
            continue;
        }
        int64_t promised = view.state[STATE_PROMISED];
        bool answer = verb(&view, now, arg);
        if (view.state[STATE_PROMISED] != promised) /* it has come, and that is for all to know */
            return WORD_ASK;
        uint64_t after = (uint64_t)view.state[STATE_HEADER] + view.bias;
        if (after == seen)
            return answer ? WORD_YES : WORD_NO;
        if (atom_cas(&word->index, &seen, after, memory_order_acq_rel))
            return answer ? WORD_YES : WORD_NO;
    }
}

/* ---- verbs ---- */

struct word_question {
    int64_t n;
    struct weir_reservation *reservation;
    struct weir_verdict *verdict;
};

static bool do_take(struct word_view *view, int64_t now, void *arg)
{
    const struct word_question *q = arg;
    return weir_state_reserve(&view->policy, view->state, now, q->n, 0, q->reservation, q->verdict);
}

int weir_word_take(struct state_word *word, int64_t now, int64_t n, struct weir_reservation *reservation,
                   struct weir_verdict *verdict)
{
    struct word_question q = {n, reservation, verdict};
    return word_do(word, now, do_take, &q);
}

static bool do_peek(struct word_view *view, int64_t now, void *arg)
{
    const struct word_question *q = arg;
    return weir_state_peek(&view->policy, view->state, now, q->n, q->verdict);
}

int weir_word_peek(struct state_word *word, int64_t now, int64_t n, struct weir_verdict *verdict)
{
    struct word_question q = {.n = n, .verdict = verdict};
    return word_do(word, now, do_peek, &q);
}

static bool do_give(struct word_view *view, int64_t now, void *arg)
{
    weir_state_give(&view->policy, view->state, now, *(const int64_t *)arg);
    return true;
}

int weir_word_give(struct state_word *word, int64_t now, int64_t n)
{
    return word_do(word, now, do_give, &n);
}

static bool do_charge(struct word_view *view, int64_t now, void *arg)
{
    weir_state_charge(&view->policy, view->state, now, *(const int64_t *)arg);
    return true;
}

int weir_word_charge(struct state_word *word, int64_t now, int64_t n)
{
    return word_do(word, now, do_charge, &n);
}

static bool do_drain(struct word_view *view, int64_t now, void *arg)
{
    *(int64_t *)arg = weir_state_drain(&view->policy, view->state, now);
    return true;
}

int weir_word_drain(struct state_word *word, int64_t now, int64_t *drained)
{
    return word_do(word, now, do_drain, drained);
}

static int64_t span_until(int64_t now, int64_t time)
{
    return time > WEIR_TIME_MAX ? WEIR_FOREVER : max64(time - now, 0);
}

/* The same figures as judge() and describe() in core/state.c, for one bucket. */
void weir_word_describe(const struct ticks *ticks, int64_t full, int64_t now, int64_t index, int64_t cost,
                        bool allowed, struct weir_verdict *verdict)
{
    int64_t v = ticks_at(ticks, now), after = allowed ? index + cost : index, retry = 0;
    now = clamp64(now, 0, WEIR_TIME_MAX);
    if (!allowed)
        retry = span_until(now, ticks_time(ticks, sat_add(index, cost)));
    *verdict = (struct weir_verdict){
        .allowed = allowed,
        .reason = allowed                 ? WEIR_OK
                  : retry == WEIR_FOREVER ? WEIR_NEVER
                                          : WEIR_LATER,
        .remaining = max64(v - after, 0) / ticks->unit,
        .retry_after_ns = retry,
        .reset_after_ns = span_until(now, ticks_time(ticks, sat_add(after, full))),
    };
    ASSERT(!allowed || verdict->remaining == (v - index) / ticks->unit - cost / ticks->unit);
    ASSERT(allowed || retry == WEIR_FOREVER ||
           (ticks_at(ticks, now + retry) >= index + cost && ticks_at(ticks, now + retry - 1) < index + cost));
}
