/* SPDX-License-Identifier: MIT */
#include "registry/hash.h"

#include <errno.h>
#include <sys/random.h>

#include "weir.h"

struct sip {
    uint64_t a, b, c, d;
};

static uint64_t turn(uint64_t x, int bits)
{
    return x << bits | x >> (64 - bits);
}

static struct sip mix(struct sip s)
{
    s.a += s.b;
    s.c += s.d;
    s.b = turn(s.b, 13) ^ s.a;
    s.d = turn(s.d, 16) ^ s.c;
    s.a = turn(s.a, 32);
    s.c += s.b;
    s.a += s.d;
    s.b = turn(s.b, 17) ^ s.c;
    s.d = turn(s.d, 21) ^ s.a;
    s.c = turn(s.c, 32);
    return s;
}

static struct sip absorb(struct sip s, uint64_t word)
{
    s.d ^= word;
    s = mix(s);
    s.a ^= word;
    return s;
}

/* Up to 8 bytes, the first one lowest, whatever the machine. */
static uint64_t read_word(const unsigned char *bytes, size_t len)
{
    uint64_t word = 0;
    for (size_t i = 0; i < len; i++)
        word |= (uint64_t)bytes[i] << 8 * i;
    return word;
}

uint64_t weir_hash(const struct hash_key *key, const void *bytes, size_t len)
{
    const unsigned char *at = bytes;
    struct sip s = {key->low ^ UINT64_C(0x736f6d6570736575), key->high ^ UINT64_C(0x646f72616e646f6d),
                    key->low ^ UINT64_C(0x6c7967656e657261), key->high ^ UINT64_C(0x7465646279746573)};
    size_t left = len;
    for (; left >= 8; left -= 8, at += 8)
        s = absorb(s, read_word(at, 8));
    s = absorb(s, read_word(at, left) | (uint64_t)len << 56);
    s.c ^= 0xff;
    s = mix(mix(mix(s)));
    return s.a ^ s.b ^ s.c ^ s.d;
}

/* Early in the life of a machine the kernel may have no randomness yet. Time and address then have to do:
 * less secret, but a table of names must not wait for it. */
struct hash_key weir_hash_key(void)
{
    struct hash_key key;
    int saved = errno;
    if (getrandom(&key, sizeof key, GRND_NONBLOCK) != (ssize_t)sizeof key)
        key = (struct hash_key){(uint64_t)weir_now(), (uint64_t)(uintptr_t)&key};
    errno = saved;
    return key;
}
