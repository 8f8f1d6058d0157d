/* SPDX-License-Identifier: MIT */
/*
 * The atomic words that lock-free code is made of. One header, so that tests/explore can put its own in front
 * of it and run the very same code under every order that the memory model allows.
 */
#ifndef WEIR_OS_ATOMIC_H
#define WEIR_OS_ATOMIC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct {
    _Atomic uint64_t value;
} atom64;

static inline uint64_t atom_load(const atom64 *a, memory_order order)
{
    return atomic_load_explicit(&a->value, order);
}

static inline void atom_store(atom64 *a, uint64_t value, memory_order order)
{
    atomic_store_explicit(&a->value, value, order);
}

static inline uint64_t atom_swap(atom64 *a, uint64_t value, memory_order order)
{
    return atomic_exchange_explicit(&a->value, value, order);
}

/* Gives the old value. */
static inline uint64_t atom_add(atom64 *a, uint64_t value, memory_order order)
{
    return atomic_fetch_add_explicit(&a->value, value, order);
}

/* May fail for no reason. After a failure *seen is what was there, read with acquire. */
static inline bool atom_cas(atom64 *a, uint64_t *seen, uint64_t value, memory_order order)
{
    return atomic_compare_exchange_weak_explicit(&a->value, seen, value, order, memory_order_acquire);
}

#if defined(__SANITIZE_THREAD__)
#define WEIR_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define WEIR_TSAN 1
#endif
#endif

/* The thread sanitizer knows no fences. Nothing here relies on them for plain data, so it misses nothing. */
static inline void atom_fence(memory_order order)
{
#ifdef WEIR_TSAN
    (void)order;
#else
    atomic_thread_fence(order);
#endif
}

/* ---- two words that change together ---- */

/* Either word may also be loaded and stored alone. */
typedef struct {
    _Alignas(16) atom64 low;
    atom64 high;
} atom128;

/* By hand: for 16 bytes compilers call a library, which may hold a lock that other processes do not know of,
 * nor do those who store to one of the words. */
#if defined(ATOM_CAS128) /* tests/explore has its own */
#define atom_cas128_bare ATOM_CAS128
#elif defined(__x86_64__)
static inline bool atom_cas128_bare(atom128 *a, uint64_t low, uint64_t high, uint64_t next_low,
                                    uint64_t next_high)
{
    bool done;
    __asm__ volatile("lock cmpxchg16b %[pair]"
                     : "=@ccz"(done), [pair] "+m"(*a), "+a"(low), "+d"(high)
                     : "b"(next_low), "c"(next_high)
                     : "memory");
    return done;
}
#elif defined(__aarch64__) && defined(__ARM_FEATURE_ATOMICS)
static inline bool atom_cas128_bare(atom128 *a, uint64_t low, uint64_t high, uint64_t next_low,
                                    uint64_t next_high)
{
    register uint64_t seen_low __asm__("x0") = low; /* pairs begin at an even register */
    register uint64_t seen_high __asm__("x1") = high;
    register uint64_t new_low __asm__("x2") = next_low;
    register uint64_t new_high __asm__("x3") = next_high;
    __asm__ volatile("caspal %[low], %[high], %[new_low], %[new_high], %[pair]"
                     : [pair] "+Q"(*a), [low] "+r"(seen_low), [high] "+r"(seen_high)
                     : [new_low] "r"(new_low), [new_high] "r"(new_high)
                     : "memory");
    return seen_low == low && seen_high == high;
}
#elif defined(__aarch64__)
/* Two words are known to be read together only if the store that follows succeeds: so also what differs is
 * stored, as it was. */
static inline bool atom_cas128_bare(atom128 *a, uint64_t low, uint64_t high, uint64_t next_low,
                                    uint64_t next_high)
{
    uint64_t seen_low, seen_high;
    uint32_t lost, same;
    __asm__ volatile("1: ldaxp %[seen_low], %[seen_high], %[pair]\n"
                     "   cmp %[seen_low], %[low]\n"
                     "   ccmp %[seen_high], %[high], #0, eq\n"
                     "   cset %w[same], eq\n"
                     "   csel %[seen_low], %[next_low], %[seen_low], eq\n"
                     "   csel %[seen_high], %[next_high], %[seen_high], eq\n"
                     "   stlxp %w[lost], %[seen_low], %[seen_high], %[pair]\n"
                     "   cbnz %w[lost], 1b"
                     : [pair] "+Q"(*a), [seen_low] "=&r"(seen_low), [seen_high] "=&r"(seen_high),
                       [lost] "=&r"(lost), [same] "=&r"(same)
                     : [low] "r"(low), [high] "r"(high), [next_low] "r"(next_low), [next_high] "r"(next_high)
                     : "cc", "memory");
    return same;
}
#else
#error "weir needs an exchange of 16 bytes: x86-64 or aarch64"
#endif

#ifdef WEIR_TSAN
void __tsan_acquire(void *address);
void __tsan_release(void *address);
#endif

/* Sequentially consistent, and fails only if one of the words is another. The thread sanitizer does not see
 * into it (its own exchange of 16 bytes is one with a lock), so it is told. */
static inline bool atom_cas128(atom128 *a, uint64_t low, uint64_t high, uint64_t next_low, uint64_t next_high)
{
#ifdef WEIR_TSAN
    __tsan_release(&a->low);
    __tsan_release(&a->high);
#endif
    bool done = atom_cas128_bare(a, low, high, next_low, next_high);
#ifdef WEIR_TSAN
    __tsan_acquire(&a->low);
    __tsan_acquire(&a->high);
#endif
    return done;
}

#endif
