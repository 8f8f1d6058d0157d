/* SPDX-License-Identifier: MIT */
/*
 * What the property engine drives: a state of the pure core, or a limiter in the hands of one thread, through
 * the calls that take the time.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/state.h"
#include "limiter/limiter.h"
#include "property/run.h"

/* ---- a state ---- */

static void state_begin(struct run *run, int64_t at)
{
    weir_state_init(run->policy, run->state, at);
}

static void state_end(struct run *run)
{
    (void)run;
}

static bool state_take(struct run *run, int64_t at, int64_t n, struct weir_verdict *verdict)
{
    return weir_state_take(run->policy, run->state, at, n, verdict);
}

static bool state_peek(struct run *run, int64_t at, int64_t n, struct weir_verdict *verdict)
{
    return weir_state_peek(run->policy, run->state, at, n, verdict);
}

static bool state_reserve(struct run *run, int64_t at, int64_t n, int64_t timeout,
                          struct weir_reservation *reservations, struct weir_verdict *verdict)
{
    return weir_state_reserve(run->policy, run->state, at, n, timeout, reservations, verdict);
}

static bool state_cancel(struct run *run, int64_t at, struct weir_reservation *reservations)
{
    return weir_state_cancel(run->policy, run->state, at, reservations);
}

static void state_give(struct run *run, int64_t at, int64_t n)
{
    weir_state_give(run->policy, run->state, at, n);
}

static void state_charge(struct run *run, int64_t at, int64_t n)
{
    weir_state_charge(run->policy, run->state, at, n);
}

static int64_t state_drain(struct run *run, int64_t at)
{
    return weir_state_drain(run->policy, run->state, at);
}

static void state_reset(struct run *run, int64_t at)
{
    weir_state_reset(run->policy, run->state, at);
}

static int64_t state_restart(struct run *run, int64_t at)
{
    return weir_state_restart(run->policy, run->state, at);
}

static int64_t state_behind(struct run *run, int64_t at)
{
    return weir_state_behind(run->policy, run->state, at);
}

static void state_change(struct run *run, int64_t at, const struct weir_policy *policy,
                         const struct weir_policy *next)
{
    size_t size = weir_policy_state_size(policy);
    int64_t *state = run->state;
    memcpy(run->before, state, size);
    weir_state_change(policy, state, next, run->copy, at);
    if (memcmp(run->before, state, size) != 0)
        (void)snprintf(run->fault, sizeof run->fault, "a change touched the state it reads");
    run->state = run->copy;
    run->copy = state;
}

const struct subject subject_state = {
    .begin = state_begin,
    .end = state_end,
    .take = state_take,
    .peek = state_peek,
    .reserve = state_reserve,
    .cancel = state_cancel,
    .give = state_give,
    .charge = state_charge,
    .drain = state_drain,
    .reset = state_reset,
    .restart = state_restart,
    .behind = state_behind,
    .change = state_change,
};

/* ---- a limiter ---- */

/* What is in it, in the form of the core. */
static void look(struct run *run)
{
    const struct weir_limiter *limiter = run->limiter;
    if (limiter->state) {
        memcpy(run->state, limiter->state, run->size);
        return;
    }
    run->state[STATE_PROMISED] = word_figure(&limiter->word.until);
    run->state[STATE_GENERATION] = word_figure(&limiter->word.generation);
    if (run->policy->words == WORD_STATE)
        run->state[STATE_HEADER] =
            word_sub(word_figure(&limiter->word.index), word_figure(&limiter->word.bias));
}

static void limiter_specs(const struct weir_policy *policy, struct weir_spec *specs)
{
    for (size_t i = 0; i < policy->count; i++)
        specs[i] = policy->limits[i].spec;
}

/* For the calls that have no twin. */
static void set_clock(int64_t at)
{
    weir_clock_set(clamp64(at, 0, WEIR_TIME_MAX));
}

static void limiter_begin(struct run *run, int64_t at)
{
    struct weir_spec specs[WEIR_LIMITS_MAX];
    struct weir_error err;
    limiter_specs(run->policy, specs);
    set_clock(at);
    run->limiter = weir_limiter_from(specs, run->policy->count, &err);
    if (!run->limiter) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
    look(run);
}

static void limiter_end(struct run *run)
{
    weir_limiter_free(run->limiter);
}

static bool limiter_take(struct run *run, int64_t at, int64_t n, struct weir_verdict *verdict)
{
    bool allowed = weir_limiter_take_at(run->limiter, at, n, verdict);
    look(run);
    return allowed;
}

static bool limiter_peek(struct run *run, int64_t at, int64_t n, struct weir_verdict *verdict)
{
    bool allowed = weir_limiter_peek_at(run->limiter, at, n, verdict);
    look(run);
    return allowed;
}

static bool limiter_reserve(struct run *run, int64_t at, int64_t n, int64_t timeout,
                            struct weir_reservation *reservations, struct weir_verdict *verdict)
{
    bool allowed = weir_limiter_reserve_at(run->limiter, at, n, timeout, reservations, verdict);
    look(run);
    return allowed;
}

static bool limiter_cancel(struct run *run, int64_t at, struct weir_reservation *reservations)
{
    bool off = weir_limiter_cancel_at(run->limiter, at, reservations);
    look(run);
    return off;
}

static void limiter_give(struct run *run, int64_t at, int64_t n)
{
    weir_limiter_give_at(run->limiter, at, n);
    look(run);
}

static void limiter_charge(struct run *run, int64_t at, int64_t n)
{
    weir_limiter_charge_at(run->limiter, at, n);
    look(run);
}

static int64_t limiter_drain(struct run *run, int64_t at)
{
    int64_t drained = weir_limiter_drain_at(run->limiter, at);
    look(run);
    return drained;
}

static void limiter_reset(struct run *run, int64_t at)
{
    weir_limiter_reset_at(run->limiter, at);
    look(run);
}

static int64_t limiter_restart(struct run *run, int64_t at)
{
    int64_t discarded = weir_limiter_restart_at(run->limiter, at);
    look(run);
    return discarded;
}

static int64_t limiter_behind(struct run *run, int64_t at)
{
    struct weir_stat stat;
    weir_limiter_stat_at(run->limiter, at, &stat);
    return stat.behind_total_ns;
}

static void limiter_change(struct run *run, int64_t at, const struct weir_policy *policy,
                           const struct weir_policy *next)
{
    struct weir_spec specs[WEIR_LIMITS_MAX];
    (void)policy;
    limiter_specs(next, specs);
    set_clock(at);
    if (!weir_limiter_set_from(run->limiter, specs, next->count, NULL))
        (void)snprintf(run->fault, sizeof run->fault, "a live change was refused");
    look(run);
}

const struct subject subject_limiter = {
    .is_limiter = true,
    .begin = limiter_begin,
    .end = limiter_end,
    .take = limiter_take,
    .peek = limiter_peek,
    .reserve = limiter_reserve,
    .cancel = limiter_cancel,
    .give = limiter_give,
    .charge = limiter_charge,
    .drain = limiter_drain,
    .reset = limiter_reset,
    .restart = limiter_restart,
    .behind = limiter_behind,
    .change = limiter_change,
};
