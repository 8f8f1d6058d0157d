/* SPDX-License-Identifier: MIT */
/*
 * A story: some small tables, and a list of operations on them with everything in them written out, so that
 * any part of the list can be told again without the rest.
 */
#ifndef WEIR_TESTS_PROPERTY_TABLE_STORY_H
#define WEIR_TESTS_PROPERTY_TABLE_STORY_H

#include <stdio.h>

#include "property/scenario.h"

#define STORY_TABLES 3
#define STORY_KEYS   200 /* of a table */
#define STORY_TEXTS  3   /* limits that a table goes through, and limits of single keys */
#define STORY_OPS    200
#define STORY_ASKS   6
#define STORY_TEXT   512

enum action_kind {
    ACTION_TAKE,
    ACTION_PEEK,
    ACTION_RESERVE,
    ACTION_CANCEL,
    ACTION_GIVE,
    ACTION_CHARGE,
    ACTION_RESET,
    ACTION_EXPLAIN,
    ACTION_EACH,     /* several takes at once, each for itself */
    ACTION_ALL,      /* all of them or none */
    ACTION_SET,      /* live change */
    ACTION_SET_HALF, /* one whose caller is killed when it counts, but before keys are converted */
    ACTION_OVERRIDE,
    ACTION_RESTORE, /* the table's own limits again */
    ACTION_SWEEP,
    ACTION_GROW,
    ACTION_LIST
};

struct table_ask {
    uint32_t table, key;
    int64_t n;
};

struct story_action {
    enum action_kind kind;
    uint32_t id, ref; /* ref: the id of the reserve; the number of the text; how many slots or keys */
    int64_t at, timeout;
    size_t count;
    struct table_ask asks[STORY_ASKS]; /* the first: of all kinds */
};

struct table_plan {
    char texts[STORY_TEXTS][STORY_TEXT];
    size_t keys;     /* that ask */
    size_t capacity; /* keys it is made for */
    size_t key_max, overrides;
    bool refuse;
    int64_t offset; /* region time - time */
};

struct table_story {
    struct table_plan plans[STORY_TABLES];
    size_t table_count;
    char own[STORY_TEXTS][STORY_TEXT];
    int64_t start;
    struct story_action ops[STORY_OPS];
    size_t count;
};

/* `algos`: of the first table's limits; none: any. */
void story_build(struct table_story *story, const int32_t *algos, size_t count, struct dice *dice);
void story_print(const struct table_story *story, FILE *out);

struct world;
/* An operation that suits the world as it is. */
struct story_action story_roll(const struct world *world, uint32_t id, struct dice *dice);

#endif
