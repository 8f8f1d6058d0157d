/* SPDX-License-Identifier: MIT */
/*
 * weir bench limiter: its rows and what was measured for them.
 */
#ifndef WEIR_BENCH_LIMITER_H
#define WEIR_BENCH_LIMITER_H

#include "bench/bare.h"
#include "bench/samples.h"

enum { ROW_THREADS = 4 }; /* numbers of threads */
extern const int row_threads[ROW_THREADS];

/* What one operation is. */
enum limiter_row_kind {
    ROW_TAKE_AT, /* take_at(limiter, now += 1, 1, verdict) */
    ROW_TAKE,    /* take(limiter, 1, verdict) */
    ROW_HANDLE,  /* weir_handle_take of the thread's own handle */
    ROW_RECALL   /* weir_limiter_reserve and weir_limiter_cancel: two calls */
};

struct limiter_row {
    const char *group; /* heading above it; NULL: as the one before */
    const char *name;
    enum limiter_row_kind kind;
    const char *limits;  /* NULL: a bare baseline */
    take_at_fn *take_at; /* of these two, the one that fits the kind */
    take_fn *take;
    bool with_verdict;
    bool refused; /* drained before: nothing passes. Else everything does */
    bool counted; /* measured for its failed exchanges, not for its time */
};

extern const struct limiter_row rows[];
extern const size_t row_count;

void limiter_print_text(const struct bench_cell *cells); /* cells[row * ROW_THREADS + i] */
void limiter_print_json(const struct bench_cell *cells);

#endif
