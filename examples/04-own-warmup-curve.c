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

/* Nanoseconds to spend n of `stored` saved units: the area under the line, so it adds up in any order. Any
 * thread that uses the limiter may call it, under the limiter's lock: no limiter may be used in it. */
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
    weir_clock_set(0);
    struct weir_limiter *limiter = weir_limiter_from(spec, 1, &err); /* rested: all is saved that can be */
    if (!limiter) {
        printf("%s: %s\n", title, err.text);
        return;
    }
    printf("%-6s", title);
    for (int i = 0; i < 9; i++) {
        struct weir_verdict v;
        (void)weir_limiter_reserve(limiter, 1, WEIR_FOREVER, NULL, &v); /* acquire would sleep so long */
        weir_clock_set(weir_now() + v.wait_ns);
        printf(" %4" PRId64, v.wait_ns / WEIR_MS);
    }
    puts("  ms between two");
    weir_limiter_free(limiter);
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
