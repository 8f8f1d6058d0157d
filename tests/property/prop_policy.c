/* SPDX-License-Identifier: MIT */
/*
 * Policies of two to four limits, of any algorithms: all or none, a refusal charges nobody, and each limit
 * keeps its own law.
 */
#include "algorithms.h"
#include "check.h"
#include "property/run.h"

static void roll_any(struct dice *dice, int32_t *algos, size_t *count)
{
    *count = (size_t)dice_between(dice, 2, MODEL_LIMITS);
    for (size_t i = 0; i < *count; i++)
        algos[i] = algo_with_rate(&dice->rng);
    if (dice_chance(dice, 10))
        algos[0] = (int32_t)dice_between(dice, WEIR_UNLIMITED, WEIR_BLOCKED);
}

/* Promises are kept for as long as the slowest limit wants: what the others do meanwhile. */
static void roll_buckets(struct dice *dice, int32_t *algos, size_t *count)
{
    static const int32_t slow[] = {WEIR_TOKEN_BUCKET, WEIR_FIXED_WINDOW, WEIR_SLIDING_LOG, WEIR_STEP};
    *count = 2;
    algos[0] = WEIR_TOKEN_BUCKET;
    algos[1] = DICE_PICK(dice, slow);
}

static void prove(const char *name, void (*roll)(struct dice *dice, int32_t *algos, size_t *count),
                  uint64_t stream)
{
    struct prove prove = {
        .name = name,
        .roll = roll,
        .seed = check.seed,
        .stream = 100 + stream,
        .decisions = check_env("WEIR_PROVE_DECISIONS", 3000000) / 2,
    };
    CHECK(run_prove(&prove));
}

TEST(any_limits)
{
    prove("any limits", roll_any, 0);
}

TEST(buckets)
{
    prove("token-bucket and another", roll_buckets, 1);
}
