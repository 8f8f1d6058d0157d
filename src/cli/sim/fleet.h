/* SPDX-License-Identifier: MIT */
#ifndef WEIR_CLI_SIM_FLEET_H
#define WEIR_CLI_SIM_FLEET_H

/* `weir sim fleet`: argv[0] is "fleet". Gives the exit status: 1 if a law was broken. */
int sim_fleet(int argc, char **argv);

#endif
