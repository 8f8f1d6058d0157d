/* SPDX-License-Identifier: MIT */
/*
 * Sleeping on a word of memory of this process.
 */
#ifndef WEIR_OS_FUTEX_H
#define WEIR_OS_FUTEX_H

#include <stdatomic.h>
#include <stdint.h>

/* Sleeps while *word is `value`, at the longest until `monotonic_ns` (0: for ever). May return early. */
void weir_futex_wait(_Atomic uint32_t *word, uint32_t value, int64_t monotonic_ns);
/* The clock of that. */
int64_t weir_monotonic_ns(void);
void weir_futex_wake(_Atomic uint32_t *word, int threads);

#endif
