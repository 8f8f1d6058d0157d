/* SPDX-License-Identifier: MIT */
#include "region/keep.h"

_Thread_local struct dirty *weir_dirty;

void weir_dirty_note(struct keep *keep, void *slot, uint64_t who)
{
    (void)keep;
    (void)slot;
    (void)who;
}

void weir_dirty_clear(struct dirty *dirty)
{
    (void)dirty;
}

void weir_dirty_at_end(void (*flush)(struct dirty *dirty))
{
    (void)flush;
}
