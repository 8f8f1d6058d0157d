/* SPDX-License-Identifier: MIT */
/*
 * Producers that block: four threads share a limit of 1000 a second, 10 at once, and wait for their turn,
 * first come, first served. Then the limit is set to blocked, which is a pause for those who wait for ever,
 * and the last producer is stopped from outside.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <weir.h>

#define PRODUCERS 4
#define ITEMS     15 /* of each */

static struct weir_limiter *limiter;
static atomic_int made;

static void *produce(void *arg)
{
    (void)arg;
    for (int i = 0; i < ITEMS; i++)
        if (weir_limiter_acquire(limiter, 1, WEIR_FOREVER, NULL))
            made++;
    return NULL;
}

/* Waits for ever, unless somebody sets the stop. */
static void *produce_unless(void *stop)
{
    struct weir_verdict v;
    bool went = weir_limiter_acquire_unless(limiter, 1, WEIR_FOREVER, stop, &v);
    puts(went ? "went" : v.reason == WEIR_CANCELED ? "the last one was stopped" : "was refused");
    return NULL;
}

static bool run_producers(void)
{
    pthread_t threads[PRODUCERS];
    int started = 0;
    while (started < PRODUCERS && pthread_create(&threads[started], NULL, produce, NULL) == 0)
        started++;
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    return started == PRODUCERS;
}

int main(void)
{
    struct weir_error err;
    limiter = weir_limiter_new("1k/s burst=10", &err);
    if (!limiter)
        return fprintf(stderr, "%s\n", err.text), 1;

    int64_t start_ns = weir_now();
    if (!run_producers())
        return fputs("no threads to be had\n", stderr), 1;
    int64_t took_ms = (weir_now() - start_ns + WEIR_MS / 2) / WEIR_MS;
    printf("%d items, 10 of them at once: %s\n", made,
           took_ms >= 50 ? "the others took 50 ms or more" : "more than the limit allows");

    weir_limiter_set(limiter, "blocked", NULL);
    struct weir_stop stop = {0};
    pthread_t last;
    if (pthread_create(&last, NULL, produce_unless, &stop) != 0)
        return fputs("no thread to be had\n", stderr), 1;
    weir_stop_set(&stop); /* a signal handler may do this, too */
    pthread_join(last, NULL);
    weir_limiter_free(limiter); /* when nobody waits any more */
}
