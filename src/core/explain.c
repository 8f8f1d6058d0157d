/* SPDX-License-Identifier: MIT */
#include "core/explain.h"

#include <stdio.h>
#include <string.h>

#include "core/idle.h"
#include "core/state.h"
#include "spec/keywords.h"

int64_t weir_limit_capacity(const struct limit *limit)
{
    switch ((enum weir_algo)limit->spec.algo) {
    case WEIR_TOKEN_BUCKET:
    case WEIR_INTERVAL:
        return limit->burst;
    case WEIR_STEP:
        return limit->spec.burst;
    case WEIR_LEAKY_BUCKET:
        return limit->spec.queue + 1;
    case WEIR_SMOOTH:
        return limit->full / limit->ticks.unit;
    case WEIR_WARMUP:
        return (int64_t)limit->u.warmup.most;
    case WEIR_HYBRID:
        return limit->u.hybrid.over / limit->ticks.unit;
    case WEIR_FIXED_WINDOW:
    case WEIR_QUOTA:
    case WEIR_SLIDING_WINDOW:
    case WEIR_SLIDING_LOG:
        return limit->spec.count;
    case WEIR_UNLIMITED:
        return INT64_MAX;
    case WEIR_BLOCKED:
        break;
    }
    return 0;
}

/* A queue is used by what is in it, not by how much would be let in; its first slot counts. */
static int64_t limit_used(const struct limit *limit, const int64_t *words, int64_t now)
{
    if (limit->spec.algo == WEIR_LEAKY_BUCKET)
        return limit_units_up(limit,
                              sat_sub(sat_add(words[AT_INDEX], limit->full), ticks_at(&limit->ticks, now)));
    int64_t left = limit->algorithm->remaining(limit, words, now), used = weir_limit_capacity(limit) - left;
    bool owes = left == 0 && limit->algorithm->debt;
    return owes ? sat_add(used, max64(limit->algorithm->debt(limit, words, now), 0)) : used;
}

static void put_limit_name(const struct limit *limit, char *text, size_t size)
{
    if (limit->spec.name[0])
        (void)snprintf(text, size, "%s", limit->spec.name);
    else if (weir_spec_format(&limit->spec, 1, text, size) == 0) /* no text says a curve of one's own */
        (void)snprintf(text, size, "%s", weir_algo_name(limit->spec.algo));
}

static int64_t explain_until(int64_t time, int64_t now)
{
    return time > WEIR_TIME_MAX ? WEIR_FOREVER : time - now;
}

/* All but its text. Nobody overtakes a promise: until its time has come nothing is left, in no limit. */
static void explain_limit(const struct limit *limit, const int64_t *state, int64_t now, int64_t n,
                          struct weir_limit_state *explained)
{
    const int64_t *words = state + limit->offset;
    int64_t time = max64(now, state[STATE_PROMISED]);
    int64_t next = explain_until(limit->algorithm->due(limit, words, time, n), now);
    explained->used = limit_used(limit, words, now);
    explained->left = time > now ? 0 : limit->algorithm->remaining(limit, words, now);
    explained->next_after_ns = next;
    explained->reset_after_ns = explain_until(limit->algorithm->fresh(limit, words, time), now);
    explained->refuses = next > 0;
}

void weir_state_explain(const struct weir_policy *policy, const int64_t *state, int64_t now,
                        struct weir_limit_state *limits, size_t count)
{
    for (size_t i = 0; i < policy->count && i < count; i++) {
        limits[i] = (struct weir_limit_state){0};
        explain_limit(&policy->limits[i], state, clamp64(now, 0, WEIR_TIME_MAX), 1, &limits[i]);
        put_limit_name(&policy->limits[i], limits[i].text, sizeof limits[i].text);
    }
}

void weir_state_numbers(const struct weir_policy *policy, const int64_t *state, int64_t now, int64_t n,
                        bool named, struct limit_numbers *numbers, size_t count)
{
    for (size_t i = 0; i < policy->count && i < count; i++) {
        const struct limit *limit = &policy->limits[i];
        struct weir_limit_state explained;
        explain_limit(limit, state, clamp64(now, 0, WEIR_TIME_MAX), n, &explained);
        bool blocked = limit->spec.algo == WEIR_BLOCKED, unlimited = limit->spec.algo == WEIR_UNLIMITED;
        numbers[i].count = blocked ? 0 : unlimited ? INT64_MAX : limit->spec.count;
        numbers[i].window_ns = blocked || unlimited ? 0 : limit->spec.period_ns;
        numbers[i].burst = weir_limit_capacity(limit);
        numbers[i].used = explained.used;
        numbers[i].remaining = explained.left;
        numbers[i].reset_after_ns = explained.reset_after_ns;
        numbers[i].retry_after_ns = explained.next_after_ns;
        numbers[i].pair = 0;
        numbers[i].name = numbers[i].text;
        numbers[i].text[0] = '\0';
        if (named)
            put_limit_name(limit, numbers[i].text, sizeof numbers[i].text);
    }
}

int64_t weir_state_chargeable(const struct weir_policy *policy, const int64_t *state, int64_t now)
{
    int64_t units = INT64_MAX;
    for (size_t i = 0; i < policy->count; i++) {
        const struct limit *limit = &policy->limits[i];
        const int64_t *words = state + limit->offset;
        int64_t most = weir_limit_capacity(limit);
        if (limit->algorithm->due(limit, words, now, sat_add(most, 1)) <= WEIR_TIME_MAX)
            continue;
        int64_t debt = max64(sat_sub(limit_used(limit, words, now), most), 0);
        units = min64(units, max64(sat_sub(most, debt), 0));
    }
    return units;
}

int64_t weir_state_available(const struct weir_policy *policy, const int64_t *state, int64_t now)
{
    int64_t units = INT64_MAX;
    now = clamp64(now, 0, WEIR_TIME_MAX);
    if (state[STATE_PROMISED] > now)
        return 0;
    for (size_t i = 0; i < policy->count; i++) {
        const struct limit *limit = &policy->limits[i];
        units = min64(units, limit->algorithm->remaining(limit, state + limit->offset, now));
    }
    return units;
}
