/* SPDX-License-Identifier: MIT */
/*
 * CRC-32C: known answers, the definition bit by bit, and the processor's way against that of the tables.
 */
#define _DEFAULT_SOURCE /* mmap */
#include "base/crc.h"

#include <sys/mman.h>
#include <unistd.h>

#include "check.h"

enum { LONGEST = 4096 };

static uint32_t by_definition(uint32_t crc, const unsigned char *bytes, size_t len)
{
    crc = ~crc;
    for (size_t i = 0; i < 8 * len; i++) {
        uint32_t out = (crc ^ (uint32_t)bytes[i / 8] >> i % 8) & 1;
        crc = crc >> 1 ^ (out ? UINT32_C(0x82F63B78) : 0);
    }
    return ~crc;
}

static void check_both(const void *bytes, size_t len, uint32_t want)
{
    CHECK_EQ(weir_crc32c(0, bytes, len), want);
    CHECK_EQ(weir_crc32c_plain(0, bytes, len), want);
}

/* Of RFC 3720, B.4, and of the catalogue of CRCs. */
TEST(known_answers)
{
    unsigned char bytes[32];
    check_both(NULL, 0, 0);
    check_both("a", 1, 0xC1D04330);
    check_both("123456789", 9, 0xE3069283);
    memset(bytes, 0, sizeof bytes);
    check_both(bytes, sizeof bytes, 0x8A9136AA);
    memset(bytes, 0xff, sizeof bytes);
    check_both(bytes, sizeof bytes, 0x62A8AB43);
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)i;
    check_both(bytes, sizeof bytes, 0x46DD794E);
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(31 - i);
    check_both(bytes, sizeof bytes, 0x113FDB5C);
}

static unsigned char *some_bytes(struct rng *rng, size_t len)
{
    unsigned char *bytes = malloc(len);
    for (size_t i = 0; bytes && i < len; i++)
        bytes[i] = (unsigned char)rng_next(rng);
    return bytes;
}

TEST(both_ways_are_the_definition_for_every_length_and_address)
{
    struct rng rng = rng_new(1);
    unsigned char *bytes = some_bytes(&rng, LONGEST + 8);
    for (size_t len = 0; len <= LONGEST; len += len < 300 ? 1 : (size_t)rng_between(&rng, 1, 97)) {
        size_t at = (size_t)rng_between(&rng, 0, 7);
        uint32_t start = (uint32_t)rng_next(&rng), want = by_definition(start, bytes + at, len);
        CHECK_EQ(weir_crc32c(start, bytes + at, len), want);
        CHECK_EQ(weir_crc32c_plain(start, bytes + at, len), want);
    }
    free(bytes);
}

TEST(large_pieces_are_the_same_both_ways)
{
    struct rng rng = rng_new(2);
    size_t most = 1 << 20;
    unsigned char *bytes = some_bytes(&rng, most + 8);
    for (int i = 0; i < 40; i++) {
        size_t at = (size_t)rng_between(&rng, 0, 7), len = (size_t)rng_between(&rng, 0, (int64_t)most);
        CHECK_EQ(weir_crc32c(0, bytes + at, len), weir_crc32c_plain(0, bytes + at, len));
    }
    free(bytes);
}

TEST(a_checksum_can_be_continued)
{
    struct rng rng = rng_new(3);
    unsigned char *bytes = some_bytes(&rng, LONGEST);
    uint32_t whole = weir_crc32c(0, bytes, LONGEST);
    for (int i = 0; i < 300; i++) {
        size_t cut = (size_t)rng_between(&rng, 0, LONGEST);
        CHECK_EQ(weir_crc32c(weir_crc32c(0, bytes, cut), bytes + cut, LONGEST - cut), whole);
        CHECK_EQ(weir_crc32c_plain(weir_crc32c(0, bytes, cut), bytes + cut, LONGEST - cut), whole);
    }
    free(bytes);
}

/* Flips the first and the last bit of a burst, and any between them. */
TEST(a_burst_of_up_to_32_bits_is_noticed)
{
    struct rng rng = rng_new(4);
    unsigned char *bytes = some_bytes(&rng, LONGEST);
    for (int i = 0; i < 20000; i++) {
        size_t len = (size_t)rng_between(&rng, 8, 1000);
        size_t bits = (size_t)rng_between(&rng, 1, 32);
        size_t first = (size_t)rng_between(&rng, 0, (int64_t)(8 * len - bits));
        uint64_t inner = rng_next(&rng) | 1 | UINT64_C(1) << (bits - 1);
        uint32_t before = weir_crc32c(0, bytes, len);
        for (size_t bit = 0; bit < bits; bit++)
            bytes[(first + bit) / 8] ^= (unsigned char)((inner >> bit & 1) << (first + bit) % 8);
        CHECK(weir_crc32c(0, bytes, len) != before);
    }
    free(bytes);
}

/* They lie between two pages that nobody may read. */
TEST(it_reads_nothing_but_the_bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char *pages = mmap(NULL, 3 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!CHECK(pages != MAP_FAILED) || !CHECK(mprotect(pages + page, page, PROT_READ | PROT_WRITE) == 0))
        return;
    memset(pages + page, 7, page);
    for (size_t len = 0; len <= page; len += len < 1000 ? 1 : 61) {
        const unsigned char *last = pages + 2 * page - len;
        CHECK_EQ(weir_crc32c(0, pages + page, len), weir_crc32c_plain(0, last, len));
        CHECK_EQ(weir_crc32c(0, last, len), weir_crc32c_plain(0, pages + page, len));
    }
    munmap(pages, 3 * page);
}
