/* SPDX-License-Identifier: MIT */
/*
 * Bits are polynomials over GF(2), the first bit of the first byte with the highest power; a checksum is the
 * rest of a division by x^32 + ... , the bits reversed: POLYNOMIAL. So what processors do and what tables do
 * is the same division, eight bytes at a time.
 */
#include "base/crc.h"

#include <pthread.h>
#include <string.h>

#define POLYNOMIAL UINT32_C(0x82F63B78)

static uint64_t crc_load_word(const unsigned char *bytes)
{
    uint64_t word;
    memcpy(&word, bytes, sizeof word);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    word = __builtin_bswap64(word);
#endif
    return word;
}

/* ---- tables: what becomes of a byte when 0 to 7 others have come behind it ---- */

static uint32_t tables[8][256];
static pthread_once_t filled = PTHREAD_ONCE_INIT;

static void crc_fill_tables(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t rest = byte;
        for (int bit = 0; bit < 8; bit++)
            rest = rest >> 1 ^ (rest & 1 ? POLYNOMIAL : 0);
        tables[0][byte] = rest;
    }
    for (uint32_t byte = 0; byte < 256; byte++)
        for (int behind = 1; behind < 8; behind++) {
            uint32_t rest = tables[behind - 1][byte];
            tables[behind][byte] = rest >> 8 ^ tables[0][rest & 0xff];
        }
}

uint32_t weir_crc32c_plain(uint32_t crc, const void *bytes, size_t len)
{
    const unsigned char *at = bytes;
    (void)pthread_once(&filled, crc_fill_tables);
    crc = ~crc;
    for (; len >= 8; len -= 8, at += 8) {
        uint64_t word = crc_load_word(at) ^ crc;
        crc = 0;
        for (int i = 0; i < 8; i++)
            crc ^= tables[7 - i][word >> 8 * i & 0xff];
    }
    for (; len > 0; len--, at++)
        crc = crc >> 8 ^ tables[0][(crc ^ *at) & 0xff];
    return ~crc;
}

/* ---- processors: one division of a word, one product without carries ---- */

#if defined(__x86_64__)
#include <immintrin.h>

#define FAST __attribute__((target("sse4.2,pclmul")))

static int crc_is_fast(void)
{
    return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul");
}

FAST static inline uint32_t crc_divide(uint32_t crc, uint64_t word)
{
    return (uint32_t)_mm_crc32_u64(crc, word);
}

FAST static inline uint32_t crc_divide_byte(uint32_t crc, unsigned char byte)
{
    return _mm_crc32_u8(crc, byte);
}

FAST static inline uint64_t crc_multiply(uint32_t a, uint32_t b)
{
    __m128i one = _mm_cvtsi32_si128((int)a), other = _mm_cvtsi32_si128((int)b);
    return (uint64_t)_mm_cvtsi128_si64(_mm_clmulepi64_si128(one, other, 0));
}

#elif defined(__aarch64__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#include <sys/auxv.h>

#define FAST
#define HAS_PMULL UINT64_C(1 << 4) /* of AT_HWCAP */
#define HAS_CRC32 UINT64_C(1 << 7)

static int crc_is_fast(void)
{
    return (getauxval(AT_HWCAP) & (HAS_PMULL | HAS_CRC32)) == (HAS_PMULL | HAS_CRC32);
}

/* As text: compilers differ in how they want to be told that the processor can do it. */
static inline uint32_t crc_divide(uint32_t crc, uint64_t word)
{
    __asm__(".arch_extension crc\n\tcrc32cx %w0, %w0, %x1" : "+r"(crc) : "r"(word));
    return crc;
}

static inline uint32_t crc_divide_byte(uint32_t crc, unsigned char byte)
{
    __asm__(".arch_extension crc\n\tcrc32cb %w0, %w0, %w1" : "+r"(crc) : "r"(byte));
    return crc;
}

static inline uint64_t crc_multiply(uint32_t a, uint32_t b)
{
    uint64_t product;
    __asm__(".arch_extension aes\n\t"
            "fmov d0, %x1\n\tfmov d1, %x2\n\tpmull v0.1q, v0.1d, v1.1d\n\tfmov %x0, d0"
            : "=r"(product)
            : "r"((uint64_t)a), "r"((uint64_t)b)
            : "v0", "v1");
    return product;
}

#endif

#ifdef FAST

/*
 * A division waits for the one before it, three times as long as it works. So there are three of them beside
 * each other, each over a stretch of its own. What the first two have found is then moved on by as many zero
 * bits as follow: a product with x^(8n - 33) for n bytes, where the division of a word stands for x^32 and
 * the reversed order of the bits for another x.
 */
#define STRETCH  ((size_t)256)
#define PAST_ONE UINT32_C(0xb9e02b86)
#define PAST_TWO UINT32_C(0xdd7e3b0c)

FAST static uint32_t divide_three(uint32_t crc, const unsigned char *at)
{
    uint32_t second = 0, third = 0;
    for (size_t i = 0; i < STRETCH; i += 8) {
        crc = crc_divide(crc, crc_load_word(at + i));
        second = crc_divide(second, crc_load_word(at + STRETCH + i));
        third = crc_divide(third, crc_load_word(at + 2 * STRETCH + i));
    }
    return crc_divide(0, crc_multiply(crc, PAST_TWO) ^ crc_multiply(second, PAST_ONE)) ^ third;
}

FAST static uint32_t divide_all(uint32_t crc, const unsigned char *at, size_t len)
{
    crc = ~crc;
    for (; len >= 3 * STRETCH; len -= 3 * STRETCH, at += 3 * STRETCH)
        crc = divide_three(crc, at);
    for (; len >= 8; len -= 8, at += 8)
        crc = crc_divide(crc, crc_load_word(at));
    for (; len > 0; len--, at++)
        crc = crc_divide_byte(crc, *at);
    return ~crc;
}

uint32_t weir_crc32c(uint32_t crc, const void *bytes, size_t len)
{
    return crc_is_fast() ? divide_all(crc, bytes, len) : weir_crc32c_plain(crc, bytes, len);
}

#else

uint32_t weir_crc32c(uint32_t crc, const void *bytes, size_t len)
{
    return weir_crc32c_plain(crc, bytes, len);
}

#endif
