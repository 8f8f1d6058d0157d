/* SPDX-License-Identifier: MIT */
/*
 * A message about a place in a text: the text, a caret under the place, and what to write instead.
 *
 *     5/m brust=10
 *         ^ unknown option 'brust'; did you mean burst?
 */
#ifndef WEIR_CLI_CARET_H
#define WEIR_CLI_CARET_H

#include <stdbool.h>
#include <stdint.h>

#include "weir.h"

/* Writes it to standard error. `column` counts characters from 1; 0: no place in particular. */
void caret_print(const char *text, int32_t column, const char *message);

/* Reads limits; on a mistake explains it with a caret and returns NULL. */
struct weir_policy *caret_read_policy(const char *command, const char *text);

/* Of a limit whose quotes were forgotten the shell has made several words. If they make a limit when they are
 * joined, with spaces or with = between an option and its value, prints how to write it and returns true. */
bool caret_hint_quotes(const char *command, char *const *words, int count);

#endif
