/* SPDX-License-Identifier: MIT */
/*
 * A test for each algorithm, to be included behind a function `prove_one(name, algorithm)`.
 */
#ifndef WEIR_TESTS_EACH_ALGORITHM_H
#define WEIR_TESTS_EACH_ALGORITHM_H

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

TEST(quota)
{
    prove_one("quota", WEIR_QUOTA);
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

#endif
