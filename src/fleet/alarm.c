/* SPDX-License-Identifier: MIT */
/*
 * A pairing heap: to set is a comparison, to take one out pairs its children two by two.
 */
#include "fleet/alarm.h"

#include <stddef.h>

#include "weir.h"

/* Makes the later of two heaps the first child of the other. */
static struct alarm *meld(struct alarm *one, struct alarm *other)
{
    if (!one || !other)
        return one ? one : other;
    if (other->at_ns < one->at_ns) {
        struct alarm *later = one;
        one = other;
        other = later;
    }
    other->next = one->child;
    other->prev = one;
    if (one->child)
        one->child->prev = other;
    one->child = other;
    return one;
}

/* A list of siblings becomes one heap: pairs from the left, then all of them from the right. */
static struct alarm *join(struct alarm *list)
{
    struct alarm *pairs = NULL, *all = NULL;
    while (list) {
        struct alarm *one = list, *other = one->next;
        list = other ? other->next : NULL;
        one->next = one->prev = NULL;
        if (other)
            other->next = other->prev = NULL;
        one = meld(one, other);
        one->next = pairs;
        pairs = one;
    }
    while (pairs) {
        struct alarm *next = pairs->next;
        pairs->next = NULL;
        all = meld(all, pairs);
        pairs = next;
    }
    if (all)
        all->prev = NULL;
    return all;
}

static void take_out(struct alarms *alarms, struct alarm *alarm)
{
    struct alarm *below = join(alarm->child);
    if (alarms->first == alarm) {
        alarms->first = below;
    } else {
        *(alarm->prev->child == alarm ? &alarm->prev->child : &alarm->prev->next) = alarm->next;
        if (alarm->next)
            alarm->next->prev = alarm->prev;
        alarms->first = meld(alarms->first, below);
    }
    *alarm = (struct alarm){.at_ns = WEIR_FOREVER};
}

void weir_alarm_set(struct alarms *alarms, struct alarm *alarm, int64_t at_ns)
{
    if (alarm->set)
        take_out(alarms, alarm);
    alarm->at_ns = at_ns;
    alarm->set = at_ns != WEIR_FOREVER;
    if (alarm->set)
        alarms->first = meld(alarms->first, alarm);
}

struct alarm *weir_alarm_due(struct alarms *alarms, int64_t now)
{
    struct alarm *first = alarms->first;
    if (!first || first->at_ns > now)
        return NULL;
    take_out(alarms, first);
    return first;
}

int64_t weir_alarm_next(const struct alarms *alarms)
{
    return alarms->first ? alarms->first->at_ns : WEIR_FOREVER;
}
