/* SPDX-License-Identifier: MIT */
/*
 * The take of a token-bucket as the library has it (limiter/word.h), compiled once more around an exchange
 * that counts how often it fails. These are for counting, not for timing; the timed ones are the library's
 * own.
 */
#include "os/atomic.h"

#include "bench/bare.h"

static inline bool counting_cas(atom64 *a, uint64_t *seen, uint64_t value, memory_order order)
{
    bool done = atom_cas(a, seen, value, order);
    bare_failures += !done;
    return done;
}

#define atom_cas counting_cas
#include "limiter/limiter.h"
#include "os/clock.h"

bool counted_take_at(struct weir_limiter *limiter, int64_t now_ns, int64_t n, struct weir_verdict *verdict)
{
    return word_take(&limiter->word, now_ns, n, verdict) == WORD_YES;
}

bool counted_take(struct weir_limiter *limiter, int64_t n, struct weir_verdict *verdict)
{
    int answer = word_take_now(&limiter->word, &weir_clock, clock_counter, n);
    return answer == WORD_ASK ? weir_limiter_take(limiter, n, verdict) : answer == WORD_YES;
}
