/* SPDX-License-Identifier: MIT */
#ifndef WEIR_BENCH_STORE_H
#define WEIR_BENCH_STORE_H

#include "bench/bench.h"
#include "bench/folder.h"
#include "bench/load.h"

#define STORE_ROUNDS      3
#define STORE_CONNECTIONS 50

enum { STORE_MODES = 3, STORE_ORDERS = 2, STORE_PIPELINES = 3, STORE_SIZES = 3 };
enum store_who { STORE_REDIS, STORE_WEIR, STORE_WHO };
extern const char *const store_modes[STORE_MODES];   /* as weir calls them */
extern const char *const store_orders[STORE_ORDERS]; /* which key is asked for: any, always the same */
extern const char *const store_whos[STORE_WHO];
extern const int store_pipelines[STORE_PIPELINES];
enum { MODE_ALWAYS, MODE_EVERYSEC, MODE_NEVER };
enum { ORDER_UNIFORM, ORDER_HOT };

#define GOAL_EVERYSEC   0.8 /* processor time of a take against an INCR, at most */
#define GOAL_ALWAYS_CPU 1.0 /* processor time of a take against INCR, one by one, at most */
#define GOAL_ALWAYS     2.0 /* rate of takes against INCR in a pipeline of 16, at least */
#define GOAL_AT         1   /* of store_pipelines: that one */
#define GOAL_TAIL       3.0 /* p99.99 beside images against without, at most */
#define GOAL_FIRST_S    1.0
#define GOAL_ALL_S      5.0

struct store_cell { /* medians over the rounds */
    bool measured;
    double rate, cpu_us, p50_us, p99_us;
    double written; /* bytes a request */
};

struct store_tail { /* of takes at a fixed rate; medians over the rounds */
    double p50_us, p99_us, p999_us, p9999_us, max_us;
};

struct store_restart {
    int64_t keys;
    int64_t asked,
        missing;           /* keys that were looked at again, and of which not all that was spent was there */
    double first_s, all_s; /* from the start of the process to its first answer, to the last key */
    double log_mb, image_mb; /* that were there to be read */
};

struct store_results {
    bool redis; /* there was one */
    int64_t keys;
    struct folder folder;
    struct store_cell cells[STORE_MODES][STORE_ORDERS][STORE_PIPELINES][STORE_WHO];
    double tail_rate;
    struct store_tail at_rest, beside_images;
    int64_t images;                                /* that were made meanwhile */
    struct store_restart restarts[STORE_SIZES][2]; /* clean, unclean */
};

struct store_run {
    const struct bench_options *options;
    struct store_results *results;
    struct measured_server weir, redis;
};

struct store_policy {
    const char *name, *limit;
};
extern const struct store_policy store_wide; /* refuses nothing, and no key is idle before its next take */

/* Each starts servers and stops them; false: it has said why. */
bool store_measure_tail(struct store_run *run);
bool store_measure_restarts(struct store_run *run);

/* With what is in the run's folder already, if there is something, and with room for so many keys of the
 * policy, so that it need not grow; with `hot` besides. */
bool store_start_weir(struct store_run *run, int mode, const struct store_policy *policy, int64_t keys);
/* Stops it, if it runs, and removes what it has kept. */
void store_end_weir(struct store_run *run);
bool store_make_image(const struct measured_server *weir);
/* Takes of a policy. `words` has to live as long. */
struct load_plan store_take_plan(struct store_run *run, const struct store_policy *policy,
                                 const char *words[static 3]);
/* Also false if there was any error among the replies. */
bool store_load(const struct load_plan *plan, struct load_result *result);
/* Asks for each key once. */
bool store_fill(struct load_plan plan, int64_t keys);
/* A number of INFO, by the name of its line; -1: there is none. */
int64_t store_info(struct store_run *run, const char *name);
double store_median(double values[static STORE_ROUNDS]);

void store_print(const struct store_results *results);
void store_print_json(const struct store_results *results);

#endif
