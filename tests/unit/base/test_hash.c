/* SPDX-License-Identifier: MIT */
/*
 * The keyed hash against SipHash as its paper tells it, bit by bit, and against the numbers that others have
 * published. The program is linked with --wrap=getrandom, so that randomness can be missing.
 */
#define _DEFAULT_SOURCE /* mmap */
#include "base/hash.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "check.h"

/* ---- SipHash-c-d: slow, and with any number of rounds ---- */

enum { LONGEST = 80 };

static void rotate(uint64_t *word, int bits)
{
    while (bits-- > 0)
        *word = *word * 2 + (*word >> 63);
}

static void rounds(uint64_t v[4], int count)
{
    static const struct {
        int to, from, by, turn; /* the last one by half a word; -1: none */
    } steps[] = {{0, 1, 13, 0}, {2, 3, 16, -1}, {0, 3, 21, -1}, {2, 1, 17, 2}};
    while (count-- > 0)
        for (int i = 0; i < 4; i++) {
            v[steps[i].to] += v[steps[i].from];
            rotate(&v[steps[i].from], steps[i].by);
            v[steps[i].from] ^= v[steps[i].to];
            if (steps[i].turn >= 0)
                rotate(&v[steps[i].turn], 32);
        }
}

static uint64_t word_of(const unsigned char *bytes)
{
    uint64_t word = 0;
    for (int i = 7; i >= 0; i--)
        word = word * 256 + bytes[i];
    return word;
}

static uint64_t reference(int c, int d, struct hash_key key, const unsigned char *bytes, size_t len)
{
    static const unsigned char start[] = "uespemosmodnarodarenegylsetybdet";
    unsigned char padded[LONGEST + 8] = {0};
    size_t words = len / 8 + 1;
    uint64_t v[4];
    for (size_t i = 0; i < len; i++)
        padded[i] = bytes[i];
    padded[words * 8 - 1] = (unsigned char)len;
    for (size_t i = 0; i < 4; i++)
        v[i] = (i % 2 ? key.high : key.low) ^ word_of(start + 8 * i);
    for (size_t i = 0; i < words; i++) {
        v[3] ^= word_of(padded + 8 * i);
        rounds(v, c);
        v[0] ^= word_of(padded + 8 * i);
    }
    v[2] ^= 255;
    rounds(v, d);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* SipHash-2-4 of 0, 1, 2 ... under the key 0, 1 ... 15, as its authors publish it. */
TEST(the_reference_is_siphash)
{
    static const uint64_t known[] = {
        UINT64_C(0x726fdb47dd0e0e31), UINT64_C(0x74f839c593dc67fd), UINT64_C(0x0d6c8009d9a94f5a),
        UINT64_C(0x85676696d7fb7e2d), UINT64_C(0xcf2794e0277187b7), UINT64_C(0x18765564cd99a68d),
        UINT64_C(0xcbc9466e58fee3ce), UINT64_C(0xab0200f58b01d137), UINT64_C(0x93f5f5799a932462)};
    static const struct hash_key key = {UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908)};
    unsigned char bytes[15];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)i;
    for (size_t len = 0; len < sizeof known / sizeof known[0]; len++)
        CHECK(reference(2, 4, key, bytes, len) == known[len]);
    CHECK(reference(2, 4, key, bytes, 15) == UINT64_C(0xa129ca6149be45e5));
}

/* ---- the hash ---- */

/* Computed by another implementation: hash() of Python 3.11 with PYTHONHASHSEED=0. */
TEST(the_hash_is_siphash_1_3)
{
    static const struct hash_key zero;
    unsigned char bytes[63];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i + 1);
    CHECK(weir_hash(&zero, "a", 1) == UINT64_C(0x407448d2b89b1813));
    CHECK(weir_hash(&zero, "abcdefg", 7) == UINT64_C(0x6db12aae9070f506));
    CHECK(weir_hash(&zero, "abcdefgh", 8) == UINT64_C(0x3f7b849c0b8e35ea));
    CHECK(weir_hash(&zero, "abcdefghi", 9) == UINT64_C(0xf89b34a3d11eb6e5));
    CHECK(weir_hash(&zero, bytes, sizeof bytes) == UINT64_C(0x6bafe9f92616651b));
    CHECK(weir_hash(&zero, NULL, 0) == reference(1, 3, zero, NULL, 0));
}

TEST(it_is_the_reference_for_every_length_at_every_address)
{
    struct rng rng = rng_new(1);
    unsigned char bytes[LONGEST + 8];
    for (int round = 0; round < 20; round++) {
        struct hash_key key = {rng_next(&rng), rng_next(&rng)};
        for (size_t i = 0; i < sizeof bytes; i++)
            bytes[i] = (unsigned char)rng_next(&rng);
        for (size_t len = 0; len <= LONGEST; len++)
            for (size_t at = 0; at < 8; at++) {
                uint64_t hash = reference(1, 3, key, bytes + at, len);
                CHECK(weir_hash(&key, bytes + at, len) == hash);
                CHECK(hash_bytes(&key, bytes + at, len) == hash);
            }
    }
}

/* The key lies between two pages that nobody may read. */
TEST(it_reads_nothing_but_the_key)
{
    static const struct hash_key key = {5, 6};
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char *pages = mmap(NULL, 3 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!CHECK(pages != MAP_FAILED) || !CHECK(mprotect(pages + page, page, PROT_READ | PROT_WRITE) == 0))
        return;
    for (size_t i = 0; i < page; i++)
        pages[page + i] = (unsigned char)(3 * i);
    for (size_t len = 0; len <= LONGEST; len++) {
        const unsigned char *first = pages + page, *last = pages + 2 * page - len;
        CHECK(weir_hash(&key, first, len) == reference(1, 3, key, first, len));
        CHECK(weir_hash(&key, last, len) == reference(1, 3, key, last, len));
    }
    munmap(pages, 3 * page);
}

/* ---- keys ---- */

static bool without_randomness;
ssize_t __real_getrandom(void *bytes, size_t size, unsigned flags);
ssize_t __wrap_getrandom(void *bytes, size_t size, unsigned flags);

ssize_t __wrap_getrandom(void *bytes, size_t size, unsigned flags)
{
    errno = EAGAIN;
    return without_randomness ? -1 : __real_getrandom(bytes, size, flags);
}

static void check_keys(void)
{
    errno = 7;
    struct hash_key a = weir_hash_key(), b = weir_hash_key();
    CHECK_EQ(errno, 7);
    CHECK(a.low != b.low && a.high != b.high && a.low != a.high);
    CHECK(a.low >> 32 != 0 && a.high >> 32 != 0);
}

TEST(every_key_is_another)
{
    check_keys();
}

TEST(every_key_is_another_even_where_the_kernel_has_no_randomness_yet)
{
    without_randomness = true;
    check_keys();
    without_randomness = false;
}
