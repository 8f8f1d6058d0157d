/* SPDX-License-Identifier: MIT */
/*
 * Words come back from a store, by one thread: no exchange, no tentative entries. Records are gathered and
 * their lines asked for, and put in place when they have arrived. What is in a slot meanwhile is the word as
 * it was captured; its generation is that of its number. A word of a key with limits of its own is held, and
 * its value tells which of them.
 */
#include "table/persist/recover_words.h"
#include "base/assert.h"
#include "os/clock.h"
#include "table/change.h"
#include "table/history.h"
#include "table/overflow_filter.h"
#include "table/persist/recover.h"
#include "table/slots.h"
#include "table/words.h"

struct word_home {
    struct slot *slot;
    uint64_t *number; /* of what is in it */
    atom128 *witness; /* of whole keys; else NULL */
};

static struct word_home home_at(const struct segment *segment, uint64_t *numbers, uint64_t at)
{
    return (struct word_home){region_slot(segment, at), &numbers[at],
                              segment->witnesses ? &segment->witnesses[at] : NULL};
}

static uint64_t line_at(const struct segment *segment, uint64_t home, unsigned distance)
{
    uint64_t line = home + distance;
    return line < segment->lines ? line : line % segment->lines;
}

static unsigned recovered_reach_max(const struct segment *segment)
{
    return segment->lines > REACH_MAX ? REACH_MAX : (unsigned)segment->lines - 1;
}

static void put_recovered_word(const struct slot *slot, uint64_t hash, uint64_t word)
{
    struct slot *to = (struct slot *)(uintptr_t)slot;
    atom_store(&to->both.low, hash, memory_order_relaxed);
    atom_store(&to->both.high, word, memory_order_relaxed);
}

/* Under a number that is nobody's: all that are drawn are higher. */
static void put_witness(const struct word_home *home, uint64_t rest, uint64_t form)
{
    if (!home->witness)
        return;
    atom_store(&home->witness->low, rest, memory_order_relaxed);
    atom_store(&home->witness->high, form, memory_order_relaxed);
}

static uint64_t recovered_hash(const struct slot *slot)
{
    return atom_load(&slot->both.low, memory_order_relaxed);
}

static uint64_t recovered_word(const struct slot *slot)
{
    return atom_load(&slot->both.high, memory_order_relaxed);
}

/* ---- limits ---- */

/* Step by step, from the limits of `generation` on. A key that may have been forgotten when limits changed
 * is: *idle. What is shared stays as if never used then. */
static uint64_t bring_word(const struct weir_table *table, const struct edition *edition, uint64_t generation,
                           uint64_t word, bool *idle)
{
    const struct edition *before = edition->older;
    if (edition->generation == generation || !before)
        return word;
    word = bring_word(table, before, generation, word, idle);
    if (edition->generation != before->generation + 1) /* the same limits: see pass_orphans */
        return slot_pack(slot_kind(word), (unsigned)edition->generation & 3, slot_value(word));
    if (!idle)
        return weir_slot_word_convert_shared(table, edition, word);
    if (slot_value(word) <= weir_slot_word_fresh(table, before, edition->time - TABLE_GRACE_NS))
        *idle = true;
    return weir_slot_word_convert(table, edition, word);
}

/* The word as it is under `edition`. `idle` NULL: it is what keys without room share. */
static uint64_t bring_word_of_number(const struct weir_table *table, const struct edition *edition,
                                     uint64_t number, uint64_t word, bool *idle)
{
    if (table->kind == &weir_table_own || (uint16_t)edition->generation == record_generation(number))
        return word;
    return bring_word(table, edition, weir_edition_of_number(edition, number)->generation, word, idle);
}

/* ---- places ---- */

/* The key's slot in a segment, or the first that is empty. Gives true if it is the key's. */
static bool search_segment(const struct segment *segment, uint64_t *numbers, uint64_t hash, unsigned from,
                           unsigned to, struct word_home *free, unsigned *distance)
{
    uint64_t home = hash_to_index(hash, segment->lines);
    for (unsigned d = from; d <= to; d++) {
        uint64_t line = line_at(segment, home, d);
        struct slot *slot = region_slot(segment, line * LINE_SLOTS);
        for (uint64_t i = 0; i < LINE_SLOTS; i++, slot++) {
            uint64_t is = recovered_hash(slot);
            if (is == hash) {
                *free = home_at(segment, numbers, line * LINE_SLOTS + i);
                return true;
            }
            if (is == 0 && !free->slot) {
                *free = home_at(segment, numbers, line * LINE_SLOTS + i);
                *distance = d;
            }
        }
    }
    return false;
}

static void raise_recovered_reach(const struct segment *segment, uint64_t hash, unsigned distance)
{
    _Atomic unsigned char *reach = &segment->reach[hash_to_index(hash, segment->lines)];
    if (atomic_load_explicit(reach, memory_order_relaxed) < distance)
        atomic_store_explicit(reach, (unsigned char)distance, memory_order_relaxed);
}

/* A key that may be forgotten by now goes for one that comes in. */
static bool clear_idle_word(struct weir_table *table, const struct segment *segment, uint64_t *numbers,
                            uint64_t hash)
{
    struct table_recovery *recovery = table->recovery;
    int64_t now = region_time(table->region, clock_now());
    uint64_t home = hash_to_index(hash, segment->lines);
    for (unsigned d = 0; d <= recovered_reach_max(segment); d++) {
        uint64_t first = line_at(segment, home, d) * LINE_SLOTS;
        for (uint64_t at = first; at < first + LINE_SLOTS; at++) {
            struct slot *slot = region_slot(segment, at);
            uint64_t word = recovered_word(slot);
            const struct edition *edition = weir_edition_of_number(recovery->newest, numbers[at]);
            if (slot_kind(word) != SLOT_PLAIN || edition->generation != recovery->generation ||
                slot_value(word) > weir_slot_word_fresh(table, edition, now - TABLE_GRACE_NS))
                continue;
            struct gone_record gone = {recovered_hash(slot), numbers[at]};
            if (!weir_recovery_gone(recovery, &gone))
                return false;
            put_recovered_word(slot, 0, 0);
            return true;
        }
    }
    return false;
}

/* The key's slot, or one for it. */
static enum key_settling settle_word_key(struct weir_table *table, uint64_t hash, struct word_home *home)
{
    for (;;) {
        struct region *region = table->region;
        uint64_t count = atom_load(&region->mapped, memory_order_relaxed);
        for (uint64_t s = 0; s < count; s++) {
            struct segment *segment = &region->segments[s];
            uint64_t *numbers = weir_recovery_numbers(table, s);
            unsigned reach = atomic_load_explicit(&segment->reach[hash_to_index(hash, segment->lines)],
                                                  memory_order_relaxed);
            unsigned most = recovered_reach_max(segment), distance = 0;
            if (!numbers)
                return NO_MEMORY;
            *home = (struct word_home){NULL, NULL, NULL};
            if (search_segment(segment, numbers, hash, 0, reach < most ? reach : most, home, &distance))
                return WAS_THERE;
            if (s + 1 < count)
                continue; /* new keys live in the last segment: those before it were full */
            if (!home->slot)
                (void)search_segment(segment, numbers, hash, reach + 1, most, home, &distance);
            if (!home->slot && clear_idle_word(table, segment, numbers, hash))
                (void)search_segment(segment, numbers, hash, 0, most, home, &distance);
            if (home->slot) {
                raise_recovered_reach(segment, hash, distance);
                return CAME;
            }
        }
        if (!weir_recovery_grow(table))
            return NO_MEMORY;
    }
}

/* ---- records ---- */

static uint64_t word_spent(uint64_t word)
{
    return slot_kind(word) == SLOT_HELD ? UINT64_MAX : record_spent(word);
}

/* 38, said once more: what is kept has the higher number, then the later limits, then more is spent. */
static inline void check_merged(uint64_t kept, uint64_t kept_spent, uint64_t lost, uint64_t lost_spent)
{
    uint64_t a = kept & RECORD_NUMBER_MAX, b = lost & RECORD_NUMBER_MAX;
    int16_t later = (int16_t)(uint16_t)(record_generation(kept) - record_generation(lost));
    INVARIANT(38, a >= b && (a > b || later >= 0));
    INVARIANT(38, a > b || later > 0 || kept_spent >= lost_spent);
}

/* A word takes the place of what is there, if it counts. */
static bool apply_word_record(struct weir_table *table, const struct word_record *record)
{
    struct word_home home;
    if (weir_recovery_is_gone(table->recovery, record->hash, record->number, record_spent(record->word)))
        return true;
    enum key_settling settling = settle_word_key(table, record->hash, &home);
    if (settling == NO_MEMORY)
        return false;
    uint64_t there = recovered_word(home.slot);
    if (settling == WAS_THERE &&
        !record_counts(record->number, record_spent(record->word), *home.number, word_spent(there))) {
        check_merged(*home.number, word_spent(there), record->number, record_spent(record->word));
        return true;
    }
    if (settling == WAS_THERE)
        check_merged(record->number, record_spent(record->word), *home.number, word_spent(there));
    if (settling == WAS_THERE && slot_kind(there) == SLOT_HELD)
        table->recovery->overrides[slot_value(there)].slot = NULL;
    put_recovered_word(home.slot, record->hash, record->word);
    put_witness(&home, record->rest, record->form);
    *home.number = record->number;
    return true;
}

bool weir_words_apply_pending(struct weir_table *table)
{
    struct table_recovery *recovery = table->recovery;
    bool landed = true;
    for (size_t i = 0; i < recovery->pending_count; i++)
        landed = apply_word_record(table, &recovery->pending[i]) && landed;
    recovery->pending_count = 0;
    return landed;
}

static void apply_shared(struct weir_table *table, const struct word_record *record)
{
    struct table_recovery *recovery = table->recovery;
    struct slot *shared = &table->policies->overflow;
    if (recovery->has_shared && !record_counts(record->number, record_spent(record->word),
                                               recovery->shared_number, record_spent(recovered_word(shared))))
        return;
    recovery->has_shared = true;
    recovery->shared_number = record->number;
    put_recovered_word(shared, OVERFLOW_HASH, record->word);
}

static bool is_valid_word(const struct weir_table *table, uint64_t number, uint64_t word)
{
    enum slot_kind kind = slot_kind(word);
    if (table->kind == &weir_table_own)
        return kind == SLOT_PLAIN && slot_generation(word) == 0;
    return (kind == SLOT_PLAIN || kind == SLOT_PROMISED) &&
           slot_generation(word) == (record_generation(number) & 3);
}

bool weir_words_apply(struct weir_table *table, const struct word_record *record, bool *failed)
{
    struct table_recovery *recovery = table->recovery;
    const struct segment *segment = &table->region->segments[0];
    if (record->hash < OVERFLOW_HASH || !is_valid_word(table, record->number, record->word) ||
        !weir_recovery_edition(table, record->number))
        return false;
    weir_recovery_note_number(recovery, record->number);
    if (record->hash == OVERFLOW_HASH) {
        apply_shared(table, record);
        return true;
    }
    slots_prefetch(segment, record->hash);
    uint64_t line = hash_to_index(record->hash, segment->lines);
    __builtin_prefetch((const void *)(uintptr_t)&segment->reach[line]);
    if (segment->witnesses)
        __builtin_prefetch(&segment->witnesses[line * LINE_SLOTS], 1);
    if (recovery->numbers[0])
        __builtin_prefetch(recovery->numbers[0] + line * LINE_SLOTS, 1);
    recovery->pending[recovery->pending_count++] = *record;
    if (recovery->pending_count == RECOVERY_PENDING && !weir_words_apply_pending(table))
        *failed = true;
    return true;
}

bool weir_words_apply_override(struct weir_table *table, uint64_t number, struct override_record *own,
                               size_t len, bool *failed)
{
    struct table_recovery *recovery = table->recovery;
    struct word_home home;
    uint64_t at = UINT64_MAX;
    weir_recovery_note_number(recovery, number);
    if (weir_recovery_is_gone(recovery, own->key.hash, number, UINT64_MAX))
        return true;
    enum key_settling settling =
        weir_words_apply_pending(table) ? settle_word_key(table, own->key.hash, &home) : NO_MEMORY;
    if (settling == NO_MEMORY) {
        *failed = true;
        return true;
    }
    uint64_t there = recovered_word(home.slot);
    if (settling == WAS_THERE && !record_counts(number, UINT64_MAX, *home.number, word_spent(there)))
        return true;
    if (settling == WAS_THERE && slot_kind(there) == SLOT_HELD)
        at = slot_value(there);
    own->slot = home.slot;
    if (!weir_recovery_override(recovery, own, len, &at)) {
        *failed = true;
        return true;
    }
    put_recovered_word(home.slot, own->key.hash, slot_pack(SLOT_HELD, 0, at));
    if (table->is_exact) {
        struct exact_name name = weir_exact_name(table, own->key.bytes, own->key.len);
        put_witness(&home, name.rest, name.form);
    }
    *home.number = number;
    return true;
}

/* ---- the end ---- */

static uint64_t drained_word(const struct edition *edition, uint64_t word, int64_t now)
{
    int64_t state[SLOT_STATE];
    const struct limit *limit = &edition->policy->limits[0];
    weir_slot_word_unpack(limit, word, state);
    weir_recovery_drain(edition->policy, state, now);
    return weir_slot_word_pack(limit, edition, state);
}

static inline void check_drained(uint64_t word, const struct edition *edition, int64_t now)
{
    int64_t state[SLOT_STATE];
    weir_slot_word_unpack(&edition->policy->limits[0], word, state);
    INVARIANT(40, weir_recovery_is_drained(edition->policy, state, now));
}

/* A key that may be forgotten goes: it may have been, and have taken from what is shared since, which is what
 * it starts from when it comes in again. */
static void end_word_slot(struct weir_table *table, const struct edition *edition, const struct slot *slot,
                          uint64_t number, enum table_recover how, int64_t now)
{
    uint64_t hash = recovered_hash(slot), word = recovered_word(slot);
    if (hash == 0)
        return;
    if (slot_kind(word) == SLOT_HELD)
        put_recovered_word(slot, hash, slot_pack(SLOT_HELD, (unsigned)edition->generation & 3, 0));
    else if (how == TABLE_OPTIMISTIC)
        put_recovered_word(slot, 0, 0);
    else {
        bool idle = false;
        uint64_t next = bring_word_of_number(table, edition, number, word, &idle);
        if (how == TABLE_FLOOR && table->kind != &weir_table_own) {
            next = drained_word(edition, next, now);
            check_drained(next, edition, now);
        } else if (idle || weir_slot_is_idle(table, edition, hash, next, now))
            next = hash = 0;
        if (hash == 0)
            put_recovered_word(slot, 0, 0);
        else if (next != word)
            put_recovered_word(slot, hash, next);
    }
}

static void end_word_segment(struct weir_table *table, const struct edition *edition, uint64_t index,
                             enum table_recover how, int64_t now)
{
    struct segment *segment = &table->region->segments[index];
    const uint64_t *numbers = table->recovery->numbers[index];
    for (uint64_t i = 0; numbers && i < segment->lines * LINE_SLOTS; i++) {
        if (segment->witnesses &&
            atom_load(&segment->witnesses[i].high, memory_order_relaxed) == EXACT_NOBODY)
            put_recovered_word(region_slot(segment, i), 0,
                               0); /* of one that is gone nobody knows which key it was */
        end_word_slot(table, edition, region_slot(segment, i), numbers[i], how, now);
        table->recovered += recovered_hash(region_slot(segment, i)) != 0;
    }
    for (uint64_t line = 0; segment->numbers && line < segment->lines; line++)
        atom_store(&segment->numbers[line], table->recovery->highest + 1, memory_order_relaxed);
#if WEIR_ASSERTIONS
    for (uint64_t line = 0; segment->numbers && line < segment->lines; line++)
        INVARIANT(40, atom_load(&segment->numbers[line], memory_order_relaxed) > table->recovery->highest);
#endif
}

/* What is shared is what new keys start from: see start_word in slots.c. */
static void end_word_overflow(struct weir_table *table, const struct edition *edition, enum table_recover how,
                              int64_t now)
{
    const struct table_recovery *recovery = table->recovery;
    const struct slot *shared = &table->policies->overflow;
    uint64_t word = slot_pack(SLOT_PLAIN, (unsigned)edition->generation & 3, 0);
    if (recovery->has_shared && how != TABLE_OPTIMISTIC)
        word = bring_word_of_number(table, edition, recovery->shared_number, recovered_word(shared), NULL);
    if (how == TABLE_FLOOR && table->kind != &weir_table_own)
        word = drained_word(edition, word, now);
    if (how == TABLE_FLOOR && table->kind != &weir_table_own)
        check_drained(word, edition, now);
    INVARIANT(40, how != TABLE_EXACT || !recovery->has_shared ||
                      (uint16_t)edition->generation != record_generation(recovery->shared_number) ||
                      record_spent(word) == record_spent(recovered_word(shared)));
    put_recovered_word(shared, OVERFLOW_HASH, word);
    atom_store(&table->policies->overflow_number, recovery->highest + 1, memory_order_relaxed);
}

bool weir_words_recovered(struct weir_table *table, enum table_recover how, int64_t now)
{
    const struct edition *edition = atomic_load_explicit(&table->edition, memory_order_relaxed);
    uint64_t count = atom_load(&table->region->mapped, memory_order_relaxed);
    for (uint64_t s = 0; s < count; s++)
        end_word_segment(table, edition, s, how, now);
    atom_store(&table->region->occupied, table->recovered, memory_order_relaxed);
    end_word_overflow(table, edition, how, now);
    bool known = weir_overflow_filter_fill(table); /* who had taken from what is shared is not on the disk */
    if (table->kind == &weir_table_own && how != TABLE_EXACT)
        table->drained_ns = how == TABLE_FLOOR ? max64(now, 1) : 0;
    return known;
}
