/* SPDX-License-Identifier: MIT */
/*
 * Tables that grow by moving: every key keeps what it has, wherever the mover is, and what the old segments
 * used goes back.
 */
#include "check.h"
#include "region/layout.h"
#include "table/change.h"
#include "table/rehash.h"
#include "table/slots.h"
#include "table/verbs.h"

#define START (INT64_C(1000) * WEIR_SEC)
#define KEYS  UINT64_C(3000)

static const char *const kinds[] = {
    "10/h burst=20",         /* words */
    "10/h burst=20, 1000/d", /* wide */
    "20/h algo=sliding-log", /* wide, with longer states */
};

static struct weir_table *make(const char *limits, size_t keys)
{
    struct weir_error err;
    struct weir_table *table =
        weir_table_make(NULL, limits, &(struct weir_table_options){.keys = keys, .overrides = 8}, &err);
    if (!table)
        fprintf(stderr, "%s\n", err.text);
    return table;
}

static bool take(struct weir_table *table, uint64_t key, int64_t n)
{
    return weir_table_take_at(table, START, &key, sizeof key, n, NULL);
}

static int64_t left(struct weir_table *table, uint64_t key)
{
    struct weir_verdict verdict = {0};
    (void)weir_table_peek_at(table, START, &key, sizeof key, 1, &verdict);
    return verdict.remaining;
}

static int64_t spent_by(uint64_t key)
{
    return 1 + (int64_t)(key % 7);
}

static void fill(struct weir_table *table, uint64_t keys)
{
    for (uint64_t key = 0; key < keys; key++)
        CHECK(take(table, key, spent_by(key)));
}

/* All that are there have what is left of `burst`. */
static void check_all(struct weir_table *table, uint64_t keys, int64_t burst)
{
    for (uint64_t key = 0; key < keys; key++)
        if (!CHECK_EQ(left(table, key), burst - spent_by(key)))
            return;
}

/* Something that is in the memory of a segment as long as that has not gone back. */
static uint64_t reach_of(const struct segment *segment)
{
    uint64_t sum = 0;
    for (uint64_t line = 0; line < segment->lines; line++)
        sum += segment->reach[line];
    return sum;
}

static uint64_t keys_in(const struct weir_table *table, const struct segment *segment)
{
    const struct region_shape *shape = &table->region->header->shape;
    uint64_t keys = 0, hash;
    for (uint64_t i = 0; i < segment->lines * shape->line_slots; i++) {
        memcpy(&hash, segment->slots + i * shape->slot_size, sizeof hash);
        keys += hash > OVERFLOW_HASH;
    }
    return keys;
}

TEST(keys_keep_what_they_have_while_they_move)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        struct weir_table *table = make(kinds[i], KEYS);
        if (!CHECK(table != NULL))
            continue;
        fill(table, KEYS);
        uint64_t occupied = atom_load(&table->region->occupied, memory_order_relaxed);
        uint64_t bytes = atom_load(&table->region->bytes, memory_order_relaxed);
        CHECK_EQ(occupied, KEYS);
        CHECK(reach_of(&table->region->segments[0]) > 0);
        CHECK(weir_table_enlarge(table, KEYS * 3 / 2, NULL));
        CHECK_EQ(weir_table_open_slots(table) >= KEYS * 3 / 2, 1);
        enum rehash_status moving;
        uint64_t calls = 0, latest = KEYS;
        do {
            moving = weir_table_rehash(table, START, 16);
            CHECK(take(table, calls, 1)); /* of a key that has moved, or has not */
            weir_table_give_at(table, START, &calls, sizeof calls, 1);
            CHECK(take(table, latest, spent_by(latest))); /* one that comes in meanwhile */
            latest += moving == REHASH_MORE;
            calls++;
        } while (moving == REHASH_MORE);
        CHECK_EQ(moving, REHASH_DONE);
        CHECK(calls > 10);
        CHECK_EQ(region_first(table->region), 1);
        struct segment *old = &table->region->segments[0];
        bool wide = table->region->header->shape.kind == REGION_WIDE;
        CHECK_EQ(reach_of(old) == 0, !wide);
        CHECK_EQ(keys_in(table, old), 0);
        uint64_t now = atom_load(&table->region->bytes, memory_order_relaxed);
        CHECK_EQ(now - bytes, table->region->segments[1].bytes - (wide ? 0 : old->bytes));
        check_all(table, latest, 20);
        CHECK_EQ(weir_table_rehash(table, START, 16), REHASH_DONE);
        weir_table_free(table);
    }
}

TEST(a_table_grows_more_often_than_seven_times)
{
    for (size_t i = 0; i < 2; i++) {
        struct weir_table *table = make(kinds[i], 64);
        uint64_t keys = 64;
        fill(table, keys);
        for (int growth = 0; growth < 12; growth++) {
            CHECK(weir_table_enlarge(table, keys * 3 / 2, NULL));
            for (uint64_t key = keys; key < keys * 3 / 2; key++)
                CHECK(take(table, key, spent_by(key)));
            keys = keys * 3 / 2;
            while (weir_table_rehash(table, START, 1000) == REHASH_MORE) {
            }
        }
        CHECK_EQ(region_first(table->region), 12);
        check_all(table, keys, 20);
        CHECK_EQ(atom_load(&table->region->occupied, memory_order_relaxed), keys);
        struct weir_table_info info;
        weir_table_stat_at(table, START, &info);
        CHECK_EQ(info.keys, keys);
        CHECK_EQ(info.shared, 0);
        CHECK(info.slots < (int64_t)keys * 3);
        weir_table_free(table);
    }
}

/* Growth may come again before all have moved. */
TEST(keys_of_several_closed_segments_move)
{
    for (size_t i = 0; i < 2; i++) {
        struct weir_table *table = make(kinds[i], 1000);
        fill(table, 1000);
        CHECK(weir_table_enlarge(table, 1500, NULL));
        CHECK_EQ(weir_table_rehash(table, START, 20), REHASH_MORE);
        CHECK(weir_table_enlarge(table, 3000, NULL));
        enum rehash_status moving;
        while ((moving = weir_table_rehash(table, START, 20)) == REHASH_MORE) {
        }
        CHECK_EQ(moving, REHASH_DONE);
        CHECK_EQ(region_first(table->region), 2);
        check_all(table, 1000, 20);
        weir_table_free(table);
    }
}

TEST(a_key_with_limits_of_its_own_keeps_them)
{
    for (size_t i = 0; i < 2; i++) {
        struct weir_table *table = make(kinds[i], 100);
        uint64_t vip = 7;
        fill(table, 100);
        CHECK(weir_table_override_at(table, START, &vip, sizeof vip, "100/h burst=100", NULL));
        int64_t before = left(table, vip);
        CHECK(weir_table_enlarge(table, 200, NULL));
        while (weir_table_rehash(table, START, 1) == REHASH_MORE)
            CHECK_EQ(left(table, vip), before);
        CHECK_EQ(left(table, vip), before);
        CHECK(take(table, vip, 1));
        CHECK_EQ(left(table, vip), before - 1);
        CHECK(weir_table_override_at(table, START, &vip, sizeof vip, NULL, NULL));
        CHECK(left(table, vip) <= 20);
        weir_table_free(table);
    }
}

TEST(limits_change_between_two_steps)
{
    for (size_t i = 0; i < 2; i++) {
        struct weir_table *table = make(kinds[i], 1000);
        fill(table, 1000);
        CHECK(weir_table_enlarge(table, 1500, NULL));
        CHECK_EQ(weir_table_rehash(table, START, 30), REHASH_MORE);
        CHECK(weir_table_set_at(table, START, i == 0 ? "30/h burst=20" : "30/h burst=20, 1000/d", NULL));
        while (weir_table_rehash(table, START, 30) == REHASH_MORE) {
        }
        check_all(table, 1000, 20);
        weir_table_free(table);
    }
}

/* They are dropped, not moved. */
TEST(idle_keys_do_not_move)
{
    for (size_t i = 0; i < 2; i++) {
        struct weir_table *table = make(kinds[i], 1000);
        fill(table, 1000);
        CHECK(weir_table_enlarge(table, 1500, NULL));
        int64_t later = START + 25 * INT64_C(3600) * WEIR_SEC;
        while (weir_table_rehash(table, later, 100) == REHASH_MORE) {
        }
        CHECK_EQ(atom_load(&table->region->occupied, memory_order_relaxed), 0);
        weir_table_free(table);
    }
}

/* What others have filled by then leaves no room: nothing is lost, and the next growth lets them move. */
TEST(a_key_that_finds_no_room_stays)
{
    for (size_t i = 0; i < 2; i++) {
        struct weir_table *table = make(kinds[i], 200);
        fill(table, 200);
        CHECK(weir_table_enlarge(table, 200, NULL));
        uint64_t key = 200;
        while (atom_load(&table->region->header->shared, memory_order_relaxed) == 0)
            (void)take(table, key++, 1);
        enum rehash_status moving;
        while ((moving = weir_table_rehash(table, START, 10)) == REHASH_MORE) {
        }
        CHECK_EQ(moving, REHASH_STUCK);
        struct segment *old = &table->region->segments[0];
        for (uint64_t s = 0; i == 0 && s < old->lines * LINE_SLOTS; s++) /* nobody holds it */
            CHECK(slot_kind(slot_word(region_slot(old, s))) != SLOT_HELD);
        check_all(table, 200, 20);
        CHECK(weir_table_enlarge(table, 1000, NULL));
        while ((moving = weir_table_rehash(table, START, 10)) == REHASH_MORE) {
        }
        CHECK_EQ(moving, REHASH_DONE);
        check_all(table, 200, 20);
        weir_table_free(table);
    }
}

TEST(a_table_does_not_become_smaller)
{
    struct weir_table *table = make(kinds[0], 200);
    struct weir_error err;
    CHECK(!weir_table_enlarge(table, 199, &err));
    CHECK_EQ(err.code, EINVAL);
    CHECK_EQ(region_segments(table->region), 1);
    weir_table_free(table);
}

static bool count_key(void *arg, const struct weir_key *key)
{
    uint64_t *count = arg;
    (void)key;
    (*count)++;
    return true;
}

TEST(all_keys_are_listed_counted_and_swept)
{
    for (size_t i = 0; i < 2; i++) {
        struct weir_table *table = make(kinds[i], 1000);
        uint64_t count = 0;
        fill(table, 1000);
        CHECK(weir_table_enlarge(table, 1500, NULL));
        while (weir_table_rehash(table, START, 100) == REHASH_MORE) {
        }
        CHECK(weir_table_each_at(table, START, count_key, &count));
        CHECK_EQ(count, 1000);
        int64_t later = START + 25 * INT64_C(3600) * WEIR_SEC;
        size_t cleared = 0;
        for (int sweep = 0; sweep < 200; sweep++)
            cleared += weir_table_sweep_at(table, later, 64);
        CHECK_EQ(cleared, 1000);
        CHECK_EQ(atom_load(&table->region->occupied, memory_order_relaxed), 0);
        weir_table_free(table);
    }
}

/* What everybody plans with is what a table takes, with a percent for a table that is not very large. */
TEST(the_bytes_of_a_key_are_those_of_a_table)
{
    static const char *const limits[] = {"10/s", "10/s, 100/m", "10/m algo=sliding-log", NULL};
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++)
        for (size_t key_max = 0; key_max <= (limits[i] ? 32 : 0); key_max += 16) {
            struct weir_table_options options = {
                .keys = 100000, .key_max = key_max, .overrides = 1, .no_top = 1, .own_limits = !limits[i]};
            struct weir_table *table = weir_table_make(NULL, limits[i], &options, NULL);
            int64_t planned = weir_table_key_bytes(limits[i], key_max) * (int64_t)options.keys;
            CHECK_EQ(weir_table_key_bytes_in(table) * (int64_t)options.keys, planned);
            CHECK(planned >= (int64_t)table->region->segments[0].bytes * 99 / 100);
            CHECK(planned <= (int64_t)table->region->segments[0].bytes * 105 / 100);
            weir_table_free(table);
        }
    CHECK_EQ(weir_table_key_bytes("10/s", 0), 24); /* as README says */
}
