/* SPDX-License-Identifier: MIT */
#include "property/table_story.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "algorithms.h"
#include "core/idle.h"
#include "property/table_world.h"
#include "table/override.h"
#include "table/words.h"

#define LIMITS 3 /* of a table */

/* ---- limits ---- */

/* A random limit that a table may have, as text. */
static size_t roll_limit(int32_t algo, struct dice *dice, char *text, size_t size)
{
    struct weir_spec spec, complete;
    struct spec_fault fault;
    do {
        spec = scenario_spec(algo, dice);
        spec.initial = spec.initial_given = spec.verb = 0;
        if (spec.shape == WEIR_SHAPE_OWN)
            spec.shape = WEIR_SHAPE_BELOW;
        spec.own = NULL;
        spec.own_arg = NULL;
        if (dice_chance(dice, 20))
            spec.timeout_ns = dice_magnitude(dice, WEIR_SEC);
        complete = spec;
    } while (!weir_spec_complete(&complete, &fault) || (algo == WEIR_SLIDING_LOG && spec.count > 100));
    return weir_spec_format(&spec, 1, text, size);
}

static void roll_limits(const int32_t *algos, size_t count, struct dice *dice, char *text)
{
    size_t len = 0;
    for (size_t i = 0; i < count; i++) {
        len += (size_t)snprintf(text + len, STORY_TEXT - len, "%s", i > 0 ? ", " : "");
        len += roll_limit(algos[i], dice, text + len, STORY_TEXT - len);
    }
}

static struct weir_policy *compile(const char *text)
{
    struct weir_error err;
    struct weir_policy *policy = weir_policy_idle(text, &err);
    if (!policy) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
    return policy;
}

/* Could a table of the first limits go on with the others? */
static bool can_follow(const char *text, const char *first, size_t key_max)
{
    struct weir_policy *policy = compile(text), *before = compile(first);
    bool words = key_max <= EXACT_BYTES && weir_words_suit(before);
    bool can = words ? weir_words_suit(policy) : policy->words <= before->words;
    weir_policy_free(policy);
    weir_policy_free(before);
    return can;
}

static void roll_texts(struct table_plan *plan, const int32_t *algos, size_t count, struct dice *dice)
{
    roll_limits(algos, count, dice, plan->texts[0]);
    for (size_t i = 1; i < STORY_TEXTS; i++)
        do
            roll_limits(algos, count, dice, plan->texts[i]);
        while (!can_follow(plan->texts[i], plan->texts[0], plan->key_max));
}

static void roll_own(char *text, struct dice *dice)
{
    int32_t algos[LIMITS];
    struct weir_policy *policy;
    size_t words;
    do {
        size_t count = (size_t)(dice_chance(dice, 70) ? 1 : dice_between(dice, 2, LIMITS));
        for (size_t i = 0; i < count; i++)
            algos[i] = algo_any(&dice->rng);
        roll_limits(algos, count, dice, text);
        policy = compile(text);
        words = policy->words;
        weir_policy_free(policy);
    } while (words > OVERRIDE_WORDS);
}

/* ---- stories ---- */

static void roll_plan(struct table_plan *plan, struct dice *dice)
{
    static const int64_t offsets[] = {0, 0, 12345, 3600 * WEIR_SEC};
    bool large = dice_chance(dice, 3);
    plan->keys = (size_t)(large ? dice_between(dice, 100, STORY_KEYS) : dice_between(dice, 2, 14));
    plan->capacity = (size_t)dice_between(dice, 1, (int64_t)plan->keys / (dice_chance(dice, 70) ? 3 : 1) + 1);
    if (plan->capacity > 160) /* all of it is in every key's window */
        plan->capacity = 160;
    plan->key_max = dice_chance(dice, 15) ? 4 : 0;
    plan->overrides = dice_chance(dice, 50) ? 0 : (size_t)dice_between(dice, 1, 3);
    plan->refuse = dice_chance(dice, 25);
    plan->offset = DICE_PICK(dice, offsets);
}

static size_t roll_algos(int32_t *algos, struct dice *dice)
{
    size_t count = (size_t)(dice_chance(dice, 60) ? 1 : dice_between(dice, 2, LIMITS));
    for (size_t i = 0; i < count; i++)
        algos[i] = count == 1 ? algo_any(&dice->rng) : algo_with_rate(&dice->rng);
    return count;
}

void story_build(struct table_story *story, const int32_t *algos, size_t count, struct dice *dice)
{
    static const int64_t starts[] = {0, 1, WEIR_MS, WEIR_SEC, WEIR_SEC, 3600 * WEIR_SEC, 86400 * WEIR_SEC};
    int32_t rolled[LIMITS];
    story->table_count = (size_t)(dice_chance(dice, 60) ? 1 : dice_between(dice, 2, STORY_TABLES));
    for (size_t t = 0; t < story->table_count; t++) {
        struct table_plan *plan = &story->plans[t];
        roll_plan(plan, dice);
        if (t > 0 || count == 0)
            roll_texts(plan, rolled, roll_algos(rolled, dice), dice);
        else
            roll_texts(plan, algos, count, dice);
    }
    for (size_t i = 0; i < STORY_TEXTS; i++)
        roll_own(story->own[i], dice);
    story->start = DICE_PICK(dice, starts);
    story->count = 0;
}

/* ---- operations that suit the world ---- */

static const struct limit *any_limit(const struct site *site, struct dice *dice)
{
    return &site->policy->limits[dice_between(dice, 0, (int64_t)site->policy->count - 1)];
}

static const struct cell *any_cell(const struct site *site, struct dice *dice)
{
    return &site->cells[dice_between(dice, 0, (int64_t)site->plan->keys - 1)];
}

static int64_t unit_ns(const struct limit *limit)
{
    return limit->spec.count > 0 ? max64(limit->spec.period_ns / limit->spec.count, 1) : 1;
}

/* About when a key may be forgotten. */
static int64_t roll_parting(const struct world *world, const struct site *site, struct dice *dice)
{
    const struct cell *cell = dice_chance(dice, 80) ? any_cell(site, dice) : site->shared;
    int64_t from = cell->present ? cell_idle_from(cell) : WEIR_FOREVER;
    if (from > WEIR_TIME_MAX - 2 * TABLE_GRACE_NS)
        return sat_add(world->at, TABLE_GRACE_NS);
    int64_t at = from + TABLE_GRACE_NS + dice_between(dice, -1, 1) - site->table->region->offset_ns;
    return at > world->at || dice_chance(dice, 10) ? at : world->at;
}

static int64_t roll_time(const struct world *world, const struct site *site, struct dice *dice)
{
    static const int64_t extremes[] = {INT64_MIN, -1, 0, WEIR_TIME_MAX, INT64_MAX};
    const struct limit *limit = any_limit(site, dice);
    int64_t at = world->at, way = dice_between(dice, 0, 99), period = max64(limit->spec.period_ns, 1);
    if (way < 35)
        return at;
    if (way < 40)
        return sat_add(at, 1);
    if (way < 52)
        return sat_add(at, world->retry_ns - dice_chance(dice, 30));
    if (way < 62)
        return sat_add(at, sat_mul(unit_ns(limit), dice_between(dice, 1, 3)));
    if (way < 78)
        return roll_parting(world, site, dice);
    if (way < 84)
        return sat_add(at, dice_between(dice, 0, sat_mul(period, 2)));
    if (way < 90)
        return sat_add(at, dice_between(dice, 0, 3 * TABLE_GRACE_NS));
    if (way < 91)
        return sat_add(at, dice_magnitude(dice, 3600 * WEIR_SEC));
    if (way < 96) /* back */
        return sat_sub(at, dice_chance(dice, 50) ? dice_between(dice, 1, 3 * TABLE_GRACE_NS) : period);
    if (way < 97)
        return sat_sub(at, dice_magnitude(dice, 3600 * WEIR_SEC));
    return dice_chance(dice, 10) ? DICE_PICK(dice, extremes) : at;
}

static int64_t roll_n(const struct world *world, const struct site *site, struct dice *dice)
{
    static const int64_t extremes[] = {0, -1, INT64_MIN, INT64_MAX, SPEC_COUNT_MAX};
    const struct limit *limit = any_limit(site, dice);
    int64_t most = max64(limit->spec.burst ? limit->spec.burst : limit->spec.count, 1);
    int64_t way = dice_between(dice, 0, 99);
    if (way < 45)
        return 1;
    if (way < 60)
        return clamp64(world->last.remaining, 1, SPEC_COUNT_MAX);
    if (way < 65)
        return sat_add(clamp64(world->last.remaining, 1, SPEC_COUNT_MAX), 1);
    if (way < 75)
        return most;
    if (way < 85)
        return dice_between(dice, 1, most);
    if (way < 98)
        return dice_between(dice, 1, min64(most, 4));
    return way < 99 ? dice_magnitude(dice, INT64_MAX) : DICE_PICK(dice, extremes);
}

static int64_t roll_timeout(const struct world *world, const struct site *site, struct dice *dice)
{
    const struct limit *limit = any_limit(site, dice);
    int64_t timeouts[] = {0,
                          -1,
                          world->retry_ns,
                          sat_mul(unit_ns(limit), dice_between(dice, 1, 10)),
                          sat_mul(max64(limit->spec.period_ns, 1), dice_between(dice, 1, 3)),
                          WEIR_FOREVER,
                          WEIR_FOREVER};
    return DICE_PICK(dice, timeouts);
}

static enum action_kind roll_kind(struct dice *dice)
{
    static const struct {
        enum action_kind kind;
        int64_t weight;
    } ways[] = {{ACTION_TAKE, 440},    {ACTION_PEEK, 30},    {ACTION_RESERVE, 120}, {ACTION_CANCEL, 60},
                {ACTION_GIVE, 40},     {ACTION_CHARGE, 40},  {ACTION_RESET, 10},    {ACTION_EXPLAIN, 20},
                {ACTION_EACH, 60},     {ACTION_ALL, 90},     {ACTION_SET, 12},      {ACTION_SET_HALF, 8},
                {ACTION_OVERRIDE, 20}, {ACTION_RESTORE, 12}, {ACTION_SWEEP, 20},    {ACTION_GROW, 3},
                {ACTION_LIST, 15}};
    int64_t way = dice_between(dice, 1, 1000);
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++)
        if ((way -= ways[i].weight) <= 0)
            return ways[i].kind;
    return ACTION_TAKE;
}

static uint32_t roll_ref(const struct world *world, enum action_kind kind, struct dice *dice)
{
    int64_t count = (int64_t)world->held_count;
    switch (kind) {
    case ACTION_CANCEL:
        return count == 0 ? 0 : world->held[count - dice_between(dice, 1, min64(count, 8))].id;
    case ACTION_SET:
    case ACTION_SET_HALF:
    case ACTION_OVERRIDE:
        return (uint32_t)dice_between(dice, 0, STORY_TEXTS - 1);
    case ACTION_SWEEP:
        return (uint32_t)(dice_chance(dice, 50) ? 100000 : dice_between(dice, 1, 20));
    case ACTION_GROW:
        return (uint32_t)dice_between(dice, 1, 8);
    default:
        return 0;
    }
}

/* A few keys are asked for often, and so is the one that has a promise to hand back. */
static uint32_t roll_key(const struct site *site, struct dice *dice)
{
    int64_t last = (int64_t)site->plan->keys - 1;
    return (uint32_t)(dice_chance(dice, 40) ? dice_between(dice, 0, min64(last, 2))
                                            : dice_between(dice, 0, last));
}

struct story_action story_roll(const struct world *world, uint32_t id, struct dice *dice)
{
    struct story_action op = {.kind = roll_kind(dice), .id = id, .count = 1};
    const struct site *site = NULL;
    op.ref = roll_ref(world, op.kind, dice);
    if (op.kind == ACTION_EACH || op.kind == ACTION_ALL)
        op.count = (size_t)dice_between(dice, 1, STORY_ASKS);
    for (size_t i = 0; i < op.count; i++) {
        struct table_ask *ask = &op.asks[i];
        ask->table = (uint32_t)dice_between(dice, 0, (int64_t)world->story->table_count - 1);
        site = &world->sites[ask->table];
        ask->key = roll_key(site, dice);
        ask->n = roll_n(world, site, dice);
    }
    op.at = roll_time(world, site, dice);
    if ((op.kind == ACTION_CANCEL || op.kind == ACTION_GIVE) && dice_chance(dice, 70)) /* or it is too late */
        op.at = world->at;
    if (op.kind == ACTION_CHARGE && !dice_chance(dice, 4)) /* a debt without end teaches little */
        op.asks[0].n = dice_between(dice, 1, 10);
    op.timeout = op.kind == ACTION_RESERVE ? roll_timeout(world, site, dice) : 0;
    for (size_t i = 0; op.kind == ACTION_CANCEL && i < world->held_count; i++)
        if (world->held[i].id == op.ref) {
            op.asks[0].table = world->held[i].table;
            op.asks[0].key = world->held[i].key;
        }
    return op;
}

/* ---- in words ---- */

static void print_plan(const struct table_plan *plan, size_t number, FILE *out)
{
    fprintf(out,
            "#   table %zu: %zu keys ask, made for %zu, key_max %zu, overrides %zu, %s, offset %" PRId64 "\n",
            number, plan->keys, plan->capacity, plan->key_max, plan->overrides,
            plan->refuse ? "refuse" : "share", plan->offset);
    for (size_t i = 0; i < STORY_TEXTS; i++)
        fprintf(out, "#     limits %zu: %s\n", i, plan->texts[i]);
}

void story_print(const struct table_story *story, FILE *out)
{
    static const char *const verbs[] = {"take",     "peek",    "reserve",   "cancel",   "give", "charge",
                                        "reset",    "explain", "take each", "take all", "set",  "set half",
                                        "override", "restore", "sweep",     "grow",     "list"};
    for (size_t t = 0; t < story->table_count; t++)
        print_plan(&story->plans[t], t, out);
    for (size_t i = 0; i < STORY_TEXTS; i++)
        fprintf(out, "#   own limits %zu: %s\n", i, story->own[i]);
    for (size_t i = 0; i < story->count; i++) {
        const struct story_action *op = &story->ops[i];
        fprintf(out, "#   %" PRId64 ": %s (%u)", op->at, verbs[op->kind], op->id);
        for (size_t a = 0; a < op->count; a++)
            fprintf(out, "%s table %u key %u n %" PRId64, a ? "," : "", op->asks[a].table, op->asks[a].key,
                    op->asks[a].n);
        if (op->kind == ACTION_RESERVE)
            fprintf(out, " within %" PRId64, op->timeout);
        if (op->kind == ACTION_CANCEL || op->kind >= ACTION_SET)
            fprintf(out, " ref %u", op->ref);
        fprintf(out, "\n");
    }
}
