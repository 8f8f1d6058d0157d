/* SPDX-License-Identifier: MIT */
/*
 * A queue of jobs that leave evenly: 10 a second, at most 3 waiting, none longer than half a second. An event
 * loop runs them. Here its time is made up; in a real one call weir_queue_run, which reads the clock, and set
 * a timer to the time that it gives.
 */
#include <inttypes.h>
#include <stdio.h>
#include <weir.h>

static int64_t now_ns; /* of the loop */

static void send(void *arg, const struct weir_verdict *v)
{
    const char *mail = arg;
    printf("%4" PRId64 " ms  ", now_ns / WEIR_MS);
    if (v->allowed)
        printf("%s is sent, after %" PRId64 " ms\n", mail, v->wait_ns / WEIR_MS);
    else if (v->reason == WEIR_FULL)
        printf("%s is too old: it waited for %" PRId64 " ms\n", mail, v->wait_ns / WEIR_MS);
    else
        printf("%s is cancelled\n", mail);
}

static void put(struct weir_queue *queue, char *mail)
{
    struct weir_verdict v;
    bool queued = weir_queue_put_at(queue, now_ns, 1, send, mail, &v);
    printf("%4" PRId64 " ms  %s ", now_ns / WEIR_MS, mail);
    if (queued)
        printf("waits for its turn in %" PRId64 " ms\n", v.wait_ns / WEIR_MS);
    else
        printf("does not fit: try again in %" PRId64 " ms\n", v.retry_after_ns / WEIR_MS);
}

/* The loop sleeps until the next job is due, and so on until `end_ns`. */
static void loop_until(struct weir_queue *queue, int64_t end_ns)
{
    int64_t next_ns = weir_queue_run_at(queue, now_ns);
    while (next_ns <= end_ns) {
        now_ns = next_ns;
        next_ns = weir_queue_run_at(queue, now_ns);
    }
    now_ns = end_ns;
}

int main(void)
{
    struct weir_error err;
    struct weir_queue *queue =
        weir_queue_new("10/s algo=leaky-bucket queue=3 age=500ms", WEIR_QUEUE_LOOP, &err);
    if (!queue)
        return fprintf(stderr, "%s\n", err.text), 1;

    static char a[] = "a", b[] = "b", c[] = "c", d[] = "d", e[] = "e", f[] = "f", g[] = "g";
    put(queue, a);
    put(queue, b);
    put(queue, c);
    put(queue, d);
    put(queue, e); /* a may leave at once, three wait: this one is too many */
    loop_until(queue, 100 * WEIR_MS);
    put(queue, e);

    now_ns = 550 * WEIR_MS; /* something else kept the loop busy */
    loop_until(queue, 600 * WEIR_MS);
    put(queue, f);
    put(queue, g);
    weir_queue_free(queue, WEIR_QUEUE_DROP); /* WEIR_QUEUE_DRAIN would send them first, as evenly */
}
