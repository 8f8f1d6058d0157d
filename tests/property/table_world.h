/* SPDX-License-Identifier: MIT */
/*
 * Tells a story to tables of the library and to models of their keys, side by side. After every operation
 *
 *   every verdict is the model's, in every field, of every key that was asked
 *   a key that has gone was as if never used for as long as tables wait, and nothing else has gone
 *   a key that found no room shares, or was refused, and then the table was full of keys in use
 *   the floor is where forgetting has put it
 *   the words of a state are the model's, as far as it has such
 *
 * and at the end each key has kept the law over all intervals, however often it was forgotten, shared what
 * others had left or changed its limits.
 */
#ifndef WEIR_TESTS_PROPERTY_TABLE_WORLD_H
#define WEIR_TESTS_PROPERTY_TABLE_WORLD_H

#include "property/table_cell.h"
#include "property/table_story.h"
#include "table/table.h"

struct site { /* a table, and what is known of it */
    struct weir_table *table;
    const struct table_plan *plan;
    const struct weir_policy *policy; /* its limits */
    bool words;
    uint64_t generation;
    uint32_t text; /* which of the plan's */
    int64_t floor, changed;
    bool half; /* the last change has not gone through all keys */
    size_t override_count, capacity, grown;
    size_t came; /* keys, in this operation */
    struct cell *cells;
    struct cell *shared; /* what keys without room share; present: in use */
};

struct world_held {
    uint32_t id, table, key, life, era, log_number;
    bool passed;  /* its time has come, on some clock */
    size_t event; /* in the log */
    struct weir_reservation reservation;
    struct cell_promise promise;
};

struct world {
    const struct table_story *story;
    struct site sites[STORY_TABLES];
    struct world_held held[STORY_OPS];
    size_t held_count;
    int64_t at;               /* of the last operation */
    struct weir_verdict last; /* what was said last, */
    int64_t retry_ns;         /* and the last time to wait */
    uint64_t decisions;
    char fault[600];
};

struct world *world_new(void);
void world_free(struct world *world);

bool world_begin(struct world *world, const struct table_story *story);
bool world_do(struct world *world, const struct story_action *op);
bool world_finish(struct world *world);
void world_end(struct world *world);

/* ---- table_world.c, for the other parts ---- */

__attribute__((format(printf, 2, 3))) bool world_fail(struct world *world, const char *format, ...);
bool world_agrees(struct world *world, const char *verb, const struct cell *cell, int64_t now,
                  const struct weir_verdict *got, const struct weir_verdict *want);

size_t world_key(const struct site *site, uint32_t key, char *bytes); /* gives the length */
int64_t world_time(const struct site *site, int64_t at);              /* region time */
/* The same for operations: those of wide states are not done before the floor. */
int64_t world_action_time(const struct site *site, int64_t at);
/* As of when a key that is not there is decided on. */
int64_t world_floor(const struct site *site, int64_t now);
/* Somebody was forgotten. */
void world_raise_floor(struct site *site, int64_t now);

/* May it be forgotten? Not while an operation holds it. */
bool world_may_go(const struct cell *cell, int64_t now);
/* Is there a place that no key in use has? */
bool world_has_room(const struct site *site, int64_t now);
/* What wide states share is forgotten, if it may be, as soon as somebody looks at it. */
void world_look_shared(struct site *site, int64_t now);
/* It is as if never used: who has taken from it does not matter any more. */
void world_clear_overflow_filter(struct site *site);
/* A refusal by what keys share says so. Gives `yes`. */
bool world_says_shared(bool yes, struct weir_verdict *verdict);
/* The cell of a key that is not there becomes what it would start from. */
void world_start(struct site *site, struct cell *cell, int64_t now);
/* It comes in so. */
void world_insert(struct site *site, struct cell *cell, int64_t now);
/* What keys share, in use from now on. */
struct cell *world_share(struct site *site, int64_t now);

/* A log that is full begins anew; its limits have seen what they have. */
bool world_log_room(struct world *world, struct cell *cell);
bool world_make_room(struct world *world, struct site *site, struct cell *cell); /* and in the shared one's */
/* If it has not begun. */
void world_log_begin(struct site *site, struct cell *cell, int64_t now);
/* n units passed; `from`: what they were taken from, the key's own state or the shared one. */
void world_admit(struct site *site, struct cell *cell, const struct cell *from, int64_t now, int64_t due,
                 int64_t n);

/* ---- table_actions.c ---- */

bool world_action(struct world *world, const struct story_action *op);
/* What the model says of a key, wherever it is. */
bool world_peek(struct site *site, uint32_t key, int64_t now, int64_t n, struct weir_verdict *verdict);
/* One take of several, after the library has made it. */
bool world_took(struct world *world, const struct table_ask *ask, int64_t at, bool got,
                const struct weir_verdict *verdict);
/* The promise of this operation, once models of doubles have taken over what the words say. */
void world_mark_again(struct world *world, const struct story_action *op);

/* ---- table_whole.c, table_all.c ---- */

bool world_whole(struct world *world, const struct story_action *op);
bool world_each(struct world *world, const struct story_action *op);
bool world_all(struct world *world, const struct story_action *op);

#endif
