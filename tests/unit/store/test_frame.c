/* SPDX-License-Identifier: MIT */
#include "check.h"
#include "region/persist.h"
#include "store/frame.h"

#define PAYLOAD 52 /* no multiple of 8: 4 bytes of padding follow */
#define SALT    UINT64_C(0x1234)

static size_t make(unsigned char *bytes, size_t payload)
{
    struct frame_head *head = (struct frame_head *)(void *)bytes;
    *head = (struct frame_head){.kind = FRAME_CATALOGUE, .salt = SALT, .sequence = 7, .time_ns = 5};
    memset(bytes + sizeof *head, 'x', frame_size(payload) - sizeof *head);
    weir_frame_seal(head, payload);
    return frame_size(payload);
}

TEST(a_frame_is_read_as_it_was_sealed)
{
    _Alignas(8) unsigned char bytes[256] = {0};
    struct frame_head head;
    size_t size = make(bytes, PAYLOAD);
    CHECK(weir_frame_is_good(bytes, size, SALT));
    CHECK(weir_frame_is_good(bytes, sizeof bytes, 0)); /* and others behind it */
    memcpy(&head, bytes, sizeof head);
    CHECK_EQ(head.bytes, PAYLOAD);
    CHECK_EQ(head.version, FRAME_VERSION);
    CHECK_EQ(bytes[sizeof head + PAYLOAD], 0); /* padding */
}

TEST(an_empty_payload_is_a_frame)
{
    _Alignas(8) unsigned char bytes[64] = {0};
    CHECK_EQ(make(bytes, 0), sizeof(struct frame_head));
    CHECK(weir_frame_is_good(bytes, sizeof(struct frame_head), SALT));
}

TEST(every_flipped_bit_is_noticed)
{
    _Alignas(8) unsigned char bytes[256] = {0};
    size_t size = make(bytes, PAYLOAD);
    for (size_t bit = 0; bit < 8 * size; bit++) {
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
        CHECK(!weir_frame_is_good(bytes, size, SALT));
        CHECK(!weir_frame_is_good(bytes, size, 0));
        bytes[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
}

TEST(every_truncation_is_noticed)
{
    _Alignas(8) unsigned char bytes[256] = {0};
    size_t size = make(bytes, PAYLOAD);
    for (size_t len = 0; len < size; len++)
        CHECK(!weir_frame_is_good(bytes, len, SALT));
}

TEST(a_frame_that_ends_in_zeros_is_bad)
{
    _Alignas(8) unsigned char bytes[256] = {0};
    size_t size = make(bytes, PAYLOAD);
    for (size_t cut = size - 8; cut > 8; cut -= 8) {
        unsigned char torn[256] = {0};
        memcpy(torn, bytes, cut);
        CHECK(!weir_frame_is_good(torn, size, SALT));
    }
}

TEST(zeros_and_other_files_frames_are_bad)
{
    _Alignas(8) unsigned char bytes[256] = {0};
    CHECK(!weir_frame_is_good(bytes, sizeof bytes, SALT));
    CHECK(!weir_frame_is_good(bytes, sizeof bytes, 0));
    size_t size = make(bytes, PAYLOAD);
    CHECK(!weir_frame_is_good(bytes, size, SALT + 1));
}

TEST(a_length_beyond_all_bounds_is_bad)
{
    _Alignas(8) unsigned char bytes[256] = {0};
    uint32_t huge = FRAME_BYTES_MAX + 1;
    size_t size = make(bytes, PAYLOAD);
    memcpy(bytes + offsetof(struct frame_head, bytes), &huge, sizeof huge);
    CHECK(!weir_frame_is_good(bytes, size, SALT));
    CHECK(!weir_frame_is_good(bytes, SIZE_MAX, SALT)); /* nobody reads so far */
}

TEST(files_have_salts_of_their_own)
{
    unsigned char store[16] = {1}, other[16] = {2};
    uint64_t salt = weir_frame_salt(store, FRAME_SEGMENT, 1);
    CHECK(salt != 0 && salt == weir_frame_salt(store, FRAME_SEGMENT, 1));
    CHECK(salt != weir_frame_salt(store, FRAME_SEGMENT, 2));
    CHECK(salt != weir_frame_salt(store, FRAME_IMAGE, 1));
    CHECK(salt != weir_frame_salt(other, FRAME_SEGMENT, 1));
}

/* ---- records ---- */

struct seen {
    int count;
    uint64_t sum;
    int stop_at;
};

static bool see(void *arg, uint32_t region, uint8_t kind, const unsigned char *body, size_t bytes)
{
    struct seen *seen = arg;
    seen->count++;
    seen->sum += region * 1000 + kind * 100 + bytes + (bytes ? body[bytes - 1] : 0);
    return seen->count != seen->stop_at;
}

static void put(struct buffer *out, uint32_t region, uint8_t kind, size_t bytes)
{
    void *body = persist_put(out, region, kind, bytes);
    if (CHECK(body != NULL))
        memset(body, 1, bytes);
}

TEST(records_are_read_in_order_and_nothing_senseless_is)
{
    struct buffer out = {0};
    struct seen seen = {0};
    put(&out, 1, 2, 16);
    put(&out, 3, 4, 0);
    const unsigned char *bytes = (const unsigned char *)buffer_bytes(&out);
    size_t len = buffer_len(&out);
    CHECK(weir_frame_records(bytes, len, see, &seen));
    CHECK_EQ(seen.count, 2);
    CHECK_EQ(seen.sum, 1000 + 200 + 16 + 1 + 3000 + 400);
    CHECK(weir_frame_records(bytes, 0, see, &seen));
    for (size_t cut = 1; cut < len; cut++)
        CHECK_EQ(weir_frame_records(bytes, cut, see, &seen), cut == 24); /* whole records only */
    seen = (struct seen){.stop_at = 1};
    CHECK(!weir_frame_records(bytes, len, see, &seen));
    CHECK_EQ(seen.count, 1);
    buffer_bytes(&out)[offsetof(struct persist_head, kind)] = 0;
    CHECK(!weir_frame_records(bytes, len, see, &seen));
    weir_buffer_free(&out);
}
