/* SPDX-License-Identifier: MIT */
/*
 * Smyte's buckets, for RL.*: each key with each triple of limits is a bucket of its own, which is forgotten
 * when it has been left alone long enough to be full. The arithmetic is pure (weir_step_*); times are
 * milliseconds of whoever asks.
 */
#ifndef WEIR_LEDGER_SMYTE_H
#define WEIR_LEDGER_SMYTE_H

#include "base/admission_hook.h"
#include "ledger/records.h"

struct smyte_limit {
    int64_t max, refill, refill_ms; /* all at least 1 */
};

struct smyte_bucket {
    int64_t amount, last_ms;
    int64_t session_ms; /* when the session began; -1: none yet */
};

enum smyte_verb { SMYTE_GET, SMYTE_REDUCE, SMYTE_SESSIONIZE };

struct smyte_request {
    enum smyte_verb verb;
    struct smyte_limit limit;
    int64_t take, at_ms;
    bool strict;
    const struct admission_hook *hook; /* who asks, if he may not have as many buckets as he likes; or NULL */
};

struct smyte_answer {
    int64_t tokens;     /* before the take */
    int64_t session_ms; /* SESSIONIZE */
    bool full;          /* there was no room for the key: tokens is 0 */
};

/* Pure: what becomes of a bucket. */
struct smyte_bucket weir_smyte_bucket_fresh(const struct smyte_limit *limit, int64_t at_ms);
struct smyte_answer weir_smyte_bucket_do(struct smyte_bucket *bucket, const struct smyte_request *ask);
/* How long an empty bucket needs to be full; INT64_MAX if longer than that. */
int64_t weir_smyte_bucket_fill_ms(const struct smyte_limit *limit);

struct records *weir_smyte_new(size_t keys, struct weir_error *err); /* weir_records_free frees them */
struct smyte_answer weir_smyte_do(struct records *buckets, const void *key, size_t len,
                                  const struct smyte_request *ask, int64_t now_ns);
/* Forgets that key under that limit. false: there was none. */
bool weir_smyte_forget(struct records *buckets, const void *key, size_t len, const struct smyte_limit *limit,
                       int64_t now_ns);
/* One that comes from elsewhere. Who has spent on both sides has nothing left: how much there was of it, only
 * a limit tells. false: no room, or it is no bucket. */
bool weir_smyte_bring(struct records *buckets, const struct record_id *id, const struct smyte_bucket *bucket,
                      int64_t left_ns, int64_t now_ns);

#endif
