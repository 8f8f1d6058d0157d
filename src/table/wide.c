/* SPDX-License-Identifier: MIT */
/*
 * Tables whose states are wider than a word, or whose keys are kept whole.
 *
 * Law: as core/state.c keeps it for a single state, for each key: its deeds are done one after the other,
 * under the lock of its stripe, to one state. Between a forgotten state and the next one of the same key
 * nothing is gained: see wide_slots.c. Keys that find no room share the stripe's overflow state; a key that
 * gets a slot while that is in use starts from a copy of it, for it may have spent there.
 */
#include "table/wide.h"

#include <string.h>

#include "table/takers.h"

/* ---- a key that is there ---- */

/* Writes what a deed has changed in the copy of the state back, and nothing else. */
static bool write_back(struct holding *holding, int64_t *state)
{
    const int64_t *copy = holding->scratch;
    size_t first = 0, end = holding->edition->policy->words;
    while (first < end && state[first] == copy[first])
        first++;
    while (end > first && state[end - 1] == copy[end - 1])
        end--;
    if (end - first == 1) {
        __atomic_store_n(&state[first], copy[first], __ATOMIC_RELAXED);
    } else if (end > first) {
        weir_journal_begin(holding->journal);
        weir_wide_save(holding, state + first, (end - first) * sizeof *state);
        memcpy(state + first, copy + first, (end - first) * sizeof *state);
        weir_journal_commit(holding->table->region, holding->journal);
    }
    return end > first;
}

static bool act_on_copy(struct holding *holding, struct wide *slot, struct deed *deed)
{
    weir_wide_fetch(holding, slot, holding->scratch, deed->now);
    bool answer = weir_deed_do(holding->edition->policy, holding->scratch, deed);
    deed->changed = write_back(holding, wide_state(holding->table, slot));
    return answer;
}

/* A state of some kilobytes, which nobody else can write to, is copied once, into the journal. */
static bool act_in_place(struct holding *holding, int64_t *state, struct deed *deed)
{
    const struct weir_policy *policy = holding->edition->policy;
    weir_journal_begin(holding->journal);
    weir_wide_save(holding, state, policy->words * sizeof *state);
    bool answer = weir_deed_do(policy, state, deed);
    weir_journal_commit(holding->table->region, holding->journal);
    deed->changed = weir_deed_may_change(policy, deed, answer);
    return answer;
}

static bool act(struct holding *holding, const struct place *place, struct deed *deed)
{
    const struct weir_table *table = holding->table;
    if (deed_reads(deed))
        return weir_deed_do(holding->edition->policy, wide_read(holding, place->slot, deed->now), deed);
    holding->changed = place->slot;
    return table->state_words > WIDE_SMALL && !table->copies
               ? act_in_place(holding, wide_state(table, place->slot), deed)
               : act_on_copy(holding, place->slot, deed);
}

/* ---- a key that is not ---- */

/* The stripe's overflow state. false: it is not in use. */
static bool find_overflow(struct holding *holding, int64_t now, struct place *place)
{
    *place = wide_place(holding, 0, wide_places(holding, 0) + WIDE_OVERFLOW);
    if (wide_who(place->slot) == 0)
        return false;
    if (!weir_wide_droppable(holding, place, now))
        return true;
    weir_wide_forget(holding, place, now);
    return false;
}

/* Fills `scratch` with the state from which a new key starts; true: with what is shared, because it may have
 * taken from it. */
static bool start(struct holding *holding, uint64_t who, int64_t now)
{
    const struct weir_policy *policy = holding->edition->policy;
    struct place overflow;
    bool shared = find_overflow(holding, now, &overflow) && weir_takers_have(holding->table, who);
    if (shared)
        weir_wide_fetch(holding, overflow.slot, holding->scratch, now);
    else
        weir_state_init(policy, holding->scratch, now);
    return shared;
}

/* The stripe's overflow state, in use from now on. */
static void open_overflow(struct holding *holding, int64_t now, struct place *place)
{
    static const struct key overflow = {.who = OVERFLOW_WHO};
    if (find_overflow(holding, now, place))
        return;
    weir_state_init(holding->edition->policy, holding->scratch, now);
    weir_wide_insert(holding, place, &overflow, now);
}

/* The same for a key that finds no room. false: out of memory. */
static bool share(struct holding *holding, int64_t now, struct place *place)
{
    if (!weir_takers_make(holding->table))
        return false;
    (void)atom_add(&holding->table->region->header->shared, 1, memory_order_relaxed);
    open_overflow(holding, now, place);
    return true;
}

/* What is charged is not shared: a single debt would be everybody's. Nor is what is given back. */
static bool act_without_room(struct holding *holding, const struct key *key, struct deed *deed)
{
    struct region_header *header = holding->table->region->header;
    struct place place;
    if (deed_lowers(deed))
        return true;
    if (holding->table->refuse_when_full || deed_charges(deed)) {
        (void)atom_add(&header->refused, 1, memory_order_relaxed);
        return weir_deed_full(deed);
    }
    if (!share(holding, deed->now, &place))
        return weir_deed_full(deed);
    bool answer = act(holding, &place, deed);
    if (weir_deed_may_change(holding->edition->policy, deed, answer))
        weir_takers_add(holding->table, key->who);
    weir_deed_shared(deed, answer);
    return answer;
}

/* As a take would be answered that finds no room: it is refused, or shares. */
static bool look_without_room(struct holding *holding, struct deed *deed)
{
    struct place place;
    if (holding->table->refuse_when_full)
        return weir_deed_full(deed);
    if (!find_overflow(holding, deed->now, &place))
        return true;
    bool answer = act(holding, &place, deed);
    weir_deed_shared(deed, answer);
    return answer;
}

static bool act_on_new(struct holding *holding, const struct key *key, struct deed *deed, bool *came)
{
    struct place place;
    bool insert = false;
    bool shared = start(holding, key->who, deed->now);
    bool answer = weir_deed_absent(holding->edition->policy, holding->scratch, shared, deed, &insert);
    if (shared && !answer && !insert &&
        deed_takes(deed)) /* refused by what is shared, as if it had come to it */
        (void)atom_add(&holding->table->region->header->shared, 1, memory_order_relaxed);
    if (shared && !insert)
        weir_deed_shared(deed, answer);
    bool would_insert = deed->verb == VERB_PEEK && answer && !table_may_wait(holding->table, 0) &&
                        holding->edition->policy->words > STATE_HEADER; /* else nobody has to come in */
    if (!insert && !would_insert)
        return answer;
    bool has_room = weir_wide_room(holding, key->who, deed->now, &place);
    if (!insert)
        return has_room || look_without_room(holding, deed);
    if (!has_room && holding->may_wait) {
        holding->crowded = true;
        return false;
    }
    if (!has_room)
        return act_without_room(holding, key, deed);
    (void)start(holding, key->who, deed->now); /* the look for room may have used the memory */
    answer = weir_deed_do(holding->edition->policy, holding->scratch, deed);
    weir_wide_insert(holding, &place, key, deed->now);
    holding->changed = place.slot;
    deed->changed = *came = true;
    return answer;
}

/* ---- the kind ---- */

static bool act_on_key(struct holding *holding, const struct key *key, struct deed *deed, bool *came)
{
    struct place place;
    bool answer;
    if (!weir_wide_find(holding, key, &place))
        return act_on_new(holding, key, deed, came);
    if ((place.slot->flags & WIDE_OVERRIDDEN) &&
        weir_override_run(holding->table, key, holding->stripe, deed, &answer)) {
        holding->changed = place.slot;
        return answer;
    }
    weir_wide_convert(holding, &place);
    return act(holding, &place, deed);
}

/* Not before the floor. A key that is there may be a new one with nothing in its log, which then knows of no
 * time: it would let pass again what passed, and was forgotten, at the time of an old reading. */
static bool act_under_lock(struct holding *holding, const struct key *key, struct deed *deed, bool *came)
{
    int64_t asked = deed->now;
    deed->now = max64(asked, region_floor(holding->table->region));
    bool answer = act_on_key(holding, key, deed, came);
    deed->now = asked;
    return answer;
}

static bool run(struct weir_table *table, const struct key *key, struct deed *deed)
{
    struct holding holding;
    bool came = false, answer, waited = true;
    uint64_t who;
    unsigned tries = 0;
    do {
        if (!weir_wide_enter(&holding, table, table_stripe(table, key->who)))
            return weir_deed_full(deed);
        holding.may_wait = waited && table_may_wait(table, tries);
        answer = act_under_lock(&holding, key, deed, &came);
        who = holding.changed ? wide_who(holding.changed) : 0; /* the key's, or OVERFLOW_WHO */
        weir_wide_leave(&holding);
        waited = holding.crowded && table_wait(table, &tries);
    } while (holding.crowded);
    if (deed->changed && who != 0)
        table_touch(table, holding.changed, who);
    if (came && table->names)
        weir_table_name(table, key);
    return answer;
}

bool weir_wide_shared(struct weir_table *table, uint64_t stripe, struct deed *deed)
{
    struct holding holding;
    struct place place;
    if (!weir_wide_enter(&holding, table, stripe))
        return false;
    deed->now = max64(deed->now, region_floor(table->region));
    if (!deed_reads(deed)) {
        open_overflow(&holding, deed->now, &place);
        if (!weir_takers_fill(table)) { /* not before: an idle one is forgotten, and its takers with it */
            weir_wide_leave(&holding);
            return false;
        }
    } else if (!find_overflow(&holding, deed->now, &place)) {
        deed->carried->idle = true;
        weir_wide_leave(&holding);
        return true;
    }
    bool answer = act(&holding, &place, deed);
    weir_wide_leave(&holding);
    if (deed->changed)
        table_touch(table, place.slot, OVERFLOW_WHO);
    return answer;
}

bool weir_wide_settle(struct holding *holding, const struct key *key, int64_t now, struct place *place)
{
    struct region_header *header = holding->table->region->header;
    if (weir_wide_find(holding, key, place)) {
        weir_wide_convert(holding, place);
        return true;
    }
    now = max64(now, region_floor(holding->table->region));
    if (weir_wide_room(holding, key->who, now, place)) {
        (void)start(holding, key->who, now);
        weir_wide_insert(holding, place, key, now);
        weir_table_name(holding->table, key);
    } else if (holding->table->refuse_when_full) {
        (void)atom_add(&header->refused, 1, memory_order_relaxed);
        return false;
    } else
        return share(holding, now, place);
    return true;
}

static bool has(struct weir_table *table, uint64_t who)
{
    struct holding holding;
    if (!weir_wide_enter(&holding, table, table_stripe(table, who)))
        return true; /* not known: what is there must not be taken for gone */
    bool found = weir_wide_has(&holding, who);
    weir_wide_leave(&holding);
    return found;
}

static void prefetch(struct weir_table *table, uint64_t who)
{
    struct holding where;
    where.table = table;
    where.stripes_log2 = (unsigned)__builtin_ctzll(table->region->shape.stripes);
    where.index = table_stripe(table, who);
    uint64_t front = (uint64_t)(region_front(table->region) - table->region->segments);
    const char *slot =
        (const char *)wide_place(&where, front, wide_home(&where, who, wide_places(&where, front))).slot;
    __builtin_prefetch(slot, 1);
    __builtin_prefetch(slot + 64, 1);
}

static bool detach(struct weir_table *table, const struct key *key, int64_t now, struct journal *journal,
                   int64_t *state)
{
    struct holding holding;
    struct place place;
    if (!weir_wide_join(&holding, table, table_stripe(table, key->who), journal))
        return false;
    now = max64(now, region_floor(table->region));
    if (!weir_wide_find(&holding, key, &place)) {
        if (!weir_wide_room(&holding, key->who, now, &place))
            return false;
        start(&holding, key->who, now);
        weir_wide_insert(&holding, &place, key, now);
    }
    weir_wide_convert(&holding, &place);
    weir_wide_fetch(&holding, place.slot, state, now);
    weir_wide_save(&holding, place.slot, sizeof *place.slot);
    place.slot->flags |= WIDE_OVERRIDDEN;
    return true;
}

static bool attach(struct weir_table *table, const struct key *key, struct journal *journal,
                   const int64_t *state)
{
    struct holding holding;
    struct place place;
    if (!weir_wide_join(&holding, table, table_stripe(table, key->who), journal) ||
        !weir_wide_find(&holding, key, &place))
        return false;
    int64_t *words = wide_state(table, place.slot);
    size_t bytes = holding.edition->policy->words * sizeof *words;
    weir_wide_save(&holding, place.slot, sizeof *place.slot);
    weir_wide_save(&holding, words, bytes);
    memcpy(words, state, bytes);
    place.slot->generation = (uint32_t)holding.edition->generation;
    place.slot->flags &= ~(uint32_t)WIDE_OVERRIDDEN;
    return true;
}

static void *locate(struct weir_table *table, const struct key *key)
{
    struct holding holding;
    struct place place;
    bool found = weir_wide_join(&holding, table, table_stripe(table, key->who), NULL) &&
                 weir_wide_find(&holding, key, &place);
    return found ? place.slot : NULL;
}

const struct table_kind weir_table_wide = {
    .run = run,
    .has = has,
    .prefetch = prefetch,
    .sweep = weir_wide_sweep,
    .each = weir_wide_each,
    .count = weir_wide_count,
    .detach = detach,
    .attach = attach,
    .locate = locate,
};
