/* SPDX-License-Identifier: MIT */
/*
 * How late a thread goes on that has waited for its turn.
 *
 * The threads of a turn ask a limiter of 10 000/s, one after the other, as soon as each has had its turn
 * before; so there is always a unit due within 100 us, and each is due 100 us after the one before. Beside
 * it, the same threads sleep with clock_nanosleep until times of the same pattern, dealt out by a counter.
 * The ways take turns, so that a slow phase of the machine hits all of them.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

#include "bench/bench.h"
#include "bench/team.h"
#include "bench/wait.h"
#include "weir.h"

#define PERIOD_NS (WEIR_SEC / WAKE_RATE)
#define TURNS     3

const int wake_threads[WAKE_SIZES] = {1, 64};

struct wake {
    enum wake_by by;
    struct weir_limiter *limiter;
    int64_t start_ns, count_from_ns, end_ns; /* on the clock of the way */
    _Atomic int64_t next;                    /* clock_nanosleep: the number of the next turn */
    _Atomic int64_t count;
    int64_t capacity, *samples; /* of all turns */
    double others;              /* their sum over the turns */
};

static void record(struct wake *wake, int64_t due, int64_t now)
{
    if (due < wake->count_from_ns || due >= wake->end_ns)
        return;
    int64_t i = atomic_fetch_add_explicit(&wake->count, 1, memory_order_relaxed);
    if (i < wake->capacity)
        wake->samples[i] = now - due;
}

/* ---- ways to wait ---- */

/* The bucket holds one unit. It is empty when the unit is due, and full again a period later: so the verdict
 * tells the due time. */
static void wait_by_acquire(struct wake *wake)
{
    struct weir_verdict verdict;
    for (int64_t now = weir_now(); now < wake->end_ns; now = weir_now())
        if (weir_limiter_acquire_at(wake->limiter, now, 1, WEIR_FOREVER, NULL, &verdict) &&
            verdict.wait_ns > 0)
            record(wake, now + verdict.reset_after_ns - PERIOD_NS, weir_now());
}

static int64_t monotonic_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * WEIR_SEC + ts.tv_nsec;
}

static void wake_sleep_until(int64_t time_ns)
{
    struct timespec ts = {.tv_sec = (time_t)(time_ns / WEIR_SEC), .tv_nsec = (long)(time_ns % WEIR_SEC)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
        ;
}

static void wait_by_nanosleep(struct wake *wake)
{
    int64_t due;
    do {
        int64_t turn = atomic_fetch_add_explicit(&wake->next, 1, memory_order_relaxed);
        due = wake->start_ns + turn * PERIOD_NS;
        if (due <= monotonic_ns())
            continue; /* too late to wait for it */
        wake_sleep_until(due);
        record(wake, due, monotonic_ns());
    } while (due < wake->end_ns);
}

static void wake_work(void *arg)
{
    struct wake *wake = arg;
    if (wake->by == WAKE_NANOSLEEP)
        (void)prctl(PR_SET_TIMERSLACK, 1UL);
    if (wake->by == WAKE_ACQUIRE)
        wait_by_acquire(wake);
    else
        wait_by_nanosleep(wake);
}

/* ---- turns ---- */

/* The first tenth of a turn is not counted: threads find their places. */
static bool run_turn(struct wake *wake, int threads, double seconds)
{
    struct weir_error err;
    struct team *team = team_new(threads, wake_work, wake, 0);
    if (!team)
        return false;
    wake->limiter = weir_limiter_new("10k/s burst=1", &err);
    wake->start_ns = wake->by == WAKE_ACQUIRE ? weir_now() : monotonic_ns();
    wake->count_from_ns = wake->start_ns + (int64_t)(seconds * 1e8);
    wake->end_ns = wake->start_ns + (int64_t)(seconds * 1e9);
    wake->next = 1;
    struct bench_load before = bench_load_now();
    team_go(team);
    team_end(team);
    wake->others += bench_others(before, bench_load_now());
    if (!wake->limiter)
        return fprintf(stderr, "weir: %s\n", err.text), false;
    weir_limiter_free(wake->limiter);
    return true;
}

static bool run_turns(struct wake *wakes, double seconds)
{
    for (int turn = 0; turn < TURNS; turn++)
        for (int i = 0; i < WAKE_SIZES * WAKE_WAYS; i++) {
            char text[80];
            snprintf(text, sizeof text, "wake-ups of %d threads, turn %d of %d", wake_threads[i / WAKE_WAYS],
                     turn + 1, TURNS);
            bench_progress(text);
            wakes[i].by = (enum wake_by)(i % WAKE_WAYS);
            if (!run_turn(&wakes[i], wake_threads[i / WAKE_WAYS], seconds))
                return false;
        }
    return true;
}

/* ---- sums ---- */

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static struct wake_errors sum_up_wakes(struct wake *wake)
{
    int64_t count = wake->count < wake->capacity ? wake->count : wake->capacity, *sorted = wake->samples;
    if (count == 0)
        return (struct wake_errors){0};
    qsort(sorted, (size_t)count, sizeof sorted[0], by_value);
    return (struct wake_errors){.count = count,
                                .p50 = sorted[count / 2],
                                .p99 = sorted[count * 99 / 100],
                                .p999 = sorted[count * 999 / 1000],
                                .max = sorted[count - 1],
                                .others = wake->others / TURNS};
}

bool wake_measure(double seconds, struct wake_errors *errors)
{
    struct wake wakes[WAKE_SIZES * WAKE_WAYS] = {0};
    bool ready = true;
    for (int i = 0; i < WAKE_SIZES * WAKE_WAYS; i++) {
        wakes[i].capacity = (int64_t)(seconds * WAKE_RATE * TURNS) + 1;
        wakes[i].samples = calloc((size_t)wakes[i].capacity, sizeof *wakes[i].samples);
        ready = ready && wakes[i].samples;
    }
    if (!ready)
        fputs("weir: out of memory\n", stderr);
    bool done = ready && run_turns(wakes, seconds);
    bench_progress(NULL);
    for (int i = 0; i < WAKE_SIZES * WAKE_WAYS; i++) {
        if (done)
            errors[i] = sum_up_wakes(&wakes[i]);
        free(wakes[i].samples);
    }
    return done;
}
