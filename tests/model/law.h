/* SPDX-License-Identifier: MIT */
/*
 * The laws, checked on nothing but the list of what was admitted and given back: each algorithm's inequality
 * from the top of its file, over all intervals. Rates and bursts come from the spec.
 *
 * Times are those of the limit's own clock: one that steps back stands still until it has caught up.
 */
#ifndef WEIR_TESTS_MODEL_LAW_H
#define WEIR_TESTS_MODEL_LAW_H

#include "model/model.h"

#define LAW_PARTS 32

struct law_event {
    int64_t time[MODEL_LIMITS];  /* for each limit; reserved units: their due time */
    int64_t local[MODEL_LIMITS]; /* the same on a clock that began with its part */
    int64_t n;
    bool give;
    bool gone; /* a reservation that was handed back */
    size_t part;
};

/* A live change begins a new part. */
struct law_part {
    const struct weir_policy *policy;
    int64_t from[MODEL_LIMITS];
    int64_t until[MODEL_LIMITS];  /* up to here, what was promised before the change follows the old rate */
    bool kept[MODEL_LIMITS];      /* limit i goes on from the same one of the part before */
    bool counts_on[MODEL_LIMITS]; /* and so do its windows */
    bool stays[MODEL_LIMITS];     /* changed while the clock was back: its window is that of a later time */
};

struct law_log {
    struct law_event events[MODEL_EVENTS];
    size_t count;
    struct law_part parts[LAW_PARTS];
    size_t part_count;
    int64_t clock[MODEL_LIMITS], local[MODEL_LIMITS]; /* the latest time that a limit has seen */
    int64_t latest;                                   /* the last due time of all */
};

void law_start(struct law_log *log, const struct weir_policy *policy, int64_t now);
/* Something changed the state of a limit at this time. */
void law_touch(struct law_log *log, size_t limit, int64_t now);
/* Gives a number for law_cancel. */
size_t law_admit(struct law_log *log, int64_t now, int64_t due, int64_t n);
void law_cancel(struct law_log *log, size_t event);
void law_give(struct law_log *log, int64_t now, int64_t n);
/* `owed`: when the debts of the old policy were paid. */
void law_change(struct law_log *log, const struct weir_policy *next, int64_t now, int64_t owed,
                const bool *kept);

struct law_fault {
    char text[300];
};

bool law_holds(const struct law_log *log, size_t limit, struct law_fault *fault);

/* The right side of the law of the algorithms that are buckets, in 1/LAW_ONE of a unit, rounded up: what may
 * come at once, and what a stretch of time adds. And: is the last take of an interval paid for after it? */
#define LAW_SCALE 32
#define LAW_ONE   ((weir_i128)1 << LAW_SCALE)
weir_i128 law_capacity(const struct limit *limit);
weir_i128 law_earned(const struct limit *limit, int64_t span_ns);
bool law_pays_later(const struct limit *limit);

/* The same for weir_policy_most: no stretch of the log has more single units than it says. */
bool law_most_holds(const struct law_log *log, size_t limit, struct law_fault *fault);

#endif
