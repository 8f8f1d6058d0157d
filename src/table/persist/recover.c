/* SPDX-License-Identifier: MIT */
/*
 * What recovery knows of a table while its records come in, in any order: the number of what is in each slot,
 * the limits that records may be of, keys with limits of their own.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "os/mapping.h"
#include "table/change.h"
#include "table/history.h"
#include "table/persist/records_wide.h"
#include "table/persist/recover.h"
#include "table/persist/recover_words.h"

static uint64_t numbers_size(const struct weir_table *table, uint64_t segment)
{
    const struct region *region = table->region;
    return region->segments[segment].lines * region->shape.line_slots * sizeof(uint64_t);
}

/* Limits that were announced, and never came. */
static void drop_announced(struct table_recovery *recovery, uint64_t latest)
{
    while (recovery->newest && recovery->newest->generation > latest) {
        struct edition *gone = recovery->newest;
        recovery->newest = gone->older;
        gone->older = NULL;
        weir_edition_free(gone);
    }
}

static void free_table_recovery(struct weir_table *table)
{
    struct table_recovery *recovery = table->recovery;
    const struct edition *latest = atomic_load_explicit(&table->edition, memory_order_relaxed);
    drop_announced(recovery, latest ? latest->generation : 0);
    for (uint64_t s = 0; s < REGION_SEGMENTS; s++)
        if (recovery->numbers[s])
            weir_memory_unmap(recovery->numbers[s], numbers_size(table, s));
    for (size_t i = 0; i < recovery->override_count; i++)
        free(recovery->overrides[i].body);
    free(recovery->overrides);
    free(recovery->gone);
    free(recovery->pieces);
    free(recovery);
    table->recovery = NULL;
}

struct table_recovery *weir_recovery_of(struct weir_table *table)
{
    if (table->recovery)
        return table->recovery;
    struct table_recovery *recovery = calloc(1, sizeof *recovery);
    if (!recovery)
        return NULL;
    recovery->newest = atomic_load_explicit(&table->edition, memory_order_relaxed);
    recovery->generation = weir_table_generation(table);
    table->recovery = recovery;
    table->free_recovery = free_table_recovery;
    return recovery;
}

#define ORPHANS_MOST 256 /* changes of limits in a row whose catalogues are all lost */

/* The catalogue was lost, and what was captured under it was not. */
static void note_orphan(struct table_recovery *recovery, uint16_t generation)
{
    int16_t ahead = (int16_t)(uint16_t)(generation - (uint16_t)recovery->newest->generation);
    uint64_t orphan = recovery->newest->generation + (uint64_t)max64(ahead, 0);
    if (ahead > 0 && ahead <= ORPHANS_MOST && orphan > recovery->orphan)
        recovery->orphan = orphan;
}

const struct edition *weir_edition_of_number(const struct edition *edition, uint64_t number)
{
    while (edition && (uint16_t)edition->generation != record_generation(number))
        edition = edition->older;
    return edition;
}

const struct edition *weir_recovery_edition(struct weir_table *table, uint64_t number)
{
    struct table_recovery *recovery = table->recovery;
    const struct edition *edition = weir_edition_of_number(recovery->newest, number);
    if (edition && edition->generation > recovery->generation)
        recovery->generation = edition->generation;
    if (!edition && recovery->newest)
        note_orphan(recovery, record_generation(number));
    return edition;
}

uint64_t *weir_recovery_numbers(struct weir_table *table, uint64_t segment)
{
    uint64_t **numbers = &table->recovery->numbers[segment];
    unsigned char *memory;
    bool huge; /* pages: they are read and written in any order */
    if (!*numbers && weir_memory_map(numbers_size(table, segment), &memory, &huge) == 0)
        *numbers = (uint64_t *)(void *)memory;
    return *numbers;
}

bool weir_recovery_grow(struct weir_table *table)
{
    uint64_t capacity = atom_load(&table->region->header->capacity, memory_order_relaxed);
    return weir_table_grow(table, 2 * capacity, NULL);
}

bool weir_recovery_override(struct table_recovery *recovery, const struct override_record *own, size_t len,
                            uint64_t *at)
{
    if (*at == UINT64_MAX) {
        if (recovery->override_count == recovery->override_room) {
            size_t room = recovery->override_room > 0 ? 2 * recovery->override_room : 64;
            struct override_record *overrides = realloc(recovery->overrides, room * sizeof *overrides);
            if (!overrides)
                return false;
            recovery->overrides = overrides;
            recovery->override_room = room;
        }
        recovery->overrides[recovery->override_count] = (struct override_record){.slot = NULL};
        *at = recovery->override_count++;
    }
    unsigned char *copy = malloc(len);
    struct override_record *place = &recovery->overrides[*at];
    if (!copy)
        return false;
    memcpy(copy, own->body, len);
    free(place->body);
    *place = *own;
    place->body = copy;
    if (own->key.bytes)
        place->key.bytes = copy + ((const unsigned char *)own->key.bytes - own->body);
    place->text = (const char *)copy + (own->text - (const char *)own->body);
    place->state = (const int64_t *)(const void *)(copy + ((const unsigned char *)own->state - own->body));
    return true;
}

/* ---- keys that are nowhere ---- */

static struct gone_record *gone_find(const struct table_recovery *recovery, uint64_t hash)
{
    size_t at = (size_t)hash & (recovery->gone_size - 1); /* who is a hash */
    while (recovery->gone[at].number != 0 && recovery->gone[at].hash != hash)
        at = (at + 1) & (recovery->gone_size - 1);
    return &recovery->gone[at];
}

static bool gone_grow(struct table_recovery *recovery)
{
    struct table_recovery next = *recovery;
    next.gone_size = recovery->gone_size > 0 ? 2 * recovery->gone_size : 64;
    next.gone = calloc(next.gone_size, sizeof *next.gone);
    if (!next.gone)
        return false;
    for (size_t i = 0; i < recovery->gone_size; i++)
        if (recovery->gone[i].number != 0)
            *gone_find(&next, recovery->gone[i].hash) = recovery->gone[i];
    free(recovery->gone);
    *recovery = next;
    return true;
}

bool weir_recovery_gone(struct table_recovery *recovery, const struct gone_record *gone)
{
    if (2 * recovery->gone_count >= recovery->gone_size && !gone_grow(recovery))
        return false;
    struct gone_record *place = gone_find(recovery, gone->hash);
    recovery->gone_count += place->number == 0;
    if (place->number == 0 || record_counts(gone->number, 0, place->number, 0))
        *place = *gone;
    return true;
}

bool weir_recovery_is_gone(const struct table_recovery *recovery, uint64_t hash, uint64_t number,
                           uint64_t spent)
{
    uint64_t gone = recovery->gone_count > 0 ? gone_find(recovery, hash)->number : 0;
    return gone != 0 && record_counts(gone, 0, number, spent);
}

void weir_recovery_note_number(struct table_recovery *recovery, uint64_t number)
{
    if ((number & RECORD_NUMBER_MAX) > recovery->highest)
        recovery->highest = number & RECORD_NUMBER_MAX;
}

/* Smooth and warmup let one pass who is paid for later, and a leaky bucket lets a job leave in the first of
 * its slots. That one may be among what was lost: so the next waits as if he had just gone. How large he was
 * nobody knows where sizes have no bound: there it is one unit. */
static int64_t units_owed(const struct limit *limit)
{
    if (limit->algorithm == &weir_leaky_bucket)
        return limit->spec.queue;
    return limit->algorithm == &weir_smooth || limit->algorithm == &weir_warmup;
}

void weir_recovery_drain(const struct weir_policy *policy, int64_t *state, int64_t now)
{
    int64_t time = max64(now, state[STATE_PROMISED]);
    for (size_t i = 0; i < policy->count; i++) {
        const struct limit *limit = &policy->limits[i];
        limit->algorithm->drain(limit, state + limit->offset, time);
        if (units_owed(limit) > 0)
            limit->algorithm->charge(limit, state + limit->offset, time, units_owed(limit));
    }
}

#if WEIR_ASSERTIONS
#define DRAINED_WORDS 16 /* of larger states nothing is said */

bool weir_recovery_is_drained(const struct weir_policy *policy, const int64_t *state, int64_t now)
{
    int64_t again[DRAINED_WORDS];
    int64_t time = max64(now, state[STATE_PROMISED]);
    bool drained = true;
    for (size_t i = 0; i < policy->count; i++) {
        const struct limit *limit = &policy->limits[i];
        size_t words = limit->algorithm->words(limit);
        if (words > DRAINED_WORDS || units_owed(limit) > 0)
            continue;
        memcpy(again, state + limit->offset, words * sizeof *again);
        limit->algorithm->drain(limit, again, time);
        drained = drained && memcmp(again, state + limit->offset, words * sizeof *again) == 0;
    }
    return drained;
}
#endif

/* ---- the end ---- */

struct drain {
    enum table_recover how;
    int64_t now;
};

static void end_override(void *arg, const struct weir_policy *policy, int64_t *state)
{
    const struct drain *drain = arg;
    if (drain->how == TABLE_FLOOR)
        weir_recovery_drain(policy, state, drain->now);
    else if (drain->how == TABLE_OPTIMISTIC)
        weir_state_reset(policy, state, drain->now);
}

static bool restore_overrides(struct weir_table *table)
{
    const struct table_recovery *recovery = table->recovery;
    for (size_t i = 0; i < recovery->override_count; i++) {
        const struct override_record *own = &recovery->overrides[i];
        char text[OVERRIDE_TEXT_MAX] = "";
        if (!own->slot)
            continue;
        memcpy(text, own->text, own->text_len);
        if (!weir_override_restore(table, &own->key, text, own->state, own->words))
            return false;
    }
    return true;
}

/*
 * Records of limits that no catalogue tells of stay in the log. Were their generation given to other limits,
 * they would count as records of these, and as later ones than those of this generation. So it is passed
 * over: the limits stay as they are, under the number behind it.
 */
static bool pass_orphans(struct weir_table *table, int64_t now)
{
    struct table_recovery *recovery = table->recovery;
    if (recovery->orphan <= recovery->generation)
        return true;
    drop_announced(recovery, recovery->generation);
    struct edition *last = recovery->newest;
    struct edition *next = weir_edition_new(last->text, recovery->orphan + 1, now, NULL);
    if (!next || !weir_history_add(table, next->generation, next->text, now, NULL)) {
        weir_edition_free(next);
        return false;
    }
    next->older = last;
    recovery->newest = next;
    recovery->generation = recovery->newest->generation;
    return true;
}

/* The latest limits that were in force are in force again. A time that nobody knows is now: that lies behind
 * everything that was counted by the limits of before. */
static void resume_generation(struct weir_table *table, int64_t now)
{
    struct edition *latest = table->recovery->newest;
    while (latest->generation > table->recovery->generation)
        latest = latest->older;
    for (struct edition *edition = latest; edition; edition = edition->older)
        if (edition->time == TIME_UNKNOWN) {
            edition->time = now;
            weir_history_set_time(table, edition->generation, now);
        }
    weir_table_resume(table, latest);
}

/* What was announced and did not come about is not told any more. */
static bool settle_history(struct weir_table *table)
{
    struct past_limits *latest = table->history ? table->history->latest : NULL;
    uint64_t generation = table->recovery->generation;
    if (!table->history || (latest && latest->generation == generation && !table->history->announced))
        return true;
    if (latest && latest->generation < generation &&
        !weir_history_add(table, generation, table->history->announced, TIME_UNKNOWN, NULL))
        return false;
    return weir_table_announce(table, NULL, NULL);
}

bool weir_table_recovered(struct weir_table *table, enum table_recover how, int64_t now)
{
    struct drain drain = {how, now};
    bool slots = table->kind != &weir_table_wide;
    bool done = weir_recovery_of(table) != NULL;
    table->recovered = 0;
    if (done && slots)
        done = weir_words_apply_pending(table);
    if (done && table->kind != &weir_table_own) {
        done = settle_history(table) && pass_orphans(table, now);
        resume_generation(table, now);
    }
    if (done) {
        done = slots ? weir_words_recovered(table, how, now) : weir_wide_recovered(table, how, now);
        done = restore_overrides(table) && done;
        if (table->kind != &weir_table_own)
            weir_override_each(table, end_override, &drain);
        uint64_t number = table->recovery->highest + 1;
        if (atom_load(&table->region->header->number, memory_order_relaxed) < number)
            atom_store(&table->region->header->number, number, memory_order_relaxed);
        INVARIANT(40,
                  atom_load(&table->region->header->number, memory_order_relaxed) > table->recovery->highest);
    }
    if (done) /* else it goes with the table, which is not whole */
        free_table_recovery(table);
    return done;
}
