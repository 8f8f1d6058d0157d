/* SPDX-License-Identifier: MIT */
/*
 * The steps of the execution that runs, so that a fault can be told.
 */
#ifndef WEIR_TESTS_EXPLORE_TRACE_H
#define WEIR_TESTS_EXPLORE_TRACE_H

#include "explore/memory.h"

void trace_clear(void);
/* false: there are too many. */
bool trace_add(int thread, const struct op *op, const struct effect *effect);
/* A line for each. */
void trace_print(FILE *file);

#endif
