/* SPDX-License-Identifier: MIT */
/*
 * Who wants to hear of events. Telling takes a reference to the list as it is and walks it under no lock, so
 * a listener may add and remove listeners, itself too, and cause further events. To add is to copy the list;
 * to remove is to strike an entry out, which needs no memory and so cannot fail. Any thread, except for
 * weir_listeners_end.
 */
#ifndef WEIR_LIMITER_LISTENERS_H
#define WEIR_LIMITER_LISTENERS_H

#include <stdatomic.h>
#include <stdbool.h>

#include "os/lock.h"
#include "weir.h"

struct listener_list;

/* All zero: nobody listens. */
struct listeners {
    struct lock lock;                     /* between reading `list` and taking a reference to it */
    _Atomic(struct listener_list *) list; /* NULL: nobody; written under the lock */
};

/* Does anybody listen? All that an event costs if not. */
static inline bool listeners_any(const struct listeners *listeners)
{
    return atomic_load_explicit(&listeners->list, memory_order_relaxed) != NULL;
}

/* false: out of memory, `tell` is NULL, or the pair is there already. */
bool weir_listeners_add(struct listeners *listeners, weir_listener *tell, void *arg);
/* false: it is not there. Another thread that has just looked it up may still tell it once. */
bool weir_listeners_remove(struct listeners *listeners, weir_listener *tell, void *arg);

/* In the order in which they were added. Does not touch `listeners` once the first of them runs. */
void weir_listeners_notify(struct listeners *listeners, const struct weir_event *event);

/* Nobody may add, remove or begin to tell any more. */
void weir_listeners_end(struct listeners *listeners);

#endif
