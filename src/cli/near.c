/* SPDX-License-Identifier: MIT */
#include "cli/near.h"

#include <stdint.h>
#include <string.h>

#include "base/text.h"

void near_init(struct near *near, const char *word, size_t len)
{
    *near = (struct near){.word = word, .len = len, .distance = SIZE_MAX};
}

void near_try(struct near *near, const char *known)
{
    size_t distance = weir_text_distance(near->word, near->len, known);
    if (distance < near->distance) {
        near->distance = distance;
        near->found = known;
    }
}

const char *near_found(const struct near *near)
{
    if (!near->found || near->distance > 2 || 2 * near->distance > strlen(near->found))
        return NULL;
    return near->found;
}
