/* SPDX-License-Identifier: MIT */
/*
 * How long single takes last, one by one, while another thread does something to the same table.
 *
 * The ways take turns. Of each the round counts in which the slowest takes were fastest: other work on the
 * machine only adds to them. A live change runs from its beginning to its end in every round.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/table/table.h"
#include "os/clock.h"

#define SWEEP_SLOTS 65536
#define ENOUGH      10000

const char *const table_beside_names[TABLE_BESIDES] = {"nothing", "takes", "sweep", "live change"};

/* ---- times, counted ---- */

/* Every power of 2 has FINE counters, so that a time is known to 3 %; below FINE it is exact. */
enum { FINE_BITS = 5, FINE = 1 << FINE_BITS, COUNTERS = FINE * (64 - FINE_BITS) };

struct tail_histogram {
    int64_t counts[COUNTERS];
    int64_t count, max;
};

static size_t counter_of(uint64_t ns)
{
    if (ns < FINE)
        return (size_t)ns;
    int shift = 63 - __builtin_clzll(ns) - FINE_BITS;
    return (size_t)(shift + 1) * FINE + (size_t)(ns >> shift) - FINE;
}

/* The longest time that is counted there. */
static int64_t counter_end(size_t counter)
{
    if (counter < FINE)
        return (int64_t)counter;
    size_t shift = counter / FINE - 1;
    return (int64_t)(((uint64_t)(counter % FINE + FINE + 1) << shift) - 1);
}

static void histogram_add(struct tail_histogram *h, int64_t ns)
{
    h->counts[counter_of(ns > 0 ? (uint64_t)ns : 0)]++;
    h->count++;
    h->max = max64(h->max, ns);
}

/* Of `of` times all but one are at most that. */
static int64_t all_but_one(const struct tail_histogram *h, int64_t of)
{
    int64_t above = h->count / of;
    size_t counter = COUNTERS;
    while (counter > 0 && above >= 0)
        above -= h->counts[--counter];
    return min64(counter_end(counter), h->max);
}

/* ---- the other thread ---- */

struct table_companion {
    enum table_beside beside;
    struct weir_table *table;
    const struct table_walk *walk;
    double seconds;
    atomic_bool begun, enough, done; /* enough: takes for a p99.99 */
    double *change_ms;               /* the shortest of this round; 0: none yet */
    struct weir_error err;
};

static void change_table_limits(struct table_companion *c)
{
    const char *const limits[] = {TABLE_LIMITS_OTHER, TABLE_LIMITS}; /* ends as it was */
    for (size_t i = 0; i < 2 && c->err.code == 0; i++) {
        int64_t began = clock_now();
        (void)weir_table_set(c->table, limits[i], &c->err);
        double ms = (double)(clock_now() - began) * 1e-6;
        *c->change_ms = *c->change_ms == 0 || ms < *c->change_ms ? ms : *c->change_ms;
    }
}

static void do_something(struct table_companion *c, size_t *at)
{
    switch (c->beside) {
    case BESIDE_TAKES:
        for (int i = 0; i < 1024; i++, *at = (*at + 1) & (c->walk->count - 1))
            (void)weir_table_take(c->table, &c->walk->keys[*at], TABLE_KEY_LEN, 1, NULL);
        break;
    case BESIDE_SWEEP:
        (void)weir_table_sweep(c->table, SWEEP_SLOTS);
        break;
    case BESIDE_CHANGE:
        change_table_limits(c);
        break;
    default:
        bench_sleep(c->seconds);
    }
}

static void *keep_company(void *arg)
{
    struct table_companion *c = arg;
    size_t at = c->walk->count / 2;
    c->err.code = 0;
    atomic_store(&c->begun, true);
    int64_t end = clock_now() + (int64_t)(c->seconds * 1e9);
    do
        do_something(c, &at);
    while ((clock_now() < end || !atomic_load(&c->enough)) && c->err.code == 0);
    atomic_store(&c->done, true);
    return NULL;
}

/* ---- rounds ---- */

static void time_takes(struct table_companion *c, size_t *at, struct tail_histogram *h)
{
    while (!atomic_load(&c->begun))
        ;
    int64_t before = clock_now();
    while (!atomic_load_explicit(&c->done, memory_order_relaxed)) {
        bool allowed = weir_table_take(c->table, &c->walk->keys[*at], TABLE_KEY_LEN, 1, NULL);
        bench_keep(allowed);
        int64_t after = clock_now();
        histogram_add(h, after - before);
        before = after;
        if (h->count == ENOUGH)
            atomic_store(&c->enough, true);
        *at = (*at + 1) & (c->walk->count - 1);
    }
}

static void note_round(const struct tail_histogram *h, double others, struct table_tail *tail)
{
    int64_t p9999 = all_but_one(h, 10000);
    tail->max = max64(tail->max, h->max);
    tail->count += h->count;
    if (tail->p9999 != 0 && tail->p9999 <= p9999)
        return;
    tail->p50 = all_but_one(h, 2);
    tail->p99 = all_but_one(h, 100);
    tail->p999 = all_but_one(h, 1000);
    tail->p9999 = p9999;
    tail->others = others;
}

/* false: it has said why. */
static bool run_tail_round(struct table_companion *c, size_t *at, struct tail_histogram *h,
                           struct table_tail *tail)
{
    pthread_t thread;
    memset(h, 0, sizeof *h);
    atomic_store(&c->begun, false);
    atomic_store(&c->enough, false);
    atomic_store(&c->done, false);
    struct bench_load before = bench_load_now();
    int error = pthread_create(&thread, NULL, keep_company, c);
    if (error)
        return fprintf(stderr, "weir: cannot start a thread: %s\n", strerror(error)), false;
    time_takes(c, at, h);
    pthread_join(thread, NULL);
    note_round(h, bench_others(before, bench_load_now()), tail);
    if (c->err.code)
        fprintf(stderr, "weir: %s\n", c->err.text);
    return c->err.code == 0;
}

bool table_tails_measure(struct weir_table *table, const struct table_walk *walk, double seconds,
                         struct table_tail tails[static TABLE_BESIDES], struct table_changes *changes)
{
    struct tail_histogram *h = malloc(sizeof *h);
    double change_ms[BENCH_RUNS] = {0};
    size_t at = 0;
    if (!h)
        return fputs("weir: out of memory\n", stderr), false;
    bool done = true;
    for (int round = 0; round < BENCH_RUNS && done; round++)
        for (enum table_beside beside = 0; beside < TABLE_BESIDES && done; beside++) {
            char text[80];
            struct table_companion company = {.beside = beside,
                                              .table = table,
                                              .walk = walk,
                                              .seconds = seconds,
                                              .change_ms = &change_ms[round]};
            snprintf(text, sizeof text, "latencies, round %d of %d: beside %s", round + 1, BENCH_RUNS,
                     table_beside_names[beside]);
            bench_progress(text);
            done = run_tail_round(&company, &at, h, &tails[beside]);
        }
    free(h);
    qsort(change_ms, BENCH_RUNS, sizeof change_ms[0], bench_by_value);
    *changes = (struct table_changes){change_ms[0], change_ms[BENCH_RUNS / 2]};
    return done;
}
