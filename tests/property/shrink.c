/* SPDX-License-Identifier: MIT */
/*
 * From a failure to the smallest one that can be found: fewer operations first, then smaller numbers.
 */
#include "property/run.h"

#include <string.h>

#define TRIES 4000 /* runs of the list, at most */

static bool fails(const struct scenario *scenario, int *tries)
{
    return (*tries)-- > 0 && !run_scenario(scenario, NULL, 0);
}

static bool drop(struct scenario *scenario, size_t from, size_t count, int *tries)
{
    struct scenario shorter = *scenario;
    memmove(&shorter.ops[from], &shorter.ops[from + count],
            (shorter.count - from - count) * sizeof shorter.ops[0]);
    shorter.count -= count;
    if (!fails(&shorter, tries))
        return false;
    *scenario = shorter;
    return true;
}

static void drop_chunks(struct scenario *scenario, int *tries)
{
    for (size_t chunk = scenario->count / 2; chunk > 0; chunk /= 2)
        for (size_t from = scenario->count; from-- > 0;)
            if (from + chunk <= scenario->count)
                (void)drop(scenario, from, chunk, tries);
}

/* Tries smaller values, the smallest first. */
static bool lower(struct scenario *scenario, int64_t *value, int64_t least, int *tries)
{
    int64_t old = *value;
    int64_t values[] = {least, least + (old - least) / 2, old - 1};
    for (size_t i = 0; i < sizeof values / sizeof *values && old > least; i++) {
        *value = values[i];
        if (fails(scenario, tries))
            return true;
    }
    *value = old;
    return false;
}

static bool lower_all(struct scenario *scenario, int *tries)
{
    bool better = false;
    for (size_t i = 0; i < scenario->count; i++) {
        struct op *op = &scenario->ops[i];
        better = lower(scenario, &op->n, 1, tries) || better;
        better = lower(scenario, &op->timeout, 0, tries) || better;
        int64_t least = i ? scenario->ops[i - 1].at : scenario->start;
        better = lower(scenario, &op->at, least, tries) || better;
    }
    return better;
}

void run_shrink(struct scenario *scenario)
{
    int tries = TRIES;
    size_t before;
    do {
        before = scenario->count;
        drop_chunks(scenario, &tries);
    } while (scenario->count < before);
    while (lower_all(scenario, &tries))
        drop_chunks(scenario, &tries);
}
