/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "os/futex.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Callers look at errno only where weir says so: waiting must not disturb it. */
void weir_futex_wait(_Atomic uint32_t *word, uint32_t value, int64_t monotonic_ns)
{
    int saved = errno;
    struct timespec end = {.tv_sec = monotonic_ns / 1000000000, .tv_nsec = monotonic_ns % 1000000000};
    (void)syscall(SYS_futex, word, FUTEX_WAIT_BITSET_PRIVATE, value, monotonic_ns == 0 ? NULL : &end, NULL,
                  FUTEX_BITSET_MATCH_ANY);
    errno = saved;
}

int64_t weir_monotonic_ns(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

void weir_futex_wake(_Atomic uint32_t *word, int threads)
{
    int saved = errno;
    (void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, threads, NULL, NULL, 0);
    errno = saved;
}
