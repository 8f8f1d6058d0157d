/* SPDX-License-Identifier: MIT */
/*
 * Locks that survive their holders, and journals: each state in which a holder can die, and damage. A thread
 * that ends while it has a lock is dead to the others, as a killed process is; processes that are killed at
 * every instruction are in tests/threads/stripes.c.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "check.h"
#include "region/layout.h"
#include "region/stripe.h"
#include "unit/region/damage.h"

#define STRIPES 8
#define CELLS   64
#define HASH    UINT64_C(0x1234567890abcdef)

struct ground {
    struct region *region;
    uint64_t *cells; /* something to be changed */
    struct slot *slot;
};

static struct ground ground_new(void)
{
    struct region_shape shape = {.kind = REGION_WORDS,
                                 .capacity = 64,
                                 .slot_size = sizeof(struct slot),
                                 .line_slots = 4,
                                 .lines = 16,
                                 .stripes = STRIPES,
                                 .journal_size = weir_journal_size(256, 8),
                                 .transaction_size = weir_journal_size(1024, 16),
                                 .parts = {[PART_POLICIES] = CELLS * sizeof(uint64_t)}};
    struct weir_error err;
    struct region *region = weir_region_new(&shape, &err);
    if (!region) {
        printf("# %s\n", err.text);
        exit(1);
    }
    struct ground ground = {region, (uint64_t *)(void *)region->parts[PART_POLICIES],
                            region_slot(&region->segments[0], 5)};
    for (uint64_t i = 0; i < CELLS; i++)
        ground.cells[i] = i;
    return ground;
}

/* Without locking it. */
static struct stripe *stripe_of(const struct ground *g, uint64_t index)
{
    uint64_t size = weir_stripe_size(g->region->header->shape.journal_size);
    return (struct stripe *)(void *)(g->region->stripes + index * size);
}

static void slot_set(struct slot *slot, uint64_t hash, uint64_t word)
{
    atom_store(&slot->both.low, hash, memory_order_relaxed);
    atom_store(&slot->both.high, word, memory_order_relaxed);
}

static bool are_cells_whole(const struct ground *g)
{
    for (uint64_t i = 0; i < CELLS; i++)
        if (g->cells[i] != i)
            return false;
    return true;
}

static uint32_t state_of(struct journal *journal)
{
    return atomic_load(&journal->state);
}

static uint64_t *entries_of(struct journal *journal)
{
    return (uint64_t *)(void *)(journal + 1);
}

/* ---- deaths ---- */

struct death {
    void (*act)(struct ground *);
    struct ground *ground;
};

static void *die(void *arg)
{
    struct death *death = arg;
    death->act(death->ground);
    return NULL;
}

/* In a thread that ends without unlocking anything. */
static void dead(struct ground *ground, void (*act)(struct ground *))
{
    struct death death = {act, ground};
    pthread_t thread;
    if (CHECK_EQ(pthread_create(&thread, NULL, die, &death), 0))
        CHECK_EQ(pthread_join(thread, NULL), 0);
}

static void die_with_one(struct ground *ground)
{
    (void)weir_stripe_lock(ground->region, 0);
}

/* An emulator of another processor does not tell of the dead: then the test is skipped. */
static bool are_deaths_unknown(void)
{
    struct ground g = ground_new();
    dead(&g, die_with_one);
    pthread_mutex_t *mutex = &stripe_of(&g, 0)->mutex;
    int code = pthread_mutex_trylock(mutex);
    if (code == EOWNERDEAD) {
        (void)pthread_mutex_consistent(mutex);
        (void)pthread_mutex_unlock(mutex);
    } else {
        check_skip("nobody is told when a thread dies with a lock");
    }
    weir_region_free(g.region);
    return code != EOWNERDEAD;
}

/* Every lock can be had, nothing is marked, nothing is left to be recovered. */
static void check_free(struct ground *g)
{
    uint32_t all[STRIPES];
    size_t count = STRIPES;
    for (uint32_t i = 0; i < STRIPES; i++) {
        struct stripe *stripe = weir_stripe_lock(g->region, i);
        CHECK_EQ(state_of(&stripe->journal), JOURNAL_IDLE);
        CHECK_EQ(atomic_load(&stripe->transaction), 0);
        weir_stripe_unlock(stripe);
        all[i] = i;
    }
    struct transaction *transaction = weir_transaction_lock(g->region, all, &count);
    CHECK_EQ(count, STRIPES);
    CHECK_EQ(state_of(weir_transaction_journal(transaction)), JOURNAL_IDLE);
    weir_transaction_unlock(g->region, transaction, all, count);
    weir_stripes_lock_all(g->region);
    weir_stripes_unlock_all(g->region);
}

static void ground_free(struct ground *g)
{
    check_free(g);
    weir_region_free(g->region);
}

/* ---- journals ---- */

TEST(undo_gives_back_what_was_there_first)
{
    struct ground g = ground_new();
    struct stripe *stripe = weir_stripe_lock(g.region, 3);
    unsigned char *bytes = (unsigned char *)g.cells;
    weir_journal_begin(&stripe->journal);
    CHECK(weir_journal_save(g.region, &stripe->journal, &g.cells[4], 5 * sizeof(uint64_t)));
    for (uint64_t i = 4; i < 9; i++)
        g.cells[i] = UINT64_MAX;
    CHECK(weir_journal_save(g.region, &stripe->journal, &g.cells[4], 16));
    g.cells[5] = 77;
    CHECK(weir_journal_save(g.region, &stripe->journal, bytes + 3, 13)); /* neither aligned nor whole words */
    memset(bytes + 3, 0xee, 13);
    CHECK(weir_journal_save(g.region, &stripe->journal, bytes + 80, 3));
    memset(bytes + 80, 0xdd, 3);
    CHECK_EQ(state_of(&stripe->journal), JOURNAL_OPEN);
    weir_journal_undo(g.region, &stripe->journal);
    CHECK_EQ(state_of(&stripe->journal), JOURNAL_IDLE);
    CHECK(are_cells_whole(&g));
    weir_stripe_unlock(stripe);
    ground_free(&g);
}

TEST(what_was_committed_stays)
{
    struct ground g = ground_new();
    struct stripe *stripe = weir_stripe_lock(g.region, 3);
    weir_journal_begin(&stripe->journal);
    CHECK(weir_journal_save(g.region, &stripe->journal, &g.cells[4], 8));
    g.cells[4] = 1000;
    weir_journal_commit(g.region, &stripe->journal);
    CHECK_EQ(state_of(&stripe->journal), JOURNAL_IDLE);
    weir_journal_recover(g.region, &stripe->journal);
    CHECK_EQ(g.cells[4], 1000);
    weir_journal_begin(&stripe->journal); /* nothing of the last one is left in it */
    weir_journal_undo(g.region, &stripe->journal);
    CHECK_EQ(g.cells[4], 1000);
    weir_stripe_unlock(stripe);
    ground_free(&g);
}

TEST(a_journal_takes_what_its_size_says_and_refuses_more)
{
    struct ground g = ground_new();
    struct stripe *stripe = weir_stripe_lock(g.region, 7);
    unsigned char *bytes = (unsigned char *)g.cells;
    for (size_t piece = 1; piece <= 32; piece++) {
        weir_journal_begin(&stripe->journal);
        for (size_t i = 0; i < 8; i++)
            CHECK(weir_journal_save(g.region, &stripe->journal, bytes + i, piece));
        weir_journal_undo(g.region, &stripe->journal);
    }
    weir_journal_begin(&stripe->journal);
    size_t saved = 0;
    while (saved < 1000 && weir_journal_save(g.region, &stripe->journal, bytes, 24))
        saved++;
    CHECK(saved >= 8 && saved < 16);
    slot_set(g.slot, HASH, slot_pack(SLOT_PLAIN, 0, 5));
    CHECK(!weir_journal_hold(g.region, &stripe->journal, g.slot, HASH, slot_pack(SLOT_PLAIN, 0, 5)));
    CHECK_EQ(slot_word(g.slot), slot_pack(SLOT_PLAIN, 0, 5));
    CHECK(!weir_journal_save(g.region, &stripe->journal, bytes, SIZE_MAX));
    weir_journal_undo(g.region, &stripe->journal);
    struct stripe *next = (struct stripe *)(void *)g.region->transactions; /* nothing was written behind it */
    CHECK_EQ(pthread_mutex_trylock(&next->mutex), 0);
    CHECK_EQ(pthread_mutex_unlock(&next->mutex), 0);
    weir_stripe_unlock(stripe);
    CHECK_EQ(weir_stripe_size(UINT64_MAX), UINT64_MAX);
    CHECK_EQ(weir_transaction_size(UINT64_MAX - 8), UINT64_MAX);
    CHECK_EQ(weir_stripe_size(1000) % 64, 0);
    CHECK(weir_stripe_size(1000) >= 1000 + sizeof(struct stripe));
    ground_free(&g);
}

/* ---- held slots ---- */

TEST(a_held_slot_becomes_plain_with_what_was_stored)
{
    struct ground g = ground_new();
    struct stripe *stripe = weir_stripe_lock(g.region, 0);
    uint64_t word = slot_pack(SLOT_PROMISED, 2, 500);
    slot_set(g.slot, HASH, word);
    weir_journal_begin(&stripe->journal);
    CHECK(weir_journal_hold(g.region, &stripe->journal, g.slot, HASH, word));
    CHECK_EQ(slot_word(g.slot), slot_pack(SLOT_HELD, 2, 500));
    CHECK(!weir_journal_hold(g.region, &stripe->journal, g.slot, HASH, slot_word(g.slot)));
    atom_store(&g.slot->both.high, slot_pack(SLOT_HELD, 2, 600), memory_order_relaxed);
    weir_journal_commit(g.region, &stripe->journal);
    CHECK_EQ(slot_hash(g.slot), HASH);
    CHECK_EQ(slot_word(g.slot), slot_pack(SLOT_PLAIN, 2, 600));
    CHECK_EQ(state_of(&stripe->journal), JOURNAL_IDLE);

    word = slot_pack(SLOT_PLAIN, 2, 600);
    weir_journal_begin(&stripe->journal);
    CHECK(weir_journal_hold(g.region, &stripe->journal, g.slot, HASH, word));
    weir_journal_commit_held(&stripe->journal);
    CHECK_EQ(slot_word(g.slot), slot_pack(SLOT_HELD, 2, 600));
    weir_stripe_unlock(stripe);
    ground_free(&g);
}

TEST(undo_gives_a_held_slot_its_word_back)
{
    struct ground g = ground_new();
    struct stripe *stripe = weir_stripe_lock(g.region, 0);
    uint64_t word = slot_pack(SLOT_PROMISED, 3, 500);
    slot_set(g.slot, HASH, word);
    weir_journal_begin(&stripe->journal);
    CHECK(weir_journal_hold(g.region, &stripe->journal, g.slot, HASH, word));
    atom_store(&g.slot->both.high, slot_pack(SLOT_HELD, 3, 600), memory_order_relaxed);
    weir_journal_undo(g.region, &stripe->journal);
    CHECK_EQ(slot_word(g.slot), word);
    CHECK_EQ(slot_hash(g.slot), HASH);
    weir_stripe_unlock(stripe);
    ground_free(&g);
}

TEST(a_slot_that_has_changed_is_not_held)
{
    struct ground g = ground_new();
    struct stripe *stripe = weir_stripe_lock(g.region, 0);
    uint64_t word = slot_pack(SLOT_PLAIN, 1, 500), tentative = slot_pack(SLOT_TENTATIVE, 1, 9);
    slot_set(g.slot, HASH, word);
    weir_journal_begin(&stripe->journal);
    CHECK(!weir_journal_hold(g.region, &stripe->journal, g.slot, HASH, word + 1));
    CHECK(!weir_journal_hold(g.region, &stripe->journal, g.slot, HASH + 1, word));
    CHECK_EQ(atomic_load(&stripe->journal.used), 0); /* and leaves nothing that could be undone */
    slot_set(g.slot, HASH, tentative);
    CHECK(!weir_journal_hold(g.region, &stripe->journal, g.slot, HASH, tentative));
    CHECK_EQ(slot_word(g.slot), tentative);
    weir_journal_undo(g.region, &stripe->journal);
    weir_stripe_unlock(stripe);
    ground_free(&g);
}

/* ---- a dead holder of a stripe ---- */

static void die_open(struct ground *g)
{
    struct stripe *stripe = weir_stripe_lock(g->region, 2);
    slot_set(g->slot, HASH, slot_pack(SLOT_PLAIN, 1, 500));
    weir_journal_begin(&stripe->journal);
    CHECK(weir_journal_hold(g->region, &stripe->journal, g->slot, HASH, slot_word(g->slot)));
    atom_store(&g->slot->both.high, slot_pack(SLOT_HELD, 1, 600), memory_order_relaxed);
    CHECK(weir_journal_save(g->region, &stripe->journal, g->cells, 32));
    memset(g->cells, 0xff, 32);
}

TEST(what_a_dead_holder_left_open_is_undone)
{
    if (are_deaths_unknown())
        return;
    struct ground g = ground_new();
    dead(&g, die_open);
    struct stripe *stripe = weir_stripe_lock(g.region, 2);
    CHECK(are_cells_whole(&g));
    CHECK_EQ(slot_word(g.slot), slot_pack(SLOT_PLAIN, 1, 500));
    CHECK_EQ(state_of(&stripe->journal), JOURNAL_IDLE);
    weir_stripe_unlock(stripe);
    ground_free(&g);
}

/* Died after the entry, before the exchange, or after the slot was let go: others have it since. */
TEST(a_slot_that_others_have_since_is_left_alone)
{
    if (are_deaths_unknown())
        return;
    static const struct {
        uint64_t hash, word;
    } others[] = {{HASH, (uint64_t)SLOT_PLAIN << 62 | 700},
                  {HASH, (uint64_t)SLOT_PROMISED << 62 | 700},
                  {HASH, (uint64_t)SLOT_TENTATIVE << 62 | 3},
                  {HASH + 1, (uint64_t)SLOT_HELD << 62 | 700},
                  {0, 0}};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        struct ground g = ground_new();
        dead(&g, die_open);
        slot_set(g.slot, others[i].hash, others[i].word);
        weir_stripe_unlock(weir_stripe_lock(g.region, 2));
        CHECK_EQ(slot_word(g.slot), others[i].word);
        CHECK_EQ(slot_hash(g.slot), others[i].hash);
        CHECK(are_cells_whole(&g));
        ground_free(&g);
    }
}

/* Two slots held, DONE, and only the second let go: it is somebody else's again. */
static void die_done(struct ground *g)
{
    die_open(g);
    struct stripe *stripe = stripe_of(g, 2);
    slot_set(g->slot + 1, HASH + 1, slot_pack(SLOT_PLAIN, 0, 1));
    CHECK(weir_journal_hold(g->region, &stripe->journal, g->slot + 1, HASH + 1, slot_word(g->slot + 1)));
    atomic_store(&stripe->journal.state, JOURNAL_DONE);
    slot_set(g->slot + 1, HASH + 1, slot_pack(SLOT_PLAIN, 0, 2));
}

TEST(what_a_dead_holder_had_made_valid_is_finished)
{
    if (are_deaths_unknown())
        return;
    struct ground g = ground_new();
    dead(&g, die_done);
    struct stripe *stripe = weir_stripe_lock(g.region, 2);
    CHECK_EQ(g.cells[0], -1);
    CHECK_EQ(slot_word(g.slot), slot_pack(SLOT_PLAIN, 1, 600));
    CHECK_EQ(slot_word(g.slot + 1), slot_pack(SLOT_PLAIN, 0, 2));
    CHECK_EQ(state_of(&stripe->journal), JOURNAL_IDLE);
    weir_stripe_unlock(stripe);
    ground_free(&g);
}

static void die_in_no_state(struct ground *g)
{
    die_open(g);
    struct stripe *stripe = stripe_of(g, 2);
    atomic_store(&stripe->journal.state, 99);
}

TEST(a_journal_in_no_state_is_idle)
{
    if (are_deaths_unknown())
        return;
    struct ground g = ground_new();
    dead(&g, die_in_no_state);
    weir_stripe_unlock(weir_stripe_lock(g.region, 2));
    CHECK_EQ(g.cells[0], -1);
    ground_free(&g);
}

/* ---- a dead holder of a transaction ---- */

/* Holds stripes 1, 4 and 6; something of it all is changed. */
static void die_in_transaction(struct ground *g)
{
    uint32_t stripes[] = {6, 1, 4, 1, 6};
    size_t count = 5;
    struct transaction *transaction = weir_transaction_lock(g->region, stripes, &count);
    struct journal *journal = weir_transaction_journal(transaction);
    CHECK_EQ(count, 3);
    CHECK(stripes[0] == 1 && stripes[1] == 4 && stripes[2] == 6);
    slot_set(g->slot, HASH, slot_pack(SLOT_PLAIN, 1, 500));
    weir_journal_begin(journal);
    CHECK(weir_journal_save(g->region, journal, g->cells, 32));
    memset(g->cells, 0xff, 32);
    CHECK(weir_journal_hold(g->region, journal, g->slot, HASH, slot_word(g->slot)));
}

static void check_transaction_undone(struct ground *g)
{
    CHECK(are_cells_whole(g));
    CHECK_EQ(slot_word(g->slot), slot_pack(SLOT_PLAIN, 1, 500));
}

TEST(any_stripe_of_a_dead_transaction_recovers_all_of_it)
{
    if (are_deaths_unknown())
        return;
    static const uint32_t ways[] = {1, 4, 6};
    for (size_t i = 0; i < 3; i++) {
        struct ground g = ground_new();
        dead(&g, die_in_transaction);
        weir_stripe_unlock(weir_stripe_lock(g.region, 0)); /* none of it */
        CHECK_EQ(g.cells[0], -1);
        weir_stripe_unlock(weir_stripe_lock(g.region, ways[i]));
        check_transaction_undone(&g);
        ground_free(&g);
    }
}

TEST(another_transaction_recovers_a_dead_transaction_that_it_meets)
{
    if (are_deaths_unknown())
        return;
    struct ground g = ground_new();
    uint32_t stripes[] = {0, 2, 4, 6};
    size_t count = 4;
    for (int i = 0; i < 3 * REGION_TRANSACTIONS; i++) {
        dead(&g, die_in_transaction);
        struct transaction *transaction = weir_transaction_lock(g.region, stripes, &count);
        CHECK(are_cells_whole(&g));
        CHECK_EQ(count, 4);
        weir_transaction_unlock(g.region, transaction, stripes, count);
        check_transaction_undone(&g);
    }
    ground_free(&g);
}

/* Whichever transaction the dead one had: it is among these. None of them has a stripe of his. */
TEST(a_dead_transaction_is_recovered_before_it_is_used)
{
    if (are_deaths_unknown())
        return;
    struct ground g = ground_new();
    uint32_t stripes[REGION_TRANSACTIONS] = {0, 2, 3, 5};
    struct transaction *transactions[REGION_TRANSACTIONS];
    size_t one = 1;
    dead(&g, die_in_transaction);
    for (int i = 0; i < REGION_TRANSACTIONS; i++) {
        transactions[i] = weir_transaction_lock(g.region, &stripes[i], &one);
        weir_journal_begin(weir_transaction_journal(transactions[i]));
        weir_journal_commit(g.region, weir_transaction_journal(transactions[i]));
    }
    check_transaction_undone(&g);
    for (int i = 0; i < REGION_TRANSACTIONS; i++)
        weir_transaction_unlock(g.region, transactions[i], &stripes[i], one);
    ground_free(&g);
}

static void die_after_transaction(struct ground *g)
{
    uint32_t stripes[] = {1, 4};
    size_t count = 2;
    struct transaction *transaction = weir_transaction_lock(g->region, stripes, &count);
    struct journal *journal = weir_transaction_journal(transaction);
    slot_set(g->slot, HASH, slot_pack(SLOT_PLAIN, 1, 500));
    weir_journal_begin(journal);
    CHECK(weir_journal_hold(g->region, journal, g->slot, HASH, slot_word(g->slot)));
    atom_store(&g->slot->both.high, slot_pack(SLOT_HELD, 1, 600), memory_order_relaxed);
    g->cells[0] = 5;
    atomic_store(&journal->state, JOURNAL_DONE);
}

TEST(a_dead_transaction_that_was_valid_is_finished)
{
    if (are_deaths_unknown())
        return;
    struct ground g = ground_new();
    dead(&g, die_after_transaction);
    weir_stripe_unlock(weir_stripe_lock(g.region, 4));
    CHECK_EQ(slot_word(g.slot), slot_pack(SLOT_PLAIN, 1, 600));
    CHECK_EQ(g.cells[0], 5);
    ground_free(&g);
}

/* A recovery that dies after the marks of some stripes are gone: they are used already. */
static void die_in_recovery(struct ground *g)
{
    uint32_t stripes[] = {3, 5};
    size_t count = 2;
    struct transaction *transaction = weir_transaction_lock(g->region, stripes, &count);
    struct journal *journal = weir_transaction_journal(transaction);
    weir_journal_begin(journal);
    CHECK(weir_journal_save(g->region, journal, g->cells, 8));
    g->cells[0] = 8;
    weir_journal_commit(g->region, journal);
    struct stripe *stripe = stripe_of(g, 3);
    atomic_store(&stripe->transaction, 0);
    weir_stripe_unlock(stripe);
}

TEST(a_recovery_that_died_is_done_again)
{
    if (are_deaths_unknown())
        return;
    struct ground g = ground_new();
    dead(&g, die_in_recovery);
    struct stripe *stripe = weir_stripe_lock(g.region, 3);
    g.cells[0] = 9;
    weir_stripe_unlock(stripe);
    weir_stripe_unlock(weir_stripe_lock(g.region, 5));
    CHECK_EQ(g.cells[0], 9);
    ground_free(&g);
}

/* A stripe whose own journal is open is met by a transaction first. */
TEST(a_transaction_undoes_the_journal_of_a_stripe)
{
    if (are_deaths_unknown())
        return;
    struct ground g = ground_new();
    uint32_t stripes[] = {1, 2};
    size_t count = 2;
    dead(&g, die_open);
    struct transaction *transaction = weir_transaction_lock(g.region, stripes, &count);
    CHECK(are_cells_whole(&g));
    weir_transaction_unlock(g.region, transaction, stripes, count);
    ground_free(&g);
}

/* Marks of a dead holder outlive the recovery of his transaction. Neither they nor those of the living are
 * mistaken.
 */
TEST(a_transaction_is_used_again_while_stripes_still_have_its_mark)
{
    if (are_deaths_unknown())
        return;
    struct ground g = ground_new();
    dead(&g, die_in_transaction);
    weir_stripe_unlock(weir_stripe_lock(g.region, 1));
    check_transaction_undone(&g);
    CHECK(atomic_load(&stripe_of(&g, 4)->transaction) != 0);
    for (int i = 0; i < REGION_TRANSACTIONS; i++) {
        uint32_t few[] = {0, 2}, more[] = {0, 4, 6};
        size_t few_count = 2, more_count = 3;
        struct transaction *transaction = weir_transaction_lock(g.region, few, &few_count);
        weir_transaction_unlock(g.region, transaction, few, few_count);
        transaction = weir_transaction_lock(g.region, more, &more_count);
        weir_journal_begin(weir_transaction_journal(transaction));
        CHECK(weir_journal_save(g.region, weir_transaction_journal(transaction), g.cells, 8));
        weir_journal_commit(g.region, weir_transaction_journal(transaction));
        weir_transaction_unlock(g.region, transaction, more, more_count);
    }
    ground_free(&g);
}

TEST(an_open_transaction_is_undone_when_it_is_unlocked)
{
    struct ground g = ground_new();
    uint32_t stripes[] = {7, 0};
    size_t count = 2;
    struct transaction *transaction = weir_transaction_lock(g.region, stripes, &count);
    weir_journal_begin(weir_transaction_journal(transaction));
    CHECK(weir_journal_save(g.region, weir_transaction_journal(transaction), g.cells, 8));
    g.cells[0] = 8;
    weir_transaction_unlock(g.region, transaction, stripes, count);
    CHECK(are_cells_whole(&g));
    ground_free(&g);
}

static void die_with_change(struct ground *g)
{
    weir_change_lock(g->region);
}

TEST(the_lock_of_changes_survives_its_holder)
{
    if (are_deaths_unknown())
        return;
    struct ground g = ground_new();
    dead(&g, die_with_change);
    for (int i = 0; i < 2; i++) {
        weir_change_lock(g.region);
        weir_change_unlock(g.region);
    }
    ground_free(&g);
}

/* ---- all at once ---- */

struct guest {
    struct ground *ground;
    bool wants_transaction;
    atomic_int entered;
};

static void *enter(void *arg)
{
    struct guest *guest = arg;
    uint32_t stripes[] = {3, 5};
    size_t count = 2;
    if (guest->wants_transaction) {
        struct transaction *transaction = weir_transaction_lock(guest->ground->region, stripes, &count);
        atomic_store(&guest->entered, 1);
        weir_transaction_unlock(guest->ground->region, transaction, stripes, count);
    } else {
        struct stripe *stripe = weir_stripe_lock(guest->ground->region, 3);
        atomic_store(&guest->entered, 1);
        weir_stripe_unlock(stripe);
    }
    return NULL;
}

TEST(who_has_all_stripes_has_each)
{
    struct ground g = ground_new();
    for (int i = 0; i < 20; i++) {
        struct guest guest = {.ground = &g, .wants_transaction = i % 2};
        pthread_t thread;
        weir_stripes_lock_all(g.region);
        CHECK_EQ(pthread_create(&thread, NULL, enter, &guest), 0);
        for (int j = 0; j < 100; j++) {
            (void)sched_yield();
            CHECK_EQ(atomic_load(&guest.entered), 0);
        }
        weir_stripes_unlock_all(g.region);
        CHECK_EQ(pthread_join(thread, NULL), 0);
        CHECK_EQ(atomic_load(&guest.entered), 1);
    }
    ground_free(&g);
}

TEST(who_takes_all_stripes_recovers_what_the_dead_left)
{
    if (are_deaths_unknown())
        return;
    struct ground g = ground_new();
    for (int i = 0; i < 3 * REGION_TRANSACTIONS; i++) {
        dead(&g, i % 2 ? die_in_transaction : die_open);
        weir_stripes_lock_all(g.region);
        CHECK(are_cells_whole(&g));
        CHECK_EQ(slot_word(g.slot), slot_pack(SLOT_PLAIN, 1, 500));
        weir_stripes_unlock_all(g.region);
    }
    ground_free(&g);
}

static void die_everywhere(struct ground *g)
{
    die_open(g);
    uint32_t stripes[] = {5, 6};
    size_t count = 2;
    struct transaction *transaction = weir_transaction_lock(g->region, stripes, &count);
    weir_journal_begin(weir_transaction_journal(transaction));
    CHECK(weir_journal_save(g->region, weir_transaction_journal(transaction), &g->cells[9], 8));
    g->cells[9] = 0;
    weir_change_lock(g->region);
}

/* Also where nobody is told of the dead: renewing asks the journals alone. */
TEST(renewing_frees_and_recovers_everything)
{
    struct ground g = ground_new();
    dead(&g, die_everywhere);
    weir_stripes_renew(g.region);
    CHECK(are_cells_whole(&g));
    for (uint64_t i = 0; i < STRIPES; i++)
        CHECK_EQ(atomic_load(&stripe_of(&g, i)->transaction), 0);
    CHECK_EQ(slot_word(g.slot), slot_pack(SLOT_PLAIN, 1, 500));
    weir_change_lock(g.region);
    weir_change_unlock(g.region);
    ground_free(&g);
}

/* ---- damage ---- */

TEST(a_mark_that_no_transaction_set_goes_away)
{
    struct ground g = ground_new();
    static const uint32_t marks[] = {1, REGION_TRANSACTIONS, REGION_TRANSACTIONS + 1, UINT32_MAX};
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
        uint32_t stripes[] = {2, 3};
        size_t count = 2;
        struct stripe *stripe = weir_stripe_lock(g.region, 3);
        atomic_store(&stripe->transaction, marks[i]);
        weir_stripe_unlock(stripe);
        weir_stripe_unlock(weir_stripe_lock(g.region, 3));
        CHECK_EQ(atomic_load(&stripe->transaction), 0);
        atomic_store(&stripe->transaction, marks[i]);
        struct transaction *transaction = weir_transaction_lock(g.region, stripes, &count);
        weir_transaction_unlock(g.region, transaction, stripes, count);
        atomic_store(&stripe->transaction, marks[i]);
        weir_stripes_lock_all(g.region);
        weir_stripes_unlock_all(g.region);
        CHECK_EQ(atomic_load(&stripe->transaction), 0);
    }
    ground_free(&g);
}

static void die_with_two(struct ground *g)
{
    (void)weir_stripe_lock(g->region, 0);
    (void)weir_stripe_lock(g->region, 1);
}

TEST(a_damaged_lock_is_made_anew)
{
    if (are_deaths_unknown())
        return;
    struct ground g = ground_new();
    dead(&g, die_with_two);
    struct stripe *stripe = stripe_of(&g, 0);
    CHECK_EQ(pthread_mutex_lock(&stripe->mutex), EOWNERDEAD);
    CHECK_EQ(pthread_mutex_unlock(&stripe->mutex), 0);
    CHECK_EQ(pthread_mutex_lock(&stripe->mutex), ENOTRECOVERABLE);
    weir_journal_begin(&stripe->journal); /* and what was open is undone all the same */
    CHECK(weir_journal_save(g.region, &stripe->journal, g.cells, 8));
    g.cells[0] = 5;
    weir_stripe_unlock(weir_stripe_lock(g.region, 0));
    CHECK(are_cells_whole(&g));
    memset(&g.region->header->change, 0xff, sizeof g.region->header->change);
    atomic_store(&g.region->header->mending, 1); /* he who was about to mend it has died */
    weir_change_lock(g.region);
    weir_change_unlock(g.region);
    CHECK_EQ(atomic_load(&g.region->header->mending), 0);
    ground_free(&g);
}

/* Offsets, sizes and kinds drawn by lot, now and then sensible ones. */
static void scribble(struct rng *rng, struct ground *g, struct journal *journal, uint64_t room)
{
    uint64_t *words = entries_of(journal), count = room / 8;
    uint64_t inside = weir_region_offset(g->region, g->cells);
    for (uint64_t i = 0; i < count; i++)
        words[i] = rng_next(rng) >> rng_between(rng, 0, 63);
    for (uint64_t i = 1; i < count; i += (uint64_t)rng_between(rng, 1, 5)) {
        words[i - 1] = rng_between(rng, 0, 2) ? inside + (uint64_t)rng_between(rng, -40, 520) : rng_next(rng);
        uint32_t bytes = (uint32_t)rng_magnitude(rng, rng_between(rng, 0, 3) ? 64 : UINT32_MAX);
        words[i] = (uint64_t)rng_between(rng, 0, 3) << 32 | bytes;
    }
    atomic_store(&journal->used,
                 (uint32_t)rng_magnitude(rng, rng_between(rng, 0, 3) ? (int64_t)room : UINT32_MAX));
    atomic_store(&journal->state, (uint32_t)rng_between(rng, 0, 4));
}

TEST(a_damaged_journal_harms_nothing_but_what_may_be_saved)
{
    struct rng rng = rng_new(1);
    struct ground g = ground_new();
    const struct region_shape *shape = &g.region->header->shape;
    struct region_shape before = *shape;
    struct stripe *guarded = weir_stripe_lock(g.region, 4);
    expect_damage(true);
    for (int64_t i = 0; i < check_env("WEIR_SCRIBBLES", 20000); i++) {
        scribble(&rng, &g, &guarded->journal, shape->journal_size);
        weir_journal_recover(g.region, &guarded->journal);
        if (!CHECK_EQ(state_of(&guarded->journal), JOURNAL_IDLE) ||
            !CHECK(memcmp(&before, shape, sizeof before) == 0))
            break;
    }
    weir_stripe_unlock(guarded);
    uint32_t stripes[] = {1};
    size_t count = 1;
    struct transaction *transaction = weir_transaction_lock(g.region, stripes, &count);
    for (int64_t i = 0; i < check_env("WEIR_SCRIBBLES", 20000); i++) {
        scribble(&rng, &g, weir_transaction_journal(transaction), shape->transaction_size);
        weir_journal_recover(g.region, weir_transaction_journal(transaction));
    }
    weir_transaction_unlock(g.region, transaction, stripes, count);
    expect_damage(false);
    ground_free(&g);
}

/* An exchange of 16 bytes that are not aligned would be the end of the process. */
TEST(a_held_slot_between_two_slots_is_none)
{
    struct ground g = ground_new();
    struct stripe *stripe = weir_stripe_lock(g.region, 4);
    uint64_t *words = entries_of(&stripe->journal), held = slot_pack(SLOT_HELD, 0, 5);
    g.cells[1] = words[0] = HASH;
    g.cells[2] = held;
    words[1] = slot_pack(SLOT_PLAIN, 0, 4);
    words[2] = weir_region_offset(g.region, &g.cells[1]);
    words[3] = UINT64_C(2) << 32 | 16;
    atomic_store(&stripe->journal.used, 32);
    atomic_store(&stripe->journal.state, JOURNAL_OPEN);
    expect_damage(true);
    weir_journal_recover(g.region, &stripe->journal);
    expect_damage(false);
    CHECK_EQ(g.cells[1], HASH);
    CHECK_EQ(g.cells[2], held);
    weir_stripe_unlock(stripe);
    ground_free(&g);
}
