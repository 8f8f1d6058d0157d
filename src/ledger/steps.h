/* SPDX-License-Identifier: MIT */
/*
 * Smyte's buckets, for RL.*: each key with each triple of limits is a bucket of its own, which is forgotten
 * when it has been left alone long enough to be full. The arithmetic is pure (weir_step_*); times are
 * milliseconds of whoever asks.
 */
#ifndef WEIR_LEDGER_STEPS_H
#define WEIR_LEDGER_STEPS_H

#include "base/newcomer.h"
#include "ledger/records.h"

struct step_limit {
    int64_t max, refill, refill_ms; /* all at least 1 */
};

struct step_bucket {
    int64_t amount, last_ms;
    int64_t session_ms; /* when the session began; -1: none yet */
};

enum step_verb { STEP_GET, STEP_REDUCE, STEP_SESSIONIZE };

struct step_ask {
    enum step_verb verb;
    struct step_limit limit;
    int64_t take, at_ms;
    bool strict;
    const struct newcomer *newcomer; /* who asks, if he may not have as many buckets as he likes; or NULL */
};

struct step_answer {
    int64_t tokens;     /* before the take */
    int64_t session_ms; /* SESSIONIZE */
    bool full;          /* there was no room for the key: tokens is 0 */
};

/* Pure: what becomes of a bucket. */
struct step_bucket weir_step_fresh(const struct step_limit *limit, int64_t at_ms);
struct step_answer weir_step_do(struct step_bucket *bucket, const struct step_ask *ask);
/* How long an empty bucket needs to be full; INT64_MAX if longer than that. */
int64_t weir_step_fill_ms(const struct step_limit *limit);

struct steps;
struct steps *weir_steps_new(size_t keys, struct weir_error *err);
void weir_steps_free(struct steps *steps);
struct step_answer weir_steps_do(struct steps *steps, const void *key, size_t len, const struct step_ask *ask,
                                 int64_t now_ns);
/* Forgets that key under that limit. false: there was none. */
bool weir_steps_forget(struct steps *steps, const void *key, size_t len, const struct step_limit *limit,
                       int64_t now_ns);
/* One that comes from elsewhere. Who has spent on both sides has nothing left: how much there was of it, only
 * a limit tells. false: no room, or it is no bucket. */
bool weir_steps_bring(struct steps *steps, const struct record_id *id, const struct step_bucket *bucket,
                      int64_t left_ns, int64_t now_ns);
void weir_steps_stat(struct steps *steps, struct records_stat *stat);
void weir_steps_sweep(struct steps *steps, size_t count, int64_t now_ns);

#endif
