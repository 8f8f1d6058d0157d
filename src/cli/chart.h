/* SPDX-License-Identifier: MIT */
/*
 * A figure drawn with characters: braille dots where the locale is UTF-8, else ASCII.
 */
#ifndef WEIR_CLI_CHART_H
#define WEIR_CLI_CHART_H

#include <stdio.h>

#include "cli/figure.h"

void chart_print(FILE *file, const struct figure *figure);

#endif
