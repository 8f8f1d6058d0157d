/* SPDX-License-Identifier: MIT */
/*
 * Store time runs on from one process, and boot, to the next, and never back. In the same boot of the machine
 * CLOCK_BOOTTIME tells what has passed. After another one only the wall clock does: less than nothing counts
 * as nothing, and more than STORE_TIME_ELAPSED_MAX_NS as that.
 */
#ifndef WEIR_STORE_STORE_TIME_H
#define WEIR_STORE_STORE_TIME_H

#include "store/internal.h"

#define STORE_TIME_ELAPSED_MAX_NS (366 * 24 * 3600 * WEIR_SEC)

/* After recovery has found the last frame: sets boot and offsets, and says in *found what has passed. */
void weir_store_time_set(struct store *store, struct store_found *found);

#endif
