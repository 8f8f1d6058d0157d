/* SPDX-License-Identifier: MIT */
/*
 * Executions, each from the start: threads cannot be turned back, but they do the same again when they read
 * the same.
 *
 * A step whose moment does not matter to the others is made at once; all others are made in the order that
 * the search asks for. Who uses which location is found out on the way; when it turns out otherwise than
 * assumed, the search starts again, knowing better.
 */
#include "explore/explore.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "explore/fiber.h"
#include "explore/memory.h"
#include "explore/search.h"
#include "explore/trace.h"

enum { PATHS_MAX = 10 * 1000 * 1000 };

_Static_assert((int)EXPLORE_THREADS == (int)FIBERS, "a stack for each thread");

struct runner {
    struct op op; /* the step it is about to make */
    struct outcome outcome;
    bool ended;
    bool mortal;
    int left; /* steps that it may still make, if it is mortal */
};

static struct {
    struct explore *e;
    struct runner runners[EXPLORE_THREADS];
    int threads;
    int running;  /* -1: none, setup or finish runs */
    bool stopped; /* this execution goes no further */
    bool stale;   /* the search has to start again */
} run = {.running = -1};

/* ---- faults ---- */

__attribute__((format(printf, 1, 2))) static void fault(const char *format, ...)
{
    struct explore *e = run.e;
    va_list args;
    va_start(args, format);
    if (!e->fault[0])
        (void)vsnprintf(e->fault, sizeof e->fault, format, args);
    va_end(args);
    run.stopped = true;
    while (run.running >= 0) /* nobody resumes it again */
        fiber_yield();
}

void explore_check(bool holds, const char *text, const char *file, int line)
{
    if (!holds)
        fault("%s:%d: does not hold: %s", file, line, text);
}

int explore_thread(void)
{
    return run.running;
}

/* ---- steps: what the threads call ---- */

static void record(const struct op *op, const struct effect *effect)
{
    if (!trace_add(run.running, op, effect))
        fault("too many steps: a loop that waits without explore_pause?");
}

/* Hands over to the search, and comes back when it wants this step to be made. */
static struct outcome choose(const struct op *op)
{
    struct runner *me = &run.runners[run.running];
    me->op = *op;
    fiber_yield();
    return me->outcome;
}

static bool is_free_to_go(const struct op *op, struct outcome *outcome)
{
    struct outcome outcomes[MEMORY_OUTCOMES];
    if (run.e->every_interleaving)
        return false;
    if (memory_share(run.running, op)) {
        run.stopped = run.stale = true;
        for (;;)
            fiber_yield();
    }
    if (!memory_is_private(run.running, op) || memory_outcomes(run.running, op, false, outcomes) != 1)
        return false;
    *outcome = outcomes[0];
    return true;
}

static bool may_write(const struct op *op)
{
    return op->kind != OP_LOAD && op->kind != OP_PAUSE;
}

static struct effect step(const struct op *op)
{
    struct outcome outcome;
    uint16_t past[EXPLORE_THREADS];
    bool at_once = is_free_to_go(op, &outcome);
    if (!at_once) {
        outcome = choose(op);
        memory_step(run.running);
    }
    if (may_write(op) && !memory_has_room(op))
        fault("more than %d writes to one location: a loop that waits without explore_pause?", MEMORY_WRITES);
    memcpy(past, memory_past(run.running), sizeof past);
    struct effect effect = memory_apply(run.running, op, outcome);
    if (!at_once)
        search_note_step(&effect, memory_past(run.running));
    if (may_write(op))
        search_note_write(op, &effect, past);
    return effect;
}

void explore_die_after(int steps)
{
    struct runner *me = &run.runners[run.running];
    me->mortal = true;
    me->left = steps;
}

static void end_thread(void)
{
    run.runners[run.running].ended = true;
    for (;;)
        fiber_yield();
}

static void live_on(void)
{
    struct runner *me = &run.runners[run.running];
    if (me->mortal && me->left-- == 0)
        end_thread();
}

static struct effect make(const struct op *op)
{
    if (run.running < 0) {
        struct effect effect = memory_alone(op);
        if (op->kind == OP_LOCK && effect.old)
            fault("a thread has ended with a lock in its hands");
        return effect;
    }
    live_on();
    struct effect effect = step(op);
    record(op, &effect);
    if (op->kind == OP_UNLOCK && effect.old != (uint64_t)run.running + 1)
        fault("thread %d drops a lock that it does not hold", run.running);
    return effect;
}

static int find(const volatile void *atom, size_t size)
{
    int location = memory_location(atom, size);
    if (location < 0) {
        fprintf(stderr, "explore: more than %d atoms; do they move from one execution to the next?\n",
                MEMORY_LOCATIONS - 1);
        exit(2);
    }
    return location;
}

static memory_order without_acquire(memory_order order)
{
    return order == memory_order_acq_rel   ? memory_order_release
           : order == memory_order_acquire ? memory_order_relaxed
                                           : order;
}

static memory_order without_release(memory_order order)
{
    return order == memory_order_acq_rel   ? memory_order_acquire
           : order == memory_order_release ? memory_order_relaxed
                                           : order;
}

/* The order of an access, as weakened. */
static memory_order order_of(memory_order order, unsigned weakened_by)
{
    if (order == memory_order_seq_cst && run.e->weaken & EXPLORE_NO_SEQ_CST_ACCESS)
        order = memory_order_acq_rel; /* of which a load takes one half, a store the other */
    return run.e->weaken & weakened_by ? memory_order_relaxed : order;
}

uint64_t explore_atom_load(const volatile void *atom, size_t size, memory_order order)
{
    struct op op = {.kind = OP_LOAD, .location = find(atom, size)};
    op.order = order_of(order, EXPLORE_RELAXED_LOADS);
    return make(&op).old;
}

void explore_atom_store(volatile void *atom, size_t size, uint64_t value, memory_order order)
{
    struct op op = {.kind = OP_STORE, .location = find(atom, size), .value = value};
    op.order = order_of(order, EXPLORE_RELAXED_STORES);
    (void)make(&op);
}

uint64_t explore_atom_swap(volatile void *atom, size_t size, uint64_t value, memory_order order)
{
    struct op op = {.kind = OP_SWAP, .location = find(atom, size), .value = value};
    op.order = order_of(order, EXPLORE_RELAXED_EXCHANGES);
    return make(&op).old;
}

uint64_t explore_atom_add(volatile void *atom, size_t size, uint64_t value, memory_order order)
{
    struct op op = {.kind = OP_ADD, .location = find(atom, size), .value = value};
    op.order = order_of(order, EXPLORE_RELAXED_EXCHANGES);
    return make(&op).old;
}

bool explore_atom_cas(volatile void *atom, size_t size, void *seen, uint64_t value, memory_order order,
                      memory_order failure, bool weak)
{
    struct op op = {.kind = OP_CAS, .location = find(atom, size), .weak = weak, .value = value};
    op.expected = memory_get(seen, size);
    op.order = order_of(order, EXPLORE_RELAXED_EXCHANGES);
    op.failure = order_of(failure, EXPLORE_RELAXED_EXCHANGES);
    struct effect effect = make(&op);
    memory_put(seen, size, effect.old);
    return effect.done;
}

bool explore_atom_cas128(volatile void *low, volatile void *high, const uint64_t expected[2],
                         const uint64_t values[2], uint64_t seen[2])
{
    struct op op = {.kind = OP_CAS, .value = values[0], .second_value = values[1]};
    op.location = find(low, sizeof(uint64_t));
    op.second = find(high, sizeof(uint64_t));
    op.expected = expected[0];
    op.second_expected = expected[1];
    op.order = op.failure = order_of(memory_order_seq_cst, EXPLORE_RELAXED_EXCHANGES);
    struct effect effect = make(&op);
    if (seen) {
        seen[0] = effect.old;
        seen[1] = effect.second;
    }
    return effect.done;
}

void explore_fence(memory_order order)
{
    unsigned weaken = run.e->weaken;
    if (order == memory_order_seq_cst && weaken & EXPLORE_NO_SEQ_CST_FENCE)
        order = memory_order_relaxed;
    if (weaken & EXPLORE_NO_ACQUIRE_FENCE)
        order = without_acquire(order);
    if (weaken & EXPLORE_NO_RELEASE_FENCE)
        order = without_release(order);
    struct op op = {.kind = OP_FENCE, .location = -1, .order = order};
    if (run.running < 0 || order == memory_order_relaxed)
        return;
    if (order == memory_order_seq_cst) {
        op.location = memory_fence_location();
        (void)make(&op);
        return;
    }
    memory_fence(run.running, order);
    record(&op, &(struct effect){.done = true});
}

void explore_lock(const void *lock)
{
    struct op op = {.kind = OP_LOCK, .location = find(lock, 0), .order = memory_order_acquire};
    (void)make(&op);
}

void explore_unlock(const void *lock)
{
    struct op op = {.kind = OP_UNLOCK, .location = find(lock, 0), .order = memory_order_release};
    (void)make(&op);
}

void explore_pause(void)
{
    struct op op = {.kind = OP_PAUSE, .location = -1};
    if (run.running >= 0)
        (void)make(&op);
}

static void touch(const void *data, bool write)
{
    if (run.running >= 0 && !memory_touch(run.running, data, write))
        fault("thread %d %s plain data in a race with another thread", run.running,
              write ? "writes" : "reads");
}

uint64_t explore_read(const uint64_t *data)
{
    touch(data, false);
    return *data;
}

void explore_write(uint64_t *data, uint64_t value)
{
    touch(data, true);
    *data = value;
}

void explore_name(const volatile void *atom, const char *name)
{
    memory_name(atom, name);
}

size_t explore_writes(const volatile void *atom, struct explore_write *writes, size_t capacity)
{
    return memory_writes(find(atom, 0), writes, capacity);
}

/* ---- one execution ---- */

static void run_thread(void)
{
    run.e->threads[run.running]();
    end_thread();
}

static void resume(int thread)
{
    run.running = thread;
    fiber_resume(thread);
    run.running = -1;
}

/* Every thread stands before its first step whose moment matters. */
static void begin(void)
{
    struct explore *e = run.e;
    run.stopped = false;
    memory_begin(run.threads, e->spurious);
    search_rewind();
    trace_clear();
    if (e->setup)
        e->setup();
    for (int i = 0; i < run.threads && !run.stopped; i++) {
        run.runners[i] = (struct runner){.ended = false};
        fiber_start(i, run_thread);
        resume(i);
    }
}

static void end(void)
{
    run.stopped = true;
    for (int i = 0; i < run.threads; i++)
        if (!run.runners[i].ended) {
            fault("deadlock: every thread that is left waits");
            return;
        }
    run.e->executions++;
    if (run.e->finish)
        run.e->finish();
}

static enum search_way next(struct option *option)
{
    const struct op *pending[EXPLORE_THREADS];
    for (int i = 0; i < run.threads; i++)
        pending[i] = run.runners[i].ended ? NULL : &run.runners[i].op;
    return search_next(pending, option);
}

static void execute(void)
{
    enum search_way way = SEARCH_ON;
    struct option option;
    begin();
    while (!run.stopped && (way = next(&option)) == SEARCH_ON) {
        run.runners[option.thread].outcome = option.outcome;
        resume(option.thread);
    }
    if (way == SEARCH_END)
        end();
    else if (way == SEARCH_LIMIT)
        fault("too many steps, or ways to make one: a loop that waits without explore_pause?");
}

/* ---- all of them ---- */

static void start_again(void)
{
    run.e->executions = run.e->paths = 0;
    run.stale = false;
    search_begin(run.threads, run.e->every_interleaving);
}

void explore_run(struct explore *e)
{
    run.e = e;
    e->fault[0] = '\0';
    run.threads = 0;
    while (run.threads < EXPLORE_THREADS && e->threads[run.threads])
        run.threads++;
    memory_forget();
    start_again();
    bool more = true;
    while (more && !e->fault[0]) {
        execute();
        if (run.stale) {
            start_again();
            continue;
        }
        e->paths++;
        more = search_turn();
        if (more && e->paths == (e->paths_max ? e->paths_max : PATHS_MAX))
            fault("gave up after %" PRIu64 " paths", e->paths);
    }
    e->complete = !more && !e->fault[0];
}

void explore_trace(FILE *file)
{
    trace_print(file);
}

bool explore_holds(struct explore *e)
{
    explore_run(e);
    if (e->complete) {
        printf("# all %" PRIu64 " executions, in %" PRIu64 " paths\n", e->executions, e->paths);
        return true;
    }
    printf("# after %" PRIu64 " executions: %s\n", e->executions, e->fault);
    trace_print(stdout);
    return false;
}

bool explore_breaks(struct explore *e)
{
    explore_run(e);
    if (e->complete)
        printf("# nothing goes wrong in all %" PRIu64 " executions\n", e->executions);
    else
        printf("# goes wrong after %" PRIu64 " executions: %s\n", e->executions, e->fault);
    return !e->complete;
}
