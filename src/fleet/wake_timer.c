/* SPDX-License-Identifier: MIT */
/*
 * A pairing heap: to set is a comparison, to take one out pairs its children two by two.
 */
#include "fleet/wake_timer.h"

#include <stddef.h>

#include "weir.h"

/* Makes the later of two heaps the first child of the other. */
static struct wake_timer *meld_timers(struct wake_timer *one, struct wake_timer *other)
{
    if (!one || !other)
        return one ? one : other;
    if (other->at_ns < one->at_ns) {
        struct wake_timer *later = one;
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
static struct wake_timer *join_timers(struct wake_timer *list)
{
    struct wake_timer *pairs = NULL, *all = NULL;
    while (list) {
        struct wake_timer *one = list, *other = one->next;
        list = other ? other->next : NULL;
        one->next = one->prev = NULL;
        if (other)
            other->next = other->prev = NULL;
        one = meld_timers(one, other);
        one->next = pairs;
        pairs = one;
    }
    while (pairs) {
        struct wake_timer *next = pairs->next;
        pairs->next = NULL;
        all = meld_timers(all, pairs);
        pairs = next;
    }
    if (all)
        all->prev = NULL;
    return all;
}

static void remove_timer(struct wake_timer_heap *timers, struct wake_timer *timer)
{
    struct wake_timer *below = join_timers(timer->child);
    if (timers->first == timer) {
        timers->first = below;
    } else {
        *(timer->prev->child == timer ? &timer->prev->child : &timer->prev->next) = timer->next;
        if (timer->next)
            timer->next->prev = timer->prev;
        timers->first = meld_timers(timers->first, below);
    }
    *timer = (struct wake_timer){.at_ns = WEIR_FOREVER};
}

void weir_wake_timer_set(struct wake_timer_heap *timers, struct wake_timer *timer, int64_t at_ns)
{
    if (timer->set)
        remove_timer(timers, timer);
    timer->at_ns = at_ns;
    timer->set = at_ns != WEIR_FOREVER;
    if (timer->set)
        timers->first = meld_timers(timers->first, timer);
}

struct wake_timer *weir_wake_timer_due(struct wake_timer_heap *timers, int64_t now)
{
    struct wake_timer *first = timers->first;
    if (!first || first->at_ns > now)
        return NULL;
    remove_timer(timers, first);
    return first;
}

int64_t weir_wake_timer_next(const struct wake_timer_heap *timers)
{
    return timers->first ? timers->first->at_ns : WEIR_FOREVER;
}
