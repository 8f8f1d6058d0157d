/* SPDX-License-Identifier: MIT */
/*
 * Wide tables part by part: whole keys, what is written and when, limits of its own, listings, damage, size,
 * threads.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "core/idle.h"
#include "table/wide_slots.h"
#include "unit/table/wide_table.h"

static bool take(struct weir_table *table, const struct key *key, int64_t now, int64_t n)
{
    struct table_op op = {.verb = VERB_TAKE, .now = now, .n = n};
    return table->kind->run(table, key, &op);
}

static int64_t remaining(struct weir_table *table, const struct key *key, int64_t now)
{
    struct weir_verdict verdict;
    struct table_op op = {.verb = VERB_PEEK, .now = now, .n = 1, .verdict = &verdict};
    (void)table->kind->run(table, key, &op);
    return verdict.remaining;
}

/* ---- a full table ---- */

TEST(a_peek_says_full_where_a_take_would)
{
    struct weir_table *table = table_new("1/m, 5/h", NULL, 8, 0);
    struct weir_verdict verdict;
    char name[16];
    table->refuse_when_full = true;
    for (int i = 0; i < 20; i++) {
        (void)snprintf(name, sizeof name, "%d", i);
        struct key key = key_of(table, name);
        struct table_op peek = {.verb = VERB_PEEK, .now = WEIR_SEC, .n = 1, .verdict = &verdict};
        bool foreseen = table->kind->run(table, &key, &peek);
        CHECK_EQ(verdict.reason, foreseen ? WEIR_OK : WEIR_FULL);
        CHECK_EQ(take(table, &key, WEIR_SEC, 1), foreseen);
        CHECK_EQ(foreseen, i < 12);
    }
    CHECK_EQ(counter(&table->region->header->refused), 8);
    table_free(table);
}

/* ---- whole keys ---- */

TEST(different_keys_with_the_same_hash_both_live)
{
    struct weir_table *table = table_new("10/s", NULL, 100, 8);
    struct key keys[] = {{"a", 1, 4711, 0, 0},
                         {"b", 1, 4711, 0, 0},
                         {"ab", 2, 4711, 0, 0},
                         {NULL, 0, 4711, 0, 0},
                         {"12345678", 8, 4711, 0, 0}};
    for (size_t i = 0; i < COUNT(keys); i++)
        CHECK(take(table, &keys[i], WEIR_SEC, (int64_t)i + 1));
    for (size_t i = 0; i < COUNT(keys); i++)
        CHECK_EQ(remaining(table, &keys[i], WEIR_SEC), 9 - (int64_t)i);
    CHECK_EQ(keys_in(table, WEIR_SEC), COUNT(keys));
    CHECK(table->kind->has(table, 4711) && !table->kind->has(table, 4712));
    CHECK_EQ(sweep_all(table, 10 * WEIR_SEC), COUNT(keys));
    CHECK(!table->kind->has(table, 4711));
    table_free(table);

    table = table_new("10/s, 10/m", NULL, 100, 0); /* hashes only: then they are one key */
    CHECK(take(table, &keys[0], WEIR_SEC, 4));
    CHECK_EQ(remaining(table, &keys[1], WEIR_SEC), 6);
    table_free(table);
}

/* ---- writing ---- */

TEST(a_refusal_writes_nothing)
{
    static const char *const limits[] = {"5/s, 50/m", "5/s algo=sliding-log", "70/s algo=sliding-log"};
    for (size_t i = 0; i < COUNT(limits); i++) {
        struct weir_table *table = table_new(limits[i], NULL, 8, 0);
        struct key key = key_of(table, "spent"), other = key_of(table, "other");
        size_t bytes = table->region->segments[0].lines * table->region->header->shape.slot_size;
        unsigned char *before = malloc(bytes);
        CHECK(take(table, &key, WEIR_SEC, 5));
        while (take(table, &key, WEIR_SEC, 1)) {
        }
        memcpy(before, table->region->segments[0].slots, bytes);
        CHECK(!take(table, &key, WEIR_SEC + 1, 1));
        CHECK(!take(table, &other, WEIR_SEC + 1, 1000));
        CHECK(memcmp(before, table->region->segments[0].slots,
                     bytes - table->region->header->shape.slot_size) == 0);
        CHECK(!place_of(table, &other).slot);
        free(before);
        table_free(table);
    }
}

TEST(a_name_is_told_once_when_its_key_comes_in)
{
    struct weir_table *table = table_new("5/s, 50/m", NULL, 8, 0);
    struct key key = key_of(table, "name");
    table->names = (struct name_log *)(void *)table; /* any */
    names_told = 0;
    CHECK(!take(table, &key, WEIR_SEC, 100));
    CHECK_EQ(names_told, 0);
    CHECK(take(table, &key, WEIR_SEC, 1) && take(table, &key, WEIR_SEC, 1));
    CHECK_EQ(names_told, 1);
    table_free(table);
}

/* A fork of time: who read the clock before a key was forgotten counts as of when that happened. */
TEST(an_old_reading_of_the_clock_gains_nothing_from_a_forgotten_key)
{
    struct weir_table *table = table_new("5/s algo=sliding-log", NULL, 8, 0);
    struct key key = key_of(table, "log");
    CHECK(take(table, &key, WEIR_SEC, 5));
    CHECK_EQ(sweep_all(table, 2 * WEIR_SEC + TABLE_GRACE_NS - 1), 0);
    CHECK_EQ(sweep_all(table, 2 * WEIR_SEC + TABLE_GRACE_NS), 1);
    CHECK(counter(&table->region->header->floor) >= 2 * (uint64_t)WEIR_SEC);
    CHECK(take(table, &key, WEIR_SEC + 1, 5)); /* at the floor */
    CHECK(!take(table, &key, 3 * WEIR_SEC - 1, 1));
    table_free(table);
}

/* ---- limits of its own ---- */

static void detach(struct weir_table *table, const struct key *key, int64_t now, int64_t *state, bool commit)
{
    struct stripe *stripe = weir_stripe_lock(table->region, table_stripe(table, key->hash));
    weir_journal_begin(&stripe->journal);
    CHECK(table->kind->detach(table, key, now, &stripe->journal, state));
    if (commit)
        weir_journal_commit(table->region, &stripe->journal);
    else
        weir_journal_undo(table->region, &stripe->journal);
    weir_stripe_unlock(stripe);
}

static void attach(struct weir_table *table, const struct key *key, const int64_t *state)
{
    struct stripe *stripe = weir_stripe_lock(table->region, table_stripe(table, key->hash));
    weir_journal_begin(&stripe->journal);
    CHECK(table->kind->attach(table, key, &stripe->journal, state));
    weir_journal_commit(table->region, &stripe->journal);
    weir_stripe_unlock(stripe);
}

TEST(a_key_with_limits_of_its_own_is_decided_elsewhere_and_stays)
{
    struct weir_table *table = table_new("10/s, 20/m", NULL, 8, 8);
    struct key key = key_of(table, "vip");
    const int64_t now = WEIR_SEC, later = 7200 * WEIR_SEC;
    int64_t state[WIDE_SMALL];
    CHECK(take(table, &key, now, 4));
    detach(table, &key, now, state, true);
    overridden_hash = key.hash;
    CHECK_EQ(remaining(table, &key, now), 77);
    CHECK(!take(table, &key, later, 1));
    CHECK_EQ(sweep_all(table, later), 0);
    CHECK_EQ(keys_in(table, later), 1);
    CHECK(weir_state_take(policy_of(table), state, now, 5, NULL));
    attach(table, &key, state);
    CHECK_EQ(remaining(table, &key, now), 1);
    overridden_hash = 0;
    CHECK_EQ(sweep_all(table, later), 1);
    table_free(table);
}

TEST(taking_a_state_out_can_be_undone)
{
    struct weir_table *table = table_new("10/s, 20/m", NULL, 8, 8);
    struct key key = key_of(table, "there"), other = key_of(table, "absent");
    int64_t state[WIDE_SMALL];
    CHECK(take(table, &key, WEIR_SEC, 4));
    detach(table, &key, WEIR_SEC, state, false);
    CHECK_EQ(place_of(table, &key).slot->flags, 0);
    CHECK_EQ(remaining(table, &key, WEIR_SEC), 6);
    detach(table, &other, WEIR_SEC, state, false);
    CHECK(!place_of(table, &other).slot);
    detach(table, &other, WEIR_SEC, state, true);
    CHECK_EQ(place_of(table, &other).slot->flags, WIDE_OVERRIDDEN);
    CHECK(weir_state_idle_from(policy_of(table), state) <= WEIR_SEC);
    CHECK(is_tight(table));
    table_free(table);
}

TEST(a_state_is_taken_out_and_put_back_under_the_latest_limits)
{
    struct weir_table *table = table_new("10/s, 20/m", NULL, 8, 0);
    struct key key = key_of(table, "key");
    int64_t state[WIDE_SMALL], expected[WIDE_SMALL];
    CHECK(take(table, &key, WEIR_SEC, 4));
    struct wide_slot *slot = place_of(table, &key).slot;
    const struct weir_policy *first = policy_of(table);
    table_change(table, "30/s, 40/m", 2 * WEIR_SEC);
    weir_state_change(first, wide_state(table, slot), policy_of(table), expected, 2 * WEIR_SEC);
    detach(table, &key, WEIR_SEC, state, false);
    CHECK_EQ(slot->generation, 0);
    detach(table, &key, WEIR_SEC, state, true);
    CHECK_EQ(slot->generation, 1);
    CHECK(memcmp(state, expected, table->state_words * 8) == 0);
    table_change(table, "50/s, 60/m", 3 * WEIR_SEC);
    weir_state_init(policy_of(table), state, 3 * WEIR_SEC);
    CHECK(weir_state_take(policy_of(table), state, 3 * WEIR_SEC, 45, NULL));
    attach(table, &key, state);
    CHECK_EQ(slot->generation, 2);
    CHECK_EQ(remaining(table, &key, 3 * WEIR_SEC), 5);
    table_free(table);
}

/* ---- going through ---- */

struct seen {
    const struct weir_table *table;
    int counts[400], calls, stop_after;
    int64_t remaining;
};

static bool see(void *arg, const struct weir_key *key)
{
    struct seen *seen = arg;
    uint64_t number = 0;
    seen->calls++;
    seen->remaining = key->verdict.remaining;
    if (seen->table->key_max > 0) {
        char name[16] = "";
        CHECK(key->len < sizeof name);
        memcpy(name, key->key, key->len);
        CHECK(check_number(name, &number) && number < COUNT(seen->counts));
        seen->counts[number]++;
        CHECK_EQ(key->id, table_hash(seen->table, name, key->len));
    } else {
        CHECK(!key->key && key->len == 0 && key->id > OVERFLOW_HASH);
    }
    CHECK_EQ(key->overridden, key->id == overridden_hash);
    return seen->calls != seen->stop_after;
}

TEST(a_listing_shows_every_busy_key_once)
{
    for (size_t key_max = 0; key_max <= 8; key_max += 8) {
        struct weir_table *table = table_new("1/s burst=3, 5/m", NULL, 1000, key_max);
        struct seen seen = {.table = table};
        char name[16];
        for (int i = 0; i < 400; i++) {
            (void)snprintf(name, sizeof name, "%d", i);
            struct key key = key_of(table, name);
            CHECK(take(table, &key, i < 200 ? WEIR_SEC : 100 * WEIR_SEC, 1 + i % 3));
            if (i == 300)
                CHECK(table_grow(table, 10));
        }
        struct key last = key_of(table, "399");
        int64_t state[WIDE_SMALL];
        detach(table, &last, 100 * WEIR_SEC, state, true);
        overridden_hash = last.hash;
        CHECK(table->kind->each(table, 100 * WEIR_SEC, see, &seen));
        CHECK_EQ(seen.calls, 200);
        CHECK_EQ(keys_in(table, 100 * WEIR_SEC), 200);
        for (int i = 0; key_max > 0 && i < 400; i++)
            CHECK_EQ(seen.counts[i], i >= 200);
        seen = (struct seen){.table = table, .stop_after = 7};
        CHECK(!table->kind->each(table, 100 * WEIR_SEC, see, &seen));
        CHECK_EQ(seen.calls, 7);
        CHECK(sweep_all(table, 100 * WEIR_SEC) > 100); /* others were in the way of later ones */
        CHECK_EQ(sweep_all(table, 1000 * WEIR_SEC), 199);
        seen = (struct seen){.table = table};
        CHECK(table->kind->each(table, 1000 * WEIR_SEC, see, &seen));
        CHECK(seen.calls == 1 && seen.remaining == 77);
        overridden_hash = 0;
        table_free(table);
    }
}

/* ---- damage ---- */

static struct wide_slot *hurt(struct weir_table *table, const struct key *key, struct wide_slot *copy,
                              size_t bytes)
{
    struct wide_slot *slot = place_of(table, key).slot;
    memcpy(copy, slot, bytes);
    return slot;
}

TEST(damage_is_found)
{
    struct weir_table *table = table_new("10/s, 5/s algo=sliding-log", NULL, 8, 8);
    struct key key = key_of(table, "key");
    uint64_t size = table->region->header->shape.slot_size;
    struct wide_slot *copy = malloc(size);
    CHECK(take(table, &key, WEIR_SEC, 2));
    CHECK(weir_wide_check(table));
    struct wide_slot *slot = hurt(table, &key, copy, size);
    unsigned char *bytes = (unsigned char *)slot;
    for (size_t i = 0; i < 16 + 8 + 3; i++) { /* who, generation, flags, length, key */
        bytes[i] ^= 0x41;
        if (!CHECK(!weir_wide_check(table)))
            printf("#   byte %zu\n", i);
        memcpy(slot, copy, size);
    }
    wide_state(table, slot)[STATE_PROMISED] = -5;
    CHECK(!weir_wide_check(table));
    memcpy(slot, copy, size);
    CHECK(weir_wide_check(table));

    memcpy((unsigned char *)slot + size, copy, size); /* the key twice */
    for (uint64_t i = 0; i < table->region->segments[0].lines; i++)
        table->region->segments[0].reach[i] = 9;
    CHECK(!weir_wide_check(table));
    free(copy);
    table_free(table);
}

static bool see_cut_key(void *arg, const struct weir_key *key)
{
    CHECK(key->len == 8 && memcmp(key->key, "longname", 8) == 0);
    *(int *)arg += 1;
    return true;
}

TEST(a_damaged_length_of_a_key_lists_no_more_than_a_slot_holds)
{
    struct weir_table *table = table_shared("10/s, 5/m", 8, 8);
    struct key key = key_of(table, "longname");
    CHECK(take(table, &key, WEIR_SEC, 2));
    struct wide_slot *slot = place_of(table, &key).slot;
    int listed = 0;
    for (unsigned bit = 4; bit < 64; bit++) {
        slot->contents[0] = UINT64_C(1) << bit;
        CHECK(table->kind->each(table, WEIR_SEC, see_cut_key, &listed));
    }
    CHECK_EQ(listed, 60);
    table_free(table);
}

TEST(a_key_out_of_reach_and_a_foreign_overflow_are_found)
{
    struct weir_table *table = table_new("10/s, 5/m", NULL, 8, 0);
    for (uint64_t i = 0; i < 5; i++) {
        struct key key = {.hash = 2 + i}; /* all have the same home */
        CHECK(take(table, &key, WEIR_SEC, 1));
    }
    CHECK_EQ(table->region->segments[0].reach[0], 4);
    CHECK(weir_wide_check(table));
    table->region->segments[0].reach[0] = 3;
    CHECK(!weir_wide_check(table));
    table->region->segments[0].reach[0] = 200; /* too far only costs time */
    CHECK(weir_wide_check(table));
    uint64_t size = table->region->header->shape.slot_size, lines = table->region->segments[0].lines;
    memcpy(table->region->segments[0].slots + (lines - 2) * size, table->region->segments[0].slots, size);
    CHECK(!weir_wide_check(table));
    table_free(table);
}

/* ---- shape ---- */

TEST(as_many_keys_fit_as_the_shape_was_made_for)
{
    static const size_t keys[] = {1, 2, 10, 100, 391, 392, 1000, 5000, 40000};
    for (size_t i = 0; i < COUNT(keys); i++) {
        struct weir_table *table = table_new("1/h, 5/d", NULL, keys[i], 0);
        const struct region_shape *shape = &table->region->header->shape;
        struct rng rng = rng_new(900 + i);
        CHECK(weir_wide_shape_fits(shape, table->state_words));
        CHECK(!weir_wide_shape_fits(shape, shape->slot_size / 8 - 1));
        CHECK(shape->stripes == 1 || shape->lines / shape->stripes >= 256);
        CHECK(keys[i] < 100 || shape->lines <= keys[i] * 3 / 2);
        CHECK_EQ(shape->slot_size % 64, 48); /* 2 limits */
        for (size_t k = 0; k < keys[i]; k++) {
            struct key key = {.hash = rng_next(&rng) | 2};
            CHECK(take(table, &key, WEIR_SEC, 1));
        }
        CHECK_EQ(counter(&table->region->header->shared), 0);
        CHECK_EQ(keys_in(table, WEIR_SEC), keys[i]);
        table_free(table);
    }
}

TEST(absurd_sizes_make_shapes_that_no_region_takes)
{
    struct region_shape shape = {0};
    weir_wide_shape(&shape, 1, STATE_HEADER + 3, 0); /* 3 limits: nearly a cache line becomes one */
    CHECK_EQ(shape.slot_size, 64);
    weir_wide_shape(&shape, SIZE_MAX, 7, 0);
    CHECK(weir_wide_shape_fits(&shape, 7));
    CHECK(shape.lines >= UINT64_C(1) << 48);
    CHECK(weir_wide_lines(&shape, SIZE_MAX) >= UINT64_C(1) << 48);
    CHECK(weir_wide_lines(&shape, 0) >= shape.stripes);
}

/* ---- threads ---- */

struct crew {
    struct weir_table *table;
    uint64_t stream;
    long taken[16];
};

static void *work(void *arg)
{
    struct crew *crew = arg;
    struct rng rng = rng_new(crew->stream);
    for (int i = 0; i < 30000; i++) {
        struct key key = {.hash = (uint64_t)rng_between(&rng, 0, 15) * UINT64_C(0x0F00000000000000) + 5};
        crew->taken[key.hash >> 56 & 15] += take(crew->table, &key, WEIR_SEC, 1);
        if (i % 1000 == 0)
            (void)sweep_all(crew->table, 2 * WEIR_SEC);
        if (i % 1000 == 500)
            CHECK_EQ(crew->table->kind->count(crew->table, WEIR_SEC, 0, UINT64_MAX) > 16, false);
    }
    return NULL;
}

TEST(threads_admit_exactly_what_the_limits_let_pass)
{
    static const char *const limits[] = {"900/m, 1000/h", "300/m algo=sliding-log"};
    static const long most[] = {900, 300};
    for (size_t i = 0; i < COUNT(limits); i++) {
        struct weir_table *table = table_new(limits[i], NULL, 1000, 0);
        struct crew crews[3];
        pthread_t threads[COUNT(crews)];
        for (size_t t = 0; t < COUNT(crews); t++) {
            crews[t] = (struct crew){.table = table, .stream = 1000 + t};
            CHECK(pthread_create(&threads[t], NULL, work, &crews[t]) == 0);
        }
        for (size_t t = 0; t < COUNT(crews); t++)
            (void)pthread_join(threads[t], NULL);
        for (size_t k = 0; k < 16; k++)
            CHECK_EQ(crews[0].taken[k] + crews[1].taken[k] + crews[2].taken[k], most[i]);
        CHECK(is_tight(table));
        table_free(table);
    }
}
