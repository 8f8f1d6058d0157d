/* SPDX-License-Identifier: MIT */
#include "property/run.h"

#include <inttypes.h>
#include <stdlib.h>

static bool run_random(struct run *run, struct scenario *scenario, struct dice *dice)
{
    size_t length = (size_t)dice_between(dice, 4, SCENARIO_OPS);
    bool good = run_begin(run, scenario);
    while (good && scenario->count < length) {
        struct op op = run_roll(run, (uint32_t)scenario->count + 1, dice);
        scenario->ops[scenario->count++] = op;
        good = run_op(run, &op);
    }
    return good && run_finish(run);
}

static void report(const struct prove *prove, uint64_t number, struct scenario *scenario)
{
    char fault[512];
    printf("# %s: broken by random sequence %" PRIu64 " of seed %" PRIu64 "; to repeat it: WEIR_SEED=%" PRIu64
           "\n",
           prove->name, number, prove->seed, prove->seed);
    run_shrink(scenario);
    if (run_scenario(scenario, fault, sizeof fault))
        (void)snprintf(fault, sizeof fault, "it does not fail a second time");
    scenario_print(scenario, stdout);
    printf("#   %s\n", fault);
}

bool run_prove(const struct prove *prove)
{
    struct run *run = malloc(sizeof *run);
    struct scenario *scenario = malloc(sizeof *scenario);
    uint64_t decisions = 0, number = 0;
    bool good = run && scenario;
    for (; good && decisions < (uint64_t)prove->decisions; number++) {
        struct dice dice = dice_new(prove->seed * UINT64_C(0x9E3779B97F4A7C15) + number, prove->stream);
        int32_t algos[MODEL_LIMITS];
        size_t count = prove->count;
        for (size_t i = 0; i < count; i++)
            algos[i] = prove->algos[i];
        if (prove->roll)
            prove->roll(&dice, algos, &count);
        scenario->subject = prove->subject ? prove->subject : &subject_state;
        scenario_build(scenario, algos, count, prove->strangers, &dice);
        good = run_random(run, scenario, &dice);
        decisions += run->decisions;
        run_end(run);
        if (!good)
            report(prove, number, scenario);
        scenario_free(scenario);
    }
    printf("# %s: %" PRIu64 " decisions in %" PRIu64 " sequences, seed %" PRIu64 "\n", prove->name, decisions,
           number, prove->seed);
    free(run);
    free(scenario);
    return good;
}
