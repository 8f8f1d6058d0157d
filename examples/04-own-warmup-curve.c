/* SPDX-License-Identifier: MIT */
/*
 * What is a saved unit worth? With algo=warmup that is a curve. Above the stable line, saved units cost more
 * than fresh ones: after a rest the caches are cold. Below it they cost less: after a rest the buffers are
 * empty. Or you draw the line yourself: here a backend of which 5 workers sleep when idle, so that the first
 * 5 units after a long rest cost 250 ms each.
 */
#include <inttypes.h>
#include <stdio.h>
#include <weir.h>

#define FRESH_NS (100.0 * (double)WEIR_MS)
#define WAKE_NS  (250.0 * (double)WEIR_MS)
#define AWAKE    5.0 /* saved units above this wake a worker each */

/* Nanoseconds to spend n of `stored` saved units: the area under the line, so it adds up in any order. */
static double wake_workers(void *arg, double stored, double n)
{
    (void)arg;
    double asleep = stored > AWAKE ? stored - AWAKE : 0;
    double woken = n < asleep ? n : asleep;
    return woken * WAKE_NS + (n - woken) * FRESH_NS;
}

static void run(const char *title, const struct weir_spec *spec)
{
    struct weir_error err;
    struct weir_policy *policy = weir_policy_from(spec, 1, &err);
    int64_t state[8], now_ns = 0;
    if (!policy || weir_policy_state_size(policy) > sizeof state) {
        printf("%s: %s\n", title, policy ? "the state is larger than expected" : err.text);
        return;
    }
    weir_state_init(policy, state, now_ns); /* rested: as much saved as there can be */
    printf("%-6s", title);
    for (int i = 0; i < 9; i++) {
        struct weir_verdict v;
        weir_state_reserve(policy, state, now_ns, 1, WEIR_FOREVER, NULL, &v);
        now_ns += v.wait_ns;
        printf(" %4" PRId64, v.wait_ns / WEIR_MS);
    }
    printf("  ms between two\n");
    weir_policy_free(policy);
}

int main(void)
{
    struct weir_spec spec = {
        .algo = WEIR_WARMUP,
        .count = 10,
        .period_ns = WEIR_SEC,
        .warmup_ns = WEIR_SEC,
    };
    run("above", &spec);
    spec.shape = WEIR_SHAPE_BELOW;
    run("below", &spec);
    spec.shape = WEIR_SHAPE_OWN;
    spec.own = wake_workers;
    run("own", &spec);
}
