/* SPDX-License-Identifier: MIT */
#include "core/idle.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "core/state.h"

/* ---- policies ---- */

#define SPACES " \t\n\v\f\r"

/* Where the option `name` of limit `index` is written in a text that has been read without a mistake: each
 * limit ends at a comma, and an option is a word of its own. NULL: it is not. */
static const char *find_option_text(const char *limits, size_t index, const char *name)
{
    size_t len = strlen(name);
    for (; index > 0 && limits; index--) {
        limits = strchr(limits, ',');
        limits = limits ? limits + 1 : NULL;
    }
    while (limits && *limits && *limits != ',') {
        size_t word = strcspn(limits, "," SPACES);
        if (word > len && limits[len] == '=' && weir_text_same(limits, len, name))
            return limits;
        limits += word;
        limits += strspn(limits, SPACES);
    }
    return NULL;
}

static bool fault_at_place(struct weir_error *err, const char *limits, const char *place, const char *message)
{
    int32_t column = place ? weir_text_column(limits, (size_t)(place - limits)) : 0;
    weir_error_at(err, EINVAL, limits, strlen(limits), column, message);
    return false;
}

static bool check_idle_spec(struct weir_spec *spec, size_t index, const char *limits, struct weir_error *err)
{
    if (spec->fill == WEIR_FILL_THREAD)
        return fault_at_place(
            err, limits, find_option_text(limits, index, "fill"),
            "a table has no thread that fills each key; leave fill= out, or write fill=callers");
    if (spec->verb != WEIR_VERB_NONE && spec->verb != WEIR_VERB_START)
        return fault_at_place(
            err, limits, NULL,
            "the keys of a table are neither configured nor restarted; leave the verb out, or write "
            "start");
    spec->verb = WEIR_VERB_NONE; /* a key starts when it first comes */
    return true;
}

/*
 * A bucket starts full. What smooth saves need not be whole units: then it starts with one more, which is
 * gone at the first look, and so is full whenever it is looked at.
 */
static bool start_full(struct limit *limit, size_t index, const char *limits, struct weir_error *err)
{
    struct weir_spec *spec = &limit->spec;
    const char *initial = find_option_text(limits, index, "initial");
    bool smooth = spec->algo == WEIR_SMOOTH;
    if (initial && (smooth ? spec->initial * limit->ticks.unit != limit->full : spec->initial_given))
        return fault_at_place(err, limits, initial,
                              "a key of a table starts as if idle for ever; leave initial= out");
    if (smooth) {
        spec->initial = spec->initial_given = 0; /* not part of the text */
        limit->initial = div_up(limit->full, limit->ticks.unit);
    }
    return true;
}

struct weir_policy *weir_policy_idle(const char *limits, struct weir_error *err)
{
    struct weir_spec specs[WEIR_LIMITS_MAX];
    size_t count = weir_spec_parse(limits, specs, WEIR_LIMITS_MAX, err);
    for (size_t i = 0; i < count; i++)
        if (!check_idle_spec(&specs[i], i, limits, err))
            return NULL;
    struct weir_policy *policy = count > 0 ? weir_policy_from(specs, count, err) : NULL;
    for (size_t i = 0; policy && i < count; i++)
        if (!start_full(&policy->limits[i], i, limits, err)) {
            weir_policy_free(policy);
            policy = NULL;
        }
    return policy;
}

size_t weir_policy_text(const struct weir_policy *policy, char *text, size_t size)
{
    struct weir_spec specs[WEIR_LIMITS_MAX];
    for (size_t i = 0; i < policy->count; i++)
        specs[i] = policy->limits[i].spec;
    return weir_spec_format(specs, policy->count, text, size);
}

/* ---- forgetting ---- */

static int64_t limit_idle(const struct limit *limit, const int64_t *words)
{
    const struct algorithm *algorithm = limit->algorithm;
    return algorithm->idle ? algorithm->idle(limit, words) : algorithm->fresh(limit, words, 0);
}

int64_t weir_state_idle_from(const struct weir_policy *policy, const int64_t *state)
{
    int64_t from = state[STATE_PROMISED];
    for (size_t i = 0; i < policy->count; i++) {
        const struct limit *limit = &policy->limits[i];
        from = max64(from, limit_idle(limit, state + limit->offset));
    }
    return from > WEIR_TIME_MAX ? WEIR_FOREVER : from;
}

/* ---- words from outside ---- */

bool weir_state_valid(const struct weir_policy *policy, const int64_t *state)
{
    /* The number of a promise has to have room for all that are still to come. */
    bool valid = is_value_within(state[STATE_PROMISED], 0, WEIR_TIME_MAX) &&
                 is_value_within(state[STATE_GENERATION], 0, INT64_MAX / 2);
    for (size_t i = 0; valid && i < policy->count; i++) {
        const struct limit *limit = &policy->limits[i];
        valid = !limit->algorithm->valid || limit->algorithm->valid(limit, state + limit->offset);
    }
    return valid;
}
