/* SPDX-License-Identifier: MIT */
/*
 * Wide states come back from a store, by one thread. What is in a slot meanwhile is the state as it was
 * captured, of the generation that the slot says. A key with limits of its own has a slot that says so, and
 * its first word tells which they are.
 */
#include <stdlib.h>
#include <string.h>

#include "core/idle.h"
#include "os/clock.h"
#include "table/overflow_filter.h"
#include "table/persist/internal.h"
#include "table/wide.h"

/* ---- places ---- */

static uint64_t *wide_record_number(const struct locked_stripe *locked, const struct wide_ref *place)
{
    uint64_t *numbers = weir_recovery_numbers(locked->table, place->segment);
    return numbers ? &numbers[wide_line(locked, place->segment, place->at)] : NULL;
}

/* Is it empty, or may it be forgotten by now? */
static bool is_recovery_room(const struct locked_stripe *locked, const struct wide_ref *place, bool idle,
                             int64_t now)
{
    struct wide_slot *slot = place->slot;
    const struct edition *edition = locked->edition;
    if (wide_hash(slot) == 0 || !idle)
        return wide_hash(slot) == 0;
    return slot->flags == 0 && slot->generation == (uint32_t)edition->generation &&
           weir_state_idle_from(edition->policy, wide_state(locked->table, slot)) <= now - TABLE_GRACE_NS;
}

static bool find_recovery_room(const struct locked_stripe *locked, uint64_t hash, bool idle, int64_t now,
                               struct wide_ref *place)
{
    for (uint64_t segment = locked->segments; segment-- > 0;) {
        uint64_t places = wide_places(locked, segment), home = wide_home(locked, hash, places);
        for (uint64_t distance = 0; distance < places && distance <= WIDE_REACH_MAX; distance++) {
            *place = wide_place(locked, segment, wide_after(home, distance, places));
            if (is_recovery_room(locked, place, idle, now))
                return true;
        }
    }
    return false;
}

/* The key that has to make room. */
static bool remember_dropped_key(const struct locked_stripe *locked, const struct wide_ref *place)
{
    const uint64_t *number = wide_record_number(locked, place);
    struct gone_record gone = {wide_hash(place->slot), number ? *number : 0};
    return number && weir_recovery_gone(locked->table->recovery, &gone);
}

enum wide_settling { WAS_THERE, CAME, NO_MEMORY };

/* The key's place, or one for it, under the lock of its stripe. NO_MEMORY: no lock, either. */
static enum wide_settling settle_wide_key(struct locked_stripe *locked, struct weir_table *table,
                                          const struct key *key, struct wide_ref *place)
{
    int64_t now = region_time(table->region, clock_now());
    for (;;) {
        if (!weir_wide_enter(locked, table, table_stripe(table, key->hash)))
            return NO_MEMORY;
        if (weir_wide_find(locked, key, place))
            return WAS_THERE;
        if (find_recovery_room(locked, key->hash, false, now, place) ||
            (find_recovery_room(locked, key->hash, true, now, place) &&
             remember_dropped_key(locked, place))) {
            weir_state_init(locked->edition->policy, locked->scratch, 0);
            weir_wide_insert(locked, place, key, now);
            return CAME;
        }
        weir_wide_leave(locked);
        if (!weir_recovery_grow(table))
            return NO_MEMORY;
    }
}

/* What keys of the stripe share. */
static enum wide_settling settle_wide_overflow(struct locked_stripe *locked, struct weir_table *table,
                                               uint64_t stripe, struct wide_ref *place)
{
    static const struct key overflow = {.hash = OVERFLOW_HASH};
    if (!weir_wide_enter(locked, table, stripe))
        return NO_MEMORY;
    *place = wide_place(locked, 0, wide_places(locked, 0) + WIDE_OVERFLOW);
    if (wide_hash(place->slot) != 0)
        return WAS_THERE;
    weir_state_init(locked->edition->policy, locked->scratch, 0);
    weir_wide_insert(locked, place, &overflow, 0);
    return CAME;
}

/* ---- records ---- */

struct wide_record {
    struct key key;
    uint64_t number, stripe;
    const struct edition *edition;
    const int64_t *state;
};

static uint64_t wide_body_word(const unsigned char *body, size_t at)
{
    uint64_t word;
    memcpy(&word, body + at, sizeof word);
    return word;
}

/* Who, number and what comes before the state; gives where the state begins, or 0. */
static size_t read_wide_head(struct weir_table *table, const unsigned char *body, size_t len,
                             struct wide_record *record)
{
    size_t at = 16;
    if (len < 24)
        return 0;
    *record = (struct wide_record){.key.hash = wide_body_word(body, 0), .number = wide_body_word(body, 8)};
    if (record->key.hash < OVERFLOW_HASH)
        return 0;
    if (record->key.hash == OVERFLOW_HASH) {
        record->stripe = wide_body_word(body, 16);
        return record->stripe < table->region->shape.stripes ? 24 : 0;
    }
    if (table->key_max > 0) {
        record->key.len = wide_body_word(body, 16);
        record->key.bytes = body + 24;
        at = 24 + whole_words(record->key.len <= table->key_max ? record->key.len : 0);
        if (record->key.len > table->key_max || at > len ||
            table_hash(table, record->key.bytes, record->key.len) != record->key.hash)
            return 0;
    }
    return at;
}

static bool read_wide_record(struct weir_table *table, const unsigned char *body, size_t len,
                             struct wide_record *record)
{
    size_t at = read_wide_head(table, body, len, record);
    record->edition = at > 0 ? weir_recovery_edition(table, record->number) : NULL;
    if (!record->edition || len - at != record->edition->policy->words * sizeof *record->state)
        return false;
    record->state = (const int64_t *)(const void *)(body + at);
    return weir_state_valid(record->edition->policy, record->state);
}

/* The key has no limits of its own, as far as is known. */
static void clear_override(struct weir_table *table, struct wide_slot *slot)
{
    if (slot->flags & WIDE_OVERRIDDEN)
        table->recovery->overrides[wide_state(table, slot)[0]].slot = NULL;
    slot->flags = 0;
}

bool weir_wide_apply(struct weir_table *table, const unsigned char *body, size_t len, bool *failed)
{
    struct wide_record record;
    struct locked_stripe locked;
    struct wide_ref place;
    if (!read_wide_record(table, body, len, &record))
        return false;
    weir_recovery_note_number(table->recovery, record.number);
    if (weir_recovery_is_gone(table->recovery, record.key.hash, record.number, 0))
        return true;
    enum wide_settling settling = record.key.hash == OVERFLOW_HASH
                                      ? settle_wide_overflow(&locked, table, record.stripe, &place)
                                      : settle_wide_key(&locked, table, &record.key, &place);
    uint64_t *number = settling != NO_MEMORY ? wide_record_number(&locked, &place) : NULL;
    if (!number)
        *failed = true;
    else if (settling == CAME || record_counts(record.number, 1, *number, 0)) {
        clear_override(table, place.slot);
        place.slot->generation = (uint32_t)record.edition->generation;
        memcpy(wide_state(table, place.slot), record.state,
               record.edition->policy->words * sizeof *record.state);
        *number = record.number;
    }
    if (settling != NO_MEMORY)
        weir_wide_leave(&locked);
    return true;
}

bool weir_wide_apply_override(struct weir_table *table, uint64_t drawn, struct override_record *own,
                              size_t len, bool *failed)
{
    struct locked_stripe locked;
    struct wide_ref place;
    uint64_t at = UINT64_MAX;
    weir_recovery_note_number(table->recovery, drawn);
    if (weir_recovery_is_gone(table->recovery, own->key.hash, drawn, 0))
        return true;
    enum wide_settling settling = settle_wide_key(&locked, table, &own->key, &place);
    uint64_t *number = settling != NO_MEMORY ? wide_record_number(&locked, &place) : NULL;
    if (number && (settling == CAME || record_counts(drawn, 1, *number, 0))) {
        if (place.slot->flags & WIDE_OVERRIDDEN)
            at = (uint64_t)wide_state(table, place.slot)[0];
        own->slot = place.slot;
        if (weir_recovery_override(table->recovery, own, len, &at)) {
            place.slot->flags = WIDE_OVERRIDDEN;
            wide_state(table, place.slot)[0] = (int64_t)at;
            *number = drawn;
        } else
            number = NULL;
    }
    if (!number)
        *failed = true;
    if (settling != NO_MEMORY)
        weir_wide_leave(&locked);
    return true;
}

/* All keys that are called so, if nothing later is known of them. */
bool weir_wide_apply_gone(struct weir_table *table, const struct gone_record *gone, bool *failed)
{
    struct locked_stripe locked;
    if (gone->hash <= OVERFLOW_HASH || !weir_recovery_edition(table, gone->number))
        return false;
    weir_recovery_note_number(table->recovery, gone->number);
    if (!weir_recovery_gone(table->recovery, gone) ||
        !weir_wide_enter(&locked, table, table_stripe(table, gone->hash))) {
        *failed = true;
        return true;
    }
    for (uint64_t segment = 0; segment < locked.segments; segment++) {
        uint64_t places = wide_places(&locked, segment), home = wide_home(&locked, gone->hash, places);
        for (uint64_t d = 0; d <= wide_reach(&locked, segment, home); d++) {
            struct wide_ref place = wide_place(&locked, segment, wide_after(home, d, places));
            if (wide_hash(place.slot) != gone->hash ||
                !record_counts(gone->number, 1, *wide_record_number(&locked, &place), 0))
                continue;
            clear_override(table, place.slot);
            weir_wide_forget(&locked, &place, 0);
        }
    }
    weir_wide_leave(&locked);
    return true;
}

/* ---- records in pieces ---- */

static bool make_piece_room(struct table_recovery *recovery, size_t bytes)
{
    if (bytes <= recovery->pieces_room)
        return true;
    unsigned char *pieces = realloc(recovery->pieces, bytes);
    if (!pieces)
        return false;
    recovery->pieces = pieces;
    recovery->pieces_room = bytes;
    return true;
}

/* A piece that does not follow the one before makes all of it nothing: somebody was cut off, and begins anew.
 */
bool weir_wide_apply_part(struct weir_table *table, const unsigned char *body, size_t len, bool *failed)
{
    struct table_recovery *recovery = table->recovery;
    size_t most = 32 + 4104 + table->state_words * sizeof(int64_t);
    if (len <= 32)
        return false;
    uint64_t hash = wide_body_word(body, 0), number = wide_body_word(body, 8), at = wide_body_word(body, 16),
             all = wide_body_word(body, 24);
    if (all > most || at > all || len - 32 > all - at)
        return false;
    if (at == 0) {
        recovery->pieces_len = 0;
        recovery->pieces_all = all;
        recovery->pieces_hash = hash;
        recovery->pieces_number = number;
    } else if (at != recovery->pieces_len || all != recovery->pieces_all || hash != recovery->pieces_hash ||
               number != recovery->pieces_number)
        return false;
    if (!make_piece_room(recovery, all)) {
        *failed = true;
        return true;
    }
    memcpy(recovery->pieces + at, body + 32, len - 32);
    recovery->pieces_len = at + len - 32;
    if (recovery->pieces_len < all)
        return true;
    recovery->pieces_len = 0;
    return weir_wide_apply(table, recovery->pieces, all, failed);
}

/* ---- the end ---- */

struct ending {
    enum table_recover how;
    int64_t now;
    int64_t *spare; /* a state */
};

/* Step by step, through all limits that came after those of the state. true: the key may have been forgotten
 * when one of them came. */
static bool bring_wide_state(const struct edition *latest, struct wide_slot *slot, int64_t *state,
                             int64_t *spare)
{
    bool shared = wide_hash(slot) == OVERFLOW_HASH, idle = false;
    while (slot->generation != (uint32_t)latest->generation) {
        const struct edition *next = latest;
        while ((uint32_t)next->older->generation != slot->generation)
            next = next->older;
        const struct weir_policy *policy = next->older->policy;
        int64_t idle_from = weir_state_idle_from(policy, state);
        idle = idle || (!shared && idle_from <= next->time - TABLE_GRACE_NS);
        if (shared && idle_from <= next->time)
            weir_state_init(next->policy, spare, next->time); /* as in wide_slots.c */
        else
            weir_state_change(policy, state, next->policy, spare, next->time);
        memcpy(state, spare, next->policy->words * sizeof *state);
        slot->generation = (uint32_t)next->generation;
    }
    return idle;
}

/* A key that may be forgotten goes, as in recover_words.c. */
static void end_wide_slot(struct locked_stripe *locked, const struct wide_ref *place, void *arg)
{
    const struct ending *ending = arg;
    struct wide_slot *slot = place->slot;
    const struct edition *latest = locked->edition;
    int64_t *state = wide_state(locked->table, slot);
    if (slot->flags & WIDE_OVERRIDDEN) {
        weir_state_init(latest->policy, state, ending->now);
        slot->generation = (uint32_t)latest->generation;
        return;
    }
    if (ending->how == TABLE_OPTIMISTIC) {
        atom_store(&slot->hash, 0, memory_order_release);
        return;
    }
    bool idle = bring_wide_state(latest, slot, state, ending->spare);
    if (ending->how == TABLE_FLOOR)
        weir_recovery_drain(latest->policy, state, ending->now);
    else if (idle || weir_wide_droppable(locked, place, ending->now))
        weir_wide_forget(locked, place, ending->now);
}

static void end_and_count(struct locked_stripe *locked, const struct wide_ref *place, void *arg)
{
    end_wide_slot(locked, place, arg);
    locked->table->recovered += wide_hash(place->slot) > OVERFLOW_HASH;
}

/* New keys start from what the stripe's keys share. */
static bool drain_shared(struct weir_table *table, int64_t now)
{
    struct locked_stripe locked;
    struct wide_ref place;
    for (uint64_t stripe = 0; stripe < table->region->shape.stripes; stripe++) {
        enum wide_settling settling = settle_wide_overflow(&locked, table, stripe, &place);
        if (settling == NO_MEMORY)
            return false;
        if (settling == CAME) {
            int64_t *state = wide_state(table, place.slot);
            weir_state_init(locked.edition->policy, state, now);
            weir_recovery_drain(locked.edition->policy, state, now);
        }
        weir_wide_leave(&locked);
    }
    return true;
}

bool weir_wide_recovered(struct weir_table *table, enum table_recover how, int64_t now)
{
    struct ending ending = {how, now, calloc(table->state_words, sizeof(int64_t))};
    bool done = ending.spare && weir_wide_visit(table, 0, UINT64_MAX, end_and_count, &ending);
    atom_store(&table->region->occupied, table->recovered, memory_order_relaxed);
    if (done && how == TABLE_FLOOR)
        done = drain_shared(table, now);
    free(ending.spare);
    return done &&
           weir_overflow_filter_fill(table); /* who had taken from what is shared is not on the disk */
}
