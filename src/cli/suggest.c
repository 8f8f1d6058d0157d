/* SPDX-License-Identifier: MIT */
#include "cli/suggest.h"

#include <stdint.h>
#include <string.h>

#include "base/text.h"

void suggest_init(struct suggestion *suggestion, const char *word, size_t len)
{
    *suggestion = (struct suggestion){.word = word, .len = len, .distance = SIZE_MAX};
}

void suggest_try(struct suggestion *suggestion, const char *known)
{
    size_t distance = weir_text_distance(suggestion->word, suggestion->len, known);
    if (distance < suggestion->distance) {
        suggestion->distance = distance;
        suggestion->found = known;
    }
}

const char *suggest_found(const struct suggestion *suggestion)
{
    if (!suggestion->found || suggestion->distance > 2 ||
        2 * suggestion->distance > strlen(suggestion->found))
        return NULL;
    return suggestion->found;
}
