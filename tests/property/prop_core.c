/* SPDX-License-Identifier: MIT */
/*
 * Every algorithm against its exact model and its law, under random traffic. WEIR_PROVE_DECISIONS says how
 * many decisions all of them make together, WEIR_SEED or -s where to begin.
 */
#include "check.h"
#include "property/run.h"

#define ALGORITHMS 12

static void prove(const char *name, int32_t algo)
{
    struct prove prove = {
        .name = name,
        .algos = &algo,
        .count = 1,
        .seed = check.seed,
        .stream = (uint64_t)algo,
        .decisions = check_env("WEIR_PROVE_DECISIONS", 12000000) / ALGORITHMS,
    };
    CHECK(run_prove(&prove));
}

TEST(token_bucket)
{
    prove("token-bucket", WEIR_TOKEN_BUCKET);
}

TEST(interval)
{
    prove("interval", WEIR_INTERVAL);
}

TEST(leaky_bucket)
{
    prove("leaky-bucket", WEIR_LEAKY_BUCKET);
}

TEST(smooth)
{
    prove("smooth", WEIR_SMOOTH);
}

TEST(warmup)
{
    prove("warmup", WEIR_WARMUP);
}

TEST(hybrid)
{
    prove("hybrid", WEIR_HYBRID);
}

TEST(fixed_window)
{
    prove("fixed-window", WEIR_FIXED_WINDOW);
}

TEST(quota)
{
    prove("quota", WEIR_QUOTA);
}

TEST(sliding_window)
{
    prove("sliding-window", WEIR_SLIDING_WINDOW);
}

TEST(sliding_log)
{
    prove("sliding-log", WEIR_SLIDING_LOG);
}

TEST(step)
{
    prove("step", WEIR_STEP);
}

TEST(unlimited)
{
    prove("unlimited", WEIR_UNLIMITED);
}

TEST(blocked)
{
    prove("blocked", WEIR_BLOCKED);
}
