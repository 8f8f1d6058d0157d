/* SPDX-License-Identifier: MIT */
/*
 * The weir command: its subcommands and what all of them agree on.
 *
 * A subcommand gets its own arguments (argv[0] is its name), prints to standard output, explains itself to
 * standard error and returns the exit status. It need not flush or check standard output: main does.
 */
#ifndef WEIR_CLI_CLI_H
#define WEIR_CLI_CLI_H

#define EXIT_OK      0
#define EXIT_REFUSED 1
#define EXIT_ERROR   2

int cmd_spec(int argc, char **argv);
int cmd_sim(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_serve(int argc, char **argv);
int cmd_check(int argc, char **argv);
int cmd_reload(int argc, char **argv);
/* take, peek, acquire, reserve, give, charge, reset, explain: argv[0] says which */
int cmd_key(int argc, char **argv);
int cmd_settle(int argc, char **argv); /* commit, cancel */
int cmd_top(int argc, char **argv);
int cmd_stat(int argc, char **argv);
int cmd_policy(int argc, char **argv);
int cmd_override(int argc, char **argv);
int cmd_quota(int argc, char **argv);
int cmd_backup(int argc, char **argv);
int cmd_dump(int argc, char **argv);
int cmd_load(int argc, char **argv);
int cmd_doctor(int argc, char **argv);

#endif
