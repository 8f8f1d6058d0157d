/* SPDX-License-Identifier: MIT */
/*
 * weir bench limiter: its rows and what was measured for them.
 */
#ifndef WEIR_BENCH_LIMITER_H
#define WEIR_BENCH_LIMITER_H

#include "bench/bare.h"
#include "bench/bench.h"

enum { ROW_THREADS = 4 }; /* numbers of threads */
extern const int row_threads[ROW_THREADS];

/* What one operation is. */
enum row_kind {
    ROW_TAKE_AT, /* take_at(limiter, now += 1, 1, verdict) */
    ROW_TAKE,    /* take(limiter, 1, verdict) */
    ROW_HANDLE,  /* weir_handle_take of the thread's own handle */
    ROW_RECALL   /* weir_limiter_reserve and weir_limiter_cancel: two calls */
};

struct row {
    const char *group; /* heading above it; NULL: as the one before */
    const char *name;
    enum row_kind kind;
    const char *limits;  /* NULL: a bare baseline */
    take_at_fn *take_at; /* of these two, the one that fits the kind */
    take_fn *take;
    bool with_verdict;
    bool refused; /* drained before: nothing passes. Else everything does */
    bool counted; /* measured for its failed exchanges, not for its time */
};

extern const struct row rows[];
extern const size_t row_count;

/*
 * One row with one number of threads. The figure is the processor time of all threads, divided by the
 * processors that they can use at the same time and by their operations: with nothing else on the machine,
 * this is the time on the wall from one operation of the limiter to the next.
 */
struct cell {
    double best_ns, median_ns;
    double share;    /* of those processors, that the threads really had while the best was measured */
    double failures; /* of exchanges, an operation */
    double allowed;  /* part of the operations that passed */
};

/* Threads that take turns on one processor do not get into each other's way: with a smaller share, a figure
 * of several threads says little. */
#define SHARE_MIN 0.9

/* cells[row * ROW_THREADS + i]; false: it has said why. */
bool limiter_measure(double seconds, struct cell *cells);

void limiter_print_text(const struct cell *cells);
void limiter_print_json(const struct cell *cells);

#endif
