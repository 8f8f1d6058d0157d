/* SPDX-License-Identifier: MIT */
#include "table/overflow_filter.h"

#include <stdlib.h>

#define PROBES 4 /* of 16 bits of the hash each */

struct overflow_filter {
    atom64 words[OVERFLOW_FILTER_WORDS];
};

static struct overflow_filter *overflow_filter_of(const struct weir_table *table)
{
    return atomic_load_explicit(&table->overflow_filter, memory_order_seq_cst);
}

/* Bits of the part that the key belongs to; a power of 2. */
static uint64_t filter_width(const struct weir_table *table)
{
    return table->kind == &weir_table_wide ? OVERFLOW_FILTER_BITS / table->region->shape.stripes
                                           : OVERFLOW_FILTER_BITS;
}

static uint64_t filter_start(const struct weir_table *table, uint64_t hash)
{
    return table->kind == &weir_table_wide ? table_stripe(table, hash) * filter_width(table) : 0;
}

static uint64_t filter_bit(const struct weir_table *table, uint64_t hash, unsigned probe)
{
    return filter_start(table, hash) + (hash >> 16 * probe & (filter_width(table) - 1));
}

bool weir_overflow_filter_has(const struct weir_table *table, uint64_t hash)
{
    struct overflow_filter *overflow_filter = overflow_filter_of(table);
    if (table->region->file >= 0 || !overflow_filter)
        return table->region->file >= 0;
    bool have = true;
    for (unsigned i = 0; i < PROBES; i++) {
        uint64_t bit = filter_bit(table, hash, i);
        have = have && (atom_load(&overflow_filter->words[bit / 64], memory_order_seq_cst) >> bit % 64 & 1);
    }
    return have;
}

bool weir_overflow_filter_make(struct weir_table *table)
{
    if (table->region->file >= 0 || overflow_filter_of(table))
        return true;
    struct overflow_filter *made = calloc(1, sizeof *made), *none = NULL;
    if (made && !atomic_compare_exchange_strong_explicit(&table->overflow_filter, &none, made,
                                                         memory_order_seq_cst, memory_order_seq_cst))
        free(made);
    return overflow_filter_of(table) != NULL;
}

void weir_overflow_filter_add(struct weir_table *table, uint64_t hash)
{
    struct overflow_filter *overflow_filter = overflow_filter_of(table);
    for (unsigned i = 0; overflow_filter && i < PROBES; i++) {
        uint64_t bit = filter_bit(table, hash, i), seen;
        atom64 *word = &overflow_filter->words[bit / 64];
        seen = atom_load(word, memory_order_relaxed); /* it has one writer at a time */
        if (!(seen >> bit % 64 & 1))
            atom_store(word, seen | UINT64_C(1) << bit % 64, memory_order_seq_cst);
    }
    INVARIANT(16, !overflow_filter || weir_overflow_filter_has(table, hash));
}

void weir_overflow_filter_clear(struct weir_table *table, uint64_t hash)
{
    struct overflow_filter *overflow_filter = overflow_filter_of(table);
    uint64_t first = filter_start(table, hash) / 64, count = filter_width(table) / 64;
    for (uint64_t i = 0; overflow_filter && i < count; i++)
        if (atom_load(&overflow_filter->words[first + i], memory_order_relaxed) != 0)
            atom_store(&overflow_filter->words[first + i], 0, memory_order_seq_cst);
    INVARIANT(16, !overflow_filter || !weir_overflow_filter_has(table, hash));
}

bool weir_overflow_filter_fill(struct weir_table *table)
{
    if (table->region->file >= 0)
        return true;
    if (!weir_overflow_filter_make(table))
        return false;
    for (uint64_t i = 0; i < OVERFLOW_FILTER_WORDS; i++)
        atom_store(&overflow_filter_of(table)->words[i], UINT64_MAX, memory_order_seq_cst);
    return true;
}

void weir_overflow_filter_free(struct weir_table *table)
{
    free(overflow_filter_of(table));
}
