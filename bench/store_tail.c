/* SPDX-License-Identifier: MIT */
/*
 * What images do to latencies: takes at a fixed rate, with nothing else going on, and while one image is made
 * after the other; in turns.
 */
#define _GNU_SOURCE

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "bench/store.h"

#define RATE  50000.0
#define PARTS 10 /* times as long as another figure: the tail needs many */

struct images { /* one after the other, by a thread of their own */
    const struct measured_server *server;
    _Atomic bool stop, failed;
};

static void *make_images(void *arg)
{
    struct images *images = arg;
    while (!atomic_load(&images->stop) && !atomic_load(&images->failed))
        if (!store_make_image(images->server))
            atomic_store(&images->failed, true);
    return NULL;
}

static bool load_beside_images(const struct load_plan *plan, struct load_result *result)
{
    struct images images = {.server = plan->server};
    pthread_t thread;
    if (pthread_create(&thread, NULL, make_images, &images) != 0) {
        fputs("weir bench: no thread to be had\n", stderr);
        return false;
    }
    bool good = store_load(plan, result);
    atomic_store(&images.stop, true);
    (void)pthread_join(thread, NULL);
    return good && !atomic_load(&images.failed);
}

struct tail_rounds {
    double p50[STORE_ROUNDS], p99[STORE_ROUNDS], p999[STORE_ROUNDS], p9999[STORE_ROUNDS], max[STORE_ROUNDS];
};

static void keep_tail_round(struct tail_rounds *rounds, int round, const struct load_result *result)
{
    rounds->p50[round] = result->p50_us;
    rounds->p99[round] = result->p99_us;
    rounds->p999[round] = result->p999_us;
    rounds->p9999[round] = result->p9999_us;
    rounds->max[round] = result->max_us;
}

static struct store_tail tail_of(struct tail_rounds *rounds)
{
    return (struct store_tail){store_median(rounds->p50), store_median(rounds->p99),
                               store_median(rounds->p999), store_median(rounds->p9999),
                               store_median(rounds->max)};
}

static bool measure_rounds(struct store_run *run, const struct load_plan *plan)
{
    struct tail_rounds at_rest, beside;
    struct load_result result;
    int64_t images = 0, before;
    for (int round = 0; round < STORE_ROUNDS; round++) {
        bench_progress("latencies at a fixed rate");
        if (!store_load(plan, &result))
            return false;
        keep_tail_round(&at_rest, round, &result);
        before = store_info(run, "store_images");
        bench_progress("latencies at a fixed rate, beside images");
        if (!load_beside_images(plan, &result))
            return false;
        keep_tail_round(&beside, round, &result);
        images += store_info(run, "store_images") - before;
    }
    run->results->images = images;
    run->results->at_rest = tail_of(&at_rest);
    run->results->beside_images = tail_of(&beside);
    return true;
}

bool store_measure_tail(struct store_run *run)
{
    const char *words[3];
    struct load_plan plan = store_take_plan(run, &store_wide, words);
    plan.keys = run->options->keys;
    plan.pipeline = 1;
    plan.rate = run->results->tail_rate = RATE;
    plan.seconds = PARTS * run->options->seconds;
    bench_progress("every key once");
    /* An image first, so that none comes by itself while there is to be none. */
    bool good = store_start_weir(run, MODE_EVERYSEC, &store_wide, plan.keys) && store_fill(plan, plan.keys) &&
                store_make_image(&run->weir) && measure_rounds(run, &plan);
    store_end_weir(run);
    return good;
}
