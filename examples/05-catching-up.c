/* SPDX-License-Identifier: MIT */
/*
 * A load generator: 1000 ops a second, and up to 1.5 times as many while behind schedule. An op takes 0.5 ms;
 * one hangs for 300 ms. A token bucket would forget that time. The hybrid limiter hands it out again, and
 * says at each op how far behind schedule it starts. A user who came on time would have waited for that, so
 * the response time is the service time and that on top. Without it, the stall counts as one slow op of 1400.
 */
#include <inttypes.h>
#include <stdio.h>
#include <weir.h>

#define OPS      1400
#define SLICE_NS (100 * WEIR_MS)

static int64_t service_ns[OPS], response_ns[OPS];

/* weir_limiter_acquire(ops, 1, WEIR_FOREVER, v), but with a clock that is moved by hand. */
static void acquire(struct weir_limiter *ops, struct weir_verdict *v)
{
    (void)weir_limiter_reserve(ops, 1, WEIR_FOREVER, NULL, v);
    weir_clock_set(weir_now() + v->wait_ns);
}

static void do_op(int op)
{
    weir_clock_set(weir_now() + (op == 200 ? 300 * WEIR_MS : WEIR_MS / 2));
}

/* How many ops took 1 ms or more, and the longest of them. */
static void report(const char *title, const int64_t *times_ns)
{
    int64_t most_ns = 0;
    int slow = 0;
    for (int op = 0; op < OPS; op++) {
        slow += times_ns[op] >= WEIR_MS;
        most_ns = times_ns[op] > most_ns ? times_ns[op] : most_ns;
    }
    printf("%s time: 1 ms or more in %d of %d ops, at most %" PRId64 " ms\n", title, slow, OPS,
           most_ns / WEIR_MS);
}

int main(void)
{
    struct weir_error err;
    weir_clock_set(0);
    struct weir_limiter *ops = weir_limiter_new("1000,1.5", &err); /* 1k/s algo=hybrid ratio=1.5 */
    if (!ops)
        return fprintf(stderr, "%s\n", err.text), 1;

    int64_t slice = 0, started = 0;
    puts("   from   ops  behind");
    for (int op = 0; op < OPS; op++) {
        struct weir_verdict v;
        acquire(ops, &v);
        int64_t start_ns = weir_now();
        for (; start_ns >= (slice + 1) * SLICE_NS; slice++, started = 0)
            printf("%4" PRId64 " ms  %4" PRId64 "  %3" PRId64 " ms\n", slice * 100, started,
                   v.behind_ns / WEIR_MS);
        started++;
        do_op(op);
        service_ns[op] = weir_now() - start_ns;
        response_ns[op] = service_ns[op] + v.behind_ns;
    }
    report("service", service_ns);
    report("response", response_ns);
    weir_limiter_free(ops);
}
