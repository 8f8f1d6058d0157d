/* SPDX-License-Identifier: MIT */
#include "cli/quotes.h"

#include <stdio.h>
#include <string.h>

#include "cli/term.h"
#include "spec/read.h"
#include "spec/spec.h"

#define GAPS_MAX 8 /* between words; with more of them only spaces are tried */

/* Bit i of `equals`: = and not a space behind word i. false: too long for any limit. */
static bool join_words(char *const *words, int count, unsigned equals, char *text, size_t size)
{
    size_t len = 0;
    for (int i = 0; i < count; i++) {
        const char *gap = i == count - 1 ? "" : i < GAPS_MAX && equals >> i & 1 ? "=" : " ";
        int added = snprintf(text + len, size - len, "%s%s", words[i], gap);
        if (added < 0 || (size_t)added >= size - len)
            return false;
        len += (size_t)added;
    }
    return true;
}

static bool is_limit(const char *text)
{
    struct weir_spec specs[WEIR_LIMITS_MAX];
    struct spec_fault fault;
    int32_t column;
    return weir_spec_read(text, specs, WEIR_LIMITS_MAX, &column, &fault) > 0;
}

bool quotes_hint(const char *command, char *const *words, int count)
{
    char text[SPEC_TEXT_MAX + 1];
    if (count < 2)
        return false;
    unsigned ways = count <= GAPS_MAX ? 1u << (count - 1) : 1;
    for (unsigned equals = 0; equals < ways; equals++) {
        if (!join_words(words, count, equals, text, sizeof text) || !is_limit(text))
            continue;
        char *whole = text;
        fprintf(stderr, "weir %s: quote the limit: ", command);
        quotes_show(command, &whole, 1);
        return true;
    }
    return false;
}

void quotes_show(const char *command, char *const *words, int count)
{
    fprintf(stderr, "weir %s '", command);
    for (int i = 0; i < count; i++) {
        if (i > 0)
            fputc(' ', stderr);
        term_put(stderr, words[i], strlen(words[i]));
    }
    fputs("'\n", stderr);
}
