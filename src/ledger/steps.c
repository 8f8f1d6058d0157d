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
#include "ledger/steps.h"

#include <errno.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/sat.h"
#include "ledger/keep.h"

struct steps {
    struct records *records;
};

/* ---- arithmetic ---- */

struct step_bucket weir_step_fresh(const struct step_limit *limit, int64_t at_ms)
{
    return (struct step_bucket){limit->max, at_ms, -1};
}

static void refill(struct step_bucket *bucket, const struct step_limit *limit, int64_t at_ms)
{
    int64_t periods = max64(sat_sub(at_ms, bucket->last_ms), 0) / limit->refill_ms;
    bucket->amount = min64(limit->max, sat_add(bucket->amount, sat_mul(periods, limit->refill)));
    bucket->last_ms += periods * limit->refill_ms; /* at_ms at the most */
}

/* Leaves the bucket as it was: needs no record, and makes none live longer. */
static bool is_look(const struct step_ask *ask)
{
    return ask->verb == STEP_GET || ask->take < 1;
}

struct step_answer weir_step_do(struct step_bucket *bucket, const struct step_ask *ask)
{
    refill(bucket, &ask->limit, ask->at_ms);
    struct step_answer answer = {.tokens = bucket->amount};
    bool session = ask->verb == STEP_SESSIONIZE;
    if (session && ask->take > 0 && (bucket->amount >= ask->take || bucket->session_ms < 0))
        bucket->session_ms = ask->at_ms;
    if (session)
        answer.session_ms = bucket->session_ms < 0 ? ask->at_ms : bucket->session_ms;
    if (is_look(ask))
        return answer;
    bucket->amount = max64(sat_sub(bucket->amount, ask->take), 0);
    if (bucket->amount == 0 && (ask->strict || session))
        bucket->last_ms = max64(bucket->last_ms, ask->at_ms);
    return answer;
}

int64_t weir_step_fill_ms(const struct step_limit *limit)
{
    return sat_mul(div_up(limit->max, limit->refill), limit->refill_ms);
}

/* ---- buckets ---- */

static bool is_sane(const void *bytes)
{
    const struct step_bucket *bucket = bytes;
    return bucket->amount >= 0 && bucket->last_ms >= 0 && bucket->session_ms >= -1;
}

struct steps *weir_steps_new(size_t keys, struct weir_error *err)
{
    struct steps *steps = malloc(sizeof *steps);
    if (!steps) {
        weir_error_set(err, ENOMEM, "out of memory");
        return NULL;
    }
    steps->records = weir_records_new(keys, sizeof(struct step_bucket), err);
    if (!steps->records) {
        free(steps);
        return NULL;
    }
    weir_records_form(steps->records, is_sane, NULL);
    return steps;
}

void weir_steps_free(struct steps *steps)
{
    if (steps)
        weir_records_free(steps->records);
    free(steps);
}

/* The limit is part of the name. */
static struct record_id name_of(const struct steps *steps, const void *key, size_t len,
                                const struct step_limit *limit)
{
    struct {
        struct record_id key;
        struct step_limit limit;
    } name = {weir_record_id(steps->records, "rl-key", key, len), *limit};
    return weir_record_id(steps->records, "rl", &name, sizeof name);
}

struct step_answer weir_steps_do(struct steps *steps, const void *key, size_t len, const struct step_ask *ask,
                                 int64_t now_ns)
{
    struct record_id id = name_of(steps, key, len, &ask->limit);
    struct step_bucket bucket = weir_step_fresh(&ask->limit, ask->at_ms);
    struct visit visit;
    weir_records_enter(steps->records, &id, now_ns, &visit);
    bool comes = !visit.found && !is_look(ask);
    if (comes && (!visit.record || (ask->newcomer && !ask->newcomer->may_come(ask->newcomer)))) {
        weir_records_leave(steps->records, &visit);
        return (struct step_answer){.session_ms = ask->at_ms, .full = true};
    }
    if (comes && ask->newcomer)
        ask->newcomer->came(ask->newcomer, weir_records_place(steps->records, visit.record));
    if (visit.record && visit.found)
        bucket = *(const struct step_bucket *)record_bytes(visit.record);
    struct step_answer answer = weir_step_do(&bucket, ask);
    visit.looked = is_look(ask);
    if (!is_look(ask)) {
        *(struct step_bucket *)record_bytes(visit.record) = bucket;
        visit.record->expires_ns = sat_add(now_ns, sat_mul(weir_step_fill_ms(&ask->limit), WEIR_MS));
    }
    weir_records_leave(steps->records, &visit);
    return answer;
}

bool weir_steps_forget(struct steps *steps, const void *key, size_t len, const struct step_limit *limit,
                       int64_t now_ns)
{
    struct record_id id = name_of(steps, key, len, limit);
    struct visit visit;
    weir_records_enter(steps->records, &id, now_ns, &visit);
    bool found = visit.record && visit.found;
    if (found)
        visit.record->expires_ns = 0;
    weir_records_leave(steps->records, &visit);
    return found;
}

bool weir_steps_bring(struct steps *steps, const struct record_id *id, const struct step_bucket *bucket,
                      int64_t left_ns, int64_t now_ns)
{
    struct visit visit;
    if (!is_sane(bucket) || (id->word[0] | id->word[1]) == 0 || left_ns < 1)
        return false;
    weir_records_enter(steps->records, id, now_ns, &visit);
    if (visit.record) {
        struct step_bucket *own = record_bytes(visit.record);
        if (visit.found)
            *own = (struct step_bucket){.amount = 0,
                                        .last_ms = max64(own->last_ms, bucket->last_ms),
                                        .session_ms = max64(own->session_ms, bucket->session_ms)};
        else
            *own = *bucket;
        visit.record->expires_ns = max64(visit.record->expires_ns, sat_add(now_ns, left_ns));
    }
    weir_records_leave(steps->records, &visit);
    return visit.record != NULL;
}

void weir_steps_stat(struct steps *steps, struct records_stat *stat)
{
    weir_records_stat(steps->records, stat);
}

void weir_steps_sweep(struct steps *steps, size_t count, int64_t now_ns)
{
    weir_records_sweep(steps->records, count, now_ns);
}

struct records *weir_steps_records(const struct steps *steps)
{
    return steps->records;
}
