/* SPDX-License-Identifier: MIT */
/*
 * Which execution comes next. An execution is a path of steps, each an option of the state before it: a
 * thread, and a way in which its step can go. Paths are tried depth first, and each execution is to be met
 * once, although its steps can be made in many orders. So a state is not left by all its options, but by
 * those of one thread at first.
 *
 * What this can miss is a load that might have read a write which came only later on the path. Such a pair is
 * a race, unless the write could not have come before the load anyway, because it depends on it by program
 * order and reads. For each race the state before the load is told to try the thread with which the way to
 * the write begins, too. (Writes that come before a load need not be tried behind it: it may still read older
 * ones. And where a store goes among the writes of others is an option of the later one.) An exchange is
 * both, a load and a write.
 *
 * The other way round, an option all of whose continuations are known already falls asleep: it is not tried
 * again in the states that follow until a step changes what it would do. A path on which everything is asleep
 * is left.
 *
 * This is source-DPOR with sleep sets (Abdulla and others, Optimal Dynamic Partial Order Reduction), for
 * options that include what is read. tests/explore/test_axioms.c holds it against the axioms of the memory
 * model.
 */
#ifndef WEIR_TESTS_EXPLORE_SEARCH_H
#define WEIR_TESTS_EXPLORE_SEARCH_H

#include "explore/memory.h"

struct option {
    int thread;
    struct outcome outcome;
};

enum search_way {
    SEARCH_ON,    /* the path goes on */
    SEARCH_END,   /* no thread can make a step */
    SEARCH_KNOWN, /* all that can follow is known */
    SEARCH_LIMIT  /* the path is too long, or there are too many options */
};

/* `all`: tries every order of the steps, and every option. */
void search_begin(int threads, bool all);
/* To the start of the path. */
void search_rewind(void);
/* The option to take now. pending[i] is the next step of thread i, NULL if it has none. */
enum search_way search_next(const struct op *const *pending, struct option *option);
/* What became of the step that was taken last. `past`: as memory_past has it. */
void search_note_step(const struct effect *effect, const uint16_t *past);
/* Then: a write was made in it, or could have been, by a cas that failed. `past`: before that write. */
void search_note_write(const struct op *op, const struct effect *effect, const uint16_t *past);
/* To the next path. false: there is none. */
bool search_turn(void);

#endif
