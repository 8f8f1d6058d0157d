/* SPDX-License-Identifier: MIT */
/*
 * Vectors of Smyte's bucket and its gist against algo=step, of the naive limiter against algo=interval, and
 * of the windows. Each test has the id of its vector; README.md tells which are kept and which are fixed.
 * Smyte's REDUCE answers the units before it takes; that is `remaining` of a peek. Its GET is a peek.
 *
 * S5, S6, S7, S9 and S13 are about the RL.* commands of a server; here they check what the core has of them.
 */
#include "core/limit.h"
#include "subject.h"

#define SEC WEIR_SEC

/* REDUCE: the units before, whether the take passes or not. */
static int64_t reduce(struct subject *s, int64_t now, int64_t n)
{
    int64_t before = remaining(s, now);
    CHECK_EQ(take(s, now, n), before >= n);
    return before;
}

TEST(s3)
{
    struct subject s = subject_new("2/60s algo=step refused=drain", 0);
    CHECK_EQ(reduce(&s, 0, 1), 2);
    CHECK_EQ(reduce(&s, 0, 1), 1);
    CHECK_EQ(reduce(&s, 0, 1), 0);
    CHECK_EQ(reduce(&s, 0, 1), 0);
    CHECK_EQ(reduce(&s, 59999 * WEIR_MS, 1), 0);
    CHECK_EQ(reduce(&s, 60 * SEC, 1), 2);
    subject_free(&s);
}

/* The steps lie at 2 s + i * 60 s; the time of the next one shows the phase. */
TEST(s4)
{
    struct subject s = subject_new("100/60s burst=1000 initial=100 algo=step", 2 * SEC);
    CHECK_EQ(remaining(&s, 53 * SEC), 100);
    CHECK_EQ(retry_after(&s, 53 * SEC, 101), 9 * SEC); /* at 62 s */
    CHECK_EQ(remaining(&s, 123 * SEC), 300);
    CHECK_EQ(retry_after(&s, 123 * SEC, 301), 59 * SEC); /* at 182 s: the last was at 122 s */
    CHECK_EQ(remaining(&s, 1312 * SEC), 1000);
    CHECK(take(&s, 1312 * SEC, 1000));
    CHECK_EQ(retry_after(&s, 1312 * SEC, 1), 10 * SEC); /* at 1322 s: the last was at 1262 s, though full */
    subject_free(&s);
}

static void check_step(const char *limit, int64_t count, int64_t period_ns, int64_t burst, int32_t strict)
{
    struct subject s = subject_new(limit, 0);
    const struct weir_spec *spec = weir_policy_spec(s.policy, 0);
    CHECK_EQ(spec->algo, WEIR_STEP);
    CHECK_EQ(spec->count, count);
    CHECK_EQ(spec->period_ns, period_ns);
    CHECK_EQ(spec->burst, burst);
    CHECK_EQ(spec->initial, burst);
    CHECK_EQ(spec->strict, strict);
    CHECK_EQ(spec->refused, WEIR_REFUSED_DRAIN);
    subject_free(&s);
}

TEST(s5)
{
    /* rl.reduce abc 10 500 REFILL 5 take 2 at 1005 */
    check_step("5/500s burst=10 algo=step refused=drain", 5, 500 * SEC, 10, 0);
    /* rl.preduce abc 20 500 at 1005 take 2 */
    check_step("20/500ms algo=step refused=drain", 20, 500 * WEIR_MS, 20, 0);
    /* rl.reduce abc 20 700 STRICT at 3005 REFILL 4 */
    check_step("4/700s burst=20 algo=step refused=drain strict=true", 4, 700 * SEC, 20, 1);

    struct subject s = subject_new("5/500s burst=10 algo=step refused=drain", 1005 * SEC);
    CHECK_EQ(reduce(&s, 1005 * SEC, 2), 10);
    CHECK_EQ(remaining(&s, 1005 * SEC), 8);
    CHECK_EQ(remaining(&s, 1505 * SEC), 10);
    subject_free(&s);
}

TEST(s6)
{
    const char *const nonsense[9] = {
        "10/abc algo=step",                 /* rl.get abc 10 abc */
        "0/60ms algo=step",                 /* rl.pget abc 0 60 */
        "10/60s burst=0 algo=step",         /* the same where the refill is given apart */
        "strict/60s burst=10 algo=step",    /* rl.reduce abc 10 60 refill strict 1 */
        "10/60s algo=step take=2",          /* rl.pget abc 0 60 take 2 */
        "10/60s algo=step refill",          /* rl.reduce abc 10 60 refill */
        "10/60s algo=step strict=true abc", /* rl.preduce abc 10 60 refill 1 strict abc */
        "10 algo=step",                     /* rl.reduce abc 10 */
        "10/0s algo=step",                  /* a refill time below 1 */
    };
    for (int i = 0; i < 9; i++)
        if (!CHECK(refuses_text(nonsense[i])))
            printf("# understood: %s\n", nonsense[i]);

    struct subject s = subject_new("10/60s algo=step refused=drain", 0);
    CHECK(!take(&s, 0, -1)); /* take below 0 */
    CHECK_EQ(s.v.reason, WEIR_INVALID);
    CHECK_EQ(remaining(&s, 0), 10);
    subject_free(&s);
    s = subject_new("10/2147483648s algo=step", 0); /* too long for the command's 32 bits, not for a limit */
    CHECK(take(&s, 0, 10));
    CHECK_EQ(retry_after(&s, 0, 1), INT64_C(2147483648) * SEC);
    subject_free(&s);
}

/* Smyte drops a row that would be full: the core says so by reset_after_ns. */
TEST(s7)
{
    const int64_t minute = 60 * SEC;
    struct subject s = subject_new("5/60s burst=100 algo=step", 0);
    CHECK(take(&s, 0, 100));
    CHECK_EQ(s.v.reset_after_ns, 20 * minute);
    (void)remaining(&s, 10 * minute); /* kept */
    CHECK_EQ(s.v.reset_after_ns, 10 * minute);
    (void)remaining(&s, 20 * minute - WEIR_MS); /* kept */
    CHECK_EQ(s.v.reset_after_ns, WEIR_MS);
    (void)remaining(&s, 20 * minute); /* dropped */
    CHECK_EQ(s.v.reset_after_ns, 0);
    (void)remaining(&s, 30 * minute); /* dropped */
    CHECK_EQ(s.v.reset_after_ns, 0);
    subject_free(&s);
}

TEST(s8)
{
    struct subject s = subject_new("10/60s algo=step refused=drain", 0);
    CHECK_EQ(reduce(&s, 0, 4), 10);
    CHECK_EQ(reduce(&s, 0, 7), 6);
    CHECK_EQ(remaining(&s, 0), 0);
    subject_free(&s);

    s = subject_new("10/60s algo=step", 0); /* unless asked for, a refusal changes nothing */
    CHECK_EQ(reduce(&s, 0, 4), 10);
    CHECK_EQ(reduce(&s, 0, 7), 6);
    CHECK_EQ(remaining(&s, 0), 6);
    subject_free(&s);
}

/* Smyte's row is named by key, most, refill and time; here the canonical text stands for these numbers. */
TEST(s9)
{
    const char *const limits[4] = {"10/60s algo=step", "1/60s burst=10 algo=step", "11/60s algo=step",
                                   "10/60000ms algo=step"};
    const int64_t same_as[4] = {0, 1, 2, 0}, want[4] = {10, 10, 11, 9};
    struct subject rows[4];
    char texts[4][256];
    for (int i = 0; i < 4; i++) {
        rows[i] = subject_new(limits[i], 0);
        (void)snprintf(texts[i], sizeof texts[i], "%s", text_of(&rows[i]));
        int row = 0;
        while (strcmp(texts[row], texts[i]) != 0)
            row++;
        CHECK_EQ(row, same_as[i]);
        CHECK_EQ(reduce(&rows[row], 0, 1), want[i]);
    }
    for (int i = 0; i < 4; i++)
        subject_free(&rows[i]);
}

TEST(s10)
{
    struct subject s = subject_new("1/5s burst=10 algo=step refused=drain", 100 * SEC);
    CHECK_EQ(reduce(&s, 100 * SEC, 10), 10);
    CHECK_EQ(remaining(&s, 50 * SEC), 0);
    CHECK_EQ(remaining(&s, 104 * SEC), 0);
    CHECK_EQ(remaining(&s, 105 * SEC), 1);
    subject_free(&s);

    s = subject_new("1/5s burst=10 algo=step", 100 * SEC);
    CHECK_EQ(reduce(&s, 100 * SEC, 4), 10);
    CHECK_EQ(reduce(&s, 50 * SEC, 1), 6); /* what is there may be taken at any time */
    CHECK_EQ(remaining(&s, 104 * SEC), 5);
    CHECK_EQ(remaining(&s, 105 * SEC), 6);
    subject_free(&s);

    /* The original's strict call at 50 moves the last refill back to 50, so that at 101 there is a unit. */
    s = subject_new("1/5s algo=step refused=drain strict=true", 100 * SEC);
    CHECK_EQ(reduce(&s, 100 * SEC, 1), 1);
    CHECK_EQ(reduce(&s, 50 * SEC, 1), 0);
    CHECK_EQ(remaining(&s, 101 * SEC), 0);
    CHECK_EQ(remaining(&s, 105 * SEC - 1), 0);
    CHECK_EQ(remaining(&s, 105 * SEC), 1);
    CHECK_EQ(reduce(&s, 103 * SEC, 1), 0); /* strict: a refused call starts the period anew */
    CHECK_EQ(remaining(&s, 108 * SEC - 1), 0);
    CHECK_EQ(remaining(&s, 108 * SEC), 1);
    subject_free(&s);
}

TEST(s11)
{
    struct subject s = subject_new("1/60s burst=10 algo=step", 0);
    CHECK_EQ(reduce(&s, 0, 1), 10);
    CHECK_EQ(reduce(&s, 119 * SEC, 10), 10);
    CHECK_EQ(remaining(&s, 120 * SEC), 1); /* the steps stay at whole minutes */
    subject_free(&s);
}

/* A state of another kind becomes an empty one; not a word behind its end is touched. */
static void check_foreign(struct subject *s, const char *limit)
{
    const int64_t fence = INT64_C(0x5AFE);
    struct weir_policy *next = compile(limit);
    size_t words = weir_policy_state_size(next) / sizeof(int64_t);
    int64_t to[25];
    struct weir_verdict v;

    to[words] = fence;
    weir_state_change(s->policy, s->state, next, to, SEC);
    bool allowed = weir_state_take(next, to, SEC, 1, &v);
    CHECK_EQ(v.reason, allowed ? WEIR_OK : WEIR_LATER);
    CHECK_EQ(v.remaining, 0);
    CHECK_EQ(to[words], fence);
    weir_policy_free(next);
}

/* A row of one kind met by a command of the other aborts Smyte's server. */
TEST(s13)
{
    const struct {
        const char *limit;
        size_t words; /* two for promises, and those of the algorithm */
    } kinds[10] = {
        {"3/s", 3},
        {"3/s algo=interval", 3},
        {"3/s algo=leaky-bucket", 3},
        {"3/s algo=smooth", 3},
        {"3/s algo=warmup warmup=1s", 4},
        {"3/s algo=hybrid", 7},
        {"3/s algo=fixed-window", 5},
        {"3/s algo=sliding-window", 5},
        {"3/s algo=sliding-log", 7},
        {"3/s algo=step", 4},
    };
    for (int i = 0; i < 10; i++) {
        struct subject s = subject_new(kinds[i].limit, SEC);
        CHECK_EQ(weir_policy_state_size(s.policy), kinds[i].words * sizeof(int64_t));
        for (int j = 0; j < 10; j++)
            if (j != i)
                check_foreign(&s, kinds[j].limit);
        subject_free(&s);
    }
}

/* The blog's rule refuses the last unit: T F F F T F F F. The gist's rule is kept. */
TEST(s14)
{
    const struct {
        int64_t time, n;
        bool allowed;
        int64_t left;
    } calls[8] = {{0, 1, true, 1},  {0, 1, true, 0},   {0, 1, false, 0},  {5, 1, false, 0},
                  {10, 1, true, 0}, {19, 1, false, 0}, {20, 3, false, 1}, {30, 2, true, 0}};
    struct subject s = subject_new("1/10s burst=2 algo=step", 0);
    for (int i = 0; i < 8; i++) {
        CHECK_EQ(take(&s, calls[i].time * SEC, calls[i].n), calls[i].allowed);
        CHECK_EQ(s.v.remaining, calls[i].left);
    }
    subject_free(&s);
}

struct call {
    int64_t time_ms;
    bool allowed;
};

static void check_calls(const char *limit, const struct call *calls, int count)
{
    struct subject s = subject_new(limit, calls[0].time_ms * WEIR_MS);
    for (int i = 0; i < count; i++)
        if (!CHECK_EQ(take(&s, calls[i].time_ms * WEIR_MS, 1), calls[i].allowed))
            printf("# %s, call %d at %" PRId64 " ms\n", limit, i + 1, calls[i].time_ms);
    subject_free(&s);
}

/* The original waits qps * 1000 ms, not 1000 / qps: at 2/s it passes at 0, 2000 and 4000 ms only. */
TEST(s15)
{
    const struct call calls[6] = {{0, true},    {499, false}, {500, true},
                                  {999, false}, {1000, true}, {1001, false}};
    check_calls("2/s algo=interval", calls, 6);
}

TEST(s16)
{
    const struct call fixed[6] = {{8000, true},  {9000, true},  {9000, false},
                                  {10000, true}, {11000, true}, {12000, false}};
    check_calls("2/10s algo=fixed-window", fixed, 6);

    const struct call two[8] = {{8000, true},   {9000, true},   {9000, false}, {10000, false},
                                {11000, false}, {12000, false}, {18000, true}, {19000, true}};
    check_calls("2/10s algo=sliding-log", two, 8);

    const struct call three[10] = {{0, true},     {1000, true},  {2000, true},   {3000, false},
                                   {9999, false}, {10000, true}, {10500, false}, {11000, true},
                                   {12000, true}, {12000, false}};
    check_calls("3/10s algo=sliding-log", three, 10);
}

/* What counts in the present window `after_ns` into it, if so much came before and so much since. */
static int64_t counted(int64_t previous, int64_t present, int64_t after_ns)
{
    const int64_t window = 60 * SEC, limit = 100;
    struct subject s = subject_new("100/60s algo=sliding-window", 0);
    CHECK(take(&s, 0, previous));
    CHECK(take(&s, window + after_ns, present));
    int64_t units = limit - remaining(&s, window + after_ns);
    subject_free(&s);
    return units;
}

/* Kong's sum may have a fraction; a whole unit fits exactly if the sum rounded up leaves room for it. */
TEST(s17)
{
    CHECK_EQ(counted(20, 10, 30 * SEC), 20);
    CHECK_EQ(counted(42, 18, 15 * SEC), 50); /* 49.5 */
    CHECK_EQ(counted(84, 36, 15 * SEC), 99);
}

/* Kong counts each call before it looks. 12 in the first window: 7.2 and one at 14 s, 3.6 and two at 17 s, 1.2 and
 * three at 19 s; 0 of the first and three at 20 s, of which one more does not use up 4. */
TEST(s18)
{
    struct subject s = subject_new("4/10s algo=sliding-window refused=count", 0);
    CHECK(take(&s, 0, 4));
    CHECK(!take(&s, SEC, 4));
    CHECK(!take(&s, SEC, 4));
    CHECK(!take(&s, 14 * SEC, 1));
    CHECK(!take(&s, 17 * SEC, 1));
    CHECK(!take(&s, 19 * SEC, 1));
    CHECK(take(&s, 20 * SEC, 1));
    subject_free(&s);
}
