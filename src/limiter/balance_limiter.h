/* SPDX-License-Identifier: MIT */
/*
 * The verbs of a limiter that has a balance (limiter/balance.h). The functions of weir.h come here before
 * they touch the word or the state, which such a limiter does not have: its word is held for good. `limiter`
 * is one with a balance, n is 1 or more, unless said otherwise.
 */
#ifndef WEIR_LIMITER_BALANCE_LIMITER_H
#define WEIR_LIMITER_BALANCE_LIMITER_H

#include "limiter/balance.h"
#include "limiter/limiter.h"

/* Where the time comes from: the caller's `now` is it; or the clock is looked at after the exchange. */
enum balance_time { BALANCE_BY_CLOCK, BALANCE_TIMED };

/* What a limiter has after a fork, in the child: it refuses everything, and nobody fills it. */
extern struct lease_balance weir_balance_orphan;

static inline bool has_balance(const struct weir_limiter *limiter)
{
    return limiter && limiter->balance;
}

/* Any n. */
bool weir_limiter_balance_take(struct weir_limiter *limiter, int64_t n, struct weir_verdict *verdict);
bool weir_limiter_balance_take_at(struct weir_limiter *limiter, int64_t now, int64_t n,
                                  struct weir_verdict *verdict);

bool weir_limiter_balance_peek(struct weir_limiter *limiter, int64_t now, int64_t n,
                               struct weir_verdict *verdict);
bool weir_limiter_balance_acquire(struct weir_limiter *limiter, int64_t now, int64_t n, int64_t timeout_ns,
                                  struct weir_stop *stop, struct weir_verdict *verdict,
                                  enum balance_time time);
bool weir_limiter_balance_reserve(struct weir_limiter *limiter, int64_t now, int64_t n,
                                  struct weir_reservation *reservation, struct weir_verdict *verdict,
                                  enum balance_time time);
bool weir_limiter_balance_cancel(struct weir_limiter *limiter, int64_t now,
                                 struct weir_reservation *reservation);
void weir_limiter_balance_stat(struct weir_limiter *limiter, int64_t now, struct weir_stat *stat);
/* What is refused to a limiter of a fleet says so. Always false. */
bool weir_limiter_balance_refuse(struct weir_error *err, const char *what_instead);

/* The balance of a limiter; NULL: it has none, or has lost it in a fork. */
struct lease_balance *weir_limiter_balance(const struct weir_limiter *limiter);

#endif
