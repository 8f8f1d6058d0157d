/* SPDX-License-Identifier: MIT */
/*
 * Threads take from one balance and give back, while another one turns and fills it and moves the clock. An
 * account is kept outside: what each thread took under which deadline. No deadline lets pass more than was
 * put in under it, nothing passes after it, and in the end not a unit is missing.
 */
#include <stdatomic.h>

#include "check.h"
#include "limiter/balance.h"
#include "limiter/life.h"
#include "threads/team.h"

enum { TAKERS = 3, THREADS = TAKERS + 1, EPOCHS_MAX = 20000 };

#define START  (1000 * WEIR_SEC)
#define WINDOW WEIR_MS

static int64_t epochs; /* how many */
static struct lease_balance balance;
static struct weir_limiter *limiter;
static atomic_int wants, began;
static atomic_bool ended;

/* By epoch, of each taker alone: what it took less what it gave back. */
static int64_t took[TAKERS][EPOCHS_MAX];
static int64_t put[EPOCHS_MAX], all_took[TAKERS], all_gave[TAKERS], withdrawn;

static void want(struct lease_balance *p, int64_t n)
{
    (void)p, (void)n;
    atomic_fetch_add(&wants, 1);
}

static void explain(struct lease_balance *p, int64_t now, int64_t n, struct weir_verdict *verdict)
{
    (void)p, (void)now, (void)n, (void)verdict;
}

static void let_go(struct lease_balance *p)
{
    (void)p;
}

static const struct balance_ops ops = {.want = want, .explain = explain, .free = let_go};

static int64_t epoch_of(int64_t time)
{
    return (time - START) / WINDOW;
}

/* The clock is set by hand, so a reading before and one after that agree say when the take was. What passed
 * while the epoch changed belongs to one of the two; it is counted in the whole only. */
static void take_some(size_t self, struct rng *rng)
{
    struct weir_verdict verdict;
    int64_t n = rng_between(rng, 1, 5), before = weir_now();
    bool passed = weir_limiter_take(limiter, n, rng_between(rng, 0, 3) ? NULL : &verdict);
    int64_t epoch = epoch_of(before);
    if (!passed) {
        if (rng_between(rng, 0, 3) == 0)
            team_yield();
        return;
    }
    all_took[self] += n;
    if (epoch_of(weir_now()) == epoch)
        took[self][epoch] += n;
}

/* A lease is told its deadline; the units may have a later one, if the balance was turned meanwhile. */
static void lease_some(size_t self, struct rng *rng)
{
    int64_t n = rng_between(rng, 1, 5), until, before = weir_now();
    if (!weir_balance_lease(&balance, before, n, &until))
        return;
    if (until <= before || (until - START) % WINDOW != 0)
        abort();
    all_took[self] += n;
    if (rng_between(rng, 0, 3) == 0 && weir_balance_give_under(&balance, before, n, until))
        all_gave[self] += n;
    else if (balance_load(&balance.until) == until)
        took[self][epoch_of(until) - 1] += n;
}

static void take_on(size_t self, struct rng *rng)
{
    while (!atomic_load_explicit(&ended, memory_order_acquire))
        if (rng_between(rng, 0, 1))
            take_some(self, rng);
        else
            lease_some(self, rng);
}

/* Some epochs end before the balance is turned, some are turned before they end. */
static void fill_on(struct rng *rng)
{
    for (int64_t epoch = 0; epoch < epochs; epoch++) {
        bool early = rng_between(rng, 0, 1);
        if (!early)
            weir_clock_set(START + epoch * WINDOW);
        (void)weir_balance_set_deadline(&balance, START + (epoch + 1) * WINDOW);
        if (early)
            weir_clock_set(START + epoch * WINDOW);
        for (int i = 0; i < 4; i++) {
            int64_t n = rng_between(rng, 1, 40);
            put[epoch] += n;
            weir_balance_put(&balance, n);
            weir_balance_rearm(&balance);
            if (rng_between(rng, 0, 7) == 0)
                team_yield();
        }
        int64_t back = 10 * weir_balance_withdraw(&balance, 10, 1);
        withdrawn += back;
        put[epoch] -= back;
    }
    atomic_store_explicit(&ended, true, memory_order_release);
}

static void body(size_t self, void *arg)
{
    struct rng rng = rng_new(*(uint64_t *)arg + self);
    if (self == TAKERS) {
        while (atomic_load(&began) < TAKERS) /* or it might be done before anybody takes */
            team_yield();
        fill_on(&rng);
    } else {
        atomic_fetch_add(&began, 1);
        take_on(self, &rng);
    }
}

TEST(no_deadline_lets_pass_more_than_was_put_in_under_it)
{
    uint64_t stream = 1;
    team_watch("a balance");
    epochs = team_scaled(EPOCHS_MAX);
    weir_clock_set(START);
    weir_balance_init(&balance, &ops, NULL);
    weir_balance_set_low(&balance, 5);
    limiter = weir_balance_limiter(&balance, "100/s", NULL);
    if (!CHECK(limiter != NULL))
        return;
    team_run(THREADS, body, &stream);
    int64_t all = 0, counted = 0;
    for (size_t i = 0; i < TAKERS; i++)
        all += all_took[i] - all_gave[i];
    for (int64_t epoch = 0; epoch < epochs; epoch++) {
        int64_t sum = 0;
        for (size_t i = 0; i < TAKERS; i++)
            sum += took[i][epoch];
        if (!CHECK(sum <= put[epoch]))
            printf("# epoch %" PRId64 ": %" PRId64 " of %" PRId64 "\n", epoch, sum, put[epoch]);
        counted += sum;
    }
    printf("# %" PRId64 " units in %" PRId64 " epochs, %" PRId64 " of known epochs, %d wants\n", all, epochs,
           counted, atomic_load(&wants));
    CHECK(counted > 0 && atomic_load(&wants) > 0);
    CHECK_EQ(weir_balance_spent(&balance), all);
    CHECK_EQ(balance_load(&balance.put),
             all + weir_balance_held(&balance) + withdrawn + weir_balance_dropped(&balance));
    CHECK_EQ(balance_load(&balance.withdrawn), withdrawn);
    weir_limiter_free(limiter);
    weir_clock_set(-1);
    team_watch_done();
}
