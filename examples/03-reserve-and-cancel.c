/* SPDX-License-Identifier: MIT */
/*
 * Reserving: "yours in 200 ms" instead of "no". Each job is told when to start; who cannot wait that long is
 * refused and takes nothing; who gives up in time hands the place to the next one.
 */
#include <inttypes.h>
#include <stdio.h>
#include <weir.h>

static void say_time(const char *job)
{
    printf("%3" PRId64 " ms  %s ", weir_now() / WEIR_MS, job);
}

static void reserve(struct weir_limiter *limiter, const char *job, int64_t timeout_ns,
                    struct weir_reservation *r)
{
    struct weir_verdict v;
    say_time(job);
    if (weir_limiter_reserve(limiter, 1, timeout_ns, r, &v))
        printf("may start at %" PRId64 " ms\n", r->due_ns / WEIR_MS);
    else
        printf("cannot wait so long; asked in %" PRId64 " ms, it could\n", v.retry_after_ns / WEIR_MS);
}

static void cancel(struct weir_limiter *limiter, const char *job, struct weir_reservation *r)
{
    bool canceled = weir_limiter_cancel(limiter, r);
    say_time(job);
    puts(canceled ? "gives up" : "gives up too late");
}

int main(void)
{
    weir_clock_set(0); /* time stands still until it is set again */
    struct weir_error err;
    struct weir_limiter *limiter = weir_limiter_new("10/s burst=1", &err);
    if (!limiter)
        return fprintf(stderr, "%s\n", err.text), 1;

    struct weir_reservation a, b, c, d, e;
    reserve(limiter, "a", WEIR_SEC, &a);
    reserve(limiter, "b", WEIR_SEC, &b);
    reserve(limiter, "c", WEIR_SEC, &c);
    reserve(limiter, "d", 200 * WEIR_MS, &d); /* its turn would be at 300 ms */
    weir_clock_set(50 * WEIR_MS);
    cancel(limiter, "c", &c);
    weir_clock_set(60 * WEIR_MS);
    reserve(limiter, "e", WEIR_SEC, &e); /* the place of c */
    weir_clock_set(150 * WEIR_MS);
    cancel(limiter, "b", &b); /* it was due at 100 ms */

    weir_limiter_free(limiter);
}
