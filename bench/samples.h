/* SPDX-License-Identifier: MIT */
/*
 * What a row of a table of figures was measured at, with one number of threads, in BENCH_RUNS rounds; and the
 * figure that follows.
 */
#ifndef WEIR_BENCH_SAMPLES_H
#define WEIR_BENCH_SAMPLES_H

#include "bench/bench.h"

struct bench_samples {
    double ns[BENCH_RUNS], share[BENCH_RUNS];
    int64_t ops, allowed;
    uint64_t failures;
};

/*
 * The figure is the processor time of all threads, divided by the processors that they can use at the same
 * time and by their operations: with nothing else on the machine, this is the time on the wall from one
 * operation to the next.
 */
struct bench_cell {
    double best_ns, median_ns;
    double share;    /* of those processors, that the threads really had while the best was measured */
    double failures; /* of exchanges, an operation */
    double allowed;  /* part of the operations that passed */
};

/* Threads that take turns on one processor do not get into each other's way: with a smaller share, a figure
 * of several threads says little. */
#define SHARE_MIN 0.9

/* One more round: thread i calls fn((char *)args + i * size, many), as by team_measure. What passed the
 * caller adds. false: there are not so many threads; it has said so. */
bool samples_measure(struct bench_samples *samples, int round, int threads, bench_fn *fn, void *args,
                     size_t size, double seconds);
/* Sorts them. Without any it is all 0. */
struct bench_cell samples_sum_up(struct bench_samples *samples);

#endif
