/* SPDX-License-Identifier: MIT */
/*
 * The pace of a word (src/limiter/word.h): a take by the counter of the processor decides as a take at the
 * time that the clock tells for that counter, or a moment earlier, and never lets pass what that would
 * refuse. On a clock and a counter of its own, and on the clock of the library.
 */
#include "check.h"
#include "limiter/limiter.h"

#define EARLY_NS 3 /* a pace may be behind the clock: 1 ns, and two ticks that are rounded */
#define ROUNDS   20000

static struct clock a_clock;
static uint64_t the_count;

static uint64_t counter(void)
{
    return the_count;
}

/* ---- random limits, anchors and counters ---- */

struct scene {
    struct weir_policy *policy;
    const struct limit *limit;
    struct clock_anchor anchor;
    struct state_word word;
    int64_t told; /* by the clock, at the_count */
};

static struct weir_policy *random_policy(struct rng *rng)
{
    static const int64_t counts[] = {1, 3, 7, 10, 1000, 99991, 1000000, 750000000, 64000000000};
    static const char *const periods[] = {"s", "s", "m", "h", "d"};
    char text[80];
    size_t count = (size_t)rng_between(rng, 0, 8);
    snprintf(text, sizeof text, "%" PRId64 "/%s burst=%" PRId64, counts[count],
             count > 6 ? "s" : periods[rng_between(rng, 0, 4)], rng_between(rng, 1, 1000));
    return weir_policy_new(text, NULL);
}

/* Counters of 31 MHz to 32 GHz, any time within months. */
static struct clock_anchor random_anchor(struct rng *rng)
{
    struct clock_anchor anchor = {.tsc = rng_next(rng),
                                  .ns = rng_between(rng, 1, INT64_C(1) << rng_between(rng, 1, 54)),
                                  .rate = (uint64_t)rng_between(rng, INT64_C(1) << 27, INT64_C(1) << 37)};
    anchor.span = ((uint64_t)CLOCK_SPAN_NS << 32) / anchor.rate;
    return anchor;
}

/* The word is as many ticks from letting `n` pass at the time that is told. */
static void put_index(struct scene *s, int64_t n, int64_t ticks)
{
    int64_t state[WORD_STATE] = {0};
    state[STATE_HEADER] = ticks_at(&s->limit->ticks, s->told) - n * s->limit->ticks.unit + ticks;
    weir_word_init(&s->word);
    weir_word_put(&s->word, s->policy, state);
}

static bool scene_begin(struct scene *s, struct rng *rng)
{
    s->policy = random_policy(rng);
    if (!CHECK(s->policy != NULL))
        return false;
    s->limit = &s->policy->limits[0];
    s->anchor = random_anchor(rng);
    memset(&a_clock, 0, sizeof a_clock);
    weir_clock_replace(&a_clock, &s->anchor);
    the_count = s->anchor.tsc + (uint64_t)rng_between(rng, 0, (int64_t)s->anchor.span - 1);
    return CHECK(clock_tell(&a_clock, the_count, &s->told));
}

static int64_t index_left(const struct state_word *word)
{
    return (int64_t)(atom_load(&word->index, memory_order_relaxed) -
                     atom_load(&word->bias, memory_order_relaxed));
}

/* What the core says at `now`, and the index it would leave. */
static bool core_take(const struct scene *s, int64_t before, int64_t now, int64_t n, int64_t *after)
{
    int64_t state[WORD_STATE] = {0};
    state[STATE_HEADER] = before;
    bool yes = weir_state_take(s->policy, state, now, n, NULL);
    *after = state[STATE_HEADER];
    return yes;
}

TEST(a_take_by_the_counter_is_one_at_the_time_told_or_a_moment_before)
{
    struct rng rng = rng_new(1);
    int64_t asked = 0, passed = 0;
    for (int round = 0; round < ROUNDS; round++) {
        struct scene s;
        if (!scene_begin(&s, &rng))
            return;
        int64_t n = rng_between(&rng, 1, s.limit->burst), ticks = rng_between(&rng, -70, 70);
        put_index(&s, n, rng_between(&rng, 0, 3) == 0 ? -s.limit->full : ticks);
        int64_t before = index_left(&s.word), early, late;
        weir_word_follow(&s.word, &s.anchor, 1);
        int answer = word_take_now(&s.word, &a_clock, counter, n);
        bool yes_early = core_take(&s, before, max64(s.told - EARLY_NS, 0), n, &early);
        bool yes = core_take(&s, before, s.told, n, &late);
        bool holds = CHECK(answer != WORD_ASK) && CHECK(yes || answer == WORD_NO) &&
                     CHECK(!yes_early || answer == WORD_YES);
        int64_t after = index_left(&s.word);
        if (answer == WORD_YES)
            holds = holds && CHECK(after <= late) && CHECK(after >= (yes_early ? early : before));
        else
            holds = holds && CHECK_EQ(after, before);
        if (!holds)
            printf("# round %d, told %" PRId64 ", answer %d\n", round, s.told, answer);
        asked++;
        passed += answer == WORD_YES;
        weir_policy_free(s.policy);
        if (!holds)
            return;
    }
    CHECK(passed > asked / 10 && passed < asked - asked / 10); /* else it has shown nothing */
}

/* ---- when there is none ---- */

static struct scene plain_scene(void)
{
    struct scene s = {.policy = weir_policy_new("10/s burst=5", NULL)};
    s.limit = &s.policy->limits[0];
    s.anchor = (struct clock_anchor){.tsc = 1000, .ns = WEIR_SEC, .rate = UINT64_C(1) << 32, .span = 1000000};
    memset(&a_clock, 0, sizeof a_clock);
    weir_clock_replace(&a_clock, &s.anchor);
    the_count = s.anchor.tsc;
    s.told = s.anchor.ns;
    put_index(&s, 5, 0);
    return s;
}

TEST(outside_of_its_span_a_pace_says_nothing)
{
    struct scene s = plain_scene();
    weir_word_follow(&s.word, &s.anchor, 1);
    the_count = s.anchor.tsc + s.anchor.span;
    CHECK_EQ(word_take_now(&s.word, &a_clock, counter, 1), WORD_ASK);
    the_count = s.anchor.tsc - 1;
    CHECK_EQ(word_take_now(&s.word, &a_clock, counter, 1), WORD_ASK);
    the_count = s.anchor.tsc + (UINT64_C(1) << 32); /* the same in 32 bits */
    CHECK_EQ(word_take_now(&s.word, &a_clock, counter, 1), WORD_ASK);
    the_count = s.anchor.tsc + s.anchor.span - 1;
    CHECK_EQ(word_take_now(&s.word, &a_clock, counter, 1), WORD_YES);
    weir_policy_free(s.policy);
}

TEST(a_pace_knows_its_limit)
{
    struct scene s = plain_scene();
    weir_word_follow(&s.word, &s.anchor, 1);
    CHECK_EQ(word_take_now(&s.word, &a_clock, counter, 0), WORD_ASK);
    CHECK_EQ(word_take_now(&s.word, &a_clock, counter, -1), WORD_ASK);
    CHECK_EQ(word_take_now(&s.word, &a_clock, counter, 6), WORD_ASK);
    CHECK_EQ(word_take_now(&s.word, &a_clock, counter, INT64_MAX), WORD_ASK);
    weir_policy_free(s.policy);
}

TEST(a_debt_beyond_all_time_is_no_credit)
{
    struct scene s = plain_scene();
    CHECK_EQ(weir_word_charge(&s.word, s.told, INT64_MAX), WORD_YES);
    CHECK_EQ(index_left(&s.word), INDEX_NEVER);
    weir_word_follow(&s.word, &s.anchor, 1);
    CHECK_EQ(word_take_now(&s.word, &a_clock, counter, 5), WORD_NO);
    weir_policy_free(s.policy);
}

TEST(whoever_holds_the_word_voids_the_pace)
{
    struct scene s = plain_scene();
    int64_t state[WORD_STATE];
    weir_word_follow(&s.word, &s.anchor, 1);
    weir_word_hold(&s.word, state);
    CHECK_EQ(word_take_now(&s.word, &a_clock, counter, 1), WORD_ASK);
    weir_word_follow(&s.word, &s.anchor, 2);
    CHECK_EQ(atom_load(&s.word.pace.version, memory_order_relaxed), PACE_NONE);
    weir_word_return(&s.word, state);
    CHECK_EQ(word_take_now(&s.word, &a_clock, counter, 1), WORD_ASK);
    weir_word_follow(&s.word, &s.anchor, 1); /* that version was used: a reader may know it */
    CHECK_EQ(word_take_now(&s.word, &a_clock, counter, 1), WORD_ASK);
    weir_policy_free(s.policy);
}

/* After the cancel of a promise that others came behind, units may be there again; they wait for the last. */
TEST(while_something_is_promised_there_is_no_pace)
{
    struct scene s = plain_scene();
    int64_t state[WORD_STATE];
    weir_word_hold(&s.word, state);
    state[STATE_PROMISED] = s.told + WEIR_MS;
    weir_word_return(&s.word, state);
    weir_word_follow(&s.word, &s.anchor, 1);
    CHECK(!weir_state_take(s.policy, state, s.told, 1, NULL));
    CHECK(word_take_now(&s.word, &a_clock, counter, 1) != WORD_YES);
    weir_policy_free(s.policy);
}

static bool follows(struct scene *s, struct clock_anchor anchor)
{
    put_index(s, 1, 0);
    weir_word_follow(&s->word, &anchor, 1);
    return atom_load(&s->word.pace.version, memory_order_relaxed) == 1;
}

TEST(what_cannot_be_followed_is_not)
{
    struct scene s = plain_scene();
    struct clock_anchor set = s.anchor, zero = s.anchor, late = s.anchor;
    set.span = 0;
    zero.ns = 0;
    late.ns = s.limit->ticks.time_max;
    CHECK(follows(&s, s.anchor));
    CHECK(!follows(&s, set));
    CHECK(!follows(&s, zero));
    CHECK(!follows(&s, late));
    weir_policy_free(s.policy);
    s.policy = weir_policy_new("10/s algo=smooth", NULL);
    s.limit = &s.policy->limits[0];
    CHECK(!follows(&s, s.anchor));
    weir_policy_free(s.policy);
}

/* ---- a limiter on the clock of the library ---- */

/* Takes until one was decided by the pace. */
static bool get_a_pace(struct weir_limiter *limiter)
{
    for (int64_t tries = 0; tries < 100000000; tries++) {
        (void)weir_limiter_take(limiter, 1, NULL);
        if (atom_load(&limiter->word.pace.version, memory_order_relaxed) != PACE_NONE)
            return true;
    }
    return false;
}

static bool clock_counts(void)
{
    return strcmp(weir_clock_name(), "tsc") == 0;
}

TEST(a_limiter_that_is_asked_often_gets_a_pace)
{
    struct weir_limiter *limiter = weir_limiter_new("1000M/s burst=1000M", NULL);
    if (!clock_counts())
        check_skip("the kernel keeps time by another clock");
    else
        CHECK(get_a_pace(limiter));
    weir_limiter_free(limiter);
}

TEST(a_clock_that_is_set_counts_at_once)
{
    struct weir_limiter *limiter = weir_limiter_new("1/s burst=1", NULL);
    if (clock_counts())
        CHECK(get_a_pace(limiter));
    int64_t now = weir_now() + 10 * WEIR_SEC;
    weir_clock_set(now);
    CHECK(weir_limiter_take(limiter, 1, NULL));
    CHECK(!weir_limiter_take(limiter, 1, NULL));
    weir_clock_set(now + WEIR_SEC - 1);
    CHECK(!weir_limiter_take(limiter, 1, NULL));
    weir_clock_set(now + WEIR_SEC);
    CHECK(weir_limiter_take(limiter, 1, NULL));
    weir_clock_set(-1);
    weir_limiter_free(limiter);
}

/* All that passes between two readings of the clock is what the law lets pass between them. */
TEST(the_law_holds_by_the_clock)
{
    struct weir_policy *policy = weir_policy_new("3M/s burst=100", NULL);
    struct weir_limiter *limiter = weir_limiter_new("3M/s burst=100", NULL);
    int64_t began = weir_now(), passed = 0;
    for (int i = 0; i < 1000000; i++)
        passed += weir_limiter_take(limiter, 1, NULL);
    CHECK(passed >= 100);
    CHECK(passed <= weir_policy_most(policy, 0, weir_now() - began));
    weir_limiter_free(limiter);
    weir_policy_free(policy);
}
