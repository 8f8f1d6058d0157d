/* SPDX-License-Identifier: MIT */
/*
 * A guarded call: the limiter runs a function if there are units for it. How many it needs is computed from
 * its argument, here a unit for each KiB. If the other side says that it has had enough, the limiter is
 * drained: nobody calls again until it has refilled.
 */
#include <inttypes.h>
#include <stdio.h>
#include <weir.h>

struct upload {
    const char *name;
    int64_t bytes;
    int64_t status; /* what the server is going to say */
};

static int64_t run(void *arg)
{
    const struct upload *upload = arg;
    return upload->status;
}

static int64_t count(void *arg)
{
    const struct upload *upload = arg;
    return (upload->bytes + 1023) / 1024;
}

static bool has_had_enough(void *arg, int64_t status)
{
    (void)arg;
    return status == 429;
}

static void hear(void *arg, const struct weir_event *event)
{
    (void)arg;
    if (event->kind == WEIR_EVENT_DRAINED)
        printf("drained of %" PRId64 "\n", event->n);
}

static void send_up(struct weir_limiter *limiter, struct upload upload)
{
    struct weir_call call = {.run = run, .arg = &upload, .count = count, .drain_on = has_had_enough};
    struct weir_verdict v;
    if (weir_limiter_call(limiter, &call, &v))
        printf("%s: status %" PRId64 "\n", upload.name, call.result);
    else
        printf("%s: not sent, try again in %" PRId64 " ms\n", upload.name, v.retry_after_ns / WEIR_MS);
}

int main(void)
{
    weir_clock_set(0); /* time stands still until it is set again */
    struct weir_error err;
    struct weir_limiter *limiter = weir_limiter_new("100/s", &err);
    if (!limiter || !weir_limiter_listen(limiter, hear, NULL))
        return fprintf(stderr, "%s\n", limiter ? "out of memory" : err.text), 1;

    send_up(limiter, (struct upload){"a", 30 * 1024, 200});
    send_up(limiter, (struct upload){"b", 90 * 1024, 200}); /* 70 units are left */
    send_up(limiter, (struct upload){"c", 10 * 1024, 429});
    send_up(limiter, (struct upload){"d", 1024, 200});
    weir_limiter_free(limiter);
}
