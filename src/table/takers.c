/* SPDX-License-Identifier: MIT */
#include "table/takers.h"

#include <stdlib.h>

#define PROBES 4 /* of 16 bits of the hash each */

struct takers {
    atom64 words[TAKERS_WORDS];
};

static struct takers *takers_of(const struct weir_table *table)
{
    return atomic_load_explicit(&table->takers, memory_order_seq_cst);
}

/* Bits of the part that the key belongs to; a power of 2. */
static uint64_t width_of(const struct weir_table *table)
{
    return table->kind == &weir_table_wide ? TAKERS_BITS / table->region->shape.stripes : TAKERS_BITS;
}

static uint64_t start_of(const struct weir_table *table, uint64_t who)
{
    return table->kind == &weir_table_wide ? table_stripe(table, who) * width_of(table) : 0;
}

static uint64_t bit_of(const struct weir_table *table, uint64_t who, unsigned probe)
{
    return start_of(table, who) + (who >> 16 * probe & (width_of(table) - 1));
}

bool weir_takers_have(const struct weir_table *table, uint64_t who)
{
    struct takers *takers = takers_of(table);
    if (table->region->file >= 0 || !takers)
        return table->region->file >= 0;
    bool have = true;
    for (unsigned i = 0; i < PROBES; i++) {
        uint64_t bit = bit_of(table, who, i);
        have = have && (atom_load(&takers->words[bit / 64], memory_order_seq_cst) >> bit % 64 & 1);
    }
    return have;
}

bool weir_takers_make(struct weir_table *table)
{
    if (table->region->file >= 0 || takers_of(table))
        return true;
    struct takers *made = calloc(1, sizeof *made), *none = NULL;
    if (made && !atomic_compare_exchange_strong_explicit(&table->takers, &none, made, memory_order_seq_cst,
                                                         memory_order_seq_cst))
        free(made);
    return takers_of(table) != NULL;
}

void weir_takers_add(struct weir_table *table, uint64_t who)
{
    struct takers *takers = takers_of(table);
    for (unsigned i = 0; takers && i < PROBES; i++) {
        uint64_t bit = bit_of(table, who, i), seen;
        atom64 *word = &takers->words[bit / 64];
        seen = atom_load(word, memory_order_relaxed); /* it has one writer at a time */
        if (!(seen >> bit % 64 & 1))
            atom_store(word, seen | UINT64_C(1) << bit % 64, memory_order_seq_cst);
    }
}

void weir_takers_clear(struct weir_table *table, uint64_t who)
{
    struct takers *takers = takers_of(table);
    uint64_t first = start_of(table, who) / 64, count = width_of(table) / 64;
    for (uint64_t i = 0; takers && i < count; i++)
        if (atom_load(&takers->words[first + i], memory_order_relaxed) != 0)
            atom_store(&takers->words[first + i], 0, memory_order_seq_cst);
}

bool weir_takers_fill(struct weir_table *table)
{
    if (table->region->file >= 0)
        return true;
    if (!weir_takers_make(table))
        return false;
    for (uint64_t i = 0; i < TAKERS_WORDS; i++)
        atom_store(&takers_of(table)->words[i], UINT64_MAX, memory_order_seq_cst);
    return true;
}

void weir_takers_free(struct weir_table *table)
{
    free(takers_of(table));
}
