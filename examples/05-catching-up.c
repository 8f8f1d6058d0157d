/* SPDX-License-Identifier: MIT */
/*
 * Catching up after a stall, as load generators must: 1000 ops a second, and up to 1.5 times as many while
 * behind schedule. The client stalls for 300 ms. A token bucket would forget the time; the hybrid limiter
 * keeps it, hands it out again, and says at each op how late it is: what a user would have waited.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <weir.h>

#define SLICE_NS (100 * WEIR_MS)

/* Takes all that passes until the end of the slice; `behind_ns` is that of the last op. */
static int64_t run_slice(const struct weir_policy *policy, void *state, int64_t start_ns, int64_t *behind_ns)
{
    int64_t ops = 0, now_ns = start_ns;
    while (now_ns < start_ns + SLICE_NS) {
        struct weir_verdict v;
        if (weir_state_take(policy, state, now_ns, 1, &v)) {
            *behind_ns = v.behind_ns;
            ops++;
        }
        now_ns += v.retry_after_ns; /* 0 if allowed */
    }
    return ops;
}

int main(void)
{
    struct weir_error err;
    struct weir_policy *policy = weir_policy_new("1000,1.5", &err); /* 1k/s algo=hybrid ratio=1.5 */
    if (!policy)
        return fprintf(stderr, "%s\n", err.text), 1;
    void *state = malloc(weir_policy_state_size(policy));
    if (!state)
        return perror("state"), 1;

    int64_t total = 0;
    weir_state_init(policy, state, 0);
    puts("   from   ops  behind");
    for (int64_t now_ns = 0; now_ns < 14 * SLICE_NS; now_ns += SLICE_NS) {
        printf("%4" PRId64 " ms  ", now_ns / WEIR_MS);
        if (now_ns >= 2 * SLICE_NS && now_ns < 5 * SLICE_NS) {
            puts("   -");
            continue;
        }
        int64_t behind_ns = 0, ops = run_slice(policy, state, now_ns, &behind_ns);
        total += ops;
        printf("%4" PRId64 "  %3" PRId64 " ms\n", ops, behind_ns / WEIR_MS);
    }
    printf("%" PRId64 " ops in 1400 ms\n", total);

    free(state);
    weir_policy_free(policy);
}
