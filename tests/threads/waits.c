/* SPDX-License-Identifier: MIT */
/*
 * Waits by the real clock, some microseconds each, that end in all ways there are: the turn comes, the time
 * is too short, somebody stops them. None is lost, none comes early, nothing is left behind.
 *
 * WEIR_WAIT_CYCLES says how many waits there are in all.
 */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "base/sat.h"
#include "check.h"
#include "core/state.h"
#include "limiter/limiter.h"
#include "threads/team.h"

#define THREADS 64

static int64_t cycles(void)
{
    return team_scaled(check_env("WEIR_WAIT_CYCLES", 200000));
}

static struct weir_limiter *limiter_of(const char *limits)
{
    struct weir_error err;
    struct weir_limiter *limiter = weir_limiter_new(limits, &err);
    if (!limiter) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
    return limiter;
}

/* ---- waits of all kinds ---- */

struct mixed {
    struct weir_limiter *limiter;
    size_t threads;
    int64_t each;
    struct weir_stop stops[THREADS];
    atomic_llong admitted, refused, stopped, wrong;
    atomic_llong latest; /* time of the last promise that was kept */
};

static void keep_latest(struct mixed *m, int64_t time)
{
    long long seen = atomic_load(&m->latest);
    while (seen < time && !atomic_compare_exchange_weak(&m->latest, &seen, time))
        ;
}

static void wait_once(struct mixed *m, size_t self, struct rng *rng)
{
    struct weir_verdict v;
    int64_t n = rng_between(rng, 1, 2), way = rng_between(rng, 0, 3);
    int64_t timeout = way == 0 ? rng_between(rng, 0, 50000) : WEIR_FOREVER;
    weir_stop_clear(&m->stops[self]);
    bool allowed = weir_limiter_acquire_unless(m->limiter, n, timeout, &m->stops[self], &v);
    if (allowed)
        atomic_fetch_add(&m->admitted, n);
    else if (v.reason == WEIR_CANCELED)
        atomic_fetch_add(&m->stopped, 1);
    else if (v.reason == WEIR_LATER && way == 0)
        atomic_fetch_add(&m->refused, 1);
    else
        atomic_fetch_add(&m->wrong, 1);
}

static void reserve_once(struct mixed *m, struct rng *rng)
{
    struct weir_reservation r;
    if (!weir_limiter_reserve(m->limiter, 1, WEIR_FOREVER, &r, NULL))
        atomic_fetch_add(&m->wrong, 1);
    else if (rng_between(rng, 0, 1) && weir_limiter_cancel(m->limiter, &r))
        atomic_fetch_add(&m->stopped, 1);
    else {
        atomic_fetch_add(&m->admitted, 1);
        keep_latest(m, r.due_ns);
    }
}

static void mixed_body(size_t self, void *arg)
{
    struct mixed *m = arg;
    struct rng rng = rng_new(self);
    for (int64_t i = 0; i < m->each; i++) {
        int64_t way = rng_between(&rng, 0, 9);
        if (way < 2)
            weir_stop_set(&m->stops[rng_between(&rng, 0, (int64_t)m->threads - 1)]);
        if (way == 9)
            reserve_once(m, &rng);
        else
            wait_once(m, self, &rng);
    }
}

/* By the law of the rate alone: R per second and at most `burst` at once, from beginning to end. */
static void check_mixed(const char *limits, int64_t rate, int64_t burst, size_t threads, int64_t count)
{
    static struct mixed m;
    m = (struct mixed){
        .limiter = limiter_of(limits), .threads = threads, .each = count / (int64_t)threads + 1};
    int64_t from = weir_now();
    team_watch(limits);
    team_run(threads, mixed_body, &m);
    team_watch_done();
    int64_t until = max64(weir_now(), atomic_load(&m.latest));
    int64_t most = burst + mul_div(until - from + 1, rate, WEIR_SEC) + 1;
    CHECK_EQ(atomic_load(&m.wrong), 0);
    CHECK(atomic_load(&m.admitted) <= most);
    printf("# %s, %zu threads: %lld units of at most %" PRId64 ", %lld refused, %lld stopped\n", limits,
           threads, (long long)atomic_load(&m.admitted), most, (long long)atomic_load(&m.refused),
           (long long)atomic_load(&m.stopped));
    struct weir_stat stat;
    weir_limiter_stat(m.limiter, &stat);
    CHECK_EQ(stat.waiting, 0);
    weir_limiter_stat_at(m.limiter, until + WEIR_SEC, &stat);
    CHECK_EQ(stat.available, burst);
    weir_limiter_free(m.limiter);
}

TEST(waits_of_all_kinds_end_and_keep_the_law)
{
    static const size_t teams[] = {8, 16, 64};
    int64_t count = cycles() / 2;
    for (size_t i = 0; i < 3; i++) {
        check_mixed("200k/s burst=4", 200000, 4, teams[i], count / 6);
        check_mixed("200k/s burst=4, 150k/s burst=100", 200000, 4, teams[i], count / 6);
    }
}

/* ---- waits that are all stopped ---- */

struct stopped {
    struct weir_limiter *limiter;
    size_t threads;
    int64_t each;
    struct weir_stop stops[THREADS];
    atomic_bool over[THREADS];
    atomic_llong allowed;
};

static void wait_to_be_stopped(size_t self, void *arg)
{
    struct stopped *s = arg;
    struct weir_verdict v;
    for (int64_t i = 0; i < s->each; i++) {
        if (weir_limiter_acquire_unless(s->limiter, 1, WEIR_FOREVER, &s->stops[self], &v))
            atomic_fetch_add(&s->allowed, 1);
        weir_stop_clear(&s->stops[self]);
    }
    atomic_store(&s->over[self], true);
}

/* What is in it, in the form of the core. */
static size_t copy_state(struct weir_limiter *limiter, int64_t *words)
{
    size_t count = limiter->policy->words;
    lock_take(&limiter->lock);
    if (limiter->state) {
        memcpy(words, limiter->state, count * sizeof *words);
    } else {
        weir_word_hold(&limiter->word, words);
        weir_word_return(&limiter->word, words);
    }
    lock_drop(&limiter->lock);
    return count * sizeof *words;
}

/* An hour lies before the next turn. Others stop them, in any order: in the end nobody has ever asked. */
static void check_stopped(const char *limits, size_t threads, int64_t count, int64_t clock)
{
    static struct stopped s;
    int64_t before[UNDO_WORDS], after[UNDO_WORDS];
    struct rng rng = rng_new(threads);
    weir_clock_set(clock);
    s = (struct stopped){
        .limiter = limiter_of(limits), .threads = threads, .each = count / (int64_t)threads + 1};
    while (weir_limiter_take(s.limiter, 1, NULL))
        ;
    size_t size = copy_state(s.limiter, before);
    team_watch(limits);
    struct team *team = team_start(threads, wait_to_be_stopped, &s);
    while (team_running(team) > 0) {
        size_t which = (size_t)rng_between(&rng, 0, (int64_t)threads - 1);
        for (size_t i = 0; i < threads && atomic_load(&s.over[which]); i++)
            which = (which + 1) % threads; /* a yield for each that is over takes long on a busy machine */
        if (!atomic_load(&s.over[which]))
            weir_stop_set(&s.stops[which]);
        else
            team_yield();
    }
    team_join(team);
    team_watch_done();
    CHECK_EQ(atomic_load(&s.allowed), 0);
    CHECK(copy_state(s.limiter, after) == size && memcmp(before, after, size) == 0);
    weir_limiter_free(s.limiter);
    weir_clock_set(-1);
}

TEST(waits_that_are_stopped_leave_nothing_behind)
{
    int64_t count = cycles() / 2;
    check_stopped("1/h burst=1", 8, count / 8, -1);
    check_stopped("1/h burst=1", 64, count / 8, -1);
    check_stopped("2/2h burst=1 algo=step", 8, count / 8, -1);
    check_stopped("1/h burst=1, 3/h algo=sliding-log", 64, count / 8, -1);
}

struct single {
    struct weir_limiter *limiter;
    struct weir_stop stop;
    int64_t count;
    atomic_llong asked, answered; /* waits */
};

static void wait_again_and_again(size_t self, void *arg)
{
    struct single *s = arg;
    (void)self;
    for (int64_t i = 0; i < s->count; i++) {
        atomic_fetch_add(&s->asked, 1);
        (void)weir_limiter_acquire_unless(s->limiter, 1, WEIR_FOREVER, &s->stop, NULL);
        weir_stop_clear(&s->stop);
        atomic_fetch_add(&s->answered, 1);
    }
}

/* Every wait is stopped once, at any moment from before it begins until it sleeps. The clock stands, and
 * nobody else is there to wake it: if it misses that, it waits for ever. */
TEST(no_stop_is_missed_while_the_clock_stands)
{
    static const char *const limits[] = {"1/h burst=1", "1/h burst=1, 3/h algo=sliding-log"};
    for (size_t i = 0; i < 2; i++) {
        struct rng rng = rng_new(i);
        weir_clock_set(1000 * WEIR_SEC);
        struct single s = {.limiter = limiter_of(limits[i]), .count = cycles() / 8};
        (void)weir_limiter_take(s.limiter, 1, NULL);
        team_watch(limits[i]);
        struct team *team = team_start(1, wait_again_and_again, &s);
        for (int64_t k = 0; k < s.count; k++) {
            while (atomic_load(&s.asked) == k)
                team_yield();
            for (volatile int64_t spins = rng_between(&rng, 0, 300); spins > 0; spins--)
                ;
            weir_stop_set(&s.stop);
            while (atomic_load(&s.answered) == k)
                team_yield();
        }
        team_join(team);
        team_watch_done();
        weir_limiter_free(s.limiter);
        weir_clock_set(-1);
    }
}

/* ---- first come, first served ---- */

struct line {
    struct weir_limiter *limiter;
    pthread_mutex_t order;
    int64_t last_due, count;
    atomic_bool over;
    atomic_llong inverted;
};

/* Half of them reserve, one at a time, so that their order is known; the others take and wait. */
static void line_body(size_t self, void *arg)
{
    struct line *l = arg;
    for (int64_t i = 0; i < l->count && self % 2; i++) {
        struct weir_reservation r;
        (void)pthread_mutex_lock(&l->order);
        bool promised = weir_limiter_reserve(l->limiter, 1, WEIR_FOREVER, &r, NULL);
        if (!promised || (r.due_ns < l->last_due && l->last_due > weir_now())) /* nobody goes before him */
            atomic_fetch_add(&l->inverted, 1);
        l->last_due = r.due_ns;
        (void)pthread_mutex_unlock(&l->order);
    }
    for (int64_t i = 0; i < l->count && !(self % 2); i++) {
        (void)weir_limiter_take(l->limiter, 1, NULL);
        if (i % 64 == 0)
            (void)weir_limiter_acquire(l->limiter, 1, 1000, NULL);
    }
}

TEST(promises_come_due_in_the_order_in_which_they_were_made)
{
    static const char *const limits[] = {"10M/s burst=3", "10M/s algo=interval", "10M/s burst=3 algo=smooth",
                                         "10/us algo=fixed-window",
                                         "10M/s burst=3, 100/10us algo=sliding-log"};
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        struct line l = {
            .limiter = limiter_of(limits[i]), .order = PTHREAD_MUTEX_INITIALIZER, .count = team_scaled(4000)};
        team_watch(limits[i]);
        team_run(8, line_body, &l);
        team_watch_done();
        if (!CHECK_EQ(atomic_load(&l.inverted), 0))
            printf("# %s\n", limits[i]);
        weir_limiter_free(l.limiter);
    }
}

/* ---- signals ---- */

struct storm {
    struct weir_limiter *limiter;
    pthread_t threads[8];
    atomic_int begun, done; /* threads: the last may begin when the first is done */
    atomic_llong admitted, wrong;
};

static void ignore(int signal)
{
    (void)signal;
}

static void storm_body(size_t self, void *arg)
{
    struct storm *s = arg;
    s->threads[self] = pthread_self();
    atomic_fetch_add(&s->begun, 1);
    for (int i = 0; i < 25; i++) {
        errno = 42;
        atomic_fetch_add(weir_limiter_acquire(s->limiter, 1, WEIR_FOREVER, NULL) ? &s->admitted : &s->wrong,
                         1);
        atomic_fetch_add(&s->wrong, errno != 42);
    }
    atomic_fetch_add(&s->done, 1);
    while (atomic_load(&s->done) < 8) /* so that nobody signals a thread that is gone */
        team_yield();
}

TEST(signals_neither_end_nor_disturb_a_wait)
{
    struct sigaction action = {.sa_handler = ignore}, before;
    struct storm s = {.limiter = limiter_of("2k/s burst=1")};
    (void)sigaction(SIGUSR2, &action, &before);
    int64_t from = weir_now();
    team_watch("signals");
    struct team *team = team_start(8, storm_body, &s);
    while (atomic_load(&s.begun) < 8)
        team_yield();
    long long signals = 0;
    for (; atomic_load(&s.done) < 8; signals++, team_yield()) /* they need a processor, too */
        for (size_t i = 0; i < 8; i++)
            (void)pthread_kill(s.threads[i], SIGUSR2);
    int64_t until = weir_now();
    team_join(team);
    team_watch_done();
    (void)sigaction(SIGUSR2, &before, NULL);
    CHECK_EQ(atomic_load(&s.admitted), 200);
    CHECK_EQ(atomic_load(&s.wrong), 0);
    CHECK(200 <= 1 + mul_div(until - from + 1, 2000, WEIR_SEC)); /* none came early */
    printf("# %lld signals to each of 8 threads\n", signals);
    weir_limiter_free(s.limiter);
}
