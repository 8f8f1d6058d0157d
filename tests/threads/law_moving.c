/* SPDX-License-Identifier: MIT */
/*
 * Threads decide on one limiter while the clock moves, each with a reading of its own that is some
 * microseconds ahead or behind. What was admitted never breaks the law, whatever they do: take, reserve and
 * cancel, give, charge, drain, wait and stop waiting, take through handles, change the limit, reset it.
 *
 * WEIR_LAW_OPS says how many operations all threads of one round make together.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "base/sat.h"
#include "check.h"
#include "threads/replay.h"
#include "threads/specs.h"
#include "threads/team.h"

#define SKEW_NS    INT64_C(3000) /* clocks are at most so far ahead, or behind */
#define EPOCHS     64
#define THREADS    64
#define PROMISES   8 /* open ones that a thread keeps */
#define CHANGE_OPS 150

enum mix { TAKES_ONLY, HANDLES, EVERYTHING };

struct thread_log {
    struct replay_log log;
    struct weir_reservation open[PROMISES];
    struct replay_event promised[PROMISES];
    size_t open_count;
    int64_t taken; /* and not given back */
};

struct world {
    struct weir_limiter *limiter;
    const struct specs *specs;
    enum mix mix;
    bool strangers;  /* changes to other algorithms, too */
    int64_t skew_ns; /* SKEW_NS, or 0: all read the same clock */
    size_t threads;
    int64_t ops; /* of each thread */
    uint64_t stream;
    pthread_mutex_t clock;
    struct thread_log logs[THREADS];
    struct weir_stop stops[THREADS]; /* of whoever waits */
    /* A change belongs to nobody until it is done: `begun` counts before, `done` after it. */
    atomic_uint begun, done;
    struct replay_epoch epochs[EPOCHS];
};

/* ---- the clock ---- */

/* Threads move the clock by hand; one at a time, so that it goes forward. */
static void advance(struct world *w, int64_t ns)
{
    (void)pthread_mutex_lock(&w->clock);
    weir_clock_set(weir_now() + ns);
    (void)pthread_mutex_unlock(&w->clock);
}

static int64_t skewed_now(const struct world *w, size_t self, struct rng *rng)
{
    int64_t own = (int64_t)(self * 7919) % (2 * SKEW_NS) - SKEW_NS;
    int64_t skew = (own + rng_between(rng, -SKEW_NS, SKEW_NS)) / 2;
    return weir_now() + (w->skew_ns > 0 ? skew : 0);
}

/* ---- what a thread writes down ---- */

/* Limits of one word take every reading as it is. The others go by the latest that they have seen, which may
 * be any up to the one that is furthest ahead. */
static int64_t latest_reading(const struct world *w, int64_t time)
{
    bool exact = w->specs->is_word && w->mix == TAKES_ONLY;
    return exact ? time : max64(time, weir_now() + w->skew_ns);
}

static struct replay_event event_at(struct world *w, const char *what, int64_t time, int64_t n,
                                    uint32_t epoch)
{
    return (struct replay_event){time, latest_reading(w, time), n, epoch, atomic_load(&w->begun), what};
}

static uint32_t epoch_before(struct world *w)
{
    return atomic_load(&w->done);
}

/* ---- what a thread does ---- */

struct self {
    struct world *w;
    struct thread_log *log;
    struct rng rng;
    size_t self;
    struct weir_handle *handle;
};

static void do_take(struct self *s, int64_t n)
{
    uint32_t epoch = epoch_before(s->w);
    int64_t now = skewed_now(s->w, s->self, &s->rng);
    struct weir_verdict v;
    if (!weir_limiter_take_at(s->w->limiter, now, n, rng_between(&s->rng, 0, 1) ? &v : NULL))
        return;
    replay_add(&s->log->log, event_at(s->w, "take", now, n, epoch));
    s->log->taken += n;
}

/* The handle reads the clock itself. */
static void do_take_through_handle(struct self *s, int64_t n)
{
    uint32_t epoch = epoch_before(s->w);
    int64_t before = weir_now();
    if (!weir_handle_take(s->handle, n, NULL))
        return;
    replay_add(&s->log->log, event_at(s->w, "take through a handle", before, n, epoch));
}

static void do_renew_handle(struct self *s)
{
    weir_handle_free(s->handle);
    s->handle = weir_handle_new(s->w->limiter, 10, NULL);
}

static void do_reserve(struct self *s, int64_t n)
{
    if (s->log->open_count == PROMISES)
        return;
    uint32_t epoch = epoch_before(s->w);
    int64_t now = skewed_now(s->w, s->self, &s->rng);
    struct weir_reservation *r = &s->log->open[s->log->open_count];
    if (!weir_limiter_reserve_at(s->w->limiter, now, n, rng_between(&s->rng, 0, 300000), r, NULL))
        return;
    s->log->promised[s->log->open_count++] = event_at(s->w, "reserve", r->due_ns, n, epoch);
}

/* The promise at `i` is kept, or was handed back in time and never counts. */
static void close_promise(struct self *s, size_t i, bool cancel)
{
    int64_t now = skewed_now(s->w, s->self, &s->rng);
    if (!cancel || !weir_limiter_cancel_at(s->w->limiter, now, &s->log->open[i]))
        replay_add(&s->log->log, s->log->promised[i]);
    s->log->open_count--;
    s->log->open[i] = s->log->open[s->log->open_count];
    s->log->promised[i] = s->log->promised[s->log->open_count];
}

static void do_cancel(struct self *s)
{
    if (s->log->open_count > 0)
        close_promise(s, (size_t)rng_between(&s->rng, 0, (int64_t)s->log->open_count - 1),
                      rng_between(&s->rng, 0, 3) > 0);
}

static void do_give(struct self *s, int64_t n)
{
    if (s->log->taken < n)
        return;
    uint32_t epoch = epoch_before(s->w);
    int64_t now = skewed_now(s->w, s->self, &s->rng);
    weir_limiter_give_at(s->w->limiter, now, n);
    struct replay_event event = event_at(s->w, "give", now, -n, epoch);
    event.low = now - 2 * s->w->skew_ns; /* who is behind takes it before the giver's time has come */
    replay_add(&s->log->log, event);
    s->log->taken -= n;
}

/* Due some time between the question and the end of the wait. Somebody may stop it. */
static void do_acquire(struct self *s, int64_t n)
{
    uint32_t epoch = epoch_before(s->w);
    int64_t now = skewed_now(s->w, s->self, &s->rng);
    struct weir_stop *stop = &s->w->stops[s->self];
    struct weir_verdict v;
    weir_stop_clear(stop);
    if (!weir_limiter_acquire_at(s->w->limiter, now, n, rng_between(&s->rng, 1, 60000), stop, &v))
        return;
    struct replay_event event = event_at(s->w, "acquire", now, n, epoch);
    event.high = max64(event.high, weir_now() + s->w->skew_ns);
    replay_add(&s->log->log, event);
}

static const char *next_limits(struct self *s)
{
    if (rng_between(&s->rng, 0, 7) == 0)
        return "blocked"; /* a pause */
    if (s->w->strangers && rng_between(&s->rng, 0, 1))
        return all_specs[rng_between(&s->rng, 0, SPECS - 1)].limits;
    int64_t which = rng_between(&s->rng, 0, 2);
    return which == 2 ? s->w->specs->limits : s->w->specs->changes[which];
}

/* By thread 0 alone. */
static void begin_epoch(struct self *s, bool reset)
{
    struct world *w = s->w;
    uint32_t number = atomic_load(&w->begun) + 1;
    if (number == EPOCHS)
        return;
    struct replay_epoch *epoch = &w->epochs[number], *before = epoch - 1;
    const char *limits = next_limits(s);
    *epoch = (struct replay_epoch){.from = weir_now() - w->skew_ns, .until = INT64_MAX / 4, .anew = reset};
    struct weir_verdict v; /* what is owed follows the old rate until it is paid */
    (void)weir_limiter_peek(w->limiter, 1, &v);
    int64_t owed = v.retry_after_ns == WEIR_FOREVER ? 0 : weir_now() + v.retry_after_ns;
    atomic_store(&w->begun, number);
    int64_t now = skewed_now(s->w, s->self, &s->rng);
    if (reset) {
        char text[256];
        (void)weir_limiter_text(w->limiter, text, sizeof text);
        epoch->policy = weir_policy_new(text, NULL);
        weir_limiter_reset_at(w->limiter, now);
    } else {
        epoch->policy = weir_policy_new(limits, NULL);
        (void)weir_limiter_set_at(w->limiter, now, limits, NULL);
    }
    epoch->behind_ns = weir_now() + w->skew_ns - now;
    before->until = max64(weir_now(), owed) + w->skew_ns;
    atomic_store(&w->done, number);
}

static void use_handle(struct self *s, int64_t n)
{
    if (!s->handle)
        do_take(s, n);
    else if (rng_between(&s->rng, 0, 5) == 0)
        do_renew_handle(s);
    else
        do_take_through_handle(s, n);
}

static void do_anything(struct self *s, int64_t op)
{
    int64_t way = rng_between(&s->rng, 0, 99),
            n = rng_between(&s->rng, 0, 3) ? 1 : rng_between(&s->rng, 1, 4);
    if (s->w->mix == HANDLES)
        use_handle(s, n);
    else if (s->w->mix == TAKES_ONLY)
        do_take(s, n);
    else if (s->self == 0 && op % CHANGE_OPS == CHANGE_OPS - 1)
        begin_epoch(s, rng_between(&s->rng, 0, 4) == 0);
    else if (way < 40)
        do_take(s, n);
    else if (way < 55)
        do_reserve(s, n);
    else if (way < 68)
        do_cancel(s);
    else if (way < 76)
        do_give(s, n);
    else if (way < 78)
        weir_limiter_charge_at(s->w->limiter, skewed_now(s->w, s->self, &s->rng), n);
    else if (way < 79)
        (void)weir_limiter_drain_at(s->w->limiter, skewed_now(s->w, s->self, &s->rng));
    else if (way < 87)
        do_acquire(s, n);
    else
        use_handle(s, n);
}

static void body(size_t self, void *arg)
{
    struct world *w = arg;
    struct self s = {.w = w, .log = &w->logs[self], .rng = rng_new(w->stream * 1000 + self), .self = self};
    if (w->mix != TAKES_ONLY && self % 3 == 1)
        do_renew_handle(&s);
    for (int64_t op = 0; op < w->ops; op++) {
        do_anything(&s, op);
        if (rng_between(&s.rng, 0, 3) == 0)
            advance(w, rng_between(&s.rng, 0, 8000));
        if (rng_between(&s.rng, 0, 99) == 0) /* a rest, in which all is saved up again */
            advance(w, 200000);
    }
    while (s.log->open_count > 0)
        close_promise(&s, 0, false);
    weir_handle_free(s.handle);
}

/* ---- a round ---- */

static void world_begin(struct world *w)
{
    struct weir_error err;
    weir_clock_set(WEIR_SEC);
    w->limiter = weir_limiter_new(w->specs->limits, &err);
    if (!w->limiter) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
    (void)pthread_mutex_init(&w->clock, NULL);
    w->epochs[0] =
        (struct replay_epoch){weir_policy_new(w->specs->limits, NULL), 0, INT64_MAX / 4, .anew = true};
}

static size_t world_end(struct world *w)
{
    struct replay_log all = {0};
    size_t epochs = atomic_load(&w->begun) + 1;
    for (size_t i = 0; i < w->threads; i++) {
        replay_append(&all, &w->logs[i].log);
        replay_free(&w->logs[i].log);
    }
    size_t admitted = all.count;
    if (!CHECK(replay_holds(&all, w->epochs, epochs)))
        printf("# %s, %zu threads, %zu events\n", w->specs->name, w->threads, all.count);
    replay_free(&all);
    for (size_t i = 0; i < epochs; i++)
        weir_policy_free(w->epochs[i].policy);
    (void)pthread_mutex_destroy(&w->clock);
    weir_limiter_free(w->limiter);
    weir_clock_set(-1);
    return admitted;
}

/* While the last ones wait, somebody has to move the clock. */
static size_t run_round(const struct specs *specs, size_t threads, enum mix mix, bool strangers,
                        int64_t skew_ns)
{
    static uint64_t rounds;
    struct world *w = calloc(1, sizeof *w);
    if (!w)
        abort();
    w->specs = specs;
    w->mix = mix;
    w->strangers = strangers;
    w->skew_ns = skew_ns;
    w->threads = threads;
    w->ops = max64(team_scaled(check_env("WEIR_LAW_OPS", 4000)) / (int64_t)threads, 10);
    w->stream = ++rounds;
    world_begin(w);
    struct rng rng = rng_new(w->stream * 1000 + THREADS);
    struct team *team = team_start(threads, body, w);
    while (team_running(team) > 0) {
        advance(w, 2000);
        weir_stop_set(&w->stops[rng_between(&rng, 0, (int64_t)threads - 1)]);
        team_yield();
    }
    team_join(team);
    size_t admitted = world_end(w);
    free(w);
    return admitted;
}

static void run_all(enum mix mix, bool strangers, int64_t skew_ns)
{
    static const size_t teams[] = {2, 8, 64};
    team_watch("threads under a moving clock");
    for (size_t i = 0; i < SPECS; i++) {
        size_t events = 0;
        for (size_t t = 0; t < sizeof teams / sizeof teams[0]; t++)
            events += run_round(&all_specs[i], teams[t], mix, strangers, skew_ns);
        printf("# %s: %zu events\n", all_specs[i].name, events);
        CHECK(events > 10);
    }
    team_watch_done();
}

TEST(takes_keep_the_law_with_clocks_that_disagree)
{
    run_all(TAKES_ONLY, false, SKEW_NS);
}

/* Only a token bucket has shares to give. */
TEST(handles_that_come_and_go_keep_the_law)
{
    static const size_t teams[] = {2, 3, 5, 8};
    team_watch("handles under a moving clock");
    for (int64_t i = 0; i < team_scaled(40); i++)
        (void)run_round(&all_specs[0], teams[i % 4], HANDLES, false, SKEW_NS);
    team_watch_done();
}

TEST(every_verb_keeps_the_law_by_one_clock)
{
    run_all(EVERYTHING, true, 0);
}

TEST(every_verb_keeps_the_law_while_the_limit_changes)
{
    run_all(EVERYTHING, false, SKEW_NS);
}

TEST(every_verb_keeps_the_law_across_algorithms)
{
    run_all(EVERYTHING, true, SKEW_NS);
}
