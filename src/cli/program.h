/* SPDX-License-Identifier: MIT */
/*
 * weir and weir-bench start each other: where the other program is.
 */
#ifndef WEIR_CLI_PROGRAM_H
#define WEIR_CLI_PROGRAM_H

#include <stddef.h>

/* Returns what execvp(3) starts: the path of the program `name` beside the running one, which it writes to
 * `path`; or, if there is none, `name` itself, which execvp searches in $PATH. */
const char *program_beside(const char *name, char *path, size_t size);

#endif
