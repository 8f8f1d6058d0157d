/* SPDX-License-Identifier: MIT */
/*
 * Standard input, output and error: held open, and nothing written to them is lost unnoticed.
 */
#ifndef WEIR_CLI_STANDARD_FILES_H
#define WEIR_CLI_STANDARD_FILES_H

#include <stdbool.h>

/* Call first: a file opened later must not become standard output because that was closed. */
void standard_files_hold(void);

/* Call last: closes standard output. false: something was lost on its way out, which it has said in the name
 * of `program`. */
bool standard_files_flush(const char *program);

#endif
