/* SPDX-License-Identifier: MIT */
/*
 * weir bench fleet: what a take from the limiter of a fleet costs, beside a plain one.
 *
 * Rows are measured in rounds, one after the other, so that a slow phase of the machine hits all alike. A
 * balance is kept full by a thread that looks at it every millisecond and turns it to a new deadline now and
 * then, as an agent does; a member of local: has the real one.
 */
#define _POSIX_C_SOURCE 200809L
#include "bench/fleet.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/args.h"
#include "limiter/balance.h"
#include "limiter/life.h"
#include "weir-fleet.h"

#define THREADS_MAX 64
#define FAST        "1000M/s burst=1000000000M"
#define MEMBER      "10000M/s algo=quota" /* far more than can be taken, a chunk about every second */
#define FULL        INT64_C(1000000000)
#define TURN_NS     (100 * WEIR_MS) /* how often the balance gets a new deadline, two such ahead */

const int fleet_threads[FLEET_THREADS] = {1, 2, THREADS_MAX};

const struct fleet_row fleet_rows[] = {
    {"plain limiter", FLEET_PLAIN, .with_verdict = false},
    {"lease balance", FLEET_BALANCE, .goal = 1.5},
    {"member of local:", FLEET_MEMBER, .goal = 1.5},
    {"plain limiter, verdict", FLEET_PLAIN, .with_verdict = true},
    {"lease balance, verdict", FLEET_BALANCE, .with_verdict = true},
    {"member of local:, verdict", FLEET_MEMBER, .with_verdict = true},
};
enum { ROWS = sizeof fleet_rows / sizeof fleet_rows[0] };
const size_t fleet_row_count = ROWS;

/* ---- who fills the balance ---- */

struct balance_filler {
    struct lease_balance balance;
    pthread_t thread;
    atomic_bool stop;
};

static void filler_want(struct lease_balance *balance, int64_t n)
{
    (void)balance, (void)n; /* it looks often enough */
}

static void filler_explain(struct lease_balance *balance, int64_t now, int64_t n,
                           struct weir_verdict *verdict)
{
    (void)balance, (void)now, (void)n, (void)verdict;
}

static bool filler_acquire(struct lease_balance *balance, int64_t now, int64_t n, int64_t timeout_ns,
                           struct weir_stop *stop, struct weir_verdict *verdict)
{
    (void)balance, (void)now, (void)n, (void)timeout_ns, (void)stop, (void)verdict;
    return false; /* nobody waits here */
}

static void filler_free(struct lease_balance *balance)
{
    struct balance_filler *filler = balance->owner;
    atomic_store(&filler->stop, true);
    (void)pthread_join(filler->thread, NULL);
    free(filler);
}

static const struct balance_ops filler_ops = {
    .want = filler_want, .explain = filler_explain, .acquire = filler_acquire, .free = filler_free};

static void filler_fill(struct balance_filler *filler, int64_t *turned)
{
    int64_t now = weir_now();
    if (now - *turned >= TURN_NS) {
        *turned = now;
        (void)weir_balance_set_deadline(&filler->balance, now + 2 * TURN_NS);
    }
    weir_balance_rearm(&filler->balance);
    if (weir_balance_held(&filler->balance) < FULL / 2)
        weir_balance_put(&filler->balance, FULL);
}

static void *filler_run(void *arg)
{
    struct balance_filler *filler = arg;
    for (int64_t turned = 0; !atomic_load(&filler->stop); bench_sleep(0.001))
        filler_fill(filler, &turned);
    return NULL;
}

static struct weir_limiter *open_balance(struct weir_error *err)
{
    struct balance_filler *filler = aligned_alloc(_Alignof(struct balance_filler), sizeof *filler);
    if (!filler)
        return snprintf(err->text, sizeof err->text, "out of memory"), NULL;
    memset(filler, 0, sizeof *filler);
    weir_balance_init(&filler->balance, &filler_ops, filler);
    int64_t turned = -TURN_NS;
    filler_fill(filler, &turned);
    struct weir_limiter *limiter = weir_balance_limiter(&filler->balance, FAST, err);
    if (limiter && pthread_create(&filler->thread, NULL, filler_run, filler) == 0)
        return limiter;
    if (limiter) { /* a limiter that cannot be let go: the program ends now */
        snprintf(err->text, sizeof err->text, "no thread to be had");
        return NULL;
    }
    free(filler);
    return NULL;
}

static struct weir_limiter *open_kind(enum fleet_kind kind, struct weir_error *err)
{
    if (kind == FLEET_BALANCE)
        return open_balance(err);
    if (kind == FLEET_MEMBER)
        return weir_fleet_join("local:", "bench", MEMBER, err);
    return weir_limiter_new(FAST, err);
}

/* ---- operations ---- */

/* What one thread works with, on cache lines of its own. */
struct fleet_thread {
    _Alignas(128) struct weir_limiter *limiter;
    struct weir_verdict *verdict, room;
    int64_t allowed;
};

static void run_fleet_take(void *arg, int64_t count)
{
    struct fleet_thread *a = arg;
    bool (*take)(struct weir_limiter *, int64_t, struct weir_verdict *) = weir_limiter_take;
    int64_t allowed = 0;
    __asm__ volatile("" : "+r"(take)); /* called through a pointer that the compiler knows nothing about */
    for (int64_t i = 0; i < count; i++)
        allowed += take(a->limiter, 1, a->verdict);
    a->allowed += allowed;
}

/* ---- rounds ---- */

static bool run_fleet_cell(struct weir_limiter *limiter, const struct fleet_row *row, int threads, int round,
                           double seconds, struct bench_samples *samples)
{
    static struct fleet_thread actors[THREADS_MAX];
    for (int i = 0; i < threads; i++) {
        actors[i] = (struct fleet_thread){.limiter = limiter};
        actors[i].verdict = row->with_verdict ? &actors[i].room : NULL;
    }
    if (!samples_measure(samples, round, threads, run_fleet_take, actors, sizeof actors[0], seconds))
        return false;
    for (int i = 0; i < threads; i++)
        samples->allowed += actors[i].allowed;
    return true;
}

static bool run_fleet_round(struct weir_limiter **limiters, int round, double seconds,
                            struct bench_samples *samples)
{
    for (size_t row = 0; row < ROWS; row++)
        for (int i = 0; i < FLEET_THREADS; i++) {
            char text[80];
            snprintf(text, sizeof text, "round %d of %d: %s, threads: %d", round + 1, BENCH_RUNS,
                     fleet_rows[row].name, fleet_threads[i]);
            bench_progress(text);
            if (!run_fleet_cell(limiters[fleet_rows[row].kind], &fleet_rows[row], fleet_threads[i], round,
                                seconds / BENCH_RUNS, &samples[row * FLEET_THREADS + (size_t)i]))
                return false;
        }
    return true;
}

static bool measure_fleet(struct weir_limiter **limiters, double seconds, struct bench_cell *cells)
{
    static struct bench_samples samples[ROWS * FLEET_THREADS];
    bool done = true;
    for (int round = 0; round < BENCH_RUNS && done; round++)
        done = run_fleet_round(limiters, round, seconds, samples);
    bench_progress(NULL);
    for (size_t i = 0; i < ROWS * FLEET_THREADS && done; i++)
        cells[i] = samples_sum_up(&samples[i]);
    return done;
}

int bench_fleet(const struct bench_options *options)
{
    struct weir_limiter *limiters[FLEET_KINDS] = {NULL};
    struct bench_cell cells[ROWS * FLEET_THREADS];
    struct weir_error err;
    bool ready = true;
    for (int kind = 0; kind < FLEET_KINDS && ready; kind++) {
        limiters[kind] = open_kind((enum fleet_kind)kind, &err);
        ready = limiters[kind] != NULL;
    }
    if (!ready)
        fprintf(stderr, "weir: %s\n", err.text);
    bool done = ready && measure_fleet(limiters, options->seconds, cells);
    for (int kind = 0; kind < FLEET_KINDS; kind++)
        weir_limiter_free(limiters[kind]);
    if (!done)
        return EXIT_ERROR;
    if (options->json)
        fleet_print_json(cells);
    else
        fleet_print_text(cells);
    return EXIT_OK;
}
