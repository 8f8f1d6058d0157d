/* SPDX-License-Identifier: MIT */
/*
 * A figure drawn with characters, braille dots where the locale is UTF-8, else ASCII; or figures as one
 * self-contained SVG document, one below the other.
 */
#ifndef WEIR_CLI_PICTURE_H
#define WEIR_CLI_PICTURE_H

#include <stdio.h>

#include "cli/figure.h"

void chart_print(FILE *file, const struct figure *figure);

/* Opens the document for `count` figures, draws figure `index` under its heading, closes the document. */
void plot_open(FILE *file, size_t count);
void plot_figure(FILE *file, size_t index, const char *heading, const struct figure *figure);
void plot_close(FILE *file);

#endif
