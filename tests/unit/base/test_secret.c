/* SPDX-License-Identifier: MIT */
/*
 * SHA-256 against the examples of FIPS 180-4, and digests as text.
 */
#include "base/secret.h"
#include "check.h"

static void check_digest(const void *bytes, size_t len, const char *want)
{
    char text[65];
    struct digest digest = weir_sha256(bytes, len);
    weir_digest_write(&digest, text);
    CHECK_STR(text, want);
}

TEST(the_examples_of_the_standard_hold)
{
    static char many[1000000];
    check_digest("", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    check_digest(NULL, 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    check_digest("abc", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    check_digest("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56,
                 "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    memset(many, 'a', sizeof many);
    check_digest(many, sizeof many, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

/* Around the lengths at which the end needs a block of its own. */
TEST(every_length_around_a_block_is_padded_right)
{
    static const struct {
        size_t len;
        const char *want;
    } lengths[] = {
        {1, "50e721e49c013f00c62cf59f2163542a9d8df02464efeb615d31051b0fddc326"},
        {54, "eb0ae3ae23fa1d95b7e4a6d3931c378c0bd0c9fc7b6e655e3c4a14b262fbd98f"},
        {55, "3eb3826415426905a14a6df3a1d61f47e63d0350587e7b1cabc32fadd1e78b98"},
        {56, "92a6a898c6b4c815d11a6236d1b7caa5bc180d9675c5e21f9ea3d8cd7821d08d"},
        {57, "c1417de8695650682adf6a90debae4852001fee7d488ae4a0f31d035f6022e9e"},
        {63, "eb61332fc5ba011970028238eb314d2735e7922d42d102bac62595a410b092ed"},
        {64, "54b74fa3b75131703c57f171843dc58b7ec633810c1d414697a7b314d5fc6d5d"},
        {65, "1e3258f8a1eda7b090ff77754d63d28e432ee2cefcd582561f4f512477eca5e6"},
        {119, "5cb9d9eeda0eeba3057bb19aa8593c99781938f5acbb23c33f90bdf475b6ac11"},
        {120, "0c7785cc5684e3acd5389a5f4ac6f3e67e93ccf7e593e0097b635ddea71e97f3"},
        {127, "33f56e517ecec73ec93a710acc4176507068eef17856d524b0caedb5392628cb"},
        {128, "d84a714f014043714e26aea7c3dd985ebea526d49e754c71b3d4aef640402bbb"},
        {129, "48e5dabd1113bafa39583ee79bf35c31689dfb0883c6c6c635c3276ab46e0cc9"},
    };
    char bytes[130];
    memset(bytes, 'w', sizeof bytes);
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++)
        check_digest(bytes, lengths[i].len, lengths[i].want);
}

TEST(a_digest_is_the_same_only_if_every_byte_is)
{
    struct digest one = weir_sha256("abc", 3), other = one;
    CHECK(weir_digest_same(&one, &other));
    for (size_t bit = 0; bit < 8 * sizeof one.bytes; bit++) {
        other = one;
        other.bytes[bit / 8] ^= (unsigned char)(1U << bit % 8);
        CHECK(!weir_digest_same(&one, &other));
    }
}

TEST(a_digest_comes_back_from_its_text)
{
    struct digest digest = weir_sha256("abc", 3), back = {{0}};
    char text[65];
    weir_digest_write(&digest, text);
    CHECK(weir_digest_read(text, 64, &back) && weir_digest_same(&digest, &back));
    for (char *at = text; *at; at++)
        *at = *at >= 'a' && *at <= 'f' ? (char)(*at - 'a' + 'A') : *at;
    back = (struct digest){{0}};
    CHECK(weir_digest_read(text, 64, &back) && weir_digest_same(&digest, &back));
}

TEST(what_is_no_digest_is_not_read)
{
    static const char odd[] = "/:@G`g -+x";
    char text[66];
    struct digest digest = weir_sha256("", 0), before = digest;
    weir_digest_write(&digest, text);
    CHECK(!weir_digest_read(text, 63, &digest));
    CHECK(!weir_digest_read(text, 65, &digest));
    CHECK(!weir_digest_read(text, 0, &digest));
    for (size_t i = 0; odd[i]; i++)
        for (size_t at = 0; at < 64; at += 21) {
            char kept = text[at];
            text[at] = odd[i];
            CHECK(!weir_digest_read(text, 64, &digest));
            text[at] = kept;
        }
    CHECK(weir_digest_same(&digest, &before));
}

TEST(a_wiped_secret_is_gone)
{
    char secret[] = "hunter2";
    weir_secret_wipe(secret, 0);
    CHECK_STR(secret, "hunter2");
    weir_secret_wipe(secret, 4);
    CHECK_STR(secret + 4, "er2");
    weir_secret_wipe(secret, sizeof secret);
    for (size_t i = 0; i < sizeof secret; i++)
        CHECK_EQ(secret[i], 0);
}
