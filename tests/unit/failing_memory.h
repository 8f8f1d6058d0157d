/* SPDX-License-Identifier: MIT */
/*
 * Memory that runs out once, after as many allocations as a test says. Needs --wrap of each of them.
 */
#ifndef WEIR_TESTS_FAILING_MEMORY_H
#define WEIR_TESTS_FAILING_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static int64_t allocations_left = -1; /* then one fails; below 0: none does */

static void *allocation_site __attribute__((unused)); /* where the one came from that failed last */

static bool may_allocate(void *site)
{
    if (allocations_left < 0 || allocations_left-- != 0)
        return true;
    allocation_site = site;
    return false;
}

#define FAILING(NAME, PARAMETERS, ARGUMENTS)                                                                 \
    void *__real_##NAME PARAMETERS;                                                                          \
    void *__wrap_##NAME PARAMETERS;                                                                          \
    void *__wrap_##NAME PARAMETERS                                                                           \
    {                                                                                                        \
        return may_allocate(__builtin_return_address(0)) ? __real_##NAME ARGUMENTS : NULL;                   \
    }
FAILING(malloc, (size_t size), (size))
FAILING(calloc, (size_t count, size_t size), (count, size))
FAILING(realloc, (void *memory, size_t size), (memory, size))
FAILING(aligned_alloc, (size_t alignment, size_t size), (alignment, size))
FAILING(strdup, (const char *text), (text))

#endif
