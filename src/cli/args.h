/* SPDX-License-Identifier: MIT */
/*
 * Arguments of a subcommand: options may stand anywhere, as --name VALUE, --name=VALUE, -x VALUE or
 * -xVALUE, until a "--"; what remains are the operands.
 */
#ifndef WEIR_CLI_ARGS_H
#define WEIR_CLI_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct args_option {
    const char *name;   /* without the dashes */
    char letter;        /* 0: only the long form */
    bool *flag;         /* set to true where the option stands; or */
    const char **value; /* what follows it */
};

/* Fills in the options and moves the operands to argv[1] and on; gives their number. On a mistake it says
 * so on standard error and gives -1. argv[0] is the subcommand. */
int args_read(int argc, char **argv, const struct args_option *options, size_t count);

/* Reads a number of units such as 5 or 2k, an operand; on a mistake it says so and gives false. */
bool args_units(const char *command, const char *text, int64_t *units);

/* Reads a whole number such as 5 or 2k, from 1 on. `option` is the name without the dashes. */
bool args_count(const char *command, const char *option, const char *text, int64_t *count);

/* The same for a time such as 250ms. */
bool args_time(const char *command, const char *option, const char *text, int64_t *time_ns);

/* Says that an operand makes no sense: "weir COMMAND: WHAT 'WORD'". The caller ends the line. */
void args_complain(const char *command, const char *what, const char *word);

#endif
