/* SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L
#include "cli/term.h"

#include <ctype.h>
#include <langinfo.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/text.h"

#define WIDTH_MIN     40 /* with less, nothing gets narrower: a word a line is no text */
#define WIDTH_DEFAULT 80
#define WIDTH_MAX     1000

static bool utf8, output_colours, error_colours;

/* See no-color.org: any value but an empty one means no colours. */
static bool wants_colours(FILE *file)
{
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
    return isatty(fileno(file)) && !(no && *no) && term && strcmp(term, "dumb") != 0;
}

void term_init(void)
{
    /* Only the character set: numbers are written the same everywhere. */
    setlocale(LC_CTYPE, "");
    utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    output_colours = wants_colours(stdout);
    error_colours = wants_colours(stderr);
}

bool term_utf8(void)
{
    return utf8;
}

int term_width(FILE *file)
{
    const char *columns = getenv("COLUMNS");
    long width = columns ? strtol(columns, NULL, 10) : 0;
    struct winsize size;
    if (width <= 0 && ioctl(fileno(file), TIOCGWINSZ, &size) == 0)
        width = size.ws_col;
    if (width <= 0)
        width = WIDTH_DEFAULT;
    return (int)(width < WIDTH_MIN ? WIDTH_MIN : width > WIDTH_MAX ? WIDTH_MAX : width);
}

const char *term_colour(FILE *file, enum term_colour colour)
{
    static const char *const sequences[] = {
        [TERM_PLAIN] = "\x1b[0m", [TERM_DIM] = "\x1b[2m",  [TERM_BOLD] = "\x1b[1m",
        [TERM_GOOD] = "\x1b[32m", [TERM_BAD] = "\x1b[31m", [TERM_LINE] = "\x1b[36m",
    };
    return (file == stdout && output_colours) || (file == stderr && error_colours) ? sequences[colour] : "";
}

int term_columns(const char *text, size_t len)
{
    return weir_text_column(text, len) - 1;
}

void term_put(FILE *file, const char *text, size_t len)
{
    while (len > 0) {
        uint32_t code;
        size_t bytes = weir_utf8_read(text, len, &code);
        if (bytes > 0 && weir_utf8_printable(code))
            fwrite(text, 1, bytes, file);
        else
            fputc('?', file);
        bytes += bytes == 0;
        text += bytes;
        len -= bytes;
    }
}

void term_lines(FILE *file, const char *text, size_t len)
{
    while (len > 0) {
        const char *end = memchr(text, '\n', len);
        size_t line = end ? (size_t)(end - text) : len;
        term_put(file, text, line);
        fputc('\n', file);
        line += end != NULL;
        text += line;
        len -= line;
    }
}

void term_print_list(FILE *file, const char *format, va_list list)
{
    char text[8192];
    (void)vsnprintf(text, sizeof text, format, list);
    for (const char *at = text; *at;) {
        size_t line = strcspn(at, "\n");
        term_put(file, at, line);
        at += line;
        if (*at)
            fputc(*at++, file);
    }
}

void term_print(FILE *file, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    term_print_list(file, format, list);
    va_end(list);
}

static void term_put_word(FILE *file, const char *word, size_t len)
{
    for (size_t i = 0; i < len; i++)
        fputc(word[i] == TERM_NBSP[0] ? ' ' : word[i], file);
}

/* Bytes up to the next space at which a line may break: not within 6 020, and not between a number and its
 * unit, which is taken to have at most three letters. */
static size_t word_len(const char *text)
{
    size_t len = strcspn(text, " ");
    while (len > 0 && isdigit((unsigned char)text[len - 1]) && text[len] == ' ') {
        size_t next = strcspn(text + len + 1, " ,;:");
        if (next == 0 || next > 3)
            break;
        len += 1 + strcspn(text + len + 1, " ");
    }
    return len;
}

void term_wrap(FILE *file, const char *text, int column, int indent, int width)
{
    bool first = true; /* of its line: a word that is too long stands alone */
    while (*text) {
        size_t len = word_len(text);
        int columns = term_columns(text, len);
        if (!first && column + 1 + columns > width) {
            fprintf(file, "\n%*s", indent, "");
            column = indent;
            first = true;
        }
        if (!first) {
            fputc(' ', file);
            column++;
        }
        term_put_word(file, text, len);
        column += columns;
        first = false;
        text += len;
        text += strspn(text, " ");
    }
    fputc('\n', file);
}
