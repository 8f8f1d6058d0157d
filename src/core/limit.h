/* SPDX-License-Identifier: MIT */
/*
 * A limit: one spec compiled to integers, immutable. An algorithm: the functions that evolve a state
 * under a limit.
 *
 * An algorithm is a sequential machine. It answers one question, "when would n units pass?", and records
 * takes, always at times that its own answers allow. Everything that all algorithms share is written once
 * in state.c: take, peek, timeouts, promises, all or none, verdicts. A promise is a take recorded at a
 * time still to come; until then, later questions are asked as of that time, so a machine never sees its
 * order of takes disturbed.
 */
#ifndef WEIR_CORE_LIMIT_H
#define WEIR_CORE_LIMIT_H

#include "base/ticks.h"
#include "spec/spec.h"

struct limit {
    const struct algorithm *algorithm;
    size_t offset;         /* of its words in a state of the policy */
    struct weir_spec spec; /* complete: no field is left to a default, except smooth's burst */
    struct ticks ticks;
    int64_t burst, initial; /* index algorithms: units */
    int64_t full;           /* index algorithms: burst in ticks */
    union {
        struct {
            int64_t active, over; /* sizes of the active pool, and of active and burst together, ticks */
        } hybrid;
        struct {
            double unit;                         /* ticks of a fresh unit */
            double threshold, most, edge, slope; /* curve: see warmup.c */
            double cool, cooling; /* idle ticks that store one unit; units an idle tick stores */
            double dearest;       /* most ticks of a unit */
        } warmup;
    } u;
};

/* Where the algorithms keep what, from limit->offset on. Tables keep states in files: this is a format. */
enum { AT_INDEX };                        /* token-bucket, interval, leaky, smooth */
enum { AT_NEXT, AT_SAVED, WARMUP_WORDS }; /* warmup */
enum { AT_ACTIVE, AT_WAITING, AT_FILLED, AT_CARRY, AT_HISTORY, HYBRID_WORDS }; /* hybrid */
enum {
    AT_WINDOW,
    AT_PRESENT,
    AT_PREVIOUS,
    AT_EXCESS,
    WINDOW_WORDS
};                                         /* windows; EXCESS if refused=count fades */
enum { AT_HEAD, AT_LENGTH, AT_TIMES };     /* sliding-log */
enum { AT_UNITS, AT_STEPPED, STEP_WORDS }; /* step */

struct algorithm {
    /* 64-bit words of a state. */
    size_t (*words)(const struct limit *limit);
    void (*init)(const struct limit *limit, int64_t *state, int64_t now);

    /* The earliest time from `now` on at which n >= 1 units pass, if nothing else happens; WEIR_FOREVER:
     * never. Monotone: what passes at a time passes at any later one. */
    int64_t (*due)(const struct limit *limit, const int64_t *state, int64_t now, int64_t n);
    /* Takes n units at `now`, which `due` has allowed. Gives a ticket for `cancel`. */
    uint64_t (*enter)(const struct limit *limit, int64_t *state, int64_t now, int64_t n);
    /* The same for units that have waited for `due`, their first nanosecond: where ticks are finer than that,
     * they are taken at their own tick. NULL: `enter`. */
    uint64_t (*promise)(const struct limit *limit, int64_t *state, int64_t due, int64_t n);

    /* Both at once: true if n pass at `now`, which then are taken. May be NULL. */
    bool (*take)(const struct limit *limit, int64_t *state, int64_t now, int64_t n);

    /* The earliest time at which the limit accepts to make n units wait for their turn at `due`; NULL: at
     * once. */
    int64_t (*open)(const struct limit *limit, const int64_t *state, int64_t now, int64_t n, int64_t due);
    /* n units were refused, and the spec says to count that (windows, sliding-log) or to drain (step). */
    void (*refuse)(const struct limit *limit, int64_t *state, int64_t now, int64_t n);
    /* Takes back an enter that is not due yet. `promised` is the time of the latest promise: this one, or a
     * later one. Gives true if nothing was entered after it and the state is again as of the time before it,
     * false if it stays at the time of the latest promise. */
    bool (*cancel)(const struct limit *limit, int64_t *state, const struct weir_reservation *r,
                   int64_t promised);

    void (*give)(const struct limit *limit, int64_t *state, int64_t now, int64_t n);
    void (*charge)(const struct limit *limit, int64_t *state, int64_t now, int64_t n);
    void (*drain)(const struct limit *limit, int64_t *state, int64_t now);
    /* Fills `to`, a state of `next`, which has the same algorithm. */
    void (*change)(const struct limit *limit, const int64_t *from, const struct limit *next, int64_t *to,
                   int64_t now);

    int64_t (*remaining)(const struct limit *limit, const int64_t *state, int64_t now);
    /* Units owed beyond all there are, where nothing is left; 0 or less: none. NULL: never any. */
    int64_t (*debt)(const struct limit *limit, const int64_t *state, int64_t now);
    /* When the state is as if never used. */
    int64_t (*fresh)(const struct limit *limit, const int64_t *state, int64_t now);
    /* See weir_state_idle_from; NULL: from `fresh` on, whatever time it is before that. */
    int64_t (*idle)(const struct limit *limit, const int64_t *state);
    /* See weir_state_valid; NULL: there is nothing to be wrong. */
    bool (*valid)(const struct limit *limit, const int64_t *state);
    /* The law: most units, one by one, in any stretch of `span_ns`. */
    int64_t (*most)(const struct limit *limit, int64_t span_ns);

    /* hybrid alone: EngineBlock's restart, which gives what it discards, and how far behind the callers are.
     */
    int64_t (*restart)(const struct limit *limit, int64_t *state, int64_t now);
    int64_t (*behind)(const struct limit *limit, const int64_t *state, int64_t now);
};

extern const struct algorithm weir_token_bucket, weir_leaky_bucket, weir_smooth, weir_warmup, weir_hybrid,
    weir_window, weir_sliding_log, weir_step, weir_unlimited, weir_blocked;

/* Units, begun ones counted whole, that so many ticks are worth. */
static inline int64_t limit_units_up(const struct limit *limit, int64_t ticks)
{
    return div_up(max64(ticks, 0), limit->ticks.unit);
}

/* For words from outside. */
static inline bool is_value_within(int64_t x, int64_t low, int64_t high)
{
    return x >= low && x <= high;
}

/* Completes, checks and compiles `spec`. */
bool weir_limit_init(struct limit *limit, const struct weir_spec *spec, struct spec_fault *fault);

/* The limits of a policy; their states lie one behind the other. */
struct weir_policy {
    size_t count, words; /* limits; 64-bit words of a state */
    int64_t timeout_ns;  /* the shortest timeout= of the limits; 0 if none has one */
    struct limit *limits;
};

#endif
