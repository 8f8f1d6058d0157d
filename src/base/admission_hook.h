/* SPDX-License-Identifier: MIT */
/*
 * Who brings entries into a store that others use, too: asked before an entry is made, told after it was. All
 * of them may be called inside of locks, and wait for nothing.
 */
#ifndef WEIR_BASE_ADMISSION_HOOK_H
#define WEIR_BASE_ADMISSION_HOOK_H

#include <stdbool.h>
#include <stdint.h>

struct admission_hook {
    bool (*may_admit)(const struct admission_hook *hook);
    void (*admitted)(const struct admission_hook *hook, uint64_t place); /* where it is */
    /* Of an entry that is still there, and could have been forgotten: may it be used again, as one that is
     * admitted? */
    bool (*may_wake)(const struct admission_hook *hook, uint64_t place);
};

#endif
