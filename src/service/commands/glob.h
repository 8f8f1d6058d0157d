/* SPDX-License-Identifier: MIT */
#ifndef WEIR_SERVICE_COMMANDS_GLOB_H
#define WEIR_SERVICE_COMMANDS_GLOB_H

#include "base/buffer.h"

/* Does a pattern as of CONFIG GET fit: *, ?, [a-z], \x; whatever the case. One of more than 64 bytes fits
 * nothing. */
bool weir_glob(struct slice pattern, struct slice text);

#endif
