/* SPDX-License-Identifier: MIT */
/*
 * fork(2) while other threads decide, wait and change limits: the child finds limiters that it can use and
 * free, and spends nothing that the parent has set aside for a thread.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "limiter/limiter.h"
#include "threads/crowd.h"
#include "threads/team.h"

#define START (1000 * WEIR_SEC)

/* Runs `body` in a child that may last some seconds; gives what it returns, or -1. */
static int in_child(int (*body)(void *arg), void *arg)
{
    pid_t child = fork();
    if (child == 0) {
        (void)alarm(team_patience() / 2); /* sooner than the parent's own */
        _exit(body(arg));
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child)
        return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* ---- in the midst of it ---- */

struct busy {
    struct weir_limiter *limiters[3];
    struct weir_stop stop;
    atomic_bool over;
};

static void be_busy(size_t self, void *arg)
{
    static const char *const other[] = {"90k/s burst=9", "90k/s burst=9, 9/us algo=sliding-log",
                                        "90k/s algo=hybrid fill=thread"};
    static const char *const first[] = {"100k/s burst=5", "100k/s burst=5, 5/us algo=sliding-log",
                                        "100k/s algo=hybrid fill=thread"};
    struct busy *b = arg;
    struct rng rng = rng_new(self);
    for (int64_t i = 0; !atomic_load(&b->over); i++) {
        size_t which = (size_t)rng_between(&rng, 0, 2);
        struct weir_limiter *limiter = b->limiters[which];
        struct weir_reservation r;
        int64_t way = rng_between(&rng, 0, 99);
        if (way < 40)
            (void)weir_limiter_take(limiter, 1, NULL);
        else if (way < 70)
            (void)weir_limiter_acquire_unless(limiter, 1, WEIR_FOREVER, &b->stop, NULL);
        else if (way < 90 && weir_limiter_reserve(limiter, 1, WEIR_FOREVER, &r, NULL))
            (void)weir_limiter_cancel(limiter, &r);
        else if (way < 92)
            (void)weir_limiter_set(limiter, i % 2 ? first[which] : other[which], NULL);
        else
            weir_limiter_free(weir_limiter_new(first[which % 2], NULL));
    }
}

/* Everything works, nobody waits, and the end does not hang. 0: well. A sanitizer's memory may be locked by a
 * thread that the child does not have: there it takes and gives back none. */
static int use_all(void *arg)
{
    struct busy *b = arg;
    bool has_memory = team_scaled(10) == 10;
    for (size_t i = 0; i < 3; i++) {
        struct weir_limiter *limiter = b->limiters[i];
        struct weir_stat stat;
        struct weir_reservation r;
        weir_limiter_stat(limiter, &stat);
        if (stat.waiting != 0)
            return 1;
        (void)weir_limiter_take(limiter, 1, NULL);
        if (!weir_limiter_acquire(limiter, 1, WEIR_FOREVER, NULL))
            return 2;
        if (!has_memory)
            continue;
        if (!weir_limiter_set(limiter, i == 1 ? "1M/s burst=5, 5/us algo=sliding-log" : "1M/s burst=5", NULL))
            return 3;
        struct weir_handle *handle = weir_handle_new(limiter, 2, NULL);
        if (!handle)
            return 4;
        (void)weir_handle_take(handle, 1, NULL);
        weir_handle_free(handle);
        if (!weir_limiter_reserve(limiter, 1, WEIR_FOREVER, &r, NULL))
            return 5;
        weir_limiter_free(limiter);
    }
    return 0;
}

TEST(a_child_can_use_and_free_what_others_were_busy_with)
{
    team_watch("fork");
    struct busy b = {.limiters = {weir_limiter_new("100k/s burst=5", NULL),
                                  weir_limiter_new("100k/s burst=5, 5/us algo=sliding-log", NULL),
                                  weir_limiter_new("100k/s algo=hybrid fill=thread", NULL)}};
    struct team *team = team_start(6, be_busy, &b);
    for (int64_t i = 0; i < team_scaled(300) && CHECK_EQ(in_child(use_all, &b), 0); i++)
        ;
    atomic_store(&b.over, true);
    weir_stop_set(&b.stop);
    team_join(team);
    for (size_t i = 0; i < 3; i++)
        weir_limiter_free(b.limiters[i]);
    team_watch_done();
}

/* ---- nobody is in the midst of something ---- */

static struct {
    struct weir_limiter *limiter;
    atomic_bool held, forking, done, over;
} midst;

/* Called before the library's own: handlers run in the opposite order of their registration. */
static void note_fork(void)
{
    atomic_store(&midst.forking, true);
}

/* Is in the midst of a change for as long as the other thread needs to get to its fork, and some more. */
static void hold_lock(size_t self, void *arg)
{
    (void)self, (void)arg;
    lock_take(&midst.limiter->lock);
    atomic_store(&midst.held, true);
    while (!atomic_load(&midst.forking))
        team_yield();
    for (int i = 0; i < 2000; i++)
        team_yield();
    atomic_store(&midst.done, true);
    lock_drop(&midst.limiter->lock);
    while (!atomic_load(&midst.over)) /* a child that has seen it end would miss its join */
        team_yield();
}

static int was_done(void *arg)
{
    (void)arg;
    return atomic_load(&midst.done) ? 0 : 1;
}

TEST(a_fork_waits_until_nobody_is_in_the_midst_of_a_change)
{
    team_watch("a fork that waits");
    midst.limiter = weir_limiter_new("1/h burst=40", NULL);
    (void)pthread_atfork(note_fork, NULL, NULL);
    for (int i = 0; i < 3; i++) {
        atomic_store(&midst.held, false);
        atomic_store(&midst.forking, false);
        atomic_store(&midst.done, false);
        atomic_store(&midst.over, false);
        struct team *team = team_start(1, hold_lock, NULL);
        while (!atomic_load(&midst.held))
            team_yield();
        CHECK_EQ(in_child(was_done, NULL), 0);
        atomic_store(&midst.over, true);
        team_join(team);
    }
    weir_limiter_free(midst.limiter);
    team_watch_done();
}

/* ---- waiters ---- */

static int nobody_waits(void *arg)
{
    struct weir_limiter *limiter = arg;
    struct weir_stat stat;
    weir_limiter_stat(limiter, &stat);
    if (stat.waiting != 0)
        return 1;
    if (!weir_limiter_set(limiter, "1k/s burst=1", NULL))
        return 2;
    weir_limiter_free(limiter); /* would stop the program if somebody waited */
    return 0;
}

TEST(who_waits_in_the_parent_does_not_wait_in_the_child)
{
    static const char *const limits[] = {"1/s burst=1", "1/s burst=1, 1/s algo=sliding-log"};
    team_watch("waiters and fork");
    for (size_t i = 0; i < 2; i++) {
        weir_clock_set(START);
        struct weir_limiter *limiter = weir_limiter_new(limits[i], NULL);
        (void)weir_limiter_take(limiter, 1, NULL);
        struct crowd *crowd = crowd_new(limiter, 4, 1);
        CHECK_EQ(in_child(nobody_waits, limiter), 0);
        weir_clock_set(START + 4 * WEIR_SEC);
        crowd_free(crowd);
        weir_limiter_free(limiter);
    }
    weir_clock_set(-1);
    team_watch_done();
}

/* ---- handles ---- */

struct shared_handle {
    struct weir_limiter *limiter;
    struct weir_handle *handle;
};

/* What this process can get, by the handle and without it. */
static int take_all(void *arg)
{
    struct shared_handle *h = arg;
    int taken = 0;
    while (weir_handle_take(h->handle, 1, NULL))
        taken++;
    while (weir_limiter_take(h->limiter, 1, NULL))
        taken++;
    weir_handle_free(h->handle);
    weir_limiter_free(h->limiter);
    return taken;
}

TEST(a_child_does_not_spend_what_the_parents_handle_holds)
{
    weir_clock_set(START);
    struct shared_handle h = {.limiter = weir_limiter_new("1/h burst=40", NULL)};
    h.handle = weir_handle_new(h.limiter, 10, NULL);
    CHECK_EQ(weir_handle_chunk(h.handle), 10);
    for (int i = 0; i < 3; i++)
        CHECK(weir_handle_take(h.handle, 1, NULL));
    CHECK_EQ(in_child(take_all, &h), 30); /* 7 stay with the parent */
    CHECK_EQ(take_all(&h), 37);
    weir_clock_set(-1);
}

/* What is left in a share comes back only to the process that has taken it. */
static int free_and_count(void *arg)
{
    struct shared_handle *h = arg;
    struct weir_stat stat;
    weir_handle_free(h->handle);
    weir_limiter_stat(h->limiter, &stat);
    int available = (int)stat.available;
    weir_limiter_free(h->limiter);
    return available;
}

TEST(a_handle_that_is_freed_in_a_child_gives_nothing_back_that_is_not_there)
{
    weir_clock_set(START);
    struct shared_handle h = {.limiter = weir_limiter_new("1/h burst=40", NULL)};
    h.handle = weir_handle_new(h.limiter, 10, NULL);
    CHECK(weir_handle_take(h.handle, 3, NULL));
    CHECK_EQ(in_child(free_and_count, &h), 30);
    CHECK_EQ(free_and_count(&h), 37);
    weir_clock_set(-1);
}
