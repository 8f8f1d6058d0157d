/* SPDX-License-Identifier: MIT */
/*
 * The words of base/humanize.h, with the letters that the reader's terminal can show.
 */
#ifndef WEIR_CLI_WORDS_H
#define WEIR_CLI_WORDS_H

#include "base/humanize.h"
#include "cli/term.h"

static inline const char *words_number(int64_t number, char *text)
{
    return weir_humanize_number(number, text);
}

static inline const char *words_decimal(double number, char *text)
{
    return weir_humanize_decimal(number, text);
}

static inline const char *words_duration(int64_t time_ns, char *text)
{
    return weir_humanize_duration(time_ns, term_utf8() ? HUMANIZE_UTF8 : 0, text);
}

/* Never too short: for waits. */
static inline const char *words_duration_up(int64_t time_ns, char *text)
{
    return weir_humanize_duration(time_ns, HUMANIZE_UP | (term_utf8() ? HUMANIZE_UTF8 : 0), text);
}

#endif
