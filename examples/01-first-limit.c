/* SPDX-License-Identifier: MIT */
/*
 * A first limit: 5 a minute. Seven calls come at once, and two of them are told when to come again. Then the
 * limit is raised while it is in use, and one more call waits for its turn.
 */
#include <stdio.h>
#include <weir.h>

int main(void)
{
    struct weir_error err;
    struct weir_limiter *api = weir_limiter_new("5/m", &err); /* for any number of threads */
    if (!api)
        return fprintf(stderr, "%s\n", err.text), 1;

    struct weir_verdict v;
    for (int i = 1; i <= 7; i++)
        if (!weir_limiter_take(api, 1, &v)) /* now, or not at all */
            printf("call %d refused, try again in %.0f s\n", i, (double)v.retry_after_ns / WEIR_SEC);

    weir_limiter_set(api, "100/s burst=20", NULL);       /* live: what was spent stays spent */
    if (weir_limiter_acquire(api, 1, 250 * WEIR_MS, &v)) /* or wait for a place */
        puts("call 8 waited for its turn, and went");

    weir_limiter_free(api);
}
