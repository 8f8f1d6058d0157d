/* SPDX-License-Identifier: MIT */
/*
 * SipHash-1-3: a hash that cannot be foreseen without its key. So who chooses the names cannot choose where
 * they land.
 *
 * It is here whole, to be compiled into loops over keys; weir_hash is the same to be called.
 */
#ifndef WEIR_BASE_HASH_H
#define WEIR_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct hash_key {
    uint64_t low, high;
};

/*
 * A new one, that nobody else knows. Only while the machine has just started and its kernel has gathered no
 * randomness yet, it is made of what the kernel had when it started the process: other keys in other
 * processes, but as hard to guess as that is. Whoever keeps a key for long, in a file, keeps that one.
 */
struct hash_key weir_hash_key(void);
uint64_t weir_hash(const struct hash_key *key, const void *bytes, size_t len);

struct siphash {
    uint64_t a, b, c, d;
};

static inline uint64_t sip_rotate(uint64_t x, int bits)
{
    return x << bits | x >> (64 - bits);
}

static inline struct siphash sip_round(struct siphash s)
{
    s.a += s.b;
    s.c += s.d;
    s.b = sip_rotate(s.b, 13) ^ s.a;
    s.d = sip_rotate(s.d, 16) ^ s.c;
    s.a = sip_rotate(s.a, 32);
    s.c += s.b;
    s.a += s.d;
    s.b = sip_rotate(s.b, 17) ^ s.c;
    s.d = sip_rotate(s.d, 21) ^ s.a;
    s.c = sip_rotate(s.c, 32);
    return s;
}

static inline struct siphash sip_absorb(struct siphash s, uint64_t word)
{
    s.d ^= word;
    s = sip_round(s);
    s.a ^= word;
    return s;
}

/* The first byte is the lowest, whatever the machine. */
static inline uint64_t sip_load64(const unsigned char *bytes)
{
    uint64_t word;
    memcpy(&word, bytes, sizeof word);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    return word;
}

static inline uint64_t sip_load32(const unsigned char *bytes)
{
    uint32_t word;
    memcpy(&word, bytes, sizeof word);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap32(word);
#endif
    return word;
}

/* The len % 8 bytes that are left at the end. Loads overlap what was read before rather than to go byte by
 * byte, and reach no further than the key. */
static inline uint64_t sip_rest(const unsigned char *bytes, size_t len)
{
    if (len >= 8)
        return sip_load64(bytes + len - 8) >> 8 >> (56 - 8 * (len & 7));
    if (len >= 4)
        return sip_load32(bytes) | sip_load32(bytes + len - 4) << 8 * (len - 4);
    if (len == 0)
        return 0;
    return bytes[0] | (uint64_t)bytes[len / 2] << 8 * (len / 2) | (uint64_t)bytes[len - 1] << 8 * (len - 1);
}

static inline __attribute__((always_inline)) uint64_t hash_bytes(const struct hash_key *key,
                                                                 const void *bytes, size_t len)
{
    const unsigned char *at = bytes;
    struct siphash s = {key->low ^ UINT64_C(0x736f6d6570736575), key->high ^ UINT64_C(0x646f72616e646f6d),
                        key->low ^ UINT64_C(0x6c7967656e657261), key->high ^ UINT64_C(0x7465646279746573)};
    for (size_t i = 0; i + 8 <= len; i += 8)
        s = sip_absorb(s, sip_load64(at + i));
    s = sip_absorb(s, sip_rest(at, len) | (uint64_t)len << 56);
    s.c ^= 0xff;
    s = sip_round(sip_round(sip_round(s)));
    return s.a ^ s.b ^ s.c ^ s.d;
}

#endif
