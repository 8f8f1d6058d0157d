/* SPDX-License-Identifier: MIT */
/*
 * What the reader's terminal can show: width, colours, UTF-8; and text wrapped to it.
 */
#ifndef WEIR_CLI_TERM_H
#define WEIR_CLI_TERM_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

/* Looks at the locale and the terminal. Call once, before the others. */
void term_init(void);

bool term_utf8(void);

/* Columns of the terminal behind `file`: COLUMNS if set, else as the terminal says, else 80; never
 * below 40. */
int term_width(FILE *file);

enum term_colour { TERM_PLAIN, TERM_DIM, TERM_BOLD, TERM_GOOD, TERM_BAD, TERM_LINE };

/* The sequence that switches to `colour`; "" if `file` is no terminal or the reader wants no colours. */
const char *term_colour(FILE *file, enum term_colour colour);

/* Stands for a space at which a line must not break. */
#define TERM_NBSP "\x1f"

/* Writes `text`, broken at spaces before column `width`. The first line is taken to begin at column
 * `column`, the others are indented by `indent`. Ends with a newline. */
void term_wrap(FILE *file, const char *text, int column, int indent, int width);

/* Writes a text that came from outside: what is not printable as '?'. */
void term_put(FILE *file, const char *text, size_t len);

/* The same for a text of several lines; ends with a newline if there is anything. */
void term_lines(FILE *file, const char *text, size_t len);

/* As printf: what is not printable in all of it is '?', but for the ends of lines. At most 8 KiB. */
__attribute__((format(printf, 2, 3))) void term_print(FILE *file, const char *format, ...);
__attribute__((format(printf, 2, 0))) void term_print_list(FILE *file, const char *format, va_list list);
/* The arguments of %.*s for a slice. */
#define TERM_SLICE(SLICE) (int)(SLICE).len, (SLICE).bytes

/* Columns that the first `len` bytes of UTF-8 take. */
int term_columns(const char *text, size_t len);

#endif
