/* SPDX-License-Identifier: MIT */
/*
 * What many threads were allowed, put together, and held against the laws. Nobody knows the order in which
 * their questions were decided, nor what time a limit took from clocks that disagree: so every event has a
 * stretch of time in which it counts, and a range of epochs (a live change or a reset begins one) to which it
 * may belong.
 *
 * A law is broken if in some interval there is more than it allows, counting what was admitted within it for
 * certain, and taking off what may have been given back in it.
 */
#ifndef WEIR_TESTS_THREADS_REPLAY_H
#define WEIR_TESTS_THREADS_REPLAY_H

#include "core/limit.h"

struct replay_event {
    int64_t low, high; /* when it counts, both included */
    int64_t n;         /* below 0: given back */
    uint32_t first, last;
    const char *what; /* for whoever reads what went wrong */
};

struct replay_log {
    struct replay_event *events;
    size_t count, room;
};

struct replay_epoch {
    struct weir_policy *policy;
    int64_t from, until; /* the stretch in which it may have been in force */
    bool anew;           /* begun by a reset: nothing is carried over */
    int64_t
        behind_ns; /* by so much the clock of the change may have been behind that of others: the word takes
                      what they have spent ahead of it for a debt of units, and pays it at the new rate */
};

void replay_add(struct replay_log *log, struct replay_event event);
void replay_append(struct replay_log *log, const struct replay_log *other);
void replay_free(struct replay_log *log);

/* Does every limit keep its law? If not, prints which does not, and the events in question. Extends epochs to
 * what was promised in them. */
bool replay_holds(const struct replay_log *log, struct replay_epoch *epochs, size_t count);

#endif
