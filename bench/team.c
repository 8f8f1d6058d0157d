/* SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L
#include "bench/team.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define STACK_SIZE ((size_t)256 * 1024) /* so that a thousand threads fit anywhere */
#define BATCH      1024                 /* operations between two looks at the clock on the wall */

enum team_gate { GATE_SHUT, GATE_OPEN, GATE_CANCELLED };

struct team_thread {
    struct team *team;
    void *arg;
    pthread_t thread;
};

struct team {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    enum team_gate gate;
    team_fn *fn;
    int count;
    struct team_thread members[];
};

static void *team_thread_main(void *arg)
{
    struct team_thread *member = arg;
    struct team *team = member->team;
    pthread_mutex_lock(&team->lock);
    while (team->gate == GATE_SHUT)
        pthread_cond_wait(&team->changed, &team->lock);
    bool open = team->gate == GATE_OPEN;
    pthread_mutex_unlock(&team->lock);
    if (open)
        team->fn(member->arg);
    return NULL;
}

static void set_gate(struct team *team, enum team_gate gate)
{
    pthread_mutex_lock(&team->lock);
    team->gate = gate;
    pthread_cond_broadcast(&team->changed);
    pthread_mutex_unlock(&team->lock);
}

/* Gives an errno value. */
static int start_members(struct team *team, int threads, void *args, size_t size)
{
    pthread_attr_t attr;
    int error = pthread_attr_init(&attr);
    if (error)
        return error;
    (void)pthread_attr_setstacksize(&attr, STACK_SIZE);
    for (int i = 0; i < threads && !error; i++) {
        struct team_thread *member = &team->members[i];
        *member = (struct team_thread){.team = team, .arg = (char *)args + (size_t)i * size};
        error = pthread_create(&member->thread, &attr, team_thread_main, member);
        team->count += !error;
    }
    (void)pthread_attr_destroy(&attr);
    return error;
}

struct team *team_new(int threads, team_fn *fn, void *args, size_t size)
{
    struct team *team = malloc(sizeof *team + (size_t)threads * sizeof team->members[0]);
    if (!team) {
        fputs("weir: out of memory\n", stderr);
        return NULL;
    }
    *team = (struct team){.fn = fn};
    pthread_mutex_init(&team->lock, NULL);
    pthread_cond_init(&team->changed, NULL);
    int error = start_members(team, threads, args, size);
    if (!error)
        return team;
    fprintf(stderr, "weir: cannot start %d threads: %s\n", threads, strerror(error));
    set_gate(team, GATE_CANCELLED);
    team_end(team);
    return NULL;
}

void team_go(struct team *team)
{
    set_gate(team, GATE_OPEN);
}

void team_end(struct team *team)
{
    for (int i = 0; i < team->count; i++)
        pthread_join(team->members[i].thread, NULL);
    pthread_cond_destroy(&team->changed);
    pthread_mutex_destroy(&team->lock);
    free(team);
}

int team_width(int threads)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    return cores > 0 && cores < threads ? (int)cores : threads;
}

/* ---- counting operations ---- */

struct team_job {
    bench_fn *fn;
    void *arg;
    double until; /* when all of them stop */
    int64_t ops;
    double start, end, cpu_s;
};

static double team_read_clock(clockid_t clock)
{
    struct timespec ts;
    clock_gettime(clock, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

/* Each looks at the clock for itself: the one who started them would have to wait for a processor first. */
static void do_team_job(void *arg)
{
    struct team_job *job = arg;
    int64_t ops = 0;
    double end, cpu = team_read_clock(CLOCK_THREAD_CPUTIME_ID);
    job->start = team_read_clock(CLOCK_MONOTONIC);
    do {
        job->fn(job->arg, BATCH);
        ops += BATCH;
        end = team_read_clock(CLOCK_MONOTONIC);
    } while (end < job->until);
    job->cpu_s = team_read_clock(CLOCK_THREAD_CPUTIME_ID) - cpu;
    job->end = end;
    job->ops = ops;
}

/* From the first who began to the last who ended: all that was done lies in between. */
static struct team_run team_sum_up(const struct team_job *jobs, int threads)
{
    struct team_run run = {0};
    double start = jobs[0].start, end = jobs[0].end;
    for (int i = 0; i < threads; i++) {
        run.ops += jobs[i].ops;
        run.cpu_s += jobs[i].cpu_s;
        start = jobs[i].start < start ? jobs[i].start : start;
        end = jobs[i].end > end ? jobs[i].end : end;
    }
    run.wall_s = end - start;
    return run;
}

bool team_measure(int threads, bench_fn *fn, void *args, size_t size, double seconds, struct team_run *run)
{
    struct team_job *jobs = calloc((size_t)threads, sizeof *jobs);
    if (!jobs)
        return fputs("weir: out of memory\n", stderr), false;
    for (int i = 0; i < threads; i++)
        jobs[i] = (struct team_job){.fn = fn, .arg = (char *)args + (size_t)i * size};
    struct team *team = team_new(threads, do_team_job, jobs, sizeof jobs[0]);
    if (team) {
        double until = team_read_clock(CLOCK_MONOTONIC) + seconds;
        for (int i = 0; i < threads; i++)
            jobs[i].until = until;
        team_go(team);
        team_end(team);
        *run = team_sum_up(jobs, threads);
    }
    free(jobs);
    return team != NULL;
}
