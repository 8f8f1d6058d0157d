/* SPDX-License-Identifier: MIT */
/*
 * A process that is killed at every instruction of an operation, one after the other. A first child is led
 * through the operation step by step, to learn its way; from then on each child runs freely to a breakpoint
 * at the instruction whose turn it is, and is killed there. So it takes time for each instruction once, not
 * for each pair of them: some ten thousand a second.
 *
 * What the operation works on lies in memory that both processes share. It runs once in this process before,
 * so that no child has to bind symbols.
 */
#ifndef WEIR_TESTS_THREADS_STEP_H
#define WEIR_TESTS_THREADS_STEP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Makes everything as it was, whatever the last child left. In this process, before each child. */
typedef void step_setup(void *arg);
/* In the child; takes the same way each time. */
typedef void step_operation(void *arg);
/* In this process, after `step` instructions and the kill. whole: the operation came to its end; else it may
 * have, too. */
typedef void step_check(void *arg, uint64_t step, bool whole);

/*
 * Every `stride`-th instruction and the end. Gives how many instructions there are; 0: this cannot be done
 * here, for no process may be led, or it is the wrong machine, and nothing was checked.
 */
uint64_t step_kill(step_setup *setup, step_operation *operation, step_check *check, void *arg,
                   uint64_t stride);

/* In this process, after each instruction of the child. */
typedef bool step_there(void *arg);

/* The same where it matters most: at the start, and at up to about `kills` of the instructions after which
 * `changed` says that something is different from what it was when it was asked last. They are spread evenly;
 * `first` says where they begin. */
uint64_t step_kill_some(step_setup *setup, step_operation *operation, step_check *check, step_there *changed,
                        void *arg, uint64_t kills, uint64_t first);

/* Leads a child to where `there` says so, and leaves it stopped there, as by SIGSTOP. 0: it never came there.
 * -1: this cannot be done here. */
pid_t step_stop(step_operation *operation, step_there *there, void *arg);

#endif
