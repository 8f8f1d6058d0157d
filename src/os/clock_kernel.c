/* SPDX-License-Identifier: MIT */
/*
 * The kernel's clock, apart from the rest: libweir-fleet.so has this one file of it, too, since it has no
 * state.
 */
#define _POSIX_C_SOURCE 200809L
#include <time.h>

#include "os/clock.h"
#include "os/clock_kernel.h"

int64_t weir_clock_kernel(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_BOOTTIME, &ts);
    return (int64_t)ts.tv_sec * WEIR_SEC + ts.tv_nsec;
}
