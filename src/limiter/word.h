/* SPDX-License-Identifier: MIT */
/*
 * A state of one word, shared by threads without a lock: the index of core/index.h and the figures of the
 * limit it is counted by.
 *
 * A decision reads the index, decides by the figures, and replaces the index by one exchange. A refusal
 * writes nothing. Winning exchanges form one chain, and along it the index is what the pure core would have
 * made of the same questions one after the other.
 *
 * Figures are replaced, not shared: a live change holds the word (WORD_HELD), rewrites them, and puts the
 * converted index back. A thread that has read figures of two limits must not win. Therefore the index is
 * stored with a bias, a random number drawn anew whenever the figures change: an exchange that expects an
 * index of older figures finds another number (or, with a chance of 2^-62, does not). The writer takes the
 * index away, fences (release), writes the figures, then the bias (release), and puts the index back
 * (release). Readers have two ways. One reads the index, the figures, fences (acquire), and reads the index
 * again: if it is the same, so are the figures. The other reads the bias (acquire), the figures, fences
 * (acquire), the index, and the bias again: had one of the figures been newer, the index would be held, or
 * newer, and then the bias, too. This one has the index in hand for the shortest time, which is what counts
 * between processors.
 *
 * A promise, the time of the latest being `until`, changes index and `until` together, and so do its cancel,
 * a reset and a live change, and whoever first sees that it has come: these hold the word for some
 * nanoseconds, under the limiter's lock, and leave another bias. All else is lock-free: a take looks at
 * `until` as at any figure.
 *
 * While another kind of state is in use the word is held for good. Whoever finds it held, or needs a promise,
 * gets WORD_ASK: come back under the lock.
 *
 * A take by the clock would convert the counter to nanoseconds and these to ticks: two multiplications, one
 * after the other. A word therefore caches its pace: the clock's anchor (os/clock.h) converted to ticks of
 * the limit, so that one multiplication leads from the counter to the tick. The second take that misses the
 * pace makes it, under the limiter's lock. It is valid as long as the clock keeps that anchor, 1 ms at most,
 * and a thread that holds the word voids it. The writer voids the version, fences (release), writes the pace,
 * then the version (release). Readers read the version (acquire), the pace, fence (acquire), the index, and
 * the version again. A word never uses a version twice. So a reader that finds the same version has read one
 * pace, and an index that was not held since. A pace is made only while nothing is promised.
 */
#ifndef WEIR_LIMITER_WORD_H
#define WEIR_LIMITER_WORD_H

#include "base/assert.h"
#include "core/index.h"
#include "core/state.h"
#include "os/clock.h"

#define WORD_HELD UINT64_C(0)

enum word_answer { WORD_NO, WORD_YES, WORD_ASK };
enum { WORD_STATE = STATE_HEADER + 1 }; /* 64-bit words of the core's state */

#define PACE_NONE UINT64_MAX

/* One cache line. */
struct pace {
    _Alignas(64) atom64 version; /* of the clock's anchor; PACE_NONE: there is no pace */
    atom64 tsc, span;            /* of that anchor */
    atom64 rate;                 /* ticks of the limit for a tick of the counter, times 2^32 */
    atom64 start, empty;         /* the tick at `tsc`, and that less a full bucket, with the index's bias */
    atom64 unit, burst;          /* of the limit */
};

struct state_word {
    _Alignas(64) atom64 index; /* with its bias */
    struct pace pace;
    /* What a take of a token bucket reads fills one cache line. */
    _Alignas(64) atom64 bias;
    atom64 burst; /* token-bucket, interval; 0: ask the core */
    atom64 unit, whole, frac, time_max, full;
    atom64 until; /* time of the latest promise; 0: none */
    atom64 inverse;
    atom64 algorithm, algo, queue, age_ns, timeout_ns, initial;
    atom64 generation;
    atom64
        missed; /* twice the clock's version for which a take found no pace; plus 1 once it was asked for */
    uint64_t paced;  /* under the limiter's lock: the version of the last pace */
    uint64_t random; /* under the limiter's lock */
};

/* Can a word hold the state of this policy? */
bool weir_word_fits(const struct weir_policy *policy);
void weir_word_init(struct state_word *word);

/* ---- under the limiter's lock ---- */

/* Takes the word away; `state` is what it holds, in the form of the core. */
void weir_word_hold(struct state_word *word, int64_t *state);
/* Puts a state back, under the same figures or under those of another policy, in both cases with another
 * bias: the same index may come back with another `until`. */
void weir_word_return(struct state_word *word, const int64_t *state);
void weir_word_put(struct state_word *word, const struct weir_policy *policy, const int64_t *state);

/* Makes a pace of the anchor that the clock has at `version`, if the limit and the anchor allow that. */
void weir_word_follow(struct state_word *word, const struct clock_anchor *anchor, uint64_t version);

/* ---- lock-free; enum word_answer ---- */

int weir_word_take(struct state_word *word, int64_t now, int64_t n, struct weir_reservation *reservation,
                   struct weir_verdict *verdict);
int weir_word_peek(struct state_word *word, int64_t now, int64_t n, struct weir_verdict *verdict);
int weir_word_give(struct state_word *word, int64_t now, int64_t n);
int weir_word_charge(struct state_word *word, int64_t now, int64_t n);
int weir_word_drain(struct state_word *word, int64_t now, int64_t *drained);

/* What word_take decided at `now`: the index before, and what n units cost. */
void weir_word_describe(const struct ticks *ticks, int64_t full, int64_t now, int64_t index, int64_t cost,
                        bool allowed, struct weir_verdict *verdict);

/* Arithmetic that may meet figures of two limits: what comes of it is thrown away, but it must not trap. */
static inline int64_t word_sub(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a - (uint64_t)b);
}

static inline int64_t word_figure(const atom64 *figure)
{
    return (int64_t)atom_load(figure, memory_order_relaxed);
}

static inline __attribute__((always_inline)) struct ticks word_ticks(const struct state_word *word,
                                                                     bool both_ways)
{
    struct ticks ticks = {.unit = word_figure(&word->unit),
                          .whole = atom_load(&word->whole, memory_order_relaxed),
                          .frac = atom_load(&word->frac, memory_order_relaxed),
                          .time_max = word_figure(&word->time_max)};
    if (both_ways)
        ticks.inverse = atom_load(&word->inverse, memory_order_relaxed);
    return ticks;
}

/* The index, for a load that has to wait for v: read any earlier, its cache line would often be lost to
 * another processor again before the exchange. */
static inline const atom64 *word_index_after(const struct state_word *word, int64_t v)
{
    uintptr_t none = (uintptr_t)v;
#if defined(__x86_64__)
    __asm__("and $0, %0" : "+r"(none) : : "cc");
#else
    none = 0;
#endif
    return (const atom64 *)((const char *)&word->index + none);
}

/* A take of a token bucket, at the price of one exchange; the same decision as in core/token_bucket.c. Gives
 * WORD_ASK for anything else, n below 1 included. Always inlined, because most callers know that they want no
 * verdict, and what it costs is what a limiter costs. */
static inline __attribute__((always_inline)) int word_take(struct state_word *word, int64_t now, int64_t n,
                                                           struct weir_verdict *verdict)
{
    for (;;) {
        uint64_t bias = atom_load(&word->bias, memory_order_acquire);
        if ((uint64_t)n - 1 >= atom_load(&word->burst, memory_order_relaxed))
            return WORD_ASK;
        struct ticks ticks = word_ticks(word, verdict != NULL);
        int64_t v = ticks_at(&ticks, now), full = word_figure(&word->full);
        int64_t cost = (int64_t)((uint64_t)n * (uint64_t)ticks.unit);
        atom_fence(memory_order_acquire);
        uint64_t seen = atom_load(word_index_after(word, v), memory_order_acquire);
        while (seen != WORD_HELD && atom_load(&word->bias, memory_order_relaxed) == bias) {
            int64_t index = max64((int64_t)(seen - bias), word_sub(v, full));
            int64_t until = word_figure(&word->until);
            if (until != 0 && (verdict || until <= now))
                return WORD_ASK; /* to be told for how long, or to be the first who sees that it has come */
            bool allowed = word_sub(v, index) >= cost && until == 0;
            uint64_t after = (uint64_t)index + (uint64_t)cost + bias;
            INVARIANT(3, !allowed || until == 0);
            if (allowed && !atom_cas(&word->index, &seen, after, memory_order_acq_rel))
                continue;
            if (verdict)
                weir_word_describe(&ticks, full, now, index, cost, allowed, verdict);
            return allowed ? WORD_YES : WORD_NO;
        }
        if (seen == WORD_HELD)
            return WORD_ASK;
    }
}

/* Repeats the exchange of word_take_now after another thread was faster. Out of line, because a take that
 * wins at once should not save registers for it. */
__attribute__((noinline, unused)) static int word_take_again(struct state_word *word, uint64_t version,
                                                             uint64_t v, uint64_t least, uint64_t cost,
                                                             uint64_t seen)
{
    while (atom_load(&word->pace.version, memory_order_relaxed) == version) {
        if ((int64_t)(v - seen) < (int64_t)cost)
            return WORD_NO;
        uint64_t after = seen + cost;
        if (atom_cas(&word->index, &seen, after > least ? after : least, memory_order_acq_rel))
            return WORD_YES;
    }
    return WORD_ASK;
}

/* The same at the time of `clock`, without a verdict; WORD_ASK also if there is no pace. The index is loaded
 * after the counter, which takes longest to read: see word_index_after. Ticks with their bias are compared by
 * their difference, because an index may be beyond all time. */
static inline __attribute__((always_inline)) int
word_take_now(struct state_word *word, const struct clock *clock, uint64_t counter(void), int64_t n)
{
    uint64_t version = atom_load(&word->pace.version, memory_order_acquire);
    if (version != atom_load(&clock->version, memory_order_relaxed) ||
        (uint64_t)n - 1 >= atom_load(&word->pace.burst, memory_order_relaxed))
        return WORD_ASK;
    uint64_t tsc = atom_load(&word->pace.tsc, memory_order_relaxed);
    uint64_t span = atom_load(&word->pace.span, memory_order_relaxed);
    uint64_t rate = atom_load(&word->pace.rate, memory_order_relaxed);
    uint64_t count = counter();
    uint64_t start = atom_load(&word->pace.start, memory_order_relaxed);
    uint64_t cost = (uint64_t)n * atom_load(&word->pace.unit, memory_order_relaxed);
    uint64_t least = atom_load(&word->pace.empty, memory_order_relaxed) + cost;
    atom_fence(memory_order_acquire);
    uint64_t seen = atom_load(&word->index, memory_order_acquire);
    if (count - tsc >= span || atom_load(&word->pace.version, memory_order_relaxed) != version)
        return WORD_ASK;
    uint64_t ticks = (uint64_t)((uint32_t)count - (uint32_t)tsc) * rate >> 32; /* no span has 2^32 ticks */
    if ((int64_t)(start + ticks - seen) < (int64_t)cost)
        return WORD_NO;
    uint64_t after = seen + cost;
    INVARIANT(2, count - tsc < span);
    INVARIANT(4, (int64_t)(start + ticks - seen) >= (int64_t)cost);
    if (__builtin_expect(atom_cas(&word->index, &seen, after > least + ticks ? after : least + ticks,
                                  memory_order_acq_rel),
                         1))
        return WORD_YES;
    return word_take_again(word, version, start + ticks, least + ticks, cost, seen);
}

#endif
