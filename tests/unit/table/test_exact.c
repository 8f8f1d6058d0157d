/* SPDX-License-Identifier: MIT */
/*
 * Whole keys of up to 16 bytes in a table of words: they are told apart exactly, also those that have the
 * same identity, and come back as they were.
 */
#define _GNU_SOURCE
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "table/persist/export.h"
#include "table/rehash.h"
#include "table/words.h"

#define START (INT64_C(1000) * WEIR_SEC)
#define MANY  5000

static struct weir_table *make(const char *path, struct weir_table_options options)
{
    struct weir_error err;
    options.key_max = options.key_max ? options.key_max : EXACT_BYTES;
    struct weir_table *table = weir_table_make(path, "5/s burst=5", &options, &err);
    if (!CHECK(table != NULL))
        printf("# %s\n", err.text);
    return table;
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

/* Two keys of 16 bytes with the same identity: the step from a key to its name is undone. */
static void make_twins(const struct weir_table *table, struct rng *rng, unsigned char twins[2][EXACT_BYTES])
{
    struct exact_name name = {.hash = rng_next(rng) | 2, .form = EXACT_BYTES};
    for (int i = 0; i < 2; i++) {
        name.rest = rng_next(rng);
        CHECK_EQ(exact_bytes(&table->region->key, &table->exact, &name, twins[i]), EXACT_BYTES);
        CHECK(table_hash(table, twins[i], EXACT_BYTES) == name.hash);
    }
    CHECK(memcmp(twins[0], twins[1], EXACT_BYTES) != 0);
}

TEST(a_name_is_that_of_one_key)
{
    struct weir_table *table = make(NULL, (struct weir_table_options){.keys = 10});
    struct rng rng = rng_new(1);
    for (int i = 0; i < 100000; i++) {
        unsigned char key[EXACT_BYTES + 8] = {0}, back[EXACT_BYTES];
        size_t len = (size_t)rng_between(&rng, 0, EXACT_BYTES);
        for (size_t b = 0; b < len; b++)
            key[b] = (unsigned char)(rng_between(&rng, 0, 3) ? rng_next(&rng) : 0);
        struct exact_name name = weir_exact_name(table, key, len);
        CHECK_EQ(exact_bytes(&table->region->key, &table->exact, &name, back), len);
        CHECK(memcmp(key, back, len) == 0);
        if (len < EXACT_BYTES) /* the same bytes, and one that is 0 */
            CHECK(weir_exact_name(table, key, len + 1).hash != name.hash);
    }
    weir_table_free(table);
}

/* Keys with one half in common, and hardly a difference in the other: places are as those of any keys. */
TEST(similar_keys_are_spread)
{
    struct weir_table *table = make(NULL, (struct weir_table_options){.keys = 10});
    for (int half = 0; half < 2; half++) {
        bool is_used[256] = {false};
        int used = 0;
        for (uint64_t i = 0; i < 1000; i++) {
            uint64_t key[2] = {7, 7};
            key[half] = i;
            uint64_t place = table_hash(table, key, sizeof key) >> 56;
            used += !is_used[place];
            is_used[place] = true;
        }
        CHECK(used > 220); /* 251 of 256 in the mean */
    }
    weir_table_free(table);
}

/* Nobody is called 0 or 1: those keys have the identity of others, and another form. */
TEST(keys_whose_identity_is_taken_come_back_as_well)
{
    struct weir_table *table = make(NULL, (struct weir_table_options){.keys = 10});
    for (uint64_t hash = 0; hash < 4; hash++) {
        unsigned char key[EXACT_BYTES], back[EXACT_BYTES];
        struct exact_name raw = {.hash = hash, .rest = 77, .form = EXACT_BYTES};
        (void)exact_bytes(&table->region->key, &table->exact, &raw, key);
        struct exact_name name = weir_exact_name(table, key, EXACT_BYTES);
        CHECK(name.hash == (hash < 2 ? hash + 2 : hash) && name.rest == 77);
        CHECK_EQ(name.form, EXACT_BYTES | (hash < 2 ? EXACT_MOVED : 0));
        CHECK_EQ(exact_bytes(&table->region->key, &table->exact, &name, back), EXACT_BYTES);
        CHECK(memcmp(key, back, EXACT_BYTES) == 0);
    }
    weir_table_free(table);
}

/* The figure of docs/tables.md. */
TEST(a_whole_key_of_16_bytes_takes_48_bytes)
{
    struct weir_table *table = make(NULL, (struct weir_table_options){.keys = 1000000});
    struct weir_table_info info = {0};
    weir_table_stat_at(table, START, &info);
    CHECK(info.bytes <= 48 * INT64_C(1000000));
    CHECK(table && table->kind == &weir_table_words);
    weir_table_free(table);
}

TEST(of_twins_the_second_has_no_room_while_the_first_is_there)
{
    for (int32_t when_full = 0; when_full < 2; when_full++) {
        struct weir_table *table =
            make(NULL, (struct weir_table_options){.keys = 100, .when_full = when_full});
        struct rng rng = rng_new(2 + (uint64_t)when_full);
        unsigned char twins[2][EXACT_BYTES];
        struct weir_verdict verdict;
        struct weir_table_info info;
        make_twins(table, &rng, twins);
        bool refuses = when_full == WEIR_FULL_REFUSE;
        CHECK(take(table, START, twins[0], EXACT_BYTES, 3));
        CHECK_EQ(weir_table_take_at(table, START, twins[1], EXACT_BYTES, 4, &verdict), !refuses);
        CHECK_EQ(verdict.reason, refuses ? WEIR_FULL : WEIR_OK);
        CHECK_EQ(weir_table_peek_at(table, START, twins[1], EXACT_BYTES, 1, &verdict), !refuses);
        CHECK_EQ(left(table, START, twins[0], EXACT_BYTES), 2); /* it has paid for nobody else */
        weir_table_give_at(table, START, twins[1], EXACT_BYTES, 5);
        weir_table_reset_at(table, START, twins[1], EXACT_BYTES);
        CHECK_EQ(left(table, START, twins[0], EXACT_BYTES), 2);
        CHECK(!weir_table_override_at(table, START, twins[1], EXACT_BYTES, "1/h", NULL));
        weir_table_stat_at(table, START, &info);
        CHECK_EQ(info.keys, 1);
        CHECK_EQ(refuses ? info.refused : info.shared, 1);
        int64_t later = START + 10 * WEIR_SEC; /* the first one may be forgotten: the second one comes in */
        CHECK(take(table, later, twins[1], EXACT_BYTES, 5));
        CHECK(weir_table_sweep_at(table, later, 1000) == 0);
        CHECK(take(table, later, twins[1], EXACT_BYTES, 1) == false);
        weir_table_free(table);
    }
}

/* A key with limits of its own is found by its bytes; its twin is not taken for it. */
TEST(a_twin_has_not_the_limits_of_the_other)
{
    struct weir_table *table = make(NULL, (struct weir_table_options){.keys = 100});
    struct rng rng = rng_new(4);
    unsigned char twins[2][EXACT_BYTES];
    char text[64];
    make_twins(table, &rng, twins);
    CHECK(weir_table_override_at(table, START, twins[0], EXACT_BYTES, "1/h", NULL));
    CHECK(take(table, START, twins[0], EXACT_BYTES, 1) && !take(table, START, twins[0], EXACT_BYTES, 1));
    CHECK(take(table, START, twins[1], EXACT_BYTES, 2)); /* of what is shared */
    CHECK_EQ(weir_table_override_text(table, twins[1], EXACT_BYTES, text, sizeof text), 0);
    CHECK(weir_table_override_at(table, START, twins[0], EXACT_BYTES, NULL, NULL));
    struct weir_ask asks[] = {{.table = table, .key = twins[0], .len = EXACT_BYTES, .n = 1},
                              {.table = table, .key = twins[1], .len = EXACT_BYTES, .n = 1}};
    (void)weir_take_all_at(asks, 2, START + 3600 * WEIR_SEC);
    CHECK(asks[1].verdict.reason == WEIR_OK);
    weir_table_free(table);
}

/* ---- many keys ---- */

static size_t nth(int i, char *key)
{
    size_t len = (size_t)(i % EXACT_BYTES) + 1;
    memset(key, 'a' + i % 7, EXACT_BYTES);
    for (size_t b = 0; b < len && i > 0; b++, i /= 26)
        key[b] = (char)('A' + i % 26);
    return len;
}

struct list {
    struct rng rng;
    uint64_t sum;
    int count;
};

static uint64_t weigh(const void *key, size_t len)
{
    return weir_hash(&(struct hash_key){1, 2}, key, len);
}

static bool add(void *arg, const struct weir_key *key)
{
    struct list *list = arg;
    list->count++;
    list->sum += key->key ? weigh(key->key, key->len) : 0;
    return true;
}

static uint64_t fill(struct weir_table *table, int *distinct)
{
    uint64_t sum = 0;
    char key[EXACT_BYTES];
    *distinct = 0;
    for (int i = 0; i < MANY; i++) {
        size_t len = nth(i, key);
        if (left(table, START, key, len) == 5) {
            sum += weigh(key, len);
            ++*distinct;
        }
        (void)take(table, START, key, len, 1);
    }
    return sum;
}

static void check_list(struct weir_table *table, uint64_t sum, int count)
{
    struct list list = {.count = 0};
    CHECK(weir_table_each_at(table, START, add, &list));
    CHECK_EQ(list.count, count);
    CHECK(list.sum == sum);
}

TEST(keys_are_listed_as_they_came_also_after_they_moved)
{
    struct weir_table *table = make(NULL, (struct weir_table_options){.keys = MANY / 8});
    int distinct, spent = 0;
    char key[EXACT_BYTES];
    CHECK(weir_table_enlarge(table, MANY * 2, NULL));
    uint64_t sum = fill(table, &distinct);
    check_list(table, sum, distinct);
    CHECK(weir_table_enlarge(table, MANY * 3, NULL));
    enum rehash_status moving;
    do
        moving = weir_table_rehash(table, START, 64);
    while (moving == REHASH_MORE);
    CHECK(moving == REHASH_DONE);
    check_list(table, sum, distinct);
    for (int i = 0; i < MANY; i++) {
        size_t len = nth(i, key);
        spent += left(table, START, key, len) < 5;
    }
    CHECK_EQ(spent, MANY);
    weir_table_free(table);
}

TEST(two_openings_of_a_file_know_the_same_keys)
{
    char path[64];
    int distinct;
    (void)snprintf(path, sizeof path, "%s/weir-exact-%d", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp",
                   (int)getpid());
    (void)unlink(path);
    struct weir_table *one = make(path, (struct weir_table_options){.keys = MANY});
    struct weir_table *other = make(path, (struct weir_table_options){.keys = 1});
    uint64_t sum = fill(one, &distinct);
    check_list(other, sum, distinct);
    weir_table_free(one);
    weir_table_free(other);
    one = make(path, (struct weir_table_options){.keys = 1});
    check_list(one, sum, distinct);
    weir_table_free(one);
    CHECK(weir_table_make(path, "5/s burst=5", &(struct weir_table_options){.keys = 1, .key_max = 8}, NULL) ==
          NULL);
    (void)unlink(path);
}

/* ---- to another table ---- */

static bool carry_over(void *arg, const struct export_key *key)
{
    CHECK(key->name != NULL);
    return weir_table_import(arg, START, key);
}

TEST(keys_travel_under_their_names)
{
    struct weir_table *from = make(NULL, (struct weir_table_options){.keys = MANY});
    struct weir_table *to = make(NULL, (struct weir_table_options){.keys = MANY});
    int distinct;
    uint64_t sum = fill(from, &distinct);
    struct export_range range = {1, UINT64_MAX};
    do
        CHECK(weir_table_export(from, START, &range, 1000, NULL, carry_over, to));
    while (range.from != 0 && range.from <= range.to);
    check_list(to, sum, distinct);
    weir_table_free(from);
    weir_table_free(to);
}
