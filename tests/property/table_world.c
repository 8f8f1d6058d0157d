/* SPDX-License-Identifier: MIT */
#include "property/table_world.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "core/idle.h"
#include "property/agree.h"
#include "property/table_look.h"
#include "table/change.h"

bool world_fail(struct world *world, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(world->fault, sizeof world->fault, format, args);
    va_end(args);
    return false;
}

/* ---- times, keys ---- */

size_t world_key(const struct site *site, uint32_t key, char *bytes)
{
    if (key == 0) /* no bytes are a key, too */
        return 0;
    return (size_t)snprintf(bytes, 8, site->plan->key_max ? "%u" : "key%u", key);
}

int64_t world_time(const struct site *site, int64_t at)
{
    return region_time(site->table->region, at);
}

int64_t world_action_time(const struct site *site, int64_t at)
{
    int64_t now = world_time(site, at);
    return site->words ? now : world_floor(site, now);
}

int64_t world_floor(const struct site *site, int64_t now)
{
    return max64(now, site->floor);
}

void world_raise_floor(struct site *site, int64_t now)
{
    if (site->floor < now - TABLE_GRACE_NS)
        site->floor = now;
}

/* ---- coming and going ---- */

bool world_may_go(const struct cell *cell, int64_t now)
{
    return cell->present && !cell->held && !cell->own && cell_is_idle(cell, now - TABLE_GRACE_NS);
}

bool world_has_room(const struct site *site, int64_t now)
{
    size_t used = 0;
    for (size_t i = 0; i < site->plan->keys; i++)
        used += site->cells[i].present && !world_may_go(&site->cells[i], now);
    return used < look_places(site->table);
}

void world_look_shared(struct site *site, int64_t now)
{
    if (site->words || !world_may_go(site->shared, now))
        return;
    site->shared->present = false;
    world_raise_floor(site, now);
    world_clear_overflow_filter(site);
}

void world_clear_overflow_filter(struct site *site)
{
    for (size_t i = 0; i < site->plan->keys; i++)
        site->cells[i].took = false;
}

bool world_says_shared(bool yes, struct weir_verdict *verdict)
{
    if (!yes && verdict->reason == WEIR_LATER)
        verdict->reason = WEIR_SHARED;
    return yes;
}

static void remember(struct cell *cell)
{
    memcpy(cell->before, cell->words, cell->policy->words * sizeof cell->words[0]);
}

void world_start(struct site *site, struct cell *cell, int64_t now)
{
    world_look_shared(site, now);
    cell_begin(cell, site->policy, site->words, now);
    cell->shared = cell->took &&
                   (site->words ? cell_position(site->shared) > cell_position(cell) : site->shared->present);
    if (cell->shared)
        cell_copy(cell, site->shared);
    remember(cell);
}

/* The limits of a key that takes part in another one's state have seen what that has. */
static void see_with(struct cell *cell, const struct cell *other)
{
    for (size_t i = 0; i < cell->policy->count; i++)
        law_touch(&cell->law, i, other->law.clock[i]);
}

/* A state that began as a copy of what is shared has seen no more than that. */
void world_log_begin(struct site *site, struct cell *cell, int64_t now)
{
    if (cell->logged)
        return;
    cell_log_begin(cell, cell->policy, now);
    if (cell == site->shared || !cell->shared)
        return;
    memcpy(cell->law.clock, site->shared->law.clock, sizeof cell->law.clock);
    memcpy(cell->law.local, site->shared->law.local, sizeof cell->law.local);
}

void world_insert(struct site *site, struct cell *cell, int64_t now)
{
    cell->present = cell->came = true;
    site->came++;
    world_log_begin(site, cell, now);
    if (cell->shared)
        see_with(cell, site->shared);
    else
        cell_log_see(cell, now);
}

struct cell *world_share(struct site *site, int64_t now)
{
    struct cell *shared = site->shared;
    world_look_shared(site, now);
    if (site->words && cell_is_idle(shared, now - TABLE_GRACE_NS)) {
        world_raise_floor(site, now);
        world_clear_overflow_filter(site);
    }
    if (shared->present)
        return shared;
    shared->present = true;
    cell_begin(shared, site->policy, site->words, now);
    remember(shared);
    world_log_begin(site, shared, now);
    cell_log_see(shared, now);
    return shared;
}

/* ---- the law ---- */

bool world_log_room(struct world *world, struct cell *cell)
{
    struct law_fault fault;
    if (cell->law.count < MODEL_EVENTS - 2 * STORY_ASKS && cell->law.part_count < LAW_PARTS - 2)
        return true;
    if (!cell_log_holds(cell, &fault))
        return world_fail(world, "%s", fault.text);
    struct law_log *law = &cell->law;
    int64_t clock[MODEL_LIMITS], local[MODEL_LIMITS];
    memcpy(clock, law->clock, sizeof clock);
    memcpy(local, law->local, sizeof local);
    cell_log_begin(cell, cell->policy, law->latest);
    memcpy(law->clock, clock, sizeof clock);
    memcpy(law->local, local, sizeof local);
    return true;
}

bool world_make_room(struct world *world, struct site *site, struct cell *cell)
{
    return (!cell->logged || world_log_room(world, cell)) &&
           (!site->shared->logged || world_log_room(world, site->shared));
}

void world_admit(struct site *site, struct cell *cell, const struct cell *from, int64_t now, int64_t due,
                 int64_t n)
{
    if (from != cell) {
        cell->shared = cell->took = true;
        world_log_begin(site, cell, now);
        see_with(cell, site->shared);
    }
    (void)law_admit(&cell->law, now, due, n);
}

/* ---- verdicts ---- */

bool world_agrees(struct world *world, const char *verb, const struct cell *cell, int64_t now,
                  const struct weir_verdict *got, const struct weir_verdict *want)
{
    world->last = *got;
    if (!got->allowed && got->retry_after_ns != WEIR_FOREVER)
        world->retry_ns = got->retry_after_ns;
    if (agree_verdicts(cell->policy, &cell->model, now, got, want))
        return true;
    agree_print(verb, got, want, world->fault, sizeof world->fault);
    return false;
}

/* ---- one operation ---- */

static bool apply(struct world *world, const struct story_action *op)
{
    switch (op->kind) {
    case ACTION_EACH:
        return world_each(world, op);
    case ACTION_ALL:
        return world_all(world, op);
    case ACTION_LIST:
        return look_at_list(world, op);
    default:
        return op->kind < ACTION_EACH ? world_action(world, op) : world_whole(world, op);
    }
}

static void pass_promises(struct world *world, int64_t at)
{
    for (size_t i = 0; i < world->held_count; i++) {
        struct world_held *held = &world->held[i];
        held->passed =
            held->passed || world_time(&world->sites[held->table], at) >= held->promise.parts[0].due;
    }
}

/* Whom the operation was about says the same afterwards. */
static bool peek_all(struct world *world, const struct story_action *op)
{
    struct story_action peek = {.kind = ACTION_PEEK, .at = op->at, .count = 1};
    for (size_t i = 0; i < op->count; i++) {
        peek.asks[0] = op->asks[i];
        peek.asks[0].n = 1;
        if (!world_action(world, &peek))
            return false;
    }
    return true;
}

bool world_do(struct world *world, const struct story_action *op)
{
    for (size_t i = 0; i < op->count; i++) {
        remember(&world->sites[op->asks[i].table].cells[op->asks[i].key]);
        remember(world->sites[op->asks[i].table].shared);
    }
    world->at = op->at;
    if (!apply(world, op) || !look_after(world, op))
        return false;
    for (size_t i = 0; i < op->count; i++) {
        struct site *site = &world->sites[op->asks[i].table];
        struct cell *cell = &site->cells[op->asks[i].key];
        cell->came = cell->held = site->shared->held = false;
    }
    world_mark_again(world, op);
    pass_promises(world, op->at);
    return peek_all(world, op);
}

/* ---- a whole story ---- */

struct world *world_new(void)
{
    struct world *world = calloc(1, sizeof *world);
    for (size_t i = 0; world && i < STORY_TABLES; i++) {
        world->sites[i].cells = calloc(STORY_KEYS + 1, sizeof(struct cell)); /* and what they share */
        if (!world->sites[i].cells)
            abort();
        world->sites[i].shared = &world->sites[i].cells[STORY_KEYS];
    }
    return world;
}

void world_free(struct world *world)
{
    for (size_t i = 0; world && i < STORY_TABLES; i++)
        free(world->sites[i].cells);
    free(world);
}

static void begin_cell(struct cell *cell, const struct weir_policy *policy)
{
    cell->present = cell->came = cell->held = cell->word = cell->shared = cell->logged = cell->took = false;
    cell->life = cell->era = cell->log_number = 0;
    cell->own = NULL;
    cell->policy = policy;
}

static void begin_site(struct site *site, const struct table_plan *plan)
{
    struct weir_error err;
    struct weir_table_options options = {
        .keys = plan->capacity,
        .key_max = plan->key_max,
        .overrides = plan->overrides,
        .when_full = plan->refuse ? WEIR_FULL_REFUSE : WEIR_FULL_SHARE,
        .no_top = 1,
    };
    struct site fresh = {.plan = plan, .cells = site->cells, .shared = site->shared};
    *site = fresh;
    site->table = weir_table_make(NULL, plan->texts[0], &options, &err);
    if (!site->table) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
    struct region *region = site->table->region;
    memset(&region->key, 7, sizeof region->key); /* the same places every time */
    site->table->exact = exact_of(&region->key);
    region->offset_ns = plan->offset;
    site->words = site->table->kind == &weir_table_words;
    site->policy = table_edition(site->table)->policy;
    site->capacity = plan->capacity;
    for (size_t i = 0; i < plan->keys; i++)
        begin_cell(&site->cells[i], site->policy);
    begin_cell(site->shared, site->policy);
    if (site->words) { /* there from the beginning */
        (void)world_share(site, 0);
        look_read(site, NULL, site->shared);
    }
}

bool world_begin(struct world *world, const struct table_story *story)
{
    world->story = story;
    world->held_count = 0;
    world->decisions = 0;
    world->at = story->start;
    world->retry_ns = 0;
    world->last = (struct weir_verdict){0};
    world->fault[0] = '\0';
    for (size_t i = 0; i < story->table_count; i++)
        begin_site(&world->sites[i], &story->plans[i]);
    return true;
}

bool world_finish(struct world *world)
{
    struct law_fault fault;
    for (size_t t = 0; t < world->story->table_count; t++) {
        struct site *site = &world->sites[t];
        for (size_t i = 0; i < site->plan->keys; i++)
            if (!cell_log_holds(&site->cells[i], &fault))
                return world_fail(world, "key %zu of table %zu: %s", i, t, fault.text);
        if (!cell_log_holds(site->shared, &fault))
            return world_fail(world, "keys without room in table %zu: %s", t, fault.text);
        if (!look_read_all(world, site))
            return false;
    }
    return true;
}

void world_end(struct world *world)
{
    for (size_t t = 0; t < world->story->table_count; t++) {
        struct site *site = &world->sites[t];
        for (size_t i = 0; i < site->plan->keys; i++) {
            cell_end(&site->cells[i]);
            weir_policy_free(site->cells[i].own);
        }
        cell_end(site->shared);
        weir_table_free(site->table);
    }
}
