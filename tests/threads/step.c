/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "threads/step.h"

#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/atomic.h"

/* The thread sanitizer's own code takes another way each time. */
#if defined(__x86_64__) && !defined(WEIR_TSAN)

#include <sys/user.h>

#define BREAKPOINT UINT64_C(0xCC)
#define STEPS_MAX  (UINT64_C(1) << 20)
#define LOOK_BACK  64 /* steps that cost about as much as so many passes over a breakpoint */

struct way {
    uint64_t *places; /* where the child is after so many steps */
    uint32_t *passes; /* how often it has come there by then; 0 for the start */
    uint64_t *marks;  /* steps after which something was different */
    uint64_t steps, marked;
};

static void stop(const char *what)
{
    perror(what);
    abort();
}

/* A child that is stopped just before the operation. -1: no process may be led here. */
static pid_t child_new(step_operation *operation, void *arg)
{
    pid_t child = fork();
    if (child < 0)
        stop("fork");
    if (child == 0) {
        pid_t self = getpid();
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* nobody is left behind if the test is stopped */
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
            _exit(1);
        (void)kill(self, SIGSTOP);
        operation(arg);
        (void)kill(self, SIGSTOP);
        _exit(0);
    }
    int status;
    if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status))
        return -1;
    (void)ptrace(PTRACE_SETOPTIONS, child, NULL, (void *)(uintptr_t)PTRACE_O_EXITKILL);
    return child;
}

static void child_kill(pid_t child)
{
    int status;
    (void)kill(child, SIGKILL);
    while (waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
    }
}

/* true: it stopped at a step or a breakpoint. false: it has come to the end. */
static bool child_wait(pid_t child)
{
    int status;
    if (waitpid(child, &status, 0) != child)
        stop("waitpid");
    if (WIFSTOPPED(status) && (WSTOPSIG(status) == SIGTRAP || WSTOPSIG(status) == SIGSTOP))
        return WSTOPSIG(status) == SIGTRAP;
    fprintf(stderr, "the operation fails by itself: wait status %#x\n", (unsigned)status);
    abort();
}

static bool child_step(pid_t child)
{
    if (ptrace(PTRACE_SINGLESTEP, child, NULL, NULL) != 0)
        stop("PTRACE_SINGLESTEP");
    return child_wait(child);
}

static uint64_t child_place(pid_t child)
{
    return (uint64_t)ptrace(PTRACE_PEEKUSER, child, (void *)offsetof(struct user_regs_struct, rip), NULL);
}

static void poke(pid_t child, uint64_t place, uint64_t word)
{
    if (ptrace(PTRACE_POKETEXT, child, (void *)(uintptr_t)place, (void *)(uintptr_t)word) != 0)
        stop("PTRACE_POKETEXT");
}

/* Runs on to that place, at least one step. */
static bool child_run(pid_t child, uint64_t place)
{
    if (child_place(child) == place) {
        if (!child_step(child))
            return false;
        if (child_place(child) == place)
            return true;
    }
    uint64_t word = (uint64_t)ptrace(PTRACE_PEEKTEXT, child, (void *)(uintptr_t)place, NULL);
    poke(child, place, (word & ~UINT64_C(0xFF)) | BREAKPOINT);
    if (ptrace(PTRACE_CONT, child, NULL, NULL) != 0)
        stop("PTRACE_CONT");
    bool there = child_wait(child);
    poke(child, place, word);
    if (there)
        (void)ptrace(PTRACE_POKEUSER, child, (void *)offsetof(struct user_regs_struct, rip),
                     (void *)(uintptr_t)place);
    return there;
}

/* ---- the way ---- */

/* How often the child has been where it is after each step, with a table of places: a step may be one of many
 * thousands. */
static void count_passes(struct way *way)
{
    uint64_t slots = 1, mask;
    while (slots < 2 * (way->steps + 1))
        slots *= 2;
    mask = slots - 1;
    struct {
        uint64_t place;
        uint32_t passes;
    } *seen = calloc(slots, sizeof *seen);
    if (!seen)
        stop("calloc");
    way->passes[0] = 0;
    for (uint64_t i = 1; i <= way->steps; i++) {
        uint64_t at = way->places[i] * UINT64_C(0x9E3779B97F4A7C15) >> 20 & mask;
        while (seen[at].passes > 0 && seen[at].place != way->places[i])
            at = (at + 1) & mask;
        seen[at].place = way->places[i];
        way->passes[i] = ++seen[at].passes;
    }
    free(seen);
}

static bool way_learn(struct way *way, step_operation *operation, step_there *changed, void *arg)
{
    pid_t child = child_new(operation, arg);
    if (child < 0)
        return false;
    *way = (struct way){.places = malloc(STEPS_MAX * sizeof way->places[0]),
                        .passes = malloc(STEPS_MAX * sizeof way->passes[0]),
                        .marks = malloc(STEPS_MAX * sizeof way->marks[0])};
    if (!way->places || !way->passes || !way->marks)
        stop("malloc");
    way->places[0] = child_place(child);
    while (way->steps + 1 < STEPS_MAX && child_step(child)) {
        way->places[++way->steps] = child_place(child);
        if (changed && changed(arg))
            way->marks[way->marked++] = way->steps;
    }
    child_kill(child);
    count_passes(way);
    return true;
}

static void way_forget(struct way *way)
{
    free(way->places);
    free(way->passes);
    free(way->marks);
}

/* In a loop it is quicker to stop before it, and to go on by steps. */
static uint64_t way_stop(const struct way *way, uint64_t step)
{
    uint64_t best = step;
    for (uint64_t i = step; i > 0 && step - i < LOOK_BACK; i--)
        if (way->passes[i] + (step - i) < way->passes[best] + (step - best))
            best = i;
    return best;
}

static bool way_lead(const struct way *way, pid_t child, uint64_t step)
{
    uint64_t from = way_stop(way, step);
    for (uint32_t i = 0; i < way->passes[from]; i++)
        if (!child_run(child, way->places[from]))
            return false;
    for (; from < step; from++)
        if (!child_step(child))
            return false;
    return true;
}

struct plan {
    step_setup *setup;
    step_operation *operation;
    step_check *check;
    void *arg;
};

static bool plan_begin(const struct plan *plan, step_there *changed, struct way *way)
{
    plan->setup(plan->arg);
    plan->operation(plan->arg);
    plan->check(plan->arg, 0, true);
    plan->setup(plan->arg);
    if (changed)
        (void)changed(plan->arg);
    if (!way_learn(way, plan->operation, changed, plan->arg))
        return false;
    plan->check(plan->arg, way->steps, true);
    return true;
}

static void plan_kill(const struct plan *plan, const struct way *way, uint64_t step)
{
    plan->setup(plan->arg);
    pid_t child = child_new(plan->operation, plan->arg);
    bool whole = !way_lead(way, child, step);
    child_kill(child);
    plan->check(plan->arg, step, whole);
}

uint64_t step_kill(step_setup *setup, step_operation *operation, step_check *check, void *arg,
                   uint64_t stride)
{
    const struct plan plan = {setup, operation, check, arg};
    struct way way;
    if (!plan_begin(&plan, NULL, &way))
        return 0;
    for (uint64_t step = 0; step <= way.steps; step += stride)
        plan_kill(&plan, &way, step);
    way_forget(&way);
    return way.steps;
}

uint64_t step_kill_some(step_setup *setup, step_operation *operation, step_check *check, step_there *changed,
                        void *arg, uint64_t kills, uint64_t first)
{
    const struct plan plan = {setup, operation, check, arg};
    struct way way;
    if (!plan_begin(&plan, changed, &way))
        return 0;
    uint64_t stride = way.marked / kills + 1;
    plan_kill(&plan, &way, 0);
    for (uint64_t i = first % stride; i < way.marked; i += stride)
        plan_kill(&plan, &way, way.marks[i]);
    way_forget(&way);
    return way.steps;
}

pid_t step_stop(step_operation *operation, step_there *there, void *arg)
{
    pid_t child = child_new(operation, arg);
    while (child > 0 && !there(arg))
        if (!child_step(child)) {
            child_kill(child);
            return 0;
        }
    if (child > 0)
        (void)ptrace(PTRACE_DETACH, child, NULL, (void *)(uintptr_t)SIGSTOP);
    return child;
}

#else

uint64_t step_kill(step_setup *setup, step_operation *operation, step_check *check, void *arg,
                   uint64_t stride)
{
    (void)setup, (void)operation, (void)check, (void)arg, (void)stride;
    return 0;
}

uint64_t step_kill_some(step_setup *setup, step_operation *operation, step_check *check, step_there *changed,
                        void *arg, uint64_t kills, uint64_t first)
{
    (void)setup, (void)operation, (void)check, (void)changed, (void)arg, (void)kills, (void)first;
    return 0;
}

pid_t step_stop(step_operation *operation, step_there *there, void *arg)
{
    (void)operation, (void)there, (void)arg;
    return -1;
}

#endif
