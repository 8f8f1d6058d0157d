/* SPDX-License-Identifier: MIT */
/*
 * What is done to a table as a whole, or to the limits of a key.
 */
#include <inttypes.h>
#include <string.h>

#include "core/idle.h"
#include "property/table_look.h"
#include "property/table_world.h"
#include "table/change.h"

/* ---- the table as a whole ---- */

/* No state of a key that is not there sees the change: its log begins anew with it. */
static bool change_absent(struct world *world, struct cell *cell, const struct weir_policy *next)
{
    struct law_fault fault;
    if (!cell_log_holds(cell, &fault))
        return world_fail(world, "%s", fault.text);
    cell->logged = false;
    cell->policy = next;
    return true;
}

static bool change_present(struct world *world, struct cell *cell, const struct weir_policy *next,
                           int64_t now)
{
    if (!world_log_room(world, cell))
        return false;
    cell_change(cell, next, now);
    return cell->word || cell_adopt(cell) ||
           world_fail(world, "after the change its words are not the model's");
}

/* What keys share stays as if never used, if it was. */
static bool change_shared(struct world *world, struct site *site, const struct weir_policy *next, int64_t now)
{
    struct cell *shared = site->shared;
    if (shared->present && !cell_is_idle(shared, now))
        return change_present(world, shared, next, now);
    if (!change_absent(world, shared, next))
        return false;
    if (shared->present) {
        cell_begin(shared, next, site->words, now);
        cell_log_begin(shared, next, now);
    }
    return true;
}

static bool change_all(struct world *world, struct site *site, int64_t now, uint32_t text)
{
    const struct edition *edition = table_edition(site->table);
    if (!edition || edition->generation != site->generation + 1)
        return world_fail(world, "the table has not changed");
    site->changed = now = max64(now, site->changed);
    for (size_t i = 0; i < site->plan->keys; i++) {
        struct cell *cell = &site->cells[i];
        if (!cell->own && !(cell->present ? change_present(world, cell, edition->policy, now)
                                          : change_absent(world, cell, edition->policy)))
            return false;
    }
    if (!change_shared(world, site, edition->policy, now))
        return false;
    site->policy = edition->policy;
    site->generation = edition->generation;
    site->text = text;
    return look_read_all(world, site);
}

/* As the one does who is killed between two stores of a change. */
static void set_half(struct weir_table *table, int64_t now, const char *limits)
{
    struct region_header *header = table->region->header;
    const struct edition *latest = table_edition(table);
    struct policy_text *to = &table->policies->texts[(latest->generation + 1) & 3];
    (void)snprintf(to->text, sizeof to->text, "%s", limits);
    atom_store(&to->time, (uint64_t)max64(now, latest->time) << 1,
               memory_order_release); /* even: it is known */
    atom_store(&header->generation, latest->generation + 1, memory_order_seq_cst);
}

static bool do_set(struct world *world, const struct story_action *op)
{
    struct site *site = &world->sites[op->asks[0].table];
    const char *limits = site->plan->texts[op->ref];
    int64_t now = world_time(site, op->at);
    struct weir_error err;
    bool same = strcmp(limits, site->plan->texts[site->text]) == 0;
    bool half = op->kind == ACTION_SET_HALF && !same && !site->half;
    if (half)
        set_half(site->table, now, limits);
    else if (!weir_table_set_at(site->table, op->at, limits, &err))
        return world_fail(world, "a change was refused: %s", err.text);
    site->half = half;
    return same || change_all(world, site, now, op->ref);
}

static bool do_override(struct world *world, const struct story_action *op)
{
    struct site *site = &world->sites[op->asks[0].table];
    struct cell *cell = &site->cells[op->asks[0].key];
    int64_t now = world_time(site, op->at), time = world_floor(site, now);
    struct weir_error err;
    struct law_fault fault;
    bool had = cell->own != NULL, restore = op->kind == ACTION_RESTORE, want = true;
    char key[8];
    size_t len = world_key(site, op->asks[0].key, key), most = site->plan->overrides;
    const char *limits = restore ? NULL : world->story->own[op->ref];
    bool got = weir_table_override_at(site->table, op->at, key, len, limits, &err);
    site->half = false; /* what a change has left is finished first */
    if (restore && !had)
        return got || world_fail(world, "no limits of its own to take away: %s", err.text);
    if (!had && site->override_count >= (most ? most : 64)) {
        want = false;
    } else if (!cell->present) {
        want = world_has_room(site, site->words ? now : time);
        if (want) {
            world_start(site, cell, time);
            world_insert(site, cell, time);
        }
    }
    if (got != want)
        return world_fail(world, "override gives %d, not %d: %s", got, want, got ? "" : err.text);
    if (!got)
        return true;
    if (!cell_log_holds(cell, &fault))
        return world_fail(world, "%s", fault.text);
    if (!world_log_room(world, cell))
        return false;
    struct weir_policy *own = restore ? NULL : weir_policy_idle(limits, NULL);
    cell_override(cell, own, site->policy, site->words, now);
    site->override_count += (size_t)!restore - (size_t)had;
    return true;
}

static bool do_sweep(struct world *world, const struct story_action *op)
{
    struct site *site = &world->sites[op->asks[0].table];
    size_t cleared = weir_table_sweep_at(site->table, op->at, op->ref), gone = 0, idle = 0;
    int64_t now = world_time(site, op->at);
    for (size_t i = 0; i < site->plan->keys; i++)
        idle += world_may_go(&site->cells[i], now);
    if (!site->words && world_may_go(site->shared, now)) {
        idle++;
        if (!look_is_shared(site->table)) {
            site->shared->present = false;
            gone++;
            world_raise_floor(site, now);
            world_clear_overflow_filter(site);
        }
    }
    gone += look_for_gone(site, now);
    if (gone > 0)
        world_raise_floor(site, now);
    if (gone != cleared || (op->ref >= look_slots(site->table) && cleared != idle))
        return world_fail(world, "cleared %zu, gone %zu, idle %zu", cleared, gone, idle);
    return true;
}

static bool do_grow(struct world *world, const struct story_action *op)
{
    struct site *site = &world->sites[op->asks[0].table];
    struct weir_error err;
    if (site->grown == 3)
        return true;
    site->grown++;
    site->capacity += op->ref;
    return weir_table_grow(site->table, site->capacity, &err) || world_fail(world, "%s", err.text);
}

bool world_whole(struct world *world, const struct story_action *op)
{
    switch (op->kind) {
    case ACTION_SET:
    case ACTION_SET_HALF:
        return do_set(world, op);
    case ACTION_OVERRIDE:
    case ACTION_RESTORE:
        return do_override(world, op);
    case ACTION_SWEEP:
        return do_sweep(world, op);
    default:
        return do_grow(world, op);
    }
}
