/* SPDX-License-Identifier: MIT */
/*
 * The exchange of two words, which is written by hand: what it changes, and that nobody ever sees half of it.
 */
#include "os/atomic.h"

#include <pthread.h>

#include "check.h"
#include "os/spin.h"

static bool holds(const atom128 *pair, uint64_t low, uint64_t high)
{
    return atom_load(&pair->low, memory_order_seq_cst) == low &&
           atom_load(&pair->high, memory_order_seq_cst) == high;
}

static void put(atom128 *pair, uint64_t low, uint64_t high)
{
    atom_store(&pair->low, low, memory_order_seq_cst);
    atom_store(&pair->high, high, memory_order_seq_cst);
}

TEST(both_words_have_to_be_as_expected)
{
    static atom128 line[3];
    atom128 *pair = &line[1];
    CHECK_EQ(sizeof line, 48);
    CHECK_EQ((uintptr_t)pair % 16, 0);
    put(pair, 1, 2);
    CHECK(!atom_cas128(pair, 1, 3, 7, 8) && holds(pair, 1, 2));
    CHECK(!atom_cas128(pair, 3, 2, 7, 8) && holds(pair, 1, 2));
    CHECK(!atom_cas128(pair, 2, 1, 7, 8) && holds(pair, 1, 2));
    CHECK(!atom_cas128(pair, 7, 8, 7, 8) && holds(pair, 1, 2));
    CHECK(atom_cas128(pair, 1, 2, UINT64_MAX, 4) && holds(pair, UINT64_MAX, 4));
    CHECK(atom_cas128(pair, UINT64_MAX, 4, 5, UINT64_MAX) && holds(pair, 5, UINT64_MAX));
    CHECK(holds(&line[0], 0, 0) && holds(&line[2], 0, 0));
}

TEST(every_bit_of_both_words_is_compared_and_stored)
{
    struct rng rng = rng_new(1);
    for (unsigned bit = 0; bit < 64; bit++) {
        atom128 pair;
        uint64_t low = rng_next(&rng), high = rng_next(&rng), flip = UINT64_C(1) << bit;
        put(&pair, low, high);
        CHECK(!atom_cas128(&pair, low ^ flip, high, 0, 0));
        CHECK(!atom_cas128(&pair, low, high ^ flip, 0, 0));
        CHECK(holds(&pair, low, high));
        CHECK(atom_cas128(&pair, low, high, low ^ flip, high) && holds(&pair, low ^ flip, high));
        CHECK(atom_cas128(&pair, low ^ flip, high, low, high ^ flip) && holds(&pair, low, high ^ flip));
    }
}

/* ---- threads ---- */

enum { THREADS = 2 };

struct work {
    pthread_t thread;
    int64_t exchanges;
    int64_t torn; /* exchanges that found words which do not belong together */
};

static struct {
    atom128 pair;
    uint64_t plain;
    int64_t rounds;
    atom64 ready;
} shared;

/* Together: or one has done its part before the other exists. */
static void start(void)
{
    (void)atom_add(&shared.ready, 1, memory_order_relaxed);
    while (atom_load(&shared.ready, memory_order_relaxed) < THREADS)
        spin_pause();
}

/* High is the complement of low, always. */
static void *exchange_pairs(void *of)
{
    struct work *work = of;
    start();
    while (work->exchanges < shared.rounds) {
        uint64_t low = atom_load(&shared.pair.low, memory_order_seq_cst);
        uint64_t high = atom_load(&shared.pair.high, memory_order_seq_cst);
        bool done = atom_cas128(&shared.pair, low, high, low + 1, ~(low + 1));
        work->torn += done && high != ~low;
        work->exchanges += done;
    }
    return NULL;
}

/* The lock is the pair: {0, 0} is free. What it guards is plain, which the thread sanitizer watches. */
static void *add_guarded(void *of)
{
    struct work *work = of;
    start();
    while (work->exchanges < shared.rounds) {
        if (!atom_cas128(&shared.pair, 0, 0, 1, (uintptr_t)work))
            continue;
        shared.plain++;
        work->exchanges++;
        if (!atom_cas128(&shared.pair, 1, (uintptr_t)work, 0, 0))
            work->torn++;
    }
    return NULL;
}

static void run(void *(*body)(void *), int64_t rounds, struct work *works)
{
    shared.rounds = rounds;
    atom_store(&shared.ready, 0, memory_order_relaxed);
    for (int i = 0; i < THREADS; i++) {
        works[i] = (struct work){.exchanges = 0};
        CHECK_EQ(pthread_create(&works[i].thread, NULL, body, &works[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_join(works[i].thread, NULL), 0);
}

static int64_t rounds_here(void)
{
    return check_env("WEIR_EXCHANGES", 1000000);
}

TEST(under_threads_pairs_always_belong_together)
{
    struct work works[THREADS];
    put(&shared.pair, 0, UINT64_MAX);
    run(exchange_pairs, rounds_here() / THREADS, works);
    uint64_t all = (uint64_t)shared.rounds * THREADS;
    CHECK_EQ(works[0].torn + works[1].torn, 0);
    CHECK(holds(&shared.pair, all, ~all));
}

TEST(an_exchange_hands_over_what_was_done_before_it)
{
    struct work works[THREADS];
    put(&shared.pair, 0, 0);
    shared.plain = 0;
    run(add_guarded, rounds_here() / 10, works);
    CHECK_EQ(works[0].torn + works[1].torn, 0);
    CHECK_EQ(shared.plain, (uint64_t)shared.rounds * THREADS);
}
