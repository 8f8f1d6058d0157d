/* SPDX-License-Identifier: MIT */
/*
 * Vectors of Guava's RateLimiter against algo=smooth and algo=warmup. Each test has the id of its vector;
 * README.md tells which are kept and which are fixed. Guava counts microseconds and cuts, so its waits hold
 * here within 1 us. `acquire` sleeps in virtual time: it moves `now`.
 */
#include "subject.h"

#define US INT64_C(1000)

static bool check_us(int64_t got_ns, int64_t want_us, int line)
{
    int64_t error_ns = got_ns - want_us * US;
    bool close = error_ns >= -US && error_ns <= US;
    if (!close && check_fault(__FILE__, line))
        printf("waited %" PRId64 " ns, not %" PRId64 " us\n", got_ns, want_us);
    return close;
}

#define CHECK_US(GOT_NS, WANT_US) check_us((GOT_NS), (WANT_US), __LINE__)

/* tryAcquire: true if the units are due within the timeout, after the sleep. */
static bool try_acquire(struct subject *s, int64_t *now, int64_t n, int64_t timeout)
{
    int64_t wait = reserve(s, *now, n, timeout);
    *now += wait == REFUSED ? 0 : wait;
    return wait != REFUSED;
}

TEST(g1)
{
    int64_t now = 0;
    struct subject s = subject_new("5/s algo=smooth", now);
    CHECK_US(acquire(&s, &now, 1), 0);
    CHECK_US(acquire(&s, &now, 1), 200000);
    CHECK_US(acquire(&s, &now, 1), 200000);
    subject_free(&s);
}

TEST(g2)
{
    int64_t now = 0;
    struct subject s = subject_new("5/s algo=smooth", now);
    CHECK_US(acquire(&s, &now, 1), 0);
    now += 200 * WEIR_MS;
    CHECK_US(acquire(&s, &now, 1), 0);
    CHECK_US(acquire(&s, &now, 1), 200000);
    subject_free(&s);
}

TEST(g3)
{
    int64_t now = 0;
    struct subject s = subject_new("5/s algo=smooth", now);
    CHECK_US(acquire(&s, &now, 1), 0);
    now += 400 * WEIR_MS;
    CHECK_US(acquire(&s, &now, 1), 0);
    CHECK_US(acquire(&s, &now, 1), 0);
    CHECK_US(acquire(&s, &now, 1), 200000);
    subject_free(&s);
}

TEST(g4)
{
    const int64_t n[4] = {1, 1, 3, 1};
    int64_t now = 0;
    struct subject s = subject_new("5/s algo=smooth", now);
    now += 2 * WEIR_SEC; /* saves 5, a second's worth, not 10 */
    for (int i = 0; i < 4; i++)
        CHECK_US(acquire(&s, &now, n[i]), 0);
    CHECK_US(acquire(&s, &now, 1), 200000);
    subject_free(&s);
}

TEST(g5)
{
    const int64_t n[6] = {1, 1, 2, 4, 8, 1}, want_us[6] = {0, 1000000, 1000000, 2000000, 4000000, 8000000};
    int64_t now = 0;
    struct subject s = subject_new("1/s algo=smooth", now);
    for (int i = 0; i < 6; i++)
        CHECK_US(acquire(&s, &now, n[i]), want_us[i]);
    subject_free(&s);
}

TEST(g6)
{
    const int64_t n[4] = {1, 2, 4, 1}, want_us[4] = {1000000, 500000, 1000000, 2000000};
    int64_t now = 0;
    struct subject s = subject_new("1/s algo=smooth", now);
    CHECK_US(acquire(&s, &now, 1), 0);
    CHECK_US(acquire(&s, &now, 1), 1000000);
    change(&s, now, "2/s algo=smooth"); /* what was promised under the old rate is still paid at it */
    for (int i = 0; i < 4; i++)
        CHECK_US(acquire(&s, &now, n[i]), want_us[i]);
    subject_free(&s);

    s = subject_new("10/s algo=smooth", 0);
    change(&s, 2 * WEIR_SEC, "5/s algo=smooth"); /* 10 of at most 10 are saved: 5 of 5 */
    CHECK_EQ(remaining(&s, 2 * WEIR_SEC), 5);
    change(&s, 2 * WEIR_SEC, "10/s algo=smooth"); /* Guava has 10 of 10 now, out of nothing; weir keeps 5 */
    CHECK_EQ(remaining(&s, 2 * WEIR_SEC), 5);
    subject_free(&s);
}

static void check_row(struct subject *s, int64_t *now, const int64_t *want_us, int count)
{
    for (int i = 0; i < count; i++)
        CHECK_US(acquire(s, now, 1), want_us[i]);
}

/* threshold 4, most 8, price from 1.5 s down to 0.5 s: the first unit costs (1.5 + 1.25) / 2 s. */
TEST(g7)
{
    const int64_t cold[8] = {0, 1375000, 1125000, 875000, 625000, 500000, 500000, 500000};
    const int64_t warm[8] = {0, 500000, 500000, 500000, 500000, 500000, 500000, 500000};
    int64_t now = 0;
    struct subject s = subject_new("2/s algo=warmup warmup=4s", now);
    check_row(&s, &now, cold, 8);
    now += 4500 * WEIR_MS; /* half a second pays for the last unit, 4 s make it cold */
    check_row(&s, &now, cold, 8);
    now += 2500 * WEIR_MS; /* 2 s save 4 units: just the threshold, still warm */
    check_row(&s, &now, warm, 8);
    subject_free(&s);
}

TEST(g9)
{
    const int64_t want_us[8] = {0, 200000, 200000, 200000, 200000, 200000, 200000, 200000};
    int64_t now = 0;
    struct subject s = subject_new("5/s algo=warmup warmup=4s cold=1", now);
    check_row(&s, &now, want_us, 8);
    now += 340 * WEIR_MS;
    check_row(&s, &now, want_us, 8);
    subject_free(&s);
}

TEST(g12)
{
    struct subject s = subject_new("5/s algo=smooth", 0);
    CHECK(take(&s, 0, 1));
    CHECK(!take(&s, 0, 1));
    CHECK(!take(&s, 0, 1));
    CHECK(!take(&s, 100 * WEIR_MS, 1));
    CHECK(take(&s, 200 * WEIR_MS, 1)); /* the refusals changed nothing */
    subject_free(&s);
}

TEST(g13)
{
    int64_t now = 0;
    struct subject s = subject_new("5/s algo=smooth", now);
    CHECK(try_acquire(&s, &now, 1, 0));
    CHECK(try_acquire(&s, &now, 1, 200 * WEIR_MS));
    CHECK(!try_acquire(&s, &now, 1, 100 * WEIR_MS));
    now += 100 * WEIR_MS;
    CHECK(try_acquire(&s, &now, 1, 100 * WEIR_MS));
    CHECK_EQ(now, 400 * WEIR_MS);
    subject_free(&s);
}

TEST(g14)
{
    int64_t now = 0;
    struct subject s = subject_new("5/s algo=smooth", now);
    CHECK(try_acquire(&s, &now, 1, 0));
    now += 100 * WEIR_MS;
    CHECK(try_acquire(&s, &now, 1, WEIR_FOREVER));
    CHECK_EQ(now, 200 * WEIR_MS);
    subject_free(&s);
}

TEST(g15)
{
    int64_t now = 0;
    struct subject s = subject_new("5/s algo=smooth", now);
    CHECK(try_acquire(&s, &now, 5, 0));
    now += 900 * WEIR_MS;
    CHECK(!try_acquire(&s, &now, 1, INT64_MIN)); /* a negative timeout is none */
    now += 100 * WEIR_MS;
    CHECK(try_acquire(&s, &now, 1, -WEIR_SEC));
    subject_free(&s);
}

/* Guava's slowest rate is 4.9e-324/s: one grant ever. Here it is one unit in 73 years. */
TEST(g18)
{
    const int64_t period = 26687 * INT64_C(86400) * WEIR_SEC;
    struct subject s = subject_new("1/26687d algo=smooth", 0);
    CHECK(take(&s, 0, 1));
    CHECK(!take(&s, 0, 1));
    CHECK(!take(&s, 2147483647 * WEIR_MS, 1));
    CHECK_EQ(s.v.retry_after_ns, period - 2147483647 * WEIR_MS);
    CHECK(!take(&s, period - 1, 1));
    CHECK(take(&s, period, 1)); /* Guava: never again */
    subject_free(&s);
    CHECK(refuses_text("1/26688d algo=smooth"));
}

/* Takes ten units in random portions and waits for the last of them; gives how long that took. */
static int64_t warm_up(struct rng *rng, struct subject *s, int64_t *now)
{
    int64_t start = *now;
    for (int64_t left = 10; left > 0;) {
        int64_t n = rng_between(rng, 1, left);
        (void)acquire(s, now, n);
        left -= n;
    }
    (void)acquire(s, now, 1);
    return *now - start;
}

/* Units one by one, or all at once: the way from cold to warm takes the warm-up time, and so does the way
 * back. */
static void check_warmup_time(struct rng *rng, int64_t cold, int64_t period_ms)
{
    int64_t warmup_ms = (1 + cold) * 10 * period_ms / 2, now = 0;
    char limit[96];
    (void)snprintf(limit, sizeof limit, "1/%" PRId64 "ms algo=warmup warmup=%" PRId64 "ms cold=%" PRId64,
                   period_ms, warmup_ms, cold);
    struct subject s = subject_new(limit, now);
    CHECK_US(warm_up(rng, &s, &now), warmup_ms * 1000);
    (void)acquire(&s, &now, 100); /* more than is saved */
    (void)acquire(&s, &now, 1);
    now +=
        (period_ms + warmup_ms) * WEIR_MS; /* until this one is paid, and as long as it takes to get cold */
    CHECK_US(warm_up(rng, &s, &now), warmup_ms * 1000);
    subject_free(&s);
}

TEST(g19)
{
    const int64_t colds[3] = {2, 3, 10}, periods_ms[5] = {250, 500, 1000, 2000, 10000};
    struct rng rng = rng_new(19);
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 5; j++)
            for (int round = 0; round < 50; round++)
                check_warmup_time(&rng, colds[i], periods_ms[j]);
}

TEST(g21)
{
    int64_t now = 0;
    struct subject s = subject_new("1/s algo=smooth burst=10", now);
    now += 10 * WEIR_SEC;
    CHECK_US(acquire(&s, &now, 3), 0);
    CHECK_EQ(remaining(&s, now), 7);
    CHECK_US(acquire(&s, &now, 10), 0);
    CHECK_US(acquire(&s, &now, 1), 3000000);
    subject_free(&s);

    now = 0;
    s = subject_new("1/s algo=smooth burst=10", now);
    CHECK_US(acquire(&s, &now, 100), 0);
    CHECK_US(acquire(&s, &now, 1), 100000000);
    subject_free(&s);
}

/* threshold 2.5, most 5, slope 0.8 s: prices 3.0, 2.2, 1.4 and then 1 s at 5, 4, 3 and 2.5 saved units. */
TEST(g22)
{
    const int64_t want_us[6] = {0, 2600000, 1800000, 1100000, 1000000, 1000000};
    int64_t now = 0;
    struct subject s = subject_new("1/s algo=warmup warmup=5s", now);
    check_row(&s, &now, want_us, 6);
    subject_free(&s);
}

/*
 * A second of single units takes a second. Guava cuts a unit to whole microseconds: 83333, 8064, 333333 and
 * 1000000 pass in it, and 2000000/s has no limit at all.
 */
TEST(g24)
{
    const int64_t rates[5] = {80000, 8001, 300000, 600000, 2000000};
    for (int i = 0; i < 5; i++) {
        char limit[48];
        (void)snprintf(limit, sizeof limit, "%" PRId64 "/s algo=smooth", rates[i]);
        int64_t now = 0;
        struct subject s = subject_new(limit, now);
        for (int64_t n = 0; n <= rates[i]; n++) /* the first costs the second one's time, and so on */
            (void)acquire(&s, &now, 1);
        CHECK_EQ(now, WEIR_SEC);
        subject_free(&s);
    }
}

/* With Guava's zero warm-up the saved permits become NaN and every wait 0. */
TEST(g25)
{
    CHECK(refuses_text("5/s algo=warmup warmup=0"));
    CHECK(refuses_text("5/s algo=warmup warmup=0s"));
    struct weir_spec spec = {.algo = WEIR_WARMUP, .count = 5, .period_ns = WEIR_SEC};
    struct weir_error err;
    CHECK(weir_policy_from(&spec, 1, &err) == NULL);

    int64_t now = 0; /* the shortest there is limits like any other */
    struct subject s = subject_new("5/s algo=warmup warmup=1ns", now);
    CHECK_US(acquire(&s, &now, 1), 0);
    now += WEIR_SEC;
    CHECK_US(acquire(&s, &now, 1), 0);
    CHECK_US(acquire(&s, &now, 1), 200000);
    CHECK_US(acquire(&s, &now, 1), 200000);
    subject_free(&s);
}

/*
 * The clock steps back from 1 s to 0.5 s. Guava knows only its next time and refuses until 1 s is reached
 * again; here the word says what is saved as of 0.5 s. Either way no unit is made: in all, those of one
 * second and the one on credit pass.
 */
TEST(g26)
{
    struct subject s = subject_new("10/s algo=smooth", 0);
    CHECK(take(&s, WEIR_SEC, 1));
    CHECK_EQ(remaining(&s, WEIR_SEC), 9);
    CHECK_EQ(remaining(&s, WEIR_SEC / 2), 4);
    CHECK_EQ(take_all(&s, WEIR_SEC / 2), 5); /* 4 saved and the one that the next caller pays for */
    CHECK_EQ(reserve(&s, WEIR_SEC / 2, 1, WEIR_FOREVER), 100 * WEIR_MS);
    CHECK_EQ(take_all(&s, WEIR_SEC), 4); /* 11 in all */
    CHECK_EQ(retry_after(&s, WEIR_SEC, 1), 100 * WEIR_MS);
    subject_free(&s);
}
