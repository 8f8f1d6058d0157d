/* SPDX-License-Identifier: MIT */
/*
 * Measuring short operations: a run of many, repeated; the best run counts, because on a shared machine
 * everything else only adds to it. The median shows how much it added.
 */
#ifndef WEIR_BENCH_BENCH_H
#define WEIR_BENCH_BENCH_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/json.h"

#define BENCH_RUNS 9

struct bench_result {
    double best_ns, median_ns; /* per operation */
};

/* Does `count` operations. */
typedef void bench_fn(void *arg, int64_t count);

/* Measures for about `seconds`; on a terminal `name` is shown meanwhile. */
struct bench_result bench_measure(const char *name, bench_fn *fn, void *arg, double seconds);

/* For qsort: of two doubles the smaller comes first. */
int bench_by_value(const void *a, const void *b);

/* On a terminal: what is being measured, on one line of standard error. NULL: nothing any more. */
void bench_progress(const char *what);

/* Let real time pass: so long; until a time of weir_now. */
void bench_sleep(double seconds);
void bench_sleep_until(int64_t time_ns);

/* Processor time of the whole process. */
double bench_cpu_seconds(void);

/* Who had the processors: all times since some beginning, in seconds. */
struct bench_load {
    double wall_s, own_s, used_s; /* on the wall; had by this process; had by anybody, or stolen by a host */
};
struct bench_load bench_load_now(void);
/* What others had of the processors between two looks, as a part of all. 0 if the system does not tell. */
double bench_others(struct bench_load from, struct bench_load to);

/* With more in the hands of others, a figure that came out badly says little. */
#define BENCH_OTHERS_MAX 0.1

/* Keeps the compiler from dropping what nobody reads. */
static inline void bench_keep(int64_t value)
{
    __asm__ volatile("" : : "r"(value) : "memory");
}

#define BENCH_KEYS_MIN 1000
#define BENCH_KEYS_MAX 100000000 /* names of keys have 8 digits */

struct bench_options {
    bool json;
    double seconds; /* for one figure; wait: for one step of its curves */
    int64_t keys;   /* table: the most; server: of the row with many; store: of all but the restarts */
};

/* What the figures were measured on: lines of text, or members of an open object. */
void bench_print_machine(void);
void bench_json_machine(struct json *json);

int bench_core(const struct bench_options *options);
int bench_fleet(const struct bench_options *options);
int bench_limiter(const struct bench_options *options);
int bench_server(const struct bench_options *options);
int bench_store(const struct bench_options *options);
int bench_table(const struct bench_options *options);
int bench_wait(const struct bench_options *options);

#endif
