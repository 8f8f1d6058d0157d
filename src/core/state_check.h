/* SPDX-License-Identifier: MIT */
/*
 * The laws of the verbs, checked on every call in builds with assertions: a verb is preceded by STATE_CHECK,
 * which keeps a copy of the state, and followed by the check of what it did. Release builds have none of it.
 */
#ifndef WEIR_CORE_STATE_CHECK_H
#define WEIR_CORE_STATE_CHECK_H

#include "base/assert.h"
#include "core/limit.h"

#if WEIR_ASSERTIONS

enum { STATE_CHECK_WORDS = 64 }; /* larger states, which are logs, are not copied and not checked */

struct state_check {
    const struct weir_policy *policy; /* NULL: there is nothing to compare with */
    int64_t now, n;                   /* the question: a time within bounds, units */
    int64_t words[STATE_CHECK_WORDS];
};

struct state_check weir_state_check_begin(const struct weir_policy *policy, const int64_t *state,
                                          int64_t now_ns, int64_t n);

/* peek, take, reserve: what was asked was answered as of the copy. `due` is -1 if it was refused. */
void weir_state_check_answer(const struct state_check *check, int64_t timeout, int64_t due, int64_t retry);
void weir_state_check_take(const struct state_check *check, const int64_t *state, int64_t timeout,
                           int64_t due);
void weir_state_check_give(const struct state_check *check, const int64_t *state);
void weir_state_check_charge(const struct state_check *check, const int64_t *state);
void weir_state_check_drain(const struct state_check *check, const int64_t *state);
void weir_state_check_restart(const struct state_check *check, const int64_t *state);
void weir_state_check_cancel(const struct state_check *check, const int64_t *state,
                             const struct weir_reservation *reservations);
void weir_state_check_change(const struct state_check *check, const struct weir_policy *next,
                             const int64_t *state);

#define STATE_CHECK(POLICY, STATE, NOW, N)                                                                   \
    struct state_check state_check = weir_state_check_begin(POLICY, STATE, NOW, N)
#define STATE_CHECK_END(VERB, ...) weir_state_check_##VERB(&state_check, __VA_ARGS__)

#else

#define STATE_CHECK(POLICY, STATE, NOW, N) ((void)0)
#define STATE_CHECK_END(VERB, ...)         ((void)0)

#endif

#endif
