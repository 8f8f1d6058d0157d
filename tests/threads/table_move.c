/* SPDX-License-Identifier: MIT */
/*
 * Keys move while others take, give, come in, have limits of their own and are changed: what is taken of each
 * is exactly what there is. Time stands still.
 */
#define _DEFAULT_SOURCE
#include "table/rehash.h"
#include "threads/table_tools.h"

#define KEYS    UINT64_C(600)
#define BURST   40
#define GROWTHS 6

struct traffic {
    struct weir_table *table;
    atomic_llong taken[KEYS];
    atomic_bool ended; /* the mover has */
    uint64_t stream;
    bool all; /* asks for two keys at once */
};

static bool take_two(struct traffic *t, uint64_t key, uint64_t other)
{
    struct weir_ask asks[2] = {ask_for(t->table, &key, 1), ask_for(t->table, &other, 1)};
    if (!weir_take_all_at(asks, 2, START))
        return false;
    atomic_fetch_add(&t->taken[key], 1);
    atomic_fetch_add(&t->taken[other], 1);
    return true;
}

/* Until the mover has ended, and then all that is left. */
static void take_all_of(size_t self, void *arg)
{
    struct traffic *t = arg;
    struct rng rng = rng_new(t->stream * 100 + self);
    while (!atomic_load(&t->ended)) {
        uint64_t key = (uint64_t)rng_between(&rng, 0, KEYS - 1);
        int what = (int)rng_between(&rng, 0, 9);
        if (t->all && what == 0)
            (void)take_two(t, key, (key + 1) % KEYS);
        else if (take(t->table, key, START, 1, NULL)) {
            if (what == 1)
                weir_table_give_at(t->table, START, &key, sizeof key, 1);
            else
                atomic_fetch_add(&t->taken[key], 1);
        }
    }
    for (uint64_t key = 0; key < KEYS; key++)
        atomic_fetch_add(&t->taken[key], take_until_refused(t->table, key, START));
}

static void move_all(size_t self, void *arg)
{
    struct traffic *t = arg;
    size_t keys = KEYS;
    (void)self;
    for (int i = 0; i < GROWTHS; i++) {
        keys += keys / 4;
        if (!weir_table_enlarge(t->table, keys, NULL))
            abort();
        while (weir_table_rehash(t->table, START, 2) == REHASH_MORE)
            team_yield();
    }
    atomic_store(&t->ended, true);
}

static void run(const char *limits, bool all)
{
    for (uint64_t stream = 0; stream < (uint64_t)team_scaled(2); stream++) {
        struct traffic t = {.table = table_open(NULL, limits, (struct weir_table_options){.keys = KEYS}),
                            .stream = check.seed + stream,
                            .all = all};
        team_watch(limits);
        struct team *takers = team_start(3, take_all_of, &t), *mover = team_start(1, move_all, &t);
        team_join(takers);
        team_join(mover);
        team_watch_done();
        for (uint64_t key = 0; key < KEYS; key++) {
            if (!CHECK_EQ(atomic_load(&t.taken[key]), BURST) || !CHECK_EQ(copies_of(t.table, key).live, 1))
                break;
            CHECK_EQ(copies_of(t.table, key).tentative, 0);
        }
        CHECK_EQ(region_first(t.table->region), GROWTHS);
        /* A claim in a segment that goes at that moment goes with it, uncounted: one of each taker at most.
         */
        uint64_t occupied = atom_load(&t.table->region->occupied, memory_order_relaxed);
        CHECK(occupied >= KEYS && occupied <= KEYS + 3 * GROWTHS);
        CHECK_EQ(atom_load(&t.table->region->header->shared, memory_order_relaxed), 0);
        weir_table_free(t.table);
    }
}

TEST(words_that_move_are_taken_from_exactly)
{
    run("1/h burst=40", false);
}

TEST(words_that_move_are_taken_from_together)
{
    run("1/h burst=40", true);
}

TEST(wide_keys_that_move_are_taken_from_exactly)
{
    run("1/h burst=40, 1/h burst=1000", false);
}

TEST(wide_keys_that_move_are_taken_from_together)
{
    run("1/h burst=40, 1/h burst=1000", true);
}

/* ---- beside those who change limits ---- */

static void change_limits(size_t self, void *arg)
{
    struct traffic *t = arg;
    struct rng rng = rng_new(t->stream * 1000 + self);
    while (!atomic_load(&t->ended)) {
        uint64_t key = (uint64_t)rng_between(&rng, 0, KEYS - 1);
        bool own = rng_between(&rng, 0, 1) == 1;
        (void)weir_table_override_at(t->table, START, &key, sizeof key, own ? "1/h burst=40" : NULL, NULL);
        if (rng_between(&rng, 0, 19) == 0)
            (void)weir_table_set_at(t->table, START, own ? "1/h burst=40" : "2/h burst=40", NULL);
        (void)weir_table_sweep_at(t->table, START, 64);
        team_yield();
    }
}

/* Nobody gets more than there is; a change keeps what was spent. */
TEST(keys_move_while_their_limits_change)
{
    for (uint64_t stream = 0; stream < (uint64_t)team_scaled(2); stream++) {
        struct traffic t = {.table = table_open(NULL, "1/h burst=40",
                                                (struct weir_table_options){.keys = KEYS, .overrides = 100}),
                            .stream = check.seed + stream};
        team_watch("keys_move_while_their_limits_change");
        struct team *takers = team_start(2, take_all_of, &t), *changer = team_start(1, change_limits, &t);
        struct team *mover = team_start(1, move_all, &t);
        team_join(takers);
        team_join(changer);
        team_join(mover);
        team_watch_done();
        for (uint64_t key = 0; key < KEYS; key++)
            if (!CHECK_EQ(atomic_load(&t.taken[key]), BURST) || !CHECK_EQ(copies_of(t.table, key).live, 1))
                break;
        weir_table_free(t.table);
    }
}
