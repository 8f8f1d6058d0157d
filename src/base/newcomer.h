/* SPDX-License-Identifier: MIT */
/*
 * Who brings entries into a store that others use, too: asked before an entry is made, told after it was.
 * Both may be called inside of locks, and wait for nothing.
 */
#ifndef WEIR_BASE_NEWCOMER_H
#define WEIR_BASE_NEWCOMER_H

#include <stdbool.h>
#include <stdint.h>

struct newcomer {
    bool (*may_come)(const struct newcomer *newcomer);
    void (*came)(const struct newcomer *newcomer, uint64_t place); /* where it is */
};

#endif
