/* SPDX-License-Identifier: MIT */
#include "property/scenario.h"
#include "algorithms.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- random specs ---- */

static double price_flat(void *arg, double stored, double n)
{
    (void)stored;
    return *(const double *)arg * n;
}

/* The area under a line through 0: cheap when little is stored. */
static double price_rising(void *arg, double stored, double n)
{
    return *(const double *)arg * n * (stored + (stored - n)) / 2;
}

/* What is negative or not a number has to cost as fresh. */
static double price_mad(void *arg, double stored, double n)
{
    (void)arg, (void)stored;
    return n > 3 ? -n : (double)NAN;
}

static void roll_rate(struct weir_spec *spec, struct dice *dice)
{
    static const int64_t counts[] = {1,      2,       3,         7,         64,         80000,
                                     600000, 1000000, 700000000, 999999937, 1000000000, SPEC_COUNT_MAX};
    static const int64_t periods[] = {1,
                                      2,
                                      3,
                                      64,
                                      1000,
                                      WEIR_MS,
                                      WEIR_SEC,
                                      60 * WEIR_SEC,
                                      3600 * WEIR_SEC,
                                      86400 * WEIR_SEC,
                                      SPEC_PERIOD_MAX_NS};
    switch (dice_between(dice, 0, 9)) {
    case 0:
    case 1:
    case 2:
    case 3: /* every nanosecond counts */
        spec->count = dice_between(dice, 1, 6);
        spec->period_ns = dice_between(dice, 1, 40);
        break;
    case 4: /* more than one unit a nanosecond */
        spec->period_ns = dice_between(dice, 1, 9);
        spec->count = dice_between(dice, 1, TICKS_PER_NS * spec->period_ns);
        break;
    case 5:
    case 6:
        spec->count = dice_between(dice, 1, 1000);
        spec->period_ns = DICE_PICK(dice, periods);
        break;
    case 7:
        spec->count = DICE_PICK(dice, counts);
        spec->period_ns = DICE_PICK(dice, periods);
        break;
    default:
        spec->count = dice_magnitude(dice, SPEC_COUNT_MAX);
        spec->period_ns = dice_magnitude(dice, SPEC_PERIOD_MAX_NS);
        break;
    }
}

/* Time that one unit takes, at least 1 ns. */
static int64_t unit_ns(const struct weir_spec *spec)
{
    return spec->count > 0 ? max64(div_up(spec->period_ns, spec->count), 1) : 1;
}

static int64_t roll_units(const struct weir_spec *spec, struct dice *dice)
{
    switch (dice_between(dice, 0, 5)) {
    case 0:
        return 1;
    case 1:
        return dice_between(dice, 1, 4);
    case 2:
        return spec->count;
    case 3:
        return dice_magnitude(dice, SPEC_COUNT_MAX);
    default:
        return dice_between(dice, 1, 20);
    }
}

static void roll_bucket(struct weir_spec *spec, struct dice *dice)
{
    if (dice_chance(dice, 80))
        spec->burst = roll_units(spec, dice);
    if (dice_chance(dice, 30)) {
        spec->initial = dice_between(dice, 0, spec->burst ? spec->burst : 1);
        spec->initial_given = 1;
    }
}

static void roll_warmup(struct weir_spec *spec, struct dice *dice)
{
    static const int64_t colds[] = {1000000, 1500000, 2000000, 3000000, 10000000, SPEC_FACTOR_MAX};
    static double prices[] = {0.0, 0.5, 3.0, 1e6};
    static weir_stored_wait *const overrides[] = {price_flat, price_rising, price_mad};
    spec->shape = (int32_t)dice_between(dice, 0, 5) % 3;
    spec->cold_ppm = DICE_PICK(dice, colds);
    spec->warmup_ns = dice_chance(dice, 70) ? sat_mul(unit_ns(spec), dice_between(dice, 1, 40))
                                            : dice_magnitude(dice, SPEC_TIME_MAX_NS);
    if (spec->shape == WEIR_SHAPE_OWN) {
        spec->own = DICE_PICK(dice, overrides);
        spec->own_arg = &DICE_PICK(dice, prices);
    }
}

static void roll_hybrid(struct weir_spec *spec, struct dice *dice)
{
    static const int64_t ratios[] = {1000000, 1100000, 1500000, 2000000, 1234567, 10000000};
    spec->ratio_ppm = DICE_PICK(dice, ratios);
    spec->verb = dice_chance(dice, 80) ? WEIR_VERB_NONE : (int32_t)dice_between(dice, 0, WEIR_VERB_RESTART);
    if (dice_chance(dice, 80))
        spec->pool_ns = dice_chance(dice, 80) ? sat_mul(unit_ns(spec), dice_between(dice, 1, 10))
                                              : dice_magnitude(dice, SPEC_TIME_MAX_NS);
}

static void roll_leaky(struct weir_spec *spec, struct dice *dice)
{
    spec->queue = roll_units(spec, dice);
    if (dice_chance(dice, 50))
        spec->age_ns = dice_chance(dice, 70)
                           ? sat_add(sat_mul(unit_ns(spec), dice_between(dice, 1, 6)), dice_chance(dice, 50))
                           : dice_magnitude(dice, SPEC_TIME_MAX_NS);
}

static struct weir_spec roll_spec(int32_t algo, struct dice *dice)
{
    struct weir_spec spec = {.algo = algo};
    if (algo == WEIR_UNLIMITED || algo == WEIR_BLOCKED)
        return spec;
    roll_rate(&spec, dice);
    switch ((enum weir_algo)algo) {
    case WEIR_TOKEN_BUCKET:
    case WEIR_SMOOTH:
        roll_bucket(&spec, dice);
        break;
    case WEIR_STEP:
        roll_bucket(&spec, dice);
        spec.refused = dice_chance(dice, 30) ? WEIR_REFUSED_DRAIN : WEIR_REFUSED_IGNORE;
        spec.strict = dice_chance(dice, 30);
        break;
    case WEIR_WARMUP:
        roll_warmup(&spec, dice);
        break;
    case WEIR_HYBRID:
        roll_hybrid(&spec, dice);
        break;
    case WEIR_LEAKY_BUCKET:
        roll_leaky(&spec, dice);
        break;
    case WEIR_SLIDING_LOG:
        if (!dice_chance(dice, 2) || spec.count > SPEC_LOG_MAX)
            spec.count = dice_chance(dice, 80) ? dice_between(dice, 1, 8) : dice_between(dice, 1, 100);
        spec.refused = dice_chance(dice, 30);
        break;
    case WEIR_FIXED_WINDOW:
    case WEIR_SLIDING_WINDOW:
        spec.refused = dice_chance(dice, 30);
        break;
    default:
        break;
    }
    return spec;
}

struct weir_spec scenario_spec(int32_t algo, struct dice *dice)
{
    for (;;) {
        struct weir_spec spec = roll_spec(algo, dice), complete = spec;
        struct spec_fault fault;
        if (weir_spec_complete(&complete, &fault))
            return spec;
    }
}

/* ---- scenarios ---- */

/* Another limit of the same kind: a little different, or quite another one. */
static struct weir_spec vary(const struct weir_spec *spec, struct dice *dice)
{
    struct weir_spec next = *spec, complete;
    struct spec_fault fault;
    switch (dice_between(dice, 0, 4)) {
    case 0:
        next.count = max64(1, next.count / 2);
        break;
    case 1:
        next.count = sat_mul(next.count, 2);
        break;
    case 2:
        next.period_ns = sat_mul(next.period_ns, 3);
        break;
    case 3:
        if (next.burst)
            next.burst = dice_between(dice, 1, sat_mul(2, next.burst));
        break;
    default:
        return scenario_spec(spec->algo, dice);
    }
    next.initial = next.initial_given = 0;
    complete = next;
    return weir_spec_complete(&complete, &fault) ? next : scenario_spec(spec->algo, dice);
}

static struct weir_policy *compile(const struct weir_spec *specs, size_t count)
{
    struct weir_error err;
    struct weir_policy *policy = weir_policy_from(specs, count, &err);
    if (!policy) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
    return policy;
}

static int64_t roll_start(const struct weir_policy *policy, struct dice *dice)
{
    const struct limit *limit = &policy->limits[0];
    int64_t near = sat_mul(max64(limit->spec.period_ns, 1), dice_between(dice, 0, 5));
    switch (dice_between(dice, 0, 9)) {
    case 0:
    case 1:
        return 0;
    case 2:
        return dice_between(dice, 0, 100);
    case 3:
        return max64(WEIR_TIME_MAX - near, 0);
    case 4:
        return limit->ticks.unit ? max64(limit->ticks.time_max - near, 0) : 0;
    case 5:
        return dice_magnitude(dice, WEIR_TIME_MAX);
    default:
        return min64(near, WEIR_TIME_MAX);
    }
}

/* A limit of about the size of another one, so that now this one decides, now that one. */
static void relate(struct weir_spec *spec, const struct weir_spec *other, struct dice *dice)
{
    struct weir_spec near = *spec, complete;
    struct spec_fault fault;
    if (near.count == 0 || other->count == 0)
        return;
    int64_t units = other->burst ? other->burst : other->count;
    near.period_ns =
        sat_mul(max64(mul_div(other->period_ns, units, other->count), 1), dice_between(dice, 1, 2));
    near.count = max64(units + dice_between(dice, -1, 2), 1);
    if (near.algo == WEIR_SLIDING_LOG && near.count > 100) /* right, but slow */
        return;
    near.burst = near.burst ? near.count : 0;
    near.initial = near.initial_given = 0;
    complete = near;
    if (weir_spec_complete(&complete, &fault))
        *spec = near;
}

void scenario_build(struct scenario *scenario, const int32_t *algos, size_t count, bool strangers,
                    struct dice *dice)
{
    struct weir_spec specs[MODEL_LIMITS];
    for (size_t i = 0; i < count; i++) {
        specs[i] = scenario_spec(algos[i], dice);
        if (i > 0 && dice_chance(dice, 60))
            relate(&specs[i], &specs[0], dice);
        if (count > 1 && dice_chance(dice, 70))
            (void)snprintf(specs[i].name, sizeof specs[i].name, "limit-%zu", i);
    }
    for (size_t p = 0; p < SCENARIO_POLICIES; p++) {
        scenario->policies[p] = compile(specs, count);
        for (size_t i = 0; i < count; i++) {
            specs[i] = vary(&specs[i], dice);
            if (count > 1 && dice_chance(dice, 10))
                specs[i] =
                    scenario_spec(DICE_PICK(dice, ((int32_t[]){WEIR_TOKEN_BUCKET, WEIR_FIXED_WINDOW})), dice);
            if (strangers && dice_chance(dice, 30))
                specs[i] = scenario_spec(algo_any(&dice->rng), dice);
        }
    }
    scenario->mood = (enum mood)dice_between(dice, 0, MOOD_LAST - 1);
    scenario->start = roll_start(scenario->policies[0], dice);
    scenario->count = 0;
}

void scenario_free(struct scenario *scenario)
{
    for (size_t i = 0; i < SCENARIO_POLICIES; i++)
        weir_policy_free(scenario->policies[i]);
}

/* ---- in words ---- */

static void print_policy(const struct weir_policy *policy, FILE *out)
{
    for (size_t i = 0; i < policy->count; i++) {
        struct weir_spec spec = policy->limits[i].spec;
        char text[512];
        const char *own = spec.shape == WEIR_SHAPE_OWN ? " (and a function of its own)" : "";
        if (*own) {
            spec.shape = WEIR_SHAPE_ABOVE;
            spec.own = NULL;
            spec.own_arg = NULL;
        }
        if (weir_spec_format(&spec, 1, text, sizeof text) == 0)
            (void)snprintf(text, sizeof text, "%s", weir_algo_name(spec.algo));
        fprintf(out, "%s%s%s", i ? ", " : "", text, own);
        if (spec.verb)
            fprintf(out, " (verb %d)", (int)spec.verb);
    }
    fprintf(out, "\n");
}

void scenario_print(const struct scenario *scenario, FILE *out)
{
    static const char *const verbs[] = {"take",   "peek",  "reserve", "cancel", "give",
                                        "charge", "drain", "reset",   "change", "restart"};
    fprintf(out, "#   policy 0: ");
    print_policy(scenario->policies[0], out);
    fprintf(out, "#   init at %" PRId64 "\n", scenario->start);
    for (size_t i = 0; i < scenario->count; i++) {
        const struct op *op = &scenario->ops[i];
        fprintf(out, "#   %" PRId64 ": %s", op->at, verbs[op->kind]);
        if (op->kind == OP_CANCEL)
            fprintf(out, " of reservation %u", op->ref);
        else if (op->kind < OP_DRAIN)
            fprintf(out, " %" PRId64, op->n);
        if (op->kind == OP_RESERVE)
            fprintf(out, " within %" PRId64 " (reservation %u)", op->timeout, op->id);
        if (op->kind == OP_CHANGE) {
            fprintf(out, " to policy %u: ", op->ref);
            print_policy(scenario->policies[op->ref], out);
        } else {
            fprintf(out, "\n");
        }
    }
}
