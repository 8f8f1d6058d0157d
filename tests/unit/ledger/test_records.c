/* SPDX-License-Identifier: MIT */
/*
 * Records: what is remembered, for how long, and what happens when there is no room.
 */
#include "check.h"
#include "ledger/records.h"

/* ---- memory that runs out when the test says so ---- */

static long allocations_left = -1; /* below 0: no end */

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);

static bool runs_out(void)
{
    if (allocations_left < 0)
        return false;
    return allocations_left == 0 || --allocations_left < 0;
}

void *__wrap_calloc(size_t count, size_t size)
{
    return runs_out() ? NULL : __real_calloc(count, size);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size)
{
    return runs_out() ? NULL : __real_aligned_alloc(alignment, size);
}

#define BYTES 16

static struct records *records_of(size_t count)
{
    struct weir_error err;
    struct records *records = weir_records_new(count, BYTES, &err);
    if (!records) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
    return records;
}

static struct record_id id_of(const struct records *records, uint64_t number)
{
    return weir_record_id(records, "test", &number, sizeof number);
}

/* Enters, writes if it is new, leaves. Gives 1 if it was there, 0 if it is new, -1 if there was no room. */
static int visit_once(struct records *records, uint64_t number, int64_t now, int64_t expires)
{
    struct record_id id = id_of(records, number);
    struct record_visit visit;
    weir_records_enter(records, &id, now, &visit);
    int got = visit.record ? visit.found : -1;
    if (got >= 0) {
        uint64_t *bytes = record_bytes(visit.record);
        CHECK(memcmp(&visit.record->id, &id, sizeof id) == 0);
        CHECK_EQ(bytes[0], got ? number + 1 : 0);
        CHECK_EQ(bytes[1], got ? ~number : 0);
        if (!got) {
            CHECK_EQ(visit.record->expires_ns, 0);
            bytes[0] = number + 1;
            bytes[1] = ~number;
            visit.record->expires_ns = expires;
        }
    }
    weir_records_leave(records, &visit);
    return got;
}

static struct records_stat stat_of(struct records *records)
{
    struct records_stat stat;
    weir_records_stat(records, &stat);
    return stat;
}

TEST(a_record_is_there_until_its_time_and_then_is_new)
{
    struct records *records = records_of(10);
    CHECK_EQ(visit_once(records, 1, 0, 100), 0);
    CHECK_EQ(visit_once(records, 1, 0, 0), 1);
    CHECK_EQ(visit_once(records, 1, 99, 0), 1);
    CHECK_EQ(visit_once(records, 2, 99, 500), 0);
    CHECK_EQ(visit_once(records, 1, 100, 200), 0);
    CHECK_EQ(visit_once(records, 1, 199, 0), 1);
    CHECK_EQ(visit_once(records, 2, 199, 0), 1);
    CHECK_EQ(stat_of(records).used, 2);
    weir_records_free(records);
}

TEST(a_record_without_a_time_is_given_back)
{
    struct records *records = records_of(10);
    CHECK_EQ(visit_once(records, 1, 5, 0), 0);
    CHECK_EQ(stat_of(records).used, 0);
    CHECK_EQ(visit_once(records, 1, 5, 100), 0);
    CHECK_EQ(stat_of(records).used, 1);

    struct record_id id = id_of(records, 1);
    struct record_visit visit;
    weir_records_enter(records, &id, 6, &visit);
    CHECK(visit.found);
    visit.record->expires_ns = 0;
    weir_records_leave(records, &visit);
    CHECK_EQ(stat_of(records).used, 0);
    CHECK_EQ(visit_once(records, 1, 6, 100), 0);
    weir_records_free(records);
}

TEST(what_has_not_expired_is_never_dropped_for_a_newcomer)
{
    struct records *records = records_of(3000);
    struct records_stat stat = stat_of(records);
    uint64_t count = (uint64_t)stat.capacity * 2;
    bool *kept = calloc(count, sizeof *kept);
    int64_t inside = 0, first_refused = -1;
    CHECK(stat.capacity >= 3000 && stat.capacity < 3200);
    for (uint64_t i = 0; i < count; i++) {
        int got = visit_once(records, i, 1, 100);
        kept[i] = got == 0;
        inside += got == 0;
        if (got < 0 && first_refused < 0)
            first_refused = inside;
    }
    CHECK(first_refused > stat.capacity * 85 / 100);
    CHECK(inside > stat.capacity * 95 / 100);
    stat = stat_of(records);
    CHECK_EQ(stat.used, inside);
    CHECK_EQ(stat.refused, (int64_t)count - inside);
    weir_records_sweep(records, SIZE_MAX, 99); /* frees nothing */
    for (uint64_t i = 0; i < count; i++)
        if (kept[i])
            CHECK_EQ(visit_once(records, i, 99, 0), 1);
    weir_records_sweep(records, SIZE_MAX, 100);
    CHECK_EQ(stat_of(records).used, 0);
    free(kept);
    weir_records_free(records);
}

TEST(newcomers_take_the_places_of_those_that_have_expired_without_a_sweep)
{
    struct records *records = records_of(2000);
    for (int64_t round = 0; round < 20; round++)
        for (uint64_t i = 0; i < 1600; i++)
            CHECK_EQ(visit_once(records, (uint64_t)round << 32 | i, round * 100 + 1, round * 100 + 100), 0);
    CHECK_EQ(stat_of(records).refused, 0);
    weir_records_free(records);
}

static bool is_even(const struct record *record, int64_t now_ns)
{
    (void)now_ns;
    return ((const uint64_t *)(const void *)(record + 1))[0] % 2 == 1; /* the number, and 1 */
}

TEST(those_that_yield_go_first_and_only_if_there_is_no_other_place)
{
    struct records *records = records_of(1);
    weir_records_yield(records, is_even);
    for (uint64_t i = 0; i < 32; i++)
        CHECK_EQ(visit_once(records, i, 1, 100 + (int64_t)i), 0);
    CHECK_EQ(visit_once(records, 101, 1, 500), 0);
    CHECK_EQ(visit_once(records, 103, 1, 500), 0);
    for (uint64_t i = 4; i < 32; i++) /* 0 and 2 have gone: of those that yield the first to expire */
        CHECK_EQ(visit_once(records, i, 1, 0), 1);
    for (uint64_t i = 1; i < 4; i += 2)
        CHECK_EQ(visit_once(records, i, 1, 0), 1);
    for (uint64_t i = 2; i < 16; i++)
        CHECK_EQ(visit_once(records, 101 + 2 * i, 1, 500), 0);
    CHECK_EQ(visit_once(records, 999, 1, 500), -1); /* none is left that yields */
    CHECK_EQ(stat_of(records).used, 32);
    weir_records_free(records);
}

/* Whichever of its two groups the one that goes lies in, the newcomer gets that place. */
TEST(many_newcomers_take_the_places_of_those_that_yield)
{
    struct records *records = records_of(256);
    weir_records_yield(records, is_even);
    for (uint64_t i = 0; i < 4000; i++)
        CHECK_EQ(visit_once(records, 2 * i, 1, 100 + (int64_t)(i % 7)), 0);
    CHECK_EQ(stat_of(records).used, 256);
    CHECK_EQ(stat_of(records).refused, 0);
    weir_records_free(records);
}

/* One comes, one goes, for a long time: it does not get worse. */
TEST(coming_and_going_at_three_quarters_finds_room)
{
    struct records *records = records_of(4096);
    const int64_t live = 4096 * 3 / 4;
    for (int64_t i = 1; i < 100000; i++) {
        CHECK_EQ(visit_once(records, (uint64_t)i, i, i + live), 0);
        if (i % 100 == 0)
            weir_records_sweep(records, 200, i);
        if (i > live)
            CHECK_EQ(visit_once(records, (uint64_t)(i - live + 1), i, i), 1);
    }
    CHECK_EQ(stat_of(records).refused, 0);
    weir_records_free(records);
}

TEST(a_clock_that_steps_back_brings_nothing_back_and_drops_nothing)
{
    struct records *records = records_of(10);
    CHECK_EQ(visit_once(records, 1, 50, 100), 0);
    CHECK_EQ(visit_once(records, 2, 50, 300), 0);
    weir_records_sweep(records, SIZE_MAX, 200);
    CHECK_EQ(visit_once(records, 1, 60, 0), 0); /* it was gone at 200, and stays so */
    CHECK_EQ(visit_once(records, 2, 0, 0), 1);
    CHECK_EQ(visit_once(records, 2, -5, 0), 1);
    weir_records_free(records);
}

static void count_one(void *arg, struct record *record)
{
    CHECK(record->expires_ns > 5);
    *(int *)arg += 1;
}

TEST(pages_show_those_that_have_not_expired)
{
    struct records *records = records_of(3000);
    int count = 0;
    uint64_t cursor = 0;
    for (uint64_t i = 0; i < 100; i++)
        (void)visit_once(records, i, 1, i % 4 ? 10 : 5);
    while (weir_records_page(records, 5, &cursor, 64, count_one, &count)) {
    }
    CHECK_EQ(count, 75);
    weir_records_free(records);
}

TEST(ids_differ_by_kind_bytes_and_length_and_between_records)
{
    struct records *one = records_of(1), *other = records_of(1);
    const struct record_id ids[] = {weir_record_id(one, "a", "x", 1), weir_record_id(one, "b", "x", 1),
                                    weir_record_id(one, "a", "y", 1), weir_record_id(one, "a", "x", 2),
                                    weir_record_id(one, "ax", "", 0), weir_record_id(one, "", "ax", 2),
                                    weir_record_id(one, "a", "", 0),  weir_record_id(other, "a", "x", 1)};
    const size_t count = sizeof ids / sizeof *ids;
    for (size_t i = 0; i < count; i++) {
        CHECK(ids[i].word[0] != ids[i].word[1]);
        for (size_t j = 0; j < i; j++)
            CHECK(ids[i].word[0] != ids[j].word[0] && ids[i].word[1] != ids[j].word[1]);
    }
    struct record_id again = weir_record_id(one, "a", "x", 1);
    CHECK(memcmp(&again, &ids[0], sizeof again) == 0);
    weir_records_free(one);
    weir_records_free(other);
    weir_records_free(NULL);
}

TEST(sizes_without_sense_are_errors)
{
    struct weir_error err;
    CHECK(!weir_records_new(0, 8, &err) && err.code == EINVAL);
    CHECK(!weir_records_new(8, 0, &err) && err.code == EINVAL);
    CHECK(!weir_records_new(8, 12, &err) && err.code == EINVAL);
    CHECK(!weir_records_new(SIZE_MAX, 8, &err) && err.code == EINVAL);
    CHECK(!weir_records_new(SIZE_MAX, SIZE_MAX - 7, NULL));
    CHECK(!weir_records_new((size_t)1 << 40, 4096, &err) && err.code == ENOMEM);
    CHECK(err.text[0] != '\0');
}

TEST(without_memory_there_is_an_error_and_nothing_is_left_behind)
{
    struct weir_error err;
    for (long i = 0; i < 2; i++) {
        allocations_left = i;
        struct records *records = weir_records_new(100, BYTES, &err);
        allocations_left = -1;
        CHECK(!records && err.code == ENOMEM);
    }
    allocations_left = 2;
    struct records *records = weir_records_new(100, BYTES, &err);
    allocations_left = -1;
    CHECK(records && err.code == 0);
    weir_records_free(records);
}
