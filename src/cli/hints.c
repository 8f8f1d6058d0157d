/* SPDX-License-Identifier: MIT */
#include "cli/hints.h"

#include <stdbool.h>
#include <string.h>

#include "base/text.h"
#include "cli/term.h"

#define LINE_MAX_BYTES 4096

/* What is said in other words altogether; the rest only changes its letters. */
static const struct {
    const char *said, *typed;
} phrases[] = {
    {"WEIR.POLICY MODE *", "weir policy mode --all"},
    {"WEIR.POLICY SET name limits", "weir policy set NAME LIMITS"},
    {"WEIR.OVERRIDE LIST policy", "weir override list POLICY"},
    {"WEIR.RESET policy key", "weir reset POLICY KEY"},
    {"instead of *", "instead of --all"},
    {"AUTH user password, or redis://", "-s redis://"},
};

static bool is_capital(char letter)
{
    return letter >= 'A' && letter <= 'Z';
}

static size_t capitals(const char *at, const char *end)
{
    size_t len = 0;
    while (at + len < end && is_capital(at[len]))
        len++;
    return len;
}

static void put_lower(struct text *line, const char *word, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        char letter = weir_text_lower(word[i]);
        weir_text_put(line, &letter, 1);
    }
}

static const char *put_phrase(struct text *line, const char *at, const char *end)
{
    for (size_t i = 0; i < sizeof phrases / sizeof phrases[0]; i++) {
        size_t len = strlen(phrases[i].said);
        if ((size_t)(end - at) >= len && memcmp(at, phrases[i].said, len) == 0) {
            weir_text_put(line, phrases[i].typed, strlen(phrases[i].typed));
            return at + len;
        }
    }
    return at;
}

/* WEIR.POLICY LIST: the command, and the subcommand behind it. */
static const char *put_command(struct text *line, const char *at, const char *end)
{
    size_t len = end - at > 5 && memcmp(at, "WEIR.", 5) == 0 ? capitals(at + 5, end) : 0;
    if (len == 0)
        return at;
    bool has_more =
        (len == 6 && memcmp(at + 5, "POLICY", 6) == 0) || (len == 8 && memcmp(at + 5, "OVERRIDE", 8) == 0);
    weir_text_put(line, "weir ", 5);
    put_lower(line, at + 5, len);
    at += 5 + len;
    size_t more = has_more && at < end && *at == ' ' ? capitals(at + 1, end) : 0;
    put_lower(line, at, more > 0 ? 1 + more : 0);
    return at + (more > 0 ? 1 + more : 0);
}

void hints_put(FILE *file, const char *text, size_t len)
{
    char bytes[LINE_MAX_BYTES];
    struct text line;
    const char *at = text, *end = text + len;
    bool quoted = false;
    weir_text_init(&line, bytes, sizeof bytes);
    while (at < end) {
        const char *before = at;
        if (!quoted)
            at = put_phrase(&line, at, end);
        if (!quoted && at == before)
            at = put_command(&line, at, end);
        if (at == before) {
            quoted = quoted != (*at == '\'');
            weir_text_put(&line, at++, 1);
        }
    }
    if (line.len < sizeof bytes)
        term_put(file, bytes, line.len);
    else
        term_put(file, text, len);
}

void hints_lines(FILE *file, const char *text, size_t len)
{
    while (len > 0) {
        const char *end = memchr(text, '\n', len);
        size_t line = end ? (size_t)(end - text) : len;
        hints_put(file, text, line);
        fputc('\n', file);
        line += end != NULL;
        text += line;
        len -= line;
    }
}
