/* SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L
#include "threads/team.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "os/futex.h"

#define STACK_SIZE    ((size_t)64 << 10)
#define WATCH_SECONDS 180

#define SLOW_NS   INT64_C(200000) /* for a yield: somebody else wants the processor */
#define BUSY_NS   INT64_C(50000000)
#define MOMENT_NS 1000

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif

struct member {
    pthread_t thread;
    struct team *team;
    size_t self;
};

struct team {
    team_body *body;
    void *arg;
    size_t count;
    atomic_size_t running;
    pthread_barrier_t start;
    struct member members[];
};

static void stop(const char *what, int code)
{
    fprintf(stderr, "%s: %s\n", what, strerror(code));
    abort();
}

static void *member_run(void *arg)
{
    struct member *member = arg;
    struct team *team = member->team;
    (void)pthread_barrier_wait(&team->start);
    team->body(member->self, team->arg);
    atomic_fetch_sub(&team->running, 1);
    return NULL;
}

/* Small stacks: some tests have ten thousand threads. */
struct team *team_start(size_t count, team_body *body, void *arg)
{
    struct team *team = calloc(1, sizeof *team + count * sizeof team->members[0]);
    pthread_attr_t attr;
    if (!team)
        stop("a team", 12);
    team->body = body;
    team->arg = arg;
    team->count = count;
    atomic_init(&team->running, count);
    (void)pthread_barrier_init(&team->start, NULL, (unsigned)count + 1);
    (void)pthread_attr_init(&attr);
#ifndef SANITIZED
    (void)pthread_attr_setstacksize(&attr, STACK_SIZE);
#endif
    for (size_t i = 0; i < count; i++) {
        team->members[i] = (struct member){.team = team, .self = i};
        int code = pthread_create(&team->members[i].thread, &attr, member_run, &team->members[i]);
        if (code)
            stop("pthread_create", code);
    }
    (void)pthread_attr_destroy(&attr);
    (void)pthread_barrier_wait(&team->start);
    return team;
}

size_t team_running(struct team *team)
{
    return atomic_load(&team->running);
}

void team_join(struct team *team)
{
    for (size_t i = 0; i < team->count; i++)
        (void)pthread_join(team->members[i].thread, NULL);
    (void)pthread_barrier_destroy(&team->start);
    free(team);
}

void team_run(size_t count, team_body *body, void *arg)
{
    team_join(team_start(count, body, arg));
}

/* A yield costs nothing where nobody else wants the processor. Where other programs do it costs a slice of
 * time for each of them, and a test that yields often takes minutes: there the thread sleeps for a moment. */
void team_yield(void)
{
    static _Atomic uint32_t nobody_wakes;
    static _Thread_local int64_t busy_until;
    int64_t before = weir_monotonic_ns();
    if (before < busy_until) {
        weir_futex_wait(&nobody_wakes, 0, before + MOMENT_NS);
        return;
    }
    (void)sched_yield();
    int64_t after = weir_monotonic_ns();
    if (after - before > SLOW_NS)
        busy_until = after + BUSY_NS;
}

/* ---- the watchdog ---- */

static char message[128];

static void bark(int signal)
{
    (void)signal;
    ssize_t written = write(STDERR_FILENO, message, strlen(message));
    (void)written;
    abort();
}

unsigned team_patience(void)
{
    const char *text = getenv("WEIR_WATCH_SECONDS");
    return text ? (unsigned)strtoul(text, NULL, 10) : WATCH_SECONDS;
}

void team_watch(const char *what)
{
    struct sigaction action = {.sa_handler = bark};
    (void)snprintf(message, sizeof message, "# %s: no end after %u s\n", what, team_patience());
    (void)sigaction(SIGALRM, &action, NULL);
    (void)alarm(team_patience());
}

void team_watch_done(void)
{
    (void)alarm(0);
}

int64_t team_scaled(int64_t number)
{
#ifdef SANITIZED
    number /= 10;
#endif
    return number > 1 ? number : 1;
}
