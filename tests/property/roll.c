/* SPDX-License-Identifier: MIT */
/*
 * Random operations that suit the run so far: they come when something is just about to change, and ask for
 * just what is there, or one more.
 */
#include "property/run.h"

static const struct limit *any_limit(const struct run *run, struct dice *dice)
{
    return &run->policy->limits[dice_between(dice, 0, (int64_t)run->policy->count - 1)];
}

/* Time that one unit takes. */
static int64_t unit_ns(const struct limit *limit)
{
    return limit->spec.count > 0 ? max64(limit->spec.period_ns / limit->spec.count, 1) : 1;
}

/* The most that could pass at once. */
static int64_t burst_of(const struct limit *limit)
{
    switch ((enum weir_algo)limit->spec.algo) {
    case WEIR_TOKEN_BUCKET:
    case WEIR_STEP:
        return limit->spec.burst;
    case WEIR_SMOOTH:
        return max64(limit->full / limit->ticks.unit, 1);
    case WEIR_WARMUP:
        return max64(min64((int64_t)limit->u.warmup.most, SPEC_COUNT_MAX), 1);
    case WEIR_HYBRID:
        return max64(limit->u.hybrid.over / limit->ticks.unit, 1);
    case WEIR_LEAKY_BUCKET:
        return limit->spec.queue + 1;
    case WEIR_FIXED_WINDOW:
    case WEIR_QUOTA:
    case WEIR_SLIDING_WINDOW:
    case WEIR_SLIDING_LOG:
        return limit->spec.count;
    default:
        return 1;
    }
}

static int64_t retry_of(const struct run *run)
{
    int64_t retry = run->retry.retry_after_ns;
    return retry == WEIR_FOREVER ? 0 : retry;
}

static int64_t roll_edge(const struct run *run, const struct limit *limit, struct dice *dice)
{
    int64_t period = max64(limit->spec.period_ns, 1);
    int64_t edge = sat_mul(run->now / period + dice_between(dice, 1, 2), period);
    return sat_add(edge, dice_between(dice, -1, 1));
}

static int64_t roll_back(const struct run *run, const struct limit *limit, struct dice *dice)
{
    int64_t spans[] = {1, unit_ns(limit), limit->spec.period_ns, dice_magnitude(dice, WEIR_TIME_MAX)};
    return run->now - DICE_PICK(dice, spans);
}

static int64_t roll_time(const struct run *run, struct dice *dice)
{
    static const int64_t extremes[] = {INT64_MIN, -1, 0, WEIR_TIME_MAX, WEIR_TIME_MAX + 1, INT64_MAX};
    const struct limit *limit = any_limit(run, dice);
    int64_t now = run->now, way = dice_between(dice, 0, 99);
    if (way < 30)
        return now;
    if (way < 38)
        return now + 1;
    if (way < 54)
        return sat_add(now, retry_of(run));
    if (way < 60)
        return sat_add(now, max64(retry_of(run) - 1, 0));
    if (way < 76)
        return sat_add(now, sat_mul(unit_ns(limit), dice_between(dice, 1, 3)) - dice_chance(dice, 20));
    if (way < 84)
        return roll_edge(run, limit, dice);
    if (way < 90)
        return sat_add(now, dice_between(dice, 0, sat_mul(max64(limit->spec.period_ns, 1), 2)));
    if (way < 93)
        return sat_add(now, sat_mul(dice_magnitude(dice, 1000), max64(limit->spec.period_ns, 1)));
    if (way < 94)
        return sat_add(now, dice_magnitude(dice, WEIR_TIME_MAX));
    if (way < 99)
        return roll_back(run, limit, dice);
    return dice_chance(dice, 20) ? DICE_PICK(dice, extremes) : now;
}

static int64_t roll_n(const struct run *run, struct dice *dice)
{
    static const int64_t extremes[] = {0, -1, INT64_MIN, INT64_MAX, SPEC_COUNT_MAX};
    int64_t burst = burst_of(any_limit(run, dice)), way = dice_between(dice, 0, 99);
    if (run->scenario->mood == MOOD_SINGLE || way < 40)
        return 1;
    if (way < 52)
        return max64(run->last.remaining, 1);
    if (way < 58)
        return sat_add(run->last.remaining, 1);
    if (way < 66)
        return burst;
    if (way < 69)
        return sat_add(burst, 1);
    if (way < 80)
        return dice_between(dice, 1, burst);
    if (way < 97)
        return dice_between(dice, 1, min64(burst, 5));
    return way < 99 ? dice_magnitude(dice, INT64_MAX) : DICE_PICK(dice, extremes);
}

static int64_t roll_timeout(const struct run *run, struct dice *dice)
{
    const struct limit *limit = any_limit(run, dice);
    int64_t retry = retry_of(run), unit = unit_ns(limit), period = max64(limit->spec.period_ns, 1);
    int64_t timeouts[] = {0,
                          retry,
                          max64(retry - 1, 0),
                          sat_mul(unit, dice_between(dice, 1, 10)),
                          sat_mul(period, dice_between(dice, 1, 3)),
                          sat_mul(period, 100),
                          WEIR_FOREVER,
                          WEIR_FOREVER,
                          dice_chance(dice, 10) ? INT64_MIN : period};
    return DICE_PICK(dice, timeouts);
}

/* Most of them open, and of these most of the newest. */
static uint32_t roll_held(const struct run *run, struct dice *dice)
{
    int64_t count = (int64_t)run->held_count, recent = min64(count, 5);
    if (count == 0)
        return 0;
    int64_t back = dice_chance(dice, 90) ? dice_between(dice, 1, recent) : dice_between(dice, 1, count);
    return run->held[count - back].id;
}

static enum op_kind roll_kind(const struct run *run, struct dice *dice)
{
    int64_t way = dice_between(dice, 0, 99);
    if (run->scenario->mood == MOOD_SINGLE)
        return way < 80 ? OP_TAKE : way < 97 ? OP_RESERVE : way < 99 ? OP_PEEK : OP_CHARGE;
    if (run->scenario->mood == MOOD_PROMISES && way < 75)
        return way < 35   ? OP_RESERVE
               : way < 60 ? OP_CANCEL
               : way < 67 ? OP_GIVE
               : way < 72 ? OP_TAKE
                          : OP_CHARGE;
    way = dice_between(dice, 0, 99);
    if (way < 46)
        return OP_TAKE;
    if (way < 54)
        return OP_PEEK;
    if (way < 70)
        return OP_RESERVE;
    if (way < 78)
        return OP_CANCEL;
    if (way < 85)
        return OP_GIVE;
    if (way < 90)
        return OP_CHARGE;
    if (way < 92)
        return OP_DRAIN;
    if (way < 93)
        return OP_RESET;
    return way < 97 ? OP_CHANGE : OP_RESTART;
}

struct op run_roll(const struct run *run, uint32_t id, struct dice *dice)
{
    struct op op = {.kind = roll_kind(run, dice), .id = id};
    if ((op.kind == OP_CHANGE || op.kind == OP_GIVE) && run->law.part_count >= LAW_PARTS)
        op.kind = OP_TAKE;
    op.at = roll_time(run, dice);
    if (op.kind == OP_CANCEL || op.kind == OP_GIVE) /* soon, or it will be too late */
        op.at = dice_chance(dice, 70) ? run->now : op.at;
    op.n = roll_n(run, dice);
    if (op.kind == OP_CHARGE && !dice_chance(dice, 5)) /* a debt without end teaches little */
        op.n = dice_between(dice, 1, sat_mul(2, min64(burst_of(any_limit(run, dice)), 100)));
    op.timeout = op.kind == OP_RESERVE ? roll_timeout(run, dice) : 0;
    if (op.kind == OP_CANCEL)
        op.ref = roll_held(run, dice);
    if (op.kind == OP_CHANGE)
        op.ref = (uint32_t)dice_between(dice, 0, SCENARIO_POLICIES - 1);
    return op;
}
