/* SPDX-License-Identifier: MIT */
/*
 * A limiter: one state that any number of threads decide on.
 *
 * The state of a limit that one word can hold lives in `word` and needs no lock. Any other state (two words
 * or more, several limits) lives in `state`, in the form of the core, under `lock`; then the word is held for
 * good, which sends every question here. A live change may go from one to the other. A limiter of a fleet has
 * a balance instead (limiter/balance.h), for good; its verbs are in limiter/balance_limiter.h.
 *
 * Who waits has a promise: acquire reserves, and sleeps until it is due. Waiters stand in a list in the order
 * of their promises, so that a live change can make them earlier, and a stop or the end of the limiter can
 * wake them. Everything but the word, the listeners and the counters is under `lock`; no callback runs under
 * it.
 */
#ifndef WEIR_LIMITER_LIMITER_H
#define WEIR_LIMITER_LIMITER_H

#include "limiter/listeners.h"
#include "limiter/word.h"
#include "os/lock.h"

#define UNDO_WORDS 16 /* states up to this size can be put back exactly */

/* A state as it was before a promise, to be put back if nothing has happened since. (The word needs none: the
 * core's cancel puts the last promise back exactly.) */
struct undo {
    bool kept;
    uint64_t before, after; /* marks of the state */
    int64_t n, due_ns;
    int64_t state[UNDO_WORDS];
};

/* A thread in acquire; lives on its stack. */
struct limiter_waiter {
    struct limiter_waiter *next, *prev;
    int64_t n, due_ns;      /* WEIR_FOREVER: no promise, it waits for a pause to end */
    bool moved;             /* it has another time, and is to be woken */
    bool refused;           /* a change has made it impossible */
    _Atomic uint32_t *word; /* it sleeps on: `own`, or the word of its weir_stop */
    _Atomic uint32_t own;
    struct promise {
        struct weir_reservation reservation;
        struct undo undo;
    } promise, plan; /* what it has; what a live change may offer */
};

struct filler;
struct lease_balance;

struct weir_limiter {
    struct state_word word;

    /* Read by every take, written hardly ever. */
    _Alignas(64) struct listeners listeners;
    struct lease_balance *balance; /* where its units are, or NULL; another one only in a forked child */
    atom64 handle_generation;      /* handles of another one have lost their share */

    _Alignas(64) struct lock lock;
    const struct limit *alone;  /* the one limit of `state`, if it can be asked without ceremony */
    struct weir_policy *said;   /* what was set */
    struct weir_policy *policy; /* what is in force: the same, or with a burst that is lower by `held` */
    int64_t *state;             /* or NULL: it is in the word */
    uint64_t mark, marks;       /* a number for what `state` is now; how many were given out */
    struct undo undo;           /* of the last promise made to a caller, in `state` */
    struct limiter_waiter *first, *last;
    int64_t waiting, processors;
    int64_t handles, held;
    bool paused;           /* `blocked` was set: nothing passes, and policy and state are kept as they were */
    int64_t behind_before; /* total of hybrid limits that were replaced by another algorithm */
    bool ending;           /* nobody holds it any more: the last waiter frees it */
    atom64 holders;
    char *name;
    struct filler *filler;
    struct weir_limiter *next, *prev; /* of all limiters: see life.c */
#if WEIR_ASSERTIONS
    uint64_t opened, opened_mark; /* a checksum of `state` and its mark when it was opened */
#endif
};

/* ---- under the lock ---- */

/* The time as of which a question is answered: that of the filler thread, if there is one. */
int64_t weir_limiter_time(const struct weir_limiter *limiter, int64_t now);

/* The state in the form of the core, wherever it is kept; `word` has room for it. And back again. */
int64_t *weir_limiter_open(struct weir_limiter *limiter, int64_t *word);
void weir_limiter_close(struct weir_limiter *limiter, const int64_t *state, bool changed);

/* reserve and cancel wherever the state is. */
bool weir_limiter_promise(struct weir_limiter *limiter, int64_t now, int64_t n, int64_t timeout_ns,
                          struct weir_reservation *reservation, struct undo *undo,
                          struct weir_verdict *verdict);
bool weir_limiter_recall(struct weir_limiter *limiter, int64_t now, struct weir_reservation *reservation,
                         struct undo *undo);

/* To be called whenever policy, state or filler are others. */
void weir_limiter_note_alone(struct weir_limiter *limiter);

/* ---- parts ---- */

/* A take that the word could not answer, without a word to the listeners. */
bool weir_limiter_ask(struct weir_limiter *limiter, int64_t now, int64_t n, struct weir_verdict *verdict);

#endif
