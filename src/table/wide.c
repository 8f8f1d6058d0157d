/* SPDX-License-Identifier: MIT */
/*
 * Tables whose states are wider than a word, or whose keys are kept whole.
 *
 * Law: as core/state.c keeps it for a single state, for each key: its operations are done one after the
 * other, under the lock of its stripe, to one state. Between a forgotten state and the next one of the same
 * key nothing is gained: see wide_slots.c. Keys that find no room share the stripe's overflow state; a key
 * that gets a slot while that is in use starts from a copy of it, for it may have spent there.
 */
#include "table/wide.h"

#include <string.h>

#include "core/idle.h"
#include "table/names.h"
#include "table/overflow_filter.h"
#include "table/override.h"
#include "table/wide_slots.h"

/* ---- a key that is there ---- */

/* Writes what an operation has changed in the copy of the state back, and nothing else. */
static bool wide_write_back(struct locked_stripe *locked, int64_t *state)
{
    const int64_t *copy = locked->scratch;
    size_t first = 0, end = locked->edition->policy->words;
    while (first < end && state[first] == copy[first])
        first++;
    while (end > first && state[end - 1] == copy[end - 1])
        end--;
    if (end - first == 1) {
        __atomic_store_n(&state[first], copy[first], __ATOMIC_RELAXED);
        INVARIANT(19, end - first == 1);
    } else if (end > first) {
        weir_journal_begin(locked->journal);
        weir_wide_save(locked, state + first, (end - first) * sizeof *state);
        memcpy(state + first, copy + first, (end - first) * sizeof *state);
        weir_journal_commit(locked->table->region, locked->journal);
    }
    return end > first;
}

static bool act_on_copy(struct locked_stripe *locked, struct wide_slot *slot, struct table_op *op)
{
    weir_wide_fetch(locked, slot, locked->scratch, op->now);
    bool answer = weir_table_op_run(locked->edition->policy, locked->scratch, op);
    op->changed = wide_write_back(locked, wide_state(locked->table, slot));
    return answer;
}

/* A state of some kilobytes in memory of the process is not copied: who is killed in the middle takes it with
 * him. */
static bool act_in_place(const struct locked_stripe *locked, int64_t *state, struct table_op *op)
{
    const struct weir_policy *policy = locked->edition->policy;
    INVARIANT(19, locked->table->region->file < 0);
    bool answer = weir_table_op_run(policy, state, op);
    op->changed = weir_table_op_may_change(policy, op, answer);
    return answer;
}

static bool wide_act(struct locked_stripe *locked, const struct wide_ref *place, struct table_op *op)
{
    const struct weir_table *table = locked->table;
    if (table_op_reads(op))
        return weir_table_op_run(locked->edition->policy, wide_read(locked, place->slot, op->now), op);
    locked->changed = place->slot;
    return table->state_words > WIDE_SMALL && !table->copies
               ? act_in_place(locked, wide_state(table, place->slot), op)
               : act_on_copy(locked, place->slot, op);
}

/* ---- a key that is not ---- */

/* The stripe's overflow state. false: it is not in use. */
static bool find_overflow(struct locked_stripe *locked, int64_t now, struct wide_ref *place)
{
    *place = wide_place(locked, 0, wide_places(locked, 0) + WIDE_OVERFLOW);
    if (wide_hash(place->slot) == 0)
        return false;
    if (!weir_wide_droppable(locked, place, now))
        return true;
    weir_wide_forget(locked, place, now);
    return false;
}

/* Fills `scratch` with the state from which a new key starts; true: with what is shared, because it may have
 * taken from it. */
static bool wide_start_state(struct locked_stripe *locked, uint64_t hash, int64_t now)
{
    const struct weir_policy *policy = locked->edition->policy;
    struct wide_ref overflow;
    bool shared = find_overflow(locked, now, &overflow) && weir_overflow_filter_has(locked->table, hash);
    if (shared)
        weir_wide_fetch(locked, overflow.slot, locked->scratch, now);
    else
        weir_state_init(policy, locked->scratch, now);
    INVARIANT(16, INTACT(!shared || weir_state_idle_from(policy, locked->scratch) >=
                                        weir_state_idle_from(policy, wide_read(locked, overflow.slot, now))));
    return shared;
}

/* The stripe's overflow state, in use from now on. */
static void open_overflow(struct locked_stripe *locked, int64_t now, struct wide_ref *place)
{
    static const struct key overflow = {.hash = OVERFLOW_HASH};
    if (find_overflow(locked, now, place))
        return;
    weir_state_init(locked->edition->policy, locked->scratch, now);
    weir_wide_insert(locked, place, &overflow, now);
}

/* The same for a key that finds no room. false: out of memory. */
static bool wide_share_overflow(struct locked_stripe *locked, int64_t now, struct wide_ref *place)
{
    if (!weir_overflow_filter_make(locked->table))
        return false;
    (void)atom_add(&locked->table->region->header->shared, 1, memory_order_relaxed);
    open_overflow(locked, now, place);
    return true;
}

/* What is charged is not shared: a single debt would be everybody's. Nor is what is given back. */
static bool act_without_room(struct locked_stripe *locked, const struct key *key, struct table_op *op)
{
    struct region_header *header = locked->table->region->header;
    struct wide_ref place;
    if (table_op_lowers(op))
        return true;
    if (locked->table->refuse_when_full || table_op_charges(op)) {
        (void)atom_add(&header->refused, 1, memory_order_relaxed);
        return weir_table_op_full(op);
    }
    INVARIANT(16, !table_op_charges(op) && !locked->table->refuse_when_full);
    if (!wide_share_overflow(locked, op->now, &place))
        return weir_table_op_full(op);
    bool answer = wide_act(locked, &place, op);
    if (weir_table_op_may_change(locked->edition->policy, op, answer))
        weir_overflow_filter_add(locked->table, key->hash);
    INVARIANT(16, !weir_table_op_may_change(locked->edition->policy, op, answer) ||
                      weir_overflow_filter_has(locked->table, key->hash));
    weir_table_op_shared(op, answer);
    ASSERT(answer || !op->verdict || op->verdict->reason != WEIR_LATER);
    return answer;
}

/* As a take would be answered that finds no room: it is refused, or shares. */
static bool wide_peek_without_room(struct locked_stripe *locked, struct table_op *op)
{
    struct wide_ref place;
    if (locked->table->refuse_when_full)
        return weir_table_op_full(op);
    if (!find_overflow(locked, op->now, &place))
        return true;
    bool answer = wide_act(locked, &place, op);
    weir_table_op_shared(op, answer);
    return answer;
}

static bool act_on_new(struct locked_stripe *locked, const struct key *key, struct table_op *op, bool *came)
{
    struct wide_ref place;
    bool insert = false;
    bool shared = wide_start_state(locked, key->hash, op->now);
    bool answer = weir_table_op_absent(locked->edition->policy, locked->scratch, shared, op, &insert);
    if (shared && !answer && !insert &&
        table_op_takes(op)) /* refused by what is shared, as if it had come to it */
        (void)atom_add(&locked->table->region->header->shared, 1, memory_order_relaxed);
    if (shared && !insert)
        weir_table_op_shared(op, answer);
    bool would_insert = op->verb == VERB_PEEK && answer && !table_may_wait(locked->table, 0) &&
                        locked->edition->policy->words > STATE_HEADER; /* else nobody has to come in */
    if (!insert && !would_insert)
        return answer;
    bool has_room = weir_wide_room(locked, key->hash, op->now, &place);
    if (!insert)
        return has_room || wide_peek_without_room(locked, op);
    if (!has_room && locked->may_wait) {
        locked->crowded = true;
        return false;
    }
    if (!has_room)
        return act_without_room(locked, key, op);
    (void)wide_start_state(locked, key->hash, op->now); /* the look for room may have used the memory */
    answer = weir_table_op_run(locked->edition->policy, locked->scratch, op);
    weir_wide_insert(locked, &place, key, op->now);
    locked->changed = place.slot;
    op->changed = *came = true;
    return answer;
}

/* ---- the kind ---- */

static bool act_on_key(struct locked_stripe *locked, const struct key *key, struct table_op *op, bool *came)
{
    struct wide_ref place;
    bool answer;
#if WEIR_ASSERTIONS
    INVARIANT(15, op->now >= locked->floor);
#endif
    if (!weir_wide_find(locked, key, &place))
        return act_on_new(locked, key, op, came);
    if ((place.slot->flags & WIDE_OVERRIDDEN) &&
        weir_override_run(locked->table, key, locked->stripe, op, &answer)) {
        locked->changed = place.slot;
        return answer;
    }
    weir_wide_convert(locked, &place);
    return wide_act(locked, &place, op);
}

/* Not before the floor. A key that is there may be a new one with nothing in its log, which then knows of no
 * time: it would let pass again what passed, and was forgotten, at the time of an old reading. */
static bool act_under_lock(struct locked_stripe *locked, const struct key *key, struct table_op *op,
                           bool *came)
{
    int64_t asked = op->now;
    op->now = max64(asked, region_floor(locked->table->region));
    bool answer = act_on_key(locked, key, op, came);
    op->now = asked;
    return answer;
}

static bool wide_run_op(struct weir_table *table, const struct key *key, struct table_op *op)
{
    struct locked_stripe locked;
    bool came = false, answer, waited = true;
    uint64_t hash;
    unsigned tries = 0;
    do {
        if (!weir_wide_enter(&locked, table, table_stripe(table, key->hash)))
            return weir_table_op_full(op);
        locked.may_wait = waited && table_may_wait(table, tries);
        answer = act_under_lock(&locked, key, op, &came);
        hash = locked.changed ? wide_hash(locked.changed) : 0; /* the key's, or OVERFLOW_HASH */
        weir_wide_leave(&locked);
        waited = locked.crowded && table_wait(table, &tries);
    } while (locked.crowded);
    if (op->changed && hash != 0)
        table_touch(table, locked.changed, hash);
    if (came && table->names)
        weir_table_name(table, key);
    return answer;
}

bool weir_wide_shared(struct weir_table *table, uint64_t stripe, struct table_op *op)
{
    struct locked_stripe locked;
    struct wide_ref place;
    if (!weir_wide_enter(&locked, table, stripe))
        return false;
    op->now = max64(op->now, region_floor(table->region));
    if (!table_op_reads(op)) {
        open_overflow(&locked, op->now, &place);
        if (!weir_overflow_filter_fill(
                table)) { /* not before: an idle one is forgotten, and its takers with it */
            weir_wide_leave(&locked);
            return false;
        }
    } else if (!find_overflow(&locked, op->now, &place)) {
        op->transfer->idle = true;
        weir_wide_leave(&locked);
        return true;
    }
    bool answer = wide_act(&locked, &place, op);
    weir_wide_leave(&locked);
    if (op->changed)
        table_touch(table, place.slot, OVERFLOW_HASH);
    return answer;
}

bool weir_wide_settle(struct locked_stripe *locked, const struct key *key, int64_t now,
                      struct wide_ref *place)
{
    struct region_header *header = locked->table->region->header;
    if (weir_wide_find(locked, key, place)) {
        weir_wide_convert(locked, place);
        return true;
    }
    now = max64(now, region_floor(locked->table->region));
    if (weir_wide_room(locked, key->hash, now, place)) {
        (void)wide_start_state(locked, key->hash, now);
        weir_wide_insert(locked, place, key, now);
        weir_table_name(locked->table, key);
    } else if (locked->table->refuse_when_full) {
        (void)atom_add(&header->refused, 1, memory_order_relaxed);
        return false;
    } else
        return wide_share_overflow(locked, now, place);
    return true;
}

static bool wide_has_key(struct weir_table *table, uint64_t hash)
{
    struct locked_stripe locked;
    if (!weir_wide_enter(&locked, table, table_stripe(table, hash)))
        return true; /* not known: what is there must not be taken for gone */
    bool found = weir_wide_has(&locked, hash);
    weir_wide_leave(&locked);
    return found;
}

static void wide_prefetch(struct weir_table *table, uint64_t hash)
{
    struct locked_stripe where;
    where.table = table;
    where.stripes_log2 = (unsigned)__builtin_ctzll(table->region->shape.stripes);
    where.index = table_stripe(table, hash);
    uint64_t front = (uint64_t)(region_front(table->region) - table->region->segments);
    const char *slot =
        (const char *)wide_place(&where, front, wide_home(&where, hash, wide_places(&where, front))).slot;
    __builtin_prefetch(slot, 1);
    __builtin_prefetch(slot + 64, 1);
}

static bool wide_detach(struct weir_table *table, const struct key *key, int64_t now, struct journal *journal,
                        int64_t *state)
{
    struct locked_stripe locked;
    struct wide_ref place;
    if (!weir_wide_join(&locked, table, table_stripe(table, key->hash), journal))
        return false;
    now = max64(now, region_floor(table->region));
    if (!weir_wide_find(&locked, key, &place)) {
        if (!weir_wide_room(&locked, key->hash, now, &place))
            return false;
        wide_start_state(&locked, key->hash, now);
        weir_wide_insert(&locked, &place, key, now);
    }
    weir_wide_convert(&locked, &place);
    weir_wide_fetch(&locked, place.slot, state, now);
    weir_wide_save(&locked, place.slot, sizeof *place.slot);
    INVARIANT(19, INTACT(weir_journal_covers(table->region, journal, place.slot, sizeof *place.slot)));
    place.slot->flags |= WIDE_OVERRIDDEN;
    return true;
}

static bool wide_attach(struct weir_table *table, const struct key *key, struct journal *journal,
                        const int64_t *state)
{
    struct locked_stripe locked;
    struct wide_ref place;
    if (!weir_wide_join(&locked, table, table_stripe(table, key->hash), journal) ||
        !weir_wide_find(&locked, key, &place))
        return false;
    int64_t *words = wide_state(table, place.slot);
    size_t bytes = locked.edition->policy->words * sizeof *words;
    weir_wide_save(&locked, place.slot, sizeof *place.slot);
    weir_wide_save(&locked, words, bytes);
    INVARIANT(19, INTACT(weir_journal_covers(table->region, journal, words, bytes)));
    memcpy(words, state, bytes);
    place.slot->generation = (uint32_t)locked.edition->generation;
    place.slot->flags &= ~(uint32_t)WIDE_OVERRIDDEN;
    return true;
}

static void *wide_locate(struct weir_table *table, const struct key *key)
{
    struct locked_stripe locked;
    struct wide_ref place;
    bool found = weir_wide_join(&locked, table, table_stripe(table, key->hash), NULL) &&
                 weir_wide_find(&locked, key, &place);
    return found ? place.slot : NULL;
}

const struct table_kind weir_table_wide = {
    .run = wide_run_op,
    .has = wide_has_key,
    .prefetch = wide_prefetch,
    .sweep = weir_wide_sweep,
    .each = weir_wide_each,
    .count = weir_wide_count,
    .detach = wide_detach,
    .attach = wide_attach,
    .locate = wide_locate,
};
