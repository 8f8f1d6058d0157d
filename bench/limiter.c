/* SPDX-License-Identifier: MIT */
/*
 * weir bench limiter: what a decision of a limiter that threads share costs, beside the least it could cost.
 *
 * Every row is measured with 1, 2, 8 and 64 threads, in rounds: each round runs each row once, so that a
 * slow phase of the machine hits baselines and limiters alike. Limits are chosen so that every take passes
 * and none finds more than a full bucket.
 */
#define _POSIX_C_SOURCE 200809L
#include "bench/limiter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/args.h"

#define THREADS_MAX 64
#define CHUNK       1000 /* of a handle */
#define FAST        "1000M/s burst=1000000000M"
#define EMPTY       "1/d"

const int row_threads[ROW_THREADS] = {1, 2, 8, THREADS_MAX};

const struct limiter_row rows[] = {
    {"bare, for comparison", "CAS64", ROW_TAKE_AT, .take_at = bare_cas64},
#ifdef BARE_RDTSC
    {NULL, "rdtsc + load", ROW_TAKE, .take = bare_rdtsc_load},
    {NULL, "rdtsc + CAS64", ROW_TAKE, .take = bare_rdtsc_cas64},
    {NULL, "rdtsc + CAS128", ROW_TAKE, .take = bare_rdtsc_cas128},
    {NULL, "rdtsc + mutex bucket", ROW_TAKE, .take = bare_rdtsc_mutex},
#endif
    {NULL, "clock_gettime + CAS64", ROW_TAKE, .take = bare_gettime_cas64},
    {NULL, "clock_gettime + mutex bucket", ROW_TAKE, .take = bare_gettime_mutex},

    {"explicit time", "take_at", ROW_TAKE_AT, FAST, .take_at = weir_limiter_take_at},
    {NULL, "take_at, verdict", ROW_TAKE_AT, FAST, .take_at = weir_limiter_take_at, .with_verdict = true},
    {NULL, "take_at, refused", ROW_TAKE_AT, EMPTY, .take_at = weir_limiter_take_at, .refused = true},

    {"with the clock", "take", ROW_TAKE, FAST, .take = weir_limiter_take},
    {NULL, "take, verdict", ROW_TAKE, FAST, .take = weir_limiter_take, .with_verdict = true},
    {NULL, "take, refused", ROW_TAKE, EMPTY, .take = weir_limiter_take, .refused = true},
    {NULL, "take, smooth", ROW_TAKE, "1000M/s algo=smooth", .take = weir_limiter_take},
    {NULL, "take, warmup", ROW_TAKE, "1000M/s algo=warmup warmup=1s", .take = weir_limiter_take},
    {NULL, "take, hybrid", ROW_TAKE, "1000M/s algo=hybrid", .take = weir_limiter_take},
    {NULL, "take, two limits", ROW_TAKE, FAST ", 60000M/m", .take = weir_limiter_take},
    {NULL, "take, handle", ROW_HANDLE, FAST, .take = NULL},
    {NULL, "reserve + cancel", ROW_RECALL, FAST, .take = NULL},

    {NULL, "CAS64", ROW_TAKE_AT, .take_at = bare_cas64_counted, .counted = true},
    {NULL, "take_at", ROW_TAKE_AT, FAST, .take_at = counted_take_at, .counted = true},
#ifdef BARE_RDTSC
    {NULL, "rdtsc + CAS64", ROW_TAKE, .take = bare_rdtsc_cas64_counted, .counted = true},
#endif
    {NULL, "take", ROW_TAKE, FAST, .take = counted_take, .counted = true},
};
const size_t row_count = sizeof rows / sizeof rows[0];

/* ---- operations ---- */

/* What one thread works with, on cache lines of its own. */
struct limiter_thread {
    _Alignas(128) const struct limiter_row *row;
    struct weir_limiter *limiter; /* or what a baseline finds there */
    struct weir_handle *handle;
    struct weir_verdict *verdict, room;
    int64_t now;
    int64_t allowed;
    uint64_t failures;
};

/* A pointer that the compiler knows nothing about: it cannot inline what is called through it. */
#define HIDE(pointer) __asm__ volatile("" : "+r"(pointer))

static void run_take_at(void *arg, int64_t count)
{
    struct limiter_thread *a = arg;
    take_at_fn *take_at = a->row->take_at;
    int64_t allowed = 0;
    HIDE(take_at);
    for (int64_t i = 0; i < count; i++)
        allowed += take_at(a->limiter, a->now++, 1, a->verdict);
    a->allowed += allowed;
}

static void run_limiter_take(void *arg, int64_t count)
{
    struct limiter_thread *a = arg;
    take_fn *take = a->row->take;
    int64_t allowed = 0;
    HIDE(take);
    for (int64_t i = 0; i < count; i++)
        allowed += take(a->limiter, 1, a->verdict);
    a->allowed += allowed;
}

static void run_handle(void *arg, int64_t count)
{
    struct limiter_thread *a = arg;
    bool (*take)(struct weir_handle *, int64_t, struct weir_verdict *) = weir_handle_take;
    int64_t allowed = 0;
    HIDE(take);
    for (int64_t i = 0; i < count; i++)
        allowed += take(a->handle, 1, a->verdict);
    a->allowed += allowed;
}

/* Only what is not due yet can be handed back, so the limiter is in debt meanwhile. */
static void run_recall(void *arg, int64_t count)
{
    struct limiter_thread *a = arg;
    bool (*reserve)(struct weir_limiter *, int64_t, int64_t, struct weir_reservation *,
                    struct weir_verdict *) = weir_limiter_reserve;
    bool (*cancel)(struct weir_limiter *, struct weir_reservation *) = weir_limiter_cancel;
    int64_t allowed = 0;
    HIDE(reserve);
    HIDE(cancel);
    for (int64_t i = 0; i < count; i++) {
        struct weir_reservation reservation;
        allowed += reserve(a->limiter, 1, WEIR_FOREVER, &reservation, a->verdict) &&
                   cancel(a->limiter, &reservation);
    }
    a->allowed += allowed;
}

static void run_limiter_row(void *arg, int64_t count)
{
    static bench_fn *const kinds[] = {run_take_at, run_limiter_take, run_handle, run_recall};
    struct limiter_thread *a = arg;
    kinds[a->row->kind](a, count);
    if (a->row->counted) {
        a->failures += bare_failures;
        bare_failures = 0;
    }
}

/* ---- subjects ---- */

/* A row that is ready to be run. */
struct limiter_subject {
    struct bare bare;
    struct limiter_thread actors[THREADS_MAX];
    struct weir_limiter *limiter;
};

/* false: it has said why. */
static bool prepare_limiter(struct limiter_subject *s, const struct limiter_row *row)
{
    struct weir_error err;
    s->limiter = weir_limiter_new(row->limits, &err);
    if (!s->limiter)
        return fprintf(stderr, "weir: %s\n", err.text), false;
    if (row->refused)
        (void)weir_limiter_drain(s->limiter);
    if (row->kind == ROW_RECALL) {
        (void)weir_limiter_drain(s->limiter);
        weir_limiter_charge(s->limiter, BARE_FULL);
    }
    return true;
}

static bool prepare_limiter_thread(struct limiter_subject *s, const struct limiter_row *row,
                                   struct limiter_thread *actor)
{
    struct weir_error err;
    actor->row = row;
    actor->limiter = row->limits ? s->limiter : (struct weir_limiter *)(void *)&s->bare;
    actor->verdict = row->with_verdict ? &actor->room : NULL;
    actor->now = weir_now();
    if (row->kind != ROW_HANDLE)
        return true;
    actor->handle = weir_handle_new(s->limiter, CHUNK, &err);
    if (!actor->handle)
        fprintf(stderr, "weir: %s\n", err.text);
    return actor->handle != NULL;
}

static void subject_free(struct limiter_subject *s)
{
    if (!s)
        return;
    for (int i = 0; i < THREADS_MAX; i++)
        weir_handle_free(s->actors[i].handle);
    weir_limiter_free(s->limiter);
    free(s);
}

static struct limiter_subject *subject_new(const struct limiter_row *row)
{
    struct limiter_subject *s = aligned_alloc(_Alignof(struct limiter_subject), sizeof *s);
    if (!s) {
        fputs("weir: out of memory\n", stderr);
        return NULL;
    }
    memset(s, 0, sizeof *s);
    bare_init(&s->bare);
    bool ready = !row->limits || prepare_limiter(s, row);
    for (int i = 0; i < THREADS_MAX && ready; i++)
        ready = prepare_limiter_thread(s, row, &s->actors[i]);
    if (ready)
        return s;
    subject_free(s);
    return NULL;
}

/* ---- rounds ---- */

static bool run_limiter_cell(struct limiter_subject *s, int threads, int round, double seconds,
                             struct bench_samples *samples)
{
    if (!samples_measure(samples, round, threads, run_limiter_row, s->actors, sizeof s->actors[0], seconds))
        return false;
    for (int i = 0; i < threads; i++) {
        samples->allowed += s->actors[i].allowed;
        samples->failures += s->actors[i].failures;
        s->actors[i].allowed = 0;
        s->actors[i].failures = 0;
    }
    return true;
}

static bool run_limiter_round(struct limiter_subject **subjects, int round, double seconds,
                              struct bench_samples *samples)
{
    for (size_t row = 0; row < row_count; row++)
        for (int i = 0; i < ROW_THREADS; i++) {
            char text[80];
            snprintf(text, sizeof text, "round %d of %d: %s, threads: %d", round + 1, BENCH_RUNS,
                     rows[row].name, row_threads[i]);
            bench_progress(text);
            if (!run_limiter_cell(subjects[row], row_threads[i], round, seconds / BENCH_RUNS,
                                  &samples[row * ROW_THREADS + (size_t)i]))
                return false;
        }
    return true;
}

static bool measure_limiter_rows(struct limiter_subject **subjects, double seconds, struct bench_cell *cells)
{
    struct bench_samples *samples = calloc(row_count * ROW_THREADS, sizeof *samples);
    if (!samples)
        return fputs("weir: out of memory\n", stderr), false;
    bool done = true;
    for (int round = 0; round < BENCH_RUNS && done; round++)
        done = run_limiter_round(subjects, round, seconds, samples);
    bench_progress(NULL);
    for (size_t i = 0; i < row_count * ROW_THREADS && done; i++)
        cells[i] = samples_sum_up(&samples[i]);
    free(samples);
    return done;
}

static bool measure_limiter(double seconds, struct bench_cell *cells)
{
    struct limiter_subject *subjects[sizeof rows / sizeof rows[0]] = {NULL};
    bool ready = true;
    for (size_t row = 0; row < row_count && ready; row++)
        ready = (subjects[row] = subject_new(&rows[row])) != NULL;
    bool done = ready && measure_limiter_rows(subjects, seconds, cells);
    for (size_t row = 0; row < row_count; row++)
        subject_free(subjects[row]);
    return done;
}

int bench_limiter(const struct bench_options *options)
{
    struct bench_cell cells[sizeof rows / sizeof rows[0] * ROW_THREADS];
    if (!measure_limiter(options->seconds, cells))
        return EXIT_ERROR;
    if (options->json)
        limiter_print_json(cells);
    else
        limiter_print_text(cells);
    return EXIT_OK;
}
