/* SPDX-License-Identifier: MIT */
/*
 * Figures as one self-contained SVG document, one below the other.
 */
#ifndef WEIR_CLI_PLOT_H
#define WEIR_CLI_PLOT_H

#include <stdio.h>

#include "cli/figure.h"

/* Opens the document for `count` figures, draws figure `index` under its heading, closes the document. */
void plot_open(FILE *file, size_t count);
void plot_figure(FILE *file, size_t index, const char *heading, const struct figure *figure);
void plot_close(FILE *file);

#endif
