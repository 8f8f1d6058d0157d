/* SPDX-License-Identifier: MIT */
/*
 * Threads that do the same thing at the same time. They are made first and then let go together, so that
 * making them is not measured.
 */
#ifndef WEIR_BENCH_TEAM_H
#define WEIR_BENCH_TEAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/bench.h"

typedef void team_fn(void *arg);

struct team;

/* Thread i will call fn((char *)args + i * size). NULL: so many threads cannot be had; it has said so on
 * standard error. */
struct team *team_new(int threads, team_fn *fn, void *args, size_t size);
void team_go(struct team *team);
/* Waits until all have returned. */
void team_end(struct team *team);

/* What a team did. Processor time is what the system has charged the threads with. */
struct team_run {
    int64_t ops;
    double wall_s, cpu_s;
};

/* Thread i calls fn((char *)args + i * size, many) again and again, for about `seconds`. Gives false if
 * there are not so many threads. */
bool team_measure(int threads, bench_fn *fn, void *args, size_t size, double seconds, struct team_run *run);

/* How many of `threads` threads can run at the same time. */
int team_width(int threads);

#endif
