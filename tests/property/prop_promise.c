/* SPDX-License-Identifier: MIT */
/*
 * Queues of promises against exact fractions: however many units are promised, each promise is within a
 * nanosecond of the exact time, which need not be a whole one. Nothing here comes from the compiled limit.
 */
#include "check.h"
#include "core/limit.h"
#include "property/dice.h"

/* A limit whose units all wait at one moment, and how far they are. */
struct line {
    struct weir_policy *policy;
    int64_t count, period, start;
    weir_i128 ahead; /* units that have to pass before the next one, counted from `start` */
    bool own;        /* those of a promise itself have to pass, too, before it is due */
    int64_t slack;   /* nanoseconds that the first promise may be off, on top */
};

/* Within a nanosecond of start + units * W / R, and the slack? Only where the compiled rate, cut off after 64
 * binary digits, makes the difference is it as late as that. */
static bool is_exact(const struct line *line, weir_i128 units, int64_t due)
{
    weir_i128 exact = units > 0 ? units * line->period : 0;
    weir_i128 off = (weir_i128)(due - line->start) * line->count - exact;
    weir_i128 most = (weir_i128)line->count * (1 + line->slack);
    return off > -most && off <= most;
}

static bool promise(struct line *line, int64_t *state, int64_t n)
{
    struct weir_reservation r;
    weir_i128 units = line->ahead + (line->own ? n : 0);
    if (!CHECK(weir_state_reserve(line->policy, state, line->start, n, WEIR_FOREVER, &r, NULL)))
        return false;
    line->ahead += n;
    return CHECK(is_exact(line, units, r.due_ns));
}

static void tell(const struct line *line, int64_t promises)
{
    char text[200];
    (void)weir_spec_format(&line->policy->limits[0].spec, 1, text, sizeof text);
    printf("#   %s from %" PRId64 " ns: promise %" PRId64 "\n", text, line->start, promises);
}

/* `promises` of 1 to `most` units each. */
static bool stand_in(struct line *line, struct dice *dice, int64_t promises, int64_t most)
{
    int64_t state[16];
    if (!CHECK(weir_policy_state_size(line->policy) <= sizeof state))
        return false;
    weir_state_init(line->policy, state, line->start);
    for (int64_t i = 0; i < promises; i++)
        if (!promise(line, state, dice_between(dice, 1, most))) {
            tell(line, i);
            return false;
        }
    return true;
}

/* Anything from one a day to 64 a nanosecond; often next to a nanosecond a unit. */
static void roll_rate(struct dice *dice, struct weir_spec *spec)
{
    spec->count = dice_magnitude(dice, 64 * WEIR_SEC);
    spec->period_ns = WEIR_SEC;
    if (dice_chance(dice, 50)) {
        spec->count = dice_between(dice, 1, 128);
        spec->period_ns = dice_between(dice, (spec->count + 63) / 64, 100);
    }
}

static bool roll_line(struct dice *dice, struct line *line, int32_t algo, int64_t *most)
{
    struct weir_spec spec = {.algo = algo};
    roll_rate(dice, &spec);
    *most = algo == WEIR_INTERVAL ? 1 : dice_magnitude(dice, 20);
    if (algo == WEIR_TOKEN_BUCKET || algo == WEIR_SMOOTH)
        spec.burst = *most;
    if (algo == WEIR_LEAKY_BUCKET)
        spec.queue = 1000000;
    if (algo == WEIR_HYBRID) { /* a pool that holds what is asked, and no more */
        spec.pool_ns = div_up(*most * spec.period_ns, spec.count);
        spec.ratio_ppm = 1000000 + 100000 * dice_between(dice, 0, 1);
    }
    *line = (struct line){.count = spec.count, .period = spec.period_ns};
    line->policy = weir_policy_from(&spec, 1, NULL);
    line->start = dice_between(dice, 0, 1000);
    line->own = algo == WEIR_TOKEN_BUCKET || algo == WEIR_INTERVAL || algo == WEIR_HYBRID;
    line->ahead = algo == WEIR_TOKEN_BUCKET ? -*most : line->own ? -1 : 0;
    return CHECK(line->policy != NULL);
}

TEST(each_promise_is_within_a_nanosecond_of_the_exact_time)
{
    static const int32_t algos[] = {WEIR_TOKEN_BUCKET, WEIR_INTERVAL, WEIR_LEAKY_BUCKET, WEIR_SMOOTH,
                                    WEIR_HYBRID};
    struct dice dice = dice_new(check.seed, 210);
    for (int i = 0; i < 1000; i++) {
        struct line line;
        int64_t most;
        bool good =
            roll_line(&dice, &line, DICE_PICK(&dice, algos), &most) && stand_in(&line, &dice, 400, most);
        weir_policy_free(line.policy);
        if (!good)
            return;
    }
}

/* A billion units: jobs of ten thousand, and buckets that a promise uses up. */
TEST(a_billion_queued_units_have_not_drifted)
{
    static const int64_t rates[] = {750000000, 999999937, 3, 7000000, 1500000000};
    struct dice dice = dice_new(check.seed, 211);
    for (size_t i = 0; i < 2 * sizeof rates / sizeof *rates; i++) {
        struct weir_spec spec = {.count = rates[i / 2], .period_ns = WEIR_SEC};
        struct line line = {.count = spec.count, .period = WEIR_SEC, .own = i % 2 == 0};
        if (i % 2 == 0) {
            spec.burst = 20000;
            line.ahead = -20000;
        } else {
            spec.algo = WEIR_LEAKY_BUCKET;
            spec.queue = INT64_C(4000000000);
        }
        line.policy = weir_policy_from(&spec, 1, NULL);
        bool good = CHECK(line.policy) && stand_in(&line, &dice, 100000, 20000);
        CHECK(!good || line.ahead > 900000000);
        weir_policy_free(line.policy);
    }
}

static void leave(void *arg, const struct weir_verdict *verdict)
{
    *(int64_t *)arg = verdict->wait_ns;
}

TEST(jobs_that_leave_a_queue_on_time_do_not_drift)
{
    static const char *const limits[] = {"750M/s algo=leaky-bucket queue=999",
                                         "3/s algo=leaky-bucket queue=999",
                                         "64/1ns algo=leaky-bucket queue=999"};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        struct weir_policy *policy = weir_policy_new(limits[i], NULL);
        struct weir_queue *queue = weir_queue_new(limits[i], WEIR_QUEUE_LOOP, NULL);
        int64_t left[1000], next = 0;
        for (size_t job = 0; job < 1000; job++)
            CHECK(weir_queue_put_at(queue, 0, 1, leave, &left[job], NULL));
        while (next != WEIR_FOREVER)
            next = weir_queue_run_at(queue, next);
        const struct weir_spec *spec = &policy->limits[0].spec;
        struct line line = {.policy = policy, .count = spec->count, .period = spec->period_ns};
        for (int64_t job = 0; job < 1000; job++)
            if (!CHECK(is_exact(&line, job, left[job]))) {
                tell(&line, job);
                break;
            }
        weir_queue_free(queue, WEIR_QUEUE_DROP);
        weir_policy_free(policy);
    }
}

/* What it has saved makes the first promise dear, in doubles; from then on units are exact. */
TEST(a_limit_that_has_warmed_up_does_not_drift)
{
    struct dice dice = dice_new(check.seed, 212);
    for (int i = 0; i < 200; i++) {
        struct weir_spec spec = {.algo = WEIR_WARMUP, .warmup_ns = 10, .shape = WEIR_SHAPE_ABOVE};
        struct weir_reservation r;
        int64_t state[16];
        roll_rate(&dice, &spec);
        struct weir_policy *policy = weir_policy_from(&spec, 1, NULL);
        if (!CHECK(policy))
            return;
        weir_state_init(policy, state, 0);
        struct line line = {.policy = policy, .count = spec.count, .period = spec.period_ns, .slack = 1};
        CHECK(weir_state_reserve(policy, state, 0, 10000, WEIR_FOREVER, NULL, NULL));
        CHECK(weir_state_reserve(policy, state, 0, 1, WEIR_FOREVER, &r, NULL));
        weir_i128 ahead = 1; /* counted from the second one */
        for (int j = 0; j < 400; j++, ahead++) {
            struct weir_reservation next;
            CHECK(weir_state_reserve(policy, state, 0, 1, WEIR_FOREVER, &next, NULL));
            line.start = r.due_ns;
            if (!CHECK(is_exact(&line, ahead, next.due_ns))) {
                tell(&line, j);
                weir_policy_free(policy);
                return;
            }
        }
        weir_policy_free(policy);
    }
}
