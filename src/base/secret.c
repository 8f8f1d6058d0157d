/* SPDX-License-Identifier: MIT */
/*
 * SHA-256 as FIPS 180-4 describes it: blocks of 64 bytes are stirred into eight words.
 */
#include "base/secret.h"

#include <string.h>

#include "base/text.h"

#define BLOCK  64
#define ROUNDS 64

/* The first 32 bits behind the point of the cube roots of the first 64 primes. */
static const uint32_t round_words[ROUNDS] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

/* The same of the square roots of the first eight. */
static const uint32_t first_state[8] = {
    0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
};

void weir_secret_wipe(void *bytes, size_t len)
{
    if (len == 0)
        return;
    memset(bytes, 0, len);
    __asm__ volatile("" : : "r"(bytes) : "memory"); /* as if somebody read it */
}

static uint32_t rotate_right(uint32_t word, int bits)
{
    return word >> bits | word << (32 - bits);
}

static void sha256_expand(uint32_t words[static ROUNDS], const unsigned char *block)
{
    for (int i = 0; i < 16; i++, block += 4)
        words[i] = (uint32_t)block[0] << 24 | (uint32_t)block[1] << 16 | (uint32_t)block[2] << 8 | block[3];
    for (int i = 16; i < ROUNDS; i++) {
        uint32_t early = words[i - 15], late = words[i - 2];
        words[i] = words[i - 16] + (rotate_right(early, 7) ^ rotate_right(early, 18) ^ early >> 3) +
                   words[i - 7] + (rotate_right(late, 17) ^ rotate_right(late, 19) ^ late >> 10);
    }
}

static void sha256_block(uint32_t state[static 8], const unsigned char *block)
{
    uint32_t words[ROUNDS], s[8];
    sha256_expand(words, block);
    memcpy(s, state, sizeof s);
    for (int i = 0; i < ROUNDS; i++) {
        uint32_t choice = (s[4] & s[5]) ^ (~s[4] & s[6]);
        uint32_t majority = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);
        uint32_t one = s[7] + (rotate_right(s[4], 6) ^ rotate_right(s[4], 11) ^ rotate_right(s[4], 25)) +
                       choice + round_words[i] + words[i];
        uint32_t two = (rotate_right(s[0], 2) ^ rotate_right(s[0], 13) ^ rotate_right(s[0], 22)) + majority;
        memmove(s + 1, s, 7 * sizeof s[0]);
        s[4] += one;
        s[0] = one + two;
    }
    for (int i = 0; i < 8; i++)
        state[i] += s[i];
    weir_secret_wipe(words, sizeof words);
    weir_secret_wipe(s, sizeof s);
}

/* What is left of the bytes, a one, zeros, and the number of bits: one block or two. */
static void sha256_finish(uint32_t state[static 8], const unsigned char *rest, size_t rest_len, uint64_t len)
{
    unsigned char blocks[2 * BLOCK] = {0};
    size_t size = rest_len + 9 <= BLOCK ? BLOCK : 2 * BLOCK;
    if (rest_len > 0)
        memcpy(blocks, rest, rest_len);
    blocks[rest_len] = 0x80;
    for (size_t i = 0; i < 8; i++)
        blocks[size - 1 - i] = (unsigned char)(len * 8 >> 8 * i);
    for (size_t at = 0; at < size; at += BLOCK)
        sha256_block(state, blocks + at);
    weir_secret_wipe(blocks, sizeof blocks);
}

struct digest weir_sha256(const void *bytes, size_t len)
{
    const unsigned char *from = bytes;
    uint32_t state[8];
    struct digest digest;
    size_t rest = len;
    memcpy(state, first_state, sizeof state);
    for (; rest >= BLOCK; rest -= BLOCK, from += BLOCK)
        sha256_block(state, from);
    sha256_finish(state, from, rest, len);
    for (size_t i = 0; i < sizeof digest.bytes; i++)
        digest.bytes[i] = (unsigned char)(state[i / 4] >> (24 - 8 * (i % 4)));
    weir_secret_wipe(state, sizeof state);
    return digest;
}

bool weir_digest_same(const struct digest *one, const struct digest *other)
{
    volatile unsigned char differs = 0; /* volatile: no way out of the loop before its end */
    for (size_t i = 0; i < sizeof one->bytes; i++)
        differs = (unsigned char)(differs | (one->bytes[i] ^ other->bytes[i]));
    return differs == 0;
}

bool weir_digest_read(const char *text, size_t len, struct digest *digest)
{
    struct digest read;
    if (len != 2 * sizeof read.bytes)
        return false;
    for (size_t i = 0; i < sizeof read.bytes; i++) {
        int high = weir_text_hex(text[2 * i]), low = weir_text_hex(text[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        read.bytes[i] = (unsigned char)(high << 4 | low);
    }
    *digest = read;
    return true;
}

void weir_digest_write(const struct digest *digest, char text[static 65])
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < sizeof digest->bytes; i++) {
        text[2 * i] = digits[digest->bytes[i] >> 4];
        text[2 * i + 1] = digits[digest->bytes[i] & 15];
    }
    text[2 * sizeof digest->bytes] = '\0';
}
