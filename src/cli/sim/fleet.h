/* SPDX-License-Identifier: MIT */
/*
 * `weir sim fleet`: what is simulated, and what is printed of it.
 */
#ifndef WEIR_CLI_SIM_FLEET_H
#define WEIR_CLI_SIM_FLEET_H

#include "sim/fleet.h"

/* argv[0] is "fleet". Gives the exit status: 1 if a law was broken. */
int sim_fleet(int argc, char **argv);

/* `repeat`: the command that repeats it; `took_s`: real seconds. */
void sim_fleet_print(const struct sim_fleet *sim, const struct sim_fleet_result *result, const char *limit,
                     const char *repeat, double took_s);
void sim_fleet_json(const struct sim_fleet *sim, const struct sim_fleet_result *result, const char *limit,
                    const char *repeat);

#endif
