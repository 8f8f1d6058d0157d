/* SPDX-License-Identifier: MIT */
/*
 * "Did you mean": of the known words, the one that a mistyped word comes nearest to.
 */
#ifndef WEIR_CLI_SUGGEST_H
#define WEIR_CLI_SUGGEST_H

#include <stddef.h>

struct suggestion {
    const char *word, *found;
    size_t len, distance;
};

void suggest_init(struct suggestion *suggestion, const char *word, size_t len);
void suggest_try(struct suggestion *suggestion, const char *known);

/* The nearest of those tried, or NULL if none is near enough to be a slip. */
const char *suggest_found(const struct suggestion *suggestion);

#endif
