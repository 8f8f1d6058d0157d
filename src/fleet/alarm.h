/* SPDX-License-Identifier: MIT */
/*
 * Whom to wake when: a heap whose nodes live in what they wake, so that nothing is allocated. Of one thread.
 */
#ifndef WEIR_FLEET_ALARM_H
#define WEIR_FLEET_ALARM_H

#include <stdbool.h>
#include <stdint.h>

struct alarm {
    int64_t at_ns;
    struct alarm *child, *next, *prev; /* prev: the sibling before it, or its parent */
    bool set;
};

struct alarms {
    struct alarm *first;
};

/* From now on it rings at `at_ns`, and at no other time; WEIR_FOREVER: never. */
void weir_alarm_set(struct alarms *alarms, struct alarm *alarm, int64_t at_ns);
/* The earliest that should have rung by `now`, taken out; NULL: none. */
struct alarm *weir_alarm_due(struct alarms *alarms, int64_t now);
/* When the earliest rings; WEIR_FOREVER: none is set. */
int64_t weir_alarm_next(const struct alarms *alarms);

#endif
