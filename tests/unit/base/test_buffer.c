/* SPDX-License-Identifier: MIT */
/*
 * Bytes that grow at the end and go at the front, within a bound, and with memory that runs out.
 */
#include "base/buffer.h"

#include <inttypes.h>

#include "base/put.h"
#include "check.h"

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);

static bool no_memory;

void *__wrap_malloc(size_t size)
{
    return no_memory ? NULL : __real_malloc(size);
}

static bool holds(struct buffer *buffer, const char *text)
{
    return slice_is((struct slice){buffer_bytes(buffer), buffer_len(buffer)}, text);
}

TEST(an_empty_buffer_needs_no_memory)
{
    struct buffer buffer = {0};
    buffer_put(&buffer, "", 0);
    buffer_put(&buffer, NULL, 0);
    weir_buffer_drop(&buffer, 0, 0);
    weir_buffer_drop(&buffer, 5, 0);
    CHECK(buffer.bytes == NULL && buffer_bytes(&buffer) == NULL && !buffer.failed);
    CHECK_EQ(buffer_len(&buffer), 0);
    weir_buffer_free(&buffer);
}

TEST(what_is_put_comes_out_in_order)
{
    struct buffer buffer = {0};
    buffer_put(&buffer, "abc", 3);
    buffer_put(&buffer, "defg", 4);
    CHECK(holds(&buffer, "abcdefg"));
    weir_buffer_drop(&buffer, 2, 0);
    CHECK(holds(&buffer, "cdefg"));
    buffer_put(&buffer, "h", 1);
    CHECK(holds(&buffer, "cdefgh"));
    weir_buffer_free(&buffer);
    CHECK(holds(&buffer, "") && buffer.bytes == NULL);
}

TEST(what_is_printed_is_never_cut)
{
    struct buffer buffer = {0};
    char wide[2000];
    weir_buffer_print(&buffer, "%s", "");
    CHECK(buffer.bytes == NULL && !buffer.failed);
    weir_buffer_print(&buffer, "%d-%s", 42, "x");
    CHECK(holds(&buffer, "42-x"));
    for (int width = 500; width < 530; width++) { /* around what is kept aside for it, and above */
        weir_buffer_free(&buffer);
        weir_buffer_print(&buffer, "a");
        weir_buffer_print(&buffer, "%*d", width, 7);
        (void)snprintf(wide, sizeof wide, "a%*d", width, 7);
        CHECK(holds(&buffer, wide));
    }
    weir_buffer_free(&buffer);
    buffer.most = 600;
    weir_buffer_print(&buffer, "%590d", 1);
    CHECK(!buffer.failed);
    weir_buffer_print(&buffer, "%590d", 1);
    CHECK(buffer.failed);
    CHECK_EQ(buffer_len(&buffer), 590);
    weir_buffer_free(&buffer);
    no_memory = true;
    weir_buffer_print(&buffer, "%590d", 1);
    no_memory = false;
    CHECK(buffer.failed);
    weir_buffer_free(&buffer);
}

TEST(room_counts_only_once_it_is_written)
{
    struct buffer buffer = {0};
    char *room = weir_buffer_room(&buffer, 1000);
    if (!CHECK(room != NULL))
        return;
    memset(room, 'x', 1000);
    CHECK_EQ(buffer_len(&buffer), 0);
    buffer_wrote(&buffer, 10);
    CHECK(holds(&buffer, "xxxxxxxxxx"));
    CHECK(weir_buffer_room(&buffer, 0) != NULL);
    weir_buffer_free(&buffer);
    CHECK(weir_buffer_room(&buffer, 0) != NULL); /* a place, even if nothing is to be written there */
    weir_buffer_free(&buffer);
}

/* The same bytes through a buffer and through a plain array. */
TEST(random_puts_and_drops_lose_nothing)
{
    static char model[1 << 20];
    struct rng rng = rng_new(1);
    struct buffer buffer = {.most = 5000};
    size_t start = 0, end = 0;
    while (end < sizeof model - 2000) {
        size_t len = (size_t)rng_between(&rng, 0, rng_between(&rng, 0, 3) ? 40 : 1500);
        if (end - start + len <= buffer.most) {
            for (size_t i = 0; i < len; i++)
                model[end + i] = (char)rng_next(&rng);
            buffer_put(&buffer, model + end, len);
            end += len;
        }
        size_t drop = (size_t)rng_between(&rng, 0, (int64_t)(end - start));
        if (rng_between(&rng, 0, 2) == 0) {
            weir_buffer_drop(&buffer, drop, (size_t)rng_between(&rng, 0, 1000));
            start += drop;
        }
        if (!CHECK(!buffer.failed && buffer.size <= 5000 && buffer_len(&buffer) == end - start) ||
            !CHECK(end == start || memcmp(buffer_bytes(&buffer), model + start, end - start) == 0))
            break;
    }
    weir_buffer_free(&buffer);
}

TEST(the_bound_is_met_to_the_byte)
{
    static const char bytes[1001];
    struct buffer buffer = {.most = 1000};
    buffer_put(&buffer, bytes, 999);
    buffer_put(&buffer, bytes, 1);
    CHECK(!buffer.failed && buffer_len(&buffer) == 1000 && buffer.size == 1000);
    weir_buffer_drop(&buffer, 10, 0); /* room at the front only */
    buffer_put(&buffer, bytes, 10);
    CHECK(!buffer.failed && buffer_len(&buffer) == 1000 && buffer.size == 1000);
    buffer_put(&buffer, bytes, 1);
    CHECK(buffer.failed && buffer_len(&buffer) == 1000);
    weir_buffer_free(&buffer);
    CHECK(!buffer.failed);
    CHECK_EQ(buffer.most, 1000);
    CHECK(weir_buffer_room(&buffer, 1001) == NULL && buffer.failed);
    weir_buffer_free(&buffer);
    CHECK(weir_buffer_room(&buffer, 1000) != NULL);
    weir_buffer_free(&buffer);
}

TEST(what_has_failed_stays_failed)
{
    struct buffer buffer = {.most = 4};
    buffer_put(&buffer, "abc", 3);
    buffer_put(&buffer, "de", 2);
    CHECK(buffer.failed);
    buffer_put(&buffer, "d", 1); /* it would fit, but something is missing before it */
    CHECK(holds(&buffer, "abc"));
    CHECK(weir_buffer_room(&buffer, 1) == NULL);
    weir_buffer_drop(&buffer, 3, 0);
    buffer_put(&buffer, "d", 1);
    CHECK(buffer.failed && holds(&buffer, ""));
    weir_buffer_free(&buffer);
}

TEST(lengths_that_overflow_fail)
{
    struct buffer buffer = {0};
    buffer_put(&buffer, "abc", 3);
    CHECK(weir_buffer_room(&buffer, SIZE_MAX - 1) == NULL && buffer.failed);
    weir_buffer_free(&buffer);
    no_memory = true; /* no machine has so much, but a sanitizer would rather stop than say so */
    CHECK(weir_buffer_room(&buffer, SIZE_MAX) == NULL && buffer.failed);
    no_memory = false;
    weir_buffer_free(&buffer);
}

TEST(without_memory_nothing_is_lost_but_what_did_not_fit)
{
    static char bytes[300];
    struct buffer buffer = {0};
    no_memory = true;
    buffer_put(&buffer, "abc", 3);
    no_memory = false;
    CHECK(buffer.failed && buffer.bytes == NULL);
    weir_buffer_free(&buffer);

    buffer_put(&buffer, "abc", 3);
    no_memory = true;
    buffer_put(&buffer, bytes, sizeof bytes);
    no_memory = false;
    CHECK(buffer.failed && holds(&buffer, "abc"));
    weir_buffer_free(&buffer);
}

TEST(an_empty_buffer_keeps_only_so_much_memory)
{
    static const char bytes[5000];
    struct buffer buffer = {0};
    buffer_put(&buffer, bytes, sizeof bytes);
    size_t size = buffer.size;
    weir_buffer_drop(&buffer, sizeof bytes, size);
    CHECK(buffer.bytes != NULL && buffer.size == size && buffer.start == 0 && buffer.end == 0);
    buffer_put(&buffer, "a", 1);
    weir_buffer_drop(&buffer, 0, 0);
    CHECK(holds(&buffer, "a"));
    weir_buffer_drop(&buffer, 1, size - 1);
    CHECK(buffer.bytes == NULL && buffer.size == 0);
    weir_buffer_free(&buffer);
}

TEST(bytes_that_wander_through_do_not_let_it_grow)
{
    static const char bytes[100];
    struct buffer buffer = {0};
    buffer_put(&buffer, bytes, 50);
    for (int i = 0; i < 10000; i++) {
        buffer_put(&buffer, bytes, sizeof bytes);
        weir_buffer_drop(&buffer, sizeof bytes, 0);
    }
    CHECK_EQ(buffer_len(&buffer), 50);
    CHECK(buffer.size <= 1024);
    weir_buffer_free(&buffer);
}

TEST(slices_are_compared_whole)
{
    CHECK(slice_is((struct slice){"takes", 4}, "take"));
    CHECK(!slice_is((struct slice){"takes", 5}, "take"));
    CHECK(!slice_is((struct slice){"take", 3}, "take"));
    CHECK(slice_is((struct slice){"", 0}, ""));
}

static void check_decimal(int64_t number)
{
    char expected[32], got[32] = "";
    snprintf(expected, sizeof expected, "%" PRId64 "!", number);
    char *end = put_decimal(got, number);
    *end = '!';
    CHECK_STR(got, expected);
}

TEST(decimals_are_those_of_printf)
{
    struct rng rng = rng_new(1);
    check_decimal(INT64_MIN);
    check_decimal(INT64_MAX);
    for (int64_t power = 1; power <= INT64_MAX / 10; power *= 10)
        for (int64_t more = -1; more <= 1; more++) {
            check_decimal(power * 10 + more);
            check_decimal(-(power * 10 + more));
        }
    for (int i = 0; i < 64; i++) {
        check_decimal((int64_t)(UINT64_C(1) << i));
        check_decimal((int64_t)((UINT64_C(1) << i) - 1));
    }
    for (int i = 0; i < 100000; i++)
        check_decimal(rng_magnitude(&rng, INT64_MAX));
}
