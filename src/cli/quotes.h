/* SPDX-License-Identifier: MIT */
/*
 * A limit whose quotes were forgotten: the shell has made several words of it.
 */
#ifndef WEIR_CLI_QUOTES_H
#define WEIR_CLI_QUOTES_H

#include <stdbool.h>

/* If the words make a limit when they are joined, with spaces or with = between an option and its value, says
 * on standard error how to write it and gives true. `command` is the subcommand that got them. */
bool quotes_hint(const char *command, char *const *words, int count);

/* Ends a line on standard error with the words joined by spaces, as they should have been given. */
void quotes_show(const char *command, char *const *words, int count);

#endif
