/* SPDX-License-Identifier: MIT */
/*
 * The subcommands of weir: each is declared in its own file, and listed in main.c.
 */
#ifndef WEIR_CLI_COMMANDS_H
#define WEIR_CLI_COMMANDS_H

#include "cli/args.h"

extern const struct cli_command command_spec, command_sim, command_sim_fleet;
extern const struct cli_command command_serve, command_check, command_reload;
extern const struct cli_command command_take, command_peek, command_acquire, command_reserve, command_give;
extern const struct cli_command command_charge, command_reset, command_explain;
extern const struct cli_command command_commit, command_cancel;
extern const struct cli_command command_keys;
extern const struct cli_command command_top, command_stat, command_policy, command_override, command_quota;
extern const struct cli_command command_backup, command_dump, command_load, command_doctor;
extern const struct cli_command command_bench;

#endif
