/* SPDX-License-Identifier: MIT */
/*
 * Stands in front of the C library's <stdatomic.h>: the same names, but every call is a step of the explorer.
 * So os/atomic.h and everything built on it are explored as they are. What is not here does not compile, with
 * one exception: an _Atomic that is used like a plain variable goes unnoticed.
 */
#ifndef WEIR_TESTS_EXPLORE_STDATOMIC_H
#define WEIR_TESTS_EXPLORE_STDATOMIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum {
    memory_order_relaxed = __ATOMIC_RELAXED,
    memory_order_consume = __ATOMIC_CONSUME,
    memory_order_acquire = __ATOMIC_ACQUIRE,
    memory_order_release = __ATOMIC_RELEASE,
    memory_order_acq_rel = __ATOMIC_ACQ_REL,
    memory_order_seq_cst = __ATOMIC_SEQ_CST
} memory_order;

uint64_t explore_atom_load(const volatile void *atom, size_t size, memory_order order);
void explore_atom_store(volatile void *atom, size_t size, uint64_t value, memory_order order);
uint64_t explore_atom_swap(volatile void *atom, size_t size, uint64_t value, memory_order order);
uint64_t explore_atom_add(volatile void *atom, size_t size, uint64_t value, memory_order order);
bool explore_atom_cas(volatile void *atom, size_t size, void *seen, uint64_t value, memory_order order,
                      memory_order failure, bool weak);
/* Both words in one step; seq_cst. Afterwards seen[0] and seen[1] are what was there; NULL: never mind. */
bool explore_atom_cas128(volatile void *low, volatile void *high, const uint64_t expected[2],
                         const uint64_t values[2], uint64_t seen[2]);
void explore_fence(memory_order order);

/* The value of an atom, without its qualifiers. */
#define EXPLORE_TYPE(ATOM) __typeof__((void)0, *(ATOM))

#define atomic_load_explicit(ATOM, ORDER)                                                                    \
    ((EXPLORE_TYPE(ATOM))explore_atom_load((ATOM), sizeof *(ATOM), (ORDER)))
#define atomic_store_explicit(ATOM, VALUE, ORDER)                                                            \
    explore_atom_store((ATOM), sizeof *(ATOM), (uint64_t)(VALUE), (ORDER))
#define atomic_exchange_explicit(ATOM, VALUE, ORDER)                                                         \
    ((EXPLORE_TYPE(ATOM))explore_atom_swap((ATOM), sizeof *(ATOM), (uint64_t)(VALUE), (ORDER)))
#define atomic_fetch_add_explicit(ATOM, VALUE, ORDER)                                                        \
    ((EXPLORE_TYPE(ATOM))explore_atom_add((ATOM), sizeof *(ATOM), (uint64_t)(VALUE), (ORDER)))
#define atomic_fetch_sub_explicit(ATOM, VALUE, ORDER)                                                        \
    ((EXPLORE_TYPE(ATOM))explore_atom_add((ATOM), sizeof *(ATOM), 0 - (uint64_t)(VALUE), (ORDER)))
#define atomic_compare_exchange_weak_explicit(ATOM, SEEN, VALUE, ORDER, FAILURE)                             \
    explore_atom_cas((ATOM), sizeof *(ATOM), (SEEN), (uint64_t)(VALUE), (ORDER), (FAILURE), true)
#define atomic_compare_exchange_strong_explicit(ATOM, SEEN, VALUE, ORDER, FAILURE)                           \
    explore_atom_cas((ATOM), sizeof *(ATOM), (SEEN), (uint64_t)(VALUE), (ORDER), (FAILURE), false)
#define atomic_thread_fence(ORDER) explore_fence(ORDER)
/* For os/atomic.h, in place of the processor's. */
#define ATOM_CAS128(PAIR, LOW, HIGH, NEXT_LOW, NEXT_HIGH)                                                    \
    explore_atom_cas128(&(PAIR)->low.value, &(PAIR)->high.value, (const uint64_t[]){(LOW), (HIGH)},          \
                        (const uint64_t[]){(NEXT_LOW), (NEXT_HIGH)}, NULL)

#endif
