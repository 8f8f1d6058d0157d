/* SPDX-License-Identifier: MIT */
/*
 * How long it takes until a server answers that has keys on its disk: after it was told to stop, and after it
 * was killed with a record of every key behind its last image. What was spent must be spent then.
 */
#define _GNU_SOURCE

#include <stdio.h>

#include "base/sat.h"
#include "bench/store.h"
#include "weir.h"

#define RECOVER_S 60.0 /* at most */
#define STEP_S    0.005
#define LOOK_KEYS 100000 /* that are looked at again, at most */
#define LOOK_S    60.0

/* Two takes of each key, none of which comes back before the end. */
static const struct store_policy twice = {"twice", "2/365d"};

static double seconds_since(int64_t start_ns)
{
    return (double)(weir_now() - start_ns) * 1e-9;
}

/* Until everything is there. */
static bool wait_all(struct store_run *run, int64_t start_ns, double *seconds)
{
    int64_t loading;
    while ((loading = store_info(run, "loading")) > 0 && seconds_since(start_ns) < RECOVER_S)
        bench_sleep(STEP_S);
    *seconds = seconds_since(start_ns);
    if (loading != 0)
        fputs("weir bench: weir does not come to the end of what it reads\n", stderr);
    return loading == 0;
}

static bool start_again(struct store_run *run, struct store_restart *restart)
{
    char reply[256];
    int64_t start = weir_now();
    run->weir.anywhere = true; /* nobody else does anything meanwhile */
    if (!store_start_weir(run, MODE_EVERYSEC, &twice, restart->keys) ||
        !measured_ask(&run->weir, (const char *[]){"WEIR.TAKE", twice.name, "000000000000"}, 3, reply,
                      sizeof reply))
        return false;
    restart->first_s = seconds_since(start);
    return wait_all(run, start, &restart->all_s);
}

/* Asks for more than can be left: whoever gets it has lost something. */
static bool look_for_lost_units(struct store_run *run, const char *units, struct store_restart *restart)
{
    const char *words[] = {"WEIR.TAKE", twice.name, "KEY", units};
    struct load_result result;
    struct load_plan plan = {.server = &run->weir,
                             .words = words,
                             .count = 4,
                             .connections = 1,
                             .pipeline = 100,
                             .keys = restart->keys,
                             .in_turn = true,
                             .requests = min64(restart->keys, LOOK_KEYS),
                             .seconds = LOOK_S};
    int64_t before = store_info(run, "allowed");
    if (!store_load(&plan, &result))
        return false;
    restart->asked = result.replies;
    restart->missing = store_info(run, "allowed") - before;
    return true;
}

static void note_size(struct store_run *run, int64_t keys, struct store_restart *restart)
{
    restart->keys = keys;
    restart->log_mb = (double)store_info(run, "store_log_bytes") * 1e-6;
    restart->image_mb = (double)store_info(run, "store_image_bytes") * 1e-6;
}

static bool restart_clean(struct store_run *run, int64_t keys, struct store_restart *restart)
{
    if (!store_make_image(&run->weir))
        return false;
    note_size(run, keys, restart);
    measured_stop(&run->weir);
    return start_again(run, restart) && look_for_lost_units(run, "2", restart);
}

/* The log is about as long as it gets then: an image is made when it is longer than the last one. */
static bool restart_unclean(struct store_run *run, const struct load_plan *plan,
                            struct store_restart *restart)
{
    if (!store_fill(*plan, plan->keys))
        return false;
    note_size(run, plan->keys, restart);
    measured_kill(&run->weir);
    return start_again(run, restart) && look_for_lost_units(run, "1", restart);
}

static bool measure_restart_size(struct store_run *run, int64_t keys, struct store_restart restarts[static 2])
{
    char what[64];
    const char *words[3];
    struct load_plan plan = store_take_plan(run, &twice, words);
    plan.keys = keys;
    snprintf(what, sizeof what, "restarts with %lld keys", (long long)keys);
    bench_progress(what);
    bool good = store_start_weir(run, MODE_EVERYSEC, &twice, keys) && store_fill(plan, keys) &&
                restart_clean(run, keys, &restarts[0]) && restart_unclean(run, &plan, &restarts[1]);
    store_end_weir(run);
    return good;
}

bool store_measure_restarts(struct store_run *run)
{
    int64_t keys = run->options->keys / 10;
    for (int i = 0; i < STORE_SIZES; i++, keys *= 10)
        if (!measure_restart_size(run, keys, run->results->restarts[i]))
            return false;
    return true;
}
