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

#endif
