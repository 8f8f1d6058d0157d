/* SPDX-License-Identifier: MIT */
/*
 * The table of names under the registry, and its hash. The program is linked with --wrap=calloc and
 * --wrap=getrandom, so that memory and randomness can be missing.
 */
#include "registry/names.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

#include "check.h"
#include "registry/hash.h"

static bool out_of_memory;
void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);

void *__wrap_calloc(size_t count, size_t size)
{
    return out_of_memory ? NULL : __real_calloc(count, size);
}

static bool without_randomness;
ssize_t __real_getrandom(void *bytes, size_t size, unsigned flags);
ssize_t __wrap_getrandom(void *bytes, size_t size, unsigned flags);

ssize_t __wrap_getrandom(void *bytes, size_t size, unsigned flags)
{
    errno = EAGAIN;
    return without_randomness ? -1 : __real_getrandom(bytes, size, flags);
}

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
    struct hash_key key = {1, 2}, other = {2, 1};
    CHECK(weir_hash(&key, "a", 1) != weir_hash(&other, "a", 1));
}

TEST(every_key_is_another)
{
    struct hash_key a = weir_hash_key(), b = weir_hash_key();
    CHECK(a.low != b.low && a.high != b.high);
    without_randomness = true; /* early in the life of a machine */
    errno = 7;
    struct hash_key c = weir_hash_key();
    CHECK_EQ(errno, 7);
    without_randomness = false;
    CHECK(c.low != 0 && c.high != 0 && c.low != c.high);
}

enum { MANY = 5000 };

static void fill_names(struct names *names, struct named *things, char (*texts)[8])
{
    for (size_t i = 0; i < MANY; i++) {
        static const struct hash_key key = {3, 4};
        size_t len = (size_t)snprintf(texts[i], sizeof texts[i], "%zu", i);
        things[i] = (struct named){.hash = weir_hash(&key, texts[i], len), .name = texts[i]};
        weir_names_add(names, &things[i]);
    }
}

static void check_names(const struct names *names, struct named *things)
{
    size_t seen = 0;
    for (struct named *named = NULL; (named = weir_names_next(names, named));)
        seen++;
    CHECK_EQ(seen, MANY);
    for (size_t i = 0; i < MANY; i++)
        CHECK(weir_names_find(names, things[i].hash, things[i].name) == &things[i]);
    CHECK(weir_names_find(names, things[0].hash, "other") == NULL);
}

TEST(a_table_of_names_grows_and_does_without_if_it_cannot)
{
    static struct named things[MANY];
    static char texts[MANY][8];
    for (int memory = 0; memory < 2; memory++) {
        struct names names;
        weir_names_init(&names);
        out_of_memory = memory == 0;
        fill_names(&names, things, texts);
        out_of_memory = false;
        CHECK(memory ? names.size >= MANY : names.size == NAMES_FIRST);
        check_names(&names, things);
        for (size_t i = 0; i < MANY; i++)
            weir_names_remove(&names, &things[i]);
        CHECK(weir_names_next(&names, NULL) == NULL);
        weir_names_end(&names);
    }
}
