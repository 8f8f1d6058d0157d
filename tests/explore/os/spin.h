/* SPDX-License-Identifier: MIT */
/*
 * Stands in front of src/os/spin.h: a loop that waits goes on when there is something new to see.
 */
#ifndef WEIR_OS_SPIN_H
#define WEIR_OS_SPIN_H

#include "explore/explore.h"

static inline void spin_pause(void)
{
    explore_pause();
}

#endif
