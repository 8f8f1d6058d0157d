/* SPDX-License-Identifier: MIT */
#define _POSIX_C_SOURCE 200809L
#include "table/history.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "table/change.h"

bool weir_history_begin(struct weir_table *table)
{
    table->history = calloc(1, sizeof *table->history);
    return table->history != NULL;
}

static void past_limits_free(struct past_limits *past)
{
    while (past) {
        struct past_limits *older = past->older;
        free(past->text);
        free(past);
        past = older;
    }
}

void weir_history_free(struct weir_table *table)
{
    if (!table->history)
        return;
    past_limits_free(table->history->latest);
    free(table->history->announced);
    free(table->history);
}

/* Those of that generation and later, which did not come about. */
static void drop_generations(struct limits_history *history, uint64_t generation)
{
    while (history->latest && history->latest->generation >= generation) {
        struct past_limits *gone = history->latest;
        history->latest = gone->older;
        history->count--;
        gone->older = NULL;
        past_limits_free(gone);
    }
}

void weir_history_clear(struct weir_table *table)
{
    drop_generations(table->history, 0);
}

static void request_image(const struct weir_table *table)
{
    const struct persist *persist = table->region->persist;
    if (persist && persist->want_image)
        persist->want_image(persist->store);
}

bool weir_history_add(struct weir_table *table, uint64_t generation, const char *text, int64_t time,
                      struct weir_error *err)
{
    struct limits_history *history = table->history;
    struct past_limits *next = malloc(sizeof *next);
    char *copy = strdup(text);
    if (!next || !copy) {
        free(next);
        free(copy);
        weir_error_set(err, ENOMEM, "out of memory");
        return false;
    }
    lock_take(&table->region->ready);
    drop_generations(history, generation);
    size_t count = history->count;
    if (count < HISTORY_MOST) {
        *next = (struct past_limits){generation, time, copy, history->latest};
        history->latest = next;
        history->count++;
    }
    lock_drop(&table->region->ready);
    if (count >= HISTORY_CROWDED)
        request_image(table);
    if (count < HISTORY_MOST)
        return true;
    free(next);
    free(copy);
    weir_error_set(
        err, EAGAIN,
        "the limits were changed too often since the oldest image that the store keeps: wait for the next");
    return false;
}

void weir_history_set_time(struct weir_table *table, uint64_t generation, int64_t time)
{
    lock_take(&table->region->ready);
    for (struct past_limits *past = table->history->latest; past; past = past->older)
        if (past->generation == generation)
            past->time = time;
    if (table->history->latest && table->history->latest->generation == generation) {
        free(table->history->announced); /* it has come */
        table->history->announced = NULL;
    }
    lock_drop(&table->region->ready);
}

/* ---- what the store's owner calls ---- */

uint64_t weir_table_generation(const struct weir_table *table)
{
    return atom_load(&table->region->header->generation, memory_order_seq_cst);
}

bool weir_table_announce(struct weir_table *table, const char *limits, struct weir_error *err)
{
    weir_error_clear(err);
    if (!table->history || table->kind == &weir_table_own)
        return true;
    struct edition *next = limits ? weir_edition_new(limits, 0, 0, err) : NULL;
    if (limits && !next)
        return false;
    char *text = next ? next->text : NULL;
    if (next)
        next->text = NULL;
    weir_edition_free(next);
    lock_take(&table->region->ready);
    char *before = table->history->announced;
    table->history->announced = text;
    lock_drop(&table->region->ready);
    free(before);
    return true;
}

/* An image that is begun while a change goes on has states of the generation before. */
void weir_table_history_forget(struct weir_table *table, uint64_t generation)
{
    struct past_limits *rest = NULL;
    if (!table->history)
        return;
    lock_take(&table->region->ready);
    struct past_limits *past = table->history->latest;
    size_t kept = 1;
    while (past && past->generation >= generation) {
        past = past->older;
        kept++;
    }
    if (past && past->older) {
        rest = past->older;
        past->older = NULL;
        table->history->count = kept;
    }
    lock_drop(&table->region->ready);
    past_limits_free(rest);
}
