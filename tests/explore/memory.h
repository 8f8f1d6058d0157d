/* SPDX-License-Identifier: MIT */
/*
 * The memory that the explored threads share, as RC11 (the repaired C11 model) has it, told as a machine.
 *
 * Each location keeps all its writes, in modification order. A view names one write of each location: the
 * oldest that may still be seen. A thread has three: `now`, what binds its loads; `acquired`, what it would
 * know after an acquire fence; `released`, what it knew at its last release fence. Each write carries the
 * view that whoever acquires it gets. A load may read any write that is not older than `now`; a store may go
 * anywhere behind `now` in the order, except between an exchange and the write it replaced; an exchange comes
 * right behind the write it reads. An exchange of two words is one step that does so in both their locations,
 * and hands on one view. A fence that is seq_cst is moreover an exchange of one hidden location, so these
 * fences have one order.
 *
 * Accesses that are seq_cst have one order, too, which agrees with happens-before, and on each location with
 * what they read and write there. It is not the order of the steps: around such an access others can be late
 * or early, as on ARM. So it is known only in part: a view also names, of each location, the latest seq_cst
 * write that comes before. No seq_cst access may read or go behind an older one than that. What comes before
 * a write may grow after its step, when a later step reads what it has replaced.
 *
 * What this leaves out is, first, load buffering, where a load reads a write that is still to come: RC11
 * forbids it, and so do compilers and processors as long as the write depends on the load, as it does in
 * exchanges that are made of what was read before. Second, orders of seq_cst fences that contradict the order
 * in which relaxed loads read: C11 allows a few of them, no processor does. Third, orders of seq_cst accesses
 * that contradict happens-before: RC11 allows a few for the sake of Power, x86 and ARM have none. What it has
 * too much: seq_cst fences and seq_cst accesses know nothing of each other. A relaxed store ends the release
 * sequence of an earlier store of its thread, as in C++20, although C17 promises more.
 */
#ifndef WEIR_TESTS_EXPLORE_MEMORY_H
#define WEIR_TESTS_EXPLORE_MEMORY_H

#include "explore/explore.h"

enum { MEMORY_LOCATIONS = 48, MEMORY_WRITES = 64, MEMORY_OUTCOMES = 2 * MEMORY_WRITES };

enum op_kind { OP_LOAD, OP_STORE, OP_SWAP, OP_ADD, OP_CAS, OP_FENCE, OP_LOCK, OP_UNLOCK, OP_PAUSE };

struct op {
    enum op_kind kind;
    int location; /* -1: none */
    int second;   /* of a cas of two words: where the other one is; 0: it has one */
    memory_order order, failure;
    bool weak; /* a cas that may fail for no reason */
    uint64_t value, expected;
    uint64_t second_value, second_expected;
};

/* One of the ways in which a step can go. */
struct outcome {
    uint8_t write;  /* the write it reads, or comes behind; of a pause, the location that has news */
    bool fails;     /* a cas */
    uint8_t second; /* the same as `write`, of the second location */
};

struct effect {
    uint64_t old;     /* what was read, */
    uint64_t second;  /* and of the second word */
    bool done;        /* false: a cas that failed */
    bool inside;      /* the write did not become the last one */
    int from;         /* the thread that wrote what was read; -1: setup */
    uint8_t read;     /* the write that was read, or that the new one stands behind, */
    uint8_t read_too; /* and of the second word */
    int wrote;        /* the new write; -1: none */
    uint64_t watched; /* of a pause: the locations it looked at, as bits */
};

/* Forgets all locations; for a new scenario. */
void memory_forget(void);
/* Everything as before setup, for the next execution. */
void memory_begin(int threads, int spurious);
/* Finds the location of an atom, or makes it; size 0: that of a lock, or as it is known. -1: there are too
 * many. */
int memory_location(const volatile void *atom, size_t size);
void memory_name(const volatile void *atom, const char *name);
const char *memory_location_name(int location);

/* A number of 1, 4 or 8 bytes; 0 if there are none. */
uint64_t memory_get(const volatile void *from, size_t size);
void memory_put(void *to, size_t size, uint64_t value);

/* The ways in which the next step of a thread can go: none if it has to wait. With `all`, also those that can
 * lead to nothing new: of two writes of one value, a load may skip the one that tells more. */
int memory_outcomes(int thread, const struct op *op, bool all, struct outcome *outcomes);
struct effect memory_apply(int thread, const struct op *op, struct outcome outcome);
/* Fences that concern the thread alone. */
void memory_fence(int thread, memory_order order);
/* The location that fences with seq_cst exchange. */
int memory_fence_location(void);
/* A step while no threads run: in setup and in finish. */
struct effect memory_alone(const struct op *op);

/* Is there room for another write? */
bool memory_has_room(const struct op *op);

/* Notes who uses a location. true: others who use it, too, may have relied on being alone. */
bool memory_share(int thread, const struct op *op);
/* The moment of this step does not matter: no other thread writes there. (Who reads what it writes may still
 * read what was there before.) */
bool memory_is_private(int thread, const struct op *op);

/* The thread begins a step that others may notice. */
void memory_step(int thread);
/* How many steps of each thread the thread depends on, by program order and by what it has read. */
const uint16_t *memory_past(int thread);

/* The same of a write. */
const uint16_t *memory_write_past(int location, uint8_t write);

/* Whoever has read this write would learn nothing from the one that was made last. */
bool memory_is_no_news(int location, uint8_t read);

size_t memory_writes(int location, struct explore_write *writes, size_t capacity);

/* An access to plain data. false: it races with another one. */
bool memory_touch(int thread, const void *data, bool write);

#endif
