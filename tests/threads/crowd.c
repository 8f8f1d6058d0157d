/* SPDX-License-Identifier: MIT */
#include "threads/crowd.h"

#include <stdio.h>
#include <stdlib.h>

#include "threads/team.h"

#define CROWD_MAX  10000
#define STACK_SIZE ((size_t)64 << 10)

static void *wait_run(void *arg)
{
    struct crowd_wait *wait = arg;
    (void)weir_limiter_acquire_unless(wait->limiter, wait->n, wait->timeout_ns, &wait->stop, &wait->verdict);
    wait->ended_ns = weir_now();
    atomic_store(&wait->ended, true);
    return NULL;
}

static int64_t waiting(const struct crowd *crowd)
{
    struct weir_stat stat;
    weir_limiter_stat(crowd->limiter, &stat);
    return stat.waiting;
}

static void begin(struct crowd *crowd, int64_t n, int64_t timeout_ns)
{
    struct crowd_wait *wait = &crowd->waits[crowd->count++];
    pthread_attr_t attr;
    wait->limiter = crowd->limiter;
    wait->n = n;
    wait->timeout_ns = timeout_ns;
    (void)pthread_attr_init(&attr);
    if (team_scaled(10) == 10) /* sanitizers need room */
        (void)pthread_attr_setstacksize(&attr, STACK_SIZE);
    if (crowd->count > CROWD_MAX || pthread_create(&wait->thread, &attr, wait_run, wait)) {
        fprintf(stderr, "no thread for waiter %zu\n", crowd->count);
        abort();
    }
    (void)pthread_attr_destroy(&attr);
}

struct crowd *crowd_new(struct weir_limiter *limiter, size_t count, int64_t n)
{
    struct crowd *crowd = calloc(1, sizeof *crowd);
    if (crowd)
        crowd->waits = calloc(CROWD_MAX, sizeof *crowd->waits);
    if (!crowd || !crowd->waits)
        abort();
    crowd->limiter = limiter;
    while (crowd->count < count)
        crowd_add(crowd, n, WEIR_FOREVER);
    return crowd;
}

void crowd_free(struct crowd *crowd)
{
    for (size_t i = 0; i < crowd->count; i++)
        (void)pthread_join(crowd->waits[i].thread, NULL);
    free(crowd->waits);
    free(crowd);
}

void crowd_add(struct crowd *crowd, int64_t n, int64_t timeout_ns)
{
    int64_t before = waiting(crowd);
    begin(crowd, n, timeout_ns);
    while (waiting(crowd) == before && !atomic_load(&crowd->waits[crowd->count - 1].ended))
        team_yield();
}

void crowd_add_many(struct crowd *crowd, size_t count, int64_t n)
{
    int64_t before = waiting(crowd);
    for (size_t i = 0; i < count; i++)
        begin(crowd, n, WEIR_FOREVER);
    while (waiting(crowd) < before + (int64_t)count)
        team_yield();
}

size_t crowd_ended(const struct crowd *crowd)
{
    size_t ended = 0;
    for (size_t i = 0; i < crowd->count; i++)
        ended += atomic_load(&crowd->waits[i].ended);
    return ended;
}

void crowd_await(const struct crowd *crowd, size_t ended)
{
    while (crowd_ended(crowd) < ended)
        team_yield();
}

void crowd_await_one(const struct crowd *crowd, size_t which)
{
    while (!atomic_load(&crowd->waits[which].ended))
        team_yield();
}

void crowd_stop(struct crowd *crowd, size_t which)
{
    weir_stop_set(&crowd->waits[which].stop);
    crowd_await_one(crowd, which);
}
