/* SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L
#include "bench/bare.h"

#include <string.h>
#include <time.h>

_Thread_local uint64_t bare_failures;

void bare_init(struct bare *bare)
{
    memset(bare, 0, sizeof *bare);
    pthread_mutex_init(&bare->bucket.lock, NULL);
    bare->bucket.level = bare->bucket.full = BARE_FULL;
}

static struct bare *bare_of(struct weir_limiter *limiter)
{
    return (struct bare *)(void *)limiter;
}

static int64_t max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t gettime(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * WEIR_SEC + ts.tv_nsec;
}

/* ---- one word ---- */

/* word = max(word + n, now). Time and `counts` are constants where there is none and nothing to count. */
static inline bool bare_exchange(struct bare *bare, int64_t now, int64_t n, bool counts)
{
    uint64_t seen = atomic_load_explicit(&bare->words[0], memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&bare->words[0], &seen,
                                                  (uint64_t)max((int64_t)seen + n, now), memory_order_acq_rel,
                                                  memory_order_relaxed))
        if (counts)
            bare_failures++;
    return true;
}

bool bare_cas64(struct weir_limiter *limiter, int64_t now_ns, int64_t n, struct weir_verdict *verdict)
{
    (void)now_ns, (void)verdict;
    return bare_exchange(bare_of(limiter), INT64_MIN, n, false);
}

bool bare_cas64_counted(struct weir_limiter *limiter, int64_t now_ns, int64_t n, struct weir_verdict *verdict)
{
    (void)now_ns, (void)verdict;
    return bare_exchange(bare_of(limiter), INT64_MIN, n, true);
}

bool bare_gettime_cas64(struct weir_limiter *limiter, int64_t n, struct weir_verdict *verdict)
{
    (void)verdict;
    return bare_exchange(bare_of(limiter), gettime(), n, false);
}

/* ---- a mutex ---- */

/* The time is read before the lock is taken, so that it is held as short as possible. */
static inline bool bare_take_locked(struct bare *bare, int64_t now, int64_t n)
{
    pthread_mutex_lock(&bare->bucket.lock);
    if (now > bare->bucket.last) {
        int64_t level = bare->bucket.level + (now - bare->bucket.last);
        bare->bucket.level = level < bare->bucket.full ? level : bare->bucket.full;
        bare->bucket.last = now;
    }
    bool allowed = bare->bucket.level >= n;
    if (allowed)
        bare->bucket.level -= n;
    pthread_mutex_unlock(&bare->bucket.lock);
    return allowed;
}

bool bare_gettime_mutex(struct weir_limiter *limiter, int64_t n, struct weir_verdict *verdict)
{
    (void)verdict;
    return bare_take_locked(bare_of(limiter), gettime(), n);
}

/* ---- the processor's counter ---- */

#ifdef BARE_RDTSC

static int64_t rdtsc(void)
{
    return (int64_t)__builtin_ia32_rdtsc();
}

bool bare_rdtsc_cas64(struct weir_limiter *limiter, int64_t n, struct weir_verdict *verdict)
{
    (void)verdict;
    return bare_exchange(bare_of(limiter), rdtsc(), n, false);
}

bool bare_rdtsc_cas64_counted(struct weir_limiter *limiter, int64_t n, struct weir_verdict *verdict)
{
    (void)verdict;
    return bare_exchange(bare_of(limiter), rdtsc(), n, true);
}

bool bare_rdtsc_load(struct weir_limiter *limiter, int64_t n, struct weir_verdict *verdict)
{
    (void)verdict;
    int64_t now = rdtsc(),
            seen = (int64_t)atomic_load_explicit(&bare_of(limiter)->words[0], memory_order_relaxed);
    return seen + n <= now;
}

bool bare_rdtsc_mutex(struct weir_limiter *limiter, int64_t n, struct weir_verdict *verdict)
{
    (void)verdict;
    return bare_take_locked(bare_of(limiter), rdtsc(), n);
}

/* By hand: gcc calls a library for 16 bytes. */
static inline bool cas128(_Atomic uint64_t words[static 2], uint64_t *low, uint64_t *high, uint64_t new_low,
                          uint64_t new_high)
{
    bool done;
    __asm__ volatile("lock cmpxchg16b %1"
                     : "=@ccz"(done), "+m"(words[0]), "+a"(*low), "+d"(*high)
                     : "b"(new_low), "c"(new_high)
                     : "memory");
    return done;
}

bool bare_rdtsc_cas128(struct weir_limiter *limiter, int64_t n, struct weir_verdict *verdict)
{
    struct bare *bare = bare_of(limiter);
    int64_t now = rdtsc();
    (void)verdict;
    uint64_t low = atomic_load_explicit(&bare->words[0], memory_order_relaxed);
    uint64_t high = atomic_load_explicit(&bare->words[1], memory_order_relaxed);
    while (!cas128(bare->words, &low, &high, (uint64_t)max((int64_t)low + n, now), high + (uint64_t)n))
        ;
    return true;
}

#endif
