/* SPDX-License-Identifier: MIT */
#include <ctype.h>
#include <stdint.h>

#include "service/commands/glob.h"

#define PATTERN_MAX 64 /* no name is longer; and a client must not make us search for long */

static int fold_case(char byte)
{
    return tolower((unsigned char)byte);
}

/* A set such as [^a-c]: does it hold `byte`? *at leads from behind '[' to behind ']'; a set without an end
 * goes to the end of the pattern. */
static bool in_set(struct slice pattern, size_t *at, char byte)
{
    bool found = false, inverted = *at < pattern.len && pattern.bytes[*at] == '^';
    *at += inverted;
    while (*at < pattern.len && pattern.bytes[*at] != ']') {
        *at += pattern.bytes[*at] == '\\' && *at + 1 < pattern.len;
        int low = fold_case(pattern.bytes[(*at)++]), high = low;
        if (*at + 1 < pattern.len && pattern.bytes[*at] == '-' && pattern.bytes[*at + 1] != ']') {
            high = fold_case(pattern.bytes[*at + 1]);
            *at += 2;
        }
        found |= low <= fold_case(byte) && fold_case(byte) <= high;
    }
    *at += *at < pattern.len;
    return found != inverted;
}

/* One place of the pattern, which is no '*', against one byte. */
static bool class_fits(struct slice pattern, size_t *at, char byte)
{
    char sign = pattern.bytes[(*at)++];
    if (sign == '?')
        return true;
    if (sign == '[')
        return in_set(pattern, at, byte);
    if (sign == '\\' && *at < pattern.len)
        sign = pattern.bytes[(*at)++];
    return fold_case(sign) == fold_case(byte);
}

/* After a misfit only the last '*' takes one byte more, so the time is at most pattern times text. */
bool weir_glob(struct slice pattern, struct slice text)
{
    size_t at = 0, star = SIZE_MAX, star_text = 0;
    if (pattern.len > PATTERN_MAX)
        return false;
    for (size_t i = 0; i < text.len;) {
        if (at < pattern.len && pattern.bytes[at] == '*') {
            star = ++at;
            star_text = i;
        } else if (at < pattern.len && class_fits(pattern, &at, text.bytes[i])) {
            i++;
        } else if (star != SIZE_MAX) {
            at = star;
            i = ++star_text;
        } else {
            return false;
        }
    }
    while (at < pattern.len && pattern.bytes[at] == '*')
        at++;
    return at == pattern.len;
}
