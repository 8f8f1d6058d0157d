/* SPDX-License-Identifier: MIT */
/*
 * Keys of up to 16 bytes, told apart exactly in a table of words. The two halves of a key become two other
 * words by a step that can be undone, so no two keys of a length have both in common:
 *
 *   rest = right + high half of (factor * left + term)        a universal hash, of 128 bits drawn by lot
 *   hash = left ^ SipHash(rest, length)
 *
 * `hash` is the identity in the slot, as spread out and as hard to foresee as the hash of any other key: two
 * keys have the same `rest` with a chance of 2^-63, and else SipHash tells them apart. `rest` is beside the
 * slot, with the form of the key (its length) and the number of the claim by which it came there:
 *
 *   slot     hash | word
 *   witness  rest | number, form
 *
 * A witness is written, by an exchange of both words, while the entry is tentative and its number is the
 * entry's: slots.c. Of two keys with the same `hash`, which one table of 10^7 keys in 300 000 has, the one
 * that comes second counts as one that finds no room, for as long as the first one is there.
 */
#ifndef WEIR_TABLE_EXACT_H
#define WEIR_TABLE_EXACT_H

#include <stdbool.h>

#include "base/hash.h"
#include "base/sat.h"

#define EXACT_BYTES     16 /* of the longest key */
#define EXACT_FORM_BITS 6
#define EXACT_MOVED     32 /* in the form: the hash was 0 or 1, which no key is called */
#define EXACT_NOBODY    31 /* a form that no key has */

struct exact_hash {
    weir_u128 factor, term;
};

struct exact_name {
    uint64_t hash, rest;
    uint32_t form;
};

static inline struct exact_hash exact_of(const struct hash_key *key)
{
    struct exact_hash exact = {(weir_u128)weir_hash(key, "exact1", 6) << 64 | weir_hash(key, "exact2", 6),
                               (weir_u128)weir_hash(key, "exact3", 6) << 64 | weir_hash(key, "exact4", 6)};
    return exact;
}

static inline uint64_t exact_fold(const struct exact_hash *exact, uint64_t left)
{
    return (uint64_t)((exact->factor * left + exact->term) >> 64);
}

/* SipHash-1-3 of a word and a length. */
static inline uint64_t exact_sip(const struct hash_key *key, uint64_t word, uint64_t len)
{
    struct siphash s = {key->low ^ UINT64_C(0x736f6d6570736575), key->high ^ UINT64_C(0x646f72616e646f6d),
                        key->low ^ UINT64_C(0x6c7967656e657261), key->high ^ UINT64_C(0x7465646279746573)};
    s = sip_absorb(sip_absorb(s, word), len);
    s.c ^= 0xff;
    s = sip_round(sip_round(sip_round(s)));
    return s.a ^ s.b ^ s.c ^ s.d;
}

static inline __attribute__((always_inline)) struct exact_name
exact_name(const struct hash_key *key, const struct exact_hash *exact, const void *bytes, size_t len)
{
    const unsigned char *at = bytes;
    uint64_t left = len >= 8 ? sip_load64(at) : sip_rest(at, len);
    uint64_t right = len == 16 ? sip_load64(at + 8) : len > 8 ? sip_rest(at, len) : 0;
    struct exact_name name = {.rest = right + exact_fold(exact, left), .form = (uint32_t)len};
    name.hash = left ^ exact_sip(key, name.rest, len);
    if (__builtin_expect(name.hash <= 1, 0)) {
        name.hash += 2;
        name.form |= EXACT_MOVED;
    }
    return name;
}

/* The key's bytes, of which there is room for EXACT_BYTES; gives how many. */
static inline size_t exact_bytes(const struct hash_key *key, const struct exact_hash *exact,
                                 const struct exact_name *name, unsigned char *bytes)
{
    size_t len = name->form & (EXACT_MOVED - 1);
    uint64_t left = (name->hash - (name->form & EXACT_MOVED ? 2 : 0)) ^ exact_sip(key, name->rest, len);
    uint64_t right = name->rest - exact_fold(exact, left);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    left = __builtin_bswap64(left);
    right = __builtin_bswap64(right);
#endif
    memcpy(bytes, &left, sizeof left);
    memcpy(bytes + sizeof left, &right, sizeof right);
    return len < EXACT_BYTES ? len : EXACT_BYTES;
}

struct weir_table;
struct key;
/* exact_name, to be called. */
struct exact_name weir_exact_name(const struct weir_table *table, const void *bytes, size_t len);
/* The key of that name; its bytes become those in `bytes`, which has room for EXACT_BYTES. false: no key has
 * that name. */
bool weir_exact_key_of(const struct weir_table *table, const struct exact_name *name, unsigned char *bytes,
                       struct key *key);

#endif
