/* SPDX-License-Identifier: MIT */
/*
 * An event loop must not sleep in acquire. It reserves, and sets a timer to the time when the units are due:
 * weir_now is CLOCK_BOOTTIME, so a timerfd of that clock will do. Here poll(2) waits for the timer; in a real
 * loop it waits for sockets as well.
 */
#define _POSIX_C_SOURCE 200809L
#include <poll.h>
#include <stdio.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>
#include <weir.h>

#define JOBS 4

static struct job {
    const char *name;
    struct weir_reservation due;
    bool waits;
} jobs[JOBS] = {{.name = "a"}, {.name = "b"}, {.name = "c"}, {.name = "d"}};

/* The loop reads the clock once a turn, and asks as of that time. */
static void reserve(struct weir_limiter *limiter, int64_t now_ns, struct job *job)
{
    job->waits = weir_limiter_reserve_at(limiter, now_ns, 1, WEIR_SEC, &job->due, NULL);
    printf("%s %s\n", job->name, job->waits ? "has a place" : "is refused");
}

static void cancel(struct weir_limiter *limiter, int64_t now_ns, struct job *job)
{
    job->waits = !weir_limiter_cancel_at(limiter, now_ns, &job->due);
    printf("%s %s\n", job->name, job->waits ? "cannot be called off" : "is called off");
}

/* Starts what is due; gives the time of the next, or WEIR_FOREVER. */
static int64_t run_due(int64_t now_ns)
{
    int64_t next_ns = WEIR_FOREVER;
    for (struct job *job = jobs; job != jobs + JOBS; job++) {
        if (job->waits && job->due.due_ns <= now_ns) {
            printf("%s starts\n", job->name);
            job->waits = false;
        } else if (job->waits && job->due.due_ns < next_ns) {
            next_ns = job->due.due_ns;
        }
    }
    return next_ns;
}

int main(void)
{
    struct weir_error err;
    struct weir_limiter *limiter = weir_limiter_new("200/s burst=1", &err);
    struct pollfd timer = {.fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC), .events = POLLIN};
    if (!limiter || timer.fd < 0)
        return fprintf(stderr, "%s\n", limiter ? "no timer to be had" : err.text), 1;

    int64_t now_ns = weir_now(), next_ns;
    for (int i = 0; i < 3; i++)
        reserve(limiter, now_ns, &jobs[i]);
    cancel(limiter, now_ns, &jobs[2]);
    reserve(limiter, now_ns, &jobs[3]); /* in its place */

    while ((next_ns = run_due(weir_now())) != WEIR_FOREVER) {
        struct itimerspec at = {.it_value = {next_ns / WEIR_SEC, next_ns % WEIR_SEC}};
        if (timerfd_settime(timer.fd, TFD_TIMER_ABSTIME, &at, NULL) != 0 || poll(&timer, 1, -1) < 0)
            return perror("waiting"), 1;
    }
    close(timer.fd);
    weir_limiter_free(limiter);
}
