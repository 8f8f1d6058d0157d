/* SPDX-License-Identifier: MIT */
/*
 * weir bench fleet: its rows and what was measured for them.
 */
#ifndef WEIR_BENCH_FLEET_H
#define WEIR_BENCH_FLEET_H

#include "bench/samples.h"

enum { FLEET_THREADS = 3 }; /* numbers of threads */
extern const int fleet_threads[FLEET_THREADS];

enum fleet_kind { FLEET_PLAIN, FLEET_BALANCE, FLEET_MEMBER, FLEET_KINDS };

struct fleet_row {
    const char *name;
    enum fleet_kind kind;
    bool with_verdict;
    double goal; /* at most so many times the plain row above it, with one thread; 0: none */
};

extern const struct fleet_row fleet_rows[];
extern const size_t fleet_row_count;

void fleet_print_text(const struct bench_cell *cells); /* cells[row * FLEET_THREADS + i] */
void fleet_print_json(const struct bench_cell *cells);

#endif
