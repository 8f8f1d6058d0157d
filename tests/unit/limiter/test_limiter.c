/* SPDX-License-Identifier: MIT */
/*
 * What callers are promised beyond the decisions themselves: pauses, reasons, verdicts, owners. Decisions are
 * checked by prop-limiter, threads by tests/threads.
 */
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "check.h"
#include "weir.h"

static struct weir_limiter *open_at(const char *limits, int64_t now)
{
    struct weir_error err;
    weir_clock_set(now);
    struct weir_limiter *l = weir_limiter_new(limits, &err);
    if (!l)
        printf("# %s\n", err.text);
    return l;
}

static void close_it(struct weir_limiter *l)
{
    weir_limiter_free(l);
    weir_clock_set(-1);
}

static int64_t available(struct weir_limiter *l)
{
    struct weir_stat stat;
    weir_limiter_stat(l, &stat);
    return stat.available;
}

static int64_t wait_of(struct weir_limiter *l)
{
    struct weir_stat stat;
    weir_limiter_stat(l, &stat);
    return stat.wait_ns;
}

/* ---- pauses ---- */

TEST(a_pause_keeps_what_was_saved_and_spent)
{
    static const char *const limits[] = {"5/m", "5/m algo=sliding-log", "5/m, 100/h",
                                         "5/m algo=fixed-window"};
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        struct weir_limiter *l = open_at(limits[i], WEIR_SEC);
        CHECK(weir_limiter_take(l, 2, NULL));
        CHECK(weir_limiter_set(l, "blocked", NULL));
        CHECK(!weir_limiter_take(l, 1, NULL));
        CHECK_EQ(available(l), 0);
        CHECK_EQ(wait_of(l), WEIR_FOREVER);
        CHECK(weir_limiter_set(l, limits[i], NULL));
        CHECK_EQ(available(l), 3);
        weir_clock_set(600 * WEIR_SEC);
        CHECK(weir_limiter_set(l, "blocked", NULL));
        CHECK(weir_limiter_set(l, "blocked", NULL));
        CHECK(weir_limiter_set(l, limits[i], NULL));
        CHECK_EQ(available(l), 5);
        close_it(l);
    }
}

TEST(what_is_charged_during_a_pause_counts)
{
    struct weir_limiter *l = open_at("5/m", WEIR_SEC);
    char text[32];
    CHECK(weir_limiter_set(l, "blocked", NULL));
    CHECK_EQ(weir_limiter_text(l, text, sizeof text), 7);
    CHECK_STR(text, "blocked");
    weir_limiter_charge(l, 4);
    CHECK(weir_limiter_set(l, "5/m", NULL));
    CHECK_EQ(available(l), 1);
    close_it(l);
}

TEST(a_limiter_that_begins_blocked_starts_fresh)
{
    struct weir_limiter *l = open_at("blocked", WEIR_SEC);
    CHECK(!weir_limiter_take(l, 1, NULL));
    CHECK(weir_limiter_set(l, "5/m", NULL));
    CHECK_EQ(available(l), 5);
    close_it(l);
}

struct wanting {
    struct weir_limiter *limiter;
    int64_t n;
    struct weir_verdict verdict;
    pthread_t thread;
};

static void *acquire(void *arg)
{
    struct wanting *w = arg;
    (void)weir_limiter_acquire(w->limiter, w->n, WEIR_FOREVER, &w->verdict);
    return NULL;
}

static void begin(struct wanting *w, struct weir_limiter *limiter, int64_t n)
{
    struct weir_stat before, after;
    *w = (struct wanting){.limiter = limiter, .n = n};
    weir_limiter_stat(limiter, &before);
    CHECK_EQ(pthread_create(&w->thread, NULL, acquire, w), 0);
    do {
        (void)sched_yield();
        weir_limiter_stat(limiter, &after);
    } while (after.waiting == before.waiting);
}

static void end(struct wanting *w)
{
    CHECK_EQ(pthread_join(w->thread, NULL), 0);
}

/* One that can never go stands in the list for a moment still: those behind it must not lose their promises.
 */
TEST(a_waiter_that_is_refused_does_not_cost_those_behind_it)
{
    struct weir_limiter *l = open_at("10/s burst=10", WEIR_SEC);
    struct weir_reservation r;
    struct wanting first, never, last;
    CHECK(weir_limiter_take(l, 10, NULL));
    CHECK(weir_limiter_set(l, "blocked", NULL));
    begin(&first, l, 10);
    begin(&never, l, 20);
    begin(&last, l, 10);
    CHECK(weir_limiter_set(l, "10/s burst=10", NULL));
    CHECK(weir_limiter_set(l, "10/s burst=11", NULL));
    CHECK(weir_limiter_reserve(l, 10, WEIR_FOREVER, &r, NULL));
    CHECK_EQ(r.due_ns, 4 * WEIR_SEC);
    end(&never);
    CHECK_EQ(never.verdict.reason, WEIR_NEVER);
    weir_clock_set(5 * WEIR_SEC);
    end(&first);
    end(&last);
    CHECK(first.verdict.allowed && last.verdict.allowed);
    close_it(l);
}

TEST(a_reset_ends_the_wait_for_a_debt_without_end)
{
    struct weir_limiter *l = open_at("10/s", WEIR_SEC);
    struct wanting w;
    weir_limiter_charge(l, INT64_MAX);
    begin(&w, l, 1);
    weir_limiter_reset(l);
    end(&w);
    CHECK(w.verdict.allowed);
    close_it(l);
}

/* Something came between: what the log had before the promise is not at hand any more. */
TEST(a_cancel_puts_back_what_a_promise_pushed_out_of_several_logs)
{
    struct weir_limiter *l = open_at("2/s algo=sliding-log, 9/m algo=sliding-log", WEIR_SEC);
    struct weir_reservation r;
    CHECK(weir_limiter_take(l, 2, NULL));
    CHECK(weir_limiter_reserve(l, 1, WEIR_FOREVER, &r, NULL));
    CHECK_EQ(r.due_ns, 2 * WEIR_SEC);
    weir_limiter_give(l, 1); /* dropped, as somebody waits */
    CHECK(weir_limiter_cancel(l, &r));
    weir_clock_set(2 * WEIR_SEC - 1);
    CHECK(!weir_limiter_take(l, 1, NULL));
    weir_clock_set(2 * WEIR_SEC);
    CHECK(weir_limiter_take(l, 2, NULL));
    CHECK(!weir_limiter_take(l, 1, NULL));
    close_it(l);
}

/* ---- live change ---- */

TEST(the_same_limits_again_change_nothing)
{
    struct weir_limiter *l = open_at("10/s burst=1", WEIR_SEC);
    struct weir_reservation r;
    CHECK(weir_limiter_take(l, 1, NULL));
    CHECK(weir_limiter_reserve(l, 1, WEIR_SEC, &r, NULL));
    CHECK(weir_limiter_set(l, " 10/s  burst=1", NULL));
    CHECK(weir_limiter_cancel(l, &r));
    CHECK_EQ(wait_of(l), 100 * WEIR_MS);
    close_it(l);
}

TEST(no_limit_refuses_nothing)
{
    struct weir_limiter *l = open_at("1/h", WEIR_SEC);
    CHECK(weir_limiter_take(l, 1, NULL));
    weir_limiter_charge(l, 100);
    CHECK(weir_limiter_set(l, "unlimited", NULL));
    CHECK(weir_limiter_take(l, 1, NULL));
    close_it(l);
}

/* The verdict is about the hour, of which less is left; but no more than 20 pass at once. */
TEST(statistics_count_what_several_limits_let_pass)
{
    struct weir_limiter *l = weir_limiter_new("10/s burst=20, 1000/h", NULL);
    struct weir_verdict verdict;
    struct weir_stat stat;
    int64_t now = weir_now();
    for (int i = 0; i < 10; i++, now += 2 * WEIR_SEC)
        CHECK(weir_limiter_take_at(l, now, 20, NULL));
    CHECK(weir_limiter_peek_at(l, now, 1, &verdict));
    CHECK(verdict.limit == 1 && verdict.remaining == 805);
    weir_limiter_stat_at(l, now, &stat);
    CHECK_EQ(stat.available, 20);
    weir_limiter_free(l);
}

TEST(the_total_behind_survives_other_algorithms)
{
    struct weir_stat stat;
    struct weir_limiter *l = open_at("1000,1.1", WEIR_SEC);
    weir_clock_set(4 * WEIR_SEC);
    weir_limiter_stat(l, &stat);
    int64_t total = stat.behind_total_ns;
    CHECK(total >= 3 * WEIR_SEC);
    CHECK(weir_limiter_set(l, "5k/s", NULL));
    weir_limiter_stat(l, &stat);
    CHECK_EQ(stat.behind_total_ns, total);
    CHECK_EQ(stat.behind_ns, 0);
    CHECK(weir_limiter_set(l, "1000,1.1", NULL));
    weir_limiter_stat(l, &stat);
    CHECK_EQ(stat.behind_total_ns, total);
    close_it(l);
}

TEST(handles_leave_reservations_as_they_are)
{
    struct weir_limiter *l = open_at("10/s burst=10", WEIR_SEC);
    struct weir_reservation r;
    CHECK(weir_limiter_take(l, 10, NULL));
    CHECK(weir_limiter_reserve(l, 1, WEIR_SEC, &r, NULL));
    struct weir_handle *h = weir_handle_new(l, 4, NULL);
    CHECK_EQ(weir_handle_chunk(h), 4);
    CHECK(weir_limiter_cancel(l, &r));
    weir_handle_free(h);
    CHECK_EQ(wait_of(l), 100 * WEIR_MS);
    close_it(l);
}

TEST(a_large_take_through_a_handle_uses_share_and_limiter)
{
    struct weir_verdict v;
    struct weir_limiter *l = open_at("10/s burst=10", WEIR_SEC);
    struct weir_handle *h = weir_handle_new(l, 4, NULL);
    CHECK(weir_handle_take(h, 2, &v));
    CHECK_EQ(v.remaining, 8);
    CHECK(weir_handle_take(h, 8, &v));
    CHECK_EQ(v.remaining, 0);
    CHECK(!weir_handle_take(h, 7, &v));
    CHECK_EQ(v.reason, WEIR_NEVER); /* the share is empty, and the limiter never has more than 6 */
    weir_handle_free(h);
    close_it(l);
}

/* ---- verdicts and events ---- */

TEST(a_stop_that_is_set_refuses_every_wait)
{
    struct weir_verdict v;
    struct weir_stop stop = {0};
    struct weir_limiter *l = open_at("10/s", WEIR_SEC);
    weir_stop_set(&stop);
    static const int64_t timeouts[] = {-1, 0, 1, WEIR_FOREVER};
    for (size_t i = 0; i < sizeof timeouts / sizeof timeouts[0]; i++) {
        CHECK(!weir_limiter_acquire_unless(l, 1, timeouts[i], &stop, &v));
        CHECK_EQ(v.reason, WEIR_CANCELED);
        CHECK_EQ(v.retry_after_ns, WEIR_FOREVER);
    }
    weir_stop_clear(&stop);
    CHECK(weir_limiter_acquire_unless(l, 1, 0, &stop, &v));
    close_it(l);
}

static void note_reason(void *arg, const struct weir_event *event)
{
    *(int32_t *)arg = event->reason;
}

TEST(listeners_hear_the_reason_though_nobody_asked_for_a_verdict)
{
    int32_t reason = -1;
    struct weir_limiter *l = open_at("10/s burst=5", WEIR_SEC);
    CHECK(weir_limiter_listen(l, note_reason, &reason));
    CHECK(!weir_limiter_take(l, 6, NULL));
    CHECK_EQ(reason, WEIR_NEVER);
    CHECK(weir_limiter_take(l, 5, NULL));
    CHECK_EQ(reason, WEIR_OK);
    CHECK(!weir_limiter_reserve(l, 5, 0, NULL, NULL));
    CHECK_EQ(reason, WEIR_LATER);
    CHECK(!weir_limiter_reserve(l, 6, WEIR_FOREVER, NULL, NULL));
    CHECK_EQ(reason, WEIR_NEVER);
    close_it(l);
}

TEST(every_reason_has_a_name)
{
    CHECK_STR(weir_reason_name(WEIR_OK), "ok");
    CHECK_STR(weir_reason_name(WEIR_CANCELED), "canceled");
    CHECK_STR(weir_reason_name(WEIR_INVALID), "invalid");
    CHECK_STR(weir_reason_name(-1), "unknown");
    CHECK_STR(weir_reason_name(INT32_MAX), "unknown");
}

TEST(times_and_numbers_without_sense_do_no_harm)
{
    static const int64_t extremes[] = {INT64_MIN, -1, 0, 1, WEIR_TIME_MAX, INT64_MAX};
    static const char *const limits[] = {"10/s", "10/s algo=hybrid", "10/s algo=warmup warmup=1s",
                                         "10/s, 20/m"};
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        struct weir_limiter *l = open_at(limits[i], WEIR_SEC);
        for (size_t j = 0; j < 36; j++) {
            int64_t now = extremes[j / 6], n = extremes[j % 6];
            struct weir_reservation r;
            (void)weir_limiter_take_at(l, now, n, NULL);
            if (weir_limiter_reserve_at(l, now, n, n, &r, NULL))
                (void)weir_limiter_cancel_at(l, now, &r);
            weir_limiter_give_at(l, now, n);
            (void)weir_limiter_acquire_at(l, now, 1, 0, NULL, NULL);
            CHECK(weir_limiter_set_at(l, now, limits[(i + 1) % 4], NULL));
            weir_limiter_reset_at(l, now);
        }
        close_it(l);
    }
    weir_clock_set(INT64_MAX);
    CHECK_EQ(weir_now(), WEIR_TIME_MAX);
    weir_clock_set(-1);
}

TEST(nothing_but_refusals_come_from_no_limiter)
{
    struct weir_verdict v;
    struct weir_stat stat;
    struct weir_call call = {0};
    struct weir_error err;
    CHECK(!weir_limiter_take(NULL, 1, &v) && v.reason == WEIR_INVALID);
    CHECK(!weir_limiter_acquire(NULL, 1, WEIR_FOREVER, &v) && v.reason == WEIR_INVALID);
    CHECK(!weir_limiter_peek(NULL, 1, &v) && v.reason == WEIR_INVALID);
    CHECK(!weir_limiter_reserve(NULL, 1, 0, NULL, &v) && v.reason == WEIR_INVALID);
    CHECK(!weir_limiter_call(NULL, &call, &v) && v.reason == WEIR_INVALID);
    CHECK(!weir_limiter_cancel(NULL, NULL));
    CHECK(!weir_limiter_set(NULL, "1/s", &err) && err.code != 0);
    CHECK(!weir_handle_take(NULL, 1, &v) && v.reason == WEIR_INVALID);
    CHECK(!weir_handle_new(NULL, 1, &err) && err.code != 0);
    CHECK_EQ(weir_limiter_drain(NULL), 0);
    CHECK_EQ(weir_limiter_text(NULL, NULL, 0), 0);
    CHECK(!weir_limiter_ref(NULL));
    weir_limiter_give(NULL, 1);
    weir_limiter_charge(NULL, 1);
    weir_limiter_reset(NULL);
    weir_limiter_stat(NULL, &stat);
    CHECK_EQ(stat.available, 0);
    weir_limiter_free(NULL);
    weir_handle_free(NULL);
}

TEST(the_last_owner_ends_a_limiter)
{
    struct weir_limiter *l = open_at("10/s", WEIR_SEC);
    CHECK(weir_limiter_ref(l) == l);
    weir_limiter_free(l);
    CHECK(weir_limiter_take(l, 1, NULL));
    close_it(l);
}

static int64_t seven(void *arg)
{
    return *(int64_t *)arg;
}

static bool is_seven(void *arg, int64_t result)
{
    (void)arg;
    return result == 7;
}

TEST(a_guarded_call_counts_runs_and_drains)
{
    int64_t units = 7;
    struct weir_verdict v;
    struct weir_limiter *l = open_at("10/s", WEIR_SEC);
    struct weir_call call = {.run = seven, .arg = &units, .count = seven, .drain_on = is_seven};
    CHECK(weir_limiter_call(l, &call, &v));
    CHECK_EQ(call.result, 7);
    CHECK_EQ(v.remaining, 0);
    CHECK_EQ(available(l), 0);
    call.result = 0;
    CHECK(!weir_limiter_call(l, &call, &v));
    CHECK_EQ(call.result, 0);
    close_it(l);
}
