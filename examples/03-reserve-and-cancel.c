/* SPDX-License-Identifier: MIT */
/*
 * Reserving: "yours in 200 ms" instead of "no". Each job is told when to start; who cannot wait that long is
 * refused and takes nothing; who gives up in time hands the place to the next one.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <weir.h>

static void reserve(const struct weir_policy *policy, void *state, int64_t now_ns, const char *job,
                    int64_t timeout_ns, struct weir_reservation *r)
{
    struct weir_verdict v;
    printf("%3" PRId64 " ms  %s ", now_ns / WEIR_MS, job);
    if (weir_state_reserve(policy, state, now_ns, 1, timeout_ns, r, &v))
        printf("may start at %" PRId64 " ms\n", r->due_ns / WEIR_MS);
    else
        printf("cannot wait so long; asked in %" PRId64 " ms, it could\n", v.retry_after_ns / WEIR_MS);
}

static void cancel(const struct weir_policy *policy, void *state, int64_t now_ns, const char *job,
                   struct weir_reservation *r)
{
    bool canceled = weir_state_cancel(policy, state, now_ns, r);
    printf("%3" PRId64 " ms  %s %s\n", now_ns / WEIR_MS, job, canceled ? "gives up" : "gives up too late");
}

int main(void)
{
    struct weir_error err;
    struct weir_policy *policy = weir_policy_new("10/s burst=1", &err);
    if (!policy)
        return fprintf(stderr, "%s\n", err.text), 1;
    void *state = malloc(weir_policy_state_size(policy));
    if (!state)
        return perror("state"), 1;

    struct weir_reservation a, b, c, d, e;
    weir_state_init(policy, state, 0);
    reserve(policy, state, 0, "a", WEIR_SEC, &a);
    reserve(policy, state, 0, "b", WEIR_SEC, &b);
    reserve(policy, state, 0, "c", WEIR_SEC, &c);
    reserve(policy, state, 0, "d", 200 * WEIR_MS, &d); /* its turn would be at 300 ms */
    cancel(policy, state, 50 * WEIR_MS, "c", &c);
    reserve(policy, state, 60 * WEIR_MS, "e", WEIR_SEC, &e); /* the place of c */
    cancel(policy, state, 150 * WEIR_MS, "b", &b);           /* it was due at 100 ms */

    free(state);
    weir_policy_free(policy);
}
