/* SPDX-License-Identifier: MIT */
/*
 * A limiter in the hands of one thread decides as the exact model does, in every field of every verdict, and
 * keeps the law: for every algorithm, for several limits, and across changes from any limit to any other.
 */
#include "check.h"
#include "property/run.h"

#define STREAMS 14

static void prove(const char *name, const int32_t *algos, size_t count,
                  void (*roll)(struct dice *dice, int32_t *algos, size_t *count), uint64_t stream)
{
    struct prove prove = {
        .name = name,
        .algos = algos,
        .count = count,
        .roll = roll,
        .subject = &subject_limiter,
        .strangers = true,
        .seed = check.seed,
        .stream = 200 + stream,
        .decisions = check_env("WEIR_PROVE_DECISIONS", 2800000) / STREAMS,
    };
    CHECK(run_prove(&prove));
}

static void prove_one(const char *name, int32_t algo)
{
    prove(name, &algo, 1, NULL, (uint64_t)algo);
}

TEST(token_bucket)
{
    prove_one("token-bucket", WEIR_TOKEN_BUCKET);
}

TEST(interval)
{
    prove_one("interval", WEIR_INTERVAL);
}

TEST(leaky_bucket)
{
    prove_one("leaky-bucket", WEIR_LEAKY_BUCKET);
}

TEST(smooth)
{
    prove_one("smooth", WEIR_SMOOTH);
}

TEST(warmup)
{
    prove_one("warmup", WEIR_WARMUP);
}

TEST(hybrid)
{
    prove_one("hybrid", WEIR_HYBRID);
}

TEST(fixed_window)
{
    prove_one("fixed-window", WEIR_FIXED_WINDOW);
}

TEST(sliding_window)
{
    prove_one("sliding-window", WEIR_SLIDING_WINDOW);
}

TEST(sliding_log)
{
    prove_one("sliding-log", WEIR_SLIDING_LOG);
}

TEST(step)
{
    prove_one("step", WEIR_STEP);
}

TEST(unlimited)
{
    prove_one("unlimited", WEIR_UNLIMITED);
}

TEST(blocked)
{
    prove_one("blocked", WEIR_BLOCKED);
}

static void roll_any(struct dice *dice, int32_t *algos, size_t *count)
{
    *count = (size_t)dice_between(dice, 2, MODEL_LIMITS);
    for (size_t i = 0; i < *count; i++)
        algos[i] = (int32_t)dice_between(dice, WEIR_TOKEN_BUCKET, WEIR_STEP);
}

static void roll_buckets(struct dice *dice, int32_t *algos, size_t *count)
{
    *count = 2;
    algos[0] = WEIR_TOKEN_BUCKET;
    algos[1] = (int32_t)dice_between(dice, WEIR_TOKEN_BUCKET, WEIR_STEP);
}

TEST(any_limits)
{
    prove("any limits", NULL, 0, roll_any, 100);
}

TEST(two_limits)
{
    prove("token-bucket and another", NULL, 0, roll_buckets, 101);
}
