/* SPDX-License-Identifier: MIT */
/*
 * The steps of the one-word state form one chain: each winning exchange starts from what the one before it
 * left. Every thread sums up what its steps started from and what they left; together, the one is the other,
 * but for the first and the last. And what the chain ends at is what the units say that were taken, charged
 * and given.
 *
 * The code of the library is included, with eyes on its exchanges. WEIR_CHAIN_STEPS says how many there are.
 */
#include "os/atomic.h"
#include "threads/team.h"

#define YIELD_TRIES                                                                                          \
    512 /* so often another thread gets between the reading and the exchange, whatever else runs */

/* Sums of two scrambled forms of every value: nobody makes them equal by accident. */
struct sums {
    uint64_t one, two;
};

struct tally {
    uint64_t steps, lost; /* exchanges that won, and that did not */
    struct sums before, after;
};

static _Thread_local struct tally tally;
static const atom64 *watched;

static uint64_t scramble(uint64_t x, uint64_t key)
{
    x = (x ^ key) * UINT64_C(0xff51afd7ed558ccd);
    x = (x ^ x >> 32) * UINT64_C(0xc4ceb9fe1a85ec53);
    x = (x ^ x >> 29) * key;
    return x ^ x >> 32;
}

static void add(struct sums *sums, uint64_t value)
{
    sums->one += scramble(value, UINT64_C(0x9e3779b97f4a7c15));
    sums->two += scramble(value, UINT64_C(0xd1342543de82ef95));
}

static void step(const atom64 *atom, uint64_t before, uint64_t after)
{
    if (atom != watched)
        return;
    tally.steps++;
    add(&tally.before, before);
    add(&tally.after, after);
}

static inline bool watch_cas(atom64 *atom, uint64_t *seen, uint64_t value, memory_order order)
{
    uint64_t before = *seen;
    if ((tally.steps + tally.lost) % YIELD_TRIES == 0)
        team_yield();
    bool won = atom_cas(atom, seen, value, order);
    if (won)
        step(atom, before, value);
    else
        tally.lost++;
    return won;
}

static inline uint64_t watch_swap(atom64 *atom, uint64_t value, memory_order order)
{
    uint64_t before = atom_swap(atom, value, order);
    step(atom, before, value);
    return before;
}

/* Only who holds the word stores into it: it was WORD_HELD. */
static inline void watch_store(atom64 *atom, uint64_t value, memory_order order)
{
    atom_store(atom, value, order);
    step(atom, 0, value);
}

#define atom_cas   watch_cas
#define atom_swap  watch_swap
#define atom_store watch_store
#include "limiter/word.c" /* NOLINT(bugprone-suspicious-include) */
#undef atom_cas
#undef atom_swap
#undef atom_store

#include <pthread.h>

#include "check.h"
#include "os/lock.h"

#define START   (1000 * WEIR_SEC)
#define THREADS 64

/* Much in it, so that every take wins; or nothing, and what comes back is owed again at once. Empty is the
 * same index under every rate: only the bias tells the figures apart. */
enum wealth { RICH, POOR };

struct world {
    enum wealth wealth;
    struct state_word word;
    struct lock lock;
    struct weir_policy *policies[2];
    int in_force;
    struct clock clock; /* it tells START, whatever its version */
    uint64_t steps;     /* of each thread */
    struct result {
        struct tally tally;
        int64_t spent;
    } results[THREADS];
};

static uint64_t counter(void)
{
    return 0;
}

/* The clock has another anchor, and the word follows it. */
static void follow(struct world *w)
{
    struct clock_anchor anchor = {.ns = START + 1, .rate = UINT64_C(1) << 32, .span = 1};
    uint64_t version = atom_add(&w->clock.version, 1, memory_order_relaxed) + 1;
    weir_word_follow(&w->word, &anchor, version);
}

/* Another rate for the same units: figures of the two must never meet. */
static void change(struct world *w)
{
    int64_t from[WORD_STATE], to[WORD_STATE];
    lock_take(&w->lock);
    const struct weir_policy *policy = w->policies[w->in_force], *next = w->policies[!w->in_force];
    weir_word_hold(&w->word, from);
    weir_state_change(policy, from, next, to, START);
    weir_word_put(&w->word, next, to);
    w->in_force = !w->in_force;
    follow(w);
    lock_drop(&w->lock);
}

/* What a promise does: takes the word away, changes what is in it, and puts it back under the same figures.
 */
static void charge_while_held(struct world *w, int64_t n)
{
    int64_t state[WORD_STATE];
    lock_take(&w->lock);
    weir_word_hold(&w->word, state);
    weir_state_charge(w->policies[w->in_force], state, START, n);
    weir_word_return(&w->word, state);
    follow(w);
    lock_drop(&w->lock);
}

/* Gives what it did; a word that is held is asked again. */
static int64_t do_something(struct world *w, struct rng *rng, int64_t mine)
{
    struct weir_verdict v;
    int64_t way = rng_between(rng, 0, 1023), n = rng_between(rng, 1, 3);
    if (w->wealth == POOR && way < 1020)
        return mine > 0 ? (weir_word_give(&w->word, START, mine) != WORD_ASK ? -mine : 0)
                        : (weir_word_charge(&w->word, START, n) != WORD_ASK ? n : 0);
    if (way < 200)
        return word_take_now(&w->word, &w->clock, counter, n) == WORD_YES ? n : 0;
    if (way < 400)
        return word_take(&w->word, START, n, way < 225 ? &v : NULL) == WORD_YES ? n : 0;
    if (way < 500)
        return weir_word_take(&w->word, START, n, NULL, &v) == WORD_YES ? n : 0;
    if (way < 900)
        return mine >= n && weir_word_give(&w->word, START, n) != WORD_ASK ? -n : 0;
    if (way < 1020)
        return weir_word_charge(&w->word, START, n) != WORD_ASK ? n : 0;
    if (way < 1023) {
        charge_while_held(w, n);
        return n;
    }
    change(w);
    return 0;
}

static void body(size_t self, void *arg)
{
    struct world *w = arg;
    struct rng rng = rng_new(self);
    int64_t spent = 0;
    tally = (struct tally){0};
    while (tally.steps < w->steps)
        spent += do_something(w, &rng, spent);
    w->results[self] = (struct result){tally, spent};
}

static struct weir_policy *policy_of(const char *limits)
{
    struct weir_policy *policy = weir_policy_new(limits, NULL);
    if (!policy)
        abort();
    return policy;
}

/* What is there, or owed, is what was there before, less what was spent. */
static void check_level(struct world *w, int64_t spent)
{
    int64_t state[WORD_STATE];
    const struct limit *limit = &w->policies[w->in_force]->limits[0];
    weir_word_hold(&w->word, state);
    int64_t level = ticks_at(&limit->ticks, START) - state[STATE_HEADER];
    CHECK_EQ(level, ((w->wealth == RICH ? limit->burst : 0) - spent) * limit->ticks.unit);
}

static struct tally run_team(enum wealth wealth, size_t threads, uint64_t steps)
{
    static struct world w;
    int64_t state[WORD_STATE];
    w = (struct world){.wealth = wealth,
                       .policies = {policy_of("200k/s burst=1G"), policy_of("7k/s burst=1G")}};
    weir_state_init(w.policies[0], state, START);
    if (wealth == POOR)
        (void)weir_state_drain(w.policies[0], state, START);
    weir_word_init(&w.word);
    weir_word_put(&w.word, w.policies[0], state);
    watched = &w.word.index;
    uint64_t first = atom_load(watched, memory_order_relaxed);
    w.steps = steps / threads;
    team_run(threads, body, &w);
    uint64_t last = atom_load(watched, memory_order_relaxed);
    watched = NULL;

    struct tally all = {0};
    int64_t spent = 0;
    for (size_t i = 0; i < threads; i++) {
        const struct result *r = &w.results[i];
        all.steps += r->tally.steps;
        all.lost += r->tally.lost;
        all.before.one += r->tally.before.one;
        all.before.two += r->tally.before.two;
        all.after.one += r->tally.after.one;
        all.after.two += r->tally.after.two;
        spent += r->spent;
    }
    add(&all.after, first); /* where the chain begins nobody left it, and from its end nobody started */
    add(&all.before, last);
    CHECK(all.before.one == all.after.one);
    CHECK(all.before.two == all.after.two);

    check_level(&w, spent);
    weir_policy_free(w.policies[0]);
    weir_policy_free(w.policies[1]);
    return all;
}

TEST(winning_steps_form_one_chain)
{
    static const size_t teams[] = {2, 8, THREADS};
    uint64_t steps = (uint64_t)team_scaled(check_env("WEIR_CHAIN_STEPS", 10000000)), made = 0, lost = 0;
    team_watch("the chain");
    for (size_t i = 0; i < sizeof teams / sizeof teams[0]; i++) {
        struct tally rich = run_team(RICH, teams[i], steps / 6 + THREADS);
        struct tally poor = run_team(POOR, teams[i], steps / 6 + THREADS);
        made += rich.steps + poor.steps;
        lost += rich.lost + poor.lost;
    }
    team_watch_done();
    printf("# %" PRIu64 " winning steps, %" PRIu64 " lost exchanges\n", made, lost);
    CHECK(lost > 0);
}
