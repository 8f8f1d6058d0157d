/* SPDX-License-Identifier: MIT */
/*
 * What a table has to say of one key, by the slow exact model, and the law of that key alone.
 *
 * A state that is one word of a table knows a little less than a state of the core. Of a promise only the
 * place is known at which it left the limit: so it is outstanding until the time has come there, and it is
 * undone if the limit still stands there, else nothing comes back. And a debt that a word cannot hold has no
 * end.
 */
#ifndef WEIR_TESTS_PROPERTY_TABLE_CELL_H
#define WEIR_TESTS_PROPERTY_TABLE_CELL_H

#include "core/state.h"
#include "model/law.h"

#define CELL_WORDS 320 /* of the largest state */

struct cell {
    bool present;                     /* it has a place of its own in the table */
    bool word;                        /* its state is a word: of a table of words, under the table's limits */
    bool flagged;                     /* a word says that a promise is outstanding */
    int64_t due;                      /* the latest time for which something was promised, or passed */
    bool came;                        /* in this operation, */
    bool held;                        /* which decides on several */
    bool shared;                      /* it began with what keys without room had left */
    bool took;                        /* from that, since it was last as if never used */
    uint32_t life;                    /* how often it was forgotten, */
    uint32_t era;                     /* or was reset, or got other limits than the table's, or these again */
    const struct weir_policy *policy; /* in force */
    struct weir_policy *own;          /* the same, if they are its own; else NULL */
    struct model_policy model;        /* of one that is present */
    int64_t words[CELL_WORDS];        /* its state as the core has it, as of now, */
    int64_t before[CELL_WORDS];       /* and as of before the last operation */
    bool logged;                      /* the law has begun */
    uint32_t log_number;              /* how often it has */
    struct law_log law;
};

struct cell_promise {
    bool word;
    uint64_t generation; /* of the table's limits */
    weir_i128 position;  /* where it left the limit */
    int64_t empty;       /* several limits: no bucket was empty later than that, when it was made */
    struct model_promise parts[MODEL_LIMITS];
};

/* Idle for ever, as of a time. */
void cell_begin(struct cell *cell, const struct weir_policy *policy, bool word, int64_t now);
void cell_copy(struct cell *cell, const struct cell *from);
void cell_end(struct cell *cell); /* frees the model */

/* The verbs. `generation` is that of the table's limits. */
bool cell_reserve(struct cell *cell, int64_t now, int64_t n, int64_t timeout, uint64_t generation,
                  struct cell_promise *promise, struct weir_verdict *verdict);
bool cell_peek(struct cell *cell, int64_t now, int64_t n, struct weir_verdict *verdict);
bool cell_cancel(struct cell *cell, int64_t now, uint64_t generation, struct cell_promise *promise);
void cell_give(struct cell *cell, int64_t now, int64_t n);
void cell_charge(struct cell *cell, int64_t now, int64_t n);
void cell_reset(struct cell *cell, int64_t now);

/* Live change, which a word goes through as a word. */
void cell_change(struct cell *cell, const struct weir_policy *next, int64_t now);
/* It gets limits of its own, which it then owns; or, NULL, those of the table again. */
void cell_override(struct cell *cell, struct weir_policy *own, const struct weir_policy *table, bool word,
                   int64_t now);

/* The first time from which on it is as if never used; WEIR_FOREVER: never. */
int64_t cell_idle_from(const struct cell *cell);
bool cell_is_idle(const struct cell *cell, int64_t since);
/* Where a word stands: the index of the core. */
weir_i128 cell_position(const struct cell *cell);
/* Is this what the model says of each limit? */
bool cell_explains(const struct cell *cell, int64_t now, const struct weir_limit_state *limits);
/* Are `words` those of the model, as far as it has such? Models of doubles take them over. */
bool cell_adopt(struct cell *cell);

/* ---- the law ---- */

void cell_log_begin(struct cell *cell, const struct weir_policy *policy, int64_t now);
/* Every limit whose words have changed since `before` has seen this time. */
void cell_log_touch(struct cell *cell, int64_t now);
/* All limits have. */
void cell_log_see(struct cell *cell, int64_t now);
bool cell_log_holds(const struct cell *cell, struct law_fault *fault);

#endif
