/* SPDX-License-Identifier: MIT */
/*
 * Vectors of the refill-rate-limiter (and of Resilience4j's own limiter, R21) against algo=token-bucket and
 * algo=fixed-window. Each test has the id of its vector; README.md tells which are kept and which are fixed.
 * Resilience4j's reserve answers 0, a wait or -1, as `reserve` does here; its "available" is `remaining` of a
 * peek, its "nanos to wait" is retry_after_ns of a peek for one unit.
 */
#include "subject.h"

#define P (250 * WEIR_MS)

TEST(r2)
{
    const int64_t want[9] = {0, 0, 0, 4 * WEIR_MS, 8 * WEIR_MS, 12 * WEIR_MS, REFUSED, REFUSED, REFUSED};
    struct subject s = subject_new("3/12ms timeout=12ms", WEIR_SEC);
    int64_t timeout = weir_policy_spec(s.policy, 0)->timeout_ns;
    CHECK_EQ(timeout, 12 * WEIR_MS);
    for (int i = 0; i < 9; i++)
        CHECK_EQ(reserve(&s, WEIR_SEC, 1, timeout), want[i]);
    subject_free(&s);
}

/* The original shows one unit of debt as -1 available; here remaining stays 0 and the wait tells the debt. */
TEST(r3)
{
    struct subject s = subject_new("1/250ms", P);
    CHECK_EQ(reserve(&s, P, 1, P), 0);
    CHECK_EQ(remaining(&s, P), 0);
    CHECK_EQ(retry_after(&s, P, 1), P);

    CHECK_EQ(reserve(&s, P, 1, P), P);
    CHECK_EQ(remaining(&s, P), 0);
    CHECK_EQ(retry_after(&s, P, 1), 2 * P);

    CHECK_EQ(reserve(&s, P, 1, P), REFUSED);
    CHECK_EQ(s.v.retry_after_ns, P); /* with a timeout of P it would pass P earlier than at 2P */
    CHECK_EQ(remaining(&s, P), 0);
    CHECK_EQ(retry_after(&s, P, 1), 2 * P);

    CHECK_EQ(remaining(&s, 6 * P + 10), 1);
    CHECK_EQ(retry_after(&s, 6 * P + 10, 1), 0);
    subject_free(&s);
}

TEST(r4)
{
    struct subject s = subject_new("1/250ms", 0);
    CHECK_EQ(reserve(&s, 0, 1, 0), 0);
    CHECK_EQ(remaining(&s, 0), 0);
    CHECK_EQ(retry_after(&s, 0, 1), P);

    CHECK_EQ(reserve(&s, 0, 1, 0), REFUSED);
    CHECK_EQ(remaining(&s, 0), 0);
    CHECK_EQ(retry_after(&s, 0, 1), P);

    CHECK_EQ(remaining(&s, P - 1), 0);
    CHECK_EQ(retry_after(&s, P - 1, 1), 1);
    CHECK(take(&s, P, 1));
    subject_free(&s);
}

/* The original reports a period of 249999995 ns: 35 times 250 ms / 35 cut to 7142857 ns. */
TEST(r6)
{
    struct subject s = subject_new("1/250ms", 0);
    CHECK(take(&s, 0, 1));
    change(&s, 0, "35/250ms");
    CHECK_STR(text_of(&s), "35/250ms");
    CHECK_EQ(weir_policy_spec(s.policy, 0)->period_ns, P);

    CHECK_EQ(remaining(&s, 0), 0);            /* what was spent stays spent */
    CHECK_EQ(retry_after(&s, 0, 1), 7142857); /* 7142857.14 ns: the nanosecond in which it is due */
    CHECK_EQ(remaining(&s, 249999995), 34);   /* here the original has all 35 */
    CHECK_EQ(remaining(&s, P - 1), 34);
    CHECK_EQ(remaining(&s, P), 35);
    subject_free(&s);
}

TEST(r7)
{
    struct subject s = subject_new("1/250ms", 0);
    CHECK_EQ(reserve(&s, 0, 3, 5 * P), REFUSED);
    CHECK_EQ(s.v.reason, WEIR_NEVER);
    CHECK_EQ(s.v.retry_after_ns, WEIR_FOREVER);
    CHECK_EQ(reserve(&s, 0, 2, WEIR_FOREVER), REFUSED);
    CHECK_EQ(remaining(&s, 0), 1); /* nothing changed */
    subject_free(&s);
}

TEST(r8)
{
    int64_t now = 0;
    struct subject s = subject_new("10/s burst=20 initial=10", now);
    CHECK(take(&s, now, 10));
    for (int i = 1; i <= 20; i++) {
        now += 100 * WEIR_MS * i; /* brings i units, never more than the burst of 20 */
        CHECK(take(&s, now, i));
    }
    CHECK(!take(&s, now, 1));
    subject_free(&s);
}

TEST(r9)
{
    int64_t now = 0;
    struct subject s = subject_new("10/s initial=0", now);
    for (int i = 1; i <= 10; i++) {
        now += 100 * WEIR_MS * i;
        CHECK(take(&s, now, i));
    }
    CHECK(!take(&s, now, 1));
    subject_free(&s);
}

/* In the original an interrupted waiter loses its unit: available stays -1, the next one waits 2P. */
TEST(r10)
{
    struct subject s = subject_new("1/250ms", 0);
    CHECK_EQ(reserve(&s, 0, 1, P), 0);
    CHECK_EQ(reserve(&s, 0, 1, P), P);
    CHECK_EQ(retry_after(&s, 0, 1), 2 * P);

    CHECK(weir_state_cancel(s.policy, s.state, P / 2, &s.reservation));
    CHECK_EQ(retry_after(&s, P / 2, 1), P / 2);
    CHECK(!weir_state_cancel(s.policy, s.state, P / 2, &s.reservation)); /* only once */
    CHECK(!take(&s, P - 1, 1));
    CHECK(take(&s, P, 1));
    CHECK(!take(&s, P, 1));
    subject_free(&s);
}

/* The original reports the limit as 60 per 600 ns; the 10 ns between two units are the same. */
TEST(r11)
{
    struct subject s = subject_new("50/500ns burst=60", 0);
    CHECK_STR(text_of(&s), "50/500ns burst=60");
    CHECK_EQ(take_all(&s, 0), 60);
    CHECK_EQ(retry_after(&s, 0, 1), 10);
    CHECK_EQ(s.v.reset_after_ns, 600);
    subject_free(&s);

    s = subject_new("50/500ns", 0); /* the defaults: 10 ns a unit, burst and initial 50, full after 500 ns */
    CHECK_EQ(weir_policy_spec(s.policy, 0)->burst, 50);
    CHECK_EQ(weir_policy_spec(s.policy, 0)->initial, 50);
    CHECK_EQ(take_all(&s, 0), 50);
    CHECK_EQ(retry_after(&s, 0, 1), 10);
    CHECK_EQ(s.v.reset_after_ns, 500);
    subject_free(&s);
}

/* The original grants 19 at 0.999999999 s and 20 at 1 s, though 10 is the most. */
TEST(r13)
{
    struct subject s = subject_new("10/s", 0);
    CHECK_EQ(take_all(&s, WEIR_SEC - 1), 10);
    CHECK_EQ(take_all(&s, WEIR_SEC), 0);
    subject_free(&s);

    s = subject_new("10/s", 0);
    CHECK_EQ(take_all(&s, WEIR_SEC), 10);
    subject_free(&s);
}

/* The original grants the 4 and then all 10: 14 at one instant. */
TEST(r14)
{
    const int64_t now = 5 * WEIR_SEC;
    struct subject s = subject_new("10/s", 0);
    CHECK_EQ(reserve(&s, now, 4, 0), 0);
    CHECK_EQ(remaining(&s, now), 6);
    CHECK_EQ(reserve(&s, now, 10, 0), REFUSED);
    CHECK_EQ(reserve(&s, now, 6, 0), 0);
    CHECK_EQ(reserve(&s, now, 1, 0), REFUSED);
    subject_free(&s);
}

/* In the original the drain forgives the debt: the last reserve waits 100 ms, not 2.1 s. */
TEST(r15)
{
    struct subject s = subject_new("10/s", 0);
    CHECK_EQ(reserve(&s, 0, 10, 2 * WEIR_SEC), 0);
    CHECK_EQ(reserve(&s, 0, 10, 2 * WEIR_SEC), WEIR_SEC);
    CHECK_EQ(reserve(&s, 0, 10, 2 * WEIR_SEC), 2 * WEIR_SEC);
    CHECK_EQ(reserve(&s, 0, 1, 2 * WEIR_SEC), REFUSED);

    CHECK_EQ(weir_state_drain(s.policy, s.state, 0), 0);
    CHECK_EQ(reserve(&s, 0, 1, 2 * WEIR_SEC), REFUSED);
    CHECK_EQ(reserve(&s, 0, 1, 3 * WEIR_SEC), 2100 * WEIR_MS);
    subject_free(&s);

    s = subject_new("10/s", 0);
    weir_state_charge(s.policy, s.state, 0, 30); /* the same debt without promises */
    CHECK_EQ(weir_state_drain(s.policy, s.state, 0), 0);
    CHECK_EQ(retry_after(&s, 0, 1), 2100 * WEIR_MS);
    subject_free(&s);
}

/* In the original 0 always passes, and -3 puts three units on top of a full bucket. */
TEST(r16)
{
    struct subject s = subject_new("10/s", 0);
    CHECK_EQ(reserve(&s, 0, 0, 0), REFUSED);
    CHECK_EQ(s.v.reason, WEIR_INVALID);
    CHECK_EQ(reserve(&s, 0, -3, WEIR_FOREVER), REFUSED);
    CHECK_EQ(s.v.reason, WEIR_INVALID);
    CHECK(!take(&s, 0, INT64_MIN));
    CHECK_EQ(take_all(&s, 0), 10);

    weir_state_give(s.policy, s.state, 0, -3); /* nor do the verbs without an answer */
    weir_state_charge(s.policy, s.state, 0, -3);
    CHECK_EQ(remaining(&s, 0), 0);
    subject_free(&s);
}

/* In the original 10/s changed to 20 is 200/s (one every 5 ms), and changed to 5 it is 50/s (every 20 ms). */
TEST(r17)
{
    struct subject s = subject_new("10/s", 0);
    CHECK_EQ(take_all(&s, 0), 10);
    change(&s, 0, "20/s");
    CHECK_STR(text_of(&s), "20/s");
    CHECK_EQ(retry_after(&s, 0, 1), 50 * WEIR_MS);
    change(&s, 0, "5/s");
    CHECK_STR(text_of(&s), "5/s");
    CHECK_EQ(retry_after(&s, 0, 1), 200 * WEIR_MS);
    subject_free(&s);
}

/*
 * In the original 3/s is one every 333333333 ns, so that three billion units come a second too early, and
 * 50 per 10 ns is an error.
 */
TEST(r18)
{
    struct subject s = subject_new("3/s initial=0", 0);
    weir_state_charge(s.policy, s.state, 0, INT64_C(3000000000));
    /* The next unit is due a third of a second after 1e9 s: in the nanosecond of 333333333.33. */
    CHECK_EQ(retry_after(&s, 0, 1), INT64_C(1000000000) * WEIR_SEC + 333333333);
    subject_free(&s);

    s = subject_new("50/10ns", 0); /* 5 a nanosecond */
    CHECK_EQ(take_all(&s, 0), 50);
    CHECK_EQ(take_all(&s, 1), 5);
    CHECK_EQ(take_all(&s, 11), 50);
    subject_free(&s);
}

/* The original counts what is available in 32 bits: -1294967296. */
TEST(r19)
{
    struct subject s = subject_new("1/ns", 0);
    CHECK_EQ(remaining(&s, 3 * WEIR_SEC), 1);
    CHECK_EQ(remaining(&s, WEIR_TIME_MAX), 1);
    CHECK_EQ(take_all(&s, WEIR_TIME_MAX), 1);
    subject_free(&s);

    s = subject_new("1G/s burst=4G", 0); /* more units than 32 bits hold */
    CHECK_EQ(remaining(&s, 3 * WEIR_SEC), INT64_C(4000000000));
    subject_free(&s);
}

/* Resilience4j's own limiter counts in cycles: what finds no room waits for the next one. */
TEST(r21)
{
    const int64_t cycle = 10 * WEIR_MS;
    const int64_t want[9] = {0, 0, 0, cycle - 4, cycle - 5, cycle - 6, REFUSED, REFUSED, REFUSED};
    struct subject s = subject_new("3/10ms algo=fixed-window", cycle);
    for (int i = 0; i < 9; i++)
        CHECK_EQ(reserve(&s, cycle + i + 1, 1, 12 * WEIR_MS), want[i]);
    subject_free(&s);
}
