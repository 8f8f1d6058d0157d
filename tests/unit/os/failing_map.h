/* SPDX-License-Identifier: MIT */
/*
 * failing_memory.h, and large pieces of memory can be missing as well. For programs that are linked with
 * --wrap for mmap and madvise.
 */
#ifndef WEIR_TESTS_UNIT_FAILING_MAP_H
#define WEIR_TESTS_UNIT_FAILING_MAP_H

#include <errno.h>
#include <sys/mman.h>

#include "unit/failing_memory.h"

void *__real_mmap(void *at, size_t size, int may, int flags, int file, off_t offset);
void *__wrap_mmap(void *at, size_t size, int may, int flags, int file, off_t offset);
void *__wrap_mmap(void *at, size_t size, int may, int flags, int file, off_t offset)
{
    if (may_allocate(__builtin_return_address(0)))
        return __real_mmap(at, size, may, flags, file, offset);
    errno = ENOMEM;
    return MAP_FAILED;
}

/* Pages of 2 MiB would cost most of the time. */
int __wrap_madvise(void *memory, size_t bytes, int advice);
int __wrap_madvise(void *memory, size_t bytes, int advice)
{
    (void)memory, (void)bytes, (void)advice;
    return 0;
}

#endif
