/* SPDX-License-Identifier: MIT */
/*
 * Every public function with the cross product of extreme arguments: a clear error or a correct answer, never
 * undefined behaviour (this is what the sanitizers look at), never a unit out of nothing.
 */
#include "algorithms.h"
#include "check.h"
#include "core/limit.h"

static const int64_t numbers[] = {
    INT64_MIN,     INT64_MIN + 1,     -SPEC_COUNT_MAX, -1,        0, 1, 2, 1000, WEIR_SEC, SPEC_COUNT_MAX,
    WEIR_TIME_MAX, WEIR_TIME_MAX + 1, INT64_MAX - 1,   INT64_MAX,
};
#define NUMBERS            (sizeof numbers / sizeof *numbers)
#define for_each_number(x) for (const int64_t *x = numbers; x != numbers + NUMBERS; x++)

/* ---- policies at the edges of what compiles ---- */

static struct weir_policy *policies[400];
static size_t policy_count;

static void add_policy(struct weir_spec spec)
{
    struct weir_policy *policy = weir_policy_from(&spec, 1, NULL);
    if (policy && CHECK(policy_count < sizeof policies / sizeof *policies))
        policies[policy_count++] = policy;
}

static double half_price(void *arg, double stored, double n)
{
    (void)arg, (void)stored;
    return n / 2;
}

static void build_policies(void)
{
    static const int64_t counts[] = {1, 64, SPEC_COUNT_MAX}, periods[] = {1, WEIR_SEC, SPEC_PERIOD_MAX_NS};
    static const int64_t bursts[] = {0, 1, SPEC_COUNT_MAX};
    for (int32_t algo = 0; algo < algo_count(); algo++)
        for (size_t i = 0; i < 27; i++) {
            struct weir_spec spec = {.algo = algo, .count = counts[i % 3], .period_ns = periods[i / 3 % 3]};
            int64_t burst = bursts[i / 9];
            if (algo == WEIR_TOKEN_BUCKET || algo == WEIR_STEP || algo == WEIR_SMOOTH)
                spec.burst = burst;
            if (algo == WEIR_LEAKY_BUCKET)
                spec.queue = burst;
            if (algo == WEIR_HYBRID)
                spec.ratio_ppm = burst ? SPEC_FACTOR_MAX : 0;
            if (algo == WEIR_WARMUP) {
                spec.warmup_ns = burst == 0 ? 1 : burst == 1 ? WEIR_SEC : SPEC_TIME_MAX_NS;
                spec.shape = (int32_t)(i % 2);
                spec.cold_ppm = i % 3 ? SPEC_FACTOR_MAX : SPEC_FACTOR_ONE;
            }
            if (algo == WEIR_STEP && i % 2)
                spec.strict = 1, spec.refused = WEIR_REFUSED_DRAIN;
            if ((algo == WEIR_FIXED_WINDOW || algo == WEIR_SLIDING_WINDOW || algo == WEIR_SLIDING_LOG) &&
                i % 2)
                spec.refused = WEIR_REFUSED_COUNT;
            add_policy(spec);
        }
    add_policy((struct weir_spec){.algo = WEIR_WARMUP,
                                  .count = 64,
                                  .period_ns = 1,
                                  .warmup_ns = 1,
                                  .shape = WEIR_SHAPE_OWN,
                                  .own = half_price});
    add_policy(
        (struct weir_spec){.algo = WEIR_HYBRID, .count = 1, .period_ns = 1, .verb = WEIR_VERB_CONFIGURE});
}

#define STATE_WORDS 400

static bool fits(const struct weir_policy *policy)
{
    return weir_policy_state_size(policy) <= STATE_WORDS * sizeof(int64_t);
}

static const struct weir_policy *policy_at(size_t i)
{
    if (policy_count == 0)
        build_policies();
    return i < policy_count ? policies[i] : NULL;
}

#define for_each_policy(p, i)                                                                                \
    for (size_t i = 0; policy_at(i) && policy_count; i++)                                                    \
        for (const struct weir_policy *p = policy_at(i); p && fits(p); p = NULL)

/* ---- answers ---- */

static void check_verdict(const struct weir_verdict *v)
{
    bool good = (v->allowed == 0 || v->allowed == 1) && (v->allowed == 1) == (v->reason == WEIR_OK) &&
                v->reason >= WEIR_OK && v->reason <= WEIR_INVALID && v->remaining >= 0 &&
                v->retry_after_ns >= 0 && v->reset_after_ns >= 0 && v->wait_ns >= 0 && v->behind_ns >= 0 &&
                v->limit == 0 && (v->allowed ? v->retry_after_ns == 0 : v->retry_after_ns > 0);
    CHECK(good);
}

static void check_state(const struct weir_policy *policy, const int64_t *state)
{
    struct weir_verdict v;
    for_each_number(now)
    {
        bool allowed = weir_state_peek(policy, state, *now, 1, &v);
        CHECK(allowed == (v.allowed == 1));
        check_verdict(&v);
        CHECK(weir_state_behind(policy, state, *now) >= 0);
    }
}

TEST(every_verb_with_every_number)
{
    for_each_policy(policy, i) for_each_number(start) for_each_number(now) for_each_number(n)
    {
        int64_t state[STATE_WORDS];
        struct weir_verdict v;
        weir_state_init(policy, state, *start);
        bool allowed = weir_state_take(policy, state, *now, *n, &v);
        CHECK(allowed == (v.allowed == 1) && (*n > 0 || v.reason == WEIR_INVALID));
        check_verdict(&v);
        weir_state_charge(policy, state, *now, *n);
        CHECK(weir_state_drain(policy, state, *start) >= 0);
        weir_state_give(policy, state, *start, *n);
        (void)weir_state_peek(policy, state, *now, *n, &v);
        check_verdict(&v);
        CHECK(weir_state_restart(policy, state, *now) >= 0);
    }
}

TEST(every_promise_with_every_number)
{
    for_each_policy(policy, i) for_each_number(now) for_each_number(n) for_each_number(timeout)
    {
        int64_t state[STATE_WORDS];
        struct weir_reservation r = {0};
        struct weir_verdict v;
        weir_state_init(policy, state, *now);
        weir_state_charge(policy, state, *now, 1);
        bool allowed = weir_state_reserve(policy, state, *now, *n, *timeout, &r, &v);
        CHECK(allowed == (v.allowed == 1));
        check_verdict(&v);
        CHECK(!allowed || (r.n == *n && r.wait_ns == v.wait_ns && v.wait_ns <= max64(*timeout, 0)));
        weir_state_give(policy, state, *now, *n);
        bool canceled = weir_state_cancel(policy, state, *now, &r);
        CHECK(canceled == (allowed && r.wait_ns > 0));
        CHECK(!weir_state_cancel(policy, state, *now, &r));
    }
}

TEST(states_stay_sane)
{
    for_each_policy(policy, i) for_each_number(start) for_each_number(n)
    {
        int64_t state[STATE_WORDS];
        weir_state_init(policy, state, *start);
        weir_state_charge(policy, state, *start, *n);
        check_state(policy, state);
    }
}

TEST(every_change)
{
    for_each_policy(from, i) for_each_policy(next, j)
    {
        if (weir_policy_spec(from, 0)->algo != weir_policy_spec(next, 0)->algo && j % 7)
            continue;
        for_each_number(now) for_each_number(n)
        {
            int64_t state[STATE_WORDS], to[STATE_WORDS];
            struct weir_verdict v;
            weir_state_init(from, state, 0);
            weir_state_charge(from, state, *now, *n);
            weir_state_change(from, state, next, to, *now);
            (void)weir_state_take(next, to, *now, 1, &v);
            check_verdict(&v);
        }
    }
}

/* ---- no unit out of nothing ---- */

/* The most that one instant can see, one take included that is paid for later. */
static weir_i128 at_once(const struct limit *limit, int64_t largest)
{
    switch ((enum weir_algo)limit->spec.algo) {
    case WEIR_TOKEN_BUCKET:
    case WEIR_STEP:
        return limit->spec.burst;
    case WEIR_INTERVAL:
        return 1;
    case WEIR_LEAKY_BUCKET:
        return limit->spec.queue + 1;
    case WEIR_SMOOTH:
        return (weir_i128)(limit->full / limit->ticks.unit) + largest;
    case WEIR_WARMUP:
        return limit->spec.shape == WEIR_SHAPE_ABOVE ? largest
                                                     : (weir_i128)limit->u.warmup.most + 1 + largest;
    case WEIR_HYBRID:
        return limit->u.hybrid.over / limit->ticks.unit;
    case WEIR_FIXED_WINDOW:
    case WEIR_QUOTA:
    case WEIR_SLIDING_WINDOW:
    case WEIR_SLIDING_LOG:
        return limit->spec.count;
    case WEIR_UNLIMITED:
        return (weir_i128)INT64_MAX * 1000;
    case WEIR_BLOCKED:
        break;
    }
    return 0;
}

/* A clock that only ever goes back, by a nanosecond or by 100 years: together no more than at one instant. */
TEST(a_clock_that_steps_back_mints_nothing)
{
    for_each_policy(policy, i) for_each_number(start)
    {
        int64_t state[STATE_WORDS], largest = 0;
        weir_i128 admitted = 0;
        weir_state_init(policy, state, *start);
        int64_t times[] = {*start, *start, sat_sub(*start, 1), sat_sub(*start, SPEC_PERIOD_MAX_NS),
                           *start, 0,      INT64_MIN,          *start};
        for (size_t t = 0; t < sizeof times / sizeof *times; t++)
            for (size_t k = NUMBERS; k-- > 0;)
                if (weir_state_take(policy, state, times[t], numbers[k], NULL)) {
                    admitted += numbers[k];
                    largest = max64(largest, numbers[k]);
                }
        CHECK(admitted <= at_once(&policy->limits[0], largest));
    }
}

/* Whoever comes back when it is told to is not told to wait once more: 2^63 - 2 units at 16 a nanosecond are
 * paid after 2^59 windows, and the last of them fades in another one. */
TEST(the_largest_debt_is_waited_for_to_the_nanosecond)
{
    struct weir_policy *policy = weir_policy_from(
        &(struct weir_spec){.algo = WEIR_SLIDING_WINDOW, .count = 16, .period_ns = 1}, 1, NULL);
    int64_t state[STATE_WORDS];
    struct weir_verdict verdict;
    if (!CHECK(policy))
        return;
    weir_state_init(policy, state, 5);
    weir_state_charge(policy, state, 877, INT64_MAX - 1);
    CHECK(!weir_state_take(policy, state, 877, 3, &verdict));
    CHECK_EQ(verdict.retry_after_ns, (INT64_C(1) << 59) + 1);
    CHECK(weir_state_take(policy, state, 877 + verdict.retry_after_ns, 3, NULL));
    weir_policy_free(policy);
}

/* ---- the rest of the header ---- */

TEST(most_is_never_negative)
{
    for_each_policy(policy, i) for_each_number(span)
    {
        CHECK(weir_policy_most(policy, 0, *span) >= 0);
        CHECK_EQ(weir_policy_most(policy, 1, *span), 0);
        CHECK_EQ(weir_policy_most(policy, SIZE_MAX, *span), 0);
    }
}

TEST(null_is_refused_everywhere)
{
    const struct weir_policy *policy = policy_at(0);
    int64_t state[STATE_WORDS];
    struct weir_reservation r = {.n = 1, .wait_ns = 1, .due_ns = INT64_MAX};
    struct weir_verdict v;
    weir_state_init(policy, state, 0);
    weir_state_init(NULL, state, 0);
    weir_state_init(policy, NULL, 0);
    CHECK(!weir_state_take(NULL, state, 0, 1, &v) && v.reason == WEIR_INVALID);
    CHECK(!weir_state_take(policy, NULL, 0, 1, &v) && v.reason == WEIR_INVALID);
    CHECK(!weir_state_take(NULL, NULL, 0, 1, NULL));
    CHECK(!weir_state_peek(NULL, state, 0, 1, &v) && v.reason == WEIR_INVALID);
    CHECK(!weir_state_peek(policy, NULL, 0, 1, &v) && v.reason == WEIR_INVALID);
    CHECK(!weir_state_reserve(NULL, state, 0, 1, 0, &r, &v) && v.reason == WEIR_INVALID);
    CHECK(!weir_state_reserve(policy, NULL, 0, 1, 0, NULL, NULL));
    CHECK(!weir_state_cancel(NULL, state, 0, &r) && !weir_state_cancel(policy, NULL, 0, &r));
    CHECK(!weir_state_cancel(policy, state, 0, NULL) && !weir_state_cancel(policy, state, 0, &r));
    weir_state_give(NULL, state, 0, 1);
    weir_state_give(policy, NULL, 0, 1);
    weir_state_charge(NULL, state, 0, 1);
    weir_state_charge(policy, NULL, 0, 1);
    CHECK(weir_state_drain(NULL, state, 0) == 0 && weir_state_drain(policy, NULL, 0) == 0);
    weir_state_reset(NULL, state, 0);
    weir_state_reset(policy, NULL, 0);
    weir_state_change(NULL, state, policy, state, 0);
    weir_state_change(policy, NULL, policy, state, 0);
    weir_state_change(policy, state, NULL, state, 0);
    weir_state_change(policy, state, policy, NULL, 0);
    CHECK(weir_state_restart(NULL, state, 0) == 0 && weir_state_restart(policy, NULL, 0) == 0);
    CHECK(weir_state_behind(NULL, state, 0) == 0 && weir_state_behind(policy, NULL, 0) == 0);
    CHECK(weir_policy_count(NULL) == 0 && !weir_policy_spec(NULL, 0) && weir_policy_state_size(NULL) == 0);
    CHECK(weir_policy_most(NULL, 0, 1) == 0);
    weir_policy_free(NULL);
}

TEST(null_text_is_refused)
{
    struct weir_error err;
    struct weir_spec spec;
    char text[8];
    CHECK(!weir_policy_new(NULL, &err) && err.code != 0 && err.text[0]);
    CHECK(!weir_policy_new(NULL, NULL) && !weir_policy_new("", NULL));
    CHECK(!weir_policy_from(NULL, 1, &err) && err.code == EINVAL);
    CHECK_STR(err.text, "specs is NULL");
    CHECK(!weir_limiter_from(NULL, 1, &err) && err.code == EINVAL);
    CHECK_STR(err.text, "specs is NULL");
    CHECK(!weir_policy_from(&spec, 0, NULL) && !weir_policy_from(&spec, WEIR_LIMITS_MAX + 1, NULL));
    CHECK(weir_spec_parse(NULL, &spec, 1, &err) == 0 && err.text[0]);
    CHECK(weir_spec_parse("1/s", NULL, 0, NULL) == 0);
    CHECK(!weir_spec_from_engineblock(NULL, &spec, &err) && !weir_spec_from_engineblock("1", NULL, NULL));
    CHECK(weir_spec_format(NULL, 1, text, sizeof text) == 0);
}

/* Every field of a spec, two at a time, with every number: it compiles, or says why not. */
TEST(every_pair_of_fields)
{
    static const size_t fields[] = {
        offsetof(struct weir_spec, count),      offsetof(struct weir_spec, period_ns),
        offsetof(struct weir_spec, burst),      offsetof(struct weir_spec, initial),
        offsetof(struct weir_spec, timeout_ns), offsetof(struct weir_spec, warmup_ns),
        offsetof(struct weir_spec, cold_ppm),   offsetof(struct weir_spec, ratio_ppm),
        offsetof(struct weir_spec, pool_ns),    offsetof(struct weir_spec, queue),
        offsetof(struct weir_spec, age_ns),
    };
    size_t count = sizeof fields / sizeof *fields, compiled = 0;
    for (int32_t algo = -1; algo <= algo_count(); algo++)
        for (size_t k = 0; k < count * count; k++)
            for_each_number(x) for_each_number(y)
            {
                struct weir_spec spec = {.algo = algo, .count = 5, .period_ns = WEIR_SEC};
                struct weir_error err;
                if (algo == WEIR_WARMUP)
                    spec.warmup_ns = WEIR_SEC;
                memcpy((char *)&spec + fields[k / count], x, sizeof *x);
                memcpy((char *)&spec + fields[k % count], y, sizeof *y);
                struct weir_policy *policy = weir_policy_from(&spec, 1, &err);
                CHECK(policy ? err.code == 0 : err.code != 0 && err.text[0] != '\0');
                if (!policy)
                    continue;
                compiled++;
                if (fits(policy)) {
                    int64_t state[STATE_WORDS];
                    weir_state_init(policy, state, *x);
                    (void)weir_state_take(policy, state, *y, 1, NULL);
                    (void)weir_state_take(policy, state, *y, *x, NULL);
                }
                weir_policy_free(policy);
            }
    CHECK(compiled > 1000);
}

__attribute__((destructor)) static void free_policies(void)
{
    while (policy_count > 0)
        weir_policy_free(policies[--policy_count]);
}
