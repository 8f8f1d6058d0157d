/* SPDX-License-Identifier: MIT */
/*
 * The lock-free word of a limiter (src/limiter/word.h) under every interleaving and every weak behaviour of
 * two or three threads. src/limiter is compiled for this program with the explorer's atoms and locks,
 * otherwise as it is.
 *
 * A plan says what each thread asks. After every execution there has to be an order of the questions in which
 * the pure core, asked one after the other, gives the very same answers and is left in the very same state.
 * And no more passes at one instant than the law lets pass, and what was given back.
 */
#include "check.h"
#include "explore/explore.h"
#include "limiter/change.h"
#include "limiter/limiter.h"

enum { THREADS = 3, ACTS = 3, NOW = 1000000000 };

/* ASK is a take that wants a verdict, BY_CLOCK one by the clock, at NOW; CANCEL hands back the last
 * reservation of its thread. TURN gives the clock its n-th anchor, FOLLOW makes the word follow that. */
enum table_verb {
    NOTHING,
    TAKE,
    ASK,
    BY_CLOCK,
    PEEK,
    RESERVE,
    CANCEL,
    GIVE,
    CHARGE,
    DRAIN,
    SET,
    RESET,
    TURN,
    FOLLOW
};

struct act {
    enum table_verb verb;
    int64_t n;
    int64_t later_ns; /* than NOW, on the clock of this thread */
};

struct plan {
    const char *limits, *next; /* what SET sets */
    int64_t spent;             /* units gone before the threads begin; more than the burst: a debt */
    struct act acts[THREADS][ACTS];
    unsigned weaken;
    int spurious;
};

struct answer {
    bool yes;
    int64_t value; /* of a reservation its due time, of a drain the units, of a verdict what remains */
};

static struct plan plan;
static struct weir_policy *policy, *next;
static struct weir_limiter limiter;
static struct weir_reservation reservations[THREADS];
static struct answer answers[THREADS][ACTS];

/* ---- the clock ---- */

enum { COUNT = 10000 };

static struct clock the_clock;

static uint64_t counter(void)
{
    return COUNT;
}

/* COUNT is the tick of NOW by each of them, and by no mixture, where a tick is a nanosecond. */
static struct clock_anchor anchor_of(int64_t number)
{
    uint64_t tsc = COUNT - 1000 * (uint64_t)number;
    return (struct clock_anchor){.tsc = tsc,
                                 .ns = NOW + 1 - 1000 * number * number,
                                 .rate = (uint64_t)number << 32,
                                 .span = 100000 + (uint64_t)number};
}

static void turn(int64_t number)
{
    atom_store(&the_clock.version, (uint64_t)number, memory_order_release);
}

static void follow(int64_t number)
{
    struct clock_anchor anchor = anchor_of(number);
    lock_take(&limiter.lock);
    weir_word_follow(&limiter.word, &anchor, (uint64_t)number);
    lock_drop(&limiter.lock);
}

static bool take_by_clock(int64_t n)
{
    int answer = word_take_now(&limiter.word, &the_clock, counter, n);
    return answer == WORD_ASK ? weir_limiter_take_at(&limiter, NOW, n, NULL) : answer == WORD_YES;
}

/* ---- the threads ---- */

static void begin_state(int64_t *state)
{
    weir_state_init(policy, state, NOW);
    weir_state_charge(policy, state, NOW, plan.spent);
}

static void name_atoms(void)
{
    const struct state_word *word = &limiter.word;
    const struct {
        const atom64 *atom;
        const char *name;
    } atoms[] = {{&word->index, "index"},           {&word->bias, "bias"},
                 {&word->burst, "burst"},           {&word->unit, "unit"},
                 {&word->whole, "whole"},           {&word->frac, "frac"},
                 {&word->time_max, "time_max"},     {&word->full, "full"},
                 {&word->until, "until"},           {&word->inverse, "inverse"},
                 {&word->algorithm, "algorithm"},   {&word->algo, "algo"},
                 {&word->queue, "queue"},           {&word->age_ns, "age"},
                 {&word->timeout_ns, "timeout"},    {&word->initial, "initial"},
                 {&word->generation, "generation"}, {&word->pace.version, "pace.version"},
                 {&word->pace.tsc, "pace.tsc"},     {&word->pace.span, "pace.span"},
                 {&word->pace.rate, "pace.rate"},   {&word->pace.start, "pace.start"},
                 {&word->pace.empty, "pace.empty"}, {&word->pace.unit, "pace.unit"},
                 {&word->pace.burst, "pace.burst"}, {&the_clock.version, "clock.version"}};
    for (size_t i = 0; i < sizeof atoms / sizeof atoms[0]; i++)
        explore_name(atoms[i].atom, atoms[i].name);
    explore_name(&limiter.lock, "lock");
    explore_name(&limiter.listeners.list, "listeners");
}

static void setup(void)
{
    int64_t state[WORD_STATE] = {0};
    memset(&limiter, 0, sizeof limiter);
    weir_word_init(&limiter.word);
    limiter.word.random = 1; /* else no two executions are alike */
    limiter.policy = limiter.said = policy;
    begin_state(state);
    weir_word_put(&limiter.word, policy, state);
    memset(&the_clock, 0, sizeof the_clock);
    turn(1);
    follow(1);
    memset(answers, 0, sizeof answers);
    memset(reservations, 0, sizeof reservations);
    name_atoms();
}

static void set(int64_t now)
{
    lock_take(&limiter.lock);
    EXPLORE_CHECK(weir_limiter_install(&limiter, next, now, NULL));
    limiter.said = next;
    lock_drop(&limiter.lock);
}

static struct answer act(int thread, const struct act *a)
{
    struct weir_reservation *r = &reservations[thread];
    struct weir_verdict verdict;
    int64_t now = NOW + a->later_ns;
    switch (a->verb) {
    case TAKE:
        return (struct answer){weir_limiter_take_at(&limiter, now, a->n, NULL), 0};
    case ASK: {
        bool yes = weir_limiter_take_at(&limiter, now, a->n, &verdict);
        return (struct answer){yes, verdict.remaining};
    }
    case BY_CLOCK:
        return (struct answer){take_by_clock(a->n), 0};
    case PEEK: {
        bool yes = weir_limiter_peek_at(&limiter, now, a->n, &verdict);
        return (struct answer){yes, verdict.remaining};
    }
    case RESERVE: {
        bool yes = weir_limiter_reserve_at(&limiter, now, a->n, WEIR_SEC, r, NULL);
        return (struct answer){yes, yes ? r->due_ns : 0};
    }
    case CANCEL:
        return (struct answer){weir_limiter_cancel_at(&limiter, now, r), 0};
    case GIVE:
        weir_limiter_give_at(&limiter, now, a->n);
        break;
    case CHARGE:
        weir_limiter_charge_at(&limiter, now, a->n);
        break;
    case DRAIN:
        return (struct answer){true, weir_limiter_drain_at(&limiter, now)};
    case SET:
        set(now);
        break;
    case RESET:
        weir_limiter_reset_at(&limiter, now);
        break;
    case TURN:
        turn(a->n);
        break;
    case FOLLOW:
        follow(a->n);
        break;
    case NOTHING:
        break;
    }
    return (struct answer){true, 0};
}

static void run_acts(void)
{
    int thread = explore_thread();
    for (int i = 0; i < ACTS && plan.acts[thread][i].verb; i++)
        answers[thread][i] = act(thread, &plan.acts[thread][i]);
}

/* ---- the same questions, one after the other ---- */

struct course {
    const struct weir_policy *policy;
    int64_t state[WORD_STATE];
    struct weir_reservation reservations[THREADS];
    int done[THREADS]; /* acts of each thread */
};

static struct answer ask_core(struct course *c, int thread, const struct act *a)
{
    struct weir_reservation *r = &c->reservations[thread];
    struct weir_verdict verdict;
    int64_t to[WORD_STATE] = {0}, now = NOW + a->later_ns;
    switch (a->verb) {
    case TAKE:
    case BY_CLOCK:
        return (struct answer){weir_state_take(c->policy, c->state, now, a->n, NULL), 0};
    case ASK: {
        bool yes = weir_state_take(c->policy, c->state, now, a->n, &verdict);
        return (struct answer){yes, verdict.remaining};
    }
    case PEEK: {
        bool yes = weir_state_peek(c->policy, c->state, now, a->n, &verdict);
        return (struct answer){yes, verdict.remaining};
    }
    case RESERVE: {
        bool yes = weir_state_reserve(c->policy, c->state, now, a->n, WEIR_SEC, r, NULL);
        return (struct answer){yes, yes ? r->due_ns : 0};
    }
    case CANCEL:
        return (struct answer){weir_state_cancel(c->policy, c->state, now, r), 0};
    case GIVE:
        weir_state_give(c->policy, c->state, now, a->n);
        break;
    case CHARGE:
        weir_state_charge(c->policy, c->state, now, a->n);
        break;
    case DRAIN:
        return (struct answer){true, weir_state_drain(c->policy, c->state, now)};
    case SET:
        weir_state_change(c->policy, c->state, next, to, now);
        memcpy(c->state, to, sizeof to);
        c->policy = next;
        break;
    case RESET:
        weir_state_reset(c->policy, c->state, now);
        break;
    case TURN:
    case FOLLOW:
    case NOTHING:
        break;
    }
    return (struct answer){true, 0};
}

/* The level of the bucket: more than a full one holds does not count. */
static int64_t level(const struct weir_policy *p, int64_t index)
{
    int64_t v = ticks_at(&p->limits[0].ticks, NOW);
    return v - index_at(&p->limits[0], index, v);
}

/* Is this what the word is left with? */
static bool ends_alike(const struct course *c)
{
    uint64_t index = atom_load(&limiter.word.index, memory_order_relaxed);
    uint64_t bias = atom_load(&limiter.word.bias, memory_order_relaxed);
    return limiter.policy == c->policy && index != WORD_HELD &&
           word_figure(&limiter.word.until) == c->state[STATE_PROMISED] &&
           level(c->policy, (int64_t)(index - bias)) == level(c->policy, c->state[STATE_HEADER]);
}

static bool explains(const struct course *c);

/* Can it have gone on with the next act of this thread? */
static bool explains_with(const struct course *c, int thread)
{
    struct course after = *c;
    int i = after.done[thread]++;
    struct answer answer = ask_core(&after, thread, &plan.acts[thread][i]);
    return answer.yes == answers[thread][i].yes && answer.value == answers[thread][i].value &&
           explains(&after);
}

static bool explains(const struct course *c)
{
    bool ended = true;
    for (int thread = 0; thread < THREADS; thread++) {
        if (c->done[thread] == ACTS || !plan.acts[thread][c->done[thread]].verb)
            continue;
        ended = false;
        if (explains_with(c, thread))
            return true;
    }
    return ended && ends_alike(c);
}

/* ---- what has to hold in the end ---- */

static int64_t count_now(enum table_verb verb)
{
    int64_t units = 0;
    for (int thread = 0; thread < THREADS; thread++)
        for (int i = 0; i < ACTS; i++) {
            const struct act *a = &plan.acts[thread][i];
            if (a->verb == verb && a->later_ns == 0 && answers[thread][i].yes)
                units += max64(a->n, 1);
        }
    return units;
}

/* Every exchange of the index replaces one of another thread, or of its own; who holds it puts it back. */
static void check_chain(void)
{
    struct explore_write writes[32];
    size_t count = explore_writes(&limiter.word.index, writes, 32);
    for (size_t i = 0; i < count; i++)
        if (writes[i].value == WORD_HELD)
            EXPLORE_CHECK(i + 1 < count && writes[i + 1].thread == writes[i].thread);
}

static void finish(void)
{
    struct course course = {.policy = policy};
    begin_state(course.state);
    EXPLORE_CHECK(explains(&course));
    check_chain();
    int64_t most = max64(weir_policy_most(policy, 0, 0), next ? weir_policy_most(next, 0, 0) : 0);
    if (count_now(RESET) == 0)
        EXPLORE_CHECK(count_now(TAKE) + count_now(BY_CLOCK) + count_now(ASK) - count_now(GIVE) <= most);
}

/* ---- plans ---- */

static struct explore explore_of(const struct plan *p)
{
    struct explore e = {.setup = setup, .finish = finish, .weaken = p->weaken, .spurious = p->spurious};
    for (int thread = 0; thread < THREADS && p->acts[thread][0].verb; thread++)
        e.threads[thread] = run_acts;
    return e;
}

static bool run(const struct plan *p, bool (*how)(struct explore *e))
{
    struct weir_error err;
    plan = *p;
    policy = weir_policy_new(p->limits, &err);
    next = p->next ? weir_policy_new(p->next, &err) : NULL;
    struct explore e = explore_of(p);
    bool result = CHECK(policy != NULL) && CHECK(next || !p->next) && how(&e);
    weir_policy_free(policy);
    weir_policy_free(next);
    return result;
}

#define DO(VERB, N)        ((struct act){.verb = (VERB), .n = (N)})
#define LATER(MS, VERB, N) ((struct act){.verb = (VERB), .n = (N), .later_ns = (MS)*WEIR_MS})

#define HOLDS(...)  CHECK(run(&(struct plan){__VA_ARGS__}, explore_holds))
#define BREAKS(...) CHECK(run(&(struct plan){__VA_ARGS__}, explore_breaks))

TEST(three_takes_share_the_last_unit)
{
    HOLDS(.limits = "10/s burst=3", .spent = 2, .acts = {{DO(TAKE, 1)}, {DO(TAKE, 1)}, {DO(TAKE, 1)}});
    HOLDS(.limits = "10/s burst=3", .spent = 1, .acts = {{DO(TAKE, 1)}, {DO(TAKE, 2)}, {DO(ASK, 1)}});
    HOLDS(.limits = "10/s burst=3", .spent = 0,
          .acts = {{DO(TAKE, 1), DO(TAKE, 1)}, {DO(TAKE, 1), DO(TAKE, 1)}});
}

TEST(an_exchange_that_fails_for_no_reason_is_made_again)
{
    HOLDS(.limits = "10/s burst=3", .spent = 2, .spurious = 2,
          .acts = {{DO(TAKE, 1)}, {DO(TAKE, 1)}, {DO(TAKE, 1)}});
    HOLDS(.limits = "10/s burst=3", .spent = 2, .spurious = 2,
          .acts = {{DO(CHARGE, 1)}, {DO(GIVE, 1)}, {DO(TAKE, 1)}});
}

TEST(clocks_that_differ_mint_nothing)
{
    HOLDS(.limits = "10/s burst=2", .spent = 2,
          .acts = {{DO(TAKE, 1), LATER(200, TAKE, 1)}, {LATER(100, TAKE, 1)}, {LATER(150, ASK, 1)}});
    HOLDS(.limits = "10/s burst=2", .spent = 2,
          .acts = {{DO(RESERVE, 1)}, {LATER(200, TAKE, 1), LATER(50, GIVE, 1)}});
}

TEST(a_give_against_takes_is_spent_once)
{
    HOLDS(.limits = "10/s burst=3", .spent = 3, .acts = {{DO(GIVE, 1)}, {DO(TAKE, 1)}, {DO(TAKE, 1)}});
    HOLDS(.limits = "10/s burst=3", .spent = 1, .acts = {{DO(GIVE, 2)}, {DO(TAKE, 2)}, {DO(TAKE, 1)}});
    HOLDS(.limits = "10/s burst=3", .spent = 3,
          .acts = {{DO(GIVE, 1), DO(TAKE, 1)}, {DO(GIVE, 1), DO(TAKE, 1)}});
}

TEST(a_charge_against_takes_is_never_lost)
{
    HOLDS(.limits = "10/s burst=3", .spent = 1, .acts = {{DO(CHARGE, 5)}, {DO(TAKE, 1)}, {DO(TAKE, 1)}});
    HOLDS(.limits = "10/s burst=3", .spent = 1,
          .acts = {{DO(CHARGE, 1), DO(GIVE, 1)}, {DO(TAKE, 1), DO(TAKE, 1)}});
}

TEST(a_drain_takes_what_takes_have_left)
{
    HOLDS(.limits = "10/s burst=3", .acts = {{DO(DRAIN, 0)}, {DO(TAKE, 1)}, {DO(TAKE, 2)}});
    HOLDS(.limits = "10/s burst=3", .acts = {{DO(DRAIN, 0)}, {DO(DRAIN, 0)}, {DO(GIVE, 2)}});
}

TEST(promises_come_one_after_the_other)
{
    HOLDS(.limits = "10/s burst=1", .spent = 1, .acts = {{DO(RESERVE, 1)}, {DO(RESERVE, 1)}});
    HOLDS(.limits = "10/s burst=1", .acts = {{DO(RESERVE, 1)}, {DO(RESERVE, 1)}, {LATER(100, TAKE, 1)}});
    HOLDS(.limits = "10/s burst=1", .spent = 1,
          .acts = {{DO(RESERVE, 1)}, {DO(ASK, 1), LATER(100, PEEK, 1)}});
}

TEST(a_cancel_returns_its_units_once)
{
    HOLDS(.limits = "10/s burst=1", .spent = 1,
          .acts = {{DO(RESERVE, 1), DO(CANCEL, 0)}, {LATER(100, TAKE, 1)}});
    HOLDS(.limits = "10/s burst=1", .spent = 1,
          .acts = {{DO(RESERVE, 1), DO(CANCEL, 0)}, {DO(RESERVE, 1), DO(CANCEL, 0)}});
    HOLDS(.limits = "10/s burst=2", .spent = 1,
          .acts = {{DO(RESERVE, 2), DO(CANCEL, 0)}, {DO(CHARGE, 1), DO(TAKE, 1)}});
}

TEST(a_give_is_dropped_while_a_promise_stands)
{
    HOLDS(.limits = "10/s burst=2", .spent = 2, .acts = {{DO(RESERVE, 1)}, {DO(GIVE, 1)}});
    HOLDS(.limits = "10/s burst=2", .spent = 2,
          .acts = {{DO(RESERVE, 1)}, {DO(GIVE, 1), DO(TAKE, 1)}, {DO(GIVE, 1)}});
    HOLDS(.limits = "10/s burst=2", .spent = 4,
          .acts = {{DO(RESERVE, 1), DO(CANCEL, 0)}, {DO(GIVE, 1), DO(TAKE, 1)}});
}

/* The second promise leaves the index where the first one had. */
TEST(a_promise_that_is_made_again_is_not_mistaken_for_the_first)
{
    static const struct act others[] = {
        {GIVE, 1, 0}, {CHARGE, 1, 0}, {PEEK, 1, 0}, {ASK, 1, 100 * WEIR_MS}, {DRAIN, 0, 200 * WEIR_MS}};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        HOLDS(.limits = "10/s burst=2", .spent = 2,
              .acts = {{DO(RESERVE, 1), DO(CANCEL, 0), DO(RESERVE, 1)}, {others[i]}});
}

/* A thread that has looked at its clock may be stopped for a second before it cancels. If that returned units
 * which the bucket could not have held, more than the burst would pass. */
TEST(a_promise_that_has_come_on_some_clock_stays_used)
{
    HOLDS(.limits = "10/s burst=2", .spent = 2,
          .acts = {{DO(RESERVE, 1), DO(CANCEL, 0)}, {LATER(1000, TAKE, 2), LATER(1000, TAKE, 1)}});
}

TEST(a_take_by_figures_of_two_limits_never_wins)
{
    HOLDS(.limits = "10/s burst=2", .next = "20/s burst=3", .spent = 1,
          .acts = {{DO(SET, 0)}, {DO(TAKE, 1)}, {DO(TAKE, 1)}});
    HOLDS(.limits = "20/s burst=4", .next = "3/s burst=2", .spent = 1, .acts = {{DO(SET, 0)}, {DO(ASK, 2)}});
    HOLDS(.limits = "20/s burst=4", .next = "3/s burst=2", .spent = 1,
          .acts = {{DO(SET, 0), DO(SET, 0)}, {DO(TAKE, 1)}});
    HOLDS(.limits = "unlimited", .next = "5/s burst=2", .acts = {{DO(SET, 0)}, {DO(TAKE, 2)}});
    HOLDS(.limits = "10/s burst=2", .next = "blocked", .acts = {{DO(SET, 0)}, {DO(TAKE, 1)}});
}

TEST(other_verbs_by_figures_of_two_limits_never_win)
{
    HOLDS(.limits = "10/s burst=2", .next = "20/s burst=3", .spent = 2,
          .acts = {{DO(SET, 0)}, {DO(GIVE, 1), DO(TAKE, 1)}});
    HOLDS(.limits = "10/s burst=2", .next = "20/s burst=3", .spent = 2,
          .acts = {{DO(SET, 0)}, {DO(CHARGE, 1)}});
    HOLDS(.limits = "10/s burst=2", .next = "20/s burst=3", .spent = 0,
          .acts = {{DO(SET, 0)}, {DO(DRAIN, 0)}});
    HOLDS(.limits = "10/s burst=2", .next = "20/s burst=3", .spent = 2,
          .acts = {{DO(SET, 0)}, {DO(RESERVE, 1), DO(CANCEL, 0)}});
}

TEST(a_reset_against_takes_begins_anew)
{
    HOLDS(.limits = "10/s burst=2", .spent = 2, .acts = {{DO(RESET, 0)}, {DO(TAKE, 1)}, {DO(TAKE, 2)}});
    HOLDS(.limits = "10/s burst=2", .spent = 1, .acts = {{DO(RESET, 0)}, {DO(CHARGE, 1)}});
    HOLDS(.limits = "10/s burst=2", .spent = 2, .acts = {{DO(RESET, 0)}, {DO(RESERVE, 1), DO(CANCEL, 0)}});
    HOLDS(.limits = "10/s burst=2", .next = "20/s burst=3", .spent = 2,
          .acts = {{DO(RESET, 0)}, {DO(SET, 0)}});
}

TEST(every_state_of_one_word_obeys_the_core)
{
    static const char *const limits[] = {"10/s algo=smooth", "10/s algo=leaky-bucket queue=2",
                                         "10/s algo=interval", "unlimited", "blocked"};
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++)
        HOLDS(.limits = limits[i], .acts = {{DO(TAKE, 1)}, {DO(RESERVE, 1)}, {DO(TAKE, 1)}});
}

TEST(takes_by_the_clock_share_the_last_unit)
{
    HOLDS(.limits = "10/s burst=3", .spent = 2,
          .acts = {{DO(BY_CLOCK, 1)}, {DO(BY_CLOCK, 1)}, {DO(BY_CLOCK, 1)}});
    HOLDS(.limits = "10/s burst=3", .spent = 1, .spurious = 1,
          .acts = {{DO(BY_CLOCK, 1)}, {DO(BY_CLOCK, 2)}, {DO(TAKE, 1)}});
    HOLDS(.limits = "10/s burst=3", .spent = 3, .acts = {{DO(GIVE, 1)}, {DO(BY_CLOCK, 1)}, {DO(CHARGE, 1)}});
}

TEST(a_take_by_a_pace_of_two_anchors_never_wins)
{
    HOLDS(.limits = "10/s burst=3", .spent = 2, .acts = {{DO(TURN, 2), DO(FOLLOW, 2)}, {DO(BY_CLOCK, 1)}});
    HOLDS(.limits = "10/s burst=3", .spent = 2, .acts = {{DO(TURN, 2), DO(FOLLOW, 2)}, {DO(BY_CLOCK, 2)}});
    HOLDS(.limits = "10/s burst=3", .spent = 2,
          .acts = {{DO(TURN, 2), DO(FOLLOW, 2)}, {DO(BY_CLOCK, 1)}, {DO(FOLLOW, 2)}});
}

TEST(a_take_by_a_pace_of_two_limits_never_wins)
{
    HOLDS(.limits = "10/s burst=2", .next = "20/s burst=3", .spent = 1,
          .acts = {{DO(SET, 0)}, {DO(BY_CLOCK, 1), DO(BY_CLOCK, 1)}});
    HOLDS(.limits = "10/s burst=2", .next = "20/s burst=3", .spent = 1,
          .acts = {{DO(SET, 0), DO(FOLLOW, 1)}, {DO(BY_CLOCK, 1)}});
    HOLDS(.limits = "20/s burst=4", .next = "10/s burst=2", .spent = 1,
          .acts = {{DO(TURN, 2), DO(SET, 0), DO(FOLLOW, 2)}, {DO(BY_CLOCK, 2)}});
    HOLDS(.limits = "10/s burst=2", .next = "blocked", .acts = {{DO(SET, 0)}, {DO(BY_CLOCK, 1)}});
}

TEST(no_pace_overtakes_a_promise)
{
    HOLDS(.limits = "10/s burst=2", .spent = 2,
          .acts = {{DO(RESERVE, 1), DO(CANCEL, 0)}, {DO(BY_CLOCK, 1), DO(GIVE, 1)}});
    HOLDS(.limits = "10/s burst=2", .spent = 1,
          .acts = {{DO(TURN, 2), DO(RESERVE, 2), DO(FOLLOW, 2)}, {DO(BY_CLOCK, 1)}});
    HOLDS(.limits = "10/s burst=2", .spent = 1,
          .acts = {{DO(RESERVE, 2)}, {DO(TURN, 2), DO(FOLLOW, 2), DO(BY_CLOCK, 1)}});
}

/* ---- each order and each fence is needed ---- */

TEST(without_a_fence_figures_get_mixed)
{
    static const unsigned fences[] = {EXPLORE_NO_ACQUIRE_FENCE, EXPLORE_NO_RELEASE_FENCE};
    for (int i = 0; i < 2; i++) {
        BREAKS(.limits = "20/s burst=2", .next = "10/s burst=3", .spent = 1, .weaken = fences[i],
               .acts = {{DO(SET, 0)}, {DO(TAKE, 1)}});
        BREAKS(.limits = "20/s burst=2", .next = "10/s burst=3", .spent = 1, .weaken = fences[i],
               .acts = {{DO(SET, 0)}, {DO(PEEK, 1)}});
    }
}

TEST(without_release_or_acquire_figures_get_mixed)
{
    static const unsigned orders[] = {EXPLORE_RELAXED_LOADS, EXPLORE_RELAXED_STORES,
                                      EXPLORE_RELAXED_EXCHANGES};
    for (int i = 0; i < 3; i++)
        BREAKS(.limits = "10/s burst=2", .next = "20/s burst=3", .spent = 1, .weaken = orders[i],
               .acts = {{DO(SET, 0)}, {DO(TAKE, 1)}});
}

TEST(without_them_paces_get_mixed)
{
    static const unsigned orders[] = {EXPLORE_NO_ACQUIRE_FENCE, EXPLORE_NO_RELEASE_FENCE,
                                      EXPLORE_RELAXED_LOADS, EXPLORE_RELAXED_STORES};
    for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++)
        BREAKS(.limits = "10/s burst=3", .spent = 2, .weaken = orders[i],
               .acts = {{DO(TURN, 2), DO(FOLLOW, 2)}, {DO(BY_CLOCK, 1)}});
}
