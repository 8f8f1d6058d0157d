/* SPDX-License-Identifier: MIT */
/*
 * Waiting for a moment of weir_now, precisely, and in such a way that another thread can end it.
 *
 * A sleep ends late: by the thread's timer slack (50 us unless it says otherwise) and by what the kernel
 * needs to wake it. So the slack is lowered for as long as the wait lasts, the sleep ends a little before the
 * time, and the rest is spent spinning. Sleeps run on a clock that stands still while the machine is
 * suspended; therefore none is longer than WAIT_SLICE_NS, after which the time is looked at again: a wait
 * that a suspend interrupts ends at most that much too late.
 */
#ifndef WEIR_OS_WAIT_H
#define WEIR_OS_WAIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define WAIT_SLICE_NS INT64_C(1000000000)
#define WAIT_SPIN_NS  INT64_C(10000) /* spun at the end of a wait, at the most */

/* Returns once the clock has reached `until_ns` (WEIR_FOREVER: never) or *word is not `value` any more.
 * `precise`: whether the last microseconds are worth a timer and a processor of their own. Among many who
 * wait they are not: there they only take time from the others. */
void weir_wait_until(_Atomic uint32_t *word, uint32_t value, int64_t until_ns, bool precise);

/* Everybody who waits on *word looks at it again; to be called after it was changed. Safe in a signal
 * handler. */
void weir_wait_wake(_Atomic uint32_t *word);

#endif
