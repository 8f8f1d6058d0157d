/* SPDX-License-Identifier: MIT */
/*
 * Handles: each thread takes units from the limiter a chunk at a time and spends them alone, without a clock
 * and without touching what others touch. All of them together still get no more than the limit allows.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <weir.h>

#define THREADS 4
#define CHUNK   64

static struct weir_limiter *limiter;
static atomic_int_fast64_t passed;

static void *work(void *arg)
{
    (void)arg;
    struct weir_error err;
    struct weir_handle *handle = weir_handle_new(limiter, CHUNK, &err); /* of this thread alone */
    if (!handle)
        return fprintf(stderr, "%s\n", err.text), NULL;
    int64_t mine = 0;
    while (weir_handle_take(handle, 1, NULL))
        mine++;
    passed += mine;
    weir_handle_free(handle); /* what is left goes back; before the limiter is freed */
    return NULL;
}

static bool run_threads(void)
{
    pthread_t threads[THREADS];
    int started = 0;
    while (started < THREADS && pthread_create(&threads[started], NULL, work, NULL) == 0)
        started++;
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    return started == THREADS;
}

int main(void)
{
    struct weir_error err;
    limiter = weir_limiter_new("1/h burst=10k", &err);
    if (!limiter)
        return fprintf(stderr, "%s\n", err.text), 1;
    if (!run_threads())
        return fputs("no threads to be had\n", stderr), 1;
    printf("%d threads: %" PRIdFAST64 " of 10000 passed\n", THREADS, passed);

    /* A small burst has no room for shares: then a handle asks the limiter each time, and says so. */
    weir_limiter_set(limiter, "1/h burst=2", NULL);
    struct weir_handle *handle = weir_handle_new(limiter, CHUNK, &err);
    if (!handle)
        return fprintf(stderr, "%s\n", err.text), 1;
    printf("with burst=2 a chunk is %" PRId64 "\n", weir_handle_chunk(handle));
    weir_handle_free(handle);
    weir_limiter_free(limiter);
}
