/* SPDX-License-Identifier: MIT */
/*
 * A slot of 16 bytes: the hash of a key, and its word. Both change together, by one exchange of 16 bytes: on
 * the word alone a delayed take could charge the slot's next key.
 *
 *   hash   64 bits of the key's hash; 0: the slot is empty, and so is the word
 *   word   2 bits kind, 2 bits generation, 60 bits value
 */
#ifndef WEIR_REGION_SLOT_H
#define WEIR_REGION_SLOT_H

#include "os/atomic.h"

struct slot {
    atom128 both; /* low: hash, high: word */
};

enum slot_kind {
    /* The value is the state, counted by the limit of that generation. */
    SLOT_PLAIN,
    /* Nobody's yet: the value is a number that was never used before. It carries no charge, so anybody may
     * remove it, or make it PLAIN by the rules of table/slots.h. */
    SLOT_TENTATIVE,
    /* The value is the state, and whoever has the lock of the key's stripe decides on it; others wait there.
     * A key with limits of its own stays held: under the lock it is found where they are. */
    SLOT_HELD,
    /* As PLAIN, and a promise is outstanding until the time at which the value is level. */
    SLOT_PROMISED
};

#define SLOT_VALUE_BITS 60
#define SLOT_VALUE_MAX  ((UINT64_C(1) << SLOT_VALUE_BITS) - 1)

static inline uint64_t slot_pack(enum slot_kind kind, unsigned generation, uint64_t value)
{
    return (uint64_t)kind << 62 | (uint64_t)(generation & 3) << SLOT_VALUE_BITS | value;
}

static inline enum slot_kind slot_kind(uint64_t word)
{
    return (enum slot_kind)(word >> 62);
}

static inline unsigned slot_generation(uint64_t word)
{
    return (unsigned)(word >> SLOT_VALUE_BITS) & 3;
}

static inline uint64_t slot_value(uint64_t word)
{
    return word & SLOT_VALUE_MAX;
}

static inline uint64_t slot_with_kind(uint64_t word, enum slot_kind kind)
{
    return (word & ~(UINT64_C(3) << 62)) | (uint64_t)kind << 62;
}

/* Loads are sequentially consistent, as are exchanges: an insert must see, in the scan that follows it, every
 * insert that came before. Where that costs nothing (x86) nothing is lost; elsewhere it is one instruction.
 */
static inline uint64_t slot_hash(const struct slot *slot)
{
    return atom_load(&slot->both.low, memory_order_seq_cst);
}

static inline uint64_t slot_word(const struct slot *slot)
{
    return atom_load(&slot->both.high, memory_order_seq_cst);
}

/* {hash, word} becomes {next_hash, next}, if it still is that. */
static inline bool slot_exchange(struct slot *slot, uint64_t hash, uint64_t word, uint64_t next_hash,
                                 uint64_t next)
{
    return atom_cas128(&slot->both, hash, word, next_hash, next);
}

#endif
