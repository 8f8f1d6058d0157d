/* SPDX-License-Identifier: MIT */
/*
 * Two limits that must agree: 2 in any second, and a budget of 5 with 6 more each minute. They decide
 * together: what one of them refuses costs nothing in the other. The verdict says which one it was.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <weir.h>

static void call(const struct weir_policy *policy, void *state, int64_t now_ns)
{
    struct weir_verdict v;
    bool allowed = weir_state_take(policy, state, now_ns, 1, &v);
    const char *name = weir_policy_spec(policy, (size_t)v.limit)->name;
    printf("%6.1f s  ", (double)now_ns / WEIR_SEC);
    if (allowed)
        printf("allowed, %" PRId64 " left by %s\n", v.remaining, name);
    else
        printf("refused by %s, try again in %.1f s\n", name, (double)v.retry_after_ns / WEIR_SEC);
}

int main(void)
{
    struct weir_error err;
    struct weir_policy *policy =
        weir_policy_new("2/s algo=sliding-log name=pace, 6/m burst=5 name=budget", &err);
    if (!policy)
        return fprintf(stderr, "%s\n", err.text), 1;
    void *state = malloc(weir_policy_state_size(policy)); /* of both limits */
    if (!state)
        return perror("state"), 1;

    weir_state_init(policy, state, 0);
    for (int64_t half_seconds = 0; half_seconds < 8; half_seconds++)
        for (int i = 0; i < 2; i++)
            call(policy, state, half_seconds * WEIR_SEC / 2);
    call(policy, state, 10 * WEIR_SEC);

    free(state);
    weir_policy_free(policy);
}
