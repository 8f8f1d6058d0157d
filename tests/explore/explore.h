/* SPDX-License-Identifier: MIT */
/*
 * Runs a small concurrent program under every order of its steps and every weak behaviour that C11 atomics
 * and fences of any order allow, and checks each end. What is found is found every time.
 *
 * A scenario is some functions over atoms in static memory:
 *
 *     static atom64 data, flag;
 *     static void setup(void) { atom_store(&data, 0, memory_order_relaxed); ... }
 *     static void writer(void) { ... }
 *     static void reader(void) { EXPLORE_CHECK(...); }
 *     static void finish(void) { EXPLORE_CHECK(...); }
 *
 *     TEST(the_flag_guards_the_data)
 *     {
 *         struct explore e = {.setup = setup, .threads = {writer, reader}, .finish = finish};
 *         CHECK(explore_holds(&e));
 *     }
 *
 * The functions use os/atomic.h and os/lock.h. With tests/explore in front of src on the include path,
 * <stdatomic.h> and os/lock.h are the explorer's, and code of the library that is included as source runs as
 * it is. Every such call is a step; what lies between two steps belongs to the thread alone. So a thread must
 * not touch what others write, except through atoms, under a lock, or by explore_read and explore_write,
 * which notice a race. Results go into variables of its own, which setup clears and finish reads. All memory
 * has to stay at the same place from one execution to the next: setup writes it anew but must not allocate
 * it.
 *
 * Executions are counted once each: two orders of steps in which every load reads the same write, and the
 * writes of each atom come in the same order, are one execution.
 */
#ifndef WEIR_TESTS_EXPLORE_H
#define WEIR_TESTS_EXPLORE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { EXPLORE_THREADS = 4 };

/* What to leave out of the code under test, to show that it is needed. */
enum explore_weaken {
    EXPLORE_NO_ACQUIRE_FENCE = 1,
    EXPLORE_NO_RELEASE_FENCE = 2,
    EXPLORE_NO_SEQ_CST_FENCE = 4,
    EXPLORE_RELAXED_LOADS = 8,
    EXPLORE_RELAXED_STORES = 16,
    EXPLORE_RELAXED_EXCHANGES = 32, /* swap, add and cas, also one that fails */
    EXPLORE_NO_SEQ_CST_ACCESS = 64  /* acquire and release are left */
};

struct explore {
    void (*setup)(void); /* or NULL */
    void (*threads[EXPLORE_THREADS])(void);
    void (*finish)(void); /* or NULL; after all threads have ended */

    unsigned weaken;         /* enum explore_weaken, or'ed */
    int spurious;            /* how often a cas of each thread may fail for no reason */
    bool every_interleaving; /* count and run orders of steps, however alike: tests of the explorer itself */
    uint64_t paths_max;      /* the search gives up after so many; 0: 10 million */

    /* what came of it */
    uint64_t executions; /* that came to their end */
    uint64_t paths;      /* the same, and those that were left because all that could follow was known */
    bool complete;       /* nothing is left to explore */
    char fault[300];     /* "" if nothing went wrong */
};

/* Runs all executions. The first fault ends it; explore_trace then tells how it came about. */
void explore_run(struct explore *e);
void explore_trace(FILE *file);

/* Runs them and says on stdout how many there were. true: all of them, without a fault; else the trace
 * follows. */
bool explore_holds(struct explore *e);
/* true: there is an execution with a fault. */
bool explore_breaks(struct explore *e);

/* ---- in a scenario ---- */

#define EXPLORE_CHECK(COND) explore_check((COND), #COND, __FILE__, __LINE__)
void explore_check(bool holds, const char *text, const char *file, int line);

/* The number of the running thread, from 0. */
int explore_thread(void);

/* The running thread makes so many steps more and is killed before the next one. */
void explore_die_after(int steps);

/* A name for the trace; to be called in setup. */
void explore_name(const volatile void *atom, const char *name);

/* The writes of an atom in their order, without the one of setup; for finish. Gives their number. */
struct explore_write {
    int thread;
    uint64_t value;
};
size_t explore_writes(const volatile void *atom, struct explore_write *writes, size_t capacity);

/* Plain data that threads share. Two accesses, one of them a write, with nothing that orders them, are a
 * fault. */
uint64_t explore_read(const uint64_t *data);
void explore_write(uint64_t *data, uint64_t value);

/* In a loop that waits: goes on when another value may be seen than those read since the last pause. A loop
 * that waits without it reads the old value for ever. */
void explore_pause(void);

/* Locks, as os/lock.h has them: a thread waits until the lock is free. */
void explore_lock(const void *lock);
void explore_unlock(const void *lock);

#endif
