/* SPDX-License-Identifier: MIT */
/*
 * A server speaks to programs: "WEIR.POLICY LIST shows them". Who asked by the weir command reads it in the
 * words that he can type: "weir policy list shows them". What stands between ' and ' is left as it is.
 */
#ifndef WEIR_CLI_HINTS_H
#define WEIR_CLI_HINTS_H

#include <stddef.h>
#include <stdio.h>

/* Writes one line, without its end, as term_put does. */
void hints_put(FILE *file, const char *text, size_t len);

/* Writes any number of lines, each with its end. */
void hints_lines(FILE *file, const char *text, size_t len);

#endif
