/* SPDX-License-Identifier: MIT */
/*
 * Threads decide on one limiter at one moment of time. What they get together is exactly what one thread
 * would get: nothing is lost, nothing is given twice. The pure core, asked by one thread, says how much that
 * is.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "base/sat.h"
#include "check.h"
#include "core/limit.h"
#include "threads/specs.h"
#include "threads/team.h"

#define START   (1000 * WEIR_SEC)
#define THREADS 64

static const size_t teams[] = {2, 8, 64};

enum { TEAMS = sizeof teams / sizeof teams[0] };

/* The same limit with much to give, so that there is something to fight for. */
static const struct {
    const char *name, *limits;
    bool takes_back; /* what is given is what was taken, to the tick */
} rich[] = {
    {"token-bucket", "200k/s burst=20k", true},
    {"interval", "200k/s algo=interval", true},
    {"leaky-bucket", "200k/s algo=leaky-bucket queue=1k", true},
    {"smooth", "200k/s burst=20k initial=20k algo=smooth", true},
    {"warmup", "200k/s algo=warmup warmup=200ms", false},
    {"hybrid", "200k/s algo=hybrid ratio=1.5 pool=100ms", true},
    {"fixed-window", "20k/s algo=fixed-window", true},
    {"sliding-window", "20k/s algo=sliding-window", true},
    {"sliding-log", "1k/s algo=sliding-log", true},
    {"step", "200/ms burst=20k algo=step", true},
    {"two limits", "200k/s burst=9k, 1k/s algo=sliding-log", true},
};

enum { RICH = sizeof rich / sizeof rich[0] };

/* ---- one thread, by the core ---- */

struct lone {
    struct weir_policy *policy;
    void *state;
};

static struct lone lone_new(const char *limits, int64_t now)
{
    struct weir_error err;
    struct lone lone = {.policy = weir_policy_new(limits, &err)};
    if (lone.policy)
        lone.state = malloc(weir_policy_state_size(lone.policy));
    if (!lone.state) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
    weir_state_init(lone.policy, lone.state, now);
    return lone;
}

static void lone_free(struct lone *lone)
{
    weir_policy_free(lone->policy);
    free(lone->state);
}

static int64_t lone_takes(struct lone *lone, int64_t now)
{
    int64_t count = 0;
    while (weir_state_take(lone->policy, lone->state, now, 1, NULL))
        count++;
    return count;
}

static bool same_verdict(const struct weir_verdict *a, const struct weir_verdict *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

/* ---- takes ---- */

struct takes {
    struct weir_limiter *limiter;
    int64_t now;
    atomic_llong taken;
};

static void take_until_refused(size_t self, void *arg)
{
    struct takes *t = arg;
    struct weir_verdict v;
    int64_t taken = 0;
    for (int refused = 0; refused < 3;)
        if (weir_limiter_take_at(t->limiter, t->now, 1, self % 2 ? &v : NULL))
            taken++;
        else
            refused++;
    atomic_fetch_add(&t->taken, taken);
}

static void check_takes(size_t which, size_t threads)
{
    struct lone lone = lone_new(rich[which].limits, START);
    weir_clock_set(START);
    struct takes t = {.limiter = weir_limiter_new(rich[which].limits, NULL), .now = START};
    for (int round = 0; round < team_scaled(20); round++) {
        int64_t before = atomic_load(&t.taken);
        team_run(threads, take_until_refused, &t);
        int64_t got = atomic_load(&t.taken) - before, want = lone_takes(&lone, t.now);
        if (!CHECK_EQ(got, want))
            printf("# %s, %zu threads, round %d\n", rich[which].name, threads, round);
        t.now += round % 2 ? 7 * WEIR_MS : 20 * WEIR_SEC;
    }
    weir_limiter_free(t.limiter);
    lone_free(&lone);
    weir_clock_set(-1);
}

TEST(threads_take_exactly_what_one_thread_would)
{
    for (size_t i = 0; i < RICH; i++)
        for (size_t t = 0; t < TEAMS; t++)
            check_takes(i, teams[t]);
}

/* ---- takes, gives, charges and drains ---- */

struct trade {
    struct weir_limiter *limiter;
    int64_t ops;
    bool takes_back;
    uint64_t stream;
    atomic_llong spent; /* taken and not given back, charged, drained */
};

/* Gives no more than it has taken, so that nothing runs over. */
static void trade_some(size_t self, void *arg)
{
    struct trade *t = arg;
    struct rng rng = rng_new(t->stream * 1000 + self);
    int64_t mine = 0, charged = 0;
    for (int64_t op = 0; op < t->ops; op++) {
        int64_t way = rng_between(&rng, 0, 99), n = t->takes_back ? rng_between(&rng, 1, 3) : 1;
        if (way < 55)
            mine += weir_limiter_take_at(t->limiter, START, n, NULL) ? n : 0;
        else if (way < 95 && mine >= n && t->takes_back) {
            weir_limiter_give_at(t->limiter, START, n);
            mine -= n;
        } else if (way == 99 && op < t->ops / 2) {
            weir_limiter_charge_at(t->limiter, START, 1);
            charged++;
        }
    }
    atomic_fetch_add(&t->spent, mine + charged);
}

/* All that was spent, charged at once, leaves the lone state where the limiter is. */
static void check_trade(size_t which, size_t threads)
{
    static uint64_t rounds;
    struct lone lone = lone_new(rich[which].limits, START);
    struct weir_verdict got, want;
    weir_clock_set(START);
    struct trade t = {.limiter = weir_limiter_new(rich[which].limits, NULL),
                      .ops = max64(team_scaled(40000) / (int64_t)threads, 20),
                      .takes_back = rich[which].takes_back,
                      .stream = ++rounds};
    team_run(threads, trade_some, &t);
    for (int64_t i = atomic_load(&t.spent); i > 0; i--)
        weir_state_charge(lone.policy, lone.state, START, 1);
    (void)weir_limiter_peek_at(t.limiter, START, 1, &got);
    (void)weir_state_peek(lone.policy, lone.state, START, 1, &want);
    if (!CHECK(same_verdict(&got, &want)))
        printf("# %s, %zu threads, %lld spent: remaining %" PRId64 " %" PRId64 ", retry %" PRId64 " %" PRId64
               ", reset %" PRId64 " %" PRId64 "\n",
               rich[which].name, threads, (long long)atomic_load(&t.spent), got.remaining, want.remaining,
               got.retry_after_ns, want.retry_after_ns, got.reset_after_ns, want.reset_after_ns);
    CHECK_EQ(weir_limiter_drain_at(t.limiter, START), weir_state_drain(lone.policy, lone.state, START));
    weir_limiter_free(t.limiter);
    lone_free(&lone);
    weir_clock_set(-1);
}

TEST(takes_gives_and_charges_add_up)
{
    for (size_t i = 0; i < RICH; i++)
        for (size_t t = 0; t < TEAMS; t++)
            check_trade(i, teams[t]);
}

/* ---- reservations ---- */

struct queue {
    struct weir_limiter *limiter;
    int64_t each;
    int64_t *due;     /* of thread i: `each` from i * each on */
    atomic_int early; /* dues of one thread that do not come in its order */
};

static void reserve_some(size_t self, void *arg)
{
    struct queue *q = arg;
    int64_t *due = q->due + (int64_t)self * q->each;
    for (int64_t i = 0; i < q->each; i++) {
        struct weir_reservation r;
        due[i] = weir_limiter_reserve_at(q->limiter, START, 1, WEIR_FOREVER, &r, NULL) ? r.due_ns : -1;
        if (i > 0 && due[i] < due[i - 1])
            atomic_fetch_add(&q->early, 1);
    }
}

static int by_time(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static void check_reservations(const struct specs *specs, size_t threads)
{
    size_t count = (size_t)team_scaled(3200) / threads * threads;
    struct lone lone = lone_new(specs->limits, START);
    weir_clock_set(START);
    struct queue q = {.limiter = weir_limiter_new(specs->limits, NULL),
                      .each = (int64_t)(count / threads),
                      .due = calloc(count, sizeof *q.due)};
    if (!q.due)
        abort();
    team_run(threads, reserve_some, &q);
    qsort(q.due, count, sizeof *q.due, by_time);
    int differ = 0;
    for (size_t i = 0; i < count; i++) {
        struct weir_reservation parts[WEIR_LIMITS_MAX];
        bool promised = weir_state_reserve(lone.policy, lone.state, START, 1, WEIR_FOREVER, parts, NULL);
        differ += q.due[i] != (promised ? parts[0].due_ns : -1);
    }
    if (!CHECK_EQ(differ, 0) || !CHECK_EQ(atomic_load(&q.early), 0))
        printf("# %s, %zu threads, %zu promises\n", specs->name, threads, count);
    free(q.due);
    weir_limiter_free(q.limiter);
    lone_free(&lone);
    weir_clock_set(-1);
}

/* A leaky bucket refuses when its queue is full: its promises are counted by threads_take_exactly. */
TEST(promises_are_those_that_one_thread_would_get_first_come_first_served)
{
    for (size_t i = 0; i < SPECS; i++)
        for (size_t t = 0; t < TEAMS && strcmp(all_specs[i].name, "leaky-bucket") != 0; t++)
            check_reservations(&all_specs[i], teams[t]);
}

/* ---- live changes ---- */

struct changes {
    struct takes takes;
    const char *limits[2];
    atomic_bool over;
};

static void change_until_over(size_t self, void *arg)
{
    struct changes *c = arg;
    if (self > 0) {
        take_until_refused(self, &c->takes);
        return;
    }
    for (int i = 0; i < 400 && !atomic_load(&c->over); i++) {
        (void)weir_limiter_set_at(c->takes.limiter, c->takes.now, c->limits[i % 2], NULL);
        team_yield();
    }
}

/* Units that are spent stay spent, those that are saved stay saved, whatever the rate is meanwhile. */
static void check_changes(const char *one, const char *other, int64_t burst, size_t threads)
{
    weir_clock_set(START);
    struct changes c = {.takes = {weir_limiter_new(one, NULL), START, 0}, .limits = {other, one}};
    struct team *team = team_start(threads + 1, change_until_over, &c);
    while (team_running(team) > 1)
        team_yield();
    atomic_store(&c.over, true);
    team_join(team);
    if (!CHECK_EQ(atomic_load(&c.takes.taken), burst))
        printf("# %s, %zu threads\n", one, threads);
    weir_limiter_free(c.takes.limiter);
    weir_clock_set(-1);
}

TEST(live_changes_neither_make_nor_lose_units)
{
    for (size_t t = 0; t < TEAMS; t++) {
        check_changes("200k/s burst=20k", "7k/s burst=20k", 20000, teams[t]);
        check_changes("200/ms burst=20k algo=step", "7/ms burst=20k algo=step", 20000, teams[t]);
        check_changes("20k/s algo=fixed-window", "20k/s algo=fixed-window name=other", 20000, teams[t]);
        check_changes("200k/s burst=9k, 500/s algo=sliding-log", "2k/s burst=9k, 500/s algo=sliding-log", 500,
                      teams[t]);
    }
}

/* ---- handles ---- */

struct handles {
    struct weir_limiter *limiter;
    atomic_llong taken;
};

/* A handle that is freed gives back what it holds: others find it. */
static void take_through_handle(size_t self, void *arg)
{
    struct handles *h = arg;
    struct rng rng = rng_new(self);
    int64_t taken = 0;
    for (int round = 0; round < 5; round++) {
        struct weir_handle *handle =
            self % 4 ? weir_handle_new(h->limiter, rng_between(&rng, 1, 300), NULL) : NULL;
        for (int64_t i = rng_between(&rng, 0, 800); i > 0; i--) {
            int64_t n = rng_between(&rng, 1, 3);
            bool allowed =
                handle ? weir_handle_take(handle, n, NULL) : weir_limiter_take(h->limiter, n, NULL);
            taken += allowed ? n : 0;
        }
        weir_handle_free(handle);
    }
    atomic_fetch_add(&h->taken, taken);
}

TEST(handles_spend_no_more_than_there_is_and_give_back_the_rest)
{
    static const int64_t bursts[] = {10, 1000, 20000};
    for (size_t i = 0; i < 3 * TEAMS; i++) {
        char limits[64];
        int64_t burst = bursts[i / TEAMS];
        struct weir_stat stat;
        (void)snprintf(limits, sizeof limits, "200k/s burst=%" PRId64, burst);
        weir_clock_set(START);
        struct handles h = {.limiter = weir_limiter_new(limits, NULL)};
        team_run(teams[i % TEAMS], take_through_handle, &h);
        weir_limiter_stat(h.limiter, &stat);
        CHECK_EQ(stat.handles, 0);
        CHECK_EQ(stat.held, 0);
        CHECK_EQ(atomic_load(&h.taken) + stat.available, burst);
        weir_limiter_free(h.limiter);
        weir_clock_set(-1);
    }
}

/* What lies in shares when the limit changes counts as spent, and nobody finds it again. */
TEST(a_live_change_voids_the_shares_of_handles)
{
    weir_clock_set(START);
    struct weir_limiter *limiter = weir_limiter_new("1/h burst=40", NULL);
    struct weir_handle *one = weir_handle_new(limiter, 10, NULL), *other = weir_handle_new(limiter, 10, NULL);
    CHECK(weir_handle_take(one, 1, NULL));
    CHECK(weir_limiter_set(limiter, "2/h burst=40", NULL)); /* 20 were left in it */
    int64_t taken = 0;
    while (weir_handle_take(one, 1, NULL))
        taken++;
    weir_handle_free(one);
    while (weir_handle_take(other, 1, NULL))
        taken++;
    weir_handle_free(other);
    while (weir_limiter_take(limiter, 1, NULL))
        taken++;
    CHECK_EQ(taken, 20);
    weir_limiter_free(limiter);
    weir_clock_set(-1);
}
