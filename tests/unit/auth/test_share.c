/* SPDX-License-Identifier: MIT */
/*
 * Shares: what one user may hold of a store that all users have in common.
 */
#include <stdlib.h>

#include "auth/fair_share.h"
#include "check.h"
#include "rng.h"

#define ROOM 10000

/* A store of which the test knows everything: whose entry is in which place, 0: none. */
struct store {
    struct fair_share *share;
    uint32_t owner[ROOM + ROOM / 4];
    int64_t used;
};

#define PLACES (sizeof(((struct store *)0)->owner) / sizeof(uint32_t))

static struct store *new_store(void)
{
    struct store *store = calloc(1, sizeof *store);
    store->share = weir_share_new(PLACES, ROOM);
    return store;
}

static void free_store(struct store *store)
{
    weir_share_free(store->share);
    free(store);
}

/* As the job thread does: several ticks are a round. */
static void tick(struct store *store)
{
    uint64_t *cursor = weir_share_cursor(store->share), count = weir_share_look(store->share);
    for (uint64_t i = 0; i < count && *cursor < PLACES; i++, (*cursor)++)
        if (store->owner[*cursor] != 0)
            weir_share_see(store->share, *cursor);
    if (*cursor < PLACES)
        return;
    *cursor = 0;
    weir_share_round(store->share);
}

static void ticks(struct store *store, int count)
{
    while (count-- > 0)
        tick(store);
}

static bool put(struct store *store, struct rng *rng, uint32_t owner)
{
    uint64_t place = (uint64_t)rng_between(rng, 0, PLACES - 1);
    if (store->used >= ROOM || !weir_share_allows(store->share, owner))
        return false;
    while (store->owner[place] != 0)
        place = (place + 1) % PLACES;
    store->owner[place] = owner;
    weir_share_claim(store->share, place, owner);
    store->used++;
    return true;
}

static void drop_all(struct store *store, uint32_t owner)
{
    for (size_t i = 0; i < PLACES; i++)
        if (store->owner[i] == owner) {
            store->owner[i] = 0;
            store->used--;
        }
}

/* In front of the cursor and behind it, in the first round and in later ones; and the mark of a round that
 * came four rounds ago is none. */
TEST(what_is_made_during_a_round_counts_once)
{
    struct store *store = new_store();
    struct rng rng = rng_new(check.seed);
    struct share_stat stat;
    for (int round = 1; round <= 12; round++) {
        for (int i = 0; i < 100; i++)
            CHECK(put(store, &rng, 1));
        tick(store);
        for (int i = 0; i < 100; i++)
            CHECK(put(store, &rng, 1));
        while (*weir_share_cursor(store->share) != 0)
            tick(store);
        weir_share_stat(store->share, &stat);
        CHECK_EQ(stat.most, round * 200);
    }
    free_store(store);
}

/* A round in which the first `living` entries live, and the others have ended. */
static void go_round(struct fair_share *share, int64_t living)
{
    for (int64_t place = 0; place < ROOM; place++)
        place < living ? weir_share_see(share, (uint64_t)place) : weir_share_pass(share, (uint64_t)place);
    weir_share_round(share);
}

static int64_t wake(struct fair_share *share, int64_t entries)
{
    int64_t woken = 0;
    for (int64_t place = 0; place < entries; place++)
        woken += weir_share_wake(share, (uint64_t)place, 1);
    return woken;
}

/* Entries end, stay where they are, and are used again in a later round, also in one with the mark of theirs:
 * that is as if they were made then. Who wakes them often, or in a round that has seen them, counts once. */
TEST(what_wakes_counts_as_made)
{
    for (int rounds = 2; rounds <= 7; rounds++) {
        struct fair_share *share = weir_share_new(PLACES, ROOM);
        struct share_stat stat;
        for (uint64_t place = 0; place < ROOM; place++)
            weir_share_claim(share, place, 1);
        for (int i = 0; i < rounds; i++)
            go_round(share, 0);
        CHECK_EQ(wake(share, ROOM), ROOM / 2 + 1);
        CHECK_EQ(wake(share, ROOM / 2 + 1), ROOM / 2 + 1);
        go_round(share, ROOM / 2 + 1);
        for (uint64_t place = 0; place <= ROOM / 2; place++)
            weir_share_see(share, place);
        CHECK_EQ(wake(share, ROOM / 2 + 1), ROOM / 2 + 1);
        weir_share_stat(share, &stat);
        CHECK_EQ(stat.most, ROOM / 2 + 1);
        CHECK(!weir_share_wake(share, ROOM / 2 + 1, 1) && weir_share_wake(share, ROOM - 1, 2));
        weir_share_free(share);
    }
}

/* As many as it gets, also by trying again and again. */
static int64_t grab(struct store *store, struct rng *rng, uint32_t owner)
{
    int64_t got = 0;
    for (int i = 0; i < 40; tick(store), i++)
        while (put(store, rng, owner))
            got++;
    return got;
}

static void between(int64_t got, int64_t least, int64_t most)
{
    if (!CHECK(got >= least && got <= most))
        printf("# %lld is not between %lld and %lld\n", (long long)got, (long long)least, (long long)most);
}

TEST(one_greedy_user_leaves_room_for_others)
{
    struct rng rng = rng_new(check.seed);
    struct store *store = new_store();
    struct share_stat stat;
    uint32_t one = weir_share_owner("one"), two = weir_share_owner("two"), three = weir_share_owner("three");
    between(grab(store, &rng, one), ROOM * 50 / 100, ROOM * 54 / 100);
    between(grab(store, &rng, two), ROOM * 21 / 100, ROOM * 28 / 100);
    between(grab(store, &rng, three), ROOM * 9 / 100, ROOM * 15 / 100);
    CHECK(put(store, &rng, weir_share_owner("four")));
    CHECK(!put(store, &rng, one));
    weir_share_stat(store->share, &stat);
    CHECK(stat.refused >= 3);
    between(stat.most, ROOM * 48 / 100, ROOM * 56 / 100);
    free_store(store);
}

/* What has ended is free again, for who has had it as well; however many there were before. */
TEST(what_has_ended_does_not_count)
{
    struct rng rng = rng_new(check.seed);
    struct store *store = new_store();
    uint32_t one = weir_share_owner("one");
    for (int i = 0; i < 10; i++) {
        between(grab(store, &rng, one), ROOM * 50 / 100, ROOM * 54 / 100);
        drop_all(store, one);
        ticks(store, 8); /* two rounds: what was made before the first one ended is on top of it */
    }
    free_store(store);
}

/* One makes entries that last, a few at a time, between the many that another makes and that end at once. */
TEST(a_slow_user_does_not_creep_past_its_share)
{
    struct rng rng = rng_new(check.seed);
    struct store *store = new_store();
    uint32_t slow = weir_share_owner("slow"), busy = weir_share_owner("busy");
    int64_t held = 0, served = 0;
    for (int i = 0; i < 600; i++) {
        for (int k = 0; k < 20; k++)
            held += put(store, &rng, slow);
        for (int k = 0; k < 1000; k++)
            served += put(store, &rng, busy);
        drop_all(store, busy);
        ticks(store, 8);
    }
    between(held, ROOM * 40 / 100, ROOM * 56 / 100);
    CHECK_EQ(served, 600 * 1000); /* who fills nothing is never refused */
    free_store(store);
}

/* After a start with a full store: the greedy one gets nothing, and others as much as before. */
TEST(shares_survive_a_start)
{
    struct rng rng = rng_new(check.seed);
    struct store *store = new_store();
    uint32_t one = weir_share_owner("one"), two = weir_share_owner("two");
    (void)grab(store, &rng, one);
    for (int i = 0; i < 3; i++) /* too few to be noted */
        CHECK(put(store, &rng, two));
    ticks(store, 8);
    CHECK_EQ(weir_share_part(store->share, two), 0);
    between(weir_share_part(store->share, one), SHARE_PARTS * 98 / 100, SHARE_PARTS);
    struct fair_share *next = weir_share_new(PLACES, ROOM);
    CHECK(weir_share_inherit(next, one, weir_share_part(store->share, one)));
    weir_share_free(store->share);
    store->share = next;
    ticks(store, 8);
    between(grab(store, &rng, one), 0, ROOM * 4 / 100);
    between(grab(store, &rng, two), ROOM * 18 / 100, ROOM * 30 / 100);
    drop_all(store, one); /* and when they have ended, it may again */
    ticks(store, 8);
    CHECK(put(store, &rng, one));
    CHECK(!weir_share_inherit(next, 0, 1) && !weir_share_inherit(next, SHARE_OWNERS, 1));
    CHECK(!weir_share_inherit(next, 1, SHARE_PARTS + 1));
    free_store(store);
}

/* Numbers move while a note is written, which may then tell of too many: that is no reason not to start. */
TEST(too_many_heirs_are_left_out)
{
    struct fair_share *share = weir_share_new(PLACES, ROOM);
    for (uint32_t owner = 1; owner <= SHARE_HEIRS + 2; owner++)
        CHECK(weir_share_inherit(share, owner, SHARE_PARTS / SHARE_HEIRS));
    weir_share_free(share);
}

TEST(only_what_moves_far_is_noted)
{
    struct rng rng = rng_new(check.seed);
    struct store *store = new_store();
    uint32_t one = weir_share_owner("one");
    CHECK(!weir_share_moved(store->share, 16) && !weir_share_moved(store->share, INT64_MAX));
    for (int i = 0; i < ROOM / 16; i++)
        CHECK(put(store, &rng, one));
    CHECK(!weir_share_moved(store->share, 16) && weir_share_moved(store->share, INT64_MAX));
    CHECK(put(store, &rng, one));
    CHECK(weir_share_moved(store->share, 16));
    weir_share_recorded(store->share);
    CHECK(!weir_share_moved(store->share, 16) && !weir_share_moved(store->share, INT64_MAX));
    drop_all(store, one);
    ticks(store, 8);
    CHECK(weir_share_moved(store->share, 16));
    free_store(store);
}
