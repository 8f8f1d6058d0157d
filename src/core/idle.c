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

/* A window that lies ahead, because the clock has stepped back, counts until its own end. */
static int64_t window_idle(const struct limit *limit, const int64_t *words)
{
    return limit->algorithm->fresh(limit, words, sat_mul(words[AT_WINDOW], limit->spec.period_ns));
}

/*
 * A full bucket is a fresh one but for its phase, and that may be forgotten: its next step then comes later,
 * and the law holds across it. Say that the steps before are at f, f - W, ... and that f, at or before the
 * time t of forgetting, made the bucket full. From x to t no more than R units for each step in (x, f] have
 * passed, or f would not have made it full: R * ceil((f - x) / W). From t to y no more than B and R for each
 * step after t: B + R * floor((y - t) / W). Together at most B + R * ceil((y - x) / W). Between two times of
 * forgetting steps are counted from the first on, so there (f - t) / W is a whole number, and any number of
 * them adds up alike.
 */
static int64_t step_idle(const struct limit *limit, const int64_t *words)
{
    return limit->algorithm->fresh(limit, words, words[AT_STEPPED]);
}

/*
 * A fresh hybrid holds one op and no backlog. Once the active pool holds as much, forgetting takes tokens
 * away and makes none: what the pools hold above that, what waits and what is carried. The law counts what
 * the pools hold and what time brings, so it holds. And the fresh one never holds more than the other would
 * have, but for one tick: a full pool drops the fraction of a token that it is owed, one that is not full
 * keeps it. Callers who come back after such a pause are on schedule again. Otherwise no key could ever go,
 * for its backlog grows with every moment that it is away.
 */
static int64_t hybrid_idle(const struct limit *limit, const int64_t *words)
{
    if (words[AT_FILLED] < 0) /* configured, not started: nothing passes */
        return WEIR_FOREVER;
    return limit->algorithm->due(limit, words, ticks_time(&limit->ticks, words[AT_FILLED]), 1);
}

static double saved_of(const int64_t *words)
{
    double saved;
    memcpy(&saved, &words[AT_SAVED], sizeof saved);
    return saved;
}

/* Are so many idle ticks enough to be as cold as a fresh store, to the last bit? */
static bool is_cold(const struct limit *limit, double saved, int64_t idle)
{
    double most = limit->u.warmup.most;
    return idle == 0 ? saved == most : saved + (double)idle * limit->u.warmup.cooling >= most;
}

static int64_t warmup_idle(const struct limit *limit, const int64_t *words)
{
    double saved = saved_of(words);
    int64_t low = 0, high = sat_sub(INT64_MAX, words[AT_NEXT]);
    if (!is_cold(limit, saved, high))
        return WEIR_FOREVER;
    while (low < high) { /* a division would be off by its rounding */
        int64_t middle = low + (high - low) / 2;
        if (is_cold(limit, saved, middle))
            high = middle;
        else
            low = middle + 1;
    }
    int64_t cold = ticks_time(&limit->ticks, words[AT_NEXT] + low);
    return max64(cold, limit->algorithm->fresh(limit, words, 0)); /* which verdicts go by, rounded up */
}

static int64_t limit_idle(const struct limit *limit, const int64_t *words)
{
    switch ((enum weir_algo)limit->spec.algo) {
    case WEIR_TOKEN_BUCKET:
    case WEIR_INTERVAL:
    case WEIR_LEAKY_BUCKET:
    case WEIR_SMOOTH:
    case WEIR_SLIDING_LOG: /* full, or empty; before that it is neither, whatever time it is */
        return limit->algorithm->fresh(limit, words, 0);
    case WEIR_WARMUP:
        return warmup_idle(limit, words);
    case WEIR_HYBRID:
        return hybrid_idle(limit, words);
    case WEIR_FIXED_WINDOW:
    case WEIR_QUOTA:
    case WEIR_SLIDING_WINDOW:
        return window_idle(limit, words);
    case WEIR_STEP:
        return step_idle(limit, words);
    case WEIR_UNLIMITED:
    case WEIR_BLOCKED:
        break;
    }
    return 0;
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

static bool is_value_within(int64_t x, int64_t low, int64_t high)
{
    return x >= low && x <= high;
}

/* The start of time, with a full bucket. Debts have no end. */
static bool index_valid(const struct limit *limit, const int64_t *words)
{
    return words[AT_INDEX] >= -(limit->full + limit->ticks.unit);
}

/* A live change may round the store up, by far less than this. */
static bool warmup_valid(const struct limit *limit, const int64_t *words)
{
    double saved = saved_of(words);
    return words[AT_NEXT] >= 0 && saved >= 0 && saved <= limit->u.warmup.most * (1 + 0x1p-40);
}

static bool hybrid_valid(const struct limit *limit, const int64_t *words)
{
    bool started = limit->spec.verb != WEIR_VERB_CONFIGURE;
    return words[AT_ACTIVE] <= limit->u.hybrid.over && words[AT_WAITING] >= 0 &&
           is_value_within(words[AT_FILLED], started ? 0 : -1, ticks_at(&limit->ticks, WEIR_TIME_MAX)) &&
           is_value_within(words[AT_CARRY], 0, limit->u.hybrid.active - 1) && words[AT_HISTORY] >= 0;
}

static bool window_valid(const struct limit *limit, const int64_t *words)
{
    bool fades = limit->spec.algo == WEIR_SLIDING_WINDOW, counts = limit->spec.refused == WEIR_REFUSED_COUNT;
    int64_t previous = !fades ? 0 : counts ? INT64_MAX : limit->spec.count;
    if (fades && counts && words[AT_EXCESS] < 0)
        return false;
    return is_value_within(words[AT_WINDOW], 0, WEIR_TIME_MAX / limit->spec.period_ns) &&
           words[AT_PRESENT] >= 0 && is_value_within(words[AT_PREVIOUS], 0, previous);
}

/* Times never decrease. A unit that comes back may be from up to a period before the start of time. */
static bool log_valid(const struct limit *limit, const int64_t *words)
{
    int64_t count = limit->spec.count, before = -limit->spec.period_ns;
    if (!is_value_within(words[AT_HEAD], 0, count - 1) || !is_value_within(words[AT_LENGTH], 0, count))
        return false;
    for (int64_t i = 0; i < words[AT_LENGTH]; i++) {
        int64_t time = words[AT_TIMES + (words[AT_HEAD] + i) % count];
        if (time < before)
            return false;
        before = time;
    }
    return true;
}

/* A live change keeps the part of a period that has passed, also of one that began before time did. */
static bool step_valid(const struct limit *limit, const int64_t *words)
{
    return words[AT_UNITS] <= limit->spec.burst &&
           is_value_within(words[AT_STEPPED], -limit->spec.period_ns, WEIR_TIME_MAX);
}

static bool limit_valid(const struct limit *limit, const int64_t *words)
{
    switch ((enum weir_algo)limit->spec.algo) {
    case WEIR_TOKEN_BUCKET:
    case WEIR_INTERVAL:
    case WEIR_LEAKY_BUCKET:
    case WEIR_SMOOTH:
        return index_valid(limit, words);
    case WEIR_WARMUP:
        return warmup_valid(limit, words);
    case WEIR_HYBRID:
        return hybrid_valid(limit, words);
    case WEIR_FIXED_WINDOW:
    case WEIR_QUOTA:
    case WEIR_SLIDING_WINDOW:
        return window_valid(limit, words);
    case WEIR_SLIDING_LOG:
        return log_valid(limit, words);
    case WEIR_STEP:
        return step_valid(limit, words);
    case WEIR_UNLIMITED:
    case WEIR_BLOCKED:
        break;
    }
    return true;
}

bool weir_state_valid(const struct weir_policy *policy, const int64_t *state)
{
    /* The number of a promise has to have room for all that are still to come. */
    bool valid = is_value_within(state[STATE_PROMISED], 0, WEIR_TIME_MAX) &&
                 is_value_within(state[STATE_GENERATION], 0, INT64_MAX / 2);
    for (size_t i = 0; valid && i < policy->count; i++) {
        const struct limit *limit = &policy->limits[i];
        valid = limit_valid(limit, state + limit->offset);
    }
    return valid;
}
