/* SPDX-License-Identifier: MIT */
/*
 * Tables decide as the exact model of each key does, in every field of every verdict, whatever happens to the
 * other keys, and each key keeps the law: for every algorithm, for several limits, for whole keys and hashes,
 * in tables too small for their keys. WEIR_PROVE_DECISIONS says how many decisions all of them make together,
 * WEIR_SEED or -s where to begin.
 */
#include "check.h"
#include "property/table_world.h"

#define STREAMS 14
#define TRIES   3000 /* stories told to make a failure smaller, at most */

/* ---- smaller ---- */

static bool tell(struct world *world, const struct table_story *story)
{
    bool good = world_begin(world, story);
    for (size_t i = 0; good && i < story->count; i++)
        good = world_do(world, &story->ops[i]);
    good = good && world_finish(world);
    world_end(world);
    return good;
}

static bool drop(struct world *world, struct table_story *story, size_t from, size_t count, int *tries)
{
    static struct table_story shorter;
    shorter = *story;
    memmove(&shorter.ops[from], &shorter.ops[from + count],
            (shorter.count - from - count) * sizeof shorter.ops[0]);
    shorter.count -= count;
    if ((*tries)-- <= 0 || tell(world, &shorter))
        return false;
    *story = shorter;
    return true;
}

static void shrink(struct world *world, struct table_story *story)
{
    int tries = TRIES;
    size_t before;
    do {
        before = story->count;
        for (size_t chunk = story->count / 2; chunk > 0; chunk /= 2)
            for (size_t from = story->count; from-- > 0;)
                if (from + chunk <= story->count)
                    (void)drop(world, story, from, chunk, &tries);
    } while (story->count < before && tries > 0);
}

/* ---- random stories ---- */

static bool tell_random(struct world *world, struct table_story *story, struct dice *dice)
{
    size_t length = (size_t)dice_between(dice, 10, STORY_OPS);
    bool good = world_begin(world, story);
    while (good && story->count < length) {
        struct story_action op = story_roll(world, (uint32_t)story->count + 1, dice);
        story->ops[story->count++] = op;
        good = world_do(world, &op);
    }
    good = good && world_finish(world);
    world_end(world);
    return good;
}

static void report(struct world *world, struct table_story *story, const char *name, uint64_t number)
{
    printf("# %s: broken by random story %" PRIu64 " of seed %" PRIu64 "; to repeat it: WEIR_SEED=%" PRIu64
           "\n#   %s\n",
           name, number, check.seed, check.seed, world->fault);
    shrink(world, story);
    bool good = tell(world, story);
    story_print(story, stdout);
    printf("#   %s\n", good ? "it does not fail a second time" : world->fault);
}

static void prove(const char *name, const int32_t *algos, size_t count, uint64_t stream)
{
    static struct table_story story;
    struct world *world = world_new();
    uint64_t decisions = 0, number = 0;
    uint64_t wanted = (uint64_t)check_env("WEIR_PROVE_DECISIONS", 1500000) / STREAMS;
    bool good = CHECK(world != NULL);
    for (; good && decisions < wanted; number++) {
        struct dice dice = dice_new(check.seed * UINT64_C(0x9E3779B97F4A7C15) + number, 400 + stream);
        story_build(&story, algos, count, &dice);
        good = tell_random(world, &story, &dice);
        decisions += world->decisions;
        if (!CHECK(good))
            report(world, &story, name, number);
    }
    printf("# %s: %" PRIu64 " decisions in %" PRIu64 " stories, seed %" PRIu64 "\n", name, decisions, number,
           check.seed);
    world_free(world);
}

static void prove_one(const char *name, int32_t algo)
{
    prove(name, &algo, 1, (uint64_t)algo);
}

#include "property/each_algorithm.h"

TEST(two_limits)
{
    static const int32_t algos[] = {WEIR_TOKEN_BUCKET, WEIR_FIXED_WINDOW};
    prove("token-bucket and fixed-window", algos, 2, 100);
}

TEST(any_tables)
{
    prove("any tables", NULL, 0, 101);
}
