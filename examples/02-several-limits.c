/* SPDX-License-Identifier: MIT */
/*
 * Two limits that must agree: 2 in any second, and a budget of 5 with 6 more each minute. They decide
 * together: what one of them refuses costs nothing in the other. The verdict says which one it was.
 */
#include <inttypes.h>
#include <stdio.h>
#include <weir.h>

static const char *const names[] = {"pace", "budget"};

static void call(struct weir_limiter *limiter)
{
    struct weir_verdict v;
    bool allowed = weir_limiter_take(limiter, 1, &v);
    printf("%6.1f s  ", (double)weir_now() / WEIR_SEC);
    if (allowed)
        printf("allowed, %" PRId64 " left by %s\n", v.remaining, names[v.limit]);
    else
        printf("refused by %s, try again in %.1f s\n", names[v.limit], (double)v.retry_after_ns / WEIR_SEC);
}

int main(void)
{
    weir_clock_set(0); /* time stands still until it is set again, so this prints the same every time */
    struct weir_error err;
    struct weir_limiter *limiter = weir_limiter_new("2/s algo=sliding-log, 6/m burst=5", &err);
    if (!limiter)
        return fprintf(stderr, "%s\n", err.text), 1;

    for (int64_t half_seconds = 0; half_seconds < 8; half_seconds++) {
        weir_clock_set(half_seconds * WEIR_SEC / 2);
        for (int i = 0; i < 2; i++)
            call(limiter);
    }
    weir_clock_set(10 * WEIR_SEC);
    call(limiter);
    weir_limiter_free(limiter);
}
