/* SPDX-License-Identifier: MIT */
/*
 * A bucket gains `refill` tokens every `refill_ms`, at fixed times: those of its first use plus whole
 * periods, also while it is full. Law, whatever times callers name: a bucket's `last_ms` never moves back, so
 * a time that was named before mints nothing a second time.
 *
 * Kept from Smyte: a take of more than there is leaves nothing (it drains), and the reply is what there was
 * before. With `strict` whoever leaves nothing begins a new period, so that tokens come to those who keep
 * quiet for one. A session is what belongs together: it begins with a take that finds enough, and lasts while
 * the bucket is exhausted; sessions are strict.
 *
 * A bucket is forgotten when as much time has passed on the clock of this machine, since it was last written,
 * as fills it from empty. A fresh one is full, but its periods begin anew, so that it is no better than the
 * one that was forgotten.
 */
#include "ledger/smyte.h"

#include "base/sat.h"
#include "ledger/persist.h"

/* ---- arithmetic ---- */

struct smyte_bucket weir_smyte_bucket_fresh(const struct smyte_limit *limit, int64_t at_ms)
{
    return (struct smyte_bucket){limit->max, at_ms, -1};
}

static void refill_bucket(struct smyte_bucket *bucket, const struct smyte_limit *limit, int64_t at_ms)
{
    int64_t periods = max64(sat_sub(at_ms, bucket->last_ms), 0) / limit->refill_ms;
    bucket->amount = min64(limit->max, sat_add(bucket->amount, sat_mul(periods, limit->refill)));
    bucket->last_ms += periods * limit->refill_ms; /* at_ms at the most */
}

/* Leaves the bucket as it was: needs no record, and makes none live longer. */
static bool is_read_only(const struct smyte_request *ask)
{
    return ask->verb == SMYTE_GET || ask->take < 1;
}

struct smyte_answer weir_smyte_bucket_do(struct smyte_bucket *bucket, const struct smyte_request *ask)
{
    refill_bucket(bucket, &ask->limit, ask->at_ms);
    struct smyte_answer answer = {.tokens = bucket->amount};
    bool session = ask->verb == SMYTE_SESSIONIZE;
    if (session && ask->take > 0 && (bucket->amount >= ask->take || bucket->session_ms < 0))
        bucket->session_ms = ask->at_ms;
    if (session)
        answer.session_ms = bucket->session_ms < 0 ? ask->at_ms : bucket->session_ms;
    if (is_read_only(ask))
        return answer;
    bucket->amount = max64(sat_sub(bucket->amount, ask->take), 0);
    if (bucket->amount == 0 && (ask->strict || session))
        bucket->last_ms = max64(bucket->last_ms, ask->at_ms);
    return answer;
}

int64_t weir_smyte_bucket_fill_ms(const struct smyte_limit *limit)
{
    return sat_mul(div_up(limit->max, limit->refill), limit->refill_ms);
}

/* ---- buckets ---- */

static bool is_sane_bucket(const void *bytes)
{
    const struct smyte_bucket *bucket = bytes;
    return bucket->amount >= 0 && bucket->last_ms >= 0 && bucket->session_ms >= -1;
}

struct records *weir_smyte_new(size_t keys, struct weir_error *err)
{
    struct records *buckets = weir_records_new(keys, sizeof(struct smyte_bucket), err);
    if (buckets)
        weir_records_form(buckets, is_sane_bucket, NULL);
    return buckets;
}

/* The limit is part of the name. */
static struct record_id bucket_id(const struct records *buckets, const void *key, size_t len,
                                  const struct smyte_limit *limit)
{
    struct {
        struct record_id key;
        struct smyte_limit limit;
    } name = {weir_record_id(buckets, "rl-key", key, len), *limit};
    return weir_record_id(buckets, "rl", &name, sizeof name);
}

struct smyte_answer weir_smyte_do(struct records *buckets, const void *key, size_t len,
                                  const struct smyte_request *ask, int64_t now_ns)
{
    struct record_id id = bucket_id(buckets, key, len, &ask->limit);
    struct smyte_bucket bucket = weir_smyte_bucket_fresh(&ask->limit, ask->at_ms);
    struct record_visit visit;
    weir_records_enter(buckets, &id, now_ns, &visit);
    bool comes = !visit.found && !is_read_only(ask);
    if (comes && (!visit.record || (ask->hook && !ask->hook->may_admit(ask->hook)))) {
        weir_records_leave(buckets, &visit);
        return (struct smyte_answer){.session_ms = ask->at_ms, .full = true};
    }
    if (comes && ask->hook)
        ask->hook->admitted(ask->hook, weir_records_place(buckets, visit.record));
    if (visit.record && visit.found)
        bucket = *(const struct smyte_bucket *)record_bytes(visit.record);
    struct smyte_answer answer = weir_smyte_bucket_do(&bucket, ask);
    visit.looked = is_read_only(ask);
    if (!is_read_only(ask)) {
        *(struct smyte_bucket *)record_bytes(visit.record) = bucket;
        visit.record->expires_ns = sat_add(now_ns, sat_mul(weir_smyte_bucket_fill_ms(&ask->limit), WEIR_MS));
    }
    weir_records_leave(buckets, &visit);
    return answer;
}

bool weir_smyte_forget(struct records *buckets, const void *key, size_t len, const struct smyte_limit *limit,
                       int64_t now_ns)
{
    struct record_id id = bucket_id(buckets, key, len, limit);
    struct record_visit visit;
    weir_records_enter(buckets, &id, now_ns, &visit);
    bool found = visit.record && visit.found;
    if (found)
        visit.record->expires_ns = 0;
    weir_records_leave(buckets, &visit);
    return found;
}

bool weir_smyte_bring(struct records *buckets, const struct record_id *id, const struct smyte_bucket *bucket,
                      int64_t left_ns, int64_t now_ns)
{
    struct record_visit visit;
    if (!is_sane_bucket(bucket) || (id->word[0] | id->word[1]) == 0 || left_ns < 1)
        return false;
    weir_records_enter(buckets, id, now_ns, &visit);
    if (visit.record) {
        struct smyte_bucket *own = record_bytes(visit.record);
        if (visit.found)
            *own = (struct smyte_bucket){.amount = 0,
                                         .last_ms = max64(own->last_ms, bucket->last_ms),
                                         .session_ms = max64(own->session_ms, bucket->session_ms)};
        else
            *own = *bucket;
        visit.record->expires_ns = max64(visit.record->expires_ns, sat_add(now_ns, left_ns));
    }
    weir_records_leave(buckets, &visit);
    return visit.record != NULL;
}
