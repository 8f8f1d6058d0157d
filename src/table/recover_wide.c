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
#include "table/keep_kinds.h"
#include "table/takers.h"
#include "table/wide.h"

/* ---- places ---- */

static uint64_t *number_of(const struct holding *holding, const struct place *place)
{
    uint64_t *numbers = weir_recovery_numbers(holding->table, place->segment);
    return numbers ? &numbers[wide_line(holding, place->segment, place->at)] : NULL;
}

/* Is it empty, or may it be forgotten by now? */
static bool is_room(const struct holding *holding, const struct place *place, bool idle, int64_t now)
{
    struct wide *slot = place->slot;
    const struct edition *edition = holding->edition;
    if (wide_who(slot) == 0 || !idle)
        return wide_who(slot) == 0;
    return slot->flags == 0 && slot->generation == (uint32_t)edition->generation &&
           weir_state_idle_from(edition->policy, wide_state(holding->table, slot)) <= now - TABLE_GRACE_NS;
}

static bool find_room(const struct holding *holding, uint64_t who, bool idle, int64_t now,
                      struct place *place)
{
    for (uint64_t segment = holding->segments; segment-- > 0;) {
        uint64_t places = wide_places(holding, segment), home = wide_home(holding, who, places);
        for (uint64_t distance = 0; distance < places && distance <= WIDE_REACH_MAX; distance++) {
            *place = wide_place(holding, segment, wide_after(home, distance, places));
            if (is_room(holding, place, idle, now))
                return true;
        }
    }
    return false;
}

/* The key that has to make room. */
static bool remember(const struct holding *holding, const struct place *place)
{
    const uint64_t *number = number_of(holding, place);
    struct gone_record gone = {wide_who(place->slot), number ? *number : 0};
    return number && weir_recovery_gone(holding->table->recovery, &gone);
}

enum settling { WAS_THERE, CAME, NO_MEMORY };

/* The key's place, or one for it, under the lock of its stripe. NO_MEMORY: no lock, either. */
static enum settling settle(struct holding *holding, struct weir_table *table, const struct key *key,
                            struct place *place)
{
    int64_t now = region_time(table->region, clock_now());
    for (;;) {
        if (!weir_wide_enter(holding, table, table_stripe(table, key->who)))
            return NO_MEMORY;
        if (weir_wide_find(holding, key, place))
            return WAS_THERE;
        if (find_room(holding, key->who, false, now, place) ||
            (find_room(holding, key->who, true, now, place) && remember(holding, place))) {
            weir_state_init(holding->edition->policy, holding->scratch, 0);
            weir_wide_insert(holding, place, key, now);
            return CAME;
        }
        weir_wide_leave(holding);
        if (!weir_recovery_grow(table))
            return NO_MEMORY;
    }
}

/* What keys of the stripe share. */
static enum settling settle_shared(struct holding *holding, struct weir_table *table, uint64_t stripe,
                                   struct place *place)
{
    static const struct key overflow = {.who = OVERFLOW_WHO};
    if (!weir_wide_enter(holding, table, stripe))
        return NO_MEMORY;
    *place = wide_place(holding, 0, wide_places(holding, 0) + WIDE_OVERFLOW);
    if (wide_who(place->slot) != 0)
        return WAS_THERE;
    weir_state_init(holding->edition->policy, holding->scratch, 0);
    weir_wide_insert(holding, place, &overflow, 0);
    return CAME;
}

/* ---- records ---- */

struct wide_record {
    struct key key;
    uint64_t number, stripe;
    const struct edition *edition;
    const int64_t *state;
};

static uint64_t word_at(const unsigned char *body, size_t at)
{
    uint64_t word;
    memcpy(&word, body + at, sizeof word);
    return word;
}

/* Who, number and what comes before the state; gives where the state begins, or 0. */
static size_t read_head(struct weir_table *table, const unsigned char *body, size_t len,
                        struct wide_record *record)
{
    size_t at = 16;
    if (len < 24)
        return 0;
    *record = (struct wide_record){.key.who = word_at(body, 0), .number = word_at(body, 8)};
    if (record->key.who < OVERFLOW_WHO)
        return 0;
    if (record->key.who == OVERFLOW_WHO) {
        record->stripe = word_at(body, 16);
        return record->stripe < table->region->shape.stripes ? 24 : 0;
    }
    if (table->key_max > 0) {
        record->key.len = word_at(body, 16);
        record->key.bytes = body + 24;
        at = 24 + whole_words(record->key.len <= table->key_max ? record->key.len : 0);
        if (record->key.len > table->key_max || at > len ||
            table_who(table, record->key.bytes, record->key.len) != record->key.who)
            return 0;
    }
    return at;
}

static bool read_record(struct weir_table *table, const unsigned char *body, size_t len,
                        struct wide_record *record)
{
    size_t at = read_head(table, body, len, record);
    record->edition = at > 0 ? weir_recovery_edition(table, record->number) : NULL;
    if (!record->edition || len - at != record->edition->policy->words * sizeof *record->state)
        return false;
    record->state = (const int64_t *)(const void *)(body + at);
    return weir_state_valid(record->edition->policy, record->state);
}

/* The key has no limits of its own, as far as is known. */
static void clear_own(struct weir_table *table, struct wide *slot)
{
    if (slot->flags & WIDE_OVERRIDDEN)
        table->recovery->owns[wide_state(table, slot)[0]].slot = NULL;
    slot->flags = 0;
}

bool weir_wide_apply(struct weir_table *table, const unsigned char *body, size_t len, bool *failed)
{
    struct wide_record record;
    struct holding holding;
    struct place place;
    if (!read_record(table, body, len, &record))
        return false;
    weir_recovery_note_number(table->recovery, record.number);
    if (weir_recovery_is_gone(table->recovery, record.key.who, record.number, 0))
        return true;
    enum settling settling = record.key.who == OVERFLOW_WHO
                                 ? settle_shared(&holding, table, record.stripe, &place)
                                 : settle(&holding, table, &record.key, &place);
    uint64_t *number = settling != NO_MEMORY ? number_of(&holding, &place) : NULL;
    if (!number)
        *failed = true;
    else if (settling == CAME || record_counts(record.number, 1, *number, 0)) {
        clear_own(table, place.slot);
        place.slot->generation = (uint32_t)record.edition->generation;
        memcpy(wide_state(table, place.slot), record.state,
               record.edition->policy->words * sizeof *record.state);
        *number = record.number;
    }
    if (settling != NO_MEMORY)
        weir_wide_leave(&holding);
    return true;
}

bool weir_wide_apply_own(struct weir_table *table, uint64_t drawn, struct own_record *own, size_t len,
                         bool *failed)
{
    struct holding holding;
    struct place place;
    uint64_t at = UINT64_MAX;
    weir_recovery_note_number(table->recovery, drawn);
    if (weir_recovery_is_gone(table->recovery, own->key.who, drawn, 0))
        return true;
    enum settling settling = settle(&holding, table, &own->key, &place);
    uint64_t *number = settling != NO_MEMORY ? number_of(&holding, &place) : NULL;
    if (number && (settling == CAME || record_counts(drawn, 1, *number, 0))) {
        if (place.slot->flags & WIDE_OVERRIDDEN)
            at = (uint64_t)wide_state(table, place.slot)[0];
        own->slot = place.slot;
        if (weir_recovery_own(table->recovery, own, len, &at)) {
            place.slot->flags = WIDE_OVERRIDDEN;
            wide_state(table, place.slot)[0] = (int64_t)at;
            *number = drawn;
        } else
            number = NULL;
    }
    if (!number)
        *failed = true;
    if (settling != NO_MEMORY)
        weir_wide_leave(&holding);
    return true;
}

/* All keys that are called so, if nothing later is known of them. */
bool weir_wide_apply_gone(struct weir_table *table, const struct gone_record *gone, bool *failed)
{
    struct holding holding;
    if (gone->who <= OVERFLOW_WHO || !weir_recovery_edition(table, gone->number))
        return false;
    weir_recovery_note_number(table->recovery, gone->number);
    if (!weir_recovery_gone(table->recovery, gone) ||
        !weir_wide_enter(&holding, table, table_stripe(table, gone->who))) {
        *failed = true;
        return true;
    }
    for (uint64_t segment = 0; segment < holding.segments; segment++) {
        uint64_t places = wide_places(&holding, segment), home = wide_home(&holding, gone->who, places);
        for (uint64_t d = 0; d <= wide_reach(&holding, segment, home); d++) {
            struct place place = wide_place(&holding, segment, wide_after(home, d, places));
            if (wide_who(place.slot) != gone->who ||
                !record_counts(gone->number, 1, *number_of(&holding, &place), 0))
                continue;
            clear_own(table, place.slot);
            weir_wide_forget(&holding, &place, 0);
        }
    }
    weir_wide_leave(&holding);
    return true;
}

/* ---- records in pieces ---- */

static bool make_room(struct table_recovery *recovery, size_t bytes)
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
    uint64_t who = word_at(body, 0), number = word_at(body, 8), at = word_at(body, 16),
             all = word_at(body, 24);
    if (all > most || at > all || len - 32 > all - at)
        return false;
    if (at == 0) {
        recovery->pieces_len = 0;
        recovery->pieces_all = all;
        recovery->pieces_who = who;
        recovery->pieces_number = number;
    } else if (at != recovery->pieces_len || all != recovery->pieces_all || who != recovery->pieces_who ||
               number != recovery->pieces_number)
        return false;
    if (!make_room(recovery, all)) {
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
static bool bring(const struct edition *latest, struct wide *slot, int64_t *state, int64_t *spare)
{
    bool shared = wide_who(slot) == OVERFLOW_WHO, idle = false;
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
static void end_slot(struct holding *holding, const struct place *place, void *arg)
{
    const struct ending *ending = arg;
    struct wide *slot = place->slot;
    const struct edition *latest = holding->edition;
    int64_t *state = wide_state(holding->table, slot);
    if (slot->flags & WIDE_OVERRIDDEN) {
        weir_state_init(latest->policy, state, ending->now);
        slot->generation = (uint32_t)latest->generation;
        return;
    }
    if (ending->how == TABLE_OPTIMISTIC) {
        atom_store(&slot->who, 0, memory_order_release);
        return;
    }
    bool idle = bring(latest, slot, state, ending->spare);
    if (ending->how == TABLE_FLOOR)
        weir_recovery_drain(latest->policy, state, ending->now);
    else if (idle || weir_wide_droppable(holding, place, ending->now))
        weir_wide_forget(holding, place, ending->now);
}

static void end_and_count(struct holding *holding, const struct place *place, void *arg)
{
    end_slot(holding, place, arg);
    holding->table->recovered += wide_who(place->slot) > OVERFLOW_WHO;
}

/* New keys start from what the stripe's keys share. */
static bool drain_shared(struct weir_table *table, int64_t now)
{
    struct holding holding;
    struct place place;
    for (uint64_t stripe = 0; stripe < table->region->shape.stripes; stripe++) {
        enum settling settling = settle_shared(&holding, table, stripe, &place);
        if (settling == NO_MEMORY)
            return false;
        if (settling == CAME) {
            int64_t *state = wide_state(table, place.slot);
            weir_state_init(holding.edition->policy, state, now);
            weir_recovery_drain(holding.edition->policy, state, now);
        }
        weir_wide_leave(&holding);
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
    return done && weir_takers_fill(table); /* who had taken from what is shared is not on the disk */
}
