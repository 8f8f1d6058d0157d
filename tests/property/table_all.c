/* SPDX-License-Identifier: MIT */
/*
 * Several keys at once, in the words of weir.h: each for itself, or all of them or none.
 */
#include <string.h>

#include "property/table_world.h"

struct asking {
    struct weir_ask asks[STORY_ASKS];
    char keys[STORY_ASKS][8];
};

static void prepare(struct world *world, const struct story_action *op, struct asking *asking)
{
    memset(asking, 0, sizeof *asking);
    for (size_t i = 0; i < op->count; i++) {
        const struct site *site = &world->sites[op->asks[i].table];
        asking->asks[i].table = site->table;
        asking->asks[i].key = asking->keys[i];
        asking->asks[i].len = world_key(site, op->asks[i].key, asking->keys[i]);
        asking->asks[i].n = op->asks[i].n;
    }
}

/* A key that comes in may take the place of another one that is asked, too, and nobody could see between the
 * two whether it did. */
static bool is_ambiguous(const struct world *world, const struct story_action *op)
{
    bool comes = false, goes = false;
    for (size_t i = 0; i < op->count; i++) {
        const struct site *site = &world->sites[op->asks[i].table];
        const struct cell *cell = &site->cells[op->asks[i].key];
        comes = comes || !cell->present;
        goes = goes || world_may_go(cell, world_floor(site, world_time(site, op->at)));
        for (size_t j = 0; op->kind == ACTION_EACH && j < i;
             j++) /* it may come in as if never used, and go */
            goes = goes || cell == &world->sites[op->asks[j].table].cells[op->asks[j].key];
    }
    return comes && goes;
}

/* ---- each for itself ---- */

bool world_each(struct world *world, const struct story_action *op)
{
    struct asking asking;
    size_t passed = 0;
    if (is_ambiguous(world, op))
        return true;
    prepare(world, op, &asking);
    size_t got = weir_take_each_at(asking.asks, op->count, op->at);
    for (size_t i = 0; i < op->count; i++) {
        const struct weir_verdict *verdict = &asking.asks[i].verdict;
        if (op->asks[i].n < 1) {
            if (verdict->reason != WEIR_INVALID)
                return world_fail(world, "n is below 1, but the reason is %d", verdict->reason);
            continue;
        }
        if (!world_took(world, &op->asks[i], op->at, verdict->allowed == 1, verdict))
            return false;
        passed += verdict->allowed == 1;
    }
    return got == passed || world_fail(world, "%zu passed, not %zu", got, passed);
}

/* ---- all or none ---- */

struct part {
    struct site *site;
    struct cell *cell, *from; /* from: what it is decided on; NULL: there is no room */
    int64_t now, n;           /* n: its own and its namesakes' */
    size_t namesake;          /* the first of the same key */
    bool valid;
    struct weir_verdict want;
};

static void divide(struct world *world, const struct story_action *op, struct part *parts)
{
    for (size_t i = 0; i < op->count; i++) {
        struct part *part = &parts[i];
        struct site *site = &world->sites[op->asks[i].table];
        *part = (struct part){.site = site,
                              .cell = &site->cells[op->asks[i].key],
                              .now = world_action_time(site, op->at),
                              .namesake = i,
                              .valid = op->asks[i].n > 0};
        for (size_t j = i; part->valid && j-- > 0;)
            if (parts[j].valid && parts[j].cell == part->cell)
                part->namesake = j;
        if (part->valid)
            parts[part->namesake].n = sat_add(parts[part->namesake].n, op->asks[i].n);
    }
}

static bool is_first(const struct part *parts, size_t i)
{
    return parts[i].valid && parts[i].namesake == i;
}

/* Every key by itself says what it would say. */
static void ask_alone(const struct story_action *op, struct part *parts)
{
    for (size_t i = 0; i < op->count; i++)
        if (is_first(parts, i)) {
            struct part *part = &parts[i];
            (void)world_peek(part->site, op->asks[i].key, part->now, part->n, &part->want);
            if (!part->cell->present)
                part->now = world_floor(part->site, part->now);
            part->from = part->cell;
        }
}

/* Words are asked first, without a lock: a no of one of them ends it. */
static bool is_refused_at_once(const struct story_action *op, struct part *parts)
{
    bool refused = false;
    for (size_t i = 0; i < op->count; i++) {
        struct weir_verdict verdict;
        if (!parts[i].valid)
            refused = true;
        else if (is_first(parts, i) && parts[i].site->words &&
                 !world_peek(parts[i].site, op->asks[i].key, parts[i].now, parts[i].n, &verdict))
            refused = true;
    }
    return refused;
}

/* A word that has to share needs another lock: all are let go and found again. What wide keys share is new
 * and as if never used, for the moment, so it is forgotten and made again. */
static void join_again(struct part *parts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct site *site = parts[i].site;
        if (!is_first(parts, i) || site->words || parts[i].from != site->shared)
            continue;
        if (cell_is_idle(site->shared, parts[i].now - TABLE_GRACE_NS))
            world_raise_floor(site, parts[i].now);
    }
}

static void bring_in(struct part *part)
{
    struct site *site = part->site;
    part->now = world_floor(site, part->now);
    if (world_has_room(site, part->now)) {
        world_start(site, part->cell, part->now);
        world_insert(site, part->cell, part->now);
    } else if (site->plan->refuse) {
        world_start(site, part->cell, part->now); /* a verdict is one of some limits */
        part->from = NULL;
    } else {
        part->from = world_share(site, part->now);
    }
}

/* Keys that are not there come in, whatever becomes of the question, or share. */
static void join(const struct story_action *op, struct part *parts)
{
    for (size_t i = 0; i < op->count; i++) {
        struct part *part = &parts[i];
        if (!is_first(parts, i))
            continue;
        part->from = part->cell;
        if (!part->cell->present)
            bring_in(part);
        if (part->from)
            part->from->held = true;
        if (part->site->words && part->from == part->site->shared)
            join_again(parts, i);
    }
}

/* The first part that is decided on the same state, and the units of all of these. */
static size_t first_of(const struct part *parts, size_t i)
{
    size_t first = 0;
    i = parts[i].namesake;
    while (parts[i].from && (!is_first(parts, first) || parts[first].from != parts[i].from))
        first++;
    return parts[i].from ? first : i;
}

static int64_t units_of(const struct story_action *op, const struct part *parts, size_t first)
{
    int64_t n = 0;
    for (size_t i = 0; i < op->count; i++)
        if (is_first(parts, i) && first_of(parts, i) == first)
            n = sat_add(n, parts[i].n);
    return n;
}

static bool ask_together(const struct story_action *op, struct part *parts)
{
    bool allowed = true;
    for (size_t i = 0; i < op->count; i++) {
        struct part *part = &parts[i];
        if (!is_first(parts, i) || first_of(parts, i) != i)
            continue;
        part->want = (struct weir_verdict){.reason = WEIR_FULL, .retry_after_ns = WEIR_FOREVER};
        bool passes = part->from && cell_peek(part->from, part->now, units_of(op, parts, i), &part->want);
        if (part->from == part->site->shared)
            (void)world_says_shared(passes, &part->want);
        allowed = allowed && passes;
    }
    return allowed;
}

static bool take_all(const struct story_action *op, struct part *parts)
{
    struct cell_promise none;
    bool good = true;
    for (size_t i = 0; i < op->count; i++) {
        struct part *part = &parts[i];
        if (!is_first(parts, i))
            continue;
        int64_t n = units_of(op, parts, i);
        if (first_of(parts, i) == i) {
            (void)cell_reserve(part->from, part->now, n, 0, part->site->generation, &none, &part->want);
            good = good && (part->from->word || cell_adopt(part->from));
            if (part->from == part->site->shared)
                (void)law_admit(&part->site->shared->law, part->now, part->now, n);
        }
        world_admit(part->site, part->cell, part->from, part->now, part->now, part->n);
    }
    return good;
}

static bool compare(struct world *world, const struct story_action *op, const struct asking *asking,
                    const struct part *parts, bool allowed, bool together)
{
    for (size_t i = 0; i < op->count; i++) {
        const struct weir_verdict *got = &asking->asks[i].verdict;
        if (!parts[i].valid) {
            if (got->reason != WEIR_INVALID || got->allowed)
                return world_fail(world, "n is below 1, but the reason is %d", got->reason);
            continue;
        }
        const struct part *first = &parts[together ? first_of(parts, i) : parts[i].namesake];
        struct weir_verdict want = first->want;
        want.allowed = allowed;
        if (!world_agrees(world, "take_all", first->from ? first->from : first->cell, first->now, got, &want))
            return false;
    }
    return true;
}

bool world_all(struct world *world, const struct story_action *op)
{
    struct asking asking;
    struct part parts[STORY_ASKS];
    bool allowed = false;
    if (is_ambiguous(world, op))
        return true;
    divide(world, op, parts);
    for (size_t i = 0; i < op->count; i++)
        if (!world_make_room(world, parts[i].site, parts[i].cell))
            return false;
    prepare(world, op, &asking);
    world->decisions += op->count;
    bool got = weir_take_all_at(asking.asks, op->count, op->at);
    bool together = !is_refused_at_once(op, parts);
    if (together) {
        join(op, parts);
        allowed = ask_together(op, parts);
        if (allowed && !take_all(op, parts))
            return world_fail(world, "the words of the core are not the model's");
    } else {
        ask_alone(op, parts);
    }
    if (got != allowed)
        return world_fail(world, "take_all gives %d, the model %d", got, allowed);
    return compare(world, op, &asking, parts, allowed, together);
}
