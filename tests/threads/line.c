/* SPDX-License-Identifier: MIT */
/*
 * A line of waiting threads, and everything that may happen to it: they are stopped, others take and reserve
 * and cancel in between, handles come and go, the limit changes, pauses and goes on. One thread does it all,
 * step by step, by a clock that is set by hand. So after each step it is known who waits until when: the line
 * stays in order, nobody is ever later than he was told, and in the end what was admitted keeps the law to
 * the nanosecond.
 */
#include "base/sat.h"
#include "check.h"
#include "core/state.h"
#include "limiter/limiter.h"
#include "threads/crowd.h"
#include "threads/replay.h"
#include "threads/specs.h"
#include "threads/team.h"

#define STEPS    120
#define EPOCHS   (STEPS + 1)
#define PROMISES 6

struct person {
    const struct limiter_waiter *waiter; /* NULL: not in the line */
    int64_t told_ns;
    uint32_t epoch; /* of its last promise */
};

struct scene {
    const struct specs *specs;
    struct rng rng;
    struct weir_limiter *limiter;
    struct crowd *crowd;
    struct person people[STEPS];
    struct weir_reservation open[PROMISES];
    struct replay_event promised[PROMISES];
    size_t open_count;
    struct weir_handle *handle;
    int64_t taken;
    struct replay_log log;
    struct replay_epoch epochs[EPOCHS];
    uint32_t epoch; /* what was set last */
    uint32_t last_reset;
    uint32_t in_force; /* the same, or what it was before a pause: who moves up in a pause goes by that */
};

static void admit(struct scene *s, const char *what, int64_t time, int64_t n, uint32_t epoch)
{
    replay_add(&s->log, (struct replay_event){time, time, n, epoch, epoch, what});
}

/* ---- looking at the line ---- */

static bool is_due(const struct weir_limiter *limiter)
{
    for (const struct limiter_waiter *w = limiter->first; w; w = w->next)
        if (w->due_ns <= weir_now() || w->refused)
            return true;
    return false;
}

/* Until everybody has left whose time has come. */
static void settle(struct scene *s)
{
    bool due = true;
    while (due) {
        lock_take(&s->limiter->lock);
        due = is_due(s->limiter);
        lock_drop(&s->limiter->lock);
        team_yield();
    }
}

static size_t person_of(const struct scene *s, const struct limiter_waiter *waiter)
{
    for (size_t i = s->crowd->count; i-- > 0;)
        if (s->people[i].waiter == waiter)
            return i;
    return SIZE_MAX;
}

/* Who is still there has a time, no later than before. */
static void look_at_line(struct scene *s, bool *there)
{
    int64_t before = 0;
    lock_take(&s->limiter->lock);
    for (const struct limiter_waiter *w = s->limiter->first; w; w = w->next) {
        size_t i = person_of(s, w);
        if (!CHECK(i != SIZE_MAX))
            break;
        struct person *p = &s->people[i];
        there[i] = true;
        CHECK(w->due_ns <= p->told_ns);
        if (w->due_ns != p->told_ns)
            p->epoch = s->in_force;
        p->told_ns = w->due_ns;
        if (p->epoch < s->last_reset) /* what was promised before a reset stands, and others come before it */
            continue;
        CHECK(before <= w->due_ns);
        before = w->due_ns;
    }
    lock_drop(&s->limiter->lock);
}

/* After each step. Who has left was let go at the time he was told; or now, if this step has moved him up. */
static void look(struct scene *s)
{
    bool there[STEPS] = {false};
    settle(s);
    look_at_line(s, there);
    for (size_t i = 0; i < s->crowd->count; i++) {
        struct person *p = &s->people[i];
        if (!p->waiter || there[i])
            continue;
        crowd_await_one(s->crowd, i);
        const struct crowd_wait *wait = &s->crowd->waits[i];
        bool moved = p->told_ns > weir_now();
        if (wait->verdict.allowed)
            admit(s, "acquire", moved ? weir_now() : p->told_ns, wait->n, moved ? s->in_force : p->epoch);
        p->waiter = NULL;
    }
}

/* ---- steps ---- */

static void add_waiter(struct scene *s, int64_t n)
{
    size_t i = s->crowd->count;
    crowd_add(s->crowd, n, WEIR_FOREVER);
    lock_take(&s->limiter->lock);
    const struct limiter_waiter *last = s->limiter->last;
    bool waits = last && person_of(s, last) == SIZE_MAX;
    s->people[i] = (struct person){waits ? last : NULL, waits ? last->due_ns : 0, s->in_force};
    lock_drop(&s->limiter->lock);
    if (!waits && s->crowd->waits[i].verdict.allowed)
        admit(s, "acquire at once", weir_now(), n, s->epoch);
}

static void stop_waiter(struct scene *s)
{
    size_t at = (size_t)rng_between(&s->rng, 0, STEPS - 1);
    for (size_t k = 0; k < s->crowd->count; k++) {
        size_t i = (at + k) % s->crowd->count;
        if (!s->people[i].waiter)
            continue;
        crowd_stop(s->crowd, i);
        CHECK_EQ(s->crowd->waits[i].verdict.reason, WEIR_CANCELED);
        s->people[i].waiter = NULL;
        return;
    }
}

static void reserve(struct scene *s, int64_t n)
{
    struct weir_reservation *r = &s->open[s->open_count];
    if (s->open_count == PROMISES || !weir_limiter_reserve(s->limiter, n, WEIR_FOREVER, r, NULL))
        return;
    s->promised[s->open_count++] =
        (struct replay_event){r->due_ns, r->due_ns, n, s->epoch, s->epoch, "reserve"};
}

static void close_promise(struct scene *s, bool cancel)
{
    if (s->open_count == 0)
        return;
    size_t i = (size_t)rng_between(&s->rng, 0, (int64_t)s->open_count - 1);
    if (!cancel || !weir_limiter_cancel(s->limiter, &s->open[i]))
        replay_add(&s->log, s->promised[i]);
    s->open[i] = s->open[--s->open_count];
    s->promised[i] = s->promised[s->open_count];
}

static void use_handle(struct scene *s, int64_t n)
{
    if (!s->handle) {
        s->handle = weir_handle_new(s->limiter, 8, NULL);
    } else if (rng_between(&s->rng, 0, 2) == 0) {
        weir_handle_free(s->handle);
        s->handle = NULL;
    } else if (weir_handle_take(s->handle, n, NULL)) {
        admit(s, "take through a handle", weir_now(), n, s->epoch);
    }
}

/* Until when the promises that stand, and what is owed for them, follow the old rate: also those which are
 * taken back later, for they cannot be undone any more. */
static int64_t owed_until(struct scene *s)
{
    struct weir_verdict v;
    (void)weir_limiter_peek(s->limiter, 1, &v);
    return v.retry_after_ns == WEIR_FOREVER ? weir_now() : weir_now() + v.retry_after_ns;
}

static void begin_epoch(struct scene *s, const char *limits)
{
    char text[256];
    s->epochs[s->epoch].until = owed_until(s);
    s->epochs[++s->epoch] = (struct replay_epoch){
        .from = weir_now(), .until = INT64_MAX / 4, .anew = limits == NULL, .behind_ns = 0};
    if (limits) {
        CHECK(weir_limiter_set(s->limiter, limits, NULL));
    } else {
        weir_limiter_reset(s->limiter);
        s->last_reset = s->epoch;
    }
    (void)weir_limiter_text(s->limiter, text, sizeof text);
    s->epochs[s->epoch].policy = weir_policy_new(text, NULL);
    if (s->epochs[s->epoch].policy->limits[0].spec.algo != WEIR_BLOCKED)
        s->in_force = s->epoch;
}

static const char *next_limits(struct scene *s)
{
    int64_t way = rng_between(&s->rng, 0, 9);
    if (way == 0)
        return "blocked";
    if (way < 4)
        return all_specs[rng_between(&s->rng, 0, SPECS - 1)].limits;
    return way < 6 ? s->specs->limits : s->specs->changes[way % 2];
}

static void give(struct scene *s, int64_t n)
{
    if (s->taken < n)
        return;
    weir_limiter_give(s->limiter, n);
    s->taken -= n;
    admit(s, "give", weir_now(), -n, s->epoch);
}

static void step(struct scene *s)
{
    int64_t way = rng_between(&s->rng, 0, 99),
            n = rng_between(&s->rng, 0, 3) ? 1 : rng_between(&s->rng, 1, 4);
    if (way < 28)
        add_waiter(s, n);
    else if (way < 40)
        stop_waiter(s);
    else if (way < 50 && weir_limiter_take(s->limiter, n, NULL)) {
        admit(s, "take", weir_now(), n, s->epoch);
        s->taken += n;
    } else if (way < 56)
        reserve(s, n);
    else if (way < 60)
        close_promise(s, true);
    else if (way < 62)
        give(s, n);
    else if (way < 63)
        weir_limiter_charge(s->limiter, 1);
    else if (way < 69)
        use_handle(s, n);
    else if (way < 80)
        begin_epoch(s, rng_between(&s->rng, 0, 14) ? next_limits(s) : NULL);
    else
        weir_clock_set(weir_now() + rng_between(&s->rng, 0, 20000));
    look(s);
}

/* ---- a scene ---- */

static void play(const struct specs *specs, uint64_t stream)
{
    struct scene *s = calloc(1, sizeof *s);
    if (!s)
        abort();
    s->specs = specs;
    s->rng = rng_new(stream);
    team_watch(specs->name);
    weir_clock_set(WEIR_SEC);
    s->limiter = weir_limiter_new(specs->limits, NULL);
    s->crowd = crowd_new(s->limiter, 0, 1);
    s->epochs[0] = (struct replay_epoch){weir_policy_new(specs->limits, NULL), 0, INT64_MAX / 4, true, 0};
    for (int i = 0; i < STEPS && check.faults == 0; i++)
        step(s);
    weir_handle_free(s->handle);
    s->handle = NULL;
    if (s->epoch + 1 < EPOCHS)
        begin_epoch(s, specs->limits); /* the end of a pause, if there was one */
    look(s);
    weir_clock_set(weir_now() + 3600 * WEIR_SEC);
    look(s);
    while (s->open_count > 0)
        close_promise(s, false);
    if (!CHECK(replay_holds(&s->log, s->epochs, s->epoch + 1)) || check.faults)
        printf("# %s, stream %" PRIu64 "\n", specs->name, stream);
    crowd_free(s->crowd);
    weir_limiter_free(s->limiter);
    for (uint32_t i = 0; i <= s->epoch; i++)
        weir_policy_free(s->epochs[i].policy);
    replay_free(&s->log);
    free(s);
    weir_clock_set(-1);
    team_watch_done();
}

TEST(a_line_keeps_its_order_its_times_and_the_law_whatever_happens)
{
    int64_t rounds = team_scaled(check_env("WEIR_LINE_ROUNDS", 20));
    for (size_t i = 0; i < SPECS; i++)
        for (int64_t round = 0; round < rounds && check.faults == 0; round++)
            play(&all_specs[i], i * 1000000 + (uint64_t)round);
}
