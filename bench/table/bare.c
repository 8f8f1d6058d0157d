/* SPDX-License-Identifier: MIT */
/*
 * The least that a decision about one of many keys costs: the hash of the key, the clock, and one exchange of
 * 64 bits where the hash says. Nothing is compared with the key, and nobody is missing.
 */
#define _DEFAULT_SOURCE
#include <sys/mman.h>

#include "bench/table/table.h"
#include "os/clock.h"

#define HUGE_PAGE ((size_t)2 << 20)

/* In huge pages, where the system has them, as tables are. */
bool table_bare_make(struct table_bare *bare, size_t bytes)
{
    size_t mapped = bytes + HUGE_PAGE;
    void *mapping = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *bare = (struct table_bare){0};
    if (mapping == MAP_FAILED)
        return false;
    uintptr_t start = ((uintptr_t)mapping + HUGE_PAGE - 1) & ~(uintptr_t)(HUGE_PAGE - 1);
    (void)madvise((void *)start, bytes, MADV_HUGEPAGE);
    bare->mapping = mapping;
    bare->mapped = mapped;
    bare->words = (_Atomic uint64_t *)start;
    bare->count = bytes / sizeof(uint64_t);
    bare->key = weir_hash_key();
    for (uint64_t i = 0; i < bare->count; i++)
        atomic_store_explicit(&bare->words[i], 1, memory_order_relaxed);
    return true;
}

void table_bare_free(struct table_bare *bare)
{
    if (bare->mapping)
        munmap(bare->mapping, bare->mapped);
    *bare = (struct table_bare){0};
}

bool table_bare_take(struct weir_table *table, const void *key, size_t len, int64_t n,
                     struct weir_verdict *verdict)
{
    struct table_bare *bare = (struct table_bare *)(void *)table;
    (void)verdict;
    uint64_t hash = hash_bytes(&bare->key, key, len); /* as tables do */
    _Atomic uint64_t *word = &bare->words[(uint64_t)((weir_u128)hash * bare->count >> 64)];
    int64_t now = clock_now();
    uint64_t seen = atomic_load_explicit(word, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(word, &seen, (uint64_t)max64((int64_t)seen + n, now),
                                                  memory_order_acq_rel, memory_order_relaxed))
        ;
    return true;
}
