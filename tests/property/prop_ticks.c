/* SPDX-License-Identifier: MIT */
/*
 * Numbers and time. First the ticks of compiled limits against 128-bit arithmetic; then, apart from that, how
 * far a compiled limit is from what its spec says, over ten years.
 */
#include "check.h"
#include "core/limit.h"
#include "property/dice.h"

#define TEN_YEARS_NS (INT64_C(3652) * 86400 * WEIR_SEC + 12 * 3600 * WEIR_SEC)

static struct ticks roll_ticks(struct dice *dice, int64_t *count, int64_t *period)
{
    struct ticks ticks;
    do {
        *count = dice_magnitude(dice, SPEC_COUNT_MAX);
        *period = dice_magnitude(dice, SPEC_PERIOD_MAX_NS);
        if (dice_chance(dice, 30))
            *count = dice_between(dice, 1, 2 * TICKS_PER_NS);
        if (dice_chance(dice, 30))
            *period = dice_between(dice, 1, 100);
    } while (!weir_ticks_init(&ticks, *count, *period));
    return ticks;
}

/* A time that may be near an edge. */
static int64_t roll_time(struct dice *dice, const struct ticks *ticks)
{
    switch (dice_between(dice, 0, 3)) {
    case 0:
        return dice_magnitude(dice, ticks->time_max) - 1;
    case 1:
        return ticks->time_max - dice_between(dice, 0, min64(ticks->time_max, 1000));
    default:
        return dice_between(dice, 0, ticks->time_max);
    }
}

/* Is it t * k * R / W, rounded up, or down where the 2^-64 that the rate lacks make the difference? */
static bool is_tick(weir_i128 tick, int64_t time, int64_t unit, int64_t count, int64_t period)
{
    weir_i128 rate = (weir_i128)unit * count, part = rate % period * time;
    weir_i128 down = rate / period * time + part / period;
    return tick == down || (tick == down + 1 && part % period != 0);
}

TEST(a_tick_is_where_the_rate_says)
{
    struct dice dice = dice_new(check.seed, 200);
    for (int64_t i = check_env("WEIR_PROVE_DECISIONS", 2000000) / 4; i > 0; i--) {
        int64_t count, period;
        struct ticks ticks = roll_ticks(&dice, &count, &period);
        int64_t time = roll_time(&dice, &ticks);
        if (!CHECK(ticks.unit == div_up(period, count)) ||
            !CHECK(is_tick(ticks_at(&ticks, time), time, ticks.unit, count, period)) ||
            !CHECK(ticks_at(&ticks, time) <= ticks_at(&ticks, time + 1)) ||
            !CHECK(ticks_at(&ticks, INT64_MAX) == ticks_at(&ticks, ticks.time_max)) ||
            !CHECK(ticks_at(&ticks, -time) == 0)) {
            printf("#   %" PRId64 " per %" PRId64 " ns at %" PRId64 "\n", count, period, time);
            return;
        }
    }
}

TEST(a_time_is_the_first_with_its_tick)
{
    struct dice dice = dice_new(check.seed, 201);
    for (int64_t i = check_env("WEIR_PROVE_DECISIONS", 2000000) / 4; i > 0; i--) {
        int64_t count, period;
        struct ticks ticks = roll_ticks(&dice, &count, &period);
        int64_t tick = sat_add(ticks_at(&ticks, roll_time(&dice, &ticks)), dice_between(&dice, -1, 1));
        int64_t time = ticks_time(&ticks, tick);
        bool right;
        if (tick <= 0)
            right = time == 0;
        else if (tick > ticks_at(&ticks, ticks.time_max))
            right = time == WEIR_FOREVER;
        else
            right =
                ticks_at(&ticks, time) >= tick && ticks_at(&ticks, time - 1) < tick &&
                time - (int64_t)mulhi((uint64_t)tick - 1, ticks.inverse) <= 3; /* so the search is short */
        if (!CHECK(right)) {
            printf("#   %" PRId64 " per %" PRId64 " ns: tick %" PRId64 " at %" PRId64 "\n", count, period,
                   tick, time);
            return;
        }
    }
}

TEST(a_span_rounds_as_it_says)
{
    struct dice dice = dice_new(check.seed, 202);
    for (int64_t i = check_env("WEIR_PROVE_DECISIONS", 2000000) / 4; i > 0; i--) {
        int64_t count, period;
        struct ticks ticks = roll_ticks(&dice, &count, &period);
        int64_t span = roll_time(&dice, &ticks), from = dice_between(&dice, 0, ticks.time_max - span);
        int64_t of = weir_ticks_of_span(&ticks, span),
                passed = ticks_at(&ticks, from + span) - ticks_at(&ticks, from);
        int64_t back = weir_ticks_to_span(&ticks, of);
        if (!CHECK(passed <= of && passed >= of - 1) || !CHECK(back >= span) ||
            !CHECK(of == 0 || weir_ticks_to_span(&ticks, of - 1) < span || back == span)) {
            printf("#   %" PRId64 " per %" PRId64 " ns: %" PRId64 " ns are %" PRId64 " ticks are %" PRId64
                   " ns\n",
                   count, period, span, of, back);
            return;
        }
    }
}

/* ---- from spec to compiled limit ---- */

/* A bucket is empty at `from`: how much earlier than i * W / R after that the i-th unit passes. */
static double earlier_ns(const struct ticks *ticks, int64_t count, int64_t from, int64_t i)
{
    int64_t time = ticks_time(ticks, ticks_at(ticks, from) + i * ticks->unit);
    weir_i128 early = (weir_i128)i * WEIR_SEC - (weir_i128)(time - from) * count;
    return (double)early / (double)count;
}

static void check_rate(int64_t count)
{
    struct dice dice = dice_new(check.seed, 203);
    weir_i128 exact = (weir_i128)TEN_YEARS_NS * count / WEIR_SEC;
    struct weir_spec spec = {
        .count = count, .period_ns = WEIR_SEC, .burst = (int64_t)exact + 2, .initial_given = 1};
    struct weir_policy *policy = weir_policy_from(&spec, 1, NULL);
    if (!CHECK(policy))
        return;
    const struct ticks *ticks = &policy->limits[0].ticks;
    int64_t state[8];
    struct weir_verdict v;
    CHECK(weir_policy_state_size(policy) <= sizeof state);
    weir_state_init(policy, state, 0); /* empty; nothing is lost for want of room */
    (void)weir_state_peek(policy, state, TEN_YEARS_NS, 1, &v);

    int64_t off = v.remaining - (int64_t)exact;
    double ppb = (double)off / (double)exact * 1e9, years = (double)ticks->time_max / 365.25 / 86400e9,
           early = -1e9;
    for (int i = 0; i < 100000; i++) {
        int64_t from = dice_between(&dice, 0, TEN_YEARS_NS), unit = dice_magnitude(&dice, (int64_t)exact);
        double one = earlier_ns(ticks, count, from, unit);
        early = one > early ? one : early;
    }
    printf("# %11" PRId64 " %19" PRId64 " %19" PRId64 " %6" PRId64 " %9.6f %9.3f %7.0f\n", count,
           (int64_t)exact, v.remaining, off, ppb, early, years);
    CHECK(off >= -1 && off <= 1);
    CHECK(early < 1);
    CHECK(years >= 100);
    weir_policy_free(policy);
}

TEST(error_over_ten_years)
{
    static const int64_t rates[] = {1, 3, 7, 80000, 600000, 1000000, 700000000, 999999937, 1000000000};
    puts("#                        units in ten years                                earliest   range");
    puts("#    per second               exact            compiled    off       ppb    by ns   years");
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++)
        check_rate(rates[i]);
}
