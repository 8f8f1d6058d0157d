/* SPDX-License-Identifier: MIT */
/*
 * A wall clock that is wrong by $WEIR_TEST_WALL seconds, for a process that this library is loaded into
 * before all others (LD_PRELOAD). Its other clocks, and waits by them, are what they are. It needs nothing:
 * no memory, no locks, so any program starts with it, whatever its allocator does with the time.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

static time_t error(void)
{
    static time_t seconds;
    static int known; /* whoever reads it at the same time finds the same */
    if (!__atomic_load_n(&known, __ATOMIC_ACQUIRE)) {
        const char *text = getenv("WEIR_TEST_WALL");
        seconds = text ? (time_t)strtol(text, NULL, 10) : 0;
        __atomic_store_n(&known, 1, __ATOMIC_RELEASE);
    }
    return seconds;
}

EXPORT int clock_gettime(clockid_t clock, struct timespec *now)
{
    int status = (int)syscall(SYS_clock_gettime, clock, now);
    if (status == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += error();
    return status;
}

EXPORT int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec exact;
    (void)zone;
    int status = clock_gettime(CLOCK_REALTIME, &exact);
    if (status == 0)
        *now = (struct timeval){.tv_sec = exact.tv_sec, .tv_usec = exact.tv_nsec / 1000};
    return status;
}

EXPORT time_t time(time_t *now)
{
    struct timespec exact;
    time_t seconds = clock_gettime(CLOCK_REALTIME, &exact) == 0 ? exact.tv_sec : (time_t)-1;
    if (now)
        *now = seconds;
    return seconds;
}
