/* SPDX-License-Identifier: MIT */
#ifndef WEIR_OS_CLOCK_KERNEL_H
#define WEIR_OS_CLOCK_KERNEL_H

#include <stdint.h>

/* The kernel's CLOCK_BOOTTIME. */
int64_t weir_clock_kernel(void);

#endif
