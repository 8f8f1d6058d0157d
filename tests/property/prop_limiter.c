/* SPDX-License-Identifier: MIT */
/*
 * A limiter in the hands of one thread decides as the exact model does, in every field of every verdict, and
 * keeps the law: for every algorithm, for several limits, and across changes from any limit to any other.
 */
#include "algorithms.h"
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

#include "property/each_algorithm.h"

static void roll_any(struct dice *dice, int32_t *algos, size_t *count)
{
    *count = (size_t)dice_between(dice, 2, MODEL_LIMITS);
    for (size_t i = 0; i < *count; i++)
        algos[i] = algo_with_rate(&dice->rng);
}

static void roll_buckets(struct dice *dice, int32_t *algos, size_t *count)
{
    *count = 2;
    algos[0] = WEIR_TOKEN_BUCKET;
    algos[1] = algo_with_rate(&dice->rng);
}

TEST(any_limits)
{
    prove("any limits", NULL, 0, roll_any, 100);
}

TEST(two_limits)
{
    prove("token-bucket and another", NULL, 0, roll_buckets, 101);
}
