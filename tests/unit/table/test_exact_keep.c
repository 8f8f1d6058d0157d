/* SPDX-License-Identifier: MIT */
/*
 * Whole keys of up to 16 bytes in a table of words that a store keeps: its cells, its records, and what comes
 * back of them. prop-keep and prop-store tell stories of them.
 */
#include "table/change.h"
#include "table/exact.h"
#include "table/rehash.h"
#include "table/words.h"
#include "unit/table/keep_kit.h"

#define TEN    "10/s burst=20"
#define MANY   2000
#define RECORD 5 /* words of a TABLE_WHOLE */

static struct weir_table *make(const char *limits, size_t keys)
{
    return kept_table(limits, (struct weir_table_options){.keys = keys, .key_max = EXACT_BYTES, .no_top = 1});
}

static bool take(struct weir_table *table, int64_t now, const void *key, size_t len, int64_t n)
{
    return weir_table_take_at(table, now, key, len, n, NULL);
}

static int64_t left(struct weir_table *table, int64_t now, const void *key, size_t len)
{
    struct weir_verdict verdict;
    (void)weir_table_peek_at(table, now, key, len, 1, &verdict);
    return verdict.remaining;
}

static void end(struct kept *kept, struct weir_table *table, struct weir_table *copy)
{
    kept_end(kept);
    table->region->persist = NULL;
    weir_table_free(table);
    weir_table_free(copy);
    weir_clock_set(-1);
}

/* Two keys of 16 bytes with one identity. */
static void make_twins(const struct weir_table *table, unsigned char twins[2][EXACT_BYTES])
{
    for (uint64_t i = 0; i < 2; i++) {
        struct exact_name name = {.hash = UINT64_C(1) << 60, .rest = 77 + i, .form = EXACT_BYTES};
        CHECK_EQ(exact_bytes(&table->region->key, &table->exact, &name, twins[i]), EXACT_BYTES);
    }
}

/* ---- cells ---- */

/* The figure of docs/tables.md. */
TEST(a_whole_key_that_is_kept_takes_51_bytes_and_no_lock)
{
    struct weir_table *table = make(TEN, 1000000);
    struct weir_table_info info = {0};
    weir_table_stat_at(table, START, &info);
    CHECK(info.bytes <= 51 * INT64_C(1000000));
    CHECK(table->kind == &weir_table_words && table->is_exact);
    CHECK(take(table, START, "0123456789abcdef", 16, 1));
    struct key key = table_key(table, "0123456789abcdef", 16);
    CHECK_EQ(weir_words_take(table, &key, START, 19, NULL), SLOT_YES);
    CHECK_EQ(weir_words_take(table, &key, START, 1, NULL), SLOT_NO);
    weir_table_free(table);
}

/* Its records are of another form. */
TEST(a_table_that_an_earlier_version_has_made_stays_as_it_is)
{
    struct weir_table_options options = {.keys = 100, .key_max = EXACT_BYTES, .no_top = 1};
    struct weir_error err;
    struct weir_table *table = weir_table_make_stored(TEN, &options, NULL, STATE_HEADER + 1, &err);
    struct kept kept;
    if (!CHECK(table != NULL))
        return;
    kept_begin(&kept, table);
    CHECK_EQ(buffer_bytes(&kept.described)[4], 1);
    CHECK(table->kind == &weir_table_wide);
    CHECK(take(table, START, "abc", 3, 5));
    kept_commit(&kept);
    struct weir_table *copy = kept_recover(&kept, 0, NULL, TABLE_EXACT, START);
    CHECK(copy && copy->kind == &weir_table_wide);
    CHECK_EQ(left(copy, START, "abc", 3), 15);
    end(&kept, table, copy);
}

/* ---- records ---- */

TEST(the_bytes_of_a_record_are_frozen)
{
    struct weir_table *table = make(TEN, 100);
    struct kept kept;
    kept_begin(&kept, table);
    CHECK_EQ(buffer_bytes(&kept.described)[4], 2); /* versions before it do not know them */
    CHECK(take(table, START, "0123456789abcdef", 16, 5));
    kept_commit(&kept);
    const struct kept_record *record = kept.records[0];
    struct exact_name name = weir_exact_name(table, "0123456789abcdef", 16);
    CHECK_EQ(TABLE_WHOLE, 6);
    CHECK_EQ(kept.count, 1);
    CHECK_EQ(record->kind, TABLE_WHOLE);
    CHECK_EQ(record->len, RECORD * sizeof(uint64_t));
    CHECK(record->body[0] == name.hash && record->body[3] == name.rest && record->body[4] == 16);
    CHECK_EQ(slot_kind(record->body[2]), SLOT_PLAIN);
    CHECK(name.hash == UINT64_C(0x2313a20957c7a039) && name.rest == UINT64_C(0xd878c0df1d5479f7));
    end(&kept, table, NULL);
}

static bool applies(struct kept *kept, struct weir_table *to, uint8_t kind, const uint64_t *body,
                    size_t words)
{
    struct persist persist = kept->persist;
    bool failed = false;
    persist.owner = to;
    bool applied = persist.kind->apply(&persist, kind, (const unsigned char *)body, words * 8, &failed);
    CHECK(!failed);
    return applied;
}

TEST(a_record_of_no_key_makes_no_sense)
{
    struct weir_table *table = make(TEN, 100);
    struct weir_table *hashed = kept_table(TEN, (struct weir_table_options){.keys = 100, .no_top = 1});
    struct weir_table *shorter =
        kept_table(TEN, (struct weir_table_options){.keys = 100, .key_max = 8, .no_top = 1});
    struct kept kept;
    kept_begin(&kept, table);
    CHECK(take(table, START, "123456789", 9, 5));
    kept_commit(&kept);
    uint64_t good[RECORD], bad[RECORD];
    memcpy(good, kept.records[0]->body, sizeof good);
    static const uint64_t flips[][2] = {
        {0, 1}, {3, 1}, {4, 1}, {4, 16}, {4, 32}, {4, 64}, {4, UINT64_C(1) << 40}};
    struct weir_table *copy = kept_recover(&kept, 0, NULL, TABLE_EXACT, START);
    for (size_t i = 0; i < sizeof flips / sizeof flips[0]; i++) {
        memcpy(bad, good, sizeof bad);
        bad[flips[i][0]] ^= flips[i][1];
        CHECK(!applies(&kept, copy, TABLE_WHOLE, bad, RECORD));
    }
    memcpy(bad, good, sizeof bad);
    bad[0] = OVERFLOW_HASH;
    CHECK(!applies(&kept, copy, TABLE_WHOLE, bad, RECORD));
    CHECK(!applies(&kept, copy, TABLE_WHOLE, good, RECORD - 1));
    CHECK(!applies(&kept, copy, TABLE_WORD, good, 3)); /* of which key? */
    CHECK(!applies(&kept, hashed, TABLE_WHOLE, good, RECORD));
    CHECK(applies(&kept, hashed, TABLE_WORD, good, 3));
    CHECK(!applies(&kept, shorter, TABLE_WHOLE, good, RECORD)); /* 9 bytes are too many */
    CHECK(applies(&kept, copy, TABLE_WHOLE, good, RECORD));
    weir_table_free(hashed);
    weir_table_free(shorter);
    end(&kept, table, copy);
}

/* ---- keys come back ---- */

static size_t nth(uint64_t i, unsigned char *key)
{
    size_t len = (size_t)(i % (EXACT_BYTES + 1));
    memset(key, 0, EXACT_BYTES);
    for (size_t b = 0; b < len && i > 0; b++, i /= 17)
        key[b] = (unsigned char)(i % 17);
    return len;
}

struct list {
    uint64_t sum;
    int count;
};

static bool add(void *arg, const struct weir_key *key)
{
    struct list *list = arg;
    list->count++;
    list->sum += key->key ? weir_hash(&(struct hash_key){1, 2}, key->key, key->len) : 0;
    return true;
}

static struct list list_of(struct weir_table *table)
{
    struct list list = {0};
    CHECK(weir_table_each_at(table, START, add, &list));
    return list;
}

static void check_same(struct weir_table *table, struct weir_table *copy)
{
    struct list one = list_of(table), other = list_of(copy);
    CHECK(one.count > MANY / 2 && one.count == other.count && one.sum == other.sum);
    for (uint64_t i = 0; i < MANY; i++) {
        unsigned char key[EXACT_BYTES];
        size_t len = nth(i, key);
        CHECK_EQ(left(copy, START, key, len), left(table, START, key, len));
    }
}

static struct weir_table *fill(struct kept *kept, size_t keys)
{
    struct weir_table *table = make("1/m burst=1M", keys);
    weir_clock_set(START);
    kept_begin(kept, table);
    for (uint64_t i = 0; i < MANY; i++) {
        unsigned char key[EXACT_BYTES];
        size_t len = nth(i, key);
        CHECK(take(table, START, key, len, (int64_t)i + 1));
    }
    return table;
}

TEST(keys_of_all_lengths_come_back_by_log_and_image)
{
    for (int image = 0; image < 2; image++) {
        struct rng rng = rng_new(1);
        struct kept kept;
        struct weir_table *table = fill(&kept, 2 * MANY);
        if (image)
            kept_image(&kept);
        else
            kept_commit(&kept);
        kept_shuffle(&kept, &rng);
        struct weir_table *copy = kept_recover(&kept, 0, &rng, TABLE_EXACT, START);
        check_same(table, copy);
        end(&kept, table, copy);
    }
}

/* While keys move some are captured in their old places and some in their new ones. */
TEST(keys_that_move_come_back)
{
    for (uint64_t steps = 0; steps < 4; steps++) {
        struct kept kept;
        struct weir_table *table = fill(&kept, 2 * MANY);
        CHECK(weir_table_enlarge(table, 4 * MANY, NULL));
        for (uint64_t i = 0; i < steps; i++)
            (void)weir_table_rehash(table, START, 400);
        kept_note(&kept, table);
        kept_commit(&kept);
        while (steps == 3 && weir_table_rehash(table, START, 400) == REHASH_MORE) {
        }
        kept_image(&kept);
        struct weir_table *copy = kept_recover(&kept, 0, NULL, TABLE_EXACT, START);
        check_same(table, copy);
        end(&kept, table, copy);
    }
}

TEST(no_key_is_lost_for_want_of_room)
{
    struct kept kept;
    struct weir_table *table = fill(&kept, 2 * MANY), *small = make("1/m burst=1M", 50);
    kept_commit(&kept);
    weir_buffer_free(&kept.described);
    weir_table_describe(small, &kept.described);
    struct weir_table *copy = kept_recover(&kept, 0, NULL, TABLE_EXACT, START);
    check_same(table, copy);
    weir_table_free(small);
    end(&kept, table, copy);
}

TEST(a_key_with_limits_of_its_own_comes_back_by_its_bytes)
{
    struct weir_table *table = make(TEN, 100);
    unsigned char twins[2][EXACT_BYTES];
    struct kept kept;
    char text[64];
    make_twins(table, twins);
    kept_begin(&kept, table);
    CHECK(take(table, START, twins[0], EXACT_BYTES, 1));
    CHECK(weir_table_override_at(table, START, twins[0], EXACT_BYTES, "3/h", NULL));
    CHECK(take(table, START, twins[0], EXACT_BYTES, 1));
    kept_commit(&kept);
    struct weir_table *copy = kept_recover(&kept, 0, NULL, TABLE_EXACT, START);
    CHECK(weir_table_override_text(copy, twins[0], EXACT_BYTES, text, sizeof text) > 0);
    CHECK_STR(text, "3/h");
    CHECK_EQ(weir_table_override_text(copy, twins[1], EXACT_BYTES, text, sizeof text), 0);
    CHECK_EQ(left(copy, START, twins[0], EXACT_BYTES), left(table, START, twins[0], EXACT_BYTES));
    CHECK_EQ(left(copy, START, twins[1], EXACT_BYTES), 20); /* of what is shared */
    CHECK(weir_table_override_at(copy, START, twins[0], EXACT_BYTES, NULL, NULL));
    CHECK(take(copy, START, twins[0], EXACT_BYTES, 1));
    end(&kept, table, copy);
}

/* ---- keys with one identity ---- */

/* Of the first there are records, it may be forgotten, and the second comes in: that one comes back. */
TEST(of_twins_the_one_that_was_there_last_comes_back)
{
    struct rng rng = rng_new(2);
    for (int round = 0; round < 20; round++) {
        struct weir_table *table = make(TEN, 100);
        unsigned char twins[2][EXACT_BYTES];
        struct kept kept;
        int64_t now = START;
        make_twins(table, twins);
        kept_begin(&kept, table);
        for (int i = 0; i < 4; i++, now += 3 * WEIR_SEC) {
            weir_clock_set(now);
            CHECK(take(table, now, twins[i % 2], EXACT_BYTES, 20 - i));
            kept_commit(&kept);
        }
        now -= 3 * WEIR_SEC;
        kept_shuffle(&kept, &rng);
        struct weir_table *copy = kept_recover(&kept, 0, &rng, TABLE_EXACT, now);
        CHECK_EQ(left(copy, now, twins[1], EXACT_BYTES), 3);
        CHECK_EQ(left(copy, now, twins[0], EXACT_BYTES), 20);
        CHECK_EQ(list_of(copy).count, 1);
        end(&kept, table, copy);
    }
}

/* A key that was reset is full, and forgotten before it is captured: what the disk has of it does not come
 * back. By the rule of floor all are empty, and it is not there under a name that nobody has. */
TEST(a_key_that_is_gone_does_not_come_back)
{
    for (int how = TABLE_EXACT; how <= TABLE_OPTIMISTIC; how++) {
        struct weir_table *table = make(TEN, 100);
        struct kept kept;
        int64_t later = START + 2 * TABLE_GRACE_NS;
        weir_clock_set(START);
        kept_begin(&kept, table);
        CHECK(take(table, START, "gone", 4, 20));
        kept_commit(&kept);
        weir_table_reset_at(table, START, "gone", 4);
        CHECK_EQ(weir_table_sweep_at(table, later, 1000), 1);
        kept_commit(&kept);
        CHECK_EQ(kept.count, 2);
        CHECK_EQ(kept.records[1]->kind, TABLE_GONE);
        struct weir_table *copy = kept_recover(&kept, 0, NULL, (enum table_recover)how, later);
        CHECK_EQ(list_of(copy).count, 0);
        CHECK_EQ(left(copy, later, "gone", 4), how == TABLE_FLOOR ? 0 : 20);
        CHECK(take(copy, later + WEIR_SEC, "gone", 4, 10));
        CHECK_EQ(list_of(copy).count, 1);
        struct kept again;
        kept_begin(&again, copy);
        kept_image(&again);
        struct weir_table *third = kept_recover(&again, 0, NULL, TABLE_EXACT, later + WEIR_SEC);
        CHECK_EQ(left(third, later + WEIR_SEC, "gone", 4), how == TABLE_FLOOR ? 0 : 10);
        weir_table_free(third);
        kept_end(&again);
        copy->region->persist = NULL;
        end(&kept, table, copy);
    }
}
