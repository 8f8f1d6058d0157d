/* SPDX-License-Identifier: MIT */
#ifndef WEIR_OS_SPIN_H
#define WEIR_OS_SPIN_H

/* Tells the processor that this is a loop that waits. */
static inline void spin_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#endif
