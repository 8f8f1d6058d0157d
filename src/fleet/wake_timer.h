/* SPDX-License-Identifier: MIT */
/*
 * Whom to wake when: a heap whose nodes live in what they wake, so that nothing is allocated. Of one thread.
 */
#ifndef WEIR_FLEET_WAKE_TIMER_H
#define WEIR_FLEET_WAKE_TIMER_H

#include <stdbool.h>
#include <stdint.h>

struct wake_timer {
    int64_t at_ns;
    struct wake_timer *child, *next, *prev; /* prev: the sibling before it, or its parent */
    bool set;
};

struct wake_timer_heap {
    struct wake_timer *first;
};

/* From now on it rings at `at_ns`, and at no other time; WEIR_FOREVER: never. */
void weir_wake_timer_set(struct wake_timer_heap *timers, struct wake_timer *timer, int64_t at_ns);
/* The earliest that should have rung by `now`, taken out; NULL: none. */
struct wake_timer *weir_wake_timer_due(struct wake_timer_heap *timers, int64_t now);
/* When the earliest rings; WEIR_FOREVER: none is set. */
int64_t weir_wake_timer_next(const struct wake_timer_heap *timers);

#endif
