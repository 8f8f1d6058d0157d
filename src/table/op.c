/* SPDX-License-Identifier: MIT */
#include "table/op.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "core/explain.h"
#include "core/idle.h"
#include "core/index.h"

/* ---- states in a file ---- */

/* Word by word, each read once: a compiler may read what memcpy has copied a second time from its source. */
int64_t *weir_state_load(const struct weir_policy *policy, const int64_t *state, int64_t *copy)
{
    for (size_t i = 0; i < policy->words; i++)
        copy[i] = __atomic_load_n(&state[i], __ATOMIC_RELAXED);
    return copy;
}

int64_t *weir_state_fetch(const struct weir_policy *policy, const int64_t *state, int64_t *copy, int64_t now)
{
    if (!weir_state_valid(policy, weir_state_load(policy, state, copy))) {
        weir_state_init(policy, copy, now);
        (void)weir_state_drain(policy, copy, now);
    }
    ASSERT(weir_state_valid(policy, copy));
    return copy;
}

/* ---- promises: in one reservation for all limits ---- */

static bool is_index(const struct limit *limit)
{
    return limit->algorithm->words == weir_index_words;
}

/* A reservation has one ticket. For several limits it is the latest of the times at which their buckets were,
 * or will be, empty: no index lies behind it. */
static int64_t empty_at(const struct weir_policy *policy, const int64_t *state)
{
    int64_t latest = 0;
    for (size_t i = 0; i < policy->count; i++)
        if (is_index(&policy->limits[i]))
            latest = max64(latest, ticks_time(&policy->limits[i].ticks, state[policy->limits[i].offset]));
    return latest;
}

static bool op_reserve(const struct weir_policy *policy, int64_t *state, struct table_op *op)
{
    struct weir_reservation parts[WEIR_LIMITS_MAX];
    int64_t empty = policy->count > 1 ? empty_at(policy, state) : 0;
    bool promised = weir_state_reserve(policy, state, op->now, op->n, op->timeout_ns, parts, op->verdict);
    if (!op->reservation)
        return promised;
    *op->reservation = promised ? parts[0] : (struct weir_reservation){0};
    if (promised && policy->count > 1)
        op->reservation->ticket = (uint64_t)empty;
    return promised;
}

/* The ticket of the latest promise is found where a limit stands now: nothing has moved it since, but what
 * was charged, which stays. Earlier promises come back to no limit. A log counts with its ticket: all were
 * pushed out. */
static uint64_t ticket_of(const struct limit *limit, const int64_t *state, const struct weir_reservation *r,
                          bool latest)
{
    if (limit->spec.algo == WEIR_SLIDING_LOG)
        return (uint64_t)r->n;
    return latest && limit->algorithm->words(limit) > 0 ? (uint64_t)state[limit->offset]
                                                        : (uint64_t)INT64_MIN;
}

/* A bucket that would have been full at the due time was taken to that time: what it held before is not
 * known, only that it was empty at `empty_ns` or earlier. So much it gets back. */
static void refill_bucket(const struct weir_policy *policy, int64_t *state, int64_t due_ns, int64_t empty_ns)
{
    for (size_t i = 0; i < policy->count; i++) {
        const struct limit *limit = &policy->limits[i];
        int64_t *index = &state[limit->offset];
        if (is_index(limit) && *index == ticks_of_promise(&limit->ticks, due_ns) - limit->full)
            *index = min64(*index, ticks_at(&limit->ticks, empty_ns));
    }
}

static bool op_cancel(const struct weir_policy *policy, int64_t *state, struct table_op *op)
{
    struct weir_reservation parts[WEIR_LIMITS_MAX], *reservation = op->reservation;
    if (!reservation)
        return false;
    bool several = policy->count > 1, latest = reservation->generation == state[STATE_GENERATION];
    for (size_t i = 0; i < policy->count; i++) {
        parts[i] = *reservation;
        if (several)
            parts[i].ticket = ticket_of(&policy->limits[i], state, reservation, latest);
    }
    bool off = weir_state_cancel(policy, state, op->now, parts);
    if (off && several && latest)
        refill_bucket(policy, state, reservation->due_ns, (int64_t)reservation->ticket);
    if (off)
        reservation->n = 0;
    return off;
}

/* ---- states that travel: see export.h ---- */

static void op_export(const struct weir_policy *policy, const int64_t *state, const struct table_op *op)
{
    struct state_transfer *out = op->transfer;
    weir_state_explain(policy, state, op->now, op->limits, op->limit_count);
    out->policy = policy;
    out->idle = weir_state_idle_from(policy, state) <= op->now;
    out->limits = policy->count;
    for (size_t i = 0; i < policy->count; i++)
        out->spent[i] = op->limits[i].used;
    out->count = policy->words <= out->room ? policy->words : 0;
    if (out->count > 0)
        memcpy(out->words, state, out->count * sizeof *state);
}

/* A key that was as if never used becomes what came; what another has spent already comes on top. */
static void op_import(const struct weir_policy *policy, int64_t *state, const struct table_op *op)
{
    const struct state_transfer *in = op->transfer;
    int64_t time = max64(op->now, state[STATE_PROMISED]);
    if (in->policy == policy && in->count == policy->words && weir_state_valid(policy, in->words) &&
        weir_state_idle_from(policy, state) <= op->now) {
        if (weir_state_idle_from(policy, in->words) > op->now)
            memcpy(state, in->words, in->count * sizeof *state);
        return;
    }
    int64_t most = 0;
    for (size_t i = 0; i < in->limits; i++)
        most = max64(most, in->spent[i]);
    for (size_t i = 0; i < policy->count; i++) {
        const struct limit *limit = &policy->limits[i];
        int64_t n = in->limits == policy->count ? in->spent[i] : most;
        if (n > 0)
            limit->algorithm->charge(limit, state + limit->offset, time, n);
    }
}

/* ---- a key that is there ---- */

bool weir_table_op_run(const struct weir_policy *policy, int64_t *state, struct table_op *op)
{
    switch (op->verb) {
    case VERB_TAKE:
        return weir_state_take(policy, state, op->now, op->n, op->verdict);
    case VERB_PEEK:
        return weir_state_peek(policy, state, op->now, op->n, op->verdict);
    case VERB_RESERVE:
        return op_reserve(policy, state, op);
    case VERB_CANCEL:
        return op_cancel(policy, state, op);
    case VERB_GIVE:
        weir_state_give(policy, state, op->now, op->n);
        break;
    case VERB_CHARGE:
        weir_state_charge(policy, state, op->now, op->n);
        break;
    case VERB_RESET:
        weir_state_reset(policy, state, op->now);
        break;
    case VERB_EXPLAIN:
        if (op->numbers)
            weir_state_numbers(policy, state, op->now, op->n, op->named, op->numbers, op->limit_count);
        else
            weir_state_explain(policy, state, op->now, op->limits, op->limit_count);
        op->limit_count = policy->count;
        if (!op->numbers)
            op->chargeable = weir_state_chargeable(policy, state, op->now);
        break;
    case VERB_EXPORT:
        op_export(policy, state, op);
        break;
    case VERB_IMPORT:
        op_import(policy, state, op);
        break;
    }
    return true;
}

/* ---- a key that is not there ---- */

static bool any_limit_counts_refusals(const struct weir_policy *policy)
{
    for (size_t i = 0; i < policy->count; i++)
        if (policy->limits[i].spec.refused != WEIR_REFUSED_IGNORE)
            return true;
    return false;
}

bool weir_table_op_may_change(const struct weir_policy *policy, const struct table_op *op, bool answer)
{
    return !table_op_reads(op) && (answer || !table_op_takes(op) || any_limit_counts_refusals(policy));
}

/* Would the promise be made? Asked without making it. */
static bool would_promise(const struct weir_policy *policy, const int64_t *fresh, const struct table_op *op)
{
    struct weir_verdict verdict;
    (void)weir_state_peek(policy, fresh, op->now, op->n, &verdict);
    int64_t timeout_ns = op->timeout_ns < 0 ? policy->timeout_ns : op->timeout_ns;
    if (verdict.retry_after_ns == WEIR_FOREVER || verdict.retry_after_ns > timeout_ns)
        return false;
    int64_t due = op->now + verdict.retry_after_ns;
    for (size_t i = 0; i < policy->count; i++) {
        const struct limit *limit = &policy->limits[i];
        if (limit->algorithm->open &&
            limit->algorithm->open(limit, fresh + limit->offset, op->now, op->n, due) > op->now)
            return false;
    }
    return true;
}

/* Does the operation leave the state as it is? Then the state that was made for it can answer. */
static bool changes_nothing(const struct weir_policy *policy, const int64_t *fresh, const struct table_op *op)
{
    if (table_op_reads(op) || op->n < 1)
        return true;
    if (policy->words == STATE_HEADER) /* nothing but unlimited and blocked */
        return true;
    if (table_op_charges(op) || any_limit_counts_refusals(policy))
        return false;
    if (op->verb == VERB_TAKE)
        return !weir_state_peek(policy, fresh, op->now, op->n, NULL);
    return !would_promise(policy, fresh, op);
}

#if WEIR_ASSERTIONS
/* The same, found out by doing it. */
static bool leaves_as_it_is(const struct weir_policy *policy, const int64_t *fresh, const struct table_op *op)
{
    size_t bytes = policy->words * sizeof *fresh;
    int64_t *copy = table_op_reads(op) ? NULL : malloc(bytes);
    struct weir_reservation reservation = {0};
    struct table_op done = *op;
    done.verdict = NULL;
    done.reservation = &reservation;
    bool same = true;
    if (copy) {
        memcpy(copy, fresh, bytes);
        (void)weir_table_op_run(policy, copy, &done);
        same = memcmp(copy, fresh, bytes) == 0;
    }
    free(copy);
    return same;
}
#else
#define leaves_as_it_is(...) true
#endif

bool weir_table_op_absent(const struct weir_policy *policy, int64_t *fresh, bool shared, struct table_op *op,
                          bool *insert)
{
    *insert = false;
    if (op->verb == VERB_CANCEL) /* what was promised has been due, or the key would be here */
        return false;
    if (op->verb == VERB_GIVE || op->verb == VERB_RESET) {
        *insert = shared && policy->words > STATE_HEADER; /* else full is full */
        return true;
    }
    *insert = !changes_nothing(policy, fresh, op);
    ASSERT(*insert || leaves_as_it_is(policy, fresh, op));
    return *insert ? false : weir_table_op_run(policy, fresh, op);
}

/*
 * Room comes when other keys have been idle long enough, and nobody knows when, or whether, that will be. So
 * there is no time of which it could be said that the same question passes then: WEIR_FOREVER, as the
 * contract of retry_after_ns has it, and the reason tells that it was for want of room.
 */
bool weir_table_op_full(struct table_op *op)
{
    if (op->verdict)
        *op->verdict = (struct weir_verdict){.reason = WEIR_FULL, .retry_after_ns = WEIR_FOREVER};
    if (op->verb == VERB_RESERVE && op->reservation)
        *op->reservation = (struct weir_reservation){0};
    return false;
}
