/* SPDX-License-Identifier: MIT */
/*
 * Limits, modes and overrides that change at random while keys take, beside pure states that go through the
 * same changes. Whoever is let through is let through by all of those that have a say:
 *
 *   the same kind of limits   the state that went through weir_state_change
 *   another kind              a new state, and the one of before until it has forgotten everything
 *   a key with its own        its own state
 *
 * A key that is as if never used may be forgotten, and then comes back full; the states beside it are made
 * fresh then, so they are never behind, and a yes of theirs need not be one of the service's.
 */
#include "base/sat.h"
#include "check.h"
#include "core/idle.h"
#include "core/limit.h"
#include "service/policies/change.h"
#include "unit/service/service_kit.h"

#define KEYS   4
#define WORDS  256
#define STORY  1200
#define SHAPES 5
#define RATES  4

/* Each row is one kind of limits. */
static const char *const texts[SHAPES][RATES] = {
    {"10/s", "20/s burst=5", "3/s burst=30", "100/m"},
    {"10/s algo=fixed-window", "3/s algo=fixed-window", "50/m algo=fixed-window", "7/2s algo=fixed-window"},
    {"5/s algo=sliding-log", "5/3s algo=sliding-log", "5/m algo=sliding-log", "5/10s algo=sliding-log"},
    {"10/s, 100/m", "20/s burst=4, 30/m", "5/s, 1k/h", "9/s burst=30, 60/m burst=10"},
    {"8/s algo=sliding-window", "30/m algo=sliding-window", "2/s algo=sliding-window",
     "20/5s algo=sliding-window"},
};

/* A key, or all of them, under limits. */
struct beside {
    struct weir_policy *policy;
    int64_t state[WORDS];
    bool own;   /* limits of its own */
    bool exact; /* nobody can have been forgotten: the service has to say the same */
};

struct world {
    struct kit kit;
    struct rng rng;
    int64_t now_ms;
    int shape;
    const char *text;
    struct beside main[KEYS];
    struct beside older[KEYS];
    bool has_older;
    int64_t older_until_ns;
    int older_shape;
    long taken, refused, changes;
};

static bool chance(struct world *world, int percent)
{
    return rng_between(&world->rng, 1, 100) <= percent;
}

static struct slice word(const char *text)
{
    return (struct slice){text, strlen(text)};
}

static int64_t now_ns(const struct world *world)
{
    return world->now_ms * WEIR_MS;
}

/* ---- the states beside ---- */

static void beside_end(struct beside *beside)
{
    weir_policy_free(beside->policy);
    beside->policy = NULL;
}

static void beside_begin(const struct world *world, struct beside *beside, const char *text)
{
    beside_end(beside);
    beside->policy = weir_policy_idle(text, NULL);
    beside->own = false;
    beside->exact = true;
    if (!beside->policy || beside->policy->words > WORDS)
        abort();
    weir_state_init(beside->policy, beside->state, now_ns(world));
}

static bool is_idle(const struct world *world, const struct beside *beside)
{
    return weir_state_idle_from(beside->policy, beside->state) <= now_ns(world);
}

/* `forgets`: it may have been forgotten, and be there anew. */
static void beside_change(const struct world *world, struct beside *beside, const char *text, bool forgets)
{
    struct weir_policy *next = weir_policy_idle(text, NULL);
    int64_t state[WORDS];
    if (!next || next->words > WORDS)
        abort();
    if (forgets && is_idle(world, beside)) {
        weir_state_init(next, state, now_ns(world));
        beside->exact = false;
    } else {
        weir_state_change(beside->policy, beside->state, next, state, now_ns(world));
    }
    weir_policy_free(beside->policy);
    beside->policy = next;
    memcpy(beside->state, state, next->words * sizeof *state);
}

/* What is as if never used may have been forgotten by now. A log that has not been still has its old times,
 * and they would count again under a longer period. */
static bool allows(const struct world *world, struct beside *beside, int64_t n)
{
    if (!beside->own && is_idle(world, beside)) {
        weir_state_init(beside->policy, beside->state, now_ns(world));
        beside->exact = beside->exact && beside->policy->limits[0].spec.algo != WEIR_SLIDING_LOG;
    }
    return weir_state_peek(beside->policy, beside->state, now_ns(world), n, NULL);
}

/* ---- operations ---- */

static void take(struct world *world)
{
    char line[64];
    int key = (int)rng_between(&world->rng, 0, KEYS - 1);
    int64_t n = rng_between(&world->rng, 1, chance(world, 80) ? 2 : 12);
    struct beside *main = &world->main[key], *older = &world->older[key];
    bool both = world->has_older && now_ns(world) < world->older_until_ns;
    (void)snprintf(line, sizeof line, "WEIR.TAKE api k%d %lld", key, (long long)n);
    const char *reply = kit_ask(&world->kit, line);
    bool shadow = strcmp(kit_text(reply, "reason"), "shadow") == 0;
    bool disabled = strcmp(kit_text(reply, "limit"), "unlimited") == 0;
    bool allowed = kit_field(reply, "allowed") == 1 && !shadow;
    if (disabled)
        return;
    bool expected = allows(world, main, n) && (!both || allows(world, older, n));
    if (!CHECK(expected || !allowed) ||
        !CHECK(!main->exact || (both && !older->exact) || expected == allowed))
        printf("# k%d %lld at %lld ms under %s, older %d; reply %.80s\n", key, (long long)n,
               (long long)world->now_ms, world->text, both, reply);
    world->taken += allowed;
    world->refused += !allowed;
    if (!allowed)
        return;
    (void)weir_state_take(main->policy, main->state, now_ns(world), n, NULL);
    if (both)
        (void)weir_state_take(older->policy, older->state, now_ns(world), n, NULL);
}

static void set_same(struct world *world)
{
    const char *text = texts[world->shape][rng_between(&world->rng, 0, RATES - 1)];
    if (!CHECK(kit_policy(&world->kit, "api", text)) || text == world->text)
        return;
    world->text = text;
    for (int i = 0; i < KEYS; i++)
        if (!world->main[i].own)
            beside_change(world, &world->main[i], text, true);
}

static void forget_older(struct world *world)
{
    for (int i = 0; world->has_older && i < KEYS; i++)
        beside_end(&world->older[i]);
    world->has_older = false;
}

/* There are never three kinds that have a say: before the change before has been forgotten, another one is
 * refused, and changes nothing. (Back to the older kind is possible, but not followed here.) */
static void set_third(struct world *world)
{
    struct weir_error err;
    int shape = (int)rng_between(&world->rng, 0, SHAPES - 1);
    if (shape == world->shape || shape == world->older_shape)
        return;
    CHECK(!weir_change_policy(world->kit.service, word("api"), texts[shape][0], false, &err));
    CHECK(strstr(err.text, "FRESH"));
}

static void set_other(struct world *world)
{
    if (world->has_older && now_ns(world) < world->older_until_ns) {
        set_third(world);
        return;
    }
    forget_older(world);
    int shape = (int)rng_between(&world->rng, 0, SHAPES - 1);
    bool fresh = chance(world, 20);
    const char *text = texts[shape][rng_between(&world->rng, 0, RATES - 1)];
    struct weir_error err;
    if ((shape == world->shape && !fresh) ||
        !CHECK(weir_change_policy(world->kit.service, word("api"), text, fresh, &err)))
        return;
    const struct policy *policy =
        weir_snapshot_policy(atomic_load(&world->kit.service->snapshot), word("api"));
    for (int i = 0; i < KEYS; i++) {
        bool own = world->main[i].own;
        world->older[i] = world->main[i];
        world->main[i].policy = NULL;
        if (own) { /* its own limits are in the new table, too, where nothing was spent */
            char limits[256];
            (void)weir_policy_text(world->older[i].policy, limits, sizeof limits);
            beside_begin(world, &world->main[i], limits);
            world->main[i].own = true;
        } else {
            beside_begin(world, &world->main[i], text);
        }
    }
    world->has_older = true;
    world->older_until_ns = fresh ? 0 : policy_previous_ends(policy);
    for (int i = 0; i < KEYS && !fresh; i++) /* nobody may be forgotten too early */
        CHECK(weir_state_idle_from(world->older[i].policy, world->older[i].state) <=
              max64(policy_previous_ends(policy), now_ns(world)));
    world->older_shape = world->shape;
    world->shape = shape;
    world->text = text;
}

static void change_override(struct world *world)
{
    char name[8];
    int key = (int)rng_between(&world->rng, 0, KEYS - 1);
    struct beside *main = &world->main[key];
    struct weir_error err;
    if (world->has_older && now_ns(world) < world->older_until_ns)
        return; /* both tables would have to be followed */
    (void)snprintf(name, sizeof name, "k%d", key);
    if (main->own && chance(world, 50)) {
        CHECK(weir_change_unoverride(world->kit.service, word("api"), word(name), &err));
        beside_change(world, main, world->text, false);
        main->own = false;
        return;
    }
    const char *text = texts[rng_between(&world->rng, 0, 1)][rng_between(&world->rng, 0, RATES - 1)];
    CHECK(weir_change_override(world->kit.service, word("api"), word(name), text, 0, word(""), &err));
    beside_change(world, main, text, !main->own);
    main->own = true;
}

static void change_mode(struct world *world)
{
    struct weir_error err;
    enum policy_mode mode = (enum policy_mode)rng_between(&world->rng, MODE_ENFORCE, MODE_DISABLED);
    bool all = chance(world, 20) && mode != MODE_ENFORCE;
    int64_t for_ns = mode == MODE_ENFORCE ? 0 : rng_between(&world->rng, 1, 3000) * WEIR_MS;
    CHECK(weir_change_mode(world->kit.service, word(all ? "*" : "api"), mode, 100, for_ns, &err));
}

static void step(struct world *world)
{
    int64_t what = rng_between(&world->rng, 1, 100);
    if (what <= 70) {
        take(world);
    } else if (what <= 85) {
        world->now_ms += rng_magnitude(&world->rng, 4000);
        kit_clock(&world->kit, world->now_ms);
    } else if (what <= 89) {
        kit_tick(&world->kit);
    } else {
        world->changes++;
        if (what <= 93)
            set_same(world);
        else if (what <= 95)
            set_other(world);
        else if (what <= 98)
            change_override(world);
        else
            change_mode(world);
    }
}

static bool tell_story(uint64_t seed, long *taken, long *refused)
{
    struct world world = {.rng = {seed}, .text = texts[0][0]};
    if (!CHECK(kit_open(&world.kit, NULL)) || !CHECK(kit_policy(&world.kit, "api", world.text)))
        return false;
    for (int i = 0; i < KEYS; i++)
        beside_begin(&world, &world.main[i], world.text);
    for (int i = 0; i < STORY && check.faults == 0; i++)
        step(&world);
    forget_older(&world);
    for (int i = 0; i < KEYS; i++)
        beside_end(&world.main[i]);
    *taken += world.taken;
    *refused += world.refused;
    kit_close(&world.kit);
    if (check.faults > 0)
        printf("# in the story of seed %" PRIu64 "\n", seed);
    return check.faults == 0;
}

TEST(what_was_spent_stays_spent_whatever_changes)
{
    long taken = 0, refused = 0;
    int64_t stories = check_env("WEIR_CHANGE_STORIES", 40);
    for (int64_t i = 0; i < stories; i++)
        if (!tell_story(check.seed * 1000003 + (uint64_t)i, &taken, &refused))
            return;
    printf("# %ld taken, %ld refused\n", taken, refused);
    CHECK(taken > 60 * stories && refused > 60 * stories);
}
