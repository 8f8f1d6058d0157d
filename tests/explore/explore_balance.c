/* SPDX-License-Identifier: MIT */
/*
 * A balance (src/limiter/balance.h) under every interleaving and every weak behaviour of takers, one who
 * gives back, and the one who fills it. src/limiter/balance.c is compiled here with the explorer's atoms and
 * locks and with a clock whose hand is an atom, too: it moves when the plan says so.
 *
 * After every execution the units are followed through the order in which they were exchanged. Each that
 * passed was put in under a deadline. The look that let it pass was before that deadline; so was its
 * exchange; and no more passed than was put in under it.
 */
#include <stdint.h>

static int64_t look(void);
#define BALANCE_CLOCK look

#include "check.h"
#include "explore/explore.h"
#include "limiter/balance.c"

enum { THREADS = 3, ACTS = 5, WRITES = 32 };

enum table_verb {
    NOTHING,
    TAKE,     /* at most one in a thread */
    TIMED,    /* the same with a time that is told */
    GIVE,     /* gives n back if the thread has taken some */
    CHARGE,   /* n */
    DRAIN,    /* all */
    TICK,     /* the clock's hand goes to n */
    TURN,     /* to the deadline n */
    PUT,      /* n */
    WITHDRAW, /* one chunk of n */
    HEAR      /* as who fills it does: heard, then looks */
};

struct act {
    enum table_verb verb;
    int64_t n;
};

struct plan {
    int64_t until, units, low;
    bool told; /* somebody has asked for more, and is not heard yet */
    struct act acts[THREADS][ACTS];
    unsigned weaken;
    int spurious;
};

/* What a thread has found out. */
struct found {
    bool passed;
    int64_t look;  /* the last one at the clock */
    int64_t taken; /* that passed */
    int64_t drained, withdrawn, charged;
    int wants;
    bool heard;
    int64_t held, refused; /* that HEAR has found */
};

static struct plan plan;
static struct lease_balance balance;
static atom64 hand;
static struct found found[THREADS];

/* The hand as it is: a clock is never behind by more than CLOCK_ERROR_NS, so the latest value counts. It
 * orders nothing else. */
static int64_t look(void)
{
    int64_t now = (int64_t)atom_add(&hand, 0, memory_order_relaxed);
    found[explore_thread()].look = now;
    return now;
}

/* Time goes on, and that is noted among the exchanges of the units: who exchanges behind it does so at this
 * time or later. */
static void tick(int64_t now)
{
    (void)atom_swap(&hand, (uint64_t)now, memory_order_relaxed);
    (void)atom_add(&balance.units, 0, memory_order_acq_rel);
}

static void want(struct lease_balance *p, int64_t n)
{
    (void)p, (void)n;
    found[explore_thread()].wants++;
}

static const struct balance_ops ops = {.want = want};

static void setup(void)
{
    memset(found, 0, sizeof found);
    memset(&balance, 0, sizeof balance);
    balance.ops = &ops;
    balance.full = plan.units;
    const struct {
        atom64 *atom;
        int64_t value;
        const char *name;
    } atoms[] = {{&balance.units, plan.units, "units"},
                 {&balance.until, plan.until, "until"},
                 {&balance.low, plan.low, "low"},
                 {&balance.wanted, plan.told, "wanted"},
                 {&balance.refused, 0, "refused"},
                 {&balance.put, plan.units, "put"},
                 {&balance.withdrawn, 0, "withdrawn"},
                 {&balance.dropped, 0, "dropped"},
                 {&hand, 0, "hand"}};
    for (size_t i = 0; i < sizeof atoms / sizeof atoms[0]; i++) {
        atom_store(atoms[i].atom, (uint64_t)atoms[i].value, memory_order_relaxed);
        explore_name(atoms[i].atom, atoms[i].name);
    }
    explore_name(&balance.lock, "lock");
}

static void take(struct found *f, const struct act *a)
{
    f->look = 0;
    f->passed = weir_balance_take(&balance, 0, a->n, a->verb == TIMED);
    f->taken = f->passed ? a->n : 0;
}

static void act(const struct act *a)
{
    struct found *f = &found[explore_thread()];
    switch (a->verb) {
    case TAKE:
    case TIMED:
        take(f, a);
        break;
    case GIVE:
        if (f->passed)
            weir_balance_give(&balance, 0, a->n);
        break;
    case CHARGE:
        weir_balance_charge(&balance, a->n);
        f->charged += a->n;
        break;
    case DRAIN:
        f->drained += weir_balance_drain(&balance, 0);
        break;
    case TICK:
        tick(a->n);
        break;
    case TURN:
        (void)weir_balance_set_deadline(&balance, a->n);
        break;
    case PUT:
        weir_balance_put(&balance, a->n);
        break;
    case WITHDRAW:
        f->withdrawn += a->n * weir_balance_withdraw(&balance, a->n, 1);
        break;
    case HEAR:
        weir_balance_rearm(&balance);
        f->heard = true;
        f->held = weir_balance_held(&balance);
        f->refused = weir_balance_refused(&balance);
        break;
    case NOTHING:
        break;
    }
}

static void run_acts(void)
{
    int thread = explore_thread();
    for (int i = 0; i < ACTS && plan.acts[thread][i].verb; i++)
        act(&plan.acts[thread][i]);
}

/* ---- following the units ---- */

/* What is known after some exchanges. */
struct course {
    int64_t until, units;
    int64_t passed, given, put; /* under this deadline */
    int64_t all_given;
    int64_t ticked; /* it was this late by then */
    int acts;       /* of the filler, that were passed by */
};

/* The next act of this kind, in the thread that fills. */
static const struct act *next_act(struct course *c, int thread, enum table_verb verb, int64_t *until)
{
    while (c->acts < ACTS) {
        const struct act *a = &plan.acts[thread][c->acts++];
        if (a->verb == TURN)
            *until = a->n;
        if (a->verb == verb)
            return a;
    }
    EXPLORE_CHECK(false && "an exchange that no act explains");
    return NULL;
}

static bool fills(int thread)
{
    for (int i = 0; i < ACTS; i++)
        if (plan.acts[thread][i].verb == PUT || plan.acts[thread][i].verb == TICK)
            return true;
    return false;
}

static void follow_filler(struct course *c, int thread, int64_t by)
{
    if (by > 0) { /* a put: everything else of before is gone by now, if there was a turn */
        int64_t until = c->until;
        const struct act *a = next_act(c, thread, PUT, &until);
        if (until != c->until)
            c->passed = c->given = c->put = 0;
        c->put += by;
        c->until = until;
        EXPLORE_CHECK(a && a->n == by);
    } else if (by == 0) {
        int64_t until = c->until;
        const struct act *a = next_act(c, thread, TICK, &until);
        c->acts -= until != c->until; /* a turn is looked at again by the put that follows */
        c->ticked = a ? a->n : 0;
    } else if (found[thread].withdrawn > 0) {
        c->put += by;
    }
}

static bool takes(int thread)
{
    enum table_verb verb = plan.acts[thread][0].verb;
    return verb == TAKE || verb == TIMED;
}

static void follow_taker(struct course *c, int thread, int64_t by, int64_t after)
{
    const struct found *f = &found[thread];
    if (by > 0) {
        c->given += by;
        c->all_given += by;
    } else if (takes(thread)) {
        EXPLORE_CHECK(after >= 0);
        if (!f->passed)
            return;
        EXPLORE_CHECK(-by == f->taken);
        c->passed -= by;
        if (plan.acts[thread][0].verb == TAKE) {
            EXPLORE_CHECK(f->look < c->until);
            EXPLORE_CHECK(c->ticked < c->until);
        }
        EXPLORE_CHECK(c->passed - c->given <= c->put);
    }
}

static void check_account(const struct course *c)
{
    int64_t spent = -c->all_given;
    for (int thread = 0; thread < THREADS; thread++)
        spent += found[thread].taken + found[thread].drained + found[thread].charged;
    EXPLORE_CHECK(weir_balance_spent(&balance) == spent);
    EXPLORE_CHECK(weir_balance_held(&balance) <= balance.full);
}

/* Whoever was not told to ask because he was not heard yet is found by who hears. */
static void check_heard(void)
{
    const struct found *hears = NULL;
    int wants = 0;
    bool under = false, refused = false;
    for (int thread = 0; thread < THREADS; thread++) {
        wants += found[thread].wants;
        hears = found[thread].heard ? &found[thread] : hears;
        under |= takes(thread) && found[thread].passed && plan.units - found[thread].taken < plan.low;
        refused |= takes(thread) && !found[thread].passed;
    }
    if (hears && under)
        EXPLORE_CHECK(wants > 0 || hears->held < plan.low);
    if (hears && refused)
        EXPLORE_CHECK(wants > 0 || hears->refused > 0);
}

static void finish(void)
{
    struct explore_write writes[WRITES];
    size_t count = explore_writes(&balance.units, writes, WRITES);
    struct course c = {.until = plan.until, .units = plan.units, .put = plan.units};
    EXPLORE_CHECK(count < WRITES);
    for (size_t i = 0; i < count; i++) {
        int64_t after = (int64_t)writes[i].value, by = after - c.units;
        if (fills(writes[i].thread))
            follow_filler(&c, writes[i].thread, by);
        else
            follow_taker(&c, writes[i].thread, by, after);
        c.units = after;
    }
    check_account(&c);
    check_heard();
}

/* ---- plans ---- */

static bool run(const struct plan *p, bool (*how)(struct explore *e))
{
    plan = *p;
    struct explore e = {.setup = setup, .finish = finish, .weaken = p->weaken, .spurious = p->spurious};
    for (int thread = 0; thread < THREADS && p->acts[thread][0].verb; thread++)
        e.threads[thread] = run_acts;
    return how(&e);
}

#define HOLDS(...)  CHECK(run(&(struct plan){.until = 10, __VA_ARGS__}, explore_holds))
#define BREAKS(...) CHECK(run(&(struct plan){.until = 10, __VA_ARGS__}, explore_breaks))

TEST(takers_share_the_last_unit)
{
    HOLDS(.units = 1, .acts = {{{TAKE, 1}}, {{TAKE, 1}}, {{TAKE, 1}}});
    HOLDS(.units = 3, .acts = {{{TAKE, 2}}, {{TAKE, 2}}, {{TAKE, 1}}});
    HOLDS(.units = 1, .spurious = 1, .acts = {{{TAKE, 1}}, {{TAKE, 1}}});
}

/* The heart of it: the deadline passes, the balance is turned and filled, and all the while units are taken.
 */
TEST(no_unit_is_spent_under_a_later_deadline_than_its_own)
{
    HOLDS(.units = 1, .acts = {{{TICK, 10}, {TURN, 20}, {PUT, 1}}, {{TAKE, 1}}, {{TAKE, 1}}});
    HOLDS(.units = 2, .acts = {{{TICK, 10}, {TURN, 20}, {PUT, 1}}, {{TAKE, 1}}, {{TAKE, 2}}});
    HOLDS(.units = 0, .acts = {{{TICK, 10}, {TURN, 20}, {PUT, 2}}, {{TAKE, 1}}, {{TAKE, 1}}});
    HOLDS(.units = 1, .acts = {{{TICK, 10}, {TURN, 20}, {PUT, 1}, {TICK, 20}}, {{TAKE, 1}}, {{TAKE, 1}}});
}

TEST(a_balance_that_is_turned_before_its_time_drops_what_is_left)
{
    HOLDS(.units = 1, .acts = {{{TURN, 20}, {PUT, 1}, {TICK, 10}}, {{TAKE, 1}}, {{TAKE, 1}}});
    HOLDS(.units = 1, .acts = {{{TURN, 20}, {PUT, 1}, {TURN, 30}, {PUT, 1}}, {{TAKE, 1}}});
    HOLDS(.units = 1, .acts = {{{PUT, 2}, {TICK, 10}, {TURN, 20}, {PUT, 1}}, {{TAKE, 2}}});
    HOLDS(.units = 2, .acts = {{{TURN, 20}, {PUT, 1}}, {{TIMED, 1}}, {{TIMED, 2}}});
}

TEST(what_is_given_back_passes_once_and_never_beyond_what_was_put_in)
{
    HOLDS(.units = 2, .acts = {{{TURN, 20}, {PUT, 1}}, {{TAKE, 1}, {GIVE, 1}}, {{TAKE, 1}}});
    HOLDS(.units = 2, .acts = {{{PUT, 1}}, {{TAKE, 1}, {GIVE, 2}}, {{TAKE, 2}}});
    HOLDS(.units = 1, .acts = {{{TICK, 5}, {TURN, 20}, {PUT, 1}}, {{TAKE, 1}, {GIVE, 1}}, {{TAKE, 1}}});
    HOLDS(.units = 1, .acts = {{{TAKE, 1}, {GIVE, 1}}, {{TAKE, 1}, {GIVE, 1}}, {{TAKE, 1}}});
}

TEST(what_is_withdrawn_is_not_there_to_be_given_back)
{
    HOLDS(.units = 2, .acts = {{{WITHDRAW, 1}, {PUT, 1}}, {{TAKE, 1}, {GIVE, 2}}, {{TAKE, 1}}});
    HOLDS(.units = 2, .acts = {{{WITHDRAW, 2}, {PUT, 2}}, {{TAKE, 1}, {GIVE, 1}}, {{TAKE, 1}, {GIVE, 1}}});
    HOLDS(.units = 3, .acts = {{{WITHDRAW, 2}, {TURN, 20}, {PUT, 1}}, {{TAKE, 1}, {GIVE, 3}}, {{TAKE, 2}}});
}

TEST(debts_and_drains_lose_nothing)
{
    HOLDS(.units = 2, .acts = {{{PUT, 1}}, {{CHARGE, 3}}, {{TAKE, 1}}});
    HOLDS(.units = 1, .acts = {{{TURN, 20}, {PUT, 2}}, {{CHARGE, 3}}, {{TAKE, 1}}});
    HOLDS(.units = 2, .acts = {{{TURN, 20}, {PUT, 1}}, {{DRAIN, 0}}, {{TAKE, 1}}});
}

TEST(a_want_is_told_or_found_by_who_hears)
{
    HOLDS(.units = 2, .low = 2, .told = true, .acts = {{{HEAR, 0}}, {{TAKE, 1}}});
    HOLDS(.units = 2, .low = 2, .told = true, .acts = {{{HEAR, 0}}, {{TAKE, 1}}, {{TAKE, 1}}});
    HOLDS(.units = 1, .told = true, .acts = {{{HEAR, 0}}, {{TAKE, 2}}});
    HOLDS(.units = 1, .told = true, .acts = {{{HEAR, 0}}, {{TIMED, 2}}, {{TAKE, 3}}});
}

/* ---- why it is sequentially consistent ---- */

/* (No less order than acquire and release lets units outlive their deadline: who turns the balance reads what
 * the last taker has left, and nobody reads a deadline before it is written. It is the order of the steps
 * that counts there; tests/mutants/fleet.txt turns them round.) */
TEST(without_one_order_of_all_a_want_is_lost)
{
    BREAKS(.units = 2, .low = 2, .told = true, .weaken = EXPLORE_NO_SEQ_CST_ACCESS,
           .acts = {{{HEAR, 0}}, {{TAKE, 1}}});
}
