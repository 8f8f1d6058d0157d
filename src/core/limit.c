/* SPDX-License-Identifier: MIT */
/*
 * From a spec to a limit. All checks are in spec/spec.c: a completed spec always compiles.
 */
#include "core/limit.h"

static const struct algorithm *const algorithms[] = {
    [WEIR_TOKEN_BUCKET] = &weir_token_bucket,
    [WEIR_INTERVAL] = &weir_token_bucket,
    [WEIR_LEAKY_BUCKET] = &weir_leaky_bucket,
    [WEIR_SMOOTH] = &weir_smooth,
    [WEIR_WARMUP] = &weir_warmup,
    [WEIR_HYBRID] = &weir_hybrid,
    [WEIR_FIXED_WINDOW] = &weir_window,
    [WEIR_SLIDING_WINDOW] = &weir_window,
    [WEIR_SLIDING_LOG] = &weir_sliding_log,
    [WEIR_STEP] = &weir_step,
    [WEIR_UNLIMITED] = &weir_unlimited,
    [WEIR_BLOCKED] = &weir_blocked,
    [WEIR_QUOTA] = &weir_window,
};

static void set_index(struct limit *limit, int64_t burst, int64_t initial)
{
    limit->burst = burst;
    limit->initial = initial;
    limit->full = burst * limit->ticks.unit;
}

static void set_smooth(struct limit *limit)
{
    set_index(limit, limit->spec.burst, limit->spec.initial);
    if (limit->spec.burst == 0) { /* a second of rate, which need not be whole units */
        weir_i128 ticks_per_period = (weir_i128)limit->ticks.unit * limit->spec.count;
        limit->full = (int64_t)(ticks_per_period * WEIR_SEC / limit->spec.period_ns);
    }
}

static void set_warmup(struct limit *limit)
{
    double unit = (double)limit->ticks.unit, cold = (double)limit->spec.cold_ppm / 1e6;
    double period = (double)weir_ticks_of_span(&limit->ticks, limit->spec.warmup_ns);
    bool below = limit->spec.shape == WEIR_SHAPE_BELOW;

    limit->u.warmup.unit = unit;
    limit->u.warmup.edge = below ? unit / cold : unit * cold;
    limit->u.warmup.threshold = period / 2 / unit;
    limit->u.warmup.most = limit->u.warmup.threshold + 2 * period / (unit + limit->u.warmup.edge);
    limit->u.warmup.slope =
        (limit->u.warmup.edge - unit) / (limit->u.warmup.most - limit->u.warmup.threshold);
    limit->u.warmup.cool = below ? unit : period / limit->u.warmup.most;
    limit->u.warmup.cooling = 1 / limit->u.warmup.cool;
    limit->u.warmup.dearest = below ? unit : limit->u.warmup.edge;
}

static void set_hybrid(struct limit *limit)
{
    int64_t active = max64(weir_ticks_of_span(&limit->ticks, limit->spec.pool_ns), limit->ticks.unit);
    limit->u.hybrid.active = active;
    limit->u.hybrid.over = mul_div(active, limit->spec.ratio_ppm, 1000000);
}

bool weir_limit_init(struct limit *limit, const struct weir_spec *spec, struct spec_fault *fault)
{
    *limit = (struct limit){.spec = *spec};
    if (!weir_spec_complete(&limit->spec, fault))
        return false;
    limit->algorithm = algorithms[spec->algo];
    if (spec->algo == WEIR_UNLIMITED || spec->algo == WEIR_BLOCKED)
        return true;
    (void)weir_ticks_init(&limit->ticks, limit->spec.count, limit->spec.period_ns);
    switch ((enum weir_algo)spec->algo) {
    case WEIR_TOKEN_BUCKET:
        set_index(limit, limit->spec.burst, limit->spec.initial);
        break;
    case WEIR_INTERVAL:
    case WEIR_LEAKY_BUCKET:
        set_index(limit, 1, 1);
        break;
    case WEIR_SMOOTH:
        set_smooth(limit);
        break;
    case WEIR_WARMUP:
        set_warmup(limit);
        break;
    case WEIR_HYBRID:
        set_hybrid(limit);
        break;
    case WEIR_FIXED_WINDOW:
    case WEIR_QUOTA:
    case WEIR_SLIDING_WINDOW:
    case WEIR_SLIDING_LOG:
    case WEIR_STEP:
    case WEIR_UNLIMITED:
    case WEIR_BLOCKED:
        break;
    }
    return true;
}
