/* SPDX-License-Identifier: MIT */
#include "table/deed.h"

#include <string.h>

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

static bool reserve(const struct weir_policy *policy, int64_t *state, struct deed *deed)
{
    struct weir_reservation parts[WEIR_LIMITS_MAX];
    int64_t empty = policy->count > 1 ? empty_at(policy, state) : 0;
    bool promised =
        weir_state_reserve(policy, state, deed->now, deed->n, deed->timeout_ns, parts, deed->verdict);
    if (!deed->reservation)
        return promised;
    *deed->reservation = promised ? parts[0] : (struct weir_reservation){0};
    if (promised && policy->count > 1)
        deed->reservation->ticket = (uint64_t)empty;
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
static void refill(const struct weir_policy *policy, int64_t *state, int64_t due_ns, int64_t empty_ns)
{
    for (size_t i = 0; i < policy->count; i++) {
        const struct limit *limit = &policy->limits[i];
        int64_t *index = &state[limit->offset];
        if (is_index(limit) && *index == ticks_of_promise(&limit->ticks, due_ns) - limit->full)
            *index = min64(*index, ticks_at(&limit->ticks, empty_ns));
    }
}

static bool cancel(const struct weir_policy *policy, int64_t *state, struct deed *deed)
{
    struct weir_reservation parts[WEIR_LIMITS_MAX], *reservation = deed->reservation;
    if (!reservation)
        return false;
    bool several = policy->count > 1, latest = reservation->generation == state[STATE_GENERATION];
    for (size_t i = 0; i < policy->count; i++) {
        parts[i] = *reservation;
        if (several)
            parts[i].ticket = ticket_of(&policy->limits[i], state, reservation, latest);
    }
    bool off = weir_state_cancel(policy, state, deed->now, parts);
    if (off && several && latest)
        refill(policy, state, reservation->due_ns, (int64_t)reservation->ticket);
    if (off)
        reservation->n = 0;
    return off;
}

/* ---- states that travel: see export.h ---- */

static void export_state(const struct weir_policy *policy, const int64_t *state, const struct deed *deed)
{
    struct carried *out = deed->carried;
    weir_state_explain(policy, state, deed->now, deed->limits, deed->limit_count);
    out->policy = policy;
    out->idle = weir_state_idle_from(policy, state) <= deed->now;
    out->limits = policy->count;
    for (size_t i = 0; i < policy->count; i++)
        out->spent[i] = deed->limits[i].used;
    out->count = policy->words <= out->room ? policy->words : 0;
    if (out->count > 0)
        memcpy(out->words, state, out->count * sizeof *state);
}

/* A key that was as if never used becomes what came; what another has spent already comes on top. */
static void import_state(const struct weir_policy *policy, int64_t *state, const struct deed *deed)
{
    const struct carried *in = deed->carried;
    int64_t time = max64(deed->now, state[STATE_PROMISED]);
    if (in->policy == policy && in->count == policy->words && weir_state_valid(policy, in->words) &&
        weir_state_idle_from(policy, state) <= deed->now) {
        if (weir_state_idle_from(policy, in->words) > deed->now)
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

bool weir_deed_do(const struct weir_policy *policy, int64_t *state, struct deed *deed)
{
    switch (deed->verb) {
    case VERB_TAKE:
        return weir_state_take(policy, state, deed->now, deed->n, deed->verdict);
    case VERB_PEEK:
        return weir_state_peek(policy, state, deed->now, deed->n, deed->verdict);
    case VERB_RESERVE:
        return reserve(policy, state, deed);
    case VERB_CANCEL:
        return cancel(policy, state, deed);
    case VERB_GIVE:
        weir_state_give(policy, state, deed->now, deed->n);
        break;
    case VERB_CHARGE:
        weir_state_charge(policy, state, deed->now, deed->n);
        break;
    case VERB_RESET:
        weir_state_reset(policy, state, deed->now);
        break;
    case VERB_EXPLAIN:
        weir_state_explain(policy, state, deed->now, deed->limits, deed->limit_count);
        deed->limit_count = policy->count;
        deed->chargeable = weir_state_chargeable(policy, state, deed->now);
        break;
    case VERB_EXPORT:
        export_state(policy, state, deed);
        break;
    case VERB_IMPORT:
        import_state(policy, state, deed);
        break;
    }
    return true;
}

/* ---- a key that is not there ---- */

static bool counts_refusals(const struct weir_policy *policy)
{
    for (size_t i = 0; i < policy->count; i++)
        if (policy->limits[i].spec.refused != WEIR_REFUSED_IGNORE)
            return true;
    return false;
}

bool weir_deed_may_change(const struct weir_policy *policy, const struct deed *deed, bool answer)
{
    return !deed_reads(deed) && (answer || !deed_takes(deed) || counts_refusals(policy));
}

/* Would the promise be made? Asked without making it. */
static bool would_promise(const struct weir_policy *policy, const int64_t *fresh, const struct deed *deed)
{
    struct weir_verdict verdict;
    (void)weir_state_peek(policy, fresh, deed->now, deed->n, &verdict);
    int64_t timeout_ns = deed->timeout_ns < 0 ? policy->timeout_ns : deed->timeout_ns;
    if (verdict.retry_after_ns == WEIR_FOREVER || verdict.retry_after_ns > timeout_ns)
        return false;
    int64_t due = deed->now + verdict.retry_after_ns;
    for (size_t i = 0; i < policy->count; i++) {
        const struct limit *limit = &policy->limits[i];
        if (limit->algorithm->open &&
            limit->algorithm->open(limit, fresh + limit->offset, deed->now, deed->n, due) > deed->now)
            return false;
    }
    return true;
}

/* Does the deed leave the state as it is? Then the state that was made for it can answer. */
static bool changes_nothing(const struct weir_policy *policy, const int64_t *fresh, const struct deed *deed)
{
    if (deed_reads(deed) || deed->n < 1)
        return true;
    if (policy->words == STATE_HEADER) /* nothing but unlimited and blocked */
        return true;
    if (deed_charges(deed) || counts_refusals(policy))
        return false;
    if (deed->verb == VERB_TAKE)
        return !weir_state_peek(policy, fresh, deed->now, deed->n, NULL);
    return !would_promise(policy, fresh, deed);
}

bool weir_deed_absent(const struct weir_policy *policy, int64_t *fresh, bool shared, struct deed *deed,
                      bool *insert)
{
    *insert = false;
    if (deed->verb == VERB_CANCEL) /* what was promised has been due, or the key would be here */
        return false;
    if (deed->verb == VERB_GIVE || deed->verb == VERB_RESET) {
        *insert = shared && policy->words > STATE_HEADER; /* else full is full */
        return true;
    }
    *insert = !changes_nothing(policy, fresh, deed);
    return *insert ? false : weir_deed_do(policy, fresh, deed);
}

/*
 * Room comes when other keys have been idle long enough, and nobody knows when, or whether, that will be. So
 * there is no time of which it could be said that the same question passes then: WEIR_FOREVER, as the
 * contract of retry_after_ns has it, and the reason tells that it was for want of room.
 */
bool weir_deed_full(struct deed *deed)
{
    if (deed->verdict)
        *deed->verdict = (struct weir_verdict){.reason = WEIR_FULL, .retry_after_ns = WEIR_FOREVER};
    if (deed->verb == VERB_RESERVE && deed->reservation)
        *deed->reservation = (struct weir_reservation){0};
    return false;
}
