/* SPDX-License-Identifier: MIT */
/*
 * The answers of `weir sim`: a table with a line for every arrival, or JSON.
 */
#ifndef WEIR_CLI_SIM_PRINT_H
#define WEIR_CLI_SIM_PRINT_H

#include "cli/json.h"
#include "core/limit.h"
#include "sim/arrivals.h"

/* What has been asked and answered. */
struct sim_sums {
    int64_t arrivals, arrivals_allowed;
    int64_t units, units_allowed;
    int64_t longest_wait_ns;
    int64_t clock_steps; /* times at which the clock stepped back */
};

/* How the lines of one simulation look. */
struct sim_table {
    const struct weir_policy *policy;
    bool waits, behind, several; /* columns that not every policy needs */
    int decimals, time_width;    /* of the times, in seconds */
    int n_width, verdict_width;
};

void sim_table_init(struct sim_table *table, const struct weir_policy *policy,
                    const struct arrivals *arrivals, bool waits);
void sim_table_head(const struct sim_table *table);
void sim_table_row(const struct sim_table *table, int64_t now, int64_t n, const struct weir_verdict *verdict);
void sim_table_step(const struct sim_table *table, int64_t before, int64_t now);
void sim_table_sums(const struct sim_table *table, const struct sim_sums *sums);

void sim_json_row(struct json *json, int64_t now, int64_t n, const struct weir_verdict *verdict);
void sim_json_sums(struct json *json, const struct sim_sums *sums);

#endif
