/* SPDX-License-Identifier: MIT */
/*
 * Threads that take turns by hand: each has a stack of its own and runs until it yields. The explorer starts
 * and abandons them a million times, so a switch has to cost nanoseconds and no system call.
 */
#ifndef WEIR_TESTS_EXPLORE_FIBER_H
#define WEIR_TESTS_EXPLORE_FIBER_H

enum { FIBERS = 4 };

/* Prepares fiber `index` to begin with `run`, whatever it was doing; `run` must end in a yield. */
void fiber_start(int index, void (*run)(void));
/* Runs it until it yields. */
void fiber_resume(int index);
/* Back to whoever resumed the running fiber. */
void fiber_yield(void);

#endif
