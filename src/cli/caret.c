/* SPDX-License-Identifier: MIT */
#include "cli/caret.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "cli/args.h"
#include "cli/term.h"
#include "phrasebook/phrasebook.h"
#include "spec/read.h"
#include "spec/spec.h"

#define MESSAGE_MIN 24 /* columns; with less room the message stands on a line of its own */

void caret_print(const char *text, int32_t column, const char *message)
{
    size_t len = strlen(text), width = (size_t)term_width(stderr), room = width - 8;
    size_t place = column > 0 ? (size_t)column - 1 : 0; /* in characters, as `cut` */
    size_t cut = place < room ? 0 : place - room / 2;
    size_t begin = weir_text_offset(text, len, cut + 1),
           end = begin + weir_text_offset(text + begin, len - begin, room + 1);

    if (cut > 0)
        fputs("...", stderr);
    term_put(stderr, text + begin, end - begin);
    fputs(end < len ? "...\n" : "\n", stderr);

    int indent = (cut > 0 ? 3 : 0) + (int)(place - cut);
    fprintf(stderr, "%*s%s^%s", indent, "", term_colour(stderr, TERM_BAD), term_colour(stderr, TERM_PLAIN));
    if (indent + 2 + MESSAGE_MIN > (int)width) {
        fputc('\n', stderr);
        term_wrap(stderr, message, 0, 0, (int)width);
        return;
    }
    fputc(' ', stderr);
    term_wrap(stderr, message, indent + 2, indent + 2, (int)width);
}

struct weir_policy *caret_read_policy(const char *command, const char *text)
{
    struct weir_spec specs[WEIR_LIMITS_MAX];
    struct spec_fault fault;
    struct weir_error err;
    int32_t column = 0;
    size_t count = weir_phrasebook_read(text, specs, WEIR_LIMITS_MAX, &column, &fault);
    if (count == 0)
        return caret_print(text, column, fault.text), NULL;
    struct weir_policy *policy = weir_policy_from(specs, count, &err);
    if (!policy)
        (void)args_fail(command, "%s", err.text);
    return policy;
}

/* ---- quotes that were forgotten ---- */

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

bool caret_hint_quotes(const char *command, char *const *words, int count)
{
    char text[SPEC_TEXT_MAX + 1];
    if (count < 2)
        return false;
    unsigned ways = count <= GAPS_MAX ? 1u << (count - 1) : 1;
    for (unsigned equals = 0; equals < ways; equals++) {
        if (!join_words(words, count, equals, text, sizeof text) || !is_limit(text))
            continue;
        args_fail(command, "quote the limit: weir %s '%s'", command, text);
        return true;
    }
    return false;
}
