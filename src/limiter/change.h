/* SPDX-License-Identifier: MIT */
/* Live change of a limiter: another policy for the same state. All of it under the lock. */
#ifndef WEIR_LIMITER_CHANGE_H
#define WEIR_LIMITER_CHANGE_H

#include "limiter/limiter.h"

/* Takes the promise of a waiter back as if it had never been made, and lets those behind it move up. false:
 * that cannot be done, recall it. */
bool weir_limiter_withdraw(struct weir_limiter *limiter, struct limiter_waiter *waiter, int64_t now);
/* Puts `next` in force (and takes it over), at `now`. Waiters are told, handles lose their shares. false: out
 * of memory.
 * `out` is not NULL if only the burst is another one: then handles and reservations stay valid, and in the
 * same step up to *out units are taken out before, which then is how many; or, below 0, -*out units are given
 * back after. In two steps the limiter would fill up in between. */
bool weir_limiter_install(struct weir_limiter *limiter, struct weir_policy *next, int64_t now, int64_t *out);
/* Nothing passes until the next weir_limiter_install. false: out of memory. */
bool weir_limiter_pause(struct weir_limiter *limiter);
/* Would not even one unit pass, ever? Then the limit is a pause, and who waits for ever waits for its end. */
bool weir_limiter_paused(struct weir_limiter *limiter, int64_t now);
/* Something may pass again: the waiters without a promise get theirs. */
void weir_limiter_revive(struct weir_limiter *limiter, int64_t now);
void weir_limiter_wake(struct weir_limiter *limiter); /* every waiter looks around */

#endif
