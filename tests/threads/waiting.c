/* SPDX-License-Identifier: MIT */
/*
 * Waiting, step by step: the clock is set by hand, so every wait ends exactly when it is told to.
 */
#define _POSIX_C_SOURCE 200809L
#include <signal.h>
#include <unistd.h>

#include "base/sat.h"
#include "check.h"
#include "core/state.h"
#include "limiter/limiter.h"
#include "threads/crowd.h"
#include "threads/team.h"

#define START (1000 * WEIR_SEC)

/* A unit every 100 ms or so, for every algorithm that promises. */
static const struct {
    const char *slow, *fast; /* the same a hundred times as fast */
} paces[] = {
    {"10/s burst=1", "1k/s burst=1"},
    {"10/s algo=interval", "1k/s algo=interval"},
    {"10/s algo=leaky-bucket queue=100", "1k/s algo=leaky-bucket queue=100"},
    {"10/s burst=1 algo=smooth", "1k/s burst=1 algo=smooth"},
    {"10/s algo=warmup warmup=100ms cold=1", "1k/s algo=warmup warmup=1ms cold=1"},
    {"10/s algo=hybrid ratio=1 pool=100ms", "1k/s algo=hybrid ratio=1 pool=1ms"},
    {"1/100ms algo=fixed-window", "1/ms algo=fixed-window"},
    {"1/100ms algo=sliding-window", "1/ms algo=sliding-window"},
    {"1/100ms algo=sliding-log", "1/ms algo=sliding-log"},
    {"1/100ms burst=1 algo=step", "1/ms burst=1 algo=step"},
    {"10/s burst=1, 1/100ms algo=sliding-log", "1k/s burst=1, 1/ms algo=sliding-log"},
};

enum { PACES = sizeof paces / sizeof paces[0] };

static struct weir_limiter *limiter_at(int64_t now, const char *limits)
{
    struct weir_error err;
    team_watch(limits);
    weir_clock_set(now);
    struct weir_limiter *limiter = weir_limiter_new(limits, &err);
    if (!limiter) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
    return limiter;
}

/* One that has nothing left. */
static struct weir_limiter *spent_limiter(const char *limits)
{
    struct weir_limiter *limiter = limiter_at(START, limits);
    while (weir_limiter_take(limiter, 1, NULL))
        ;
    return limiter;
}

static void end(struct weir_limiter *limiter)
{
    weir_limiter_free(limiter);
    weir_clock_set(-1);
    team_watch_done();
}

/* When one more would go. */
static int64_t retry_after(struct weir_limiter *limiter)
{
    struct weir_verdict v;
    (void)weir_limiter_peek(limiter, 1, &v);
    return v.retry_after_ns;
}

/* By the pure core: the times of `count` promises of one unit each, made at START by a limit with nothing
 * left. */
static void promised_times(const char *limits, int64_t *due, size_t count)
{
    struct weir_policy *policy = weir_policy_new(limits, NULL);
    void *state = policy ? malloc(weir_policy_state_size(policy)) : NULL;
    struct weir_reservation parts[WEIR_LIMITS_MAX];
    if (!state)
        abort();
    weir_state_init(policy, state, START);
    while (weir_state_take(policy, state, START, 1, NULL))
        ;
    for (size_t i = 0; i < count; i++) {
        (void)weir_state_reserve(policy, state, START, 1, WEIR_FOREVER, parts, NULL);
        due[i] = parts[0].due_ns;
    }
    free(state);
    weir_policy_free(policy);
}

/* ---- turns ---- */

/* Each goes when the clock comes to its time, in the order of asking, and not before. */
static void check_turns(const char *limits)
{
    struct weir_limiter *limiter = spent_limiter(limits);
    struct crowd *crowd = crowd_new(limiter, 5, 1);
    int64_t due[5];
    promised_times(limits, due, 5);
    for (size_t i = 0; i < 5; i++) {
        weir_clock_set(due[i]);
        crowd_await_one(crowd, i);
        CHECK(crowd->waits[i].verdict.allowed);
        CHECK_EQ(crowd->waits[i].ended_ns, due[i]);
        CHECK_EQ(crowd->waits[i].verdict.wait_ns, due[i] - START);
        CHECK_EQ(crowd_ended(crowd), i + 1);
    }
    crowd_free(crowd);
    end(limiter);
}

TEST(waiters_go_in_turn_as_the_clock_comes_to_their_times)
{
    for (size_t i = 0; i < PACES; i++)
        check_turns(paces[i].slow);
}

TEST(a_leap_of_the_clock_by_hours_lets_all_go)
{
    for (size_t i = 0; i < PACES; i++) {
        struct weir_limiter *limiter = spent_limiter(paces[i].slow);
        struct crowd *crowd = crowd_new(limiter, 8, 1);
        weir_clock_set(START + 5 * 3600 * WEIR_SEC);
        crowd_free(crowd);
        end(limiter);
    }
}

TEST(a_wait_that_would_be_too_long_is_refused_at_once_and_changes_nothing)
{
    for (size_t i = 0; i < PACES; i++) {
        struct weir_limiter *limiter = spent_limiter(paces[i].slow);
        int64_t retry = retry_after(limiter);
        struct weir_verdict v;
        CHECK(!weir_limiter_acquire(limiter, 1, retry - 1, &v));
        CHECK_EQ(v.reason, WEIR_LATER);
        CHECK_EQ(v.wait_ns, 0);
        CHECK_EQ(retry_after(limiter), retry);
        end(limiter);
    }
}

/* The timeout= of the limit counts if none is given. */
TEST(the_limit_may_say_how_long_a_wait_may_be)
{
    struct weir_limiter *limiter = spent_limiter("10/s burst=1 timeout=150ms");
    struct crowd *crowd = crowd_new(limiter, 0, 1);
    crowd_add(crowd, 1, -1);
    struct weir_verdict v;
    CHECK(!weir_limiter_acquire(limiter, 1, -1, &v));
    CHECK_EQ(v.retry_after_ns, 50 * WEIR_MS);
    weir_clock_set(START + 100 * WEIR_MS);
    crowd_free(crowd);
    end(limiter);
}

/* ---- stops ---- */

TEST(a_stop_ends_a_wait_and_hands_back_what_was_promised)
{
    for (size_t i = 0; i < PACES; i++) {
        struct weir_limiter *limiter = spent_limiter(paces[i].slow);
        int64_t retry = retry_after(limiter);
        struct crowd *crowd = crowd_new(limiter, 1, 1);
        CHECK(retry_after(limiter) > retry);
        crowd_stop(crowd, 0);
        CHECK(!crowd->waits[0].verdict.allowed);
        CHECK_EQ(crowd->waits[0].verdict.reason, WEIR_CANCELED);
        CHECK_EQ(retry_after(limiter), retry);
        crowd_free(crowd);
        end(limiter);
    }
}

/* Whoever leaves, in whatever order: in the end it is as if nobody had asked. */
static void check_leaving(const char *limits, size_t count, struct rng *rng)
{
    struct weir_limiter *limiter = spent_limiter(limits);
    struct weir_verdict before, after;
    (void)weir_limiter_peek(limiter, 1, &before);
    struct crowd *crowd = crowd_new(limiter, count, 1);
    size_t order[64];
    int64_t due[64];
    promised_times(limits, due, count);
    for (size_t i = 0; i < count; i++) {
        size_t j = (size_t)rng_between(rng, 0, (int64_t)i);
        order[i] = order[j];
        order[j] = i;
    }
    for (size_t i = 0; i < count; i++) {
        crowd_stop(crowd, order[i]);
        CHECK_EQ(START + retry_after(limiter),
                 due[count - i - 1]); /* the next promise, with those that are left */
    }
    (void)weir_limiter_peek(limiter, 1, &after);
    if (!CHECK(memcmp(&before, &after, sizeof after) == 0))
        printf("# %s: retry %" PRId64 " %" PRId64 ", reset %" PRId64 " %" PRId64 "\n", limits,
               before.retry_after_ns, after.retry_after_ns, before.reset_after_ns, after.reset_after_ns);
    crowd_free(crowd);
    end(limiter);
}

TEST(however_waiters_leave_it_is_as_if_they_had_never_asked)
{
    struct rng rng = rng_new(1);
    for (size_t i = 0; i < PACES; i++)
        for (size_t round = 0; round < 4; round++)
            check_leaving(paces[i].slow, round == 0 ? 3 : 12, &rng);
}

/* Those behind one that leaves move up. */
TEST(who_waits_behind_one_that_leaves_goes_earlier)
{
    for (size_t i = 0; i < PACES; i++) {
        struct weir_limiter *limiter = spent_limiter(paces[i].slow);
        struct crowd *crowd = crowd_new(limiter, 3, 1);
        int64_t due[3];
        promised_times(paces[i].slow, due, 3);
        crowd_stop(crowd, 1);
        weir_clock_set(due[1]);
        crowd_free(crowd);
        end(limiter);
    }
}

TEST(a_stop_that_is_set_ends_every_wait_until_it_is_cleared)
{
    struct weir_limiter *limiter = limiter_at(START, "10/s burst=1");
    struct weir_stop stop = {0};
    struct weir_verdict v;
    weir_stop_set(&stop);
    for (int i = 0; i < 3; i++) {
        CHECK(!weir_limiter_acquire_unless(limiter, 1, WEIR_FOREVER, &stop, &v));
        CHECK_EQ(v.reason, WEIR_CANCELED);
    }
    weir_stop_clear(&stop);
    CHECK(weir_limiter_acquire_unless(limiter, 1, WEIR_FOREVER, &stop, &v)); /* nothing was taken before */
    end(limiter);
}

struct shared_stop {
    struct weir_limiter *limiter;
    struct weir_stop stop;
    atomic_int canceled;
};

static void wait_under_shared_stop(size_t self, void *arg)
{
    struct shared_stop *s = arg;
    struct weir_verdict v;
    (void)self;
    if (!weir_limiter_acquire_unless(s->limiter, 1, WEIR_FOREVER, &s->stop, &v) && v.reason == WEIR_CANCELED)
        atomic_fetch_add(&s->canceled, 1);
}

TEST(one_stop_ends_many_waits)
{
    struct shared_stop s = {.limiter = spent_limiter("10/s burst=1")};
    struct team *team = team_start(20, wait_under_shared_stop, &s);
    struct weir_stat stat = {0};
    while (stat.waiting < 20)
        weir_limiter_stat(s.limiter, &stat);
    weir_stop_set(&s.stop);
    team_join(team);
    CHECK_EQ(atomic_load(&s.canceled), 20);
    end(s.limiter);
}

static _Atomic(struct weir_stop *) signalled_stop;

static void stop_by_signal(int signal)
{
    (void)signal;
    weir_stop_set(atomic_load(&signalled_stop));
}

TEST(a_stop_may_be_set_by_a_signal_handler)
{
    struct sigaction action = {.sa_handler = stop_by_signal}, before;
    struct weir_limiter *limiter = spent_limiter("10/s burst=1");
    (void)sigaction(SIGUSR1, &action, &before);
    for (int in_waiter = 0; in_waiter < 2; in_waiter++) {
        struct crowd *crowd = crowd_new(limiter, 1, 1);
        atomic_store(&signalled_stop, &crowd->waits[0].stop);
        (void)pthread_kill(in_waiter ? crowd->waits[0].thread : pthread_self(), SIGUSR1);
        crowd_await_one(crowd, 0);
        CHECK_EQ(crowd->waits[0].verdict.reason, WEIR_CANCELED);
        crowd_free(crowd);
    }
    (void)sigaction(SIGUSR1, &before, NULL);
    end(limiter);
}

/* ---- live changes ---- */

/* Ten wait for a second; a faster limit lets them go within that many milliseconds, in turn. */
TEST(a_faster_limit_makes_waiters_earlier)
{
    for (size_t i = 0; i < PACES; i++) {
        struct weir_limiter *limiter = spent_limiter(paces[i].slow);
        int64_t first = retry_after(limiter);
        struct crowd *crowd = crowd_new(limiter, 10, 1);
        CHECK(weir_limiter_set(limiter, paces[i].fast, NULL));
        /* some keep the time of the first start, or the window they are in */
        weir_clock_set(START + first + 12 * WEIR_MS);
        crowd_await(crowd, 10);
        for (size_t k = 0; k < 10; k++)
            CHECK(crowd->waits[k].verdict.allowed);
        crowd_free(crowd);
        end(limiter);
    }
}

TEST(a_slower_limit_makes_nobody_later)
{
    for (size_t i = 0; i < PACES; i++) {
        struct weir_limiter *limiter = spent_limiter(paces[i].fast);
        struct crowd *crowd = crowd_new(limiter, 10, 1);
        int64_t due[10];
        promised_times(paces[i].fast, due, 10);
        CHECK(weir_limiter_set(limiter, paces[i].slow, NULL));
        weir_clock_set(due[9]);
        crowd_await(crowd, 10);
        crowd_free(crowd);
        end(limiter);
    }
}

/* Those who wait stand in the order of their times, and nobody is later than he was told. */
static void check_line(struct weir_limiter *limiter, int64_t *told, size_t count)
{
    lock_take(&limiter->lock);
    size_t i = count - (size_t)limiter->waiting;
    for (const struct limiter_waiter *w = limiter->first; w; w = w->next, i++) {
        CHECK(w->due_ns <= told[i]);
        CHECK(!w->prev || w->prev->due_ns <= w->due_ns);
        told[i] = w->due_ns;
    }
    lock_drop(&limiter->lock);
}

/* From any limit to any other, to and fro. */
TEST(changes_between_all_limits_keep_the_turns_and_make_nobody_later)
{
    struct rng rng = rng_new(2);
    for (size_t i = 0; i < PACES; i++) {
        struct weir_limiter *limiter = spent_limiter(paces[i].slow);
        struct crowd *crowd = crowd_new(limiter, 6, 1);
        int64_t told[6];
        promised_times(paces[i].slow, told, 6);
        for (int64_t now = START; now < told[5]; now += 20 * WEIR_MS) {
            size_t next = (size_t)rng_between(&rng, 0, PACES - 1);
            weir_clock_set(now);
            CHECK(weir_limiter_set(limiter, rng_between(&rng, 0, 1) ? paces[next].slow : paces[next].fast,
                                   NULL));
            check_line(limiter, told, 6);
        }
        weir_clock_set(told[5]);
        crowd_free(crowd);
        end(limiter);
    }
}

/* ---- a pause ---- */

TEST(blocked_is_a_pause_for_those_who_wait_for_ever)
{
    struct weir_limiter *limiter = limiter_at(START, "blocked");
    struct weir_verdict v;
    CHECK(!weir_limiter_acquire(limiter, 1, 1000 * WEIR_SEC, &v));
    CHECK_EQ(v.reason, WEIR_NEVER);
    struct crowd *crowd = crowd_new(limiter, 2, 1);
    crowd_add(crowd, 7, WEIR_FOREVER); /* more than what is set below can ever hold */
    crowd_add(crowd, 1, WEIR_FOREVER);
    weir_clock_set(START + 3600 * WEIR_SEC);
    CHECK(weir_limiter_set(limiter, "blocked name=still", NULL));
    CHECK_EQ(crowd_ended(crowd), 0);

    int64_t now = weir_now();
    CHECK(weir_limiter_set(limiter, "10/s burst=1", NULL));
    crowd_await_one(crowd, 2);
    CHECK_EQ(crowd->waits[2].verdict.reason, WEIR_NEVER);
    static const size_t turns[] = {0, 1, 3};
    for (int64_t i = 0; i < 3; i++) { /* nothing has passed yet: it begins full */
        weir_clock_set(now + i * (100 * WEIR_MS));
        crowd_await_one(crowd, turns[i]);
        CHECK(crowd->waits[turns[i]].verdict.allowed);
        CHECK_EQ(crowd->waits[turns[i]].ended_ns, now + i * (100 * WEIR_MS));
    }
    crowd_free(crowd);
    end(limiter);
}

TEST(a_pause_takes_no_promise_back_and_a_stop_ends_it)
{
    for (size_t i = 0; i < PACES; i++) {
        struct weir_limiter *limiter = spent_limiter(paces[i].slow);
        struct crowd *crowd = crowd_new(limiter, 3, 1);
        int64_t due[3];
        promised_times(paces[i].slow, due, 3);
        CHECK(weir_limiter_set(limiter, "blocked", NULL));
        crowd_add(crowd, 1, WEIR_FOREVER);
        weir_clock_set(due[2]);
        crowd_await(crowd, 3);
        CHECK(!atomic_load(&crowd->waits[3].ended));
        crowd_stop(crowd, 3);
        CHECK_EQ(crowd->waits[3].verdict.reason, WEIR_CANCELED);
        crowd_free(crowd);
        end(limiter);
    }
}

/* ---- many ---- */

TEST(ten_thousand_waiting_threads_all_get_through)
{
    size_t count = (size_t)team_scaled(10000);
    struct weir_limiter *limiter = spent_limiter("1k/s burst=1");
    struct crowd *crowd = crowd_new(limiter, 0, 1);
    struct weir_stat stat;
    crowd_add_many(crowd, count, 1);
    weir_limiter_stat(limiter, &stat);
    CHECK_EQ(stat.waiting, count);
    CHECK_EQ(stat.wait_ns, (int64_t)(count + 1) * WEIR_MS);
    weir_clock_set(START + (int64_t)count * WEIR_MS);
    crowd_await(crowd, count);
    size_t allowed = 0;
    for (size_t i = 0; i < count; i++)
        allowed += crowd->waits[i].verdict.allowed == 1;
    CHECK_EQ(allowed, count);
    weir_limiter_stat(limiter, &stat);
    CHECK_EQ(stat.waiting, 0);
    CHECK_EQ(stat.wait_ns, WEIR_MS);
    crowd_free(crowd);
    end(limiter);
}

static void check_open_reservations(const char *limits, size_t count)
{
    struct weir_limiter *limiter = spent_limiter(limits);
    struct weir_reservation *all = calloc(count, sizeof *all);
    struct weir_verdict before, after;
    if (!all)
        abort();
    (void)weir_limiter_peek(limiter, 1, &before);
    for (size_t i = 0; i < count; i++)
        if (!CHECK(weir_limiter_reserve(limiter, 1, WEIR_FOREVER, &all[i], NULL)) ||
            (i > 0 && !CHECK_EQ(all[i].due_ns - all[i - 1].due_ns, WEIR_MS)))
            break;
    for (size_t i = count; i-- > 0;)
        if (!CHECK(weir_limiter_cancel(limiter, &all[i])))
            break;
    (void)weir_limiter_peek(limiter, 1, &after);
    CHECK(memcmp(&before, &after, sizeof after) == 0);
    free(all);
    end(limiter);
}

TEST(a_million_open_reservations_handed_back_leave_nothing_behind)
{
    check_open_reservations("1k/s burst=1", (size_t)team_scaled(1000000));
    check_open_reservations("1k/s algo=interval", 1000);
    check_open_reservations("1k/s burst=1 algo=smooth", 1000);
    check_open_reservations("1k/s algo=leaky-bucket queue=1k", 1000);
}
