/* SPDX-License-Identifier: MIT */
/*
 * "Did you mean": of the known words, the one that a mistyped word comes nearest to.
 */
#ifndef WEIR_CLI_NEAR_H
#define WEIR_CLI_NEAR_H

#include <stddef.h>

struct near {
    const char *word, *found;
    size_t len, distance;
};

void near_init(struct near *near, const char *word, size_t len);
void near_try(struct near *near, const char *known);

/* The nearest of those tried, or NULL if none is near enough to be a slip. */
const char *near_found(const struct near *near);

#endif
