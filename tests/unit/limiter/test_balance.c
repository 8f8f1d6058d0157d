/* SPDX-License-Identifier: MIT */
/*
 * A balance, and a limiter that has one: every verb, every bound, and the account of units. Threads are in
 * tests/threads/balances.c, and all interleavings of the exchanges in tests/explore/explore_balance.c.
 */
#define _POSIX_C_SOURCE 200809L
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "limiter/balance.h"
#include "limiter/balance_limiter.h"
#include "limiter/life.h"

#define START (1000 * WEIR_SEC)
#define UNTIL (START + WEIR_SEC)

/* A balance that remembers what was asked of whoever fills it. */
struct fake {
    struct lease_balance balance;
    int wants, explains, acquires, frees;
    int64_t wanted, explained, timeout_ns;
    bool acquired;
    struct weir_limiter *limiter;
    int64_t waiting; /* that stat said during an acquire */
};

static struct fake *fake_of(struct lease_balance *balance)
{
    return balance->owner;
}

static void fake_want(struct lease_balance *balance, int64_t n)
{
    fake_of(balance)->wants++;
    fake_of(balance)->wanted = n;
}

static void fake_explain(struct lease_balance *balance, int64_t now, int64_t n, struct weir_verdict *verdict)
{
    (void)now;
    fake_of(balance)->explains++;
    fake_of(balance)->explained = n;
    verdict->retry_after_ns = 7 * WEIR_MS;
}

static bool fake_acquire(struct lease_balance *balance, int64_t now, int64_t n, int64_t timeout_ns,
                         struct weir_stop *stop, struct weir_verdict *verdict)
{
    struct fake *f = fake_of(balance);
    struct weir_stat stat;
    (void)now, (void)n, (void)stop;
    f->acquires++;
    f->timeout_ns = timeout_ns;
    weir_limiter_stat(f->limiter, &stat);
    f->waiting = stat.waiting;
    *verdict = (struct weir_verdict){.allowed = f->acquired, .reason = f->acquired ? WEIR_OK : WEIR_LATER};
    return f->acquired;
}

static void fake_free(struct lease_balance *balance)
{
    fake_of(balance)->frees++;
}

static const struct balance_ops fake_ops = {
    .want = fake_want, .explain = fake_explain, .acquire = fake_acquire, .free = fake_free};

/* A limiter at START with `units` until UNTIL. */
static struct weir_limiter *fake_open(struct fake *f, int64_t units)
{
    struct weir_error err;
    memset(f, 0, sizeof *f);
    weir_clock_set(START);
    weir_balance_init(&f->balance, &fake_ops, f);
    (void)weir_balance_set_deadline(&f->balance, UNTIL);
    weir_balance_put(&f->balance, units);
    f->limiter = weir_balance_limiter(&f->balance, "100/s timeout=3s", &err);
    if (!CHECK(f->limiter != NULL))
        printf("# %s\n", err.text);
    return f->limiter;
}

static void fake_close(struct fake *f)
{
    weir_limiter_free(f->limiter);
    CHECK_EQ(f->frees, 1);
    weir_clock_set(-1);
}

static int64_t put_of(const struct lease_balance *balance)
{
    return balance_load(&balance->put);
}

/* The account of the header. */
static void check_account(const struct lease_balance *balance, int64_t spent)
{
    CHECK_EQ(weir_balance_spent(balance), spent);
    CHECK_EQ(put_of(balance), weir_balance_spent(balance) + weir_balance_held(balance) +
                                  balance_load(&balance->withdrawn) + weir_balance_dropped(balance));
}

/* ---- taking ---- */

TEST(what_was_put_in_passes_and_no_more)
{
    struct fake f;
    struct weir_limiter *l = fake_open(&f, 10);
    CHECK(weir_limiter_take(l, 4, NULL));
    CHECK(weir_limiter_take_at(l, START, 5, NULL));
    CHECK(!weir_limiter_take(l, 2, NULL));
    CHECK(weir_limiter_take(l, 1, NULL));
    CHECK(!weir_limiter_take(l, 1, NULL));
    CHECK(!weir_limiter_take(l, INT64_MAX, NULL));
    CHECK_EQ(weir_balance_held(&f.balance), 0);
    check_account(&f.balance, 10);
    fake_close(&f);
}

TEST(nonsense_is_refused_and_changes_nothing)
{
    struct fake f;
    struct weir_verdict v;
    struct weir_reservation r;
    struct weir_limiter *l = fake_open(&f, 10);
    static const int64_t bad[] = {0, -1, INT64_MIN};
    for (int i = 0; i < 3; i++) {
        CHECK(!weir_limiter_take(l, bad[i], &v));
        CHECK_EQ(v.reason, WEIR_INVALID);
        CHECK(!weir_limiter_take_at(l, START, bad[i], NULL));
        CHECK(!weir_limiter_peek(l, bad[i], &v));
        CHECK_EQ(v.reason, WEIR_INVALID);
        CHECK(!weir_limiter_reserve(l, bad[i], 0, &r, &v));
        CHECK_EQ(v.reason, WEIR_INVALID);
        CHECK(!weir_limiter_acquire(l, bad[i], WEIR_SEC, &v));
        CHECK_EQ(v.reason, WEIR_INVALID);
        weir_limiter_give(l, bad[i]);
        weir_limiter_charge(l, bad[i]);
        weir_balance_put(&f.balance, bad[i]);
        CHECK_EQ(weir_balance_withdraw(&f.balance, bad[i], 1), 0);
        CHECK_EQ(weir_balance_withdraw(&f.balance, 1, bad[i]), 0);
    }
    CHECK_EQ(weir_balance_held(&f.balance), 10);
    CHECK_EQ(f.wants, 0);
    CHECK(weir_limiter_balance(NULL) == NULL);
    fake_close(&f);
}

TEST(a_text_that_is_no_limit_is_refused)
{
    struct fake f = {0};
    struct weir_error err;
    CHECK(!weir_balance_limiter(&f.balance, "ten a day", &err));
    CHECK(err.text[0] != '\0');
    CHECK_EQ(f.frees, 0);
}

TEST(nothing_passes_at_or_after_the_deadline)
{
    struct fake f;
    struct weir_limiter *l = fake_open(&f, 10);
    CHECK(weir_limiter_take_at(l, UNTIL - 1, 1, NULL));
    CHECK(!weir_limiter_take_at(l, UNTIL, 1, NULL));
    CHECK_EQ(weir_balance_held(&f.balance),
             9); /* a time that is told needs no look afterwards: nothing is lost */
    weir_clock_set(UNTIL - 1);
    CHECK(weir_limiter_take(l, 1, NULL));
    weir_clock_set(UNTIL);
    CHECK(!weir_limiter_peek(l, 1, NULL));
    CHECK(!weir_limiter_take(l, 1, NULL));
    CHECK_EQ(weir_balance_held(&f.balance), 7);
    CHECK_EQ(weir_limiter_drain(l), 0);
    weir_limiter_give(l, 1);
    CHECK_EQ(weir_balance_held(&f.balance), 7);
    CHECK_EQ(weir_balance_dropped(&f.balance), 1);
    check_account(&f.balance, 2);
    fake_close(&f);
}

TEST(a_balance_that_was_never_turned_gives_nothing)
{
    struct fake f = {0};
    weir_balance_init(&f.balance, &fake_ops, &f);
    weir_balance_put(&f.balance, 5);
    CHECK(!weir_balance_take(&f.balance, 0, 1, true));
    CHECK(!weir_balance_take(&f.balance, 0, 1, false));
    check_account(&f.balance, 0);
}

TEST(verdicts_say_what_would_pass_and_refusals_are_explained)
{
    struct fake f;
    struct weir_verdict v;
    struct weir_limiter *l = fake_open(&f, 10);
    CHECK(weir_limiter_take(l, 4, &v));
    CHECK(v.allowed && v.reason == WEIR_OK && v.remaining == 6 && v.retry_after_ns == 0);
    CHECK_EQ(v.reset_after_ns, WEIR_SEC);
    CHECK(weir_limiter_peek(l, 6, &v));
    CHECK_EQ(v.remaining, 6);
    CHECK_EQ(f.explains, 0);
    CHECK(!weir_limiter_take_at(l, START, 7, &v));
    CHECK(!v.allowed && v.reason == WEIR_LATER && v.remaining == 6);
    CHECK_EQ(v.retry_after_ns, 7 * WEIR_MS);
    CHECK_EQ(f.explained, 7);
    CHECK(!weir_limiter_peek(l, 8, &v));
    CHECK_EQ(f.explained, 8);
    CHECK(!weir_limiter_take_at(l, UNTIL, 1, &v));
    CHECK_EQ(v.remaining, 0);
    fake_close(&f);
}

TEST(a_lease_is_told_its_end_and_never_goes_below_zero)
{
    struct fake f;
    int64_t until;
    (void)fake_open(&f, 10);
    CHECK(weir_balance_lease(&f.balance, START, 7, &until));
    CHECK_EQ(until, UNTIL);
    CHECK(!weir_balance_lease(&f.balance, START, 4, &until));
    CHECK_EQ(weir_balance_refused(&f.balance), 4);
    CHECK(!weir_balance_lease(&f.balance, UNTIL, 1, &until));
    CHECK_EQ(weir_balance_held(&f.balance), 3);
    check_account(&f.balance, 7);
    fake_close(&f);
}

/* ---- giving, charging, draining ---- */

TEST(what_is_given_back_is_never_more_than_was_taken)
{
    struct fake f;
    struct weir_limiter *l = fake_open(&f, 10);
    weir_limiter_give(l, 5);
    CHECK_EQ(weir_balance_held(&f.balance), 10);
    CHECK(weir_limiter_take(l, 8, NULL));
    weir_limiter_give(l, 3);
    CHECK_EQ(weir_balance_held(&f.balance), 5);
    check_account(&f.balance, 5);
    weir_limiter_give(l, INT64_MAX);
    CHECK_EQ(weir_balance_held(&f.balance), 10);
    CHECK(weir_limiter_take(l, 4, NULL));
    CHECK_EQ(weir_balance_withdraw(&f.balance, 5, 9), 1);
    weir_limiter_give(l, 100); /* 5 have left, and are not here to be taken again */
    CHECK_EQ(weir_balance_held(&f.balance), 5);
    check_account(&f.balance, 0);
    fake_close(&f);
}

TEST(what_was_taken_in_one_window_is_not_given_to_the_next_one)
{
    struct fake f;
    struct weir_reservation r;
    struct weir_limiter *l = fake_open(&f, 10);
    CHECK(weir_limiter_reserve(l, 6, 0, &r, NULL));
    CHECK_EQ(weir_balance_set_deadline(&f.balance, UNTIL + WEIR_SEC), 4);
    weir_limiter_give(l, 6); /* nothing was put in under this deadline */
    CHECK_EQ(weir_balance_held(&f.balance), 0);
    weir_balance_put(&f.balance, 8);
    CHECK(weir_limiter_take(l, 8, NULL));
    CHECK(!weir_limiter_cancel(l, &r));
    CHECK_EQ(weir_balance_held(&f.balance), 0);
    CHECK_EQ(r.n, 6);
    check_account(&f.balance, 14);
    fake_close(&f);
}

TEST(a_charge_makes_a_debt_that_stays_until_it_is_repaid)
{
    struct fake f;
    struct weir_limiter *l = fake_open(&f, 10);
    weir_limiter_charge(l, 14);
    CHECK_EQ(weir_balance_held(&f.balance), -4);
    CHECK(!weir_limiter_take(l, 1, NULL));
    CHECK_EQ(weir_limiter_drain(l), 0);
    CHECK_EQ(weir_balance_set_deadline(&f.balance, UNTIL + WEIR_SEC), 0);
    CHECK_EQ(weir_balance_held(&f.balance), -4);
    CHECK_EQ(weir_balance_withdraw(&f.balance, 1, 5), 0);
    weir_balance_put(&f.balance, 6);
    CHECK(weir_limiter_take(l, 2, NULL));
    CHECK(!weir_limiter_take(l, 1, NULL));
    check_account(&f.balance, 16);
    weir_limiter_charge(l, INT64_MAX);
    weir_limiter_charge(l, INT64_MAX);
    CHECK(weir_balance_held(&f.balance) < -INT64_MAX / 8);
    CHECK(!weir_limiter_take(l, 1, NULL));
    fake_close(&f);
}

TEST(a_debt_is_repaid_and_nothing_else_is_put_in)
{
    struct fake f;
    struct weir_limiter *l = fake_open(&f, 10);
    CHECK_EQ(weir_balance_repay(&f.balance, 5), 0);
    weir_limiter_charge(l, 18);
    CHECK_EQ(weir_balance_held(&f.balance), -8);
    CHECK_EQ(weir_balance_repay(&f.balance, 0), 0);
    CHECK_EQ(weir_balance_repay(&f.balance, -1), 0);
    CHECK_EQ(weir_balance_repay(&f.balance, 5), 5);
    check_account(&f.balance, 18);
    CHECK_EQ(weir_balance_repay(&f.balance, INT64_MAX), 3);
    CHECK_EQ(weir_balance_held(&f.balance), 0);
    check_account(&f.balance, 18);
    CHECK_EQ(weir_balance_repay(&f.balance, 5), 0);
    CHECK(!weir_limiter_take(l, 1, NULL));
    weir_limiter_give(l, 18); /* what has paid the debt may have died meanwhile */
    CHECK_EQ(weir_balance_held(&f.balance), 10);
    fake_close(&f);
}

TEST(a_drain_takes_all_and_asks_for_nothing)
{
    struct fake f;
    struct weir_limiter *l = fake_open(&f, 10);
    weir_balance_set_low(&f.balance, 5);
    CHECK_EQ(weir_limiter_drain(l), 10);
    CHECK_EQ(weir_limiter_drain(l), 0);
    CHECK_EQ(f.wants, 0);
    check_account(&f.balance, 10);
    fake_close(&f);
}

/* ---- filling ---- */

TEST(a_turn_drops_what_is_left_and_the_account_stays_right)
{
    struct fake f;
    struct weir_limiter *l = fake_open(&f, 10);
    CHECK(weir_limiter_take(l, 3, NULL));
    CHECK_EQ(weir_balance_set_deadline(&f.balance, UNTIL + WEIR_SEC), 7);
    CHECK(!weir_limiter_take(l, 1, NULL));
    weir_balance_put(&f.balance, 5);
    CHECK_EQ(weir_balance_withdraw(&f.balance, 2, 1), 1);
    CHECK_EQ(weir_balance_withdraw(&f.balance, 2, 9), 1);
    CHECK_EQ(weir_balance_withdraw(&f.balance, 2, 9), 0);
    CHECK_EQ(weir_balance_held(&f.balance), 1);
    CHECK(weir_limiter_take(l, 1, NULL));
    check_account(&f.balance, 4);
    fake_close(&f);
}

TEST(a_deadline_never_comes_nearer)
{
    struct fake f;
    struct weir_limiter *l = fake_open(&f, 10);
    CHECK_EQ(weir_balance_set_deadline(&f.balance, UNTIL - 1), 10);
    weir_balance_put(&f.balance, 4);
    CHECK_EQ(weir_balance_held(&f.balance), 0);
    CHECK_EQ(weir_balance_dropped(&f.balance), 14);
    CHECK(!weir_limiter_take(l, 1, NULL));
    CHECK_EQ(weir_balance_set_deadline(&f.balance, UNTIL), 0);
    weir_balance_put(&f.balance, 4);
    CHECK(weir_limiter_take(l, 4, NULL));
    check_account(&f.balance, 4);
    fake_close(&f);
}

TEST(what_does_not_fit_is_dropped)
{
    struct fake f;
    (void)fake_open(&f, 10);
    weir_balance_put(&f.balance, INT64_MAX - 10);
    CHECK(weir_balance_held(&f.balance) > 0);
    CHECK(weir_balance_held(&f.balance) <= INT64_MAX / 4);
    check_account(&f.balance, 0);
    fake_close(&f);
}

/* ---- asking ---- */

TEST(more_is_asked_for_once_until_that_was_heard)
{
    struct fake f;
    struct weir_limiter *l = fake_open(&f, 10);
    weir_balance_set_low(&f.balance, 5);
    CHECK(weir_limiter_take(l, 5, NULL));
    CHECK_EQ(f.wants, 0);
    CHECK(weir_limiter_take(l, 1, NULL));
    CHECK_EQ(f.wants, 1);
    CHECK_EQ(f.wanted, 0);
    CHECK(weir_limiter_take(l, 1, NULL));
    CHECK(!weir_limiter_take(l, 7, NULL));
    CHECK_EQ(f.wants, 1);
    weir_balance_rearm(&f.balance);
    CHECK_EQ(f.wants, 1);
    CHECK_EQ(weir_balance_refused(&f.balance), 7);
    CHECK_EQ(weir_balance_refused(&f.balance), 0);
    CHECK(weir_limiter_take_at(l, START, 1, NULL));
    CHECK_EQ(f.wants, 2);
    weir_balance_rearm(&f.balance);
    CHECK(!weir_limiter_take(l, 9, NULL));
    CHECK_EQ(f.wants, 3);
    CHECK_EQ(f.wanted, 9);
    weir_balance_rearm(&f.balance);
    weir_limiter_charge(l, 1);
    CHECK_EQ(f.wants, 4);
    fake_close(&f);
}

TEST(refused_units_saturate)
{
    struct fake f;
    struct weir_limiter *l = fake_open(&f, 10);
    CHECK(!weir_limiter_take(l, INT64_MAX, NULL));
    CHECK(!weir_limiter_take(l, INT64_MAX, NULL));
    CHECK_EQ(weir_balance_refused(&f.balance), INT64_MAX);
    fake_close(&f);
}

/* Every way to be refused asks for more, or nobody ever would. */
TEST(every_refusal_asks_for_more)
{
    struct fake f;
    int64_t until;
    struct weir_limiter *l = fake_open(&f, 1);
    CHECK(!weir_limiter_peek(l, 2, NULL));
    CHECK_EQ(f.wants, 1);
    weir_balance_rearm(&f.balance);
    CHECK(!weir_limiter_take_at(l, UNTIL, 1, NULL));
    CHECK_EQ(f.wants, 2);
    weir_balance_rearm(&f.balance);
    CHECK(!weir_balance_lease(&f.balance, START, 2, &until));
    CHECK_EQ(f.wants, 3);
    weir_balance_rearm(&f.balance);
    weir_clock_set(UNTIL);
    CHECK(!weir_limiter_take(l, 1, NULL)); /* late */
    CHECK_EQ(f.wants, 4);
    weir_balance_rearm(&f.balance);
    CHECK(!weir_limiter_take(l, 1, NULL)); /* none there */
    CHECK_EQ(f.wants, 5);
    fake_close(&f);
}

TEST(who_watches_asks_for_nothing)
{
    struct fake f;
    struct weir_stat stat;
    struct weir_limiter *l = fake_open(&f, 3);
    weir_limiter_stat(l, &stat);
    CHECK_EQ(stat.available, 3);
    CHECK_EQ(stat.wait_ns, 0);
    CHECK(weir_limiter_take(l, 3, NULL));
    weir_limiter_stat(l, &stat);
    CHECK_EQ(stat.available, 0);
    CHECK_EQ(stat.wait_ns, 7 * WEIR_MS);
    CHECK_EQ(f.wants, 0);
    fake_close(&f);
}

/* ---- the other verbs ---- */

TEST(an_acquire_takes_or_waits_as_the_owner_says)
{
    struct fake f;
    struct weir_verdict v;
    struct weir_stop stop = {0};
    struct weir_limiter *l = fake_open(&f, 3);
    CHECK(weir_limiter_acquire(l, 2, WEIR_SEC, &v));
    CHECK(v.allowed && v.remaining == 1);
    CHECK_EQ(f.acquires, 0);
    CHECK(!weir_limiter_acquire(l, 2, 0, NULL));
    CHECK_EQ(f.acquires, 0);
    CHECK(!weir_limiter_acquire(l, 2, WEIR_SEC, &v));
    CHECK_EQ(f.timeout_ns, WEIR_SEC);
    CHECK_EQ(f.waiting, 1);
    f.acquired = true;
    CHECK(weir_limiter_acquire(l, 2, -1, NULL));
    CHECK_EQ(f.timeout_ns, 3 * WEIR_SEC); /* timeout= of the limit */
    CHECK(weir_limiter_acquire_at(l, UNTIL, 1, WEIR_FOREVER, &stop, NULL));
    CHECK_EQ(f.acquires, 3);
    weir_stop_set(&stop);
    CHECK(!weir_limiter_acquire_unless(l, 1, WEIR_SEC, &stop, &v));
    CHECK_EQ(v.reason, WEIR_CANCELED);
    CHECK_EQ(f.acquires, 3);
    fake_close(&f);
}

/* The clock is read when a call begins; what was asked for by the clock is looked at again afterwards. */
TEST(an_acquire_of_units_that_have_died_has_nothing)
{
    struct fake f;
    struct weir_limiter *l = fake_open(&f, 3);
    weir_clock_set(UNTIL);
    CHECK(!weir_limiter_acquire(l, 1, 0, NULL));
    CHECK(!weir_limiter_reserve(l, 1, 0, NULL, NULL));
    CHECK_EQ(weir_balance_dropped(&f.balance), 2);
    CHECK(weir_limiter_acquire_at(l, START, 1, 0, NULL, NULL));
    fake_close(&f);
}

static int64_t run_nothing(void *arg)
{
    ++*(int *)arg;
    return 5;
}

static bool drain_always(void *arg, int64_t result)
{
    (void)arg;
    return result == 5;
}

TEST(a_call_runs_under_it_and_may_drain_it)
{
    struct fake f;
    struct weir_limiter *l = fake_open(&f, 10);
    int ran = 0;
    struct weir_call call = {.run = run_nothing, .arg = &ran, .n = 2, .drain_on = drain_always};
    CHECK(weir_limiter_call(l, &call, NULL));
    CHECK_EQ(weir_balance_held(&f.balance), 0);
    CHECK(!weir_limiter_call(l, &call, NULL));
    CHECK_EQ(ran, 1);
    check_account(&f.balance, 10);
    fake_close(&f);
}

TEST(a_reservation_is_a_take_that_can_be_handed_back_once)
{
    struct fake f;
    struct weir_reservation r;
    struct weir_verdict v;
    struct weir_limiter *l = fake_open(&f, 10);
    CHECK(!weir_limiter_reserve(l, 11, WEIR_FOREVER, &r, &v));
    CHECK_EQ(r.n, 0);
    CHECK(!weir_limiter_cancel(l, &r));
    CHECK(weir_limiter_reserve(l, 6, WEIR_FOREVER, &r, &v));
    CHECK(v.allowed && r.n == 6 && r.wait_ns == 0 && r.due_ns == START);
    CHECK(weir_limiter_cancel(l, &r));
    CHECK(!weir_limiter_cancel(l, &r));
    CHECK_EQ(weir_balance_held(&f.balance), 10);
    CHECK(weir_limiter_reserve_at(l, START, 6, 0, &r, NULL));
    weir_clock_set(UNTIL);
    CHECK(!weir_limiter_cancel(l, &r));
    check_account(&f.balance, 6);
    fake_close(&f);
}

TEST(what_belongs_to_the_fleet_is_refused_with_what_to_use)
{
    struct fake f;
    struct weir_error err;
    struct weir_spec specs[1];
    struct weir_limiter *l = fake_open(&f, 10);
    CHECK(!weir_limiter_set(l, "5/s", &err));
    CHECK_STR(err.text, "this limit belongs to a fleet: use weir quota set");
    CHECK_EQ(weir_spec_parse("5/s", specs, 1, &err), 1);
    CHECK(!weir_limiter_set_from(l, specs, 1, &err));
    CHECK_STR(err.text, "this limit belongs to a fleet: use weir quota set");
    CHECK(!weir_limiter_set(NULL, "5/s", &err));
    CHECK_STR(err.text, "no limiter to set (NULL)");
    CHECK(!weir_handle_new(l, 5, &err));
    CHECK(strstr(err.text, "no handles"));
    CHECK(weir_limiter_take(l, 9, NULL));
    weir_limiter_reset(l);
    CHECK_EQ(weir_limiter_restart(l), 0);
    CHECK_EQ(weir_balance_held(&f.balance), 1);
    fake_close(&f);
}

struct heard {
    int success, failure, drained, reason;
};

static void hear(void *arg, const struct weir_event *event)
{
    struct heard *h = arg;
    h->success += event->kind == WEIR_EVENT_SUCCESS;
    h->failure += event->kind == WEIR_EVENT_FAILURE;
    h->drained += event->kind == WEIR_EVENT_DRAINED;
    h->reason = event->reason;
}

TEST(listeners_hear_of_every_decision)
{
    struct fake f;
    struct heard h = {0};
    struct weir_limiter *l = fake_open(&f, 3);
    CHECK(weir_limiter_listen(l, hear, &h));
    CHECK(weir_limiter_take(l, 1, NULL));
    CHECK(weir_limiter_take_at(l, START, 1, NULL));
    CHECK_EQ(h.success, 2);
    CHECK(!weir_limiter_take(l, 5, NULL));
    CHECK(h.failure == 1 && h.reason == WEIR_LATER);
    CHECK(weir_limiter_reserve(l, 1, 0, NULL, NULL));
    CHECK(!weir_limiter_acquire(l, 1, WEIR_SEC, NULL));
    f.acquired = true;
    CHECK(weir_limiter_acquire(l, 1, WEIR_SEC, NULL));
    CHECK(h.success == 4 && h.failure == 2);
    CHECK_EQ(weir_limiter_drain(l), 0);
    CHECK_EQ(h.drained, 1);
    fake_close(&f);
}

TEST(it_says_its_text_and_ends_with_the_last_reference)
{
    struct fake f;
    char text[64];
    struct weir_limiter *l = fake_open(&f, 3);
    CHECK(weir_limiter_balance(l) == &f.balance);
    (void)weir_limiter_text(l, text, sizeof text);
    CHECK_STR(text, "100/s timeout=3s");
    CHECK(weir_limiter_ref(l) == l);
    weir_limiter_free(l);
    CHECK_EQ(f.frees, 0);
    fake_close(&f);
    struct weir_limiter *plain = weir_limiter_new("5/s", NULL);
    CHECK(weir_limiter_balance(plain) == NULL);
    weir_limiter_free(plain);
}

/* The exit status is what went wrong in the child, as bits. */
static int child_tries(struct fake *f, struct weir_limiter *l, struct weir_reservation *r)
{
    struct weir_verdict v;
    int wrong = 0;
    wrong |= weir_limiter_take(l, 1, &v) ? 1 : 0;
    wrong |= v.reason != WEIR_NEVER ? 2 : 0;
    wrong |= weir_limiter_take(l, 1, NULL) || weir_limiter_take_at(l, START, 1, NULL) ? 4 : 0;
    wrong |= weir_limiter_acquire(l, 1, WEIR_FOREVER, &v) || weir_limiter_peek(l, 1, NULL) ? 8 : 0;
    weir_limiter_give(l, 1);
    weir_limiter_charge(l, 1);
    wrong |= weir_limiter_cancel(l, r) || weir_limiter_drain(l) != 0 ? 16 : 0;
    wrong |= weir_limiter_balance(l) ? 32 : 0;
    weir_limiter_free(l);
    wrong |= f->frees || f->wants || f->acquires ? 64 : 0;
    return wrong;
}

TEST(a_forked_child_has_none_of_it)
{
    struct fake f;
    struct weir_reservation r;
    struct weir_limiter *l = fake_open(&f, 10);
    CHECK(weir_limiter_reserve(l, 1, 0, &r, NULL));
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        _exit(child_tries(&f, l, &r));
    int status = -1;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK_EQ(status, 0);
    CHECK(weir_limiter_take(l, 9, NULL));
    fake_close(&f);
}

/* ---- any story ---- */

/* One thread, any verbs, time that moves: nothing passes that was not put in under its deadline, and the
 * account is right after every step. */
TEST(every_story_keeps_the_account)
{
    struct fake f;
    struct rng rng = rng_new(1);
    struct weir_limiter *l = fake_open(&f, 0);
    int64_t now = START, until = UNTIL, put = 0, net = 0, debt = 0; /* of this deadline */
    for (int i = 0; i < 200000; i++) {
        int64_t n = 1 + rng_between(&rng, 0, 19), before = weir_balance_held(&f.balance);
        switch (rng_between(&rng, 0, 8)) {
        case 0:
            now += rng_between(&rng, 0, 299) * WEIR_MS;
            weir_clock_set(now);
            break;
        case 1:
            until = max64(until, now + rng_between(&rng, 0, 1999) * WEIR_MS);
            CHECK_EQ(weir_balance_set_deadline(&f.balance, until), max64(before, 0));
            put = net = 0;
            debt = max64(-before, 0);
            break;
        case 2:
            weir_balance_put(&f.balance, n);
            put += n;
            break;
        case 3:
            put -= n * weir_balance_withdraw(&f.balance, n, 2);
            break;
        case 4:
            weir_limiter_give(l, n);
            net -= weir_balance_held(&f.balance) - before;
            CHECK(now < until || weir_balance_held(&f.balance) == before);
            break;
        case 5:
            if (rng_between(&rng, 0, 9) == 0) {
                weir_limiter_charge(l, n);
                net += n;
            }
            break;
        default:
            if (rng_between(&rng, 0, 1) ? weir_limiter_take(l, n, NULL)
                                        : weir_limiter_take_at(l, now, n, NULL)) {
                net += n;
                CHECK(now < until && before >= n && net + debt <= put);
            } else {
                CHECK(now >= until || before < n);
                net += before - weir_balance_held(&f.balance); /* late: gone */
            }
            break;
        }
        CHECK_EQ(weir_balance_held(&f.balance), put - net - debt);
        CHECK_EQ(put_of(&f.balance), weir_balance_spent(&f.balance) + weir_balance_held(&f.balance) +
                                         balance_load(&f.balance.withdrawn) +
                                         weir_balance_dropped(&f.balance));
    }
    fake_close(&f);
}
