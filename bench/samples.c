/* SPDX-License-Identifier: MIT */
#include "bench/samples.h"

#include <stdlib.h>

#include "bench/team.h"
#include "weir.h"

#define WARM_S 0.003

/* The clock of the library asks the kernel again when nobody has read it for a while (os/clock.h), and rows
 * without a clock last for a while. */
static void warm_clock(double seconds)
{
    int64_t end = weir_now() + (int64_t)((seconds < WARM_S ? seconds : WARM_S) * 1e9);
    while (weir_now() < end)
        ;
}

bool samples_measure(struct bench_samples *samples, int round, int threads, bench_fn *fn, void *args,
                     size_t size, double seconds)
{
    struct team_run run;
    warm_clock(seconds);
    if (!team_measure(threads, fn, args, size, seconds, &run))
        return false;
    int width = team_width(threads);
    samples->ns[round] = run.cpu_s / width * 1e9 / (double)run.ops;
    samples->share[round] = width == 1 ? 1 : run.cpu_s / width / run.wall_s;
    samples->ops += run.ops;
    return true;
}

/* Of the runs that had their share of the machine the fastest; without such, the one that had the most. */
static bool is_better(const struct bench_samples *s, int i, int than)
{
    bool whole = s->share[i] >= SHARE_MIN, other = s->share[than] >= SHARE_MIN;
    return whole && other ? s->ns[i] < s->ns[than] : s->share[i] > s->share[than];
}

struct bench_cell samples_sum_up(struct bench_samples *s)
{
    int best = 0;
    if (s->ops == 0)
        return (struct bench_cell){0};
    for (int i = 1; i < BENCH_RUNS; i++)
        best = is_better(s, i, best) ? i : best;
    struct bench_cell cell = {.best_ns = s->ns[best],
                              .share = s->share[best],
                              .failures = (double)s->failures / (double)s->ops,
                              .allowed = (double)s->allowed / (double)s->ops};
    qsort(s->ns, BENCH_RUNS, sizeof s->ns[0], bench_by_value);
    cell.median_ns = s->ns[BENCH_RUNS / 2];
    return cell;
}
