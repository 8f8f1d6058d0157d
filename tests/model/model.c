/* SPDX-License-Identifier: MIT */
/*
 * A policy of models: the verbs, as weir.h tells them. All or none, at the first time that suits every
 * limit; nobody overtakes a promise.
 */
#include "model/model.h"

#include <stdlib.h>
#include <string.h>

#include "core/explain.h"

static const struct machine *const machines[] = {
    [WEIR_TOKEN_BUCKET] = &model_token_bucket,
    [WEIR_INTERVAL] = &model_token_bucket,
    [WEIR_LEAKY_BUCKET] = &model_leaky_bucket,
    [WEIR_SMOOTH] = &model_smooth,
    [WEIR_WARMUP] = &model_warmup,
    [WEIR_HYBRID] = &model_hybrid,
    [WEIR_FIXED_WINDOW] = &model_fixed_window,
    [WEIR_SLIDING_WINDOW] = &model_sliding_window,
    [WEIR_SLIDING_LOG] = &model_sliding_log,
    [WEIR_STEP] = &model_step,
    [WEIR_UNLIMITED] = &model_unlimited,
    [WEIR_BLOCKED] = &model_blocked,
    [WEIR_QUOTA] = &model_fixed_window,
};

/* ---- ticks ---- */

weir_i128 model_tick(const struct limit *limit, int64_t time)
{
    const struct ticks *ticks = &limit->ticks;
    weir_u128 t = (weir_u128)(time < 0 ? 0 : time > ticks->time_max ? ticks->time_max : time);
    weir_u128 rest = t * ticks->frac, one = (weir_u128)1 << 64;
    return (weir_i128)(t * ticks->whole + rest / one + (rest % one != 0));
}

weir_i128 model_promise_tick(const struct limit *limit, int64_t due)
{
    weir_i128 before = model_tick(limit, due - 1), at = model_tick(limit, due);
    return before < at ? before + 1 : at;
}

int64_t model_when(const struct limit *limit, weir_i128 tick, int64_t from)
{
    int64_t low = from, high = WEIR_TIME_MAX;
    if (model_tick(limit, low) >= tick)
        return low;
    if (model_tick(limit, high) < tick)
        return WEIR_FOREVER;
    while (high - low > 1) { /* low is too early, high is not */
        int64_t middle = low + (high - low) / 2;
        if (model_tick(limit, middle) >= tick)
            high = middle;
        else
            low = middle;
    }
    return high;
}

weir_i128 model_div_up(weir_i128 a, weir_i128 b)
{
    return a / b + (a % b > 0);
}

/* ---- one limit at a time ---- */

static int64_t clamp_time(int64_t now)
{
    return now < 0 ? 0 : now > WEIR_TIME_MAX ? WEIR_TIME_MAX : now;
}

static int64_t as_of(const struct model_policy *model, int64_t now)
{
    return model->promised > now ? model->promised : now;
}

/* What changes a state after the latest promise has come true ends an age: no promise of it comes back. */
static int64_t settle(struct model_policy *model, int64_t now)
{
    if (model->promised > 0 && model->promised <= now) {
        model->promised = 0;
        model->age++;
    }
    return as_of(model, now);
}

static int64_t due_of(const struct model_policy *model, size_t i, int64_t now, int64_t n)
{
    int64_t due = model->limits[i].machine->due(&model->limits[i], as_of(model, now), n);
    return due > WEIR_TIME_MAX ? WEIR_FOREVER : due;
}

static int64_t remaining_of(const struct model_policy *model, size_t i, int64_t now)
{
    return model->promised > now ? 0 : model->limits[i].machine->remaining(&model->limits[i], now);
}

static void model_start(struct model *model, const struct limit *limit, int64_t now)
{
    memset(model, 0, offsetof(struct model, u));
    model->machine = machines[limit->spec.algo];
    model->limit = limit;
    model->machine->init(model, now);
}

static void model_stop(struct model *model)
{
    if (model->machine == &model_sliding_log)
        free(model->u.log.times);
}

static void init(struct model_policy *model, const struct weir_policy *policy, int64_t now)
{
    model->paused = false;
    model->count = policy->count;
    model->promised = model->age = model->number = 0;
    for (size_t i = 0; i < policy->count; i++)
        model_start(&model->limits[i], &policy->limits[i], clamp_time(now));
}

void model_init(struct model_policy *model, const struct weir_policy *policy, int64_t now)
{
    model->limiter = false;
    init(model, policy, now);
}

bool model_is_wide(const struct model_policy *model)
{
    const struct machine *machine = model->limits[0].machine;
    bool word = machine == &model_token_bucket || machine == &model_leaky_bucket ||
                machine == &model_smooth || machine == &model_unlimited || machine == &model_blocked;
    return model->limiter && !(word && model->count == 1);
}

void model_init_limiter(struct model_policy *model, const struct weir_policy *policy, int64_t now)
{
    model->limiter = true;
    init(model, policy, now);
}

void model_free(struct model_policy *model)
{
    for (size_t i = 0; i < model->count; i++)
        model_stop(&model->limits[i]);
    model->count = 0;
}

/* ---- reserve ---- */

struct answer {
    int64_t due, yes; /* when the units pass; when the question is answered with yes */
    int32_t limit, reason;
};

static struct answer ask(const struct model_policy *model, int64_t now, int64_t n, int64_t timeout)
{
    struct answer answer = {.due = now, .yes = now, .reason = WEIR_OK};
    for (size_t i = 0; i < model->count; i++) {
        int64_t due = due_of(model, i, now, n);
        if (due > answer.due) {
            answer.due = due;
            answer.limit = (int32_t)i;
        }
    }
    if (answer.due == WEIR_FOREVER) {
        answer.yes = WEIR_FOREVER;
        answer.reason = WEIR_NEVER;
        return answer;
    }
    if ((weir_i128)answer.due - timeout > now) {
        answer.yes = answer.due - timeout;
        answer.reason = WEIR_LATER;
    }
    for (size_t i = 0; i < model->count; i++) {
        const struct model *limit = &model->limits[i];
        int64_t open = limit->machine->open ? limit->machine->open(limit, now, n, answer.due) : now;
        if (open > answer.yes) {
            answer.yes = open;
            answer.limit = (int32_t)i;
            answer.reason = WEIR_FULL;
        }
    }
    return answer;
}

static bool refuse(struct model_policy *model, int64_t now, int64_t n, int64_t timeout)
{
    bool told = false;
    for (size_t i = 0; i < model->count; i++) {
        struct model *limit = &model->limits[i];
        int64_t due = due_of(model, i, now, n);
        if (!limit->machine->refuse || (due != WEIR_FOREVER && (weir_i128)due - timeout <= now))
            continue;
        limit->machine->refuse(limit, as_of(model, now), n);
        told = true;
    }
    return told;
}

static int64_t reset_of(const struct model_policy *model, size_t i, int64_t now)
{
    int64_t fresh = model->limits[i].machine->fresh(&model->limits[i], as_of(model, now));
    return fresh > WEIR_TIME_MAX ? WEIR_FOREVER : fresh - now;
}

static weir_i128 whole_of(const struct model_policy *model, size_t i)
{
    int64_t units = weir_limit_capacity(model->limits[i].limit);
    return units < 1 ? 1 : units;
}

/* The least share left; of several the one that resets last; of those the first. Shares are compared as
 * fractions, from the last limit to the first. */
static size_t tightest(const struct model_policy *model, int64_t now)
{
    size_t best = model->count - 1;
    for (size_t i = best; i-- > 0;) {
        weir_i128 mine = (weir_i128)remaining_of(model, i, now) * whole_of(model, best);
        weir_i128 its = (weir_i128)remaining_of(model, best, now) * whole_of(model, i);
        if (mine < its || (mine == its && reset_of(model, i, now) >= reset_of(model, best, now)))
            best = i;
    }
    return best;
}

bool model_has_no_more_left(const struct model_policy *model, int64_t now, size_t i, size_t j)
{
    now = clamp_time(now);
    weir_i128 mine = remaining_of(model, i, now), its = remaining_of(model, j, now);
    return (mine - 1) * whole_of(model, j) <= (its + 1) * whole_of(model, i);
}

void model_describe(const struct model_policy *model, int64_t now, size_t i, struct weir_verdict *v)
{
    const struct model *limit = &model->limits[i];
    now = clamp_time(now);
    v->limit = (int32_t)i;
    v->remaining = remaining_of(model, i, now);
    v->reset_after_ns = reset_of(model, i, now);
    v->behind_ns = limit->machine == &model_hybrid ? model_hybrid_behind(limit, now) : 0;
}

/* All numbers of one limit: that which refused, or makes the caller wait; else the tightest. */
static void describe(const struct model_policy *model, int64_t now, struct weir_verdict *v)
{
    bool free = v->allowed && v->wait_ns == 0;
    model_describe(model, now, free ? tightest(model, now) : (size_t)v->limit, v);
}

static void enter(struct model_policy *model, int64_t now, int64_t n, int64_t due,
                  struct model_promise *promises)
{
    (void)settle(model, now);
    int64_t before = model->promised;
    if (due > now)
        model->number++;
    for (size_t i = 0; i < model->count; i++) {
        struct model *limit = &model->limits[i];
        bool waits = due > now && limit->machine->promise;
        weir_i128 mark = (waits ? limit->machine->promise : limit->machine->enter)(limit, due, n);
        if (promises)
            promises[i] = (struct model_promise){n, due - now, due, before, model->age, mark, model->number};
    }
    if (due > now)
        model->promised = due;
}

/* The shortest timeout= there is. */
static int64_t own_timeout(const struct model_policy *model)
{
    int64_t shortest = WEIR_FOREVER;
    for (size_t i = 0; i < model->count; i++) {
        int64_t timeout = model->limits[i].limit->spec.timeout_ns;
        if (timeout > 0 && timeout < shortest)
            shortest = timeout;
    }
    return shortest == WEIR_FOREVER ? 0 : shortest;
}

bool model_reserve(struct model_policy *model, int64_t now, int64_t n, int64_t timeout, bool peek,
                   struct model_promise *promises, struct weir_verdict *verdict)
{
    if (n < 1) {
        *verdict = (struct weir_verdict){.reason = WEIR_INVALID, .retry_after_ns = WEIR_FOREVER};
        return false;
    }
    if (model->paused) {
        *verdict = (struct weir_verdict){.reason = WEIR_NEVER, .retry_after_ns = WEIR_FOREVER};
        return false;
    }
    now = clamp_time(now);
    if (timeout < 0)
        timeout = own_timeout(model);
    struct answer answer = ask(model, now, n, timeout);
    bool allowed = answer.reason == WEIR_OK;
    if (allowed && !peek)
        enter(model, now, n, answer.due, promises);
    else if (!allowed && !peek && refuse(model, now, n, timeout))
        answer = ask(model, now, n, timeout);
    *verdict = (struct weir_verdict){
        .allowed = allowed,
        .reason = answer.reason,
        .retry_after_ns = answer.yes == WEIR_FOREVER ? WEIR_FOREVER : answer.yes - now,
        .wait_ns = allowed ? answer.due - now : 0,
        .limit = answer.limit,
    };
    describe(model, now, verdict);
    return allowed;
}

/* What a limiter of several limits knows of its marks: nothing, and of a log that all may have been full. */
static void forget_marks(const struct model_policy *model, struct model_promise *promises)
{
    for (size_t i = 0; i < model->count; i++)
        promises[i].mark =
            model->limits[i].machine == &model_sliding_log ? promises[i].n : (weir_i128)INT64_MIN;
}

bool model_cancel(struct model_policy *model, int64_t now, struct model_promise *promises)
{
    int64_t due = promises[0].due, before = promises[0].before;
    bool undone = promises[0].number == model->number;
    if (promises[0].n < 1 || promises[0].wait < 1 || clamp_time(now) >= due || due > model->promised ||
        promises[0].age != model->age)
        return false;
    if (model->limiter && model->count > 1)
        forget_marks(model, promises);
    for (size_t i = 0; i < model->count; i++) {
        bool last = model->limits[i].machine->cancel(&model->limits[i], &promises[i], model->promised);
        undone = undone && last;
        promises[i].n = 0;
    }
    if (undone) {
        model->promised = before;
        model->number--;
    }
    return true;
}

/* Models are large, and mostly unused. */
static void model_copy(struct model *to, const struct model *from)
{
    size_t size = sizeof *from;
    if (from->machine == &model_token_bucket)
        size =
            offsetof(struct model, u.bucket.events) + from->u.bucket.count * sizeof from->u.bucket.events[0];
    memcpy(to, from, size);
    if (from->machine == &model_token_bucket)
        to->u.bucket.count = from->u.bucket.count;
    if (from->machine != &model_sliding_log)
        return;
    size_t count = (size_t)from->limit->spec.count;
    to->u.log.times = calloc(count, sizeof *to->u.log.times);
    if (!to->u.log.times)
        abort();
    memcpy(to->u.log.times, from->u.log.times, count * sizeof *to->u.log.times);
}

void model_keep(const struct model_policy *model, struct model_policy *copy)
{
    copy->limiter = model->limiter;
    copy->paused = model->paused;
    copy->count = model->count;
    copy->promised = model->promised;
    copy->age = model->age;
    copy->number = model->number;
    for (size_t i = 0; i < model->count; i++)
        model_copy(&copy->limits[i], &model->limits[i]);
}

void model_restore(struct model_policy *model, struct model_policy *copy)
{
    bool paused = model->paused; /* a pause goes on */
    model_free(model);
    model_keep(copy, model);
    model_free(copy);
    model->paused = paused;
}

/* ---- the other verbs ---- */

void model_give(struct model_policy *model, int64_t now, int64_t n)
{
    now = clamp_time(now);
    if (n < 1 || settle(model, now) > now)
        return;
    for (size_t i = 0; i < model->count; i++)
        model->limits[i].machine->give(&model->limits[i], now, n);
}

void model_charge(struct model_policy *model, int64_t now, int64_t n)
{
    for (size_t i = 0; i < model->count && n > 0; i++)
        model->limits[i].machine->charge(&model->limits[i], settle(model, clamp_time(now)), n);
}

int64_t model_drain(struct model_policy *model, int64_t now)
{
    int64_t least = INT64_MAX;
    now = clamp_time(now);
    if (settle(model, now) > now)
        return 0;
    for (size_t i = 0; i < model->count; i++) {
        int64_t remaining = remaining_of(model, i, now);
        model->limits[i].machine->drain(&model->limits[i], now);
        if (remaining < least && remaining_of(model, i, now) < remaining)
            least = remaining;
    }
    return least == INT64_MAX ? 0 : least;
}

void model_reset(struct model_policy *model, const struct weir_policy *policy, int64_t now)
{
    int64_t age = model->age + 1;
    bool paused = model->paused;
    model_free(model);
    init(model, policy, now);
    model->age = age;
    model->paused = paused;
}

int64_t model_restart(struct model_policy *model, int64_t now)
{
    int64_t discarded = 0, time = settle(model, clamp_time(now));
    for (size_t i = 0; i < model->count; i++) {
        struct model *limit = &model->limits[i];
        if (limit->machine != &model_hybrid)
            continue;
        int64_t behind = model_hybrid_restart(limit, time);
        discarded = behind > discarded ? behind : discarded;
        model->age++;
    }
    return discarded;
}

int64_t model_behind(const struct model_policy *model, int64_t now)
{
    int64_t most = 0;
    for (size_t i = 0; i < model->count; i++) {
        const struct model *limit = &model->limits[i];
        if (limit->machine != &model_hybrid)
            continue;
        int64_t behind = model_hybrid_total(limit, clamp_time(now));
        most = behind > most ? behind : most;
    }
    return most;
}

/* ---- live change ---- */

/* 3: same name, 2: same period, 1: same algorithm, 0: strangers. */
static int kinship(const struct weir_spec *a, const struct weir_spec *b)
{
    if (a->algo != b->algo)
        return 0;
    if (a->name[0] && strcmp(a->name, b->name) == 0)
        return 3;
    return a->period_ns == b->period_ns ? 2 : 1;
}

static int64_t due_when_empty(const struct model *model, int64_t now)
{
    struct model_policy empty = {.count = 1};
    model_start(&empty.limits[0], model->limit, now);
    empty.limits[0].machine->drain(&empty.limits[0], now);
    int64_t due = due_of(&empty, 0, now, 1);
    model_stop(&empty.limits[0]);
    return due;
}

void model_change(struct model_policy *model, const struct weir_policy *next, int64_t now, bool *kept)
{
    struct model_policy old = *model;
    int64_t time = as_of(model, clamp_time(now));
    bool used[MODEL_LIMITS] = {false}, paired[MODEL_LIMITS] = {false};
    model->age++;
    for (int wanted = 3; wanted >= 1; wanted--)
        for (size_t i = 0; i < next->count; i++)
            for (size_t j = 0; j < old.count; j++)
                if (!paired[i] && !used[j] &&
                    kinship(&old.limits[j].limit->spec, &next->limits[i].spec) == wanted) {
                    paired[i] = used[j] = true;
                    kept[i] = i == j;
                    model->limits[i] = old.limits[j];
                    model->limits[i].machine->change(&model->limits[i], &next->limits[i], time);
                    model->limits[i].limit = &next->limits[i];
                }
    int64_t left = 0; /* when those without a successor would be out of debt */
    for (size_t j = 0; j < old.count; j++) {
        if (used[j])
            continue;
        int64_t due = due_of(&old, j, clamp_time(now), 1);
        int64_t debt = due == WEIR_FOREVER ? 0 : due - due_when_empty(&old.limits[j], clamp_time(now));
        left = debt > 0 && clamp_time(now) + debt > left ? clamp_time(now) + debt : left;
        model_stop(&old.limits[j]);
    }
    for (size_t i = 0; i < next->count; i++) {
        if (paired[i])
            continue;
        kept[i] = false;
        model_start(&model->limits[i], &next->limits[i], clamp_time(now));
        model->limits[i].machine->drain(&model->limits[i], time);
        if (left > model->promised)
            model->promised = left;
    }
    model->count = next->count;
    if (next->count == 1 && next->limits[0].spec.algo == WEIR_UNLIMITED)
        model->promised = 0;
}
