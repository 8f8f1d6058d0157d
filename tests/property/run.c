/* SPDX-License-Identifier: MIT */
#include "property/run.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "core/state.h"
#include "limiter/limiter.h"
#include "property/agree.h"

/* ---- faults ---- */

__attribute__((format(printf, 2, 3))) static bool fail(struct run *run, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(run->fault, sizeof run->fault, format, args);
    va_end(args);
    return false;
}

static bool policy_has(const struct weir_policy *policy, int32_t algo)
{
    for (size_t i = 0; i < policy->count; i++)
        if (policy->limits[i].spec.algo == algo)
            return true;
    return false;
}

static bool has_algo(const struct run *run, int32_t algo)
{
    return policy_has(run->policy, algo);
}

/* Does a refusal change the state of one of the limits? */
static bool counts_refusals(const struct run *run)
{
    for (size_t i = 0; i < run->policy->count; i++)
        if (run->policy->limits[i].spec.refused != WEIR_REFUSED_IGNORE)
            return true;
    return false;
}

static bool same_state(const struct run *run, const int64_t *a, const int64_t *b)
{
    return memcmp(a, b, run->size) == 0;
}

/* ---- agreement with the model ---- */

static bool near(const struct run *run, int64_t a, int64_t b)
{
    return agree_near(run->policy, &run->model, a, b);
}

static bool agree(struct run *run, const char *verb, const struct weir_verdict *got,
                  const struct weir_verdict *want)
{
    return agree_verdicts(run->policy, &run->model, run->now, got, want) ||
           (agree_print(verb, got, want, run->fault, sizeof run->fault), false);
}

static double saved_of(const int64_t *words)
{
    double saved;
    memcpy(&saved, &words[1], sizeof saved);
    return saved;
}

/* Lets the models of doubles take over the words of the state. */
static bool adopt(struct run *run)
{
    for (size_t i = 0; i < run->model.count; i++) {
        const int64_t *words = run->state + run->policy->limits[i].offset;
        if (run->model.limits[i].machine == &model_warmup &&
            !model_warmup_adopt(&run->model.limits[i], words))
            return fail(
                run, "the words of limit %zu are off the model: next %" PRId64 " %" PRId64 ", saved %a %La",
                i, words[0], run->model.limits[i].u.warmup.next, saved_of(words),
                run->model.limits[i].u.warmup.stored);
    }
    return true;
}

/* ---- the exact undo of a limiter ---- */

static void undo_drop(struct run *run)
{
    if (run->undo.kept)
        model_free(&run->undo.model);
    run->undo.kept = false;
}

/* Called before the model makes the promise. */
static void undo_keep(struct run *run)
{
    undo_drop(run);
    if (!model_is_wide(&run->model) || run->policy->words > UNDO_WORDS)
        return;
    run->undo.kept = true;
    model_keep(&run->model, &run->undo.model);
    memcpy(run->undo.clock, run->law.clock, sizeof run->undo.clock);
    memcpy(run->undo.local, run->law.local, sizeof run->undo.local);
}

/* As if it had never been: the limits have not seen its time either. false: it is not the last thing that
 * happened, or too late. */
static bool undo_promise(struct run *run, struct held *held)
{
    struct model_promise *p = held->promises;
    const struct run_undo *undo = &run->undo;
    if (!undo->kept || p->n < 1 || p->wait < 1 || run->now >= p->due)
        return false;
    if (p->n != undo->n || p->due != undo->due || p->age != undo->age || p->number != undo->number)
        return false;
    model_restore(&run->model, &run->undo.model);
    memcpy(run->law.clock, run->undo.clock, sizeof run->undo.clock);
    memcpy(run->law.local, run->undo.local, sizeof run->undo.local);
    memcpy(run->before, run->state, run->size);
    run->undo.kept = false;
    for (size_t i = 0; i < run->policy->count; i++)
        p[i].n = 0;
    return true;
}

/* ---- is the verdict true? ---- */

static bool peek(struct run *run, int64_t now, int64_t n, struct weir_verdict *verdict)
{
    run->decisions++;
    return run->subject->peek(run, now, n, verdict);
}

/* The same question with the same timeout, asked of a copy. */
static bool ask_again(struct run *run, int64_t now, int64_t n, int64_t timeout)
{
    if (timeout <= 0)
        return peek(run, now, n, NULL);
    run->decisions++;
    memcpy(run->copy, run->state, run->size);
    return weir_state_reserve(run->policy, run->copy, now, n, timeout, NULL, NULL);
}

static bool check_retry(struct run *run, int64_t n, int64_t timeout, const struct weir_verdict *v)
{
    if (v->allowed || v->retry_after_ns == WEIR_FOREVER)
        return true;
    if (v->retry_after_ns <= 0)
        return fail(run, "refused, but to be asked again after %" PRId64 " ns", v->retry_after_ns);
    if (!ask_again(run, run->now + v->retry_after_ns, n, timeout))
        return fail(run, "refused again after retry_after %" PRId64, v->retry_after_ns);
    if (ask_again(run, run->now + v->retry_after_ns - 1, n, timeout))
        return fail(run, "allowed 1 ns before retry_after %" PRId64, v->retry_after_ns);
    return true;
}

/* So many pass and not one more, unless another limit has less; smooth and warmup say what is saved instead,
 * and let any n start. */
static bool check_remaining(struct run *run, const struct weir_verdict *v)
{
    if (run->policy->count > 1 || has_algo(run, WEIR_SMOOTH) || has_algo(run, WEIR_WARMUP))
        return v->remaining >= 0 || fail(run, "remaining is %" PRId64, v->remaining);
    if (v->remaining < 0 || (v->remaining > 0 && !peek(run, run->now, v->remaining, NULL)))
        return fail(run, "remaining %" PRId64 " do not pass", v->remaining);
    if (v->remaining < INT64_MAX && peek(run, run->now, v->remaining + 1, NULL))
        return fail(run, "more than remaining %" PRId64 " pass", v->remaining);
    return true;
}

/* What a limit that was never used lets pass at once; 0: it does not say. */
static int64_t fresh_remaining(const struct limit *limit)
{
    switch ((enum weir_algo)limit->spec.algo) {
    case WEIR_TOKEN_BUCKET:
    case WEIR_STEP:
        return limit->spec.burst;
    case WEIR_INTERVAL:
        return 1;
    case WEIR_LEAKY_BUCKET:
        return limit->spec.queue + 1;
    case WEIR_FIXED_WINDOW:
    case WEIR_QUOTA:
    case WEIR_SLIDING_WINDOW:
    case WEIR_SLIDING_LOG:
        return limit->spec.count;
    default:
        return 0;
    }
}

static bool check_reset(struct run *run, const struct weir_verdict *v)
{
    int64_t full = run->policy->count == 1 ? fresh_remaining(&run->policy->limits[0]) : 0;
    struct weir_verdict then;
    if (v->reset_after_ns < 0)
        return fail(run, "reset_after is %" PRId64, v->reset_after_ns);
    if (full == 0 || v->reset_after_ns == WEIR_FOREVER)
        return true;
    (void)peek(run, run->now + v->reset_after_ns, 1, &then);
    if (then.remaining != full || then.reset_after_ns != 0)
        return fail(run, "after reset_after %" PRId64 " only %" PRId64 " pass", v->reset_after_ns,
                    then.remaining);
    if (v->reset_after_ns == 0)
        return true;
    (void)peek(run, run->now + v->reset_after_ns - 1, 1, &then);
    return then.remaining < full ||
           fail(run, "as if never used before reset_after %" PRId64, v->reset_after_ns);
}

static bool check_shape(struct run *run, const struct weir_verdict *v)
{
    if (v->allowed != (v->reason == WEIR_OK) || (v->allowed && v->retry_after_ns != 0))
        return fail(run, "allowed %d with reason %d, retry_after %" PRId64, v->allowed, v->reason,
                    v->retry_after_ns);
    bool forever = v->retry_after_ns == WEIR_FOREVER;
    bool never = v->reason == WEIR_NEVER || v->reason == WEIR_INVALID;
    if (forever != never && v->reason != WEIR_FULL)
        return fail(run, "reason %d with retry_after %" PRId64, v->reason, v->retry_after_ns);
    return true;
}

/* ---- operations ---- */

/* A peek says what the model says, and changes nothing. */
static bool op_peek(struct run *run, int64_t at, int64_t n)
{
    struct weir_verdict got, want;
    memcpy(run->before, run->state, run->size);
    bool allowed = peek(run, at, n, &got);
    if (!same_state(run, run->before, run->state))
        return fail(run, "a peek changed the state");
    (void)model_reserve(&run->model, at, n, 0, true, NULL, &want);
    run->last = got;
    if (!got.allowed && n > 0)
        run->retry = got;
    if (allowed != (got.allowed == 1))
        return fail(run, "peek returns %d, but the verdict says %d", allowed, got.allowed);
    return agree(run, "peek", &got, &want) && check_shape(run, &got) &&
           (n < 1 || check_retry(run, n, 0, &got));
}

static bool op_reserve(struct run *run, const struct op *op)
{
    bool take = op->kind == OP_TAKE;
    int64_t timeout = take ? 0 : op->timeout;
    struct held *held = &run->held[run->held_count];
    struct weir_verdict got, want, peeked;
    /* A limiter takes a shorter way if nobody wants a verdict; then a peek tells what it has done. */
    bool silent = take && run->subject->is_limiter && op->id % 2 == 0;
    bool peek_allowed = peek(run, op->at, op->n, &peeked);
    memcpy(run->before, run->state, run->size);
    run->decisions++;
    bool allowed = take ? run->subject->take(run, op->at, op->n, silent ? NULL : &got)
                        : run->subject->reserve(run, op->at, op->n, timeout, held->reservations, &got);
    if (allowed && !take)
        undo_keep(run);
    else if (allowed || (op->n > 0 && !run->model.paused && counts_refusals(run))) /* none while paused */
        undo_drop(run);
    bool wanted = model_reserve(&run->model, op->at, op->n, timeout, false, held->promises, &want);
    if (wanted && run->undo.kept && !take) {
        run->undo.n = op->n;
        run->undo.due = held->promises[0].due;
        run->undo.age = held->promises[0].age;
        run->undo.number = held->promises[0].number;
    }
    if (silent) {
        got = want;
        got.allowed = allowed;
    }
    run->last = got;
    if (!got.allowed && op->n > 0)
        run->retry = got;
    if (allowed != (got.allowed == 1) || (take && allowed != peek_allowed))
        return fail(run, "returns %d, verdict %d, peek before %d", allowed, got.allowed, peek_allowed);
    if (!agree(run, take ? "take" : "reserve", &got, &want) || allowed != wanted)
        return false;
    if (!allowed && !counts_refusals(run) && !same_state(run, run->before, run->state))
        return fail(run, "a refusal changed the state");
    if (op->n < 1 && !same_state(run, run->before, run->state))
        return fail(run, "a question without sense changed the state");
    if (!adopt(run) || (silent && !op_peek(run, op->at, 1)) || !check_shape(run, &got) ||
        (op->n > 0 && !check_retry(run, op->n, timeout, &got)) ||
        (op->n > 0 && !run->model.paused && !(check_remaining(run, &got) && check_reset(run, &got))))
        return false;
    if (!allowed)
        return true;
    size_t event = law_admit(&run->law, run->now, run->now + got.wait_ns, op->n);
    if (take)
        return true;
    for (size_t i = 0; i < (run->subject->is_limiter ? 1 : run->policy->count); i++)
        if (held->reservations[i].n != op->n || held->reservations[i].wait_ns != got.wait_ns ||
            held->reservations[i].due_ns != run->now + got.wait_ns)
            return fail(run, "reservation %zu is not what the verdict says", i);
    for (size_t i = 0; i < run->policy->count; i++)
        if (run->model.limits[i].machine == &model_warmup)
            held->promises[i].mark = run->model.limits[i].u.warmup.next; /* as adopted */
    held->id = op->id;
    held->passed = false;
    held->event = event;
    run->held_count++;
    return true;
}

static bool op_cancel(struct run *run, const struct op *op)
{
    for (size_t i = 0; i < run->held_count; i++) {
        struct held *held = &run->held[i];
        if (held->id != op->ref)
            continue;
        int64_t due = held->promises[0].due;
        if (held->passed && run->now < due && due <= run->model.promised)
            continue; /* nobody hands back what he has used, whatever the clock says */
        memcpy(run->before, run->state, run->size);
        bool got = run->subject->cancel(run, op->at, held->reservations);
        bool want = undo_promise(run, held) || model_cancel(&run->model, op->at, held->promises);
        if (want)
            undo_drop(run);
        if (got != want)
            return fail(run, "cancel returns %d, the model %d", got, want);
        if (!got && !same_state(run, run->before, run->state))
            return fail(run, "a cancel that came too late changed the state");
        if (got)
            law_cancel(&run->law, held->event);
    }
    return adopt(run);
}

/* `blocked`, and nothing else. */
static bool is_blocked(const struct weir_policy *policy)
{
    return policy->count == 1 && policy->limits[0].spec.algo == WEIR_BLOCKED;
}

static bool is_same(const struct weir_policy *policy, const struct weir_policy *next)
{
    bool same = policy->count == next->count;
    for (size_t i = 0; same && i < next->count; i++)
        same = next->limits[i].spec.verb == WEIR_VERB_NONE &&
               memcmp(&policy->limits[i].spec, &next->limits[i].spec, sizeof(struct weir_spec)) == 0;
    return same;
}

static bool put_policy(struct run *run, int64_t at, const struct weir_policy *next)
{
    const struct weir_policy *policy = run->policy;
    run->policy = next;
    run->size = weir_policy_state_size(next);
    run->subject->change(run, at, policy, next);
    return run->fault[0] == '\0' && adopt(run);
}

/* A limiter that began as `blocked` has let nothing pass yet: it starts fresh. */
static bool begin_anew(struct run *run, const struct op *op, const struct weir_policy *next)
{
    model_free(&run->model);
    model_init_limiter(&run->model, next, op->at);
    law_start(&run->law, next, run->now);
    return put_policy(run, op->at, next);
}

static bool change_all(struct run *run, const struct op *op, const struct weir_policy *next)
{
    bool kept[MODEL_LIMITS] = {false};
    struct weir_verdict before;
    undo_drop(run);
    if (run->subject->is_limiter && is_blocked(run->policy))
        return begin_anew(run, op, next);
    (void)weir_state_peek(run->policy, run->state, op->at, 1, &before);
    model_change(&run->model, next, op->at, kept);
    run->model.paused = false;
    law_change(&run->law, next, run->now, sat_add(run->now, before.retry_after_ns), kept);
    return put_policy(run, op->at, next);
}

/* A limiter that is set to what it is stays as it is; and `blocked` is a pause. */
static bool op_change(struct run *run, const struct op *op)
{
    const struct weir_policy *next = run->scenario->policies[op->ref], *said = run->said;
    bool same = run->subject->is_limiter && is_same(said, next);
    bool pause = run->subject->is_limiter && is_blocked(next) && !is_blocked(run->policy);
    run->said = next;
    if (!same && !pause) {
        if (!policy_has(next, WEIR_HYBRID))
            run->behind_before = sat_add(run->behind_before, model_behind(&run->model, op->at));
        return change_all(run, op, next);
    }
    memcpy(run->before, run->state, run->size);
    run->subject->change(run, op->at, said, next);
    run->model.paused = run->model.paused || pause;
    return same_state(run, run->before, run->state) || fail(run, "a change that is none changed the state");
}

static bool op_drain(struct run *run, int64_t at)
{
    int64_t got = run->subject->drain(run, at), want = model_drain(&run->model, at);
    undo_drop(run);
    if (!near(run, got, want))
        return fail(run, "drain gives %" PRId64 ", the model %" PRId64, got, want);
    return adopt(run);
}

static bool op_restart(struct run *run, int64_t at)
{
    int64_t got = run->subject->restart(run, at), want = model_restart(&run->model, at);
    undo_drop(run);
    return got == want || fail(run, "restart gives %" PRId64 ", the model %" PRId64, got, want);
}

static bool apply(struct run *run, const struct op *op)
{
    switch (op->kind) {
    case OP_TAKE:
    case OP_RESERVE:
        return op_reserve(run, op);
    case OP_PEEK:
        return op_peek(run, op->at, op->n);
    case OP_CANCEL:
        return op_cancel(run, op);
    case OP_GIVE:
        if (op->n > 0 && run->model.promised <= run->now) /* else it is dropped */
            undo_drop(run);
        run->subject->give(run, op->at, op->n);
        model_give(&run->model, op->at, op->n);
        if (op->n > 0)
            law_give(&run->law, run->now, op->n);
        return adopt(run);
    case OP_CHARGE:
        run->subject->charge(run, op->at, op->n);
        model_charge(&run->model, op->at, op->n);
        if (op->n > 0)
            undo_drop(run);
        return adopt(run);
    case OP_DRAIN:
        return op_drain(run, op->at);
    case OP_RESET:
        if (!run_finish(run))
            return false;
        run->subject->reset(run, op->at);
        undo_drop(run);
        model_reset(&run->model, run->policy, op->at);
        law_start(&run->law, run->policy, run->now);
        return adopt(run);
    case OP_CHANGE:
        return op_change(run, op);
    case OP_RESTART:
        return op_restart(run, op->at);
    }
    return false;
}

/* A promise moves a window to its own time, where it stays if the promise is cancelled. */
static bool is_window(const struct limit *limit)
{
    return limit->algorithm == &weir_window;
}

/* Tells the log which limits have seen this time. A give settles a promise that has come true, and keeps no
 * time: see law_give. */
static void touch(struct run *run, bool gives)
{
    for (size_t i = 0; i < run->held_count; i++)
        run->held[i].passed = run->held[i].passed || run->now >= run->held[i].promises[0].due;
    for (size_t i = 0; i < run->policy->count; i++) {
        const struct model *model = &run->model.limits[i];
        if (model->machine == &model_hybrid && !model->u.hybrid.started)
            continue; /* its time has not begun */
        size_t from = run->policy->limits[i].offset;
        int64_t promised = run->before[STATE_PROMISED];
        if (promised <= run->now && (!gives || is_window(&run->policy->limits[i]))) /* has come true */
            law_touch(&run->law, i, promised);
        size_t to = i + 1 < run->policy->count ? run->policy->limits[i + 1].offset : run->policy->words;
        if (memcmp(run->state + from, run->before + from, (to - from) * sizeof *run->state) != 0)
            law_touch(&run->law, i, run->now);
    }
}

bool run_op(struct run *run, const struct op *op)
{
    run->now = clamp64(op->at, 0, WEIR_TIME_MAX);
    memcpy(run->before, run->state, run->size);
    bool good = apply(run, op);
    if (op->kind != OP_CHANGE && op->kind != OP_RESET)
        touch(run, op->kind == OP_GIVE);
    if (!good)
        return false;
    int64_t got = run->subject->behind(run, op->at), want = model_behind(&run->model, op->at);
    if (run->subject->is_limiter)
        want = sat_add(want, run->behind_before);
    if (got != want)
        return fail(run, "behind is %" PRId64 ", in the model %" PRId64, got, want);
    return op->kind == OP_TAKE || op->kind == OP_PEEK || op->kind == OP_RESERVE || op_peek(run, op->at, 1);
}

/* ---- a whole run ---- */

static int64_t *allocate(size_t size)
{
    int64_t *words = calloc(1, size + sizeof *words);
    if (!words)
        abort();
    return words;
}

bool run_begin(struct run *run, const struct scenario *scenario)
{
    size_t size = 0;
    for (size_t i = 0; i < SCENARIO_POLICIES; i++) {
        size_t one = weir_policy_state_size(scenario->policies[i]);
        size = one > size ? one : size;
    }
    run->scenario = scenario;
    run->subject = scenario->subject;
    run->undo.kept = false;
    run->policy = run->said = scenario->policies[0];
    run->behind_before = 0;
    run->size = weir_policy_state_size(run->policy);
    run->state = allocate(size);
    run->before = allocate(size);
    run->copy = allocate(size);
    run->held_count = 0;
    run->decisions = 0;
    run->fault[0] = '\0';
    run->now = clamp64(scenario->start, 0, WEIR_TIME_MAX);
    run->last = run->retry = (struct weir_verdict){0};
    run->subject->begin(run, scenario->start);
    (run->subject->is_limiter ? model_init_limiter : model_init)(&run->model, run->policy, scenario->start);
    law_start(&run->law, run->policy, run->now);
    return adopt(run) && op_peek(run, scenario->start, 1);
}

bool run_finish(struct run *run)
{
    struct law_fault fault;
    for (size_t i = 0; i < run->policy->count; i++)
        if (!law_holds(&run->law, i, &fault) || !law_most_holds(&run->law, i, &fault))
            return fail(run, "limit %zu: %s", i, fault.text);
    return true;
}

void run_end(struct run *run)
{
    undo_drop(run);
    run->subject->end(run);
    model_free(&run->model);
    free(run->state);
    free(run->before);
    free(run->copy);
}

bool run_scenario(const struct scenario *scenario, char *fault, size_t size)
{
    struct run *run = malloc(sizeof *run);
    if (!run)
        abort();
    bool good = run_begin(run, scenario);
    for (size_t i = 0; good && i < scenario->count; i++)
        good = run_op(run, &scenario->ops[i]);
    good = good && run_finish(run);
    if (fault)
        (void)snprintf(fault, size, "%s", run->fault);
    run_end(run);
    free(run);
    return good;
}
