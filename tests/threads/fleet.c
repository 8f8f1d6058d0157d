/* SPDX-License-Identifier: MIT */
/*
 * Threads that join, take, wait, ask asynchronously and leave, all at once, on real time: no more passes than
 * the pools allow, each question has one answer, and nothing is left.
 */
#include <pthread.h>

#include "unit/fleet/member_kit.h"

enum { THREADS = 8, NAMES = 2 };
#define SPAN_NS (WEIR_SEC / 2)

static atomic_llong passed[NAMES], asked, answered;
static int64_t began_ns;

struct order {
    int name;
    int64_t n;
};

static void answer(void *arg, const struct weir_verdict *said)
{
    struct order *order = arg;
    if (said->allowed)
        (void)atomic_fetch_add(&passed[order->name], order->n);
    (void)atomic_fetch_add(&answered, 1);
    free(order);
}

static void use(struct weir_limiter *member, int name, struct rng *rng)
{
    int64_t n = rng_between(rng, 1, 5);
    struct weir_fleet_stat stat;
    struct order *order;
    switch (rng_between(rng, 0, 4)) {
    case 0:
        if (weir_limiter_acquire(member, n, rng_between(rng, 0, 3) * WEIR_MS, NULL))
            (void)atomic_fetch_add(&passed[name], n);
        break;
    case 1:
        order = malloc(sizeof *order);
        *order = (struct order){name, n};
        if (weir_fleet_take(member, n, rng_between(rng, 0, 3) * WEIR_MS, answer, order))
            (void)atomic_fetch_add(&asked, 1);
        else
            free(order);
        break;
    case 2:
        (void)weir_fleet_stat(member, &stat);
        (void)weir_fleet_exhausted(NULL, NULL);
        break;
    default:
        if (weir_limiter_take(member, n, NULL))
            (void)atomic_fetch_add(&passed[name], n);
    }
}

/* On a machine that has other work the time may be over before anybody has begun. */
static bool goes_on(void)
{
    int64_t span_ns = weir_now() - began_ns;
    return span_ns < SPAN_NS || (span_ns < PATIENCE && (passed[0] == 0 || passed[1] == 0));
}

static void *work(void *arg)
{
    struct rng rng = rng_new((uint64_t)(uintptr_t)arg);
    static const char *const names[NAMES] = {"one", "other"};
    while (goes_on()) {
        int name = (int)rng_between(&rng, 0, NAMES - 1);
        struct weir_error own;
        struct weir_limiter *member =
            weir_fleet_join("local:threads?base=20&leave=1s", names[name], "1k/100ms algo=quota", &own);
        for (int64_t i = rng_between(&rng, 1, 200); member && i > 0; i--)
            use(member, name, &rng);
        weir_limiter_free(member);
    }
    return NULL;
}

TEST(threads_that_come_and_go_share_what_there_is)
{
    pthread_t threads[THREADS];
    weir_clock_set(-1);
    began_ns = weir_now();
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
    for (int i = 0; i < THREADS; i++)
        (void)pthread_join(threads[i], NULL);
    int64_t windows = (weir_now() - began_ns) / (100 * WEIR_MS) + 2;
    EVENTUALLY(asked == answered); /* who has left does not wait for a thread that is slow */
    for (int i = 0; i < NAMES; i++) {
        CHECK(passed[i] > 0);
        CHECK(passed[i] <= 1000 * windows);
    }
}
