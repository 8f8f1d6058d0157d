/* SPDX-License-Identifier: MIT */
/*
 * Wide states come back from a store, by one thread. What is in a slot meanwhile is the state as it was
 * captured, of the generation that the slot says. A key with limits of its own has a slot that says so, and
 * its first word tells which they are.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "core/idle.h"
#include "os/clock.h"
#include "table/change.h"
#include "table/overflow_filter.h"
#include "table/persist/records_wide.h"
#include "table/persist/recover.h"
#include "table/wide.h"
#include "table/wide_slots.h"

/*
 * Records of wide states, each under the lock of its stripe, with a number that is drawn there: so numbers
 * come in the order of states.
 */

#define VISIT_STEP   64    /* slots that are walked in one go */
#define RECORD_PIECE 32768 /* bytes of a state in a record that is one of several */

/* ---- one record ---- */

static unsigned char *put_record_word(unsigned char *to, uint64_t word)
{
    memcpy(to, &word, sizeof word);
    return to + sizeof word;
}

/* Length and bytes, in whole words. */
static unsigned char *put_record_bytes(unsigned char *to, const void *bytes, size_t len)
{
    to = put_record_word(to, len);
    if (len > 0)
        memcpy(to, bytes, len);
    memset(to + len, 0, whole_words(len) - len);
    return to + whole_words(len);
}

bool weir_override_put_record(const struct persist *persist, struct weir_table *table, const struct key *key,
                              struct buffer *out)
{
    const struct weir_policy *policy;
    int64_t *state;
    const char *text = weir_override_find(table, key, &policy, &state);
    if (!text)
        return false;
    if (!policy) { /* out of memory */
        out->failed = true;
        return true;
    }
    size_t len = strnlen(text, OVERRIDE_TEXT_MAX), words = policy->words * sizeof *state;
    size_t name = table->key_max > 0 ? 8 + whole_words(key->len) : 0;
    unsigned char *body =
        persist_put(out, persist->number, TABLE_OVERRIDE, 24 + name + whole_words(len) + words);
    if (!body)
        return true;
    body = put_record_word(body, key->hash);
    body = put_record_word(body, record_number(region_number(table->region), weir_table_generation(table)));
    if (table->key_max > 0)
        body = put_record_bytes(body, key->bytes, key->len);
    body = put_record_bytes(body, text, len);
    memcpy(body, state, words);
    ASSERT(weir_state_valid(policy, (const int64_t *)(const void *)body) && memcmp(body, state, words) == 0);
    return true;
}

void weir_gone_put(const struct persist *persist, uint64_t hash, uint64_t number, struct buffer *out)
{
    size_t before = buffer_len(out);
    unsigned char *body = persist_put(out, persist->number, TABLE_GONE, sizeof(struct gone_record));
    if (body)
        (void)put_record_word(put_record_word(body, hash), number);
    INVARIANT(39, out->failed || buffer_len(out) > before);
}

/* The head of a record: hash, number, and the stripe or the whole key. Gives its length. */
static size_t make_wide_head(const struct locked_stripe *locked, const struct wide_slot *slot,
                             unsigned char *head)
{
    struct weir_table *table = locked->table;
    unsigned char *to = put_record_word(head, wide_hash(slot));
    to = put_record_word(to, record_number(region_number(table->region), locked->edition->generation));
    if (wide_hash(slot) == OVERFLOW_HASH)
        to = put_record_word(to, locked->index);
    else if (table->key_max > 0)
        to = put_record_bytes(to, slot->contents + 1, slot->contents[0]);
    return (size_t)(to - head);
}

static size_t wide_head_size(const struct weir_table *table, const struct wide_slot *slot)
{
    if (wide_hash(slot) == OVERFLOW_HASH)
        return 24;
    return 16 + (table->key_max > 0 ? 8 + whole_words(slot->contents[0]) : 0);
}

/* Too long for one: the same bytes in pieces. */
static void put_in_pieces(const struct persist *persist, const unsigned char *head, size_t head_len,
                          const unsigned char *state, size_t state_len, struct buffer *out)
{
    size_t all = head_len + state_len;
    for (size_t at = 0; at < all;) {
        size_t from_head = at < head_len ? head_len - at : 0, rest = all - at - from_head;
        size_t len = rest < RECORD_PIECE ? rest : RECORD_PIECE;
        unsigned char *body = persist_put(out, persist->number, TABLE_PART, 32 + from_head + len);
        if (!body)
            return;
        memcpy(body, head, 16);
        body = put_record_word(body + 16, at);
        body = put_record_word(body, all);
        memcpy(body, head + head_len - from_head, from_head);
        memcpy(body + from_head, state + (at + from_head - head_len), len);
        at += from_head + len;
    }
}

static void put_wide_slot(const struct persist *persist, struct locked_stripe *locked,
                          const struct wide_ref *place, struct buffer *out)
{
    struct weir_table *table = locked->table;
    struct wide_slot *slot = place->slot;
    struct key key = {.hash = wide_hash(slot)};
    if (table->key_max > 0) {
        key.bytes = slot->contents + 1;
        key.len = slot->contents[0];
    }
    if ((slot->flags & WIDE_OVERRIDDEN) && weir_override_put_record(persist, table, &key, out))
        return;
#if WEIR_ASSERTIONS
    const struct weir_policy *own;
    int64_t *own_state;
    ASSERT(!(WIDE_OVERRIDDEN & slot->flags) || !weir_override_find(table, &key, &own, &own_state));
#endif
    weir_wide_convert(locked, place);
    size_t state_len = locked->edition->policy->words * sizeof(int64_t),
           head_len = wide_head_size(table, slot);
    const unsigned char *state = (const unsigned char *)wide_state(table, slot);
    unsigned char head[24 + 4096];
    if (head_len + state_len > PERSIST_BODY_MAX) {
        (void)make_wide_head(locked, slot, head);
        put_in_pieces(persist, head, head_len, state, state_len, out);
        return;
    }
    unsigned char *body = persist_put(out, persist->number, TABLE_WIDE, head_len + state_len);
    if (body)
        memcpy(body + make_wide_head(locked, slot, body), state, state_len);
}

/* ---- capturing ---- */

/* Where a slot is: its segment, and its line there. */
static bool find_wide_slot(const struct weir_table *table, const struct wide_slot *slot, uint64_t *segment,
                           uint64_t *line)
{
    const struct region *region = table->region;
    uint64_t count = atom_load(&region->mapped, memory_order_acquire);
    for (*segment = 0; *segment < count; (*segment)++) {
        const struct segment *at = &region->segments[*segment];
        *line = (uint64_t)((uintptr_t)slot - (uintptr_t)at->slots) / region->shape.slot_size;
        if (*line < at->lines)
            return true;
    }
    return false;
}

/* All keys that are called so: of whole ones nobody knows which was meant. false: there is none. */
static bool put_namesakes(const struct persist *persist, struct locked_stripe *locked, uint64_t hash,
                          struct buffer *out)
{
    bool found = false;
    for (uint64_t segment = locked->first; hash != OVERFLOW_HASH && segment < locked->segments; segment++) {
        uint64_t places = wide_places(locked, segment), home = wide_home(locked, hash, places);
        uint64_t reach = wide_reach(locked, segment, home);
        for (uint64_t distance = 0; distance <= reach; distance++) {
            struct wide_ref place = wide_place(locked, segment, wide_after(home, distance, places));
            if (wide_hash(place.slot) != hash)
                continue;
            put_wide_slot(persist, locked, &place, out);
            found = true;
        }
    }
    return found || hash == OVERFLOW_HASH; /* what is shared is never made less spent */
}

void weir_wide_capture(const struct persist *persist, struct wide_slot *slot, uint64_t hash,
                       struct buffer *out)
{
    struct weir_table *table = persist->owner;
    struct locked_stripe locked;
    uint64_t segment, line;
    if (!find_wide_slot(table, slot, &segment, &line))
        return;
    uint64_t run = table->region->segments[segment].lines / table->region->shape.stripes;
    if (!weir_wide_enter(&locked, table, line / run)) { /* out of memory */
        out->failed = true;
        return;
    }
    struct wide_ref place = {slot, segment, line % run};
    if (wide_hash(slot) == hash)
        put_wide_slot(persist, &locked, &place, out);
    else if (!put_namesakes(persist, &locked, hash, out))
        weir_gone_put(persist, hash, record_number(region_number(table->region), locked.edition->generation),
                      out);
    weir_wide_leave(&locked);
}

/* ---- all of them ---- */

struct wide_walk {
    const struct persist *persist;
    struct buffer *out;
    int64_t now;
};

static void capture_visited_slot(struct locked_stripe *locked, const struct wide_ref *place, void *arg)
{
    const struct wide_walk *walk = arg;
    if (!weir_wide_droppable(locked, place, walk->now))
        put_wide_slot(walk->persist, locked, place, walk->out);
}

bool weir_wide_record_walk(const struct persist *persist, uint64_t *cursor, struct buffer *out, size_t bytes)
{
    struct weir_table *table = persist->owner;
    struct wide_walk walk = {persist, out, region_time(table->region, clock_now())};
    while (buffer_len(out) < bytes && !out->failed) {
        if (*cursor >= weir_table_lines(table))
            return false;
        if (!weir_wide_visit(table, *cursor, VISIT_STEP, capture_visited_slot, &walk))
            out->failed = true;
        *cursor += VISIT_STEP;
    }
    return !out->failed;
}

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

/* The key's place, or one for it, under the lock of its stripe. NO_MEMORY: no lock, either. */
static enum key_settling settle_wide_key(struct locked_stripe *locked, struct weir_table *table,
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
static enum key_settling settle_wide_overflow(struct locked_stripe *locked, struct weir_table *table,
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

/* Who, number and what comes before the state; gives where the state begins, or 0. */
static size_t read_wide_head(struct weir_table *table, const unsigned char *body, size_t len,
                             struct wide_record *record)
{
    size_t at = 16;
    if (len < 24)
        return 0;
    *record = (struct wide_record){.key.hash = body_word_at(body, 0), .number = body_word_at(body, 8)};
    if (record->key.hash < OVERFLOW_HASH)
        return 0;
    if (record->key.hash == OVERFLOW_HASH) {
        record->stripe = body_word_at(body, 16);
        return record->stripe < table->region->shape.stripes ? 24 : 0;
    }
    if (table->key_max > 0) {
        record->key.len = body_word_at(body, 16);
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
    enum key_settling settling = record.key.hash == OVERFLOW_HASH
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
    INVARIANT(38, !number || (*number & RECORD_NUMBER_MAX) >= (record.number & RECORD_NUMBER_MAX));
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
    enum key_settling settling = settle_wide_key(&locked, table, &own->key, &place);
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
    INVARIANT(38, !number || (*number & RECORD_NUMBER_MAX) >= (drawn & RECORD_NUMBER_MAX));
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
    uint64_t hash = body_word_at(body, 0), number = body_word_at(body, 8), at = body_word_at(body, 16),
             all = body_word_at(body, 24);
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
        enum key_settling settling = settle_wide_overflow(&locked, table, stripe, &place);
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
#if WEIR_ASSERTIONS
    for (uint64_t stripe = 0; done && TABLE_FLOOR == how && stripe < table->region->shape.stripes; stripe++) {
        struct locked_stripe locked;
        if (!weir_wide_enter(&locked, table, stripe))
            continue;
        struct wide_ref shared = wide_place(&locked, 0, wide_places(&locked, 0) + WIDE_OVERFLOW);
        INVARIANT(40, wide_hash(shared.slot) == OVERFLOW_HASH); /* new keys start from it */
        weir_wide_leave(&locked);
    }
#endif
    free(ending.spare);
    return done &&
           weir_overflow_filter_fill(table); /* who had taken from what is shared is not on the disk */
}
