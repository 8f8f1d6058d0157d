/* SPDX-License-Identifier: MIT */
#ifndef WEIR_REGISTRY_TAGS_H
#define WEIR_REGISTRY_TAGS_H

#include <stddef.h>

/* Pairs of key and value in the order of their keys. All zero: none. */
struct tags {
    struct tag *first;
    size_t count;
};

void weir_tags_end(struct tags *tags);

#endif
