/* SPDX-License-Identifier: MIT */
/*
 * weir.h: may n units pass now?
 *
 *   policy    one limit, or several that must all agree, compiled from text: "100/s burst=20, 10k/h"
 *   state     what one user of a policy has spent: plain memory of yours, no pointers inside
 *   verdict   the answer: allowed or refused, what is left, when to come back
 *
 * Reading a limit: R/P burst=B lets at most B units pass at one instant and R per P in the long run;
 * in any stretch of time t never more than B + R*t/P. Without burst=, B is R.
 *
 * Every question has one shape: it returns true only when the units are yours. Refused, invalid,
 * NULL: all false, and nothing was taken. Pass a verdict to learn why and when, or NULL if the answer
 * is enough.
 *
 * Everything here is pure: no clock is read, no memory is taken except by _new and _from, nothing is
 * shared. Time is an argument in nanoseconds: of CLOCK_MONOTONIC or CLOCK_BOOTTIME in a program, of a
 * virtual clock in a test. It counts from 0 to WEIR_TIME_MAX (146 years; for limits above 1 unit a
 * nanosecond that much less) and is clamped to that. A clock that steps back mints nothing; most limits then
 * wait until it has caught up. A policy never changes and may be shared by any number of threads; a state
 * belongs to one thread at a time.
 */
#ifndef WEIR_H
#define WEIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WEIR_VERSION_MAJOR 0
#define WEIR_VERSION_MINOR 1
#define WEIR_VERSION_PATCH 0
#define WEIR_VERSION       "0.1.0"

#if defined(__GNUC__)
#define WEIR_API __attribute__((visibility("default")))
#else
#define WEIR_API
#endif

#define WEIR_MS         INT64_C(1000000)
#define WEIR_SEC        INT64_C(1000000000)
#define WEIR_FOREVER    INT64_MAX
#define WEIR_TIME_MAX   (INT64_MAX / 2)
#define WEIR_LIMITS_MAX 16 /* limits in one policy */
#define WEIR_NAME_MAX   63 /* bytes of a name= */

enum weir_reason {
    WEIR_OK,       /* allowed */
    WEIR_LATER,    /* refused now; retry_after_ns tells when the same question would pass */
    WEIR_NEVER,    /* refused, and no waiting helps: n is more than the limit can ever hold */
    WEIR_FULL,     /* the queue is full; retry_after_ns tells when it has room */
    WEIR_LOST,     /* the coordinator is away (fleet) */
    WEIR_CANCELED, /* the wait was cancelled */
    WEIR_INVALID   /* the question made no sense: n below 1, or a NULL */
};

/* The answer: 64 bytes, integers only, the same in every language. */
struct weir_verdict {
    int32_t allowed;        /* 1 or 0 */
    int32_t reason;         /* enum weir_reason */
    int64_t remaining;      /* units that would still pass now (smooth, warmup: units saved, if none waits) */
    int64_t retry_after_ns; /* 0 if allowed, WEIR_FOREVER if waiting cannot help */
    int64_t reset_after_ns; /* until waiting gains nothing more: full, empty, or cold */
    int64_t wait_ns;        /* acquire: time slept. reserve: time until due */
    int64_t behind_ns;      /* how far behind schedule the callers are (algo=hybrid) */
    int32_t limit;          /* which of several limits decided, from 0 */
    int32_t reserved[3];    /* 0 */
};

/* Filled by every function that takes text. `text` is one finished line, ready to be printed:
 * "5/m brust=10: column 5: unknown option 'brust'; did you mean burst?" */
struct weir_error {
    int32_t code;   /* 0: no error, else an errno value */
    int32_t column; /* where in the text, from 1; 0 if nowhere in particular */
    char text[248];
};

WEIR_API const char *weir_version(void);

/* ---- spec: a limit as a person writes it ------------------------------------------------------ */

enum weir_algo {
    WEIR_TOKEN_BUCKET,   /* lazily, gradually refilled; the default */
    WEIR_INTERVAL,       /* at least period/count between two */
    WEIR_LEAKY_BUCKET,   /* a FIFO that drains evenly */
    WEIR_SMOOTH,         /* the next caller pays; a large n starts at once */
    WEIR_WARMUP,         /* smooth, but saved units cost more (or less) than fresh ones */
    WEIR_HYBRID,         /* three pools; catches up after a stall at `ratio` times the rate */
    WEIR_FIXED_WINDOW,   /* a counter that starts anew every period */
    WEIR_SLIDING_WINDOW, /* two counters, the previous one weighted */
    WEIR_SLIDING_LOG,    /* never more than count in any period, exactly */
    WEIR_STEP,           /* count units added every period, in steps */
    WEIR_UNLIMITED,
    WEIR_BLOCKED
};

enum weir_shape { WEIR_SHAPE_ABOVE, WEIR_SHAPE_BELOW, WEIR_SHAPE_OWN };
enum weir_refused { WEIR_REFUSED_IGNORE, WEIR_REFUSED_COUNT, WEIR_REFUSED_DRAIN };
enum weir_fill { WEIR_FILL_CALLERS, WEIR_FILL_THREAD };
enum weir_verb { WEIR_VERB_NONE, WEIR_VERB_START, WEIR_VERB_CONFIGURE, WEIR_VERB_RESTART };

/* How long, in nanoseconds, it takes to spend `n` of `stored` saved units (n <= stored). Must be
 * additive: f(s, a+b) = f(s, a) + f(s-a, b). What is not a number, or negative, costs as fresh. */
typedef double weir_stored_wait(void *arg, double stored, double n);

/* What the text says. Zero means "the default" unless noted, so { .count = 100, .period_ns = WEIR_SEC } is
 * 100/s. */
struct weir_spec {
    int32_t algo;             /* enum weir_algo */
    int32_t shape;            /* warmup: enum weir_shape */
    int32_t refused;          /* windows, sliding-log: IGNORE, COUNT; step: IGNORE, DRAIN */
    int32_t fill;             /* hybrid: enum weir_fill */
    int32_t strict;           /* step: 1: a take that leaves nothing restarts the period */
    int32_t verb;             /* EngineBlock's order to the limiter; not part of the limit */
    int32_t initial_given;    /* 1: `initial` counts even if 0 */
    int32_t reserved;         /* 0 */
    int64_t count, period_ns; /* count units per period; both 1 or more */
    int64_t burst;            /* most units at one instant (default: count; smooth: 1 s of rate) */
    int64_t initial;          /* units at the start (default: burst; smooth: 0) */
    int64_t timeout_ns;       /* the wait that acquire and reserve accept if they are not told */
    int64_t warmup_ns;        /* warmup: time from cold to warm */
    int64_t cold_ppm;         /* warmup: cold factor in millionths (default: 3 000 000) */
    int64_t ratio_ppm;        /* hybrid: burst ratio in millionths (default: 1 100 000) */
    int64_t pool_ns;          /* hybrid: size of the active pool (default: one op, at least 1 ms) */
    int64_t queue;            /* leaky-bucket: most units waiting (default: count) */
    int64_t age_ns;           /* leaky-bucket: longest wait in the queue (default: no bound) */
    weir_stored_wait *own;    /* warmup with WEIR_SHAPE_OWN: not expressible in text */
    void *own_arg;
    char name[WEIR_NAME_MAX + 1]; /* shown in verdicts and headers; "" if none; no two alike in a policy */
    int64_t spare[6];             /* 0 */
};

/* Reads a comma list of limits into `specs`; gives their number, 0 on error. */
WEIR_API size_t weir_spec_parse(const char *text, struct weir_spec *specs, size_t capacity,
                                struct weir_error *err);

/* Reads EngineBlock's "rate[,ratio[,verb]]", also with "cyclerate=" in front; here a bare number is a
 * rate per second. */
WEIR_API bool weir_spec_from_engineblock(const char *text, struct weir_spec *spec, struct weir_error *err);

/* Writes the canonical text, as snprintf does: gives the length it needs, writes at most size - 1
 * bytes and a NUL. 0 if a spec is invalid. weir_spec_parse of it gives the same specs back, without verbs. */
WEIR_API size_t weir_spec_format(const struct weir_spec *specs, size_t count, char *text, size_t size);

/* ---- policy: limits made ready for arithmetic ------------------------------------------------- */

struct weir_policy; /* immutable; any thread */

WEIR_API struct weir_policy *weir_policy_new(const char *limits, struct weir_error *err); /* or NULL */
WEIR_API struct weir_policy *weir_policy_from(const struct weir_spec *specs, size_t count,
                                              struct weir_error *err);
WEIR_API void weir_policy_free(struct weir_policy *policy);
WEIR_API size_t weir_policy_count(const struct weir_policy *policy); /* how many limits */
WEIR_API const struct weir_spec *weir_policy_spec(const struct weir_policy *policy, size_t index);

/* The law as a number: the most units, taken one by one, that limit `index` lets pass in any stretch
 * of `span_ns` (both ends included; sliding-log: without the last). WEIR_FOREVER if there is no bound. */
WEIR_API int64_t weir_policy_most(const struct weir_policy *policy, size_t index, int64_t span_ns);

/* ---- state: what evolves ---------------------------------------------------------------------- */

/* A state is weir_policy_state_size bytes, a multiple of 8 and aligned to 8. */
WEIR_API size_t weir_policy_state_size(const struct weir_policy *policy);
WEIR_API void weir_state_init(const struct weir_policy *policy, void *state, int64_t now_ns);

/* Now or not at all. */
WEIR_API bool weir_state_take(const struct weir_policy *policy, void *state, int64_t now_ns, int64_t n,
                              struct weir_verdict *verdict);
/* Take without taking: the same answer, nothing changes. */
WEIR_API bool weir_state_peek(const struct weir_policy *policy, const void *state, int64_t now_ns, int64_t n,
                              struct weir_verdict *verdict);

/* Units that are taken, may be due later, and may still be handed back. There is one for each limit of the
 * policy; keep them where they are, a copy could be handed back twice. */
struct weir_reservation {
    int64_t n, wait_ns, due_ns;
    int64_t before_ns, generation; /* private: the promise before it, and which can be recalled */
    uint64_t ticket;               /* private: where the limit stood after it */
};

/* Promises n units within `timeout_ns`, or changes nothing; below 0 the shortest timeout= of the limits
 * counts (none: 0). `reservations` has an element for each limit of the policy (weir_policy_count), or is
 * NULL if the units will not be handed back; all have the same due time. In the verdict, retry_after_ns
 * says when the same question, with the same timeout, would pass. */
WEIR_API bool weir_state_reserve(const struct weir_policy *policy, void *state, int64_t now_ns, int64_t n,
                                 int64_t timeout_ns, struct weir_reservation *reservations,
                                 struct weir_verdict *verdict);
/* Hands a reservation back before it is due. true: the promise is off. How much comes back is what the law
 * leaves: all of it if nothing was promised behind it, else less, or nothing. fixed-window, sliding-window,
 * step and hybrid have moved on to the promised time and stay there; sliding-log may count a little more.
 * false: nothing changes, because it is too late (what is due at once is not handed back but given), or
 * handed back already, or made before a reset, a restart or a live change. */
WEIR_API bool weir_state_cancel(const struct weir_policy *policy, void *state, int64_t now_ns,
                                struct weir_reservation *reservations);

/* Hands unused units back: never above full, and not at all while a promise is outstanding. */
WEIR_API void weir_state_give(const struct weir_policy *policy, void *state, int64_t now_ns, int64_t n);
/* It has already happened: count it, even into debt. */
WEIR_API void weir_state_charge(const struct weir_policy *policy, void *state, int64_t now_ns, int64_t n);
/* Takes all that is there; gives how many units that were (the least of the limits). Forgives no debt. */
WEIR_API int64_t weir_state_drain(const struct weir_policy *policy, void *state, int64_t now_ns);
/* As if never used. Promises made before stand, and come on top. */
WEIR_API void weir_state_reset(const struct weir_policy *policy, void *state, int64_t now_ns);

/* Live change: fills `to` (a state of the policy `next`) from `from`. Spent units stay spent, saved
 * units stay saved up to the new burst, debts and promises are kept (smooth and warmup keep the time of the
 * next start, hybrid the time in its pools, sliding-log its times). Limits are matched by name, then by
 * algorithm and period, then by algorithm; one without a match starts empty, and not before those that have
 * no successor would have let a unit pass. `from` and `to` must not overlap. */
WEIR_API void weir_state_change(const struct weir_policy *policy, const void *from,
                                const struct weir_policy *next, void *to, int64_t now_ns);

/* EngineBlock's restart (algo=hybrid): empties the pools, but forgives no debt; gives the nanoseconds behind
 * schedule that were discarded; they stay in weir_state_behind. Other algorithms: 0, nothing changes. */
WEIR_API int64_t weir_state_restart(const struct weir_policy *policy, void *state, int64_t now_ns);
/* All time the callers were behind schedule, across restarts and changes (algo=hybrid, else 0). */
WEIR_API int64_t weir_state_behind(const struct weir_policy *policy, const void *state, int64_t now_ns);

#ifdef __cplusplus
}
#endif

#endif
