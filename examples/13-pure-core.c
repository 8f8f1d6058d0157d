/* SPDX-License-Identifier: MIT */
/*
 * The pure core: no clock, no threads, no memory but yours. A limit of 10 a second, at most 3 at one instant;
 * five calls come at once, a sixth when the limit said that it would pass, and one after a rest. A state is
 * plain memory: keep one for each user in your own table, store it, copy it. Time is an argument.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <weir.h>

static void call(const struct weir_policy *policy, void *state, int64_t now_ns)
{
    struct weir_verdict v;
    printf("%4" PRId64 " ms  ", now_ns / WEIR_MS);
    if (weir_state_take(policy, state, now_ns, 1, &v))
        printf("allowed, %" PRId64 " left\n", v.remaining);
    else
        printf("refused, try again in %" PRId64 " ms\n", v.retry_after_ns / WEIR_MS);
}

int main(void)
{
    struct weir_error err;
    struct weir_policy *policy = weir_policy_new("10/s burst=3", &err);
    if (!policy)
        return fprintf(stderr, "%s\n", err.text), 1;
    void *state = malloc(weir_policy_state_size(policy)); /* yours to keep: one for each user, say */
    if (!state)
        return perror("state"), 1;

    weir_state_init(policy, state, 0);
    for (int i = 0; i < 5; i++)
        call(policy, state, 0);
    call(policy, state, 100 * WEIR_MS);
    call(policy, state, 5 * WEIR_SEC);
    printf("in any second at most %" PRId64 " pass\n", weir_policy_most(policy, 0, WEIR_SEC));

    free(state);
    weir_policy_free(policy);
}
