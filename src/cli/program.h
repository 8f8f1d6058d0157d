/* SPDX-License-Identifier: MIT */
/*
 * What weir and weir-bench need as programs: standard input, output and error held open, and nothing written
 * to them lost unnoticed; and where the other one of them is.
 */
#ifndef WEIR_CLI_PROGRAM_H
#define WEIR_CLI_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>

/* Returns what execvp(3) starts: the path of the program `name` beside the running one, which it writes to
 * `path`; or, if there is none, `name` itself, which execvp searches in $PATH. */
const char *program_beside(const char *name, char *path, size_t size);

/* Call first: a file opened later must not become standard output because that was closed. */
void program_hold_files(void);

/* Call last: closes standard output. false: something was lost on its way out, which it has said in the name
 * of `program`. */
bool program_flush(const char *program);

#endif
